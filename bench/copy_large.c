/* SPDX-License-Identifier: Apache-2.0 */
/* Large cells: 2 MiB ones against the non-temporal loop, and one of 64 MiB by two lanes against one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/copy.h"
#include "bench/stage.h"
#include "bench/stop.h"
#include "base/copy.h"
#include "include/priv/bits.h"
#include "include/priv/order.h"

#define LARGE MIB(64)
#define CELL MIB(2)
#define CELLS 32u /* a round */
#define SETS 8u   /* disjoint: a set is cold again when its turn comes */
/* Rounds that are not counted: until then the mover takes slots that nobody has written yet, whose pages the kernel
   still has to make. The loop's destination is made after its first. */
#define WARM 5u

/* Where cell i of a set is: not in order, which hardware would foresee. */
static uint64_t cell_at(uint32_t set, uint32_t i)
{
  return ((uint64_t)(i * 7 % CELLS) * SETS + set % SETS) * CELL;
}

static double bare_cells(char *dst, const char *src, uint32_t set)
{
  uint64_t t = stage_now_ns();
  for (uint32_t i = 0; i < CELLS; i++)
    copy_by(COPY_BY_STREAM, dst + i * CELL, src + cell_at(set, i), CELL,
            i + 1 < CELLS ? src + cell_at(set, i + 1) : NULL);
  stream_fence();
  return (double)(CELLS * CELL) / (double)(stage_now_ns() - t);
}

/* All in one submit, the engine asleep until the last is done. */
static double put_cells(struct dray *d, const struct dray_region *src, uint32_t set, bool *wrong)
{
  uint8_t key[16];
  uint64_t t = stage_now_ns();
  for (uint32_t i = 0; i < CELLS; i++) {
    stage_key(i, key);
    dray_prep_put(dray_get_sqe(d), key, src->id, cell_at(set, i), CELL, DRAY_TIER_DRAM);
  }
  if (dray_submit(d) < 0 || dray_wait(d, CELLS, 20000) < (int)CELLS) {
    *wrong = true;
    return 0;
  }
  double v = (double)(CELLS * CELL) / (double)(stage_now_ns() - t);
  for (uint32_t i = 0; i < CELLS; i++, dray_seen(d))
    *wrong |= dray_peek(d)->status != DRAY_OK;
  return v;
}

static void get_cells(struct dray *d, const struct dray_region *src, const struct dray_region *back, uint32_t set,
                      bool *wrong)
{
  for (uint32_t i = 0; i < CELLS; i++) {
    uint8_t key[16];
    stage_key(i, key);
    dray_prep_get(dray_get_sqe(d), key, back->id, 0, CELL, 0);
    *wrong |= stage_one(d).status != DRAY_OK || memcmp(back->base, (char *)src->base + cell_at(set, i), CELL) != 0;
  }
}

static int bench_2m(const struct bench_options *o, struct report *r, uint32_t rounds)
{
  struct stage st;
  struct dray_region src, dst;
  bool wrong = false;
  const char *const sets[] = {"lanes=1", "log=warn", "tier.dram.capacity=512MiB", "tier.dram.slab_size=64MiB", NULL};
  struct result *x = report_add(r, "copy.2m", "GB/s", false);
  stage_pin(0);
  if (!x || stage_open(&st, o->dir, 0, sets) < 0)
    return 1;
  struct dray *d = stage_session(&st, 64, 32);
  int bad = dray_region_alloc(SETS * CELLS * CELL, false, &src) < 0 ||
            dray_region_alloc(CELLS * CELL, false, &dst) < 0 || dray_region_register(d, &src) < 0 ||
            dray_region_register(d, &dst) < 0;
  for (uint64_t at = 0; !bad && at < src.size; at += CELL)
    stage_fill((char *)src.base + at, CELL, at);
  for (uint32_t i = 0, turn = 0; !bad && i < WARM + rounds && !stop_asked(); i++) {
    double theirs = bare_cells(dst.base, src.base, turn++);
    double ours = put_cells(d, &src, turn, &wrong);
    if (o->verify)
      get_cells(d, &src, &dst, turn, &wrong);
    turn++;
    bad = wrong;
    if (i < WARM)
      continue;
    series_add(&x->ours, ours);
    series_add(&x->theirs, theirs);
  }
  x->versus = "bare non-temporal";
  x->bar = 0.97;
  x->path = dray_path_name(DRAY_PATH_CPU_NT);
  x->verified = o->verify && !bad;
  dray_close(d);
  dray_region_free(&src);
  dray_region_free(&dst);
  stage_close(&st);
  stage_pin_none();
  return bad;
}

/* PUT of 64 MiB, the whole mover unpinned. */
static double put_large(struct dray *d, const struct dray_region *g, bool *wrong)
{
  uint8_t key[16];
  stage_key(7, key);
  dray_prep_put(dray_get_sqe(d), key, g->id, 0, LARGE, DRAY_TIER_DRAM);
  uint64_t t = stage_now_ns();
  struct dray_cqe c = stage_one(d);
  *wrong |= c.status != DRAY_OK;
  return (double)LARGE / (double)(stage_now_ns() - t);
}

/* Reads it back over the source's mirror. */
static bool large_right(struct dray *d, const struct dray_region *g)
{
  uint8_t key[16];
  stage_key(7, key);
  dray_prep_get(dray_get_sqe(d), key, g->id, LARGE, LARGE, 0);
  return stage_one(d).status == DRAY_OK && memcmp(g->base, (char *)g->base + LARGE, LARGE) == 0;
}

static int bench_lanes(const struct bench_options *o, struct report *r, uint32_t rounds)
{
  struct stage st[2];
  struct dray *d[2];
  struct dray_region g[2];
  bool wrong = false;
  struct result *x = report_add(r, "copy.64m.2lanes", "GB/s", false);
  if (!x)
    return 1;
  for (int k = 0; k < 2; k++) {
    const char *const sets[] = {k ? "lanes=2" : "lanes=1", "log=warn", "tier.dram.capacity=512MiB",
                                "tier.dram.slab_size=128MiB", NULL};
    if (stage_open(&st[k], o->dir, -1, sets) < 0)
      return 1;
    d[k] = stage_session(&st[k], 64, 32);
    if (dray_region_alloc(2 * LARGE, false, &g[k]) < 0 || dray_region_register(d[k], &g[k]) < 0)
      return 1;
    stage_fill(g[k].base, 2 * LARGE, 3 + (uint64_t)k);
  }
  for (uint32_t i = 0; i <= rounds && !stop_asked(); i++) {
    double v[2];
    for (int k = 0; k < 2; k++)
      v[k] = put_large(d[k], &g[k], &wrong);
    for (int k = 0; o->verify && k < 2; k++)
      wrong |= !large_right(d[k], &g[k]);
    if (i == 0)
      continue; /* warm-up */
    series_add(&x->ours, v[1]);
    series_add(&x->theirs, v[0]);
  }
  snprintf(x->note, sizeof x->note, "%llu chunks by the other lane",
           (unsigned long long)stage_counter(&st[1], "helped"));
  x->versus = "one lane";
  x->path = dray_path_name(DRAY_PATH_CPU_NT);
  x->verified = o->verify && !wrong;
  for (int k = 0; k < 2; k++) {
    dray_close(d[k]);
    dray_region_free(&g[k]);
    stage_close(&st[k]);
  }
  return wrong;
}

int copy_large(const struct bench_options *o, struct report *r, uint32_t rounds)
{
  int bad = bench_2m(o, r, rounds);
  return bad | bench_lanes(o, r, rounds);
}
