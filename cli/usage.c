/* SPDX-License-Identifier: Apache-2.0 */
/* dray usage: the ledger by request, tenant or pool; what is occupied now from the mover, if it runs. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/units.h"
#include "cli/cli.h"
#include "cli/table.h"
#include "include/priv/bits.h"

static const char usage[] =
    "usage: dray usage --by request|tenant|pool [--since TIME] [--tenant NAME] [--limit N] [--db FILE] [--json]\n"
    "Access (bytes on local tiers, which are hbm and dram, and on remote ones, share and time), lookups (found local,\n"
    "remote, not at all, by reason) and refusals since TIME ago (default 1h; whole minutes), largest first; occupancy\n"
    "is what is charged now (tenant, pool), and what was written (request).\n"
    "  --db       the ledger's file (default: as the mover says; it writes once a second)\n"
    "  --limit    rows shown (default 50)\n"
    "Request 0 is what no engine gave a request for.\n" CLI_OPTIONS_HELP;

#ifdef HAVE_SQLITE
#include <sqlite3.h>

enum { BY_REQUEST = 0, BY_TENANT = 1, BY_POOL = 2 };
static const char *const by_words[] = {"request", "tenant", "pool"};

struct usage_ask {
  int by;
  uint64_t since_s, limit;
  const char *tenant, *db;
};

#define LOCAL "tier IN ('hbm','dram')"
/* Grouped: columns 0 and 1 name the row. A request is a tenant's: two tenants' request 7 are two. */
static const char query[] =
    "SELECT %s, SUM(directives), SUM((read+written)*(" LOCAL ")), SUM((read+written)*NOT(" LOCAL ")),"
    " SUM(written), SUM(ns), CAST(SUM(ns*NOT(" LOCAL ")) AS INTEGER), SUM(hits*(" LOCAL ")), SUM(hits*NOT(" LOCAL ")),"
    " SUM(absent), SUM(evicted), SUM(other), SUM(refused), MAX(reason)"
    " FROM usage WHERE minute >= ?1 AND (?2 IS NULL OR tenant=?2) GROUP BY 1, 2 ORDER BY SUM(read+written) DESC,"
    " SUM(directives) DESC LIMIT ?3";
static const char *const group[] = {"tenant, request", "tenant, ''", "CASE tier WHEN '' THEN '-' ELSE tier END, ''"};
static const char *const numbers[] = {"directives", "bytes_local", "bytes_remote", "bytes_written",
                                      "ns",         "ns_remote",   "hits_local",   "hits_remote",
                                      "absent",     "evicted",     "missed",       "refused"};

static double ratio(double a, double b)
{
  return a + b > 0 ? a / (a + b) : 0;
}

static json_t *row_of(const struct usage_ask *a, sqlite3_stmt *q)
{
  json_t *o = json_object();
  json_object_set_new(o, a->by == BY_POOL ? "tier" : "tenant", json_string((const char *)sqlite3_column_text(q, 0)));
  if (a->by == BY_REQUEST)
    json_object_set_new(o, "request", json_integer(sqlite3_column_int64(q, 1)));
  for (int i = 0; i < (int)ARRAY_LEN(numbers); i++)
    json_object_set_new(o, numbers[i], json_integer(sqlite3_column_int64(q, 2 + i)));
  json_object_set_new(o, "reason", json_string((const char *)sqlite3_column_text(q, 14)));
  double near = (double)cli_number(o, "bytes_local"), far = (double)cli_number(o, "bytes_remote"),
         hit = (double)cli_number(o, "hits_local"),
         rest = (double)(cli_number(o, "hits_remote") + cli_number(o, "absent") + cli_number(o, "evicted") +
                         cli_number(o, "missed"));
  json_object_set_new(o, "remote_share", json_real(ratio(far, near)));
  json_object_set_new(o, "local_hit_rate", json_real(ratio(hit, rest)));
  return o;
}

/* NULL after a message. */
static json_t *read_ledger(const struct usage_ask *a)
{
  sqlite3 *db = NULL;
  sqlite3_stmt *q = NULL;
  char sql[1024];
  json_t *list = NULL;
  snprintf(sql, sizeof sql, query, group[a->by]);
  int rc = sqlite3_open_v2(a->db, &db, SQLITE_OPEN_READONLY, NULL);
  if (rc == SQLITE_OK) {
    sqlite3_busy_timeout(db, 5000);
    rc = sqlite3_prepare_v2(db, sql, -1, &q, NULL);
  }
  if (rc == SQLITE_OK) {
    uint64_t now = (uint64_t)time(NULL);
    list = json_array();
    sqlite3_bind_int64(q, 1, (sqlite3_int64)(now > a->since_s ? (now - a->since_s) / 60 * 60 : 0));
    if (a->tenant)
      sqlite3_bind_text(q, 2, a->tenant, -1, SQLITE_STATIC);
    sqlite3_bind_int64(q, 3, (sqlite3_int64)a->limit);
    while ((rc = sqlite3_step(q)) == SQLITE_ROW)
      json_array_append_new(list, row_of(a, q));
  }
  if (rc != SQLITE_DONE) {
    fprintf(stderr, "dray usage: %s: %s (the ledger is its owner's: the mover's user or root)\n", a->db,
            db ? sqlite3_errmsg(db) : "no memory");
    json_decref(list);
    list = NULL;
  }
  sqlite3_finalize(q);
  sqlite3_close(db);
  return list;
}

