/* SPDX-License-Identifier: Apache-2.0 */
/* What a verdict costs (gate, route and quota together) beside the bare ring's round trip, and a 16 KiB GET through a
   mover with quotas, rates and rules beside one without. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bare.h"
#include "bench/bench.h"
#include "bench/stage.h"
#include "bench/stop.h"
#include "include/priv/bits.h"
#include "include/priv/order.h"
#include "policy/quota.h"
#include "policy/verdict.h"

#define ASKS 1000u
#define GET_BYTES KIB(16)
#define GET_CELLS 64u

/* Everything that one decision reads. */
struct asked {
  struct policy_snapshot snapshot;
  struct policy_ask ask;
  struct dray_key mine, theirs;
  struct quota_plan plan;
  struct quota_ask quota;
  uint64_t admitted;
};

static void key_make(struct dray_key *k)
{
  char *const axes[] = {k->model, k->tokenizer, k->serializer, k->position, k->policy, k->admitter};
  for (size_t i = 0; i < ARRAY_LEN(axes); i++)
    snprintf(axes[i], DRAY_AXIS_MAX, "an axis of usual length %zu", i);
}

/* The longest way through: another agent's cell, all six axes compared, all rules looked at, none in force. */
static struct asked *asked_new(void)
{
  struct asked *a = calloc(1, sizeof *a);
  if (!a)
    return NULL;
  profile_defaults(&a->snapshot.profiles);
  a->snapshot.ladder[0] = DRAY_TIER_DRAM;
  key_make(&a->mine);
  key_make(&a->theirs);
  a->ask = (struct policy_ask){.op = DRAY_GET,
                               .bytes = GET_BYTES,
                               .tenant = 1,
                               .agent = 1,
                               .mkey = &a->mine,
                               .exists = true,
                               .cell_tenant = 1,
                               .cell_agent = 2,
                               .cell_scope = DRAY_SCOPE_TENANT,
                               .cell_taint = DRAY_TRUSTED,
                               .cell_mkey = &a->theirs,
                               .copies = 1u << DRAY_TIER_DRAM,
                               .usable = 1u << DRAY_TIER_DRAM,
                               .room = 1u << DRAY_TIER_DRAM};
  a->quota = (struct quota_ask){.tier = DRAY_TIER_DRAM, .bytes = GET_BYTES, .charged = 2, .reserve = 1};
  for (a->plan.rules_n = 0; a->plan.rules_n < 4; a->plan.rules_n++) {
    a->plan.rule[a->plan.rules_n] = (struct quota_rule){.tier = DRAY_TIER_DRAM, .klass = QUOTA_ANY_CLASS, .when = 900};
    a->quota.phase[a->plan.rules_n] = RULE_IDLE;
  }
  return a;
}

static double verdict_ns(struct asked *a)
{
  uint64_t t = stage_now_ns();
  for (uint32_t i = 0; i < ASKS; i++) {
    struct policy_verdict v;
    struct quota_verdict q;
    a->ask.now_ns = i;
    a->quota.bytes = GET_BYTES + i;
    policy_decide(&a->snapshot, &a->ask, &v);
    quota_decide(&a->plan, &a->quota, &q);
    a->admitted += v.decision == POLICY_ADMIT && q.reason == DRAY_REASON_OK;
  }
  return (double)(stage_now_ns() - t) / ASKS;
}

static double trip_ns(struct bare *b)
{
  uint64_t t = stage_now_ns();
  for (uint32_t i = 0; i < ASKS; i++)
    bare_trip(b);
  return (double)(stage_now_ns() - t) / ASKS;
}

static int bench_verdict(const struct bench_options *o, struct report *r, uint32_t rounds)
{
  struct asked *a = asked_new();
  stage_pin(0);
  struct bare *b = bare_open(64, 1);
  struct result *res = report_add(r, "policy.verdict", "ns", true);
  if (!a || !b || !res) {
    if (b)
      bare_close(b);
    free(a);
    return 1;
  }
  res->versus = "rte_ring.private_header";
  res->bar = 0.25;
  trip_ns(b);
  verdict_ns(a);
  a->admitted = 0;
  for (uint32_t k = 0; k < rounds; k++) {
    series_add(&res->theirs, trip_ns(b));
    series_add(&res->ours, verdict_ns(a));
  }
  res->verified = a->admitted == (uint64_t)rounds * ASKS; /* a refusal is a shorter way */
  if (o->progress)
    fprintf(stderr, "verdict %.1f ns, bare %.1f ns\n", series_quantile(&res->ours, 0.5),
            series_quantile(&res->theirs, 0.5));
  int bad = !res->verified;
  bare_close(b);
  free(a);
  return bad;
}

