/* SPDX-License-Identifier: Apache-2.0 */
/* dray top: counters as rates. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "bench/stage.h"
#include "cli/cli.h"
#include "cli/table.h"
#include "include/priv/bits.h"

static const char usage[] = "usage: dray top [--once] [--count N] [--interval TIME] [--json] [--admin PATH]\n"
                            "Rates per second, one refresh per interval (default 1s). --once: one refresh; --json: one "
                            "line each.\n" CLI_OPTIONS_HELP;

/* What changed from one answer to the next, per second. */
static double rate(const json_t *was, const json_t *is, const char *group, const char *key, double seconds)
{
  const json_t *a = json_object_get(was, "counters"), *b = json_object_get(is, "counters");
  if (group) {
    a = json_object_get(a, group);
    b = json_object_get(b, group);
  }
  json_int_t d = json_integer_value(json_object_get(b, key)) - json_integer_value(json_object_get(a, key));
  return d > 0 ? (double)d / seconds : 0;
}

static const struct {
  const char *key, *words;
} plain[] = {{"completed", "directives/s"}, {"items", "items/s"},     {"misses", "misses/s"},
             {"demoted", "demoted/s"},      {"evicted", "evicted/s"}, {"again", "again/s"}};
static const struct {
  const char *group, *words;
  bool bytes;
} groups[] = {{"by_op", "op", false},
              {"hits_by_tier", "hits by tier", false},
              {"bytes_by_tier", "tier", true},
              {"bytes_by_path", "path", true},
              {"by_reason", "reason", false}};

static void show_json(const json_t *was, const json_t *is, double seconds)
{
  json_t *o = json_object(), *v;
  const char *key;
  json_object_set_new(o, "schema_version", json_integer(1));
  json_object_set_new(o, "seconds", json_real(seconds));
  json_object_set(o, "sessions", json_object_get(is, "sessions"));
  json_object_set(o, "cells", json_object_get(is, "cells"));
  json_object_set(o, "leases", json_object_get(is, "leases"));
  for (size_t i = 0; i < ARRAY_LEN(plain); i++)
    json_object_set_new(o, plain[i].key, json_real(rate(was, is, NULL, plain[i].key, seconds)));
  for (size_t i = 0; i < ARRAY_LEN(groups); i++) {
    json_t *g = json_object();
    json_object_foreach(json_object_get(json_object_get(is, "counters"), groups[i].group), key, v)
    {
      json_object_set_new(g, key, json_real(rate(was, is, groups[i].group, key, seconds)));
    }
    json_object_set_new(o, groups[i].group, g);
  }
  char *text = json_dumps(o, JSON_COMPACT);
  if (text)
    puts(text);
  free(text);
  json_decref(o);
}

static void show_people(const json_t *was, const json_t *is, double seconds, bool clear)
{
  static const char *const head[] = {"what", "which", ">per second", NULL};
  struct table t;
  const char *key;
  json_t *v;
  if (clear)
    fputs("\033[H\033[J", stdout);
  printf("%s: %lld sessions, %lld cells, %lld leases\n", json_string_value(json_object_get(is, "node")),
         (long long)json_integer_value(json_object_get(is, "sessions")),
         (long long)json_integer_value(json_object_get(is, "cells")),
         (long long)json_integer_value(json_object_get(is, "leases")));
  for (size_t i = 0; i < ARRAY_LEN(plain); i++)
    printf("%s%s %.1f", i ? "  " : "", plain[i].words, rate(was, is, NULL, plain[i].key, seconds));
  putchar('\n');
  table_init(&t, head);
  for (size_t i = 0; i < ARRAY_LEN(groups); i++)
    json_object_foreach(json_object_get(json_object_get(is, "counters"), groups[i].group), key, v)
    {
      double r = rate(was, is, groups[i].group, key, seconds);
      if (r <= 0)
        continue;
      table_add(&t, "%s", groups[i].words);
      table_add(&t, "%s", key);
      if (groups[i].bytes)
        table_add_bytes(&t, (uint64_t)r);
      else
        table_add(&t, "%.1f", r);
    }
  table_print(&t, stdout);
}

int cli_top(int argc, char **argv)
{
  static const struct option opts[] = {{"once", no_argument, NULL, 'o'},
                                       {"count", required_argument, NULL, 'n'},
                                       {"interval", required_argument, NULL, 'i'},
                                       CLI_OPTIONS};
  struct cli_options o = {0};
  uint64_t count = 0, interval = 1000000000u;
  int code;
  optind = 1;
  for (int c; (c = getopt_long(argc, argv, "", opts, NULL)) != -1;) {
    if (c == CLI_HELP)
      return cli_help(usage);
    if (c == 'o')
      count = 1;
    else if (c == 'n' && units_count(optarg, 1, UINT32_MAX, &count) < 0)
      return cli_wrong("top", "--count: need 1..4294967295, have '%s'", optarg);
    else if (c == 'i' && (units_time(optarg, &interval) < 0 || interval < 10000000u || interval > 3600000000000u))
      return cli_wrong("top", "--interval: need 10ms..3600s, have '%s'", optarg);
    else if (c != 'n' && c != 'i' && !cli_option(&o, c, optarg))
      return cli_usage(usage);
  }
  if (optind != argc)
    return cli_wrong("top", "unexpected argument '%s'", argv[optind]);
  bool clear = !o.json && count != 1 && isatty(STDOUT_FILENO);
  uint64_t then = stage_now_ns();
  json_t *was = cli_ask(o.admin, "status", NULL, &code);
  for (uint64_t i = 0; was && (count == 0 || i < count); i++) {
    poll(NULL, 0, (int)(interval / 1000000u));
    json_t *is = cli_ask(o.admin, "status", NULL, &code);
    uint64_t now = stage_now_ns();
    double seconds = (double)(now - then) / 1e9;
    then = now;
    if (is && o.json)
      show_json(was, is, seconds);
    else if (is)
      show_people(was, is, seconds, clear);
    json_decref(was);
    was = is;
    fflush(stdout);
    if (ferror(stdout))
      break; /* the reader went away */
  }
  json_decref(was);
  return code;
}
