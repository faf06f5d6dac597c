/* SPDX-License-Identifier: Apache-2.0 */
/* One 16 KiB PUT of bytes that the engine has just written, polling, a policy in force, against the bare round trip
   whose echo copies the same bytes: what the copy by another CPU costs without a mover. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bare.h"
#include "bench/copy.h"
#include "bench/stage.h"
#include "bench/stop.h"
#include "include/priv/bits.h"
#include "include/priv/order.h"

#define BYTES KIB(16)
#define TRIPS 4000u
#define KEYS 2u /* so few that where they go stays in cache, as the echo's destination does */

struct hot {
  struct dray *d;
  struct dray_region g;
  struct bare *b;
  struct hist h;
  bool wrong;
};

static void put_once(struct hot *x, uint32_t i)
{
  uint8_t key[16];
  const struct dray_cqe *c;
  stage_key(i % KEYS, key);
  dray_prep_put(dray_get_sqe(x->d), key, x->g.id, 0, BYTES, DRAY_TIER_DRAM);
  dray_submit(x->d);
  while (!(c = dray_peek(x->d)))
    spin_relax();
  x->wrong |= c->status != DRAY_OK;
  dray_seen(x->d);
}

/* Median ns of n, each after the engine has written the source. */
static double put_ns(struct hot *x, uint32_t n, bool bare)
{
  memset(&x->h, 0, sizeof x->h);
  for (uint32_t i = 0; i < n; i++) {
    stage_fill(bare ? bare_source(x->b) : x->g.base, BYTES, i);
    uint64_t t = stage_now_ns();
    bare ? bare_copy_trip(x->b, BYTES) : put_once(x, i);
    hist_add(&x->h, stage_now_ns() - t);
  }
  return (double)hist_quantile(&x->h, 0.5);
}

static bool last_right(struct hot *x, uint32_t n)
{
  uint8_t key[16];
  for (uint32_t i = n - KEYS; i < n; i++) {
    stage_key(i % KEYS, key);
    dray_prep_get(dray_get_sqe(x->d), key, x->g.id, BYTES, BYTES, 0);
    if (stage_one(x->d).status != DRAY_OK || !stage_check((char *)x->g.base + BYTES, BYTES, i))
      return false;
  }
  return true;
}

int copy_hot(const struct bench_options *o, struct report *r, uint32_t rounds)
{
  struct stage st;
  struct stage_policy policy = stage_policy();
  struct hot *x = calloc(1, sizeof *x);
  struct hist *all = calloc(1, sizeof *all);
  struct result *row = report_add(r, "copy.put16k.hot", "ns", true);
  const char *const sets[] = {"lanes=1", "log=warn", NULL};
  uint32_t n = o->quick ? TRIPS / 4 : TRIPS;
  if (!x || !all || !row) {
    free(x);
    free(all);
    return 1;
  }
  int bad = stage_open_config(&st, o->dir, 1, sets, policy.text) < 0;
  if (!bad) {
    stage_pin(0);
    x->d = stage_session(&st, 64, 32);
    bad = dray_region_alloc(2 * BYTES, false, &x->g) < 0 || dray_region_register(x->d, &x->g) < 0;
    for (uint32_t i = 0; !bad && i <= rounds && !stop_asked(); i++) {
      /* the echo polls, too: it is there only in its turn */
      x->b = bare_open(64, 1);
      double theirs = x->b ? put_ns(x, n, true) : 0;
      bad = !x->b || !bare_copied(x->b, BYTES);
      if (x->b)
        bare_close(x->b);
      put_ns(x, n / 8, false); /* the lane polls again */
      double ours = put_ns(x, n, false);
      bad = bad || x->wrong || !last_right(x, n);
      if (i == 0)
        continue;
      series_add(&row->ours, ours);
      series_add(&row->theirs, theirs);
      hist_merge(all, &x->h);
    }
    row->versus = "bare trip, echo copies";
    row->bar = 1.3;
    row->path = "cpu";
    row->verified = !bad;
    result_latency(row, all);
    dray_close(x->d);
    dray_region_free(&x->g);
    stage_close(&st);
  }
  stage_pin_none();
  free(x);
  free(all);
  return bad;
}
