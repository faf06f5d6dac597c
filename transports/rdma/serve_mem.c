/* SPDX-License-Identifier: Apache-2.0 */
/* What peers reach of us: memory lent to one of them, slabs to read, reservations to write. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <dray/types.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "include/priv/order.h"
#include "transports/rdma/serve_internal.h"

#define READS IBV_ACCESS_REMOTE_READ
#define WRITES (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define SLAB_KEEP_NS 30000000000ull /* a slab that nobody reads is deregistered after so long */

static struct serve_peer *peer_of(struct serve *s, const struct talk *t)
{
  for (uint32_t i = 0; i < SERVE_PEERS; i++) {
    struct serve_peer *p = &s->peer[i];
    if (p->used && p->instance == t->instance && !strcmp(p->name, t->facts.asker_name))
      return p;
  }
  return NULL;
}

/* ---- handles ---- */

static struct serve_handle *handle_new(struct serve *s, struct serve_peer *p, uint64_t *ret_id)
{
  for (uint32_t i = 0; i < SERVE_HANDLES; i++) {
    struct serve_handle *h = &s->handle[i];
    if (h->used)
      continue;
    *h = (struct serve_handle){.used = true, .gen = h->gen + 1, .peer = p};
    h->until_ns = s->now_ns + (uint64_t)s->host.lease_ms * 1000000u;
    *ret_id = (uint64_t)h->gen << 32 | (i + 1);
    stat_set(&s->stats.handles, ++s->handles_n);
    return h;
  }
  return NULL;
}

static struct serve_handle *handle_find(struct serve *s, const struct talk *t, uint64_t id, bool writes)
{
  uint32_t i = (uint32_t)id - 1;
  struct serve_handle *h = i < SERVE_HANDLES ? &s->handle[i] : NULL;
  return h && h->used && h->gen == id >> 32 && h->writes == writes && h->peer == peer_of(s, t) ? h : NULL;
}

static struct serve_slab *slab_find(struct serve *s, uint64_t slab)
{
  for (uint32_t i = 0; i < SERVE_SLABS; i++)
    if (s->slab[i].slab == slab)
      return &s->slab[i];
  return NULL;
}

/* The peer reaches it no more. A reservation's cell is the caller's to commit or abandon. */
static void handle_end(struct serve *s, struct serve_handle *h)
{
  if (h->writes) {
    verbs_mem_dereg(&h->mem);
  } else {
    LOCKED(&s->slabs_lock);
    struct serve_slab *r = slab_find(s, h->cell.slab);
    if (r && r->readers)
      r->readers--;
  }
  if (!h->writes)
    s->cfg.cells->unpin(s->cfg.cells->ctx, &h->cell);
  h->used = false;
  stat_set(&s->stats.handles, --s->handles_n);
}

static void handle_drop(struct serve *s, struct serve_handle *h)
{
  struct serve_cell c = h->cell;
  bool writes = h->writes;
  handle_end(s, h);
  if (writes)
    s->cfg.cells->abandon(s->cfg.cells->ctx, &c);
}

/* ---- slabs that are read ---- */

static void slab_forget(struct serve *s, struct serve_slab *r)
{
  verbs_mem_dereg(&r->mem);
  *r = (struct serve_slab){0};
  stat_set(&s->stats.registered_slabs, s->stats.registered_slabs - 1);
}

/* Registered once, whole, for reading; the pieces of the cell in it. 0: it cannot be. */
static uint32_t slab_segs(struct serve *s, const struct serve_cell *c, struct wire_seg seg[WIRE_SEGS_MAX])
{
  struct err e = {{0}};
  LOCKED(&s->slabs_lock);
  struct serve_slab *r = slab_find(s, c->slab);
  if (!r) {
    r = slab_find(s, 0);
    if (!r)
      return 0;
    if (verbs_mem_reg(&s->verbs, c->base, c->slab_bytes, READS, &r->mem, &e)) {
      serve_say(s, "a slab cannot be shown to a peer: %s", e.text);
      return 0;
    }
    r->slab = c->slab;
    stat_set(&s->stats.registered_slabs, s->stats.registered_slabs + 1);
  }
  uint32_t n = verbs_mem_segs(&r->mem, c->off, c->len, seg, WIRE_SEGS_MAX);
  r->readers += n != 0;
  r->used_ns = s->now_ns;
  return n;
}

