/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One engine of a replay. Per request: STAT of its blocks, in BATCHes, as far as they are there; GET (or MAP) of that
 * prefix, every byte of it checked; PUT of what was missing. Blocks lie in the region as engines have them: the first
 * piece of every block, then the second piece of every block, ...; a layout lets one item name all the pieces of one
 * block.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/replay.h"
#include "include/priv/bits.h"
#include "include/priv/order.h"

#define PATIENCE_MS 120000
#define REGION_MAX MIB(256)

/* A tenant's session within the engine. */
struct seat {
  struct dray *d;
  struct dray_region region;
  uint16_t layout;
  uint32_t slots; /* blocks that the region holds */
  uint32_t tenant;
  bool *there; /* per block of the request at hand */
};
struct engine {
  const struct replay_options *o;
  const struct trace *t;
  struct engine_result *out;
  uint64_t block_bytes;
  uint32_t request; /* at hand */
};

static int give_up(struct engine *g, const char *what, int r)
{
  snprintf(g->out->error, sizeof g->out->error, "%s: %s", what, strerror(r < 0 ? -r : r));
  return -1;
}

static uint64_t seed_of(uint32_t tenant, uint64_t id)
{
  return trace_mix(id + trace_mix(tenant + 1));
}
static void key_of(uint64_t id, uint8_t ret_key[16])
{
  const uint64_t text[2] = {0x70657266697821ull, id};
  dray_digest(text, sizeof text, ret_key);
}

/* 8-byte word w of a block; blocks are whole words. */
static void fill_piece(void *p, uint64_t bytes, uint64_t seed, uint64_t word)
{
  char *c = p;
  for (uint64_t i = 0; i < bytes; i += 8, word++) {
    uint64_t v = seed + word * 0x9e3779b97f4a7c15ull;
    memcpy(c + i, &v, 8);
  }
}
static bool check_piece(const void *p, uint64_t bytes, uint64_t seed, uint64_t word)
{
  const char *c = p;
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < bytes; i += 8, word++) {
    uint64_t v;
    memcpy(&v, c + i, 8);
    wrong |= v ^ (seed + word * 0x9e3779b97f4a7c15ull);
  }
  return wrong == 0;
}

static char *piece(const struct engine *g, const struct seat *s, uint32_t slot, uint32_t seg)
{
  return (char *)s->region.base + ((uint64_t)seg * s->slots + slot) * g->o->seg_bytes;
}
static void fill_block(const struct engine *g, const struct seat *s, uint32_t slot, uint64_t id)
{
  for (uint32_t k = 0; k < g->o->segs; k++)
    fill_piece(piece(g, s, slot, k), g->o->seg_bytes, seed_of(s->tenant, id), (uint64_t)k * g->o->seg_bytes / 8);
}
/* So that what an earlier block left there cannot pass for this one. */
static void wipe_block(const struct engine *g, const struct seat *s, uint32_t slot)
{
  for (uint32_t k = 0; k < g->o->segs; k++)
    memset(piece(g, s, slot, k), 0xa5, g->o->seg_bytes);
}
static bool check_block(const struct engine *g, const struct seat *s, uint32_t slot, uint64_t id)
{
  bool right = true;
  for (uint32_t k = 0; k < g->o->segs; k++)
    right &=
        check_piece(piece(g, s, slot, k), g->o->seg_bytes, seed_of(s->tenant, id), (uint64_t)k * g->o->seg_bytes / 8);
  return right;
}

static void judge(struct engine *g, const struct seat *s, uint64_t id, bool right)
{
  struct engine_result *out = g->out;
  out->verified_bytes += g->block_bytes;
  if (!right && out->wrong++ == 0) {
    out->wrong_tenant = s->tenant;
    out->wrong_id = id;
  }
}

