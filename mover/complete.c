/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes have arrived, or not: settles with the store, makes the outcome, tells the job. */
#include <string.h>

#include "base/guard.h"
#include "include/priv/bits.h"
#include "mover/peer.h"
#include "mover/admit.h"
#include "mover/daemon.h"
#include "mover/fill.h"
#include "mover/lane.h"
#include "mover/grant.h"
#include "mover/revoke.h"
#include "mover/session.h"
#include "mover/step.h"

void complete_item(struct lane *l, struct session *s, struct job *j, uint32_t item, const struct outcome *o)
{
  if (UNLIKELY(quota_reason(o->reason)))
    quotas_refused(l->d, s->tenant, o->reason, o->detail, j->req.sqe.request);
  meter_item(l, s, j, o);
  if (o->bytes && o->status == DRAY_OK) {
    stat_add(&l->stats.bytes_by_path[o->path], o->bytes);
    stat_add(&l->stats.bytes_by_tier[o->tier], o->bytes);
  }
  if (!j->items) {
    j->out = *o;
    job_finish(l, s, j);
    return;
  }
  struct dray_item_result *r = &s->results[j->first_item + item];
  struct dray_item_result v = {.object = o->object,
                               .off = o->off,
                               .bytes = saturate_u32(o->bytes),
                               .slab = o->slab,
                               .reason = o->reason,
                               .path = o->path,
                               .tier = o->tier,
                               .detail = o->reason == DRAY_POISONED || quota_reason(o->reason) ? o->detail : 0};
  *r = v; /* visible with the DONE: [CQ] */
  stat_add(&l->stats.items, 1);
  j->out.bytes += o->bytes;
  if (o->status == DRAY_OK) {
    j->out.path = MAX_OF(j->out.path, o->path);
    j->out.tier = o->tier;
    j->out.flags |= o->flags;
  } else {
    if (j->failed++ == 0 || item < j->first_failed) {
      j->first_failed = item;
      j->out.reason = o->reason;
      j->out.status = o->status;
      j->out.detail = item;
    }
  }
  if (++j->items_done < j->items)
    return;
  if (j->failed == 0) {
    j->out.status = DRAY_OK;
    j->out.reason = DRAY_REASON_OK;
  } else if (j->failed < j->items && j->out.status == DRAY_REFUSED) {
    j->out.status = DRAY_FAULT; /* a part was done: the results say which */
  }
  job_finish(l, s, j);
}

void complete_step_end(struct lane *l, struct step *t, const struct outcome *o)
{
  struct store *st = l->d->store;
  struct session *s = t->s;
  struct job *j = t->job;
  uint32_t item = t->item;
  if (t->kind == STEP_MOVE || t->kind == STEP_STAGE || t->kind == STEP_PUBLISH || t->leases)
    quotas_spend(l, s->tenant, o->bytes); /* how much was not known when it began */
  if (UNLIKELY(t->peer != NULL))
    peer_step_end(l, t);
  if (t->kind == STEP_PUT)
    store_account_refund(st, t->cell.account, t->cell.len);
  if (t->from.slab)
    store_unpin(st, t->from);
  if (t->to.slab)
    store_unpin(st, t->to);
  if (UNLIKELY(t->kind == STEP_FILL))
    fill_idle(l->d, s, t->lease);
  step_drop(l, t);
  complete_item(l, s, j, item, o);
}

/* CRC of what the step moved, for the cell or against it. OK, CRC_MISMATCH, PAGE_LOST. */
static unsigned settle_crc(struct step *t, struct outcome *o)
{
  uint32_t crc;
  if (!t->crc)
    return DRAY_REASON_OK;
  unsigned r = step_crc(t, &crc);
  if (r != DRAY_REASON_OK)
    return r;
  o->flags |= DRAY_CRC_CHECKED;
  if (t->kind == STEP_PUT || t->kind == STEP_FILL) {
    t->cell.crc = crc;
    return UNLIKELY(t->peer != NULL) && crc != t->facts.crc ? DRAY_CRC_MISMATCH : DRAY_REASON_OK;
  }
  return crc == t->facts.crc ? DRAY_REASON_OK : DRAY_CRC_MISMATCH;
}