void serve_slab_gone(struct serve *s, uint64_t slab)
{
  LOCKED(&s->slabs_lock);
  struct serve_slab *r = slab ? slab_find(s, slab) : NULL;
  if (r)
    slab_forget(s, r);
}

/* ---- what is lent ---- */

static void lent_end(struct serve *s, struct serve_peer *p)
{
  if (!p->lease)
    return;
  void *base = p->lent.base;
  uint64_t bytes = p->lent.bytes;
  verbs_mem_dereg(&p->lent); /* first: whoever still writes there meets an error, not somebody else's bytes */
  munmap(base, bytes);
  s->lent_bytes -= bytes;
  p->lease = 0;
  stat_set(&s->stats.lent_bytes, s->lent_bytes);
}

static unsigned lent_begin(struct serve *s, struct serve_peer *p, uint64_t bytes)
{
  struct err e = {{0}};
  if (!range_inside(s->lent_bytes, bytes, s->cfg.lend))
    return DRAY_NO_ROOM;
  void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED)
    return DRAY_NO_ROOM;
  if (verbs_mem_reg(&s->verbs, base, bytes, READS | WRITES, &p->lent, &e)) {
    serve_say(s, "peer %s is lent nothing: %s", p->name, e.text);
    munmap(base, bytes);
    return DRAY_NO_ROOM;
  }
  s->lent_bytes += bytes;
  p->lease = s->next_lease++;
  stat_set(&s->stats.lent_bytes, s->lent_bytes);
  return DRAY_REASON_OK;
}

void serve_peer_forget(struct serve *s, struct serve_peer *p)
{
  for (uint32_t i = 0; i < SERVE_HANDLES; i++)
    if (s->handle[i].used && s->handle[i].peer == p)
      handle_drop(s, &s->handle[i]);
  lent_end(s, p);
  LIST_EACH (&s->conns, at) {
    struct serve_conn *c = LIST_OF(at, struct serve_conn, link);
    if (c->peer == p) {
      c->peer = NULL;
      c->closing = true;
    }
  }
  p->used = false;
  stat_set(&s->stats.peers, s->stats.peers - 1);
}

struct serve_peer *serve_peer_in(struct serve *s, const struct talk *t)
{
  struct serve_peer *p = peer_of(s, t), *empty = NULL;
  for (uint32_t i = 0; i < SERVE_PEERS && !p; i++) {
    struct serve_peer *o = &s->peer[i];
    /* the same name anew: what its earlier self had is nobody's now */
    if (o->used && !strcmp(o->name, t->facts.asker_name))
      serve_peer_forget(s, o);
    if (!o->used && !empty)
      empty = o;
  }
  if (!p && empty) {
    p = empty;
    *p = (struct serve_peer){.used = true, .instance = t->instance};
    memcpy(p->name, t->facts.asker_name, sizeof p->name);
    stat_add(&s->stats.peers, 1);
    serve_say(s, "peer %s is in", p->name);
  }
  if (p)
    p->last_ns = s->now_ns;
  return p;
}

void serve_mem_tick(struct serve *s)
{
  uint64_t lease_ns = (uint64_t)s->host.lease_ms * 1000000u;
  for (uint32_t i = 0; i < SERVE_PEERS; i++)
    if (s->peer[i].used && s->now_ns - s->peer[i].last_ns > lease_ns) {
      serve_say(s, "peer %s is gone: what it was lent is taken back", s->peer[i].name);
      serve_peer_forget(s, &s->peer[i]);
    }
  for (uint32_t i = 0; s->handles_n && i < SERVE_HANDLES; i++)
    if (s->handle[i].used && s->now_ns > s->handle[i].until_ns)
      handle_drop(s, &s->handle[i]);
  LOCKED(&s->slabs_lock);
  for (uint32_t i = 0; s->stats.registered_slabs && i < SERVE_SLABS; i++)
    if (s->slab[i].slab && !s->slab[i].readers && s->now_ns - s->slab[i].used_ns > SLAB_KEEP_NS)
      slab_forget(s, &s->slab[i]);
}

