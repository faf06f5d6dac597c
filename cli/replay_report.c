/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "cli/replay.h"
#include "cli/table.h"
#include "include/priv/bits.h"

static const char *const kind_names[REPLAY_KINDS] = {"STAT", "GET", "MAP", "UNMAP", "PUT", "request"};

static double percent(uint64_t part, uint64_t of)
{
  return of ? 100.0 * (double)part / (double)of : 0;
}

/* From the first engine's start to the last one's end; 0 when none came so far. */
static double seconds_of(const struct engine_result *s)
{
  return s->ended_ns > s->begun_ns ? (double)(s->ended_ns - s->begun_ns) / 1e9 : 0;
}

/* How much a counter of the mover's rose. */
static uint64_t rose(const struct replay_report *r, const char *key)
{
  json_int_t a = json_integer_value(json_object_get(json_object_get(r->before, "counters"), key));
  json_int_t b = json_integer_value(json_object_get(json_object_get(r->after, "counters"), key));
  return b > a ? (uint64_t)(b - a) : 0;
}

/* Blocks that were not where they could be used: read from disk, or staged up for a MAP. */
static uint64_t came_back(const struct replay_report *r)
{
  const struct engine_result *s = r->sum;
  return r->o->map ? s->hits - s->hits_by_path[DRAY_PATH_MAP] : s->hits_by_tier[DRAY_TIER_DISK];
}

/* Jain's index over the tenants' blocks a second of service: 1 when all are served alike, 1/n when one has it all. */
static double fairness(const struct replay_report *r)
{
  const struct engine_result *s = r->sum;
  double sum = 0, squares = 0;
  unsigned n = 0;
  for (unsigned i = 0; i < r->o->tenants; i++) {
    if (!s->tenant_ns[i])
      continue;
    double rate = (double)s->tenant_blocks[i] / (double)s->tenant_ns[i];
    sum += rate;
    squares += rate * rate;
    n++;
  }
  return squares > 0 ? sum * sum / (n * squares) : 0;
}

/* By name, what is not 0. */
static json_t *counts(const uint64_t *v, unsigned n, const char *(*name)(unsigned))
{
  json_t *o = json_object();
  for (unsigned i = 0; i < n; i++)
    if (v[i])
      json_object_set_new(o, name(i), cli_u64(v[i]));
  return o;
}
static void print_counts(const char *title, const uint64_t *v, unsigned n, const char *(*name)(unsigned))
{
  bool any = false;
  printf("%-14s", title);
  for (unsigned i = 0; i < n; i++)
    if (v[i]) {
      printf("%s%s %llu", any ? ", " : "", name(i), (unsigned long long)v[i]);
      any = true;
    }
  puts(any ? "" : "none");
}

static bool emulated(const json_t *tier)
{
  return json_is_true(json_object_get(tier, "emulated"));
}

