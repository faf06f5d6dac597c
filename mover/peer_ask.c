/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One question to the peer and what follows from its answer, for one step. The question outlives the step when that is
 * stopped first: the answer then only lets go again of what the peer keeps for it.
 */
#include <stdlib.h>
#include <string.h>

#include "include/priv/bits.h"
#include "mover/daemon.h"
#include "mover/lane.h"
#include "mover/peer.h"
#include "mover/peer_ask.h"
#include "mover/session.h"
#include "mover/step.h"

#define RELEASE_MS 5000u

bool peer_any(const struct lane *l)
{
  return l->d->peers != NULL;
}

/* ---- questions ---- */

/* The link thread: keeps the answer and passes it to the lane. */
static void on_answer(struct link_call *c, const union wire_msg *a, unsigned reason)
{
  struct peer_ask *k = CONTAINER_OF(c, struct peer_ask, call);
  k->reason = (uint16_t)reason;
  if (a)
    k->a = *a;
  else
    memset(&k->a, 0, sizeof k->a);
  int r = 0;
  if (a && a->h.type == WIRE_RESOLVED && a->resolved.reason == DRAY_REASON_OK)
    r = remote_slab(k->dev, a->resolved.seg, a->resolved.n, a->resolved.len, &k->mem);
  else if (a && a->h.type == WIRE_RESERVED && a->reserved.reason == DRAY_REASON_OK)
    r = remote_slab(k->dev, a->reserved.seg, a->reserved.n, wire_segs_bytes(a->reserved.seg, a->reserved.n), &k->mem);
  if (r < 0)
    k->reason = DRAY_LIMIT;
  k->msg = (struct lane_msg){.kind = LANE_PEER, .base = k};
  lane_send(k->l, &k->msg);
}

void peer_ask_send(struct peer_ask *k, uint64_t deadline_ns)
{
  k->call.deadline_ns = deadline_ns;
  k->call.done = on_answer;
  k->asking = true;
  k->asked_ns = daemon_now_ns();
  link_ask(remote_link(k->dev), &k->call);
}

static void on_released(struct link_call *c, const union wire_msg *a, unsigned reason)
{
  (void)a, (void)reason;
  free(c);
}

void peer_ask_release(struct peer_ask *k)
{
  struct link_call *c = k->held ? calloc(1, sizeof *c) : NULL;
  k->held = false;
  if (!c)
    return;
  wire_begin(&c->q, k->writes ? WIRE_ABANDON : WIRE_RELEASE, 0, 1);
  c->q.handle.handle = k->handle;
  c->deadline_ns = daemon_now_ns() + RELEASE_MS * 1000000ull;
  c->done = on_released;
  link_ask(remote_link(k->dev), c);
}

static void ask_free(struct peer_ask *k)
{
  peer_ask_release(k);
  remote_free(&k->mem);
  free(k);
}

void peer_step_end(struct lane *l, struct step *t)
{
  struct peer_ask *k = t->peer;
  (void)l;
  t->peer = NULL;
  if (!k)
    return;
  k->t = NULL;
  if (!k->asking)
    ask_free(k);
}

struct peer_ask *peer_ask_new(const struct call *c, unsigned kind, struct step **ret_step)
{
  struct peer_ask *k = calloc(1, sizeof *k);
  if (!k)
    return NULL;
  struct step *t = step_new(c->l, c->s, c->j, c->item, kind);
  k->l = c->l;
  k->t = t;
  t->peer = k;
  t->state = STEP_ASK;
  t->tier = DRAY_TIER_REMOTE;
  memcpy(t->cell.key, c->w->key, 16);
  *ret_step = t;
  return k;
}

static bool no_memory(struct outcome *o)
{
  *o = outcome_refused(DRAY_LIMIT);
  return true;
}

static void who_fill(const struct session *s, struct wire_who *w)
{
  snprintf(w->tenant, sizeof w->tenant, "%s", s->tenant_name);
  snprintf(w->agent, sizeof w->agent, "%s", s->agent_name);
}