void serve_mem_close(struct serve *s)
{
  for (uint32_t i = 0; i < SERVE_PEERS; i++)
    if (s->peer[i].used)
      serve_peer_forget(s, &s->peer[i]);
  for (uint32_t i = 0; i < SERVE_SLABS; i++)
    if (s->slab[i].slab)
      slab_forget(s, &s->slab[i]);
}

/* ---- questions ---- */

static void ask_lend(void *ctx, struct talk *t, const struct wire_lend *q, struct wire_lent *a)
{
  struct serve *s = ctx;
  struct serve_peer *p = peer_of(s, t);
  a->reason = DRAY_REASON_OK;
  if (!is_aligned(q->bytes, PAGE_BYTES) || !p)
    a->reason = DRAY_OUT_OF_RANGE;
  else if (!p->lease || p->lease != q->lease || p->lent.bytes != q->bytes) {
    lent_end(s, p);
    a->reason = (uint16_t)lent_begin(s, p, q->bytes);
  }
  if (a->reason != DRAY_REASON_OK)
    return;
  a->lease = p->lease;
  a->bytes = p->lent.bytes;
  a->segs = p->lent.pieces;
}

static void ask_segs(void *ctx, struct talk *t, const struct wire_segs *q, struct wire_segments *a)
{
  struct serve *s = ctx;
  const struct serve_peer *p = peer_of(s, t);
  a->reason = DRAY_BAD_LEASE;
  if (!p || !q->lease || p->lease != q->lease || q->first >= p->lent.pieces)
    return;
  uint64_t from = (uint64_t)q->first * p->lent.piece;
  uint64_t n = MIN_OF(p->lent.pieces - q->first, WIRE_LENT_MAX);
  uint64_t bytes = MIN_OF(n * p->lent.piece, p->lent.bytes - from);
  a->n = (uint16_t)verbs_mem_segs(&p->lent, from, bytes, a->seg, WIRE_LENT_MAX);
  a->reason = DRAY_REASON_OK;
}

static void ask_wipe(void *ctx, struct talk *t, const struct wire_wipe *q, struct wire_done *a)
{
  struct serve *s = ctx;
  const struct serve_peer *p = peer_of(s, t);
  a->reason = DRAY_BAD_LEASE;
  if (!p || !q->lease || p->lease != q->lease)
    return;
  a->reason = DRAY_OUT_OF_RANGE;
  if (!range_inside(q->off, q->bytes, p->lent.bytes))
    return;
  memset(p->lent.base + q->off, 0, q->bytes);
  a->reason = DRAY_REASON_OK;
}

static unsigned ask_find(struct serve *s, const struct wire_resolve *q, bool pin, struct serve_cell *ret_cell)
{
  return s->cfg.cells ? s->cfg.cells->find(s->cfg.cells->ctx, q, pin, ret_cell) : DRAY_ABSENT;
}

static void ask_resolve(void *ctx, struct talk *t, const struct wire_resolve *q, struct wire_resolved *a)
{
  struct serve *s = ctx;
  struct serve_cell c = {0};
  unsigned r = ask_find(s, q, true, &c);
  a->reason = (uint16_t)r;
  if (r != DRAY_REASON_OK)
    return;
  uint64_t id = 0;
  uint32_t n = slab_segs(s, &c, a->seg);
  struct serve_handle *h = n ? handle_new(s, peer_of(s, t), &id) : NULL;
  if (!h) {
    s->cfg.cells->unpin(s->cfg.cells->ctx, &c);
    a->reason = n ? DRAY_LIMIT : DRAY_UNSUPPORTED;
    return;
  }
  h->cell = c;
  a->n = (uint8_t)n;
  a->handle = id;
  a->len = c.len;
  a->crc = c.crc;
  a->has_crc = c.has_crc;
  a->scope = c.scope;
  a->taint = c.taint;
  a->mkey = c.mkey;
  a->lease_ms = s->host.lease_ms;
}

