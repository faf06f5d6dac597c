/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a peer lends, through ring, mover and verbs: PUT and GET on tier remote_dram, against perftest on the same
 * device when the peer is on this host. Every byte is checked before and after the timed rounds.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/perftest.h"
#include "bench/stage.h"
#include "bench/touch.h"
#include "include/priv/bits.h"

#define DEPTH 16u
#define CONNECT_NS 15000000000ull

struct work {
  struct dray *d;
  struct dray_region g;
  uint64_t size;
  uint32_t cells;
};

static bool one(struct work *w, bool write, uint32_t cell)
{
  struct dray_sqe *s = dray_get_sqe(w->d);
  uint8_t key[16];
  stage_key(cell, key);
  uint64_t at = cell % DEPTH * w->size;
  if (write)
    dray_prep_put(s, key, w->g.id, at, w->size, DRAY_TIER_REMOTE_DRAM);
  else
    dray_prep_get(s, key, w->g.id, at, w->size, DRAY_TIER_REMOTE_DRAM);
  struct dray_cqe c = stage_one(w->d);
  while (c.type == DRAY_LINK_STATE || c.type == DRAY_TIER_STATE) { /* not what was asked */
    if (dray_wait(w->d, 1, 20000) < 1)
      return false;
    c = *dray_peek(w->d);
    dray_seen(w->d);
  }
  return c.status == DRAY_OK;
}

/* All cells with DEPTH under way, `iters` in all. MB/s, or -1. */
static double flood(struct work *w, bool write, uint32_t iters)
{
  uint64_t start = stage_now_ns();
  uint32_t sent = 0, done = 0;
  bool busy[DEPTH] = {false};
  while (done < iters) {
    for (uint32_t i = 0; i < DEPTH && sent < iters; i++) {
      struct dray_sqe *s = busy[i] ? NULL : dray_get_sqe(w->d);
      uint8_t key[16];
      if (!s)
        continue;
      stage_key(i % w->cells, key);
      if (write)
        dray_prep_put(s, key, w->g.id, i * w->size, w->size, DRAY_TIER_REMOTE_DRAM);
      else
        dray_prep_get(s, key, w->g.id, i * w->size, w->size, DRAY_TIER_REMOTE_DRAM);
      s->cookie = i;
      busy[i] = true;
      sent++;
    }
    dray_submit(w->d);
    /* a quarter of what is under way: who floods needs not be woken for each */
    if (dray_wait(w->d, MIN_OF(sent - done, DEPTH / 4), 20000) < 1)
      return -1;
    for (const struct dray_cqe *c; (c = dray_peek(w->d)); dray_seen(w->d)) {
      if (c->type != DRAY_DONE)
        continue;
      if (c->status != DRAY_OK) {
        fprintf(stderr, "bench rdma: %s: %s %s, %u\n", write ? "PUT" : "GET", dray_status_name(c->status),
                dray_reason_name(c->reason), c->detail);
        return -1;
      }
      busy[c->cookie] = false;
      done++;
    }
  }
  return (double)w->size * iters * 1000.0 / (double)(stage_now_ns() - start);
}

