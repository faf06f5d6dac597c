/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole request of a known model: offload (a BATCH of PUTs of all its blocks, scattered over the layers' tensors) and
 * restore (a BATCH of GETs), and what submitting one costs the engine. With a rate, requests come by the clock and
 * their latency counts from when they were due, so that a mover that falls behind is seen to.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/copy.h"
#include "base/crc.h"
#include "bench/bench.h"
#include "bench/preset.h"
#include "bench/stage.h"
#include "bench/stop.h"
#include "include/priv/bits.h"
#include "include/priv/order.h"

#define PATIENCE_MS 30000
#define PATIENCE_NS (PATIENCE_MS * 1000000ull)
#define SUBMITS 16u /* of a round */

struct kv {
  const struct preset *p;
  uint32_t blocks, rows;
  uint64_t block_bytes, bytes;
  struct dray *d;
  struct dray_region g;
  uint8_t (*key)[16]; /* of the request's blocks */
  struct dray_item *private_items;
  char *bare; /* where the bare loop puts it */
  uint16_t layout;
  uint32_t turn;
  bool wrong;
  unsigned path;
  struct hist put, get;
};

static uint64_t seed_of(const struct kv *k, uint32_t block, uint32_t seg)
{
  return ((uint64_t)block << 16 | seg) + k->turn;
}
static char *piece(const struct kv *k, uint32_t block, uint32_t seg)
{
  return (char *)k->g.base + ((uint64_t)seg * k->blocks + block) * k->p->seg_bytes;
}

static void request_fill(struct kv *k)
{
  k->turn++;
  for (uint32_t b = 0; b < k->blocks; b++)
    for (uint32_t s = 0; s < k->p->segs; s++)
      stage_fill(piece(k, b, s), k->p->seg_bytes, seed_of(k, b, s));
}
static void request_check(struct kv *k)
{
  for (uint32_t b = 0; b < k->blocks; b++)
    for (uint32_t s = 0; s < k->p->segs; s++)
      k->wrong |= !stage_check(piece(k, b, s), k->p->seg_bytes, seed_of(k, b, s));
}

static void item_set(struct dray_item *it, const uint8_t key[16], uint64_t off, uint32_t len)
{
  memcpy(it->key, key, 16);
  it->off = off;
  it->len = len;
  it->zero = 0;
}

/* One directive for the whole request. */
static void submit(struct kv *k, bool get)
{
  struct dray_item *it = dray_items(k->d) + k->rows;
  for (uint32_t b = 0; b < k->blocks; b++)
    dray_prep_item(&it[b], k->key[b], b, (uint32_t)k->block_bytes);
  struct dray_sqe *s = dray_get_sqe(k->d);
  s->op = get ? DRAY_GET : DRAY_PUT;
  s->region = k->g.id;
  s->layout = k->layout;
  s->tier = get ? 0 : DRAY_TIER_DRAM;
  dray_sqe_batch(s, k->rows, k->blocks);
  dray_submit(k->d);
}

static bool finish(struct kv *k)
{
  if (dray_wait(k->d, 1, PATIENCE_MS) < 1) {
    fprintf(stderr, "bench kv: the mover does not answer within %d ms\n", PATIENCE_MS);
    return false;
  }
  const struct dray_cqe *c = dray_peek(k->d);
  bool good = c->status == DRAY_OK;
  if (!good)
    fprintf(stderr, "bench kv: %s %s, %u of %u failed\n", dray_status_name(c->status), dray_reason_name(c->reason),
            c->failed, k->blocks);
  k->path = c->path;
  dray_seen(k->d);
  return good;
}

/* GB/s, 0 when it failed. */
static double request(struct kv *k, bool get, uint64_t due)
{
  uint64_t t = stage_now_ns();
  submit(k, get);
  if (!finish(k))
    return 0;
  uint64_t now = stage_now_ns();
  hist_add(get ? &k->get : &k->put, now - (due ? due : t));
  return (double)k->bytes / (double)(now - t);
}

static double bare(struct kv *k)
{
  uint64_t t = stage_now_ns();
  for (uint32_t b = 0; b < k->blocks; b++)
    for (uint32_t s = 0; s < k->p->segs; s++)
      copy_by(COPY_BY_STREAM, k->bare + b * k->block_bytes + s * k->p->seg_bytes, piece(k, b, s), k->p->seg_bytes,
              s + 1 < k->p->segs ? piece(k, b, s + 1) : NULL);
  stream_fence();
  return (double)k->bytes / (double)(stage_now_ns() - t);
}

/* The engine's own time for one request's submit, ns; or, not ours: the items into private memory, and a NOP's. 0: it
   failed. */
static double submit_once(struct kv *k, bool ours)
{
  /* both to a lane that is awake: ringing for one that sleeps would cost either the same system call */
  dray_prep_nop(dray_get_sqe(k->d));
  dray_submit(k->d);
  for (uint64_t until = stage_now_ns() + PATIENCE_NS; !dray_peek(k->d) && stage_now_ns() < until;)
    spin_relax();
  if (!finish(k))
    return 0;
  /* and from keys that the engine has just worked with: the last request went through every cache */
  volatile uint32_t sum = crc32c(0, k->key, k->blocks * sizeof *k->key);
  (void)sum;
  uint64_t t = stage_now_ns();
  if (ours) {
    submit(k, true);
  } else {
    for (uint32_t b = 0; b < k->blocks; b++)
      item_set(&k->private_items[b], k->key[b], b, (uint32_t)k->block_bytes);
    __asm__ volatile("" ::"r"(k->private_items) : "memory"); /* they are written, though nobody reads them */
    dray_prep_nop(dray_get_sqe(k->d));
    dray_submit(k->d);
  }
  double ns = (double)(stage_now_ns() - t);
  return finish(k) ? ns : 0;
}

/* In turns; medians. */
static void submit_ns(struct kv *k, double *ret_ours, double *ret_theirs)
{
  struct series s[2] = {{.n = 0}, {.n = 0}};
  bool good = true;
  for (uint32_t i = 0; good && i < 2 * SUBMITS; i++) {
    double ns = submit_once(k, i % 2);
    good = ns > 0;
    series_add(&s[i % 2], ns);
  }
  *ret_theirs = good ? series_quantile(&s[0], 0.5) : 0;
  *ret_ours = good ? series_quantile(&s[1], 0.5) : 0;
}

static int kv_open(struct kv *k, const struct stage *st)
{
  k->block_bytes = k->p->segs * k->p->seg_bytes;
  k->bytes = k->blocks * k->block_bytes;
  k->d = stage_session(st, 64, MAX_OF(2 * k->blocks, 64u));
  k->key = calloc(k->blocks, sizeof *k->key);
  k->private_items = calloc(k->blocks, sizeof *k->private_items);
  k->bare = aligned_alloc(MIB(2), align_up(k->bytes, MIB(2)));
  const struct dray_layout l = {.block_stride = k->p->seg_bytes,
                                .seg_stride = k->blocks * k->p->seg_bytes,
                                .seg_bytes = k->p->seg_bytes,
                                .segs = k->p->segs};
  if (!k->key || !k->private_items || !k->bare || dray_region_alloc(k->bytes, false, &k->g) < 0 ||
      dray_region_register(k->d, &k->g) < 0 || dray_layout_define(k->d, &l, &k->layout) < 0 ||
      dray_items_get(k->d, k->blocks, &k->rows) < 0) {
    fprintf(stderr, "bench kv: a request has %" PRIu64 " MiB, and thrice that is needed; --quick takes an eighth\n",
            k->bytes >> 20);
    return -1;
  }
  for (uint32_t b = 0; b < k->blocks; b++) {
    stage_key(b, k->key[b]);
  }
  memset(k->bare, 1, k->bytes);
  return 0;
}

static void kv_close(struct kv *k)
{
  if (k->d)
    dray_close(k->d);
  if (k->g.base)
    dray_region_free(&k->g);
  free(k->bare);
  free(k->private_items);
  free(k->key);
}

static struct result *row(const struct kv *k, struct report *r, const char *what, const char *unit, bool lower)
{
  char name[48];
  snprintf(name, sizeof name, "kv.%s.%s", k->p->name, what);
  return report_add(r, name, unit, lower);
}

/* Requests by the clock: offload, restore, offload ... */
static int by_rate(struct kv *k, const struct bench_options *o, struct report *r)
{
  uint64_t begun = stage_now_ns(), end = begun + (uint64_t)((o->seconds ? o->seconds : 10) * 1e9), n = 0, late = 0;
  uint64_t apart = (uint64_t)(1e9 / o->rate);
  request_fill(k);
  for (uint64_t due = begun; due < end && !stop_asked(); due += apart, n++) {
    uint64_t now = stage_now_ns();
    struct timespec t = {.tv_sec = (time_t)(due / 1000000000u), .tv_nsec = (long)(due % 1000000000u)};
    late += now > due;
    if (now < due)
      clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
    if (request(k, n % 2, due) <= 0)
      return 1;
  }
  double s = (double)(stage_now_ns() - begun) / 1e9;
  if (o->verify)
    request_check(k);
  for (int get = 0; get < 2; get++) {
    struct result *x = row(k, r, get ? "restore.rate" : "offload.rate", "req/s", false);
    const struct hist *h = get ? &k->get : &k->put;
    if (!x)
      return 1;
    series_add(&x->ours, (double)h->n / s);
    result_latency(x, h);
    x->verified = o->verify && !k->wrong;
    x->path = dray_path_name(k->path);
    snprintf(x->note, sizeof x->note,
             "%.3g requests/s due, latency from when due; %" PRIu64 " of %" PRIu64 " began late", o->rate, late, n);
  }
  return k->wrong;
}

static int by_turns(struct kv *k, const struct bench_options *o, struct report *r, uint32_t rounds)
{
  struct result *sub = row(k, r, "submit", "ns", true), *put = row(k, r, "offload", "GB/s", false),
                *get = row(k, r, "restore", "GB/s", false);
  int bad = !sub || !put || !get;
  for (uint32_t i = 0; !bad && i <= rounds && !stop_asked(); i++) {
    request_fill(k);
    double loop = bare(k), p = request(k, false, 0);
    if (o->verify)
      memset(k->g.base, 0, k->bytes);
    double g = request(k, true, 0);
    if (o->verify)
      request_check(k);
    double theirs, ours;
    submit_ns(k, &ours, &theirs);
    bad = p <= 0 || g <= 0 || ours <= 0 || k->wrong;
    if (o->progress)
      fprintf(stderr, "\rkv %s: round %u/%u: offload %.2f, restore %.2f, bare %.2f GB/s, submit %.0f ns   ", k->p->name,
              i, rounds, p, g, loop, ours);
    if (i == 0) { /* warm-up */
      memset(&k->put, 0, sizeof k->put);
      memset(&k->get, 0, sizeof k->get);
      continue;
    }
    series_add(&put->ours, p);
    series_add(&put->theirs, loop);
    series_add(&get->ours, g);
    series_add(&get->theirs, loop);
    series_add(&sub->ours, ours);
    series_add(&sub->theirs, theirs);
  }
  if (o->progress)
    fputc('\n', stderr);
  if (bad)
    return 1;
  put->versus = get->versus = "bare non-temporal, one thread";
  sub->versus = "items to private memory + NOP";
  sub->bar = 2.0;
  result_latency(put, &k->put);
  result_latency(get, &k->get);
  sub->path = put->path = get->path = dray_path_name(k->path);
  sub->verified = put->verified = get->verified = o->verify;
  snprintf(sub->note, sizeof sub->note, "%u blocks, %u segments, %" PRIu64 " MiB in one directive", k->blocks,
           k->blocks * k->p->segs, k->bytes >> 20);
  return 0;
}

int bench_kv(const struct bench_options *o, struct report *r)
{
  struct stage st;
  char capacity[64];
  struct kv *k = calloc(1, sizeof *k);
  if (!k)
    return 1;
  k->p = preset_find(o->preset ? o->preset : "llama8b");
  k->blocks = k->p ? (o->quick ? MAX_OF(k->p->blocks / 8, 1u) : k->p->blocks) : 0;
  if (!k->p) {
    fprintf(stderr, "bench kv: --preset: '%s' is none of " PRESET_NAMES "\n", o->preset);
    free(k);
    return 1;
  }
  snprintf(capacity, sizeof capacity, "tier.dram.capacity=%" PRIu64,
           align_up(k->blocks * k->p->segs * k->p->seg_bytes * 5 / 2, MIB(2)) + MIB(256));
  const char *const sets[] = {"log=warn", capacity, NULL};
  int bad = stage_open(&st, o->dir, -1, sets) < 0;
  if (!bad) {
    bad = kv_open(k, &st) < 0 || (o->rate > 0 ? by_rate(k, o, r)
                                              : by_turns(k, o, r,
                                                         o->rounds  ? o->rounds
                                                         : o->quick ? 3
                                                                    : 7));
    kv_close(k);
    stage_close(&st);
  }
  free(k);
  return bad;
}