static void ask_release(void *ctx, struct talk *t, uint64_t id, struct wire_done *a)
{
  struct serve_handle *h = handle_find(ctx, t, id, false);
  a->reason = h ? DRAY_REASON_OK : DRAY_BAD_LEASE;
  if (h)
    handle_end(ctx, h);
}

static void ask_stat(void *ctx, struct talk *t, const struct wire_resolve *q, struct wire_facts *a)
{
  struct serve_cell c = {0};
  (void)t;
  a->reason = (uint16_t)ask_find(ctx, q, false, &c);
  if (a->reason != DRAY_REASON_OK)
    return;
  a->scope = c.scope;
  a->taint = c.taint;
  a->has_crc = c.has_crc;
  a->tier = c.tier;
  a->len = c.len;
  a->crc = c.crc;
}

static void ask_reserve(void *ctx, struct talk *t, const struct wire_reserve *q, struct wire_reserved *a)
{
  struct serve *s = ctx;
  struct err e = {{0}};
  struct serve_cell c = {0};
  uint64_t id = 0;
  a->reason = DRAY_UNSUPPORTED;
  if (!s->cfg.cells)
    return;
  a->reason = !q->len ? DRAY_ZERO_LENGTH : q->len > s->host.cell_max ? DRAY_TOO_LARGE : DRAY_REASON_OK;
  if (a->reason == DRAY_REASON_OK)
    a->reason = (uint16_t)s->cfg.cells->reserve(s->cfg.cells->ctx, q, &c);
  if (a->reason != DRAY_REASON_OK)
    return;
  struct serve_handle *h = handle_new(s, peer_of(s, t), &id);
  if (!h || verbs_mem_reg(&s->verbs, c.base + c.off, c.len, WRITES, &h->mem, &e)) {
    if (h) {
      serve_say(s, "a reservation cannot be shown to a peer: %s", e.text);
      h->used = false;
      stat_set(&s->stats.handles, --s->handles_n);
    }
    s->cfg.cells->abandon(s->cfg.cells->ctx, &c);
    a->reason = DRAY_LIMIT;
    return;
  }
  h->writes = true;
  h->cell = c;
  uint32_t n = verbs_mem_segs(&h->mem, 0, c.len, a->seg, WIRE_SEGS_MAX);
  if (!n) {
    handle_drop(s, h);
    a->reason = DRAY_TOO_LARGE;
    return;
  }
  a->n = (uint16_t)n;
  a->handle = id;
  a->lease_ms = s->host.lease_ms;
}

static void ask_commit(void *ctx, struct talk *t, const struct wire_commit *q, struct wire_done *a)
{
  struct serve *s = ctx;
  struct serve_handle *h = handle_find(s, t, q->handle, true);
  a->reason = DRAY_BAD_LEASE;
  if (!h)
    return;
  struct serve_cell c = h->cell;
  handle_end(s, h); /* the peer writes no more: what is checked is what stays */
  if (q->len != c.len) {
    s->cfg.cells->abandon(s->cfg.cells->ctx, &c);
    a->reason = DRAY_OUT_OF_RANGE;
    return;
  }
  a->reason = (uint16_t)s->cfg.cells->commit(s->cfg.cells->ctx, &c, q->crc);
}

static void ask_abandon(void *ctx, struct talk *t, uint64_t id, struct wire_done *a)
{
  struct serve_handle *h = handle_find(ctx, t, id, true);
  a->reason = h ? DRAY_REASON_OK : DRAY_BAD_LEASE;
  if (h)
    handle_drop(ctx, h);
}

const struct talk_ops serve_ops = {
    .lend = ask_lend,
    .segs = ask_segs,
    .wipe = ask_wipe,
    .resolve = ask_resolve,
    .reserve = ask_reserve,
    .stat = ask_stat,
    .release = ask_release,
    .commit = ask_commit,
    .abandon = ask_abandon,
};