static json_t *make_json(const struct replay_report *r, const char *verdict)
{
  const struct engine_result *s = r->sum;
  const struct replay_options *p = r->o;
  json_t *o = json_object(), *block = json_object(), *latency = json_object(), *mover = json_object(),
         *em = json_array(), *tier;
  size_t i;
  json_object_set_new(o, "schema_version", json_integer(1));
  json_object_set_new(o, "trace", json_string(p->trace ? p->trace : "synthetic"));
  json_object_set_new(o, "verdict", json_string(verdict));
  json_object_set_new(o, "engines", cli_u64(p->engines));
  json_object_set_new(o, "tenants", cli_u64(p->tenants));
  json_object_set_new(block, "preset", json_string(p->preset));
  json_object_set_new(block, "segments", cli_u64(p->segs));
  json_object_set_new(block, "segment_bytes", cli_u64(p->seg_bytes));
  json_object_set_new(block, "bytes", cli_u64((uint64_t)p->segs * p->seg_bytes));
  json_object_set_new(o, "block", block);
  json_object_set_new(o, "mode", json_string(p->map ? "map" : "get"));
  json_object_set_new(o, "requests", cli_u64(s->progress));
  json_object_set_new(o, "requests_in_trace", cli_u64(r->t->n));
  json_object_set_new(o, "seconds", json_real(seconds_of(s)));
  json_object_set_new(o, "late_ns", cli_u64(s->late_ns));
  json_object_set_new(o, "blocks_wanted", cli_u64(s->wanted));
  json_object_set_new(o, "hits", cli_u64(s->hits));
  json_object_set_new(o, "hit_ratio", json_real(s->wanted ? (double)s->hits / (double)s->wanted : 0));
  json_object_set_new(o, "ideal_hits", cli_u64(r->ideal.hits));
  json_object_set_new(o, "ideal_ratio",
                      json_real((double)r->ideal.hits / (double)MAX_OF(r->ideal.wanted, (uint64_t)1)));
  json_object_set_new(o, "unique_blocks", cli_u64(r->ideal.unique));
  json_object_set_new(o, "lossless", json_boolean(r->lossless));
  json_object_set_new(o, "hits_by_tier", counts(s->hits_by_tier, DRAY_TIER_COUNT, dray_tier_name));
  json_object_set_new(o, "hits_by_path", counts(s->hits_by_path, DRAY_PATH_COUNT, dray_path_name));
  json_object_set_new(o, "blocks_put", cli_u64(s->put));
  json_object_set_new(o, "put_by_tier", counts(s->put_by_tier, DRAY_TIER_COUNT, dray_tier_name));
  json_object_set_new(o, "put_by_path", counts(s->put_by_path, DRAY_PATH_COUNT, dray_path_name));
  json_object_set_new(o, "bytes_put", cli_u64(s->put_bytes));
  json_object_set_new(o, "bytes_got", cli_u64(s->got_bytes));
  json_object_set_new(o, "bytes_by_path", counts(s->bytes_by_path, DRAY_PATH_COUNT, dray_path_name));
  json_object_set_new(o, "fairness", json_real(fairness(r)));
  json_object_set_new(o, "bytes_verified", cli_u64(s->verified_bytes));
  json_object_set_new(o, "wrong_blocks", cli_u64(s->wrong));
  json_object_set_new(o, "came_back_from_disk", cli_u64(came_back(r)));
  json_object_set_new(o, "vanished", cli_u64(s->vanished));
  json_object_set_new(o, "refusals", counts(s->reason, DRAY_REASON_COUNT, dray_reason_name));
  for (i = 0; i < REPLAY_KINDS; i++) {
    const struct hist *h = &s->latency[i];
    if (h->n)
      json_object_set_new(latency, kind_names[i],
                          json_pack("{s:o, s:o, s:o, s:o, s:o}", "n", cli_u64(h->n), "p50",
                                    cli_u64(hist_quantile(h, 0.5)), "p99", cli_u64(hist_quantile(h, 0.99)), "p999",
                                    cli_u64(hist_quantile(h, 0.999)), "max", cli_u64(h->max)));
  }
  json_object_set_new(o, "batch_latency_ns", latency);
  if (r->after) {
    json_object_set_new(mover, "demoted", cli_u64(rose(r, "demoted")));
    json_object_set_new(mover, "evicted", cli_u64(rose(r, "evicted")));
  }
  json_object_set_new(o, "mover", r->after ? mover : json_null());
  if (!r->after)
    json_decref(mover);
  json_object_set_new(o, "audit_clean",
                      r->audit ? json_boolean(json_is_true(json_object_get(r->audit, "clean"))) : json_null());
  json_array_foreach(json_object_get(r->tiers, "tiers"), i, tier)
  {
    if (emulated(tier))
      json_array_append(em, json_object_get(tier, "tier"));
  }
  json_object_set_new(o, "emulated_tiers", em);
  return o;
}

static void print_tiers(const json_t *tiers)
{
  static const char *const head[] = {"tier", "medium", ">capacity", ">used", ">cells", NULL};
  struct table t;
  size_t i;
  json_t *tier;
  table_init(&t, head);
  json_array_foreach(json_object_get(tiers, "tiers"), i, tier)
  {
    table_add(&t, "%s", json_string_value(json_object_get(tier, "tier")));
    table_add(&t, "%s", emulated(tier) ? "EMULATED" : "real");
    table_add_bytes(&t, (uint64_t)json_integer_value(json_object_get(tier, "capacity")));
    table_add_bytes(&t, (uint64_t)json_integer_value(json_object_get(tier, "slab_bytes")));
    table_add_count(&t, (uint64_t)json_integer_value(json_object_get(tier, "cells")));
  }
  table_print(&t, stdout);
}