static void mkey_fill(struct lane *l, uint32_t mkey, struct dray_key *ret_key)
{
  const struct dray_key *k = store_mkey_get(l->d->store, mkey);
  if (k)
    *ret_key = *k;
}

void peer_ask_about(struct peer_ask *k, const struct call *c, unsigned type, uint32_t mkey, bool move)
{
  wire_begin(&k->call.q, type, 0, 1);
  struct wire_resolve *q = &k->call.q.resolve;
  memcpy(q->key, c->w->key, 16);
  who_fill(c->s, &q->who);
  mkey_fill(c->l, mkey, &q->mkey);
  q->move = move;
}

static void reserve(struct peer_ask *k, const struct session *s, const struct cell_new *n)
{
  wire_begin(&k->call.q, WIRE_RESERVE, 0, 1);
  struct wire_reserve *q = &k->call.q.reserve;
  memcpy(q->key, n->key, 16);
  who_fill(s, &q->who);
  mkey_fill(k->l, n->mkey, &q->mkey);
  q->len = n->len;
  q->scope = n->who.scope;
  q->taint = n->taint;
  q->no_replace = n->no_replace;
  k->writes = true;
  peer_turn_first(k);
}

bool peer_get(const struct call *c, const struct span *mem, uint32_t mkey, struct outcome *o)
{
  struct step *t;
  struct peer_ask *k = peer_ask_new(c, STEP_GET, &t);
  if (!k)
    return no_memory(o);
  t->mem = *mem;
  t->len = c->w->len;
  peer_ask_about(k, c, WIRE_RESOLVE, mkey, false);
  peer_turn_first(k);
  return false;
}

bool peer_stat(const struct call *c, struct outcome *o)
{
  struct step *t;
  struct peer_ask *k = peer_ask_new(c, STEP_GET, &t);
  if (!k)
    return no_memory(o);
  peer_ask_about(k, c, WIRE_STAT, 0, false);
  peer_turn_first(k);
  return false;
}

bool peer_bring(const struct call *c, struct outcome *o)
{
  struct step *t;
  struct peer_ask *k = peer_ask_new(c, STEP_PUT, &t);
  if (!k)
    return no_memory(o);
  t->tier = c->j->req.sqe.tier;
  peer_ask_about(k, c, WIRE_RESOLVE, 0, true);
  peer_turn_first(k);
  return false;
}

bool peer_put(const struct call *c, const struct span *mem, uint32_t mkey, struct outcome *o)
{
  struct step *t;
  struct peer_ask *k = peer_ask_new(c, STEP_PUT, &t);
  if (!k)
    return no_memory(o);
  t->there = true;
  t->mem = *mem;
  t->len = c->w->len;
  t->cell.who = (struct store_who){.tenant = c->s->tenant, .agent = c->s->agent, .scope = DRAY_SCOPE_AGENT};
  t->cell.mkey = mkey;
  t->cell.len = c->w->len;
  t->cell.has_crc = 1;
  t->cell.no_replace = (c->j->req.sqe.flags & DRAY_NO_REPLACE) != 0;
  reserve(k, c->s, &t->cell);
  return false;
}

bool peer_send(const struct call *c, const struct cell_facts *f, struct slot_ref slot, struct outcome *o)
{
  struct step *t;
  struct slot_mem m;
  store_slot_mem(c->l->d->store, slot, &m);
  /* what it is read from must be in reach of the CPU; and a cell of another's keeps its owner, which we cannot say */
  unsigned r = !m.mem->base                                           ? DRAY_UNSUPPORTED
               : f->tenant != c->s->tenant || f->agent != c->s->agent ? DRAY_SCOPE_DENIED
                                                                      : 0;
  struct peer_ask *k = r ? NULL : peer_ask_new(c, STEP_MOVE, &t);
  if (!k) {
    store_unpin(c->l->d->store, slot);
    *o = outcome_refused(r ? r : DRAY_LIMIT);
    return true;
  }
  t->there = true;
  t->facts = *f;
  t->from = slot;
  t->mem = span_flat((char *)m.mem->base + m.off, f->len);
  t->len = f->len;
  k->leaves = true;
  t->cell = (struct cell_new){.who = {.tenant = f->tenant, .agent = f->agent, .scope = f->scope},
                              .mkey = f->mkey,
                              .len = f->len,
                              .taint = f->taint};
  memcpy(t->cell.key, f->key, 16);
  reserve(k, c->s, &t->cell);
  return false;
}