/* A BATCH over rows [0, n) of the arena. */
static int batch(struct engine *g, struct seat *s, unsigned kind, uint32_t n)
{
  static const uint8_t ops[KIND_REQUEST] = {DRAY_STAT, DRAY_GET, DRAY_MAP, DRAY_UNMAP, DRAY_PUT};
  struct dray_cqe c;
  struct dray_sqe *q = dray_get_sqe(s->d);
  if (!q)
    return give_up(g, "no credit left", -EBUSY);
  q->op = ops[kind];
  if (kind == KIND_GET || kind == KIND_PUT) {
    q->region = s->region.id;
    q->layout = s->layout;
    q->flags = g->o->crc ? DRAY_VERIFY_CRC : 0;
  } else if (kind == KIND_MAP) {
    q->flags = DRAY_MAP_OR_STAGE;
  }
  if (kind == KIND_GET || kind == KIND_PUT || kind == KIND_MAP)
    q->request = g->request; /* whom to meter */
  dray_sqe_batch(q, 0, n);
  uint64_t then = stage_now_ns();
  int r = cli_finish(s->d, PATIENCE_MS, &c);
  if (r < 0)
    return give_up(g, dray_op_name(ops[kind]), r);
  hist_add(&g->out->latency[kind], stage_now_ns() - then);
  if (c.status != DRAY_OK && c.failed == 0) { /* the directive, not items of it: then there are no results */
    snprintf(g->out->error, sizeof g->out->error, "%s of %u: %s: %s", dray_op_name(ops[kind]), n,
             dray_status_name(c.status), dray_reason_name(c.reason));
    return -1;
  }
  return 0;
}

static void item_set(struct seat *s, uint32_t row, uint64_t id, uint64_t off, uint64_t len)
{
  struct dray_item it;
  memset(&it, 0, sizeof it);
  key_of(id, it.key);
  it.off = off;
  it.len = (uint32_t)len;
  dray_items(s->d)[row] = it;
}

static bool is_miss(unsigned reason)
{
  return reason == DRAY_ABSENT || reason == DRAY_EVICTED || reason == DRAY_STALE_GENERATION;
}
static void count_reason(struct engine *g, unsigned reason)
{
  g->out->reason[MIN_OF(reason, (unsigned)DRAY_REASON_COUNT - 1)]++;
}

/* Which blocks are there, and how long the prefix of them is. */
static int look_up(struct engine *g, struct seat *s, const uint64_t *id, uint32_t n, uint32_t *ret_prefix)
{
  uint32_t prefix = 0;
  for (uint32_t at = 0; at < n;) {
    uint32_t k = MIN_OF(n - at, g->o->batch);
    for (uint32_t i = 0; i < k; i++)
      item_set(s, i, id[at + i], 0, 0);
    if (batch(g, s, KIND_STAT, k) < 0)
      return -1;
    for (uint32_t i = 0; i < k; i++) {
      const struct dray_item_result *x = &dray_results(s->d)[i];
      s->there[at + i] = x->reason == DRAY_REASON_OK;
      if (!s->there[at + i] && !is_miss(x->reason))
        count_reason(g, x->reason);
      if (prefix == at + i && s->there[at + i])
        prefix++;
    }
    at += k;
  }
  *ret_prefix = prefix;
  return 0;
}

/* Counts the result of a read; true: the bytes are there. */
static bool count_read(struct engine *g, struct seat *s, const struct dray_item_result *x, uint32_t block,
                       uint32_t *hits)
{
  struct engine_result *out = g->out;
  if (x->reason != DRAY_REASON_OK) {
    s->there[block] = false;
    out->vanished++;
    if (!is_miss(x->reason))
      count_reason(g, x->reason);
    return false;
  }
  if (*hits == block) {
    (*hits)++;
    out->hits_by_tier[x->tier % DRAY_TIER_COUNT]++;
    out->hits_by_path[x->path % DRAY_PATH_COUNT]++;
  }
  out->got_bytes += x->bytes;
  out->bytes_by_path[x->path % DRAY_PATH_COUNT] += x->bytes;
  return true;
}

