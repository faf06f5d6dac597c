/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/rate.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "bench/pace.h"
#include "bench/stage.h"
#include "bench/stop.h"
#include "include/priv/bits.h"
#include "include/priv/order.h"

#define PATIENCE_NS 30000000000ull
#define DEPTH 64u
#define BLOCK KIB(16)
#define BLOCKS 64u /* of a scattered PUT */
#define SLACK_NS 1000u

enum what { RING = 0, COPY = 1, FILE_READ = 2, FILE_WRITE = 3 };

/* One session that works by the clock. Each slot has its own piece of the region, and its own key. */
struct rate {
  struct dray *d;
  struct dray_region g;
  uint16_t layout;
  enum what what;
  bool spins, wrong, failed;
  uint32_t depth, cells;
  uint64_t piece, salt; /* of the region, a slot's; of the choice of cells */
  uint64_t cell[PACE_DEPTH_MAX];
  unsigned path;
};

static uint64_t io_now(void *ctx)
{
  (void)ctx;
  return stage_now_ns();
}

static char *piece_of(const struct rate *w, uint32_t slot)
{
  return (char *)w->g.base + slot * w->piece;
}

static bool io_send(void *ctx, uint32_t slot, uint64_t i)
{
  struct rate *w = ctx;
  struct dray_sqe *s = dray_get_sqe(w->d);
  uint8_t key[16];
  (void)i;
  if (!s)
    return false;
  switch (w->what) {
  case RING:
    dray_prep_nop(s);
    break;
  case COPY:
    stage_key(slot, key);
    dray_prep_put(s, key, w->g.id, slot, BLOCKS * BLOCK, DRAY_TIER_DRAM); /* with a layout: the number of its block */
    s->layout = w->layout;
    break;
  case FILE_READ:
    w->cell[slot] = (w->salt += 0x9e3779b97f4a7c15ull) % w->cells;
    stage_key(w->cell[slot], key);
    dray_prep_get(s, key, w->g.id, slot * w->piece, BLOCK, DRAY_TIER_DISK);
    break;
  case FILE_WRITE: /* a slot writes cells of its own: none is under way twice */
    w->cell[slot] = (w->salt++ % (w->cells / w->depth)) * w->depth + slot;
    stage_key(w->cell[slot], key);
    stage_fill(piece_of(w, slot), BLOCK, w->cell[slot]);
    dray_prep_put(s, key, w->g.id, slot * w->piece, BLOCK, DRAY_TIER_DISK);
    break;
  }
  s->cookie = slot;
  return true;
}

static void io_push(void *ctx)
{
  const struct rate *w = ctx;
  dray_submit(w->d);
}

static int io_reap(void *ctx, uint32_t *slot, uint32_t room)
{
  struct rate *w = ctx;
  uint32_t n = 0;
  for (const struct dray_cqe *c; n < room && (c = dray_peek(w->d)); dray_seen(w->d)) {
    if (c->type != DRAY_DONE)
      continue;
    if (c->status != DRAY_OK) {
      fprintf(stderr, "bench: by the clock: %s %s, errno %u\n", dray_status_name(c->status),
              dray_reason_name(c->reason), c->detail);
      w->failed = true;
      return -1;
    }
    slot[n++] = (uint32_t)c->cookie;
    w->path = c->path;
    if (w->what == FILE_READ)
      w->wrong |= !stage_check(piece_of(w, (uint32_t)c->cookie), BLOCK, w->cell[c->cookie]);
  }
  return (int)n;
}