/* ---- answers ---- */

void peer_ask_end(struct lane *l, struct step *t, unsigned reason)
{
  struct outcome o = outcome_for(reason);
  o.tier = DRAY_TIER_REMOTE;
  complete_step_end(l, t, &o);
}

static void xfer_begin(struct step *t, struct peer_ask *k, uint8_t op, uint64_t bytes, bool crc)
{
  t->op = op;
  t->dev = k->dev;
  t->slab = &k->mem;
  t->slab_off = 0;
  step_begin(t, bytes, crc);
}

static void resolved(struct lane *l, struct step *t, struct peer_ask *k)
{
  const struct wire_resolved *a = &k->a.resolved;
  k->handle = a->handle;
  k->held = true;
  peer_turn_had(k);
  k->until_ns = k->asked_ns + (uint64_t)a->lease_ms * 1000000u;
  t->facts.len = a->len;
  t->facts.crc = a->crc;
  t->facts.has_crc = a->has_crc;
  if (t->kind == STEP_GET) {
    if (t->len > a->len) {
      peer_ask_end(l, t, DRAY_OUT_OF_RANGE);
      return;
    }
    /* what arrives is proven whenever it can be: the peer's word is not enough */
    xfer_begin(t, k, XFER_READ, t->len, a->has_crc && t->len == a->len);
    t->state = STEP_CUT;
    stat_add(&l->stats.hits_by_tier[DRAY_TIER_REMOTE], 1);
    step_start(l, t);
    return;
  }
  unsigned r = k->maps ? peer_map_place(l, t, k) : DRAY_REASON_OK;
  if (k->maps)
    stat_add(&l->stats.hits_by_tier[DRAY_TIER_REMOTE], 1);
  if (r != DRAY_REASON_OK) {
    peer_ask_end(l, t, r);
    return;
  }
  /* MOVE to here: a new cell of ours with what the peer knows of it. One of the fleet's has an owner that was not said
   */
  int32_t pool = l->d->pool_of_tier[t->tier];
  if (a->scope == DRAY_SCOPE_FLEET || pool < 0 || !a->has_crc) {
    peer_ask_end(l, t, pool < 0 ? DRAY_BAD_TIER : !a->has_crc ? DRAY_UNSUPPORTED : DRAY_SCOPE_DENIED);
    return;
  }
  static const struct dray_key none;
  t->pool = (uint32_t)pool;
  t->len = t->cell.len = a->len;
  t->cell.who = (struct store_who){.tenant = t->s->tenant, .agent = t->s->agent, .scope = a->scope};
  t->cell.mkey = memcmp(&a->mkey, &none, sizeof none) ? store_mkey(l->d->store, &a->mkey) : 0;
  t->cell.taint = a->taint;
  t->cell.has_crc = 1;
  t->state = STEP_ROOM;
  step_start(l, t);
}

void peer_source(struct lane *l, struct step *t, void *to)
{
  (void)l;
  t->mem = span_flat(to, t->len);
  xfer_begin(t, t->peer, XFER_READ, t->len, true);
}

static void reserved(struct lane *l, struct step *t, struct peer_ask *k)
{
  k->handle = k->a.reserved.handle;
  k->held = true;
  if (k->mem.bytes != t->len) {
    peer_ask_end(l, t, DRAY_IO_ERROR);
    return;
  }
  xfer_begin(t, k, XFER_WRITE, t->len, true);
  t->state = STEP_CUT;
  step_start(l, t);
}

