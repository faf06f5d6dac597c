/* SPDX-License-Identifier: Apache-2.0 */
/* dray plan: what sharing saves, where a span should be, the three accounts. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cli/cli.h"
#include "cli/table.h"
#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "policy/plan.h"

static const char usage[] =
    "usage: dray plan [--tenants N] [--tokens N] [--bytes SIZE] [--token-time TIME] [--calibration FILE] [--json]\n"
    "       dray plan --placement TIER [--full] [--hot] [--room TIER]... [the above]\n"
    "       dray plan --ledger [--devices N] [--controller N] [--labour N] [--memory N] [--drill FILE] [the above]\n"
    "What N tenants that want the same span save by each tier: prefill tokens, resident bytes, and what one more "
    "costs.\n"
    "Default: 8 tenants, 4000 tokens, 64MiB, 100us a token, the planes' profiles. Needs no mover.\n"
    "  --placement  keep, promote, demote, spill or evict a span there, and why; --room: tiers that have room\n"
    "  --ledger     memory saved (--memory: cost of a GiB), what was added (costs, in whole units of money), and the\n"
    "               failure radius out of a noisy-neighbour drill's JSON report; what is not given is not guessed\n"
    "  --json       for scripts\n";

struct plan_options {
  struct profile_set set;
  struct plan_fleet fleet;
  struct plan_span span;
  uint64_t devices, controller, labour, memory;
  bool has_devices, has_controller, has_labour, has_memory, placement, ledger, json;
  const char *drill;
};

static char *file_read(const char *path, size_t *ret_n)
{
  FILE *f = fopen(path, "re");
  char *text = f ? malloc(MIB(4)) : NULL;
  size_t n = text ? fread(text, 1, MIB(4), f) : 0;
  int wrong = !text || ferror(f) || n == MIB(4) || n == 0;
  if (f)
    fclose(f);
  if (wrong) {
    fprintf(stderr, "dray plan: %s: cannot be read, or is not 1 byte to 4 MiB\n", path);
    free(text);
    return NULL;
  }
  *ret_n = n;
  return text;
}

static int calibration(struct plan_options *o, const char *path)
{
  size_t n;
  struct err e = {{0}};
  CLEAN_PTR char *text = file_read(path, &n);
  if (!text)
    return EXIT_ERROR;
  if (profile_parse(&o->set, text, n, &e) == 0)
    return EXIT_OK;
  fprintf(stderr, "dray plan: %s: %s\n", path, e.text);
  return EXIT_ERROR;
}

static int regimes(const struct plan_options *o)
{
  static const char *const head[] = {"tier",          "regime",       ">prefills", ">copies",
                                     ">tokens saved", ">bytes saved", ">one more", NULL};
  struct table t;
  json_t *list = json_array();
  table_init(&t, head);
  for (unsigned i = 1; i < DRAY_TIER_COUNT; i++) {
    struct plan_regime_cost c;
    if (!plan_tier(&o->set, i, &o->fleet, &c)) {
      fprintf(stderr, "dray plan: %s: these numbers overflow, or its bandwidth is not known\n", dray_tier_name(i));
      json_decref(list);
      return EXIT_ERROR;
    }
    json_array_append_new(list, json_pack("{s:s,s:s,s:o,s:o,s:o,s:o,s:o}", "tier", dray_tier_name(i), "regime",
                                          plan_regime_name(c.regime), "prefills", cli_u64(c.prefills), "copies",
                                          cli_u64(c.copies), "saved_tokens", cli_u64(c.saved_tokens), "saved_bytes",
                                          cli_u64(c.saved_bytes), "next_ns", cli_u64(c.next_ns)));
    if (o->json)
      continue;
    table_add(&t, "%s", dray_tier_name(i));
    table_add(&t, "%s", plan_regime_name(c.regime));
    table_add_count(&t, c.prefills);
    table_add_count(&t, c.copies);
    table_add_count(&t, c.saved_tokens);
    table_add_bytes(&t, c.saved_bytes);
    table_add_time(&t, c.next_ns);
  }
  if (o->json) {
    cli_print_new(json_pack("{s:s,s:o}", "label", o->set.label, "tiers", list));
    return EXIT_OK;
  }
  json_decref(list);
  table_print(&t, stdout);
  printf("profile: %s\n", o->set.label);
  return EXIT_OK;
}

static int placement(const struct plan_options *o)
{
  struct plan_placement v;
  struct plan_span p = o->span;
  char retain[32], again[32];
  p.bytes = o->fleet.bytes;
  p.tokens = o->fleet.tokens;
  p.ns_per_token = o->fleet.ns_per_token;
  if (!plan_place(&o->set, &p, &v)) {
    fprintf(stderr, "dray plan: these numbers overflow, or a bandwidth is not known\n");
    return EXIT_ERROR;
  }
  const char *to = v.to ? dray_tier_name(v.to) : "";
  if (o->json)
    cli_print_new(json_pack("{s:s,s:s,s:s,s:o,s:o}", "verdict", plan_verdict_name(v.verdict), "to", to, "why", v.why,
                            "retain_ns", cli_u64(v.retain_ns), "recompute_ns", cli_u64(v.recompute_ns)));
  else
    printf("%s%s%s: %s (retain %s, recompute %s)\n", plan_verdict_name(v.verdict), v.to ? " to " : "", to, v.why,
           units_format_time(v.retain_ns, retain, sizeof retain),
           units_format_time(v.recompute_ns, again, sizeof again));
  return EXIT_OK;
}

static json_t *given(bool has, uint64_t v)
{
  return has ? cli_u64(v) : json_null();
}

/* What the drill's report says about others' p99 and errors; NULL after a message. */
static json_t *radius(const char *path)
{
  size_t n;
  json_error_t je;
  CLEAN_PTR char *text = file_read(path, &n);
  json_t *report = text ? json_loadb(text, n, JSON_REJECT_DUPLICATES, &je) : NULL;
  json_t *others = json_incref(json_object_get(report, "others"));
  json_decref(report);
  if (text && !others)
    fprintf(stderr, "dray plan: %s: no JSON report of `dray drill noisy-neighbour` (need \"others\")\n", path);
  return others;
}

