/* SPDX-License-Identifier: Apache-2.0 */
/* Directives that are never items: ALLOC COMMIT COPY PUBLISH ACCOUNT FENCE NOP; QUARANTINE is in poison.c. */
#include "mover/ops.h"

#include <string.h>

#include "include/priv/bits.h"
#include "mover/daemon.h"
#include "mover/fill.h"
#include "mover/lane.h"
#include "mover/grant.h"
#include "mover/session.h"
#include "mover/step.h"
#include "ring/take.h"

bool ops_alloc(const struct call *c, struct outcome *o)
{
  const struct dray_sqe *q = &c->j->req.sqe;
  struct policy_ask ask;
  struct policy_verdict v;
  uint32_t mkey;
  unsigned r = ops_mkey(c->s, q->arg, &mkey);
  if (r != DRAY_REASON_OK) {
    *o = outcome_refused(r);
    return true;
  }
  ops_ask(c->l, c->s, c->j, mkey, q->len, NULL, &ask);
  policy_decide(&c->l->d->cfg->policy, &ask, &v);
  if (v.decision != POLICY_ADMIT)
    *o = outcome_of(&v);
  else
    fill_alloc(c->l, c->s, q->key, q->klass, q->request, q->len, (uint32_t)c->l->d->pool_of_tier[v.to], mkey, o);
  return true;
}

bool ops_commit(const struct call *c, struct outcome *o)
{
  const struct dray_sqe *q = &c->j->req.sqe;
  uint64_t ctx;
  if (fill_commit(c->l, c->s, q->off, q->flags, o, &ctx))
    return true;
  struct fill *f = fill_at(c->l->d, ctx);
  struct step *t = step_new(c->l, c->s, c->j, 0, STEP_FILL);
  t->mem = span_flat(f->base, f->len);
  t->len = f->len;
  t->pool = f->pool;
  t->tier = store_pool(c->l->d->store, f->pool)->tier;
  t->lease = q->off;
  t->cell = (struct cell_new){.who = f->who,
                              .mkey = f->mkey,
                              .len = f->len,
                              .taint = 0, /* not judged yet: closed to others until PUBLISH says */
                              .has_crc = ops_crc(c),
                              .account = {f->account[0], f->account[1]},
                              .no_replace = (q->flags & DRAY_NO_REPLACE) != 0};
  memcpy(t->cell.key, f->key, 16);
  t->state = STEP_ROOM;
  step_start(c->l, t);
  return false;
}

bool ops_copy(const struct call *c, struct outcome *o)
{
  const struct dray_sqe *q = &c->j->req.sqe;
  const struct dray_layout *from, *to;
  struct dray_copy_to target;
  struct span src, dst;
  memcpy(&target, q->key, sizeof target);
  struct region *a = &c->s->regions[c->j->region];
  struct region *b = ops_region_get(c->s, target.dst_region, &c->j->dst_region);
  unsigned r = b ? ops_layout(c->s, q->layout, &from) : DRAY_BAD_REGION;
  if (r == DRAY_REASON_OK)
    r = ops_layout(c->s, target.dst_layout, &to);
  if (r == DRAY_REASON_OK)
    r = span_make(a->base, a->size, from, q->off, q->len, &src);
  if (r == DRAY_REASON_OK)
    r = span_make(b->base, b->size, to, target.dst_off, q->len, &dst);
  if (r == DRAY_REASON_OK && span_overlap(&src, &dst))
    r = DRAY_OVERLAP;
  if (r == DRAY_REASON_OK && !c->l->d->copy_dev)
    r = DRAY_UNSUPPORTED;
  if (r != DRAY_REASON_OK) {
    *o = outcome_refused(r);
    return true;
  }
  struct step *t = step_new(c->l, c->s, c->j, 0, STEP_COPY);
  t->op = XFER_COPY;
  t->dev = c->l->d->copy_dev;
  t->mem = dst;
  t->src = src;
  t->len = q->len;
  step_begin(t, t->len, false);
  t->state = STEP_CUT;
  step_start(c->l, t);
  return false;
}

bool ops_publish(const struct call *c, struct outcome *o)
{
  const struct dray_sqe *q = &c->j->req.sqe;
  struct dray_publish p;
  struct cell_facts f;
  struct slot_ref slot = {0};
  uint32_t mkey = 0;
  uint64_t row = q->off / sizeof(struct dray_item);
  unsigned r = row < c->s->geo.items ? take_publish(c->s->arena, (uint32_t)row, &p) : DRAY_OUT_OF_RANGE;
  if (r == DRAY_REASON_OK)
    r = ops_mkey(c->s, p.mkey, &mkey);
  if (r == DRAY_REASON_OK)
    r = store_find(c->l->d->store, c->s->tenant, c->w->key, DRAY_TIER_ANY, lane_ms(c->l), &f, &slot);
  /* only its owner may widen a cell, and never narrow it */
  if (r == DRAY_REASON_OK) {
    if (f.tenant != c->s->tenant || f.agent != c->s->agent)
      r = DRAY_SCOPE_DENIED;
    else if (f.state == CELL_QUARANTINED)
      r = ops_bad_reason(c->l->d->store, &f);
    else if (p.scope < f.scope)
      r = DRAY_SCOPE_DENIED;
    if (r != DRAY_REASON_OK)
      store_unpin(c->l->d->store, slot);
  }
  if (r != DRAY_REASON_OK) {
    *o = outcome_for(r);
    return true;
  }
  struct step *t = ops_step_reading(c, STEP_PUBLISH, &f, slot);
  t->cell.who = (struct store_who){.tenant = f.tenant, .agent = f.agent, .scope = p.scope};
  /* the first word on it stands where there was none; from then on it only gets worse */
  t->cell.taint = MAX_OF(p.taint, f.taint);
  t->cell.mkey = mkey ? mkey : f.mkey;
  t->pool = f.copy[0].pool;
  t->len = f.len;
  t->state = STEP_ROOM;
  step_start(c->l, t);
  return false;
}

bool ops_account(const struct call *c, struct outcome *o)
{
  struct lease_info lease;
  unsigned r = store_lease_find(c->l->d->store, c->s->idx, c->j->req.sqe.off, &lease);
  *o = r == DRAY_REASON_OK ? outcome_ok : outcome_refused(r);
  if (r == DRAY_REASON_OK)
    stat_add(&c->l->stats.accounted, c->j->req.sqe.len);
  if (r == DRAY_REASON_OK && lease.slot.slab) {
    struct slot_mem m;
    store_slot_mem(c->l->d->store, lease.slot, &m);
    meter_account(c->l, c->s, c->j, m.tier, c->j->req.sqe.len);
    if (c->j->req.sqe.arg && m.tenant == c->s->tenant) /* others' cells are not its to make dear or cheap */
      store_replay(c->l->d->store, lease.slot, c->j->req.sqe.arg);
  }
  return true;
}

bool ops_fence(const struct call *c, struct outcome *o)
{
  (void)o;
  struct step *t = step_new(c->l, c->s, c->j, 0, STEP_SYNC);
  t->state = STEP_CUT;
  step_start(c->l, t);
  return false;
}

bool ops_nop(const struct call *c, struct outcome *o)
{
  (void)c;
  *o = outcome_ok;
  return true;
}