/* What was staged is leased: the slot's pin becomes the lease's. */
static unsigned settle_lease(struct lane *l, struct step *t, const struct cell_facts *f, struct slot_ref slot,
                             struct outcome *o)
{
  struct store *st = l->d->store;
  /* taken back while it was staged: nobody was asked for a lease that was not there */
  struct cell_facts now = {.idx = 0};
  struct slot_ref none = {0};
  if (store_find(st, t->s->tenant, f->key, PIN_NONE, lane_ms(l), &now, &none) != DRAY_REASON_OK || now.idx != f->idx ||
      now.gen != f->gen || now.state == CELL_QUARANTINED) {
    store_unpin(st, slot);
    return now.idx == f->idx && now.gen == f->gen && now.state == CELL_QUARANTINED ? DRAY_LEASE_REVOKED
                                                                                   : DRAY_STALE_GENERATION;
  }
  grant_read(l, t->s, f, slot, o);
  o->flags |= DRAY_STAGED_FIRST | (t->crc ? DRAY_CRC_CHECKED : 0);
  if (o->status == DRAY_OK)
    o->path = t->path; /* what was in fact done */
  return o->reason;
}

/* The staged copy becomes the cell's, and is leased. Somebody may have staged it meanwhile: then theirs is leased. */
static unsigned settle_stage(struct lane *l, struct step *t, struct outcome *o)
{
  struct store *st = l->d->store;
  struct cell_facts f = t->facts;
  struct slot_ref slot = t->to;
  unsigned r = store_add_copy(st, &t->facts, t->to);
  if (r == DRAY_REASON_OK) {
    t->to.slab = 0; /* the step's pin becomes the lease's */
  } else if (r == DRAY_EXISTS) {
    slot.slab = 0;
    r = store_find(st, t->s->tenant, t->facts.key, store_pool(st, t->pool)->tier, lane_ms(l), &f, &slot);
    if (r == DRAY_REASON_OK && !slot.slab)
      r = DRAY_ABSENT;
  }
  return r == DRAY_REASON_OK ? settle_lease(l, t, &f, slot, o) : r;
}

static unsigned settle(struct lane *l, struct step *t, struct outcome *o)
{
  struct store *st = l->d->store;
  struct cell_facts f;
  uint32_t now_ms = lane_ms(l);
  if (UNLIKELY(t->there)) { /* listed by the peer, which has checked its CRC */
    o->flags |= DRAY_CRC_CHECKED;
    return DRAY_REASON_OK;
  }
  bool raised = false;
  unsigned r = settle_crc(t, o); /* of MOVE, PUBLISH and STAGE, too: a corrupted source must not become a good copy */
  if (r != DRAY_REASON_OK)
    return r;
  switch (t->kind) {
  case STEP_PUT:
  case STEP_FILL:
    r = store_commit(st, &t->cell, t->to, now_ms, &f);
    if (r == DRAY_REASON_OK) { /* the charges are the cell's now */
      o->object = (uint64_t)f.gen << 32 | f.idx;
      t->cell.account[0] = t->cell.account[1] = 0;
    }
    if (r == DRAY_REASON_OK && UNLIKELY(t->leases)) {
      struct slot_ref slot = t->to;
      t->to.slab = 0;
      return settle_lease(l, t, &f, slot, o);
    }
    if (r == DRAY_REASON_OK && t->kind == STEP_FILL) {
      struct lease_info lease;
      if (store_lease_end(st, t->s->idx, t->lease, false, &lease) == DRAY_REASON_OK)
        fill_done(l->d, lease.ctx);
    }
    return r;
  case STEP_STAGE:
    return settle_stage(l, t, o);
  case STEP_MOVE: {
    struct slot_mem from;
    store_slot_mem(st, t->from, &from);
    r = store_move_copy(st, &t->facts, from.pool, t->to);
    /* the cell is there, but its copy was pushed down to another tier while it was read */
    return r == DRAY_ABSENT ? DRAY_STALE_GENERATION : r;
  }
  case STEP_PUBLISH:
    raised = t->facts.taint == DRAY_TRUSTED && t->cell.taint > DRAY_TRUSTED && t->facts.scope > DRAY_SCOPE_AGENT;
    r = store_publish(st, &t->facts, t->cell.who.scope, t->cell.taint, t->cell.mkey, t->to, &f);
    if (r == DRAY_REASON_OK && raised)
      revoke_cell(l->d, &t->facts);
    if (r == DRAY_REASON_OK)
      o->object = (uint64_t)f.gen << 32 | f.idx;
    return r;
  default:
    return DRAY_REASON_OK;
  }
}

