/* SPDX-License-Identifier: Apache-2.0 */
/* Ops on one cell: PUT GET MAP UNMAP MOVE DROP STAT, plain or as an item of a BATCH. */
#include "mover/ops.h"

#include <string.h>

#include "include/priv/bits.h"
#include "mover/daemon.h"
#include "mover/lane.h"
#include "mover/grant.h"
#include "mover/peer.h"
#include "mover/session.h"
#include "mover/step.h"
#include "policy/gate.h"

bool ops_put(const struct call *c, struct outcome *o)
{
  const struct dray_sqe *q = &c->j->req.sqe;
  const struct dray_layout *layout;
  struct policy_ask ask;
  struct policy_verdict v;
  struct span mem;
  uint32_t mkey;
  struct region *r = &c->s->regions[c->j->region];
  unsigned reason = ops_layout(c->s, q->layout, &layout);
  if (reason == DRAY_REASON_OK)
    reason = span_make(r->base, r->size, layout, c->w->off, c->w->len, &mem);
  if (reason == DRAY_REASON_OK)
    reason = ops_mkey(c->s, q->arg, &mkey);
  if (reason != DRAY_REASON_OK) {
    *o = outcome_refused(reason);
    return true;
  }
  if (UNLIKELY(q->tier == DRAY_TIER_REMOTE) && peer_any(c->l))
    return peer_put(c, &mem, mkey, o);
  ops_ask(c->l, c->s, c->j, mkey, c->w->len, NULL, &ask);
  policy_decide(&c->l->d->cfg->policy, &ask, &v);
  if (v.decision != POLICY_ADMIT) {
    *o = outcome_of(&v);
    return true;
  }
  uint16_t account[2] = {0, 0};
  reason = quotas_budget(c->l, c->s, q->request, c->w->len, account);
  if (UNLIKELY(reason != DRAY_REASON_OK)) {
    *o = outcome_refused(reason);
    o->detail = reason == DRAY_QUOTA_EXCEEDED ? DRAY_RULE_LIMIT : 0;
    return true;
  }
  struct step *t = step_new(c->l, c->s, c->j, c->item, STEP_PUT);
  t->mem = mem;
  t->next = c->w->next;
  t->len = c->w->len;
  t->tier = v.to;
  t->pool = (uint32_t)c->l->d->pool_of_tier[v.to];
  t->cell = (struct cell_new){.who = {.tenant = c->s->tenant, .agent = c->s->agent, .scope = DRAY_SCOPE_AGENT},
                              .mkey = mkey,
                              .len = c->w->len,
                              .taint = 0, /* not judged yet: closed to others until PUBLISH says */
                              .has_crc = ops_crc(c),
                              .account = {account[0], account[1]},
                              .no_replace = (q->flags & DRAY_NO_REPLACE) != 0};
  memcpy(t->cell.key, c->w->key, 16);
  t->state = STEP_ROOM;
  step_start(c->l, t);
  return false;
}

/* Finds the cell, asks policy about it and the tier that is wanted, and leaves the copy that the verdict reads pinned.
   True: refused or missed, nothing pinned. */
static bool find_on(const struct call *c, uint32_t mkey_id, uint8_t tier, uint8_t pin, struct cell_facts *f,
                    struct slot_ref *slot, struct policy_verdict *v, struct outcome *o)
{
  struct lane *l = c->l;
  struct policy_ask ask;
  uint32_t mkey;
  unsigned r = ops_mkey(c->s, mkey_id, &mkey);
  if (r != DRAY_REASON_OK) {
    *o = outcome_refused(r);
    return true;
  }
  slot->slab = 0;
  r = store_find(l->d->store, c->s->tenant, c->w->key, pin, lane_ms(l), f, slot);
  if (r != DRAY_REASON_OK) {
    *o = outcome_for(r);
    return true;
  }
  ops_ask(l, c->s, c->j, mkey, f->len, f, &ask);
  ask.tier = tier;
  policy_decide(&l->d->cfg->policy, &ask, v);
  if (v->decision == POLICY_ADMIT)
    return false;
  if (slot->slab)
    store_unpin(l->d->store, *slot);
  slot->slab = 0;
  *o = outcome_of(v);
  return true;
}

static bool find(const struct call *c, uint32_t mkey_id, uint8_t pin, struct cell_facts *f, struct slot_ref *slot,
                 struct policy_verdict *v, struct outcome *o)
{
  return find_on(c, mkey_id, c->j->req.sqe.tier, pin, f, slot, v, o);
}

/* Is it the peer that is meant, or that may have what is not here? */
static bool elsewhere(const struct call *c, unsigned tier, const struct outcome *missed)
{
  return peer_any(c->l) &&
         (tier == DRAY_TIER_REMOTE || (tier == DRAY_TIER_ANY && missed && missed->status == DRAY_MISSED));
}

