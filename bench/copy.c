/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scattered cold blocks into a slab: through a real drayd (one PUT with a layout, one BATCH of PUTs) and through the
 * transports' addr_copy alone, against the best bare loop of the same process and round, against CMA, and with a CRC
 * against without; then one large PUT with two lanes against one. Everybody is on CPU 0 and takes turns: while the
 * mover copies the engine sleeps.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/copy_measure.h"
#include "base/guard.h"
#include "bench/bench.h"
#include "bench/copy_bare.h"
#include "bench/stage.h"
#include "include/priv/bits.h"

#define BATCH_PLACES 2u /* regions of the keys: two rounds' cells live at a time */
#define LARGE MIB(64)

struct work {
  struct dray *d;
  struct dray_region src, dst, back; /* dst: of the bare copies; back: what a check reads into */
  struct bare_blocks b;
  uint32_t turn, row;
  uint16_t layout;
  bool verify, wrong;
  unsigned path;
};

/* Every measurement takes the next set. */
static void choose(struct work *w)
{
  bare_choose(&w->b, w->turn++);
}

static bool put_done(struct work *w, const struct dray_cqe *c, const char *what)
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
static double put_layout(struct work *w, uint16_t flags)
{
  uint8_t key[16];
  uint64_t bytes = (uint64_t)w->b.n * BARE_BLOCK;
  choose(w);
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
  if (w->verify) {
    dray_prep_get(dray_get_sqe(w->d), key, w->back.id, 0, bytes, 0);
    c = stage_one(w->d);
    w->wrong |= c.status != DRAY_OK;
    for (uint32_t i = 0; i < w->b.n; i++)
      w->wrong |= memcmp((char *)w->back.base + (uint64_t)i * BARE_BLOCK,
                         (char *)w->src.base + ((uint64_t)i * BARE_STRIDE + w->b.set) * BARE_BLOCK, BARE_BLOCK) != 0;
  }
  return v;
}