/* ---- occupancy: the mover's books ---- */

/* One tenant's, or all tenants', sum over what `pick` does not leave out. */
static void occupy(json_t *row, const json_t *tenants, const char *tenant, const char *tier)
{
  static const char *const keys[] = {"charged", "peak", "reserve", "limit"};
  uint64_t sum[4] = {0};
  size_t i, k;
  json_t *t, *r;
  bool limited = false;
  json_array_foreach(json_object_get(tenants, "tenants"), i, t)
  {
    if (tenant && strcmp(tenant, cli_text(t, "tenant")))
      continue;
    json_array_foreach(json_object_get(t, "tiers"), k, r)
    {
      if (tier && strcmp(tier, cli_text(r, "tier")))
        continue;
      limited |= json_is_integer(json_object_get(r, "limit"));
      for (size_t n = 0; n < ARRAY_LEN(keys); n++)
        sum[n] += cli_number(r, keys[n]);
    }
  }
  for (size_t n = 0; n < ARRAY_LEN(keys); n++)
    json_object_set_new(row, keys[n], n == 3 && !limited ? json_null() : cli_u64(sum[n]));
}

/* What promised limits add up to, as a share of what is there. */
static void oversell(json_t *row, const json_t *tiers, const char *tier)
{
  size_t i;
  json_t *t;
  json_array_foreach(json_object_get(tiers, "tiers"), i, t)
  {
    uint64_t capacity = cli_number(t, "capacity");
    if (strcmp(tier, cli_text(t, "tier")))
      continue;
    json_object_set_new(row, "capacity", cli_u64(capacity));
    json_object_set_new(row, "oversell", json_real(capacity ? (double)cli_number(row, "limit") / (double)capacity : 0));
  }
}

static void add_occupancy(const struct usage_ask *a, const char *admin, json_t *rows)
{
  size_t i;
  json_t *row;
  int code;
  json_t *tenants = cli_ask(admin, "tenants", NULL, &code);
  json_t *tiers = tenants ? cli_ask(admin, "tiers", NULL, &code) : NULL;
  json_array_foreach(rows, i, row)
  {
    if (tiers && a->by == BY_TENANT)
      occupy(row, tenants, cli_text(row, "tenant"), NULL);
    if (tiers && a->by == BY_POOL) {
      occupy(row, tenants, NULL, cli_text(row, "tier"));
      oversell(row, tiers, cli_text(row, "tier"));
    }
  }
  json_decref(tenants);
  json_decref(tiers);
}

/* How the rows' shares are spread: requests with no, some, only remote bytes. */
static json_t *spread(const json_t *rows)
{
  uint64_t n[4] = {0};
  size_t i;
  json_t *row;
  json_array_foreach(rows, i, row)
  {
    double s = json_real_value(json_object_get(row, "remote_share"));
    bool moved = cli_number(row, "bytes_local") || cli_number(row, "bytes_remote");
    n[!moved ? 3 : s <= 0 ? 0 : s >= 1 ? 2 : 1]++;
  }
  return json_pack("{s:I,s:I,s:I,s:I}", "only_local", (json_int_t)n[0], "mixed", (json_int_t)n[1], "only_remote",
                   (json_int_t)n[2], "moved_nothing", (json_int_t)n[3]);
}