static int get_prefix(struct engine *g, struct seat *s, const uint64_t *id, uint32_t n, uint32_t *hits)
{
  for (uint32_t at = 0; at < n;) {
    uint32_t k = MIN_OF(n - at, s->slots);
    for (uint32_t i = 0; i < k; i++) {
      item_set(s, i, id[at + i], i, g->block_bytes);
      wipe_block(g, s, i);
    }
    if (batch(g, s, KIND_GET, k) < 0)
      return -1;
    for (uint32_t i = 0; i < k; i++)
      if (count_read(g, s, &dray_results(s->d)[i], at + i, hits))
        judge(g, s, id[at + i], check_block(g, s, i, id[at + i]));
    at += k;
  }
  return 0;
}

static int map_prefix(struct engine *g, struct seat *s, const uint64_t *id, uint32_t n, uint32_t *hits)
{
  for (uint32_t at = 0; at < n;) {
    uint32_t k = MIN_OF(n - at, g->o->batch), held = 0;
    for (uint32_t i = 0; i < k; i++)
      item_set(s, i, id[at + i], 0, 0);
    if (batch(g, s, KIND_MAP, k) < 0)
      return -1;
    for (uint32_t i = 0; i < k; i++) {
      struct dray_item_result x = dray_results(s->d)[i];
      if (!count_read(g, s, &x, at + i, hits))
        continue;
      const void *p = dray_map_address(s->d, x.slab, x.off);
      judge(g, s, id[at + i],
            p && x.bytes == g->block_bytes && check_piece(p, g->block_bytes, seed_of(s->tenant, id[at + i]), 0));
      struct dray_item it; /* rows are free again since the DONE */
      memset(&it, 0, sizeof it);
      it.off = x.object;
      dray_items(s->d)[held++] = it;
    }
    if (held && batch(g, s, KIND_UNMAP, held) < 0)
      return -1;
    for (uint32_t i = 0; i < held; i++)
      if (dray_results(s->d)[i].reason != DRAY_REASON_OK)
        count_reason(g, dray_results(s->d)[i].reason);
    at += k;
  }
  return 0;
}

static int put_missing(struct engine *g, struct seat *s, const uint64_t *id, uint32_t n)
{
  struct engine_result *out = g->out;
  for (uint32_t at = 0; at < n;) {
    uint32_t k = 0;
    for (; at < n && k < s->slots; at++) {
      if (s->there[at])
        continue;
      item_set(s, k, id[at], k, g->block_bytes);
      fill_block(g, s, k++, id[at]);
    }
    if (k && batch(g, s, KIND_PUT, k) < 0)
      return -1;
    for (uint32_t i = 0; i < k; i++) {
      const struct dray_item_result *x = &dray_results(s->d)[i];
      if (x->reason != DRAY_REASON_OK) {
        count_reason(g, x->reason);
        continue;
      }
      out->put++;
      out->put_bytes += x->bytes;
      out->put_by_tier[x->tier % DRAY_TIER_COUNT]++;
      out->put_by_path[x->path % DRAY_PATH_COUNT]++;
      out->bytes_by_path[x->path % DRAY_PATH_COUNT] += x->bytes;
    }
  }
  return 0;
}

static int seat_open(struct engine *g, struct seat *s, uint32_t tenant, const char *socket, uint32_t longest)
{
  const struct replay_options *o = g->o;
  struct cli_options who = o->cli;
  who.socket = socket;
  who.agent = who.agent ? who.agent : "replay";
  if (o->named)
    who.token = o->tenant[tenant].token;
  s->tenant = tenant;
  s->slots = (uint32_t)MAX_OF(MIN_OF((uint64_t)MIN_OF(o->batch, longest), REGION_MAX / g->block_bytes), (uint64_t)1);
  s->there = calloc(longest, sizeof *s->there);
  s->d = cli_session(&who, 16, o->batch);
  if (!s->d || !s->there)
    return give_up(g, "session", -ENOTCONN);
  int r = cli_region(s->d, align_up(s->slots * g->block_bytes, PAGE_BYTES), &s->region);
  const struct dray_layout layout = {.block_stride = o->seg_bytes,
                                     .seg_stride = (uint64_t)s->slots * o->seg_bytes,
                                     .seg_bytes = o->seg_bytes,
                                     .segs = o->segs};
  if (r == 0)
    r = dray_layout_define(s->d, &layout, &s->layout);
  return r < 0 ? give_up(g, "region and layout", r) : 0;
}

