/* SPDX-License-Identifier: Apache-2.0 */
/* What grows with the number of sessions and of cells: nanoseconds, memory, file descriptors. What lanes add beyond the
   CPUs of a small machine is a model: docs/SCALING.md. */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <dray/admin.h>

#include "bench/bench.h"
#include "bench/stage.h"
#include "bench/stop.h"
#include "include/priv/bits.h"
#include "include/priv/order.h"

#define SESSIONS_MAX 1024u
#define BURST 32u
#define CELL 64u

#define PEERS_MAX 256u
#define PEERS_NS 120000000000ull /* until all of them are there */

struct footprint {
  double rss, fds, threads; /* bytes, of the mover's worker */
};

static struct footprint footprint_of(const struct stage *st)
{
  struct footprint f = {0};
  char path[64], line[256];
  int pid = (int)stage_counter(st, "pid");
  snprintf(path, sizeof path, "/proc/%d/status", pid);
  FILE *s = fopen(path, "re");
  long long v;
  while (s && fgets(line, sizeof line, s))
    if (sscanf(line, "VmRSS: %lld kB", &v) == 1)
      f.rss = (double)v * 1024;
    else if (sscanf(line, "Threads: %lld", &v) == 1)
      f.threads = (double)v;
  if (s)
    fclose(s);
  snprintf(path, sizeof path, "/proc/%d/fd", pid);
  DIR *d = opendir(path);
  for (struct dirent *e; d && (e = readdir(d));)
    f.fds += e->d_name[0] != '.';
  if (d)
    closedir(d);
  return f;
}

static void add(struct report *r, const char *what, uint64_t n, const char *unit, double v, const char *note)
{
  char name[48];
  snprintf(name, sizeof name, "scale.%s.%" PRIu64, what, n);
  struct result *x = report_add(r, name, unit, true);
  if (!x)
    return;
  series_add(&x->ours, v);
  x->verified = true;
  snprintf(x->note, sizeof x->note, "%s", note);
}

/* ns a NOP: each session sends a burst, then all are reaped. */
static double burst_ns(struct dray **d, uint32_t n, uint32_t turns)
{
  uint64_t t = stage_now_ns();
  for (uint32_t k = 0; k < turns; k++) {
    for (uint32_t i = 0; i < n; i++) {
      for (uint32_t j = 0; j < BURST; j++)
        dray_prep_nop(dray_get_sqe(d[i]));
      dray_submit(d[i]);
    }
    for (uint32_t i = 0; i < n; i++)
      for (uint32_t got = 0; got < BURST; got += dray_peek(d[i]) ? (dray_seen(d[i]), 1u) : (spin_relax(), 0u))
        ;
  }
  return (double)(stage_now_ns() - t) / ((double)turns * n * BURST);
}

/* A session is a few of them on both sides, a peer a dozen; the mover inherits it. */
static void many_fds(void)
{
  struct rlimit lim;
  if (getrlimit(RLIMIT_NOFILE, &lim) == 0) {
    lim.rlim_cur = lim.rlim_max;
    setrlimit(RLIMIT_NOFILE, &lim);
  }
}

static int scale_sessions(const struct bench_options *o, struct report *r)
{
  struct stage st;
  const char *const sets[] = {"lanes=1", "log=warn", NULL};
  struct dray **d = calloc(SESSIONS_MAX, sizeof *d);
  many_fds();
  if (!d || stage_open(&st, o->dir, 1, sets) < 0) {
    free(d);
    return 1;
  }
  stage_pin(0);
  struct footprint empty = footprint_of(&st);
  uint32_t most = o->quick ? 16 : SESSIONS_MAX, have = 0, rounds = o->rounds ? o->rounds : o->quick ? 3 : 15;
  for (uint32_t n = 1; n <= most && !stop_asked(); n *= 4) {
    struct series s = {.n = 0};
    for (; have < n; have++)
      d[have] = stage_session(&st, 64, 32);
    uint32_t turns = MAX_OF((o->quick ? 2000u : 20000u) / n, 2u);
    burst_ns(d, n, turns);
    for (uint32_t k = 0; k < rounds; k++)
      series_add(&s, burst_ns(d, n, turns));
    struct footprint f = footprint_of(&st);
    add(r, "sessions.cost", n, "ns", series_quantile(&s, 0.5), "a NOP, bursts of 32 by every session");
    add(r, "sessions.rss", n, "bytes", (f.rss - empty.rss) / n, "resident memory of the mover, each");
    add(r, "sessions.fds", n, "fds", (f.fds - empty.fds) / n, "of the mover, each");
    if (o->progress)
      fprintf(stderr, "scale: %u sessions\n", n);
  }
  for (uint32_t i = 0; i < have; i++)
    dray_close(d[i]);
  free(d);
  stage_close(&st);
  stage_pin_none();
  return 0;
}