static void print_rows(const struct usage_ask *a, const json_t *rows)
{
  static const char *const head[] = {"tenant",   "request", ">directives", ">local",    ">remote",
                                     ">share",   ">time",   ">hit local",  ">hit rate", ">missed",
                                     ">refused", "reason",  ">occupied",   NULL};
  struct table t;
  size_t i;
  json_t *r;
  char buf[32];
  const char *names[ARRAY_LEN(head)];
  memcpy(names, head, sizeof names);
  if (a->by == BY_POOL)
    names[0] = "pool";
  table_init(&t, names);
  json_array_foreach(rows, i, r)
  {
    table_add(&t, "%s", cli_text(r, a->by == BY_POOL ? "tier" : "tenant"));
    if (a->by == BY_REQUEST)
      table_add(&t, "%llu", (unsigned long long)cli_number(r, "request"));
    else
      table_add(&t, "-");
    table_add_count(&t, cli_number(r, "directives"));
    table_add_bytes(&t, cli_number(r, "bytes_local"));
    table_add_bytes(&t, cli_number(r, "bytes_remote"));
    table_add(&t, "%.0f%%", 100 * json_real_value(json_object_get(r, "remote_share")));
    table_add(&t, "%s", units_format_time(cli_number(r, "ns"), buf, sizeof buf));
    table_add_count(&t, cli_number(r, "hits_local"));
    table_add(&t, "%.0f%%", 100 * json_real_value(json_object_get(r, "local_hit_rate")));
    table_add_count(&t, cli_number(r, "absent") + cli_number(r, "evicted") + cli_number(r, "missed"));
    table_add_count(&t, cli_number(r, "refused"));
    table_add(&t, "%s", cli_text(r, "reason"));
    if (a->by != BY_REQUEST && !json_object_get(r, "charged"))
      table_add(&t, "-"); /* no mover to ask */
    else
      table_add_bytes(&t, cli_number(r, a->by == BY_REQUEST ? "bytes_written" : "charged"));
  }
  table_print(&t, stdout);
}

static int run(struct usage_ask *a, const struct cli_options *o)
{
  int code = EXIT_OK;
  json_t *config = NULL;
  if (!a->db) {
    config = cli_ask(o->admin, "config", NULL, &code);
    if (!config)
      return code;
    a->db = json_string_value(json_object_get(json_object_get(config, "usage"), "path"));
    if (!a->db) {
      fprintf(stderr,
              "dray usage: this mover keeps no ledger: drayd.yaml: usage: {path: /var/lib/dray/usage/usage.db}\n");
      json_decref(config);
      return EXIT_ERROR;
    }
  }
  json_t *rows = read_ledger(a);
  if (rows && config)
    add_occupancy(a, o->admin, rows);
  if (rows && o->json) {
    json_t *all = json_object();
    json_object_set_new(all, "by", json_string(by_words[a->by]));
    json_object_set_new(all, "since_s", cli_u64(a->since_s));
    json_object_set_new(all, "remote_shares", spread(rows));
    json_object_set(all, "rows", rows);
    cli_print_new(all);
  } else if (rows) {
    print_rows(a, rows);
  }
  code = rows ? EXIT_OK : EXIT_ERROR;
  json_decref(rows);
  json_decref(config);
  return code;
}

int cli_usage_report(int argc, char **argv)
{
  static const struct option opts[] = {
      {"by", required_argument, NULL, 'b'},     {"since", required_argument, NULL, 's'},
      {"tenant", required_argument, NULL, 't'}, {"limit", required_argument, NULL, 'l'},
      {"db", required_argument, NULL, 'd'},     CLI_OPTIONS};
  struct cli_options o = {0};
  struct usage_ask a = {.by = -1, .since_s = 3600, .limit = 50};
  uint64_t ns;
  optind = 1;
  for (int c; (c = getopt_long(argc, argv, "", opts, NULL)) != -1;) {
    if (c == CLI_HELP)
      return cli_help(usage);
    if (c == 'b') {
      for (int i = 0; i < 3; i++)
        if (!strcmp(optarg, by_words[i]))
          a.by = i;
      if (a.by < 0)
        return cli_wrong("usage", "--by: '%.40s' is none of request, tenant, pool", optarg);
    } else if (c == 's') {
      if (units_time(optarg, &ns) < 0 || ns < 1000000000u)
        return cli_wrong("usage", "--since: '%.40s' is not a time of at least 1s, such as 1h", optarg);
      a.since_s = ns / 1000000000u;
    } else if (c == 't') {
      a.tenant = optarg;
    } else if (c == 'l') {
      if (units_count(optarg, 1, 1000000, &a.limit) < 0)
        return cli_wrong("usage", "--limit: '%.40s' is not in 1..1000000", optarg);
    } else if (c == 'd') {
      a.db = optarg;
    } else if (!cli_option(&o, c, optarg)) {
      return cli_usage(usage);
    }
  }
  if (optind != argc)
    return cli_wrong("usage", "unexpected argument '%s'", argv[optind]);
  if (a.by < 0)
    return cli_wrong("usage", "--by: need request, tenant or pool");
  return run(&a, &o);
}
#else
int cli_usage_report(int argc, char **argv)
{
  for (int i = 1; i < argc; i++)
    if (!strcmp(argv[i], "--help"))
      return cli_help(usage);
  fputs("dray usage: built without SQLite (libsqlite3-dev, -Dusage=enabled)\n", stderr);
  return EXIT_ERROR;
}
#endif