static int ledger(const struct plan_options *o)
{
  struct plan_regime_cost c;
  json_t *others = o->drill ? radius(o->drill) : json_null();
  if (!others)
    return EXIT_ERROR;
  if (!plan_tier(&o->set, DRAY_TIER_CXL, &o->fleet, &c)) {
    json_decref(others);
    fprintf(stderr, "dray plan: these numbers overflow, or a bandwidth is not known\n");
    return EXIT_ERROR;
  }
  unsigned __int128 worth = (unsigned __int128)c.saved_bytes * o->memory >> 30;
  json_t *l = json_pack("{s:{s:o,s:o,s:o},s:{s:o,s:o,s:o},s:o}", "saved", "bytes", cli_u64(c.saved_bytes), "tokens",
                        cli_u64(c.saved_tokens), "memory_worth",
                        given(o->has_memory, worth > INT64_MAX ? INT64_MAX : (uint64_t)worth), "added", "devices",
                        given(o->has_devices, o->devices), "controller", given(o->has_controller, o->controller),
                        "labour", given(o->has_labour, o->labour), "failure_radius", others);
  if (o->json) {
    cli_print_new(json_pack("{s:o}", "ledger", l));
    return EXIT_OK;
  }
  char saved[32];
  printf("saved           %s resident, %llu prefill tokens\n", units_format_bytes(c.saved_bytes, saved, sizeof saved),
         (unsigned long long)c.saved_tokens);
  if (o->has_memory)
    printf("                worth %llu\n", (unsigned long long)worth);
  const struct {
    const char *words;
    bool has;
    uint64_t v;
  } added[] = {{"devices", o->has_devices, o->devices},
               {"controller", o->has_controller, o->controller},
               {"labour", o->has_labour, o->labour}};
  for (size_t i = 0; i < ARRAY_LEN(added); i++) {
    if (added[i].has)
      printf("added           %s: %llu\n", added[i].words, (unsigned long long)added[i].v);
    else
      printf("added           %s: not stated (--%s)\n", added[i].words, added[i].words);
  }
  CLEAN_PTR char *text = o->drill ? json_dumps(json_object_get(l, "failure_radius"), JSON_COMPACT) : NULL;
  printf("failure radius  %s\n", text ? text : "not measured (--drill FILE)");
  json_decref(l);
  return EXIT_OK;
}