/* Puts cells [from, to); the source's bytes are the same for all. */
static int put_range(struct dray *d, const struct dray_region *g, uint32_t rows, uint64_t from, uint64_t to)
{
  for (uint64_t at = from; at < to;) {
    uint32_t k = (uint32_t)MIN_OF(to - at, (uint64_t)4096);
    struct dray_item *items = dray_items(d) + rows;
    memset(items, 0, k * sizeof *items);
    for (uint32_t i = 0; i < k; i++) {
      stage_key(at + i, items[i].key);
      items[i].len = CELL;
    }
    struct dray_sqe *s = dray_get_sqe(d);
    s->op = DRAY_PUT;
    s->region = g->id;
    s->tier = DRAY_TIER_DRAM;
    dray_sqe_batch(s, rows, k);
    if (stage_one(d).status != DRAY_OK)
      return -1;
    at += k;
  }
  return 0;
}

/* ns a STAT in a BATCH of 32 random keys, and alone. */
static double stat_ns(struct dray *d, uint32_t rows, uint64_t cells, uint32_t batch, uint32_t turns, uint64_t *salt)
{
  uint64_t spent = 0;
  for (uint32_t t = 0; t < turns; t++) {
    struct dray_item *items = dray_items(d) + rows;
    memset(items, 0, batch * sizeof *items);
    for (uint32_t i = 0; i < batch; i++)
      stage_key((*salt += 0x9e3779b97f4a7c15ull) % cells, items[i].key);
    uint64_t then = stage_now_ns();
    struct dray_sqe *s = dray_get_sqe(d);
    s->op = DRAY_STAT;
    dray_sqe_batch(s, rows, batch);
    dray_submit(d);
    const struct dray_cqe *c;
    while (!(c = dray_peek(d)))
      spin_relax();
    bool good = c->status == DRAY_OK;
    dray_seen(d);
    spent += stage_now_ns() - then;
    if (!good)
      return 0;
  }
  return (double)spent / ((double)turns * batch);
}

static int scale_cells(const struct bench_options *o, struct report *r)
{
  struct stage st;
  struct dray_region g;
  uint64_t most = o->cells ? o->cells : o->quick ? 10000 : 10000000, have = 0, salt = 1;
  uint32_t rows, rounds = o->rounds ? o->rounds : o->quick ? 3 : 15;
  char capacity[64], cells[64];
  snprintf(capacity, sizeof capacity, "tier.dram.capacity=%" PRIu64, MIB(512) + most * CELL * 2);
  snprintf(cells, sizeof cells, "limits.cells=%" PRIu64, MAX_OF(most * 5 / 4, (uint64_t)1 << 20));
  const char *const sets[] = {"lanes=1", "log=warn", capacity, cells, NULL};
  if (stage_open(&st, o->dir, 1, sets) < 0)
    return 1;
  stage_pin(0);
  struct dray *d = stage_session(&st, 64, 8192);
  int bad =
      dray_region_alloc(KIB(4), false, &g) < 0 || dray_region_register(d, &g) < 0 || dray_items_get(d, 4096, &rows) < 0;
  for (uint64_t n = 1000; !bad && n <= most && !stop_asked(); n *= 10) {
    struct series s = {.n = 0};
    bad = put_range(d, &g, rows, have, n);
    have = n;
    uint32_t turns = o->quick ? 100 : 2000;
    stat_ns(d, rows, n, BURST, turns, &salt);
    for (uint32_t k = 0; !bad && k < rounds; k++) {
      double v = stat_ns(d, rows, n, BURST, turns, &salt);
      bad = v <= 0;
      series_add(&s, v);
    }
    add(r, "cells.stat", n, "ns", series_quantile(&s, 0.5), "a STAT of a random key, 32 in a BATCH");
    add(r, "cells.directory", n, "bytes", (double)stage_counter(&st, "directory_bytes") / (double)n,
        "each, and what the table has room for");
    if (o->progress)
      fprintf(stderr, "scale: %" PRIu64 " cells\n", n);
  }
  dray_close(d);
  dray_region_free(&g);
  stage_close(&st);
  stage_pin_none();
  return bad;
}

/* How many peers are up. */
static uint32_t peers_up(const struct stage *st)
{
  char *answer = NULL;
  uint32_t n = 0;
  if (dray_admin_call(st->admin, "{\"verb\":\"status\"}", 5000, &answer) < 0)
    return 0;
  for (const char *at = answer; (at = strstr(at, "\"state\":")); at++)
    n += strncmp(at + 8, "\"up\"", 4) == 0 || strncmp(at + 8, " \"up\"", 5) == 0;
  free(answer);
  return n;
}