/* A FENCED directive's sync is over: the directive itself follows. */
static void complete_fence(struct lane *l, struct step *t)
{
  struct session *s = t->s;
  struct job *j = t->job;
  step_drop(l, t);
  if (!j->stop && !t->reason) {
    admit_resume(l, s, j);
    return;
  }
  if (!j->stop)
    j->stop = t->reason;
  admit_stop(l, s, j);
}

void complete_step(struct lane *l, struct step *t)
{
  struct store *st = l->d->store;
  if (UNLIKELY(t->peer != NULL) && (t->reason ? peer_again(l, t) : peer_commits(l, t)))
    return;
  struct outcome o = {.path = t->path, .tier = t->tier, .detail = t->detail, .reason = t->reason};
  lane_refresh(l);
  if (t->kind == STEP_SYNC && t->job->req.sqe.op != DRAY_FENCE) {
    complete_fence(l, t);
    return;
  }
  if (!o.reason) {
    o.bytes = t->bytes;
    o.reason = (uint16_t)settle(l, t, &o);
    if (o.reason == DRAY_REASON_OK) {
      o.status = DRAY_OK;
      complete_step_end(l, t, &o);
      return;
    }
    if (UNLIKELY(o.reason == DRAY_EXISTS && t->leases)) {
      peer_map_here(l, t);
      return;
    }
  }
  /* what arrived in the engine's memory is truly there; what arrived in a slot that is thrown away is not */
  bool visible = t->kind == STEP_GET || t->kind == STEP_COPY;
  o.bytes = visible ? MIN_OF(t->cut, t->bad_at) : 0;
  if (UNLIKELY(o.reason == DRAY_POISONED || o.reason == DRAY_PAGE_LOST || o.reason == DRAY_IO_ERROR))
    poison_settle(l, t, &o); /* while its pins keep what was hit */
  if (UNLIKELY(o.reason == DRAY_PEER_STALE) && t->from.slab && !t->peer) {
    struct slot_mem gone; /* went with the lease of what a peer had lent */
    store_slot_mem(st, t->from, &gone);
    store_drop_copy(st, &t->facts, gone.pool);
  }
  if (t->to.slab)
    store_discard(st, t->to);
  switch (o.reason) {
  case DRAY_REASON_CANCELED:
  case DRAY_ABORTED:
  case DRAY_SHUTTING_DOWN:
    o.status = o.bytes ? DRAY_FAULT : DRAY_CANCELED;
    break;
  case DRAY_IO_ERROR:
  case DRAY_SHORT_IO:
  case DRAY_CRC_MISMATCH:
  case DRAY_PAGE_LOST:
  case DRAY_POISONED:
    o.status = DRAY_FAULT;
    break;
  case DRAY_NO_SPACE:
    o.status = t->cut ? DRAY_FAULT : DRAY_REFUSED;
    break;
  default:
    o.status = o.bytes ? DRAY_FAULT : DRAY_REFUSED;
  }
  if (o.status == DRAY_REFUSED || o.status == DRAY_CANCELED)
    o.path = DRAY_PATH_NONE;
  complete_step_end(l, t, &o);
}