static int by_value(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* One read, polling as perftest does. */
static bool poll_one(struct work *w, uint32_t cell)
{
  struct dray_sqe *s = dray_get_sqe(w->d);
  uint8_t key[16];
  uint64_t end = stage_now_ns() + 20000000000ull;
  stage_key(cell, key);
  dray_prep_get(s, key, w->g.id, cell % DEPTH * w->size, w->size, DRAY_TIER_REMOTE_DRAM);
  dray_submit(w->d);
  while (stage_now_ns() < end)
    for (int i = 0; i < 64; i++) {
      const struct dray_cqe *c = dray_peek(w->d);
      bool done = c && c->type == DRAY_DONE, good = c && c->status == DRAY_OK;
      if (c)
        dray_seen(w->d);
      if (done)
        return good;
    }
  return false;
}

/* Median of single reads, microseconds; all of them into sample. */
static double latency(struct work *w, uint32_t iters, double *sample)
{
  bool good = true;
  stage_pin(0); /* the mover has the other one */
  for (uint32_t i = 0; good && i < iters; i++) {
    uint64_t t = stage_now_ns();
    good = poll_one(w, i % w->cells);
    sample[i] = (double)(stage_now_ns() - t) / 1e3;
  }
  stage_pin_none(); /* perftest is placed by the kernel */
  if (!good)
    return -1;
  qsort(sample, iters, sizeof *sample, by_value);
  return sample[iters / 2];
}

/* Soft RoCE has two speeds: a turn of the poller, or of the scheduler. Both are told. */
static void modes(const double *sample, uint32_t n, struct result *r)
{
  double cut = sqrt(MAX_OF(sample[0], 1.0) * sample[n - 1]);
  uint32_t fast = 0;
  while (fast < n && sample[fast] <= cut)
    fast++;
  if (fast && fast < n)
    snprintf(r->note, sizeof r->note, "modes: %.0f us (%u of %u), %.0f us (%u)", sample[fast / 2], fast, n,
             sample[fast + (n - fast) / 2], n - fast);
}

static bool fill_and_check(struct work *w)
{
  bool good = true;
  for (uint32_t i = 0; good && i < w->cells; i++) {
    stage_fill((char *)w->g.base + i % DEPTH * w->size, w->size, i + 1);
    good = one(w, true, i);
  }
  for (uint32_t i = 0; good && i < w->cells; i++) {
    char *at = (char *)w->g.base + i % DEPTH * w->size;
    memset(at, 0, w->size);
    good = one(w, false, i) && stage_check(at, w->size, i + 1);
  }
  return good;
}

struct shape {
  const char *name, *unit;
  enum perftest what;
  uint64_t size;
  uint32_t iters;
  double bar;
};

static int run_shape(const struct bench_options *o, const struct stage *st, const struct shape *h, const char *host,
                     struct report *r)
{
  bool lat = h->what == PERFTEST_READ_LAT, versus = o->versus && host && perftest_present();
  struct work w = {.size = o->size ? o->size : h->size, .cells = DEPTH};
  uint32_t rounds = o->rounds ? o->rounds : o->quick ? 3 : 9, iters = o->iters ? o->iters : h->iters;
  struct result *x = report_add(r, h->name, h->unit, lat);
  double *sample = calloc(iters, sizeof *sample);
  w.d = stage_session(st, 64, 32);
  if (!x || !sample || dray_region_alloc(w.size * DEPTH, false, &w.g) < 0 || dray_region_register(w.d, &w.g) < 0)
    return 1;
  int bad = !fill_and_check(&w);
  for (uint32_t i = 0; !bad && i <= rounds; i++) {
    double ours = -1, theirs = 0;
    for (uint32_t turn = 0; turn < 2; turn++) /* who is first takes turns, too */
      if ((turn ^ i) & 1)
        ours = lat ? latency(&w, iters, sample) : flood(&w, h->what == PERFTEST_WRITE_BW, iters);
      else if (versus)
        theirs = perftest_run(h->what, host, w.size, iters);
    bad = ours < 0;
    if (o->progress)
      fprintf(stderr, "\r%s, round %u/%u: %.1f (perftest %.1f) %s   ", h->name, i, rounds, ours, theirs, h->unit);
    if (i == 0 || bad)
      continue; /* warm-up */
    series_add(&x->ours, ours);
    if (theirs > 0)
      series_add(&x->theirs, theirs);
    else
      x->dropped += versus;
  }
  if (o->progress)
    fputc('\n', stderr);
  if (lat && !bad)
    modes(sample, iters, x);
  x->path = h->what == PERFTEST_WRITE_BW ? "rdma_write" : "rdma_read";
  x->versus = !versus ? NULL : lat ? "ib_read_lat" : h->what == PERFTEST_READ_BW ? "ib_read_bw" : "ib_write_bw";
  x->bar = h->bar;
  bad = bad || !fill_and_check(&w);
  x->verified = !bad;
  dray_close(w.d);
  dray_region_free(&w.g);
  free(sample);
  return bad;
}

/* The peer is there when something can be put to it. */
static bool connected(const struct stage *st)
{
  struct work w = {.size = 4096, .cells = 1, .d = stage_session(st, 64, 32)};
  uint64_t until = stage_now_ns() + CONNECT_NS;
  bool in = false;
  if (dray_region_alloc(w.size * DEPTH, false, &w.g) < 0 || dray_region_register(w.d, &w.g) < 0)
    return false;
  while (!in && stage_now_ns() < until)
    in = one(&w, true, 0);
  dray_close(w.d);
  dray_region_free(&w.g);
  return in;
}

int bench_rdma(const struct bench_options *o, struct report *r)
{
  static const struct shape shapes[] = {
      {"rdma.write.64k", "MB/s", PERFTEST_WRITE_BW, 64 << 10, 600, 0.9},
      {"rdma.write.1m", "MB/s", PERFTEST_WRITE_BW, 1 << 20, 48, 0.9},
      {"rdma.read.64k", "MB/s", PERFTEST_READ_BW, 64 << 10, 600, 0.9},
      {"rdma.read.1m", "MB/s", PERFTEST_READ_BW, 1 << 20, 48, 0.9},
      {"rdma.read.latency4k", "us", PERFTEST_READ_LAT, 4096, 300, 1.5},
  };
  struct stage st;
  char config[1200], host[64] = "";
  if (!o->peer) {
    fprintf(stderr, "bench rdma: --peer ADDRESS of a drayd that lends (listen:, lend:) is needed\n");
    return 1;
  }
  if (o->size > MIB(1) || o->rw == TOUCH_COPY) {
    fprintf(stderr, "bench rdma: need --size of 1 byte to 1MiB, and --rw read or write\n");
    return 1;
  }
  const char *to = strrchr(o->peer, '>') ? strrchr(o->peer, '>') + 1 : o->peer;
  snprintf(host, sizeof host, "%.*s", (int)strcspn(to, ":,"), to);
  snprintf(config, sizeof config,
           "lanes: 1\nlog: warn\npeers:\n  - {name: bench, address: '%.200s'%s%.200s%s}\ntiers:\n"
           "  - {name: dram, transport: memory, capacity: 16MiB}\n"
           "  - {name: remote_dram, transport: rdma, peer: bench, capacity: 24MiB, bounce: 8MiB}\n",
           o->peer, o->key_file ? ", key_file: '" : "", o->key_file ? o->key_file : "", o->key_file ? "'" : "");
  if (stage_open_config(&st, NULL, 1, NULL, config) < 0)
    return 1;
  int bad = !connected(&st);
  if (bad)
    fprintf(stderr, "bench rdma: no answer from %s: is it a drayd with listen: and lend: at least 24MiB?\n", o->peer);
  for (size_t i = 0; !bad && i < ARRAY_LEN(shapes); i++) {
    bool write = shapes[i].what == PERFTEST_WRITE_BW;
    if (!o->rw || (o->rw == TOUCH_WRITE) == write)
      bad = run_shape(o, &st, &shapes[i], host, r);
  }
  stage_close(&st);
  return bad;
}