/* A mover of n peers, which are all the same one under n names. */
static int peers_stage(const struct bench_options *o, uint32_t n, struct stage *st)
{
  char *text = NULL;
  size_t bytes;
  FILE *f = open_memstream(&text, &bytes);
  if (!f)
    return -1;
  fprintf(f, "lanes: 1\nlog: warn\ncopy_plan: builtin\n%s", n ? "peers:\n" : "");
  for (uint32_t i = 0; i < n; i++)
    fprintf(f, "  - {name: p%u, address: '%s'%s%s%s}\n", i, o->peer, o->key_file ? ", key_file: '" : "",
            o->key_file ? o->key_file : "", o->key_file ? "'" : "");
  fprintf(f, "tiers:\n  - {name: dram, transport: memory, capacity: 16MiB}\n");
  if (n)
    fprintf(f, "  - {name: remote, transport: rdma, bounce: 256KiB, peers: [");
  for (uint32_t i = 0; i < n; i++)
    fprintf(f, "%sp%u", i ? ", " : "", i);
  fprintf(f, "%s", n ? "]}\n" : "");
  int rc = fclose(f) || stage_open_config(st, o->dir, 1, NULL, text) < 0 ? -1 : 0;
  free(text);
  return rc;
}

/* Median ns of a STAT of what one of them has, and of what none has: that one asks them all. */
static double peers_stat_ns(struct dray *d, uint64_t key, unsigned want, uint32_t rounds)
{
  struct series s = {.n = 0};
  for (uint32_t i = 0; i < rounds; i++) {
    uint64_t then = stage_now_ns();
    struct dray_sqe *q = dray_get_sqe(d);
    q->op = DRAY_STAT;
    q->tier = DRAY_TIER_REMOTE;
    q->deadline_us = 100000000; /* each that is asked has a share of it */
    stage_key(key, q->key);
    struct dray_cqe c = stage_one(d);
    while (c.type == DRAY_LINK_STATE && dray_wait(d, 1, 10000) > 0) { /* not what was asked */
      c = *dray_peek(d);
      dray_seen(d);
    }
    if (c.reason != want)
      return -1;
    series_add(&s, (double)(stage_now_ns() - then));
  }
  return series_quantile(&s, 0.5);
}

static int scale_peers(const struct bench_options *o, struct report *r)
{
  struct footprint empty = {0};
  uint32_t most = o->quick ? 4 : PEERS_MAX, rounds = o->rounds ? o->rounds : o->quick ? 3 : 15;
  int bad = 0;
  many_fds();
  for (uint32_t n = 0; !bad && n <= most && !stop_asked(); n = n ? n * 4 : 1) {
    struct stage st;
    struct dray_region g;
    uint64_t began = stage_now_ns(), end = began + PEERS_NS;
    if (peers_stage(o, n, &st) < 0)
      return 1;
    while (peers_up(&st) < n && stage_now_ns() < end)
      usleep(20000);
    double there = (double)(stage_now_ns() - began) / 1e6;
    uint32_t up = peers_up(&st);
    if (up < n)
      fprintf(stderr, "bench scale: %u of %u peers at %s answer\n", up, n, o->peer);
    bad = up < n;
    struct dray *d = stage_session(&st, 64, 32);
    struct footprint f = footprint_of(&st);
    uint32_t turns = o->quick ? 50 : 500;
    burst_ns(&d, 1, turns);
    struct series s = {.n = 0};
    for (uint32_t k = 0; k < rounds; k++)
      series_add(&s, burst_ns(&d, 1, turns));
    if (!n)
      empty = f;
    if (!bad) {
      add(r, "peers.nop", n, "ns", series_quantile(&s, 0.5), "a NOP, bursts of 32: what nobody asks peers for");
    }
    if (!bad && n) {
      add(r, "peers.rss", n, "bytes", (f.rss - empty.rss) / n,
          "resident memory of the mover, each; 1 lane, bounce 256KiB");
      add(r, "peers.fds", n, "fds", (f.fds - empty.fds) / n, "of the mover, each");
      add(r, "peers.threads", n, "threads", (f.threads - empty.threads) / n, "of the mover, each");
      add(r, "peers.up", n, "ms", there, "from the start of the mover until all of them are up");
      bad = dray_region_alloc(KIB(4), false, &g) < 0 || dray_region_register(d, &g) < 0;
      uint8_t key[16];
      stage_key(1, key);
      dray_prep_put(dray_get_sqe(d), key, g.id, 0, CELL, DRAY_TIER_REMOTE);
      struct dray_cqe c = stage_one(d);
      while (c.type == DRAY_LINK_STATE && dray_wait(d, 1, 10000) > 0) {
        c = *dray_peek(d);
        dray_seen(d);
      }
      double hit = c.status == DRAY_OK ? peers_stat_ns(d, 1, DRAY_REASON_OK, rounds) : -1;
      double miss = peers_stat_ns(d, 2, DRAY_ABSENT, rounds);
      bad |= hit <= 0 || miss <= 0;
      add(r, "peers.hit", n, "us", hit / 1e3, "a STAT of what one of them has, alone");
      add(r, "peers.miss", n, "us", miss / 1e3, "a STAT of what none has: each is asked, one after the other");
    }
    if (o->progress)
      fprintf(stderr, "scale: %u peers\n", n);
    dray_close(d);
    if (n && !bad)
      dray_region_free(&g);
    stage_close(&st);
  }
  return bad;
}

int bench_scale(const struct bench_options *o, struct report *r)
{
  if (o->peer)
    return scale_peers(o, r);
  int bad = scale_sessions(o, r);
  return bad | scale_cells(o, r);
}