/* The same, with the key that the peer is to be shown. False: *o is how it ends, once it is filled. */
static bool ask_peer(const struct call *c, const struct outcome *missed, uint32_t *ret_mkey, struct outcome *o)
{
  unsigned r = DRAY_REASON_OK;
  if (!elsewhere(c, c->j->req.sqe.tier, missed))
    return false;
  r = ops_mkey(c->s, c->j->req.sqe.arg, ret_mkey);
  if (r != DRAY_REASON_OK)
    *o = outcome_refused(r);
  return r == DRAY_REASON_OK;
}

static void count_read(const struct call *c, const struct outcome *o, unsigned tier)
{
  struct lane_stats *st = &c->l->stats;
  if (tier)
    stat_add(&st->hits_by_tier[tier], 1);
  else if (o->status == DRAY_MISSED)
    stat_add(&st->misses, 1);
  if (tier || o->status == DRAY_MISSED)
    meter_lookup(c->l, c->s, c->j, tier, o->reason);
}

/* Pins the copy on `tier` instead of what is pinned. OK, or ABSENT when it went away meanwhile. */
static unsigned repin(const struct call *c, unsigned tier, struct cell_facts *f, struct slot_ref *slot)
{
  struct store *st = c->l->d->store;
  struct slot_mem m;
  if (slot->slab) {
    store_slot_mem(st, *slot, &m);
    if (m.tier == tier)
      return DRAY_REASON_OK;
    store_unpin(st, *slot);
  }
  slot->slab = 0;
  unsigned r = store_find(st, c->s->tenant, c->w->key, (uint8_t)tier, lane_ms(c->l), f, slot);
  return r != DRAY_REASON_OK ? r : slot->slab ? DRAY_REASON_OK : DRAY_ABSENT;
}

bool ops_get(const struct call *c, struct outcome *o)
{
  const struct dray_sqe *q = &c->j->req.sqe;
  const struct dray_layout *layout;
  struct policy_verdict v;
  struct cell_facts f;
  struct slot_ref slot;
  struct span mem;
  struct region *r = &c->s->regions[c->j->region];
  unsigned reason = ops_layout(c->s, q->layout, &layout);
  if (reason == DRAY_REASON_OK)
    reason = span_make(r->base, r->size, layout, c->w->off, c->w->len, &mem);
  if (reason != DRAY_REASON_OK) {
    *o = outcome_refused(reason);
    return true;
  }
  uint32_t mkey;
  if (UNLIKELY(elsewhere(c, q->tier, NULL)) || find(c, q->arg, q->tier, &f, &slot, &v, o)) {
    if (ask_peer(c, o, &mkey, o))
      return peer_get(c, &mem, mkey, o);
    count_read(c, o, 0);
    return true;
  }
  reason = c->w->len > f.len ? DRAY_OUT_OF_RANGE : repin(c, v.from, &f, &slot);
  if (reason != DRAY_REASON_OK) {
    if (slot.slab)
      store_unpin(c->l->d->store, slot);
    *o = outcome_for(reason);
    return true;
  }
  struct step *t = ops_step_reading(c, STEP_GET, &f, slot);
  struct slot_mem m;
  store_slot_mem(c->l->d->store, slot, &m);
  count_read(c, o, m.tier);
  t->mem = mem;
  t->op = XFER_READ;
  t->dev = m.dev;
  t->slab = m.mem;
  t->slab_off = m.off;
  t->len = c->w->len;
  step_begin(t, t->len, ops_crc(c) && f.has_crc && t->len == f.len);
  t->state = STEP_CUT;
  step_start(c->l, t);
  return false;
}

/* It has been found, and may be had as v says. */
static bool map_found(const struct call *c, struct cell_facts *f, struct slot_ref slot, const struct policy_verdict *v,
                      bool counts, struct outcome *o)
{
  unsigned reason = repin(c, v->from, f, &slot);
  if (reason != DRAY_REASON_OK) {
    *o = outcome_for(reason);
    return true;
  }
  if (counts)
    count_read(c, o, v->from);
  if (v->route == ROUTE_MAP) {
    grant_read(c->l, c->s, f, slot, o);
    return true;
  }
  struct step *t = ops_step_reading(c, STEP_STAGE, f, slot);
  t->pool = (uint32_t)c->l->d->pool_of_tier[v->to];
  t->cell.who = (struct store_who){.tenant = f->tenant, .agent = f->agent, .scope = f->scope};
  t->len = f->len;
  t->state = STEP_ROOM;
  step_start(c->l, t);
  return false;
}

bool ops_map(const struct call *c, struct outcome *o)
{
  const struct dray_sqe *q = &c->j->req.sqe;
  struct policy_verdict v;
  struct cell_facts f;
  struct slot_ref slot;
  uint32_t mkey;
  if (UNLIKELY(elsewhere(c, q->tier, NULL)) || find(c, q->arg, q->tier, &f, &slot, &v, o)) {
    if (ask_peer(c, o, &mkey, o))
      return peer_map(c, mkey, o);
    count_read(c, o, 0);
    return true;
  }
  return map_found(c, &f, slot, &v, true, o);
}