static void seat_close(struct seat *s)
{
  dray_close(s->d);
  if (s->region.base)
    dray_region_free(&s->region);
  free(s->there);
}

/* When request i is due; 0: when the one before is done. */
static uint64_t due_at(const struct engine *g, uint32_t i)
{
  if (g->o->rate > 0)
    return g->out->begun_ns + (uint64_t)((double)i * 1e9 / g->o->rate);
  if (g->o->time_scale > 0)
    return g->out->begun_ns + (uint64_t)((double)g->t->req[i].at_us * 1000.0 * g->o->time_scale);
  return 0;
}

/* Until the request's time has come. When it counts from: a mover that falls behind does not hide it. */
static uint64_t await_arrival(struct engine *g, uint64_t due)
{
  uint64_t now = stage_now_ns();
  if (due == 0)
    return now;
  if (now >= due) {
    g->out->late_ns = MAX_OF(g->out->late_ns, now - due);
    return due;
  }
  struct timespec t = {.tv_sec = (time_t)(due / 1000000000u), .tv_nsec = (long)(due % 1000000000u)};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
  return due;
}

static int serve(struct engine *g, struct seat *s, const struct trace_request *q)
{
  const uint64_t *id = &g->t->id[q->first];
  uint32_t prefix = 0, hits = 0;
  if (look_up(g, s, id, q->blocks, &prefix) < 0)
    return -1;
  int r = g->o->map ? map_prefix(g, s, id, prefix, &hits) : get_prefix(g, s, id, prefix, &hits);
  if (r < 0 || put_missing(g, s, id, q->blocks) < 0)
    return -1;
  g->out->wanted += q->blocks;
  g->out->hits += hits;
  return 0;
}

int engine_run(const struct replay_options *o, const struct trace *t, uint32_t engine, const char *socket,
               struct engine_result *ret)
{
  struct engine g = {.o = o, .t = t, .out = ret, .block_bytes = (uint64_t)o->segs * o->seg_bytes};
  struct seat seat[REPLAY_TENANTS_MAX];
  uint32_t longest = 1;
  int r = 0;
  memset(seat, 0, sizeof seat);
  for (uint32_t i = 0; i < t->n; i++)
    longest = MAX_OF(longest, t->req[i].blocks);
  for (uint32_t k = engine; k < o->tenants && r == 0; k += o->engines)
    r = seat_open(&g, &seat[k], k, socket, longest);
  ret->begun_ns = stage_now_ns();
  for (uint32_t i = 0; i < t->n && r == 0; i++) {
    uint32_t k = trace_tenant(t, i, o->tenants);
    if (k % o->engines != engine)
      continue;
    uint64_t since = await_arrival(&g, due_at(&g, i));
    g.request = i + 1;
    r = serve(&g, &seat[k], &t->req[i]);
    uint64_t took = stage_now_ns() - since;
    hist_add(&ret->latency[KIND_REQUEST], took);
    ret->tenant_ns[k] += took;
    ret->tenant_blocks[k] += t->req[i].blocks;
    stat_add(&ret->progress, 1);
  }
  ret->ended_ns = stage_now_ns();
  for (uint32_t k = 0; k < o->tenants; k++)
    seat_close(&seat[k]);
  return r == 0 ? EXIT_OK : EXIT_ERROR;
}