enum {
  O_TENANTS = 1,
  O_TOKENS,
  O_BYTES,
  O_TIME,
  O_CALIBRATION,
  O_PLACEMENT,
  O_FULL,
  O_HOT,
  O_ROOM,
  O_LEDGER,
  O_DEVICES,
  O_CONTROLLER,
  O_LABOUR,
  O_MEMORY,
  O_DRILL
};

static bool money(const char *arg, uint64_t *ret, bool *has)
{
  *has = units_count(arg, 0, INT64_MAX, ret) == 0;
  return *has;
}

static bool option(struct plan_options *o, int c, const char *arg)
{
  uint64_t n = 0;
  unsigned tier;
  switch (c) {
  case O_TENANTS:
    if (units_count(arg, 1, 1000000, &n) < 0)
      return false;
    o->fleet.tenants = (uint32_t)n;
    return true;
  case O_TOKENS:
    return units_count(arg, 0, INT64_MAX, &o->fleet.tokens) == 0;
  case O_BYTES:
    return units_bytes(arg, &o->fleet.bytes) == 0;
  case O_TIME:
    return units_time(arg, &o->fleet.ns_per_token) == 0;
  case O_PLACEMENT:
  case O_ROOM:
    tier = dray_tier_by_name(arg);
    if (c == O_ROOM)
      o->span.room |= (uint8_t)(1u << tier);
    else
      o->span.tier = (uint8_t)tier;
    o->placement |= c == O_PLACEMENT;
    return tier != 0;
  case O_FULL:
    return o->span.full = true;
  case O_HOT:
    return o->span.hot = true;
  case O_LEDGER:
    return o->ledger = true;
  case O_DEVICES:
    return money(arg, &o->devices, &o->has_devices);
  case O_CONTROLLER:
    return money(arg, &o->controller, &o->has_controller);
  case O_LABOUR:
    return money(arg, &o->labour, &o->has_labour);
  case O_MEMORY:
    return money(arg, &o->memory, &o->has_memory);
  case O_DRILL:
    o->drill = arg;
    return true;
  case CLI_JSON:
    return o->json = true;
  default:
    return false;
  }
}

int cli_plan(int argc, char **argv)
{
  static const struct option options[] = {{"tenants", required_argument, NULL, O_TENANTS},
                                          {"tokens", required_argument, NULL, O_TOKENS},
                                          {"bytes", required_argument, NULL, O_BYTES},
                                          {"token-time", required_argument, NULL, O_TIME},
                                          {"calibration", required_argument, NULL, O_CALIBRATION},
                                          {"placement", required_argument, NULL, O_PLACEMENT},
                                          {"full", no_argument, NULL, O_FULL},
                                          {"hot", no_argument, NULL, O_HOT},
                                          {"room", required_argument, NULL, O_ROOM},
                                          {"ledger", no_argument, NULL, O_LEDGER},
                                          {"devices", required_argument, NULL, O_DEVICES},
                                          {"controller", required_argument, NULL, O_CONTROLLER},
                                          {"labour", required_argument, NULL, O_LABOUR},
                                          {"memory", required_argument, NULL, O_MEMORY},
                                          {"drill", required_argument, NULL, O_DRILL},
                                          {"json", no_argument, NULL, CLI_JSON},
                                          {"help", no_argument, NULL, CLI_HELP},
                                          {NULL, 0, NULL, 0}};
  struct plan_options o = {.fleet = {8, 4000, MIB(64), 100000}};
  profile_defaults(&o.set);
  for (int c, at; at = optind, (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    if (c == CLI_HELP)
      return cli_help(usage);
    if (c == '?')
      return cli_usage(usage);
    if (c == O_CALIBRATION) {
      int code = calibration(&o, optarg);
      if (code != EXIT_OK)
        return code;
    } else if (!option(&o, c, optarg)) {
      return cli_wrong("plan", "%.60s: '%.60s' is not a number, size, time or tier in range", argv[at],
                       optarg ? optarg : "");
    }
  }
  if (optind != argc)
    return cli_wrong("plan", "unexpected argument '%.60s'", argv[optind]);
  if (o.placement && o.ledger)
    return cli_wrong("plan", "--placement and --ledger are two questions");
  return o.placement ? placement(&o) : o.ledger ? ledger(&o) : regimes(&o);
}