bool ops_map_here(const struct call *c, struct outcome *o)
{
  struct policy_verdict v;
  struct cell_facts f;
  struct slot_ref slot;
  return find_on(c, c->j->req.sqe.arg, DRAY_TIER_ANY, DRAY_TIER_ANY, &f, &slot, &v, o) ||
         map_found(c, &f, slot, &v, false, o);
}

/* The hottest copy of a cell that may be moved, for the peer. */
static bool find_to_send(const struct call *c, struct cell_facts *f, struct slot_ref *slot, struct outcome *o)
{
  struct policy_ask ask;
  slot->slab = 0;
  unsigned r = store_find(c->l->d->store, c->s->tenant, c->w->key, DRAY_TIER_ANY, lane_ms(c->l), f, slot);
  if (r == DRAY_REASON_OK) {
    ops_ask(c->l, c->s, c->j, 0, f->len, f, &ask);
    r = gate_change(&ask);
  }
  if (r == DRAY_REASON_OK && slot->slab)
    return false;
  if (slot->slab)
    store_unpin(c->l->d->store, *slot);
  *o = outcome_for(r == DRAY_REASON_OK ? DRAY_ABSENT : r);
  return true;
}

bool ops_move(const struct call *c, struct outcome *o)
{
  const struct dray_sqe *q = &c->j->req.sqe;
  struct policy_verdict v;
  struct cell_facts f;
  struct slot_ref slot;
  /* arg is the tier to move from here, not a materialization key */
  bool out = UNLIKELY(q->tier == DRAY_TIER_REMOTE) && peer_any(c->l);
  if (out ? find_to_send(c, &f, &slot, o)
          : UNLIKELY(elsewhere(c, q->arg, NULL)) || find(c, 0, (uint8_t)q->arg, &f, &slot, &v, o))
    return !out && elsewhere(c, q->arg, o) ? peer_bring(c, o) : true;
  if (out)
    return peer_send(c, &f, slot, o);
  if (!slot.slab || v.route == ROUTE_NONE) {
    *o = slot.slab ? outcome_ok : outcome_for(DRAY_ABSENT);
    if (slot.slab) {
      store_unpin(c->l->d->store, slot);
      o->tier = q->tier;
    }
    return true;
  }
  struct step *t = ops_step_reading(c, STEP_MOVE, &f, slot);
  t->pool = (uint32_t)c->l->d->pool_of_tier[v.to];
  t->cell.who = (struct store_who){.tenant = f.tenant, .agent = f.agent, .scope = f.scope};
  t->tier = v.to;
  t->len = f.len;
  t->state = STEP_ROOM;
  step_start(c->l, t);
  return false;
}

bool ops_drop(const struct call *c, struct outcome *o)
{
  struct policy_verdict v;
  struct cell_facts f;
  struct slot_ref slot;
  struct store *st = c->l->d->store;
  unsigned tier = c->j->req.sqe.tier, r = DRAY_REASON_OK;
  if (find(c, 0, PIN_NONE, &f, &slot, &v, o))
    return true;
  if (tier && c->l->d->pool_of_tier[tier] < 0)
    r = DRAY_BAD_TIER;
  else
    r = tier ? store_drop_copy(st, &f, (uint8_t)c->l->d->pool_of_tier[tier]) : store_drop(st, &f);
  *o = r == DRAY_REASON_OK ? outcome_ok : outcome_for(r);
  if (r == DRAY_REASON_OK)
    o->object = (uint64_t)f.gen << 32 | f.idx;
  return true;
}

bool ops_stat(const struct call *c, struct outcome *o)
{
  struct policy_verdict v;
  struct cell_facts f;
  struct slot_ref slot;
  unsigned tier = c->j->req.sqe.tier;
  if (UNLIKELY(elsewhere(c, tier, NULL)) || find(c, 0, PIN_NONE, &f, &slot, &v, o))
    return elsewhere(c, tier, o) ? peer_stat(c, o) : true;
  unsigned at = 0;
  for (unsigned i = f.copies; i > 0; i--) { /* the hottest, or the one asked for */
    unsigned t = store_pool(c->l->d->store, f.copy[i - 1].pool)->tier;
    if (!tier || t == tier)
      at = t;
  }
  *o = at ? outcome_ok : outcome_for(DRAY_ABSENT);
  if (at) {
    o->tier = (uint8_t)at;
    o->bytes = f.len;
    o->object = (uint64_t)f.gen << 32 | f.idx;
  }
  return true;
}

bool ops_unmap(const struct call *c, struct outcome *o)
{
  grant_end(c->l, c->s, c->w->off, o);
  return true;
}
