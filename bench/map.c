/* SPDX-License-Identifier: Apache-2.0 */
/* MAP and UNMAP of cells in slabs that are mapped already, polling, against the NOP round trip of the same session. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/stage.h"
#include "bench/stop.h"
#include "include/priv/bits.h"
#include "include/priv/order.h"

#define CELL 64u

static struct dray_cqe spin_one(struct dray *d)
{
  dray_submit(d);
  const struct dray_cqe *c;
  while (!(c = dray_peek(d)))
    spin_relax();
  struct dray_cqe copy = *c;
  dray_seen(d);
  return copy;
}

static int by_u32(const void *a, const void *b)
{
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

/* Fills cells [0, n) with CELL bytes each by BATCHes. */
static int put_all(struct dray *d, const struct dray_region *g, uint64_t n, bool progress)
{
  struct dray_item *items = dray_items(d);
  uint32_t rows;
  if (dray_items_get(d, 4096, &rows) < 0)
    return 1;
  for (uint64_t at = 0; at < n;) {
    uint32_t k = (uint32_t)MIN_OF(n - at, (uint64_t)4096);
    for (uint32_t i = 0; i < k; i++) {
      struct dray_item *it = &items[rows + i];
      memset(it, 0, sizeof *it);
      stage_key(at + i, it->key);
      it->off = (uint64_t)i * CELL;
      it->len = CELL;
      stage_fill((char *)g->base + it->off, CELL, at + i);
    }
    struct dray_sqe *s = dray_get_sqe(d);
    s->op = DRAY_PUT;
    s->region = g->id;
    s->tier = DRAY_TIER_DRAM;
    dray_sqe_batch(s, rows, k);
    struct dray_cqe c = stage_one(d);
    if (c.status != DRAY_OK) {
      fprintf(stderr, "bench map: PUT %s %s, %u of %u failed\n", dray_status_name(c.status), dray_reason_name(c.reason),
              c.failed, k);
      return 1;
    }
    at += k;
    if (progress && at % (1u << 20) < 4096)
      fprintf(stderr, "\rputting cells: %llu of %llu   ", (unsigned long long)at, (unsigned long long)n);
  }
  dray_items_put(d, rows, 4096);
  return 0;
}

/* One round over m cells chosen by step: medians of MAP, UNMAP and NOP. False when a byte was wrong. */
static bool round_of(struct dray *d, uint64_t cells, uint32_t m, uint64_t salt, double *map, double *unmap, double *nop)
{
  uint32_t *v = malloc(3 * m * sizeof *v);
  bool right = v != NULL;
  for (uint32_t i = 0; right && i < m; i++) {
    uint64_t id = cells <= m ? i % cells : (salt + i) * 0x9e3779b97f4a7c15ull % cells;
    uint8_t key[16];
    stage_key(id, key);
    uint64_t t = stage_now_ns();
    dray_prep_map(dray_get_sqe(d), key, 0);
    struct dray_cqe c = spin_one(d);
    v[i] = (uint32_t)(stage_now_ns() - t);
    const void *p = c.status == DRAY_OK ? dray_map_address(d, c.slab, c.off) : NULL;
    right = p && stage_check(p, CELL, id);
    t = stage_now_ns();
    dray_prep_unmap(dray_get_sqe(d), c.object);
    c = spin_one(d);
    v[m + i] = (uint32_t)(stage_now_ns() - t);
    right = right && c.status == DRAY_OK;
    t = stage_now_ns();
    dray_prep_nop(dray_get_sqe(d));
    spin_one(d);
    v[2 * m + i] = (uint32_t)(stage_now_ns() - t);
  }
  for (int k = 0; right && k < 3; k++)
    qsort(v + (size_t)k * m, m, sizeof *v, by_u32);
  if (right) {
    *map = v[m / 2];
    *unmap = v[m + m / 2];
    *nop = v[2 * m + m / 2];
  }
  free(v);
  return right;
}

int bench_map(const struct bench_options *o, struct report *r)
{
  struct stage st;
  uint64_t many = o->cells ? o->cells : o->quick ? 20000 : 1000000;
  uint32_t rounds = o->rounds ? o->rounds : o->quick ? 3 : 25;
  char capacity[64], cells[64];
  snprintf(capacity, sizeof capacity, "tier.dram.capacity=%llu", (unsigned long long)(MIB(512) + many * CELL * 2));
  snprintf(cells, sizeof cells, "limits.cells=%llu", (unsigned long long)MAX_OF(many * 5 / 4, (uint64_t)1 << 20));
  const char *const sets[] = {"lanes=1", "log=warn", capacity, cells, NULL};
  if (stage_open(&st, o->dir, 1, sets) < 0)
    return 1;
  stage_pin(0);
  struct dray *d = stage_session(&st, 64, 8192);
  struct dray_region g;
  int bad = dray_region_alloc(MIB(4), false, &g) < 0 || dray_region_register(d, &g) < 0;
  struct result *warm = report_add(r, "map.warm", "ns", true);
  struct result *large = report_add(r, "map.many", "ns", true);
  warm->versus = large->versus = "ring.nop.roundtrip";
  warm->path = large->path = "map";
  warm->bar = 1.3;
  uint64_t sizes[2] = {1000, many};
  for (int k = 0; !bad && k < 2; k++) {
    struct result *x = k ? large : warm;
    bad = put_all(d, &g, sizes[k], o->progress);
    double map, unmap, nop;
    /* every slab is mapped once before anything is timed */
    for (uint64_t at = 0; !bad && k && at < many; at += 509) {
      uint8_t key[16];
      stage_key(at, key);
      dray_prep_map(dray_get_sqe(d), key, 0);
      struct dray_cqe c = spin_one(d);
      bad = !dray_map_address(d, c.slab, c.off);
      dray_prep_unmap(dray_get_sqe(d), c.object);
      spin_one(d);
    }
    for (uint32_t i = 0; !bad && i <= rounds && i < REPORT_ROUNDS_MAX && !stop_asked(); i++) {
      bad = !round_of(d, sizes[k], 1000, i * 1000003ull, &map, &unmap, &nop);
      if (i == 0)
        continue; /* warm-up */
      series_add(&x->ours, (map + unmap) / 2);
      series_add(&x->theirs, nop);
    }
    x->verified = !bad;
  }
  uint64_t bytes = stage_counter(&st, "directory_bytes"), n = stage_counter(&st, "cells");
  snprintf(large->note, sizeof large->note, "%llu cells, %.1f directory bytes each", (unsigned long long)n,
           n ? (double)bytes / (double)n : 0);
  dray_close(d);
  dray_region_free(&g);
  stage_close(&st);
  return bad;
}
