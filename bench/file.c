/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file tier, read and write, depth 32, the engine asleep between completions, against fio on the same filesystem.
 * Every byte that was read in the last round is checked; cells are written with a pattern of their own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/fio.h"
#include "bench/rate.h"
#include "bench/stage.h"
#include "bench/stop.h"
#include "include/priv/bits.h"

#define DEPTH 32u
#define DEPTH_MAX BENCH_IODEPTH_MAX
#define WAKE 5u

struct work {
  struct dray *d;
  struct dray_region g;
  uint32_t block, depth;
  uint64_t cells;
  uint64_t *gen; /* which pattern each cell holds */
  uint64_t next_gen, salt;
  bool wrong;
  unsigned path;
};

static uint64_t pattern(const struct work *w, uint64_t cell)
{
  return cell << 20 ^ w->gen[cell];
}

static void submit_one(struct work *w, uint32_t slot, bool write, uint64_t cell)
{
  struct dray_sqe *s = dray_get_sqe(w->d);
  uint8_t key[16];
  stage_key(cell, key);
  if (write)
    dray_prep_put(s, key, w->g.id, (uint64_t)slot * w->block, w->block, DRAY_TIER_DISK);
  else
    dray_prep_get(s, key, w->g.id, (uint64_t)slot * w->block, w->block, DRAY_TIER_DISK);
  s->cookie = (uint64_t)slot << 48 | cell;
}

/* Runs for ms, or `most` directives, with w->depth under way. MB/s, or -1. check: every cell in turn, with a pattern of
   its own that a read compares (costs CPU, so not when timed). */
static double run(struct work *w, bool write, uint32_t ms, bool check, uint64_t most)
{
  uint64_t start = stage_now_ns(), end = start + (uint64_t)ms * 1000000u, done = 0, sent = 0, under = 0;
  char *base = w->g.base;
  uint32_t free_slot[DEPTH_MAX], free_n = w->depth;
  for (uint32_t i = 0; i < w->depth; i++)
    free_slot[i] = i;
  while (under || (sent < most && stage_now_ns() < end)) {
    bool more = sent < most && stage_now_ns() < end;
    while (more && free_n && sent < most) {
      uint32_t slot = free_slot[--free_n];
      uint64_t cell = check ? sent : (w->salt += 0x9e3779b97f4a7c15ull) % w->cells;
      if (write && check) {
        w->gen[cell] = ++w->next_gen;
        stage_fill(base + (uint64_t)slot * w->block, w->block, pattern(w, cell));
      } else if (write) {
        w->gen[cell] = 0; /* whatever the slot held: not checked */
      }
      submit_one(w, slot, write, cell);
      sent++;
      under++;
    }
    dray_submit(w->d);
    /* asleep until a few are done: that is how an engine with a queue waits */
    if (dray_wait(w->d, (unsigned)MIN_OF(under, (uint64_t)WAKE), 20000) < 1)
      return -1;
    for (const struct dray_cqe *c; (c = dray_peek(w->d)); dray_seen(w->d)) {
      uint32_t slot = (uint32_t)(c->cookie >> 48);
      uint64_t cell = c->cookie & 0xffffffffffffull;
      if (c->status != DRAY_OK) {
        fprintf(stderr, "bench file: %s: %s %s, errno %u\n", write ? "PUT" : "GET", dray_status_name(c->status),
                dray_reason_name(c->reason), c->detail);
        return -1;
      }
      w->path = c->path;
      if (!write && check && !stage_check(base + (uint64_t)slot * w->block, w->block, pattern(w, cell)))
        w->wrong = true;
      done++;
      under--;
      free_slot[free_n++] = slot;
    }
  }
  return (double)(done * w->block) * 1000.0 / (double)(stage_now_ns() - start);
}