static void batch_rows(struct work *w, bool get)
{
  struct dray_item *items = dray_items(w->d) + w->row;
  for (uint32_t i = 0; i < w->b.n; i++) {
    memset(&items[i], 0, sizeof items[i]);
    stage_key(1000 + (uint64_t)(w->turn % BATCH_PLACES) * w->b.n + i, items[i].key);
    items[i].off = (uint64_t)(get ? i : w->b.list[i]) * BARE_BLOCK;
    items[i].len = BARE_BLOCK;
  }
}
static struct dray_cqe batch_run(struct work *w, bool get, uint16_t flags)
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
static double put_batch(struct work *w, uint16_t flags)
{
  choose(w);
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

static void check(struct work *w)
{
  if (!w->verify)
    return;
  w->wrong |= !bare_right(&w->b);
  memset(w->b.dst, 0, (size_t)w->b.n * BARE_BLOCK);
}

static int work_open(struct work *w, const struct stage *st, const struct bench_options *o, uint32_t blocks)
{
  uint64_t bytes = (uint64_t)blocks * BARE_BLOCK;
  w->verify = o->verify;
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

struct rows {
  struct series loop[COPY_BY_STREAM + 1], cma, addr, addr_crc, layout, layout_crc, batch, batch_crc;
};

static void one_round(struct work *w, const struct copy_plan *plan, struct copy_heat *heat, struct rows *r)
{
  for (unsigned by = COPY_BY_MEMCPY; by <= COPY_BY_STREAM; by++) {
    choose(w);
    series_add(&r->loop[by], bare_loop(&w->b, (enum copy_method)by));
    check(w);
  }
  choose(w);
  series_add(&r->cma, bare_cma(&w->b));
  check(w);
  choose(w);
  series_add(&r->addr, bare_addr(&w->b, plan, heat, false));
  check(w);
  choose(w);
  series_add(&r->addr_crc, bare_addr(&w->b, plan, heat, true));
  check(w);
  series_add(&r->layout, put_layout(w, 0));
  series_add(&r->layout_crc, put_layout(w, DRAY_VERIFY_CRC));
  series_add(&r->batch, put_batch(w, 0));
  series_add(&r->batch_crc, put_batch(w, DRAY_VERIFY_CRC));
}

static void row(struct report *r, const char *name, const struct series *ours, const struct series *theirs,
                const char *versus, double bar, const struct work *w, const char *path)
{
  struct result *x = report_add(r, name, "GB/s", false);
  if (!x)
    return;
  x->ours = *ours;
  x->theirs = *theirs;
  x->versus = versus;
  x->bar = bar;
  x->path = path;
  x->verified = w->verify && !w->wrong;
}

static int bench_scatter(const struct bench_options *o, struct report *r, uint32_t rounds)
{
  static struct rows rows; /* large; one bench at a time */
  static const char *const names[] = {"?", "bare memcpy", "bare vector", "bare movsb", "bare non-temporal"};
  struct stage st;
  struct work w = {0};
  struct copy_heat heat = {0};
  struct copy_plan plan = copy_plan_default;
  uint64_t ns;
  uint32_t blocks = o->quick ? 1024 : 4096;
  const char *const sets[] = {"lanes=1", "log=warn", "tier.dram.capacity=768MiB", "tier.dram.slab_size=128MiB", NULL};
  memset(&rows, 0, sizeof rows);
  stage_pin(0);
  if (guard_install() < 0 || stage_open(&st, o->dir, 0, sets) < 0)
    return 1;
  copy_measure(300000000, &plan, &ns);
  int bad = work_open(&w, &st, o, blocks);
  for (uint32_t i = 0; !bad && i <= rounds; i++) {
    if (i == 1)
      memset(&rows, 0, sizeof rows); /* the first was the warm-up */
    one_round(&w, &plan, &heat, &rows);
    if (o->progress)
      fprintf(stderr, "\rcopy: round %u/%u   ", i, rounds);
  }
  if (o->progress)
    fputc('\n', stderr);
  unsigned best = COPY_BY_MEMCPY;
  for (unsigned by = COPY_BY_MEMCPY; by <= COPY_BY_STREAM; by++)
    if (series_quantile(&rows.loop[by], 0.5) > series_quantile(&rows.loop[best], 0.5))
      best = by;
  const char *path = dray_path_name(w.path);
  const struct series *bare = &rows.loop[best];
  row(r, "copy.addr", &rows.addr, bare, names[best], 0.9, &w, path);
  row(r, "copy.addr.crc", &rows.addr_crc, &rows.addr, "copy.addr", 0.9, &w, path);
  row(r, "copy.put.layout", &rows.layout, bare, names[best], 0.9, &w, path);
  row(r, "copy.put.layout.crc", &rows.layout_crc, &rows.layout, "copy.put.layout", 0.9, &w, path);
  row(r, "copy.put.batch", &rows.batch, bare, names[best], 0.9, &w, path);
  row(r, "copy.put.batch.crc", &rows.batch_crc, &rows.batch, "copy.put.batch", 0.9, &w, path);
  if (series_quantile(&rows.cma, 0.5) > 0) {
    row(r, "copy.put.layout.cma", &rows.layout, &rows.cma, "process_vm_writev, 64 iovecs", 1.7, &w, path);
    row(r, "copy.put.batch.cma", &rows.batch, &rows.cma, "process_vm_writev, 64 iovecs", 1.7, &w, path);
  }
  for (unsigned by = COPY_BY_MEMCPY; by <= COPY_BY_STREAM; by++)
    if (by != best)
      row(r, names[by], &rows.loop[by], bare, names[best], 0, &w, "none");
  if (w.d)
    dray_close(w.d);
  dray_region_free(&w.dst);
  dray_region_free(&w.src);
  dray_region_free(&w.back);
  free(w.b.list);
  stage_close(&st);
  return bad || w.wrong;
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
  struct result *x = report_add(r, "copy.put.64m.lanes2", "GB/s", false);
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
  for (uint32_t i = 0; i <= rounds; i++) {
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

int bench_copy(const struct bench_options *o, struct report *r)
{
  uint32_t rounds = o->rounds ? o->rounds : o->quick ? 3 : 15;
  int bad = bench_scatter(o, r, rounds);
  stage_pin_none();
  return bad | bench_lanes(o, r, rounds);
}