static void io_rest(void *ctx, uint64_t until, bool under_way)
{
  struct rate *w = ctx;
  uint64_t now = stage_now_ns();
  if (now >= until)
    return;
  if (w->spins) {
    spin_relax();
    return;
  }
  if (!under_way) {
    struct timespec t = {.tv_sec = (time_t)(until / 1000000000u), .tv_nsec = (long)(until % 1000000000u)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
    return;
  }
  struct pollfd p = {.fd = dray_fd(w->d), .events = POLLIN};
  uint64_t left = until - now;
  struct timespec t = {.tv_sec = (time_t)(left / 1000000000u), .tv_nsec = (long)(left % 1000000000u)};
  if (!dray_arm(w->d))
    (void)ppoll(&p, 1, &t, NULL);
}

/* One directive outside the clock. */
static bool one(struct rate *w)
{
  struct dray_cqe c = stage_one(w->d);
  if (c.status != DRAY_OK)
    fprintf(stderr, "bench: %s %s\n", dray_status_name(c.status), dray_reason_name(c.reason));
  return c.status == DRAY_OK;
}

static int rate_open(struct rate *w, const struct stage *st, const struct bench_options *o, uint32_t depth,
                     uint64_t piece)
{
  prctl(PR_SET_TIMERSLACK, SLACK_NS); /* or each sleep is 50 us too long */
  w->depth = o->iodepth ? MIN_OF(o->iodepth, PACE_DEPTH_MAX) : depth;
  w->piece = piece;
  w->d = stage_session(st, MAX_OF(64u, w->depth), 64);
  if (piece && (dray_region_alloc(w->depth * piece, false, &w->g) < 0 || dray_region_register(w->d, &w->g) < 0)) {
    fprintf(stderr, "bench: no memory for %u operations of %llu bytes\n", w->depth, (unsigned long long)piece);
    return -1;
  }
  return 0;
}

static int rate_run(struct rate *w, const struct bench_options *o, struct report *r, const char *name)
{
  const struct pace_io io = {w, io_now, io_send, io_push, io_reap, io_rest};
  const double seconds = o->seconds > 0 ? o->seconds : o->quick ? 1 : 10;
  const struct pace p = {
      .rate = o->rate, .ns = (uint64_t)(seconds * 1e9), .late_ns = PATIENCE_NS, .depth = w->depth, .stop = stop_asked};
  struct pace_result *x = calloc(1, sizeof *x);
  int bad = !x || pace_run(&p, &io, x) < 0;
  if (x && !pace_row(r, name, &p, x, dray_path_name(w->path), !bad && !w->wrong && o->verify))
    bad = 1;
  free(x);
  return bad || w->wrong;
}

static void rate_close(struct rate *w)
{
  if (w->d)
    dray_close(w->d);
  if (w->g.base)
    dray_region_free(&w->g);
}

int rate_ring(const struct bench_options *o, struct report *r)
{
  struct stage st;
  struct rate w = {.what = RING, .spins = true};
  const char *const sets[] = {"lanes=1", "log=warn", NULL};
  if (stage_open(&st, o->dir, 1, sets) < 0)
    return 1;
  stage_pin(0);
  int bad = rate_open(&w, &st, o, PACE_DEPTH_MAX, 0) || rate_run(&w, o, r, "ring.nop.rate");
  rate_close(&w);
  stage_close(&st);
  return bad;
}

/* Every cell that a slot wrote holds what is in its piece. */
static bool copies_hold(struct rate *w)
{
  char *back = malloc(BLOCKS * BLOCK);
  struct dray_region g = {0};
  bool good = back && dray_region_alloc(BLOCKS * BLOCK, false, &g) == 0 && dray_region_register(w->d, &g) == 0;
  for (uint32_t slot = 0; good && slot < w->depth; slot++) {
    uint8_t key[16];
    stage_key(slot, key);
    dray_prep_get(dray_get_sqe(w->d), key, g.id, 0, BLOCKS * BLOCK, 0);
    struct dray_cqe c = stage_one(w->d);
    if (c.status == DRAY_MISSED)
      continue; /* a slot that was never needed */
    good = c.status == DRAY_OK;
    for (uint32_t b = 0; good && b < BLOCKS; b++)
      good = memcmp((char *)g.base + b * BLOCK, piece_of(w, slot) + 2ull * b * BLOCK, BLOCK) == 0;
  }
  if (g.base)
    dray_region_free(&g);
  free(back);
  if (!good)
    fprintf(stderr, "bench copy: bytes that were put by the clock are not what was there\n");
  return good;
}

int rate_copy(const struct bench_options *o, struct report *r)
{
  struct stage st;
  struct rate w = {.what = COPY};
  const struct dray_layout l = {
      .block_stride = BLOCKS * BLOCK * 2, .seg_stride = BLOCK * 2, .seg_bytes = BLOCK, .segs = BLOCKS};
  const char *const sets[] = {"log=warn", "tier.dram.capacity=1GiB", NULL};
  if (stage_open(&st, o->dir, -1, sets) < 0)
    return 1;
  int bad = rate_open(&w, &st, o, DEPTH, 2 * BLOCKS * BLOCK) || dray_layout_define(w.d, &l, &w.layout) < 0;
  for (uint32_t slot = 0; !bad && slot < w.depth; slot++)
    stage_fill(piece_of(&w, slot), w.piece, slot);
  bad = bad || rate_run(&w, o, r, "copy.scatter16k.rate");
  if (!bad && o->verify && !copies_hold(&w)) {
    r->row[r->n - 1]->verified = false;
    bad = 1;
  }
  rate_close(&w);
  stage_close(&st);
  return bad;
}

int rate_file(const struct bench_options *o, struct report *r)
{
  struct stage st;
  struct rate w = {.what = FILE_WRITE};
  uint64_t bytes = o->quick ? MIB(32) : MIB(512);
  char disk[300], capacity[64], dir[300];
  snprintf(dir, sizeof dir, "%.250s/dray-bench-disk.%d", o->dir ? o->dir : ".", (int)getpid());
  snprintf(disk, sizeof disk, "tier.disk.path=%.280s", dir);
  snprintf(capacity, sizeof capacity, "tier.disk.capacity=%llu", (unsigned long long)(bytes * 2 + MIB(64)));
  const char *const sets[] = {"log=warn", capacity, disk, NULL};
  if (stage_open(&st, NULL, -1, sets) < 0)
    return 1;
  int bad = rate_open(&w, &st, o, DEPTH, BLOCK);
  w.cells = (uint32_t)(bytes / BLOCK);
  for (uint32_t i = 0; !bad && i < w.cells; i++) {
    uint8_t key[16];
    stage_key(i, key);
    stage_fill(w.g.base, BLOCK, i);
    dray_prep_put(dray_get_sqe(w.d), key, w.g.id, 0, BLOCK, DRAY_TIER_DISK);
    bad = !one(&w);
  }
  w.what = FILE_READ;
  bad = bad || rate_run(&w, o, r, "file.read.16k.rate");
  w.what = FILE_WRITE;
  bad = bad || stop_asked() || rate_run(&w, o, r, "file.write.16k.rate");
  rate_close(&w);
  stage_close(&st);
  stage_remove(dir);
  return bad;
}