/* One 4 KiB GET at a time, the engine asleep meanwhile: what a cell that is wanted now costs. */
#define SMALL 4096u
#define SMALL_CELLS 4096u
static int bench_latency(const struct bench_options *o, const struct stage *st, struct report *r)
{
  struct work w = {.block = SMALL, .depth = 1, .cells = SMALL_CELLS};
  uint32_t rounds = o->rounds ? o->rounds : o->quick ? 3 : 11, n = o->quick ? 200 : 2000;
  struct result *x = report_add(r, "file.latency.4k", "ns", true);
  struct hist *h = calloc(2, sizeof *h);
  w.gen = calloc(w.cells, sizeof *w.gen);
  w.d = stage_session(st, 64, 32);
  int bad = !x || !h || !w.gen || dray_region_alloc(SMALL, false, &w.g) < 0 || dray_region_register(w.d, &w.g) < 0 ||
            run(&w, true, 600000, true, w.cells) < 0;
  for (uint32_t i = 0; !bad && i <= rounds && !stop_asked(); i++) {
    memset(h, 0, sizeof *h);
    for (uint32_t k = 0; !bad && k < n; k++) {
      uint64_t cell = (w.salt += 0x9e3779b97f4a7c15ull) % w.cells, t = stage_now_ns();
      submit_one(&w, 0, false, cell);
      struct dray_cqe c = stage_one(w.d);
      hist_add(h, stage_now_ns() - t);
      bad = c.status != DRAY_OK || !stage_check(w.g.base, SMALL, pattern(&w, cell));
      w.path = c.path;
    }
    if (i == 0)
      continue;
    series_add(&x->ours, (double)hist_quantile(h, 0.5));
    hist_merge(h + 1, h);
  }
  if (x && h) {
    result_latency(x, h + 1);
    x->verified = !bad;
    x->path = dray_path_name(w.path);
  }
  if (bad)
    fprintf(stderr, "bench file: a 4 KiB GET failed, or brought wrong bytes\n");
  dray_close(w.d);
  if (w.g.base)
    dray_region_free(&w.g);
  free(w.gen);
  free(h);
  return bad;
}

/* The rows of one block size, and what fio gives on the same filesystem. */
static const char *const engines[] = {"io_uring", "libaio"};
struct block_rows {
  struct result *read, *write;
  struct series fio[ARRAY_LEN(engines)][2];
};

static int fio_round(struct block_rows *x, const struct work *w, const char *file, uint64_t bytes, uint32_t ms,
                     bool write, bool keep)
{
  for (size_t e = 0; file && e < ARRAY_LEN(engines); e++) {
    double v = fio_run(engines[e], file, bytes, write, w->block, w->depth, ms);
    if (v < 0) {
      fprintf(stderr, "bench file: fio --ioengine=%s failed: --no-versus leaves it out\n", engines[e]);
      return -1;
    }
    if (keep)
      series_add(&x->fio[e][write], v);
  }
  return 0;
}

static void rows_finish(struct block_rows *x, struct report *r, uint32_t depth, bool good, const char *path)
{
  for (int write = 0; write < 2; write++) {
    struct result *ours = write ? x->write : x->read, *y;
    char name[64];
    ours->path = path;
    ours->verified = good;
    snprintf(ours->note, sizeof ours->note, "depth %u", depth);
    if (!x->fio[0][write].n)
      continue;
    ours->theirs = x->fio[0][write];
    ours->versus = "fio io_uring direct=1";
    ours->bar = 0.95;
    snprintf(name, sizeof name, "%.40s@libaio", ours->name);
    if ((y = report_add(r, name, ours->unit, false))) {
      y->ours = ours->ours;
      y->theirs = x->fio[1][write];
      y->versus = "fio libaio direct=1";
      y->bar = 0.95;
      y->path = path;
      y->verified = good;
    }
  }
}

