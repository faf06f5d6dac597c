/* SPDX-License-Identifier: Apache-2.0 */
/* dray cells: what is kept, page by page. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/units.h"
#include "cli/cli.h"
#include "cli/table.h"
#include "include/priv/bits.h"

#define PAGE 1000u

static const char usage[] =
    "usage: dray cells [--tenant NAME] [--tier TIER] [--limit N] [--poisoned] [--json] [--admin PATH]\n"
    "       dray cells --revoke KEY --tenant NAME [--json] [--admin PATH]\n"
    "Lists cells (default: the first 100; --limit 0: all of them).\n"
    "--poisoned: bad memory that was found, which slab, where, how much, and the first cell "
    "that had its bytes there.\n"
    "--revoke: nobody gets that cell any more (QUARANTINED), and engines give their leases on it back: they have\n"
    "revoke_grace of the configuration, then their session ends.\n" CLI_OPTIONS_HELP;

struct query {
  const char *tenant, *tier;
  uint64_t limit; /* 0: all */
};

static json_t *ask_page(const struct cli_options *o, const struct query *q, uint64_t cursor, uint64_t n, int *ret_code)
{
  json_t *args = json_object();
  json_object_set_new(args, "limit", cli_u64(n));
  json_object_set_new(args, "cursor", cli_u64(cursor));
  if (q->tenant)
    json_object_set_new(args, "tenant", json_string(q->tenant));
  if (q->tier)
    json_object_set_new(args, "tier", json_string(q->tier));
  return cli_ask(o->admin, "cells", args, ret_code);
}

/* All pages up to the limit into one array. NULL after a message. *ret_more: there are cells beyond the limit, perhaps.
 */
static json_t *ask_all(const struct cli_options *o, const struct query *q, bool *ret_more, int *ret_code)
{
  json_t *all = json_array();
  uint64_t cursor = 0;
  for (;;) {
    uint64_t left = q->limit ? q->limit - json_array_size(all) : PAGE;
    json_t *page = ask_page(o, q, cursor, MIN_OF(left, (uint64_t)PAGE), ret_code);
    if (!page) {
      json_decref(all);
      return NULL;
    }
    json_int_t next = json_integer_value(json_object_get(page, "cursor"));
    json_array_extend(all, json_object_get(page, "cells"));
    json_decref(page);
    cursor = next > 0 ? (uint64_t)next : 0;
    while (q->limit && json_array_size(all) > q->limit) /* a mover may give a page with a few more */
      json_array_remove(all, json_array_size(all) - 1);
    *ret_more = cursor != 0;
    if (cursor == 0 || (q->limit && json_array_size(all) >= q->limit))
      return all;
  }
}

static void print_cells(const json_t *all, bool more)
{
  static const char *const head[] = {"key", "tenant", "agent", ">bytes", "scope", "taint", "state", "tiers", NULL};
  struct table t;
  size_t i, k;
  json_t *c, *tier;
  table_init(&t, head);
  json_array_foreach(all, i, c)
  {
    char tiers[128] = "";
    size_t n = 0;
    json_array_foreach(json_object_get(c, "tiers"), k, tier)
    {
      if (n < sizeof tiers)
        n += (size_t)snprintf(tiers + n, sizeof tiers - n, "%s%s", k ? "," : "", json_string_value(tier));
    }
    static const char *const fields[] = {"key", "tenant", "agent"}, *const marks[] = {"scope", "taint", "state"};
    for (k = 0; k < ARRAY_LEN(fields); k++)
      table_add(&t, "%s", json_string_value(json_object_get(c, fields[k])));
    table_add_count(&t, (uint64_t)json_integer_value(json_object_get(c, "bytes")));
    for (k = 0; k < ARRAY_LEN(marks); k++)
      table_add(&t, "%s", json_string_value(json_object_get(c, marks[k])));
    table_add(&t, "%s", tiers);
  }
  table_print(&t, stdout);
  if (json_array_size(all) == 0)
    puts("no cells");
  else if (more)
    puts("... and more (--limit N, 0: all)");
}

static const char *when(uint64_t ms, char buf[32])
{
  time_t t = (time_t)(ms / 1000);
  struct tm tm;
  if (!gmtime_r(&t, &tm) || !strftime(buf, 32, "%Y-%m-%dT%H:%M:%SZ", &tm))
    snprintf(buf, 32, "?");
  return buf;
}