static void stated(struct lane *l, struct step *t, const struct wire_facts *a)
{
  struct outcome o = outcome_ok;
  o.tier = DRAY_TIER_REMOTE;
  o.bytes = a->len;
  complete_step_end(l, t, &o);
}

bool peer_commits(struct lane *l, struct step *t)
{
  struct peer_ask *k = t->peer;
  uint32_t crc;
  if (!k->writes && !t->crc && !t->reason && daemon_now_ns() >= k->until_ns) {
    t->reason = DRAY_PEER_STALE; /* a part, which no CRC proves, and the peer may have put another cell there */
    t->bad_at = 0;
  }
  if (!k->writes || k->committed)
    return false;
  unsigned r = step_crc(t, &crc);
  if (r == DRAY_REASON_OK && t->kind == STEP_MOVE && t->facts.has_crc && crc != t->facts.crc)
    r = DRAY_CRC_MISMATCH; /* a corrupted source must not become a good copy */
  if (r != DRAY_REASON_OK) {
    t->reason = (uint16_t)r;
    return false;
  }
  (void)l;
  wire_begin(&k->call.q, WIRE_COMMIT, 0, 1);
  k->call.q.commit.handle = k->handle;
  k->call.q.commit.len = t->len;
  k->call.q.commit.crc = crc;
  t->state = STEP_ASK;
  k->held = false; /* whatever the answer: the peer keeps it no more */
  peer_ask_send(k, t->job->deadline_ns ? t->job->deadline_ns : daemon_now_ns() + RELEASE_MS * 1000000ull);
  return true;
}

static uint16_t answer_reason(const struct peer_ask *k)
{
  switch (k->a.h.type) {
  case WIRE_RESOLVED:
    return k->a.resolved.reason;
  case WIRE_RESERVED:
    return k->a.reserved.reason;
  case WIRE_FACTS:
    return k->a.facts.reason;
  default:
    return k->a.done.reason;
  }
}

void peer_answered(struct lane *l, struct peer_ask *k)
{
  struct step *t = k->t;
  unsigned type = k->a.h.type, asked = k->call.q.h.type;
  k->asking = false;
  if (k->reason == DRAY_REASON_OK) {
    k->reason = answer_reason(k);
    static const uint8_t want[WIRE_TYPES] = {[WIRE_RESOLVE] = WIRE_RESOLVED,
                                             [WIRE_RESERVE] = WIRE_RESERVED,
                                             [WIRE_COMMIT] = WIRE_DONE,
                                             [WIRE_STAT] = WIRE_FACTS};
    if (want[asked] != type)
      k->reason = DRAY_IO_ERROR; /* an answer to another question */
  }
  if (!t) { /* stopped meanwhile */
    if (k->reason == DRAY_REASON_OK && (type == WIRE_RESOLVED || type == WIRE_RESERVED)) {
      k->held = true;
      k->handle = type == WIRE_RESOLVED ? k->a.resolved.handle : k->a.reserved.handle;
    }
    ask_free(k);
    return;
  }
  if (k->reason != DRAY_REASON_OK && asked == WIRE_COMMIT) {
    t->reason = k->reason;
    complete_step(l, t);
  } else if (k->reason != DRAY_REASON_OK) {
    unsigned r;
    if (!peer_turn_next(k, k->reason, &r))
      peer_ask_end(l, t, r);
  } else if (asked == WIRE_RESOLVE) {
    resolved(l, t, k);
  } else if (asked == WIRE_RESERVE) {
    reserved(l, t, k);
  } else if (asked == WIRE_STAT) {
    stated(l, t, &k->a.facts);
  } else {
    k->committed = true;
    peer_turn_had(k);
    if (k->leaves)
      store_drop(l->d->store, &t->facts);
    complete_step(l, t);
  }
}