static int bench_block(const struct bench_options *o, const struct stage *st, uint32_t block, uint64_t bytes,
                       const char *fio_file, struct report *r, struct result *rd, struct result *wr)
{
  struct work w = {.block = block, .depth = o->iodepth ? o->iodepth : DEPTH, .cells = bytes / block};
  struct block_rows x = {.read = rd, .write = wr};
  uint32_t rounds = o->rounds  ? o->rounds
                    : o->quick ? 2
                               : 11,
           ms = o->quick ? 300 : (uint32_t)((o->seconds ? o->seconds : 1.0) * 1000);
  w.gen = calloc(w.cells, sizeof *w.gen);
  w.d = stage_session(st, MAX_OF(64u, w.depth), 32);
  if (!w.gen || dray_region_alloc((uint64_t)block * w.depth, false, &w.g) < 0 || dray_region_register(w.d, &w.g) < 0)
    return 1;
  memset(w.g.base, 0x5a, w.g.size);
  int bad = run(&w, true, 600000, true, w.cells) < 0 || run(&w, false, 600000, true, w.cells) < 0 || w.wrong;
  for (uint32_t i = 0; !bad && i <= rounds && !stop_asked(); i++) {
    bad = fio_round(&x, &w, fio_file, bytes, ms, false, i > 0);
    double in = bad ? -1 : run(&w, false, ms, false, UINT64_MAX);
    bad = bad || fio_round(&x, &w, fio_file, bytes, ms, true, i > 0);
    double out = bad ? -1 : run(&w, true, ms, false, UINT64_MAX);
    bad = bad || in < 0 || out < 0;
    if (o->progress)
      fprintf(stderr, "\r%u bytes, round %u/%u: read %.0f, write %.0f MB/s   ", block, i, rounds, in, out);
    if (i == 0 || bad)
      continue; /* warm-up */
    series_add(&rd->ours, in);
    series_add(&wr->ours, out);
  }
  if (o->progress)
    fputc('\n', stderr);
  /* what is on disk after all that must still be whole */
  bad = bad || run(&w, true, 600000, true, w.cells) < 0 || run(&w, false, 600000, true, w.cells) < 0 || w.wrong;
  rows_finish(&x, r, w.depth, !bad, dray_path_name(w.path));
  for (uint64_t i = 0; i < w.cells; i++) { /* the next block size starts empty */
    uint8_t key[16];
    stage_key(i, key);
    dray_prep_drop(dray_get_sqe(w.d), key, 0);
    stage_one(w.d);
  }
  dray_close(w.d);
  dray_region_free(&w.g);
  free(w.gen);
  return bad;
}

int bench_file(const struct bench_options *o, struct report *r)
{
  if (o->rate > 0)
    return rate_file(o, r);
  struct stage st;
  char disk[300], fio_file[300];
  uint64_t bytes = o->quick ? MIB(64) : MIB(512);
  char capacity[64];
  snprintf(capacity, sizeof capacity, "tier.disk.capacity=%llu", (unsigned long long)(bytes * 2 + MIB(64)));
  const char *dir = o->dir ? o->dir : ".";
  snprintf(disk, sizeof disk, "tier.disk.path=%s/dray-bench-disk.%d", dir, (int)getpid());
  snprintf(fio_file, sizeof fio_file, "%s/dray-bench-fio.%d", dir, (int)getpid());
  const char *const sets[] = {"lanes=1", "log=warn", capacity, disk, NULL};
  /* everybody alike: engine, drayd and fio (children inherit it) share one CPU, the kernel's workers have the rest */
  stage_pin(0);
  bool versus = o->versus && fio_present();
  if (versus && fio_layout(fio_file, bytes) < 0) {
    fprintf(stderr, "bench file: fio cannot lay out %s\n", fio_file);
    return 1;
  }
  int bad = stage_open(&st, NULL, -1, sets) < 0;
  if (!bad) {
    struct result *r16 = report_add(r, "file.read.16k", "MB/s", false),
                  *w16 = report_add(r, "file.write.16k", "MB/s", false);
    struct result *r1m = report_add(r, "file.read.1m", "MB/s", false),
                  *w1m = report_add(r, "file.write.1m", "MB/s", false);
    bad = bench_latency(o, &st, r) || bench_block(o, &st, 16384, bytes, versus ? fio_file : NULL, r, r16, w16) ||
          bench_block(o, &st, 1u << 20, bytes, versus ? fio_file : NULL, r, r1m, w1m);
    stage_close(&st);
  }
  unlink(fio_file);
  char cmd[400];
  snprintf(cmd, sizeof cmd, "%s/dray-bench-disk.%d", dir, (int)getpid());
  stage_remove(cmd);
  return bad;
}
