/* SPDX-License-Identifier: Apache-2.0 */
/* NOP round trip and burst rate through take, admit, job and complete, against the bare echo. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bare.h"
#include "bench/bench.h"
#include "bench/rate.h"
#include "bench/stage.h"
#include "bench/stop.h"
#include "include/priv/bits.h"
#include "include/priv/order.h"

#define WINDOW 256u
#define AGREE 0.20 /* bare before and after a round: vCPU placement is bimodal */

static void nop_trip(struct dray *d)
{
  dray_prep_nop(dray_get_sqe(d));
  dray_submit(d);
  while (!dray_peek(d))
    spin_relax();
  dray_seen(d);
}

static void nop_stream(struct dray *d, uint64_t n, uint32_t window)
{
  uint64_t sent = 0, got = 0;
  while (got < n) {
    if (sent < n && sent - got + 32 <= window) {
      for (int i = 0; i < 32; i++)
        dray_prep_nop(dray_get_sqe(d));
      dray_submit(d);
      sent += 32;
    }
    bool any = false;
    while (dray_peek(d)) {
      dray_seen(d);
      got++;
      any = true;
    }
    if (!any)
      spin_relax();
  }
}

static int by_u32(const void *a, const void *b)
{
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

/* Median of n timed calls. */
static double median_of(uint32_t n, void (*fn)(void *), void *ctx)
{
  uint32_t *v = malloc(n * sizeof *v);
  if (!v)
    return 0;
  for (uint32_t i = 0; i < n; i++) {
    uint64_t t = stage_now_ns();
    fn(ctx);
    v[i] = (uint32_t)(stage_now_ns() - t);
  }
  qsort(v, n, sizeof *v, by_u32);
  double m = v[n / 2];
  free(v);
  return m;
}
static void call_nop(void *d)
{
  nop_trip(d);
}
static void call_bare(void *b)
{
  bare_trip(b);
}

static bool agree(double a, double b)
{
  return a > 0 && b > 0 && (a > b ? a / b : b / a) <= 1 + AGREE;
}

int bench_ring(const struct bench_options *o, struct report *r)
{
  if (o->rate > 0)
    return rate_ring(o, r);
  struct stage st;
  uint32_t rounds = o->rounds ? o->rounds : o->quick ? 3 : 25, trips = o->quick ? 2000 : 20000;
  uint64_t stream = o->quick ? 200000 : 2000000;
  if (rounds > REPORT_ROUNDS_MAX)
    rounds = REPORT_ROUNDS_MAX;
  const char *const sets[] = {"lanes=1", "log=warn", NULL};
  if (stage_open(&st, o->dir, 1, sets) < 0)
    return 1;
  stage_pin(0);
  struct result *trip = report_add(r, "ring.nop.roundtrip", "ns", true);
  struct result *rate = report_add(r, "ring.burst32.rate", "Mop/s", false);
  trip->versus = rate->versus = "rte_ring.private_header";
  trip->bar = 1.3;
  rate->bar = 0.7;
  uint64_t sent = 0;
  uint64_t before[4];
  const char *const stages[4] = {"taken", "admitted", "jobs", "completed"};
  for (int i = 0; i < 4; i++)
    before[i] = stage_counter(&st, stages[i]);
  for (uint32_t k = 0, tries = 0; k < rounds && tries < rounds * 6 && !stop_asked(); tries++) {
    /* one at a time on the mover's CPU: the echo would starve a mover that polls, and the other way round */
    struct bare *b = bare_open(WINDOW, 1);
    if (!b)
      return 1;
    median_of(trips / 4, call_bare, b);
    double bare_a = median_of(trips, call_bare, b);
    uint64_t t = stage_now_ns();
    bare_stream(b, stream, WINDOW);
    double bare_rate = (double)stream * 1000.0 / (double)(stage_now_ns() - t);
    bare_close(b);

    struct dray *d = stage_session(&st, WINDOW, 32);
    median_of(trips / 4, call_nop, d);
    double ours = median_of(trips, call_nop, d);
    t = stage_now_ns();
    nop_stream(d, stream, WINDOW);
    double our_rate = (double)stream * 1000.0 / (double)(stage_now_ns() - t);
    sent += trips + trips / 4 + stream;
    dray_close(d);

    b = bare_open(WINDOW, 1);
    if (!b)
      return 1;
    median_of(trips / 4, call_bare, b);
    double bare_b = median_of(trips, call_bare, b);
    t = stage_now_ns();
    bare_stream(b, stream, WINDOW);
    double bare_rate_b = (double)stream * 1000.0 / (double)(stage_now_ns() - t);
    bare_close(b);
    if (o->progress)
      fprintf(stderr, "\rround %u/%u: nop %.0f ns, bare %.0f and %.0f ns; burst %.1f, bare %.1f and %.1f Mop/s   ",
              k + 1, rounds, ours, bare_a, bare_b, our_rate, bare_rate, bare_rate_b);
    if (!agree(bare_a, bare_b)) {
      trip->dropped++;
      continue;
    }
    series_add(&trip->ours, ours);
    series_add(&trip->theirs, (bare_a + bare_b) / 2);
    series_add(&rate->ours, our_rate);
    series_add(&rate->theirs, (bare_rate + bare_rate_b) / 2);
    k++;
  }
  if (o->progress)
    fputc('\n', stderr);
  bool all = true;
  for (int i = 0; i < 4; i++) {
    uint64_t n = stage_counter(&st, stages[i]) - before[i];
    if (n != sent) {
      fprintf(stderr, "bench ring: %s counts %llu, sent were %llu\n", stages[i], (unsigned long long)n,
              (unsigned long long)sent);
      all = false;
    }
  }
  trip->verified = rate->verified = all;
  snprintf(trip->note, sizeof trip->note, "rounds whose bare figure moved by > 20 %% are left out");
  stage_close(&st);
  return all && trip->ours.n ? 0 : 1;
}

/* ---- many sessions ---- */

static double round_robin(struct dray **d, uint32_t n, uint64_t each)
{
  uint64_t t = stage_now_ns(), total = 0;
  for (uint64_t k = 0; k < each; k++) {
    for (uint32_t i = 0; i < n; i++) {
      for (int j = 0; j < 32; j++)
        dray_prep_nop(dray_get_sqe(d[i]));
      dray_submit(d[i]);
    }
    for (uint32_t i = 0; i < n; i++)
      for (int got = 0; got < 32;) {
        if (!dray_peek(d[i])) {
          spin_relax();
          continue;
        }
        dray_seen(d[i]);
        got++;
      }
    total += (uint64_t)n * 32;
  }
  return (double)(stage_now_ns() - t) / (double)total;
}

int bench_sessions(const struct bench_options *o, struct report *r)
{
  struct stage st;
  struct dray *d[64];
  uint32_t rounds = o->rounds ? o->rounds : o->quick ? 3 : 25;
  const char *const sets[] = {"lanes=1", "log=warn", NULL};
  if (stage_open(&st, o->dir, 1, sets) < 0)
    return 1;
  stage_pin(0);
  struct result *cost = report_add(r, "ring.sessions64.cost", "ns", true);
  struct result *idle = report_add(r, "idle.sessions64", "%cpu", true);
  cost->versus = "one session";
  cost->bar = 1.3;
  for (int i = 0; i < 64; i++)
    d[i] = stage_session(&st, 64, 32);
  round_robin(d, 64, 50);
  for (uint32_t k = 0; k < rounds && k < REPORT_ROUNDS_MAX && !stop_asked(); k++) {
    /* one session with as many directives under way would be another work: each keeps its burst of 32 */
    double one = round_robin(d, 1, o->quick ? 200 : 6400);
    double all = round_robin(d, 64, o->quick ? 20 : 100);
    series_add(&cost->ours, all);
    series_add(&cost->theirs, one);
  }
  cost->verified = idle->verified = true;
  uint32_t looks = o->quick ? 1 : 5;
  for (uint32_t k = 0; k < looks; k++) {
    uint64_t cpu = stage_cpu_ns(&st), t = stage_now_ns();
    poll(NULL, 0, o->quick ? 500 : 2000); /* the time over which its CPU use is read */
    cpu = stage_cpu_ns(&st) - cpu;
    series_add(&idle->ours, 100.0 * (double)cpu / (double)(stage_now_ns() - t));
  }
  for (int i = 0; i < 64; i++)
    dray_close(d[i]);
  stage_close(&st);
  return 0;
}
