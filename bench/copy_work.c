/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/copy_work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/priv/bits.h"

#define BATCH_PLACES 2u /* regions of the keys: two rounds' cells live at a time */

/* Every measurement takes the next set. */
void copy_work_choose(struct copy_work *w)
{
  bare_choose(&w->b, w->turn++);
}

static bool put_done(struct copy_work *w, const struct dray_cqe *c, const char *what)
{
  if (c->status == DRAY_OK) {
    w->path = c->path;
    return true;
  }
  fprintf(stderr, "bench copy: %s: %s %s, detail %u\n", what, dray_status_name(c->status), dray_reason_name(c->reason),
          c->detail);
  w->wrong = true;
  return false;
}

/* One PUT of a block that a layout scatters over the whole source; its segments ascend. */
double copy_work_layout(struct copy_work *w, uint16_t flags)
{
  uint8_t key[16];
  uint64_t bytes = (uint64_t)w->b.n * BARE_BLOCK;
  copy_work_choose(w);
  stage_key(1, key);
  struct dray_sqe *s = dray_get_sqe(w->d);
  dray_prep_put(s, key, w->src.id, w->b.set, bytes, DRAY_TIER_DRAM);
  s->layout = w->layout;
  s->flags |= flags;
  uint64_t t = stage_now_ns();
  struct dray_cqe c = stage_one(w->d);
  double v = (double)bytes / (double)(stage_now_ns() - t);
  if (!put_done(w, &c, "PUT with a layout"))
    return 0;
  return v;
}

void copy_work_layout_check(struct copy_work *w)
{
  uint8_t key[16];
  if (!w->verify)
    return;
  stage_key(1, key);
  dray_prep_get(dray_get_sqe(w->d), key, w->back.id, 0, w->back.size, 0);
  struct dray_cqe c = stage_one(w->d);
  w->wrong |= c.status != DRAY_OK;
  for (uint32_t i = 0; i < w->b.n; i++)
    w->wrong |= memcmp((char *)w->back.base + (uint64_t)i * BARE_BLOCK,
                       (char *)w->src.base + ((uint64_t)i * BARE_STRIDE + w->b.set) * BARE_BLOCK, BARE_BLOCK) != 0;
  memset(w->back.base, 0, w->back.size);
}

static void batch_rows(struct copy_work *w, bool get)
{
  struct dray_item *items = dray_items(w->d) + w->row;
  for (uint32_t i = 0; i < w->b.n; i++) {
    memset(&items[i], 0, sizeof items[i]);
    stage_key(1000 + (uint64_t)(w->turn % BATCH_PLACES) * w->b.n + i, items[i].key);
    items[i].off = (uint64_t)(get ? i : w->b.list[i]) * BARE_BLOCK;
    items[i].len = BARE_BLOCK;
  }
}
static struct dray_cqe batch_run(struct copy_work *w, bool get, uint16_t flags)
{
  struct dray_sqe *s = dray_get_sqe(w->d);
  s->op = get ? DRAY_GET : DRAY_PUT;
  s->region = get ? w->back.id : w->src.id;
  s->tier = get ? 0 : DRAY_TIER_DRAM;
  s->flags |= flags;
  dray_sqe_batch(s, w->row, w->b.n);
  return stage_one(w->d);
}

/* As many cells as blocks, in one BATCH. */
double copy_work_batch(struct copy_work *w, uint16_t flags)
{
  copy_work_choose(w);
  batch_rows(w, false);
  uint64_t t = stage_now_ns();
  struct dray_cqe c = batch_run(w, false, flags);
  double v = (double)w->b.n * BARE_BLOCK / (double)(stage_now_ns() - t);
  if (!put_done(w, &c, "BATCH of PUT"))
    return 0;
  if (w->verify) {
    batch_rows(w, true);
    c = batch_run(w, true, 0);
    w->wrong |= c.status != DRAY_OK;
    for (uint32_t i = 0; i < w->b.n; i++)
      w->wrong |= memcmp((char *)w->back.base + (uint64_t)i * BARE_BLOCK,
                         (char *)w->src.base + (uint64_t)w->b.list[i] * BARE_BLOCK, BARE_BLOCK) != 0;
  }
  return v;
}

void copy_work_check(struct copy_work *w)
{
  if (!w->verify)
    return;
  w->wrong |= !bare_right(&w->b);
  memset(w->b.dst, 0, (size_t)w->b.n * BARE_BLOCK);
}

int copy_work_open(struct copy_work *w, const struct stage *st, bool verify, uint32_t blocks)
{
  uint64_t bytes = (uint64_t)blocks * BARE_BLOCK;
  w->verify = verify;
  w->d = stage_session(st, 64, 2 * blocks);
  if (dray_region_alloc(bytes * BARE_STRIDE, false, &w->src) < 0 || dray_region_alloc(bytes, false, &w->back) < 0 ||
      dray_region_alloc(bytes, false, &w->dst) < 0 || dray_region_register(w->d, &w->src) < 0 ||
      dray_region_register(w->d, &w->back) < 0 || dray_items_get(w->d, blocks, &w->row) < 0)
    return -1;
  w->b = (struct bare_blocks){
      .src = w->src.base, .dst = w->dst.base, .n = blocks, .list = calloc(blocks, sizeof *w->b.list)};
  const struct dray_layout l = {.block_stride = BARE_BLOCK,
                                .seg_stride = (uint64_t)BARE_STRIDE * BARE_BLOCK,
                                .seg_bytes = BARE_BLOCK,
                                .segs = blocks};
  if (!w->b.list || dray_layout_define(w->d, &l, &w->layout) < 0)
    return -1;
  for (uint64_t at = 0; at < w->src.size; at += BARE_BLOCK)
    stage_fill((char *)w->src.base + at, BARE_BLOCK, at);
  memset(w->back.base, 0, bytes);
  memset(w->b.dst, 0, bytes);
  return 0;
}

void copy_work_close(struct copy_work *w)
{
  if (w->d)
    dray_close(w->d);
  dray_region_free(&w->dst);
  dray_region_free(&w->src);
  dray_region_free(&w->back);
  free(w->b.list);
}
