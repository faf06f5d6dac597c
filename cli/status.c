/* SPDX-License-Identifier: Apache-2.0 */
/* dray status: one look at what the mover is and has done. */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "cli/cli.h"
#include "cli/table.h"
#include "include/priv/bits.h"

static const char usage[] =
    "usage: dray status [--json] [--admin PATH]\n"
    "What the mover is doing: sessions, and counters by op, reason, path and tier since it started.\n"
    "Exit 3 when it is draining.\n" CLI_OPTIONS_HELP;

static void print_counts(const json_t *counters, const char *key, const char *title, bool bytes)
{
  const char *name, *head[] = {title, bytes ? ">bytes" : ">count", NULL};
  json_t *v;
  struct table t;
  table_init(&t, head);
  json_object_foreach(json_object_get(counters, key), name, v)
  {
    table_add(&t, "%s", name);
    if (bytes)
      table_add_bytes(&t, (uint64_t)json_integer_value(v));
    else
      table_add_count(&t, (uint64_t)json_integer_value(v));
  }
  if (t.n)
    putchar('\n');
  table_print(&t, stdout);
}

static void print_sessions(const json_t *sessions)
{
  static const char *const head[] = {">session", "tenant",      "agent", ">pid",   ">uid",     ">lane",
                                     ">regions", ">registered", ">done", ">bytes", ">refused", NULL};
  struct table t;
  size_t i;
  json_t *s;
  table_init(&t, head);
  json_array_foreach(json_object_get(sessions, "sessions"), i, s)
  {
    table_add_count(&t, cli_number(s, "id"));
    table_add(&t, "%s", json_string_value(json_object_get(s, "tenant")));
    table_add(&t, "%s", json_string_value(json_object_get(s, "agent")));
    table_add_count(&t, cli_number(s, "pid"));
    table_add_count(&t, cli_number(s, "uid"));
    table_add_count(&t, cli_number(s, "lane"));
    table_add_count(&t, cli_number(s, "regions"));
    table_add_bytes(&t, cli_number(s, "registered_bytes"));
    table_add_count(&t, cli_number(s, "done"));
    table_add_bytes(&t, cli_number(s, "bytes"));
    table_add_count(&t, cli_number(s, "refused"));
  }
  if (t.n)
    putchar('\n');
  table_print(&t, stdout);
}

int cli_status(int argc, char **argv)
{
  struct cli_options o = {0};
  int code;
  if (!cli_plain(argc, argv, usage, &o, &code))
    return code;
  json_t *s = cli_ask(o.admin, "status", NULL, &code);
  json_t *sessions = s ? cli_ask(o.admin, "sessions", NULL, &code) : NULL;
  if (!sessions) {
    json_decref(s);
    return code;
  }
  const char *state = json_string_value(json_object_get(s, "state"));
  if (o.json) {
    json_object_set(s, "session_list", json_object_get(sessions, "sessions"));
    cli_print_json(s);
  } else {
    const json_t *c = json_object_get(s, "counters");
    char up[32], rss[32], dir[32];
    printf("drayd %s on %s: %s, pid %llu, up %s, epoch %llu, %llu lanes\n",
           json_string_value(json_object_get(s, "version")), json_string_value(json_object_get(s, "node")), state,
           (unsigned long long)cli_number(s, "pid"),
           units_format_time(cli_number(s, "uptime_ms") * 1000000u, up, sizeof up),
           (unsigned long long)cli_number(s, "epoch"), (unsigned long long)cli_number(s, "lanes"));
    printf("%llu sessions, %llu cells, %llu leases, %llu slabs; rss %s, directory %s; hellos refused %llu\n",
           (unsigned long long)cli_number(s, "sessions"), (unsigned long long)cli_number(s, "cells"),
           (unsigned long long)cli_number(s, "leases"), (unsigned long long)cli_number(s, "slabs"),
           units_format_bytes(cli_number(s, "rss_kib") << 10, rss, sizeof rss),
           units_format_bytes(cli_number(s, "directory_bytes"), dir, sizeof dir),
           (unsigned long long)cli_number(s, "refused_hellos"));
    printf("directives %llu taken, %llu completed; items %llu; misses %llu; demoted %llu, evicted %llu; quarantined "
           "%llu\n",
           (unsigned long long)cli_number(c, "taken"), (unsigned long long)cli_number(c, "completed"),
           (unsigned long long)cli_number(c, "items"), (unsigned long long)cli_number(c, "misses"),
           (unsigned long long)cli_number(c, "demoted"), (unsigned long long)cli_number(c, "evicted"),
           (unsigned long long)cli_number(c, "quarantined"));
    const json_t *p = json_object_get(s, "poison");
    char barred[32];
    printf("poison: %llu units found, %llu cells hit; %s barred now in %llu units; %llu leases told\n",
           (unsigned long long)cli_number(p, "units"), (unsigned long long)cli_number(p, "cells"),
           units_format_bytes(cli_number(p, "barred_bytes"), barred, sizeof barred),
           (unsigned long long)cli_number(p, "barred_units"), (unsigned long long)cli_number(p, "notices"));
    cli_print_rules(s);
    cli_print_peers(s);
    print_sessions(sessions);
    print_counts(c, "by_op", "op", false);
    print_counts(c, "by_reason", "reason", false);
    print_counts(c, "hits_by_tier", "hits by tier", false);
    print_counts(c, "bytes_by_tier", "bytes by tier", true);
    print_counts(c, "bytes_by_path", "bytes by path", true);
  }
  code = state && strcmp(state, "serving") == 0 ? EXIT_OK : EXIT_DEGRADED;
  json_decref(sessions);
  json_decref(s);
  return code;
}