static void print_people(const struct replay_report *r, const char *verdict)
{
  static const char *const head[] = {"BATCH of", ">n", ">p50", ">p99", ">p99.9", ">max", NULL};
  const struct engine_result *s = r->sum;
  const struct replay_options *p = r->o;
  double seconds = seconds_of(s);
  char a[32], b[32], c[32];
  struct table t;
  printf("%s: %llu of %u requests by %u engine%s of %u tenant%s in %.2f s; block %u x %u B (%s), %s\n",
         p->trace ? p->trace : "synthetic", (unsigned long long)s->progress, r->t->n, p->engines,
         p->engines == 1 ? "" : "s", p->tenants, p->tenants == 1 ? "" : "s", seconds, p->segs, p->seg_bytes, p->preset,
         p->map ? "MAP" : "GET");
  printf("%-14s%llu blocks; hit %llu (%.3f %%), ideal %llu (%.3f %%)\n", "wanted", (unsigned long long)s->wanted,
         (unsigned long long)s->hits, percent(s->hits, s->wanted), (unsigned long long)r->ideal.hits,
         percent(r->ideal.hits, r->ideal.wanted));
  print_counts("hits by tier", s->hits_by_tier, DRAY_TIER_COUNT, dray_tier_name);
  print_counts("hits by path", s->hits_by_path, DRAY_PATH_COUNT, dray_path_name);
  printf("%-14s%llu blocks, %s; got %s; checked %s, wrong blocks %llu\n", "put", (unsigned long long)s->put,
         units_format_bytes(s->put_bytes, a, sizeof a), units_format_bytes(s->got_bytes, b, sizeof b),
         units_format_bytes(s->verified_bytes, c, sizeof c), (unsigned long long)s->wrong);
  print_counts("put to tier", s->put_by_tier, DRAY_TIER_COUNT, dray_tier_name);
  print_counts("put by path", s->put_by_path, DRAY_PATH_COUNT, dray_path_name);
  print_counts("bytes by path", s->bytes_by_path, DRAY_PATH_COUNT, dray_path_name);
  print_counts("refused", s->reason, DRAY_REASON_COUNT, dray_reason_name);
  if (r->after)
    printf("%-14sdemoted %llu, evicted %llu; %llu came back from disk; %llu gone between STAT and %s\n", "the mover",
           (unsigned long long)rose(r, "demoted"), (unsigned long long)rose(r, "evicted"),
           (unsigned long long)came_back(r), (unsigned long long)s->vanished, p->map ? "MAP" : "GET");
  printf("%-14s%.3f over %u tenants (Jain's index of blocks a second of service)\n", "fairness", fairness(r),
         p->tenants);
  if (p->time_scale > 0 || p->rate > 0)
    printf("%-14s%s behind the clock at most\n", "pace", units_format_time(s->late_ns, a, sizeof a));
  if (s->wrong)
    printf("%-14stenant %llu, block %llu\n", "first wrong", (unsigned long long)s->wrong_tenant + 1,
           (unsigned long long)s->wrong_id);
  putchar('\n');
  table_init(&t, head);
  for (int i = 0; i < REPLAY_KINDS; i++) {
    const struct hist *h = &s->latency[i];
    if (!h->n)
      continue;
    table_add(&t, "%s", kind_names[i]);
    table_add_count(&t, h->n);
    table_add_time(&t, hist_quantile(h, 0.5));
    table_add_time(&t, hist_quantile(h, 0.99));
    table_add_time(&t, hist_quantile(h, 0.999));
    table_add_time(&t, h->max);
  }
  table_print(&t, stdout);
  putchar('\n');
  print_tiers(r->tiers);
  printf("%s\n", verdict);
}

int replay_report(const struct replay_report *r)
{
  const struct engine_result *s = r->sum;
  const char *verdict = "every byte was right";
  int code = EXIT_ERROR;
  if (s->wrong)
    verdict = "WRONG BYTES";
  else if (r->failed)
    verdict = "an engine failed";
  else if (r->lossless && s->hits != r->ideal.hits)
    verdict = "every byte was right, but the pools were large enough and yet the hits are not the ideal";
  else if (r->audit && !json_is_true(json_object_get(r->audit, "clean")))
    verdict = "every byte was right, but the mover's books do not balance";
  else
    code = EXIT_OK;
  if (code == EXIT_OK && r->lossless)
    verdict = "every byte was right, and the hits are the ideal";
  if (r->o->cli.json)
    cli_print_new(make_json(r, verdict));
  else
    print_people(r, verdict);
  return code;
}