/* A mover and a session with cells to read. */
struct reader {
  struct stage st;
  struct dray *d;
  struct dray_region region;
};

static void reader_close(struct reader *s)
{
  dray_close(s->d);
  dray_region_free(&s->region);
  stage_close(&s->st);
}

static int reader_open(struct reader *s, const struct bench_options *o, const char *config)
{
  const char *const sets[] = {"lanes=1", "log=warn", "copy_plan=builtin", NULL};
  int r = stage_open_config(&s->st, o->dir, 1, sets, config);
  if (r < 0)
    return r;
  s->d = stage_session(&s->st, 64, 32);
  r = dray_region_alloc(GET_BYTES * 2, false, &s->region);
  r = r ? r : dray_region_register(s->d, &s->region);
  for (uint32_t i = 0; r == 0 && i < GET_CELLS; i++) {
    uint8_t key[16];
    stage_key(i, key);
    stage_fill(s->region.base, GET_BYTES, i);
    dray_prep_put(dray_get_sqe(s->d), key, s->region.id, 0, GET_BYTES, DRAY_TIER_DRAM);
    r = stage_one(s->d).status == DRAY_OK ? 0 : -1;
  }
  if (r < 0)
    reader_close(s);
  return r;
}

/* ns for a GET, one at a time, polling; 0 when one failed or brought wrong bytes. */
static double gets_ns(struct reader *s, uint32_t n)
{
  bool good = true;
  uint64_t t = stage_now_ns();
  for (uint32_t i = 0; i < n; i++) {
    uint8_t key[16];
    const struct dray_cqe *c;
    stage_key(i % GET_CELLS, key);
    dray_prep_get(dray_get_sqe(s->d), key, s->region.id, GET_BYTES, GET_BYTES, DRAY_TIER_ANY);
    dray_submit(s->d);
    while (!(c = dray_peek(s->d)))
      spin_relax();
    good &= c->status == DRAY_OK;
    dray_seen(s->d);
  }
  double ns = (double)(stage_now_ns() - t) / n;
  good &= stage_check((char *)s->region.base + GET_BYTES, GET_BYTES, (n - 1) % GET_CELLS);
  return good ? ns : 0;
}

/* A mover of its own for each figure: one that has slept polls less at first than one that has not. */
static double fresh_ns(const struct bench_options *o, const char *config, uint32_t n)
{
  struct reader s;
  if (reader_open(&s, o, config) < 0)
    return 0;
  gets_ns(&s, n);
  double ns = gets_ns(&s, n);
  reader_close(&s);
  return ns;
}

static int bench_get(const struct bench_options *o, struct report *r, uint32_t rounds)
{
  struct stage_policy policy = stage_policy();
  struct result *res = report_add(r, "policy.get16k", "ns", true);
  if (!res)
    return 1;
  uint32_t n = o->quick ? 2000 : 20000;
  int bad = 0;
  res->versus = "without quotas, rates and rules";
  res->path = "cpu";
  for (uint32_t k = 0; k < rounds && !bad && !stop_asked(); k++) {
    double without = fresh_ns(o, NULL, n), with = fresh_ns(o, policy.text, n);
    bad = without <= 0 || with <= 0;
    series_add(&res->theirs, without);
    series_add(&res->ours, with);
    if (o->progress)
      fprintf(stderr, "GET %.0f ns, without %.0f ns\n", with, without);
  }
  res->verified = !bad;
  res->bar = 1.1;
  return bad;
}

int bench_policy(const struct bench_options *o, struct report *r)
{
  uint32_t rounds = o->rounds ? o->rounds : o->quick ? 3 : 25;
  int bad = bench_verdict(o, r, rounds);
  return bad | bench_get(o, r, MIN_OF(rounds, 9u));
}