static int cells_poisoned(const struct cli_options *o, const struct query *q)
{
  static const char *const head[] = {"when",   "tier",   "slab", ">offset",   ">unit", ">slots",
                                     ">cells", "tenant", "cell", ">cell off", "state", NULL};
  json_t *all = json_array(), *b;
  uint64_t cursor = 0;
  size_t i;
  int code;
  do {
    json_t *args = json_object();
    json_object_set_new(args, "cursor", cli_u64(cursor));
    json_t *page = cli_ask(o->admin, "poisoned", args, &code);
    if (!page) {
      json_decref(all);
      return code;
    }
    json_array_foreach(json_object_get(page, "poisoned"), i, b)
    {
      const char *tier = json_string_value(json_object_get(b, "tier")),
                 *tenant = json_string_value(json_object_get(b, "tenant"));
      bool show =
          (!q->tier || (tier && !strcmp(q->tier, tier))) && (!q->tenant || (tenant && !strcmp(q->tenant, tenant)));
      if (show && (!q->limit || json_array_size(all) < q->limit))
        json_array_append(all, b);
    }
    cursor = cli_number(page, "cursor");
    json_decref(page);
  } while (cursor);
  if (o->json) {
    json_t *j = json_object();
    json_object_set_new(j, "poisoned", all);
    cli_print_new(j);
    return EXIT_OK;
  }
  struct table t;
  table_init(&t, head);
  json_array_foreach(all, i, b)
  {
    char time[32];
    const char *key = json_string_value(json_object_get(b, "key"));
    table_add(&t, "%s", when(cli_number(b, "when_ms"), time));
    table_add(&t, "%s", json_string_value(json_object_get(b, "tier")));
    table_add(&t, "%#llx", (unsigned long long)cli_number(b, "slab"));
    table_add_count(&t, cli_number(b, "off"));
    table_add_bytes(&t, cli_number(b, "unit"));
    table_add_count(&t, cli_number(b, "slots"));
    table_add_count(&t, cli_number(b, "cells"));
    table_add(&t, "%s", json_string_value(json_object_get(b, "tenant")));
    table_add(&t, "%s", key && *key ? key : "-");
    table_add_count(&t, cli_number(b, "cell_off"));
    table_add(&t, "%s%s", json_is_true(json_object_get(b, "barred")) ? "barred" : "gone",
              json_is_true(json_object_get(b, "proven")) ? "" : ", an engine's word");
  }
  table_print(&t, stdout);
  if (json_array_size(all) == 0)
    puts("no bad memory is known");
  json_decref(all);
  return EXIT_OK;
}

static int cells_revoke(const struct cli_options *o, const char *tenant, const char *key)
{
  int code;
  if (!tenant || strlen(key) != 32 || strspn(key, "0123456789abcdefABCDEF") != 32)
    return cli_wrong("cells", "--revoke: need --tenant and a key of 32 hex digits, as `dray cells` shows it");
  json_t *a = cli_ask(o->admin, "revoke", json_pack("{s:s,s:s}", "tenant", tenant, "key", key), &code);
  if (!a)
    return code;
  if (o->json)
    cli_print_json(a);
  else
    printf("revoked: nobody gets it any more; who has leases on it has %llu ms to end them (dray status)\n",
           (unsigned long long)cli_number(a, "grace_ms"));
  json_decref(a);
  return EXIT_OK;
}

int cli_cells(int argc, char **argv)
{
  static const struct option opts[] = {{"tenant", required_argument, NULL, 't'}, {"tier", required_argument, NULL, 'r'},
                                       {"limit", required_argument, NULL, 'l'},  {"poisoned", no_argument, NULL, 'p'},
                                       {"revoke", required_argument, NULL, 'v'}, CLI_OPTIONS};
  struct cli_options o = {0};
  struct query q = {.limit = 100};
  int code;
  const char *revoke = NULL;
  bool more, poisoned = false;
  optind = 1;
  for (int c; (c = getopt_long(argc, argv, "", opts, NULL)) != -1;) {
    if (c == CLI_HELP)
      return cli_help(usage);
    if (c == 't')
      q.tenant = optarg;
    else if (c == 'p')
      poisoned = true;
    else if (c == 'v')
      revoke = optarg;
    else if (c == 'r' && dray_tier_by_name(optarg))
      q.tier = optarg;
    else if (c == 'r')
      return cli_wrong("cells", "--tier: '%s' is none of hbm dram numa_far cxl remote_dram disk remote", optarg);
    else if (c == 'l' && units_count(optarg, 0, UINT32_MAX, &q.limit) < 0)
      return cli_wrong("cells", "--limit: need 0..4294967295, have '%s'", optarg);
    else if (c != 'l' && !cli_option(&o, c, optarg))
      return cli_usage(usage);
  }
  if (optind != argc)
    return cli_wrong("cells", "unexpected argument '%s'", argv[optind]);
  if (revoke)
    return cells_revoke(&o, q.tenant, revoke);
  if (poisoned)
    return cells_poisoned(&o, &q);
  json_t *all = ask_all(&o, &q, &more, &code);
  if (!all)
    return code;
  if (o.json) {
    json_t *j = json_object();
    json_object_set(j, "cells", all);
    json_object_set_new(j, "more", json_boolean(more));
    cli_print_new(j);
  } else {
    print_cells(all, more);
  }
  json_decref(all);
  return EXIT_OK;
}
