/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room in a full pool. A step that cannot get a slot takes the least recently used cell of the pool out of it: down the
 * ladder when a colder tier has room (or has the cell already), away for good when none has. The step carries the
 * demotion itself, one cell at a time, and then tries again, so a lane never waits and nothing is taken that nobody
 * asked for.
 */
#include <string.h>

#include "include/priv/bits.h"
#include "mover/daemon.h"
#include "mover/lane.h"
#include "mover/peer.h"
#include "mover/session.h"
#include "mover/step.h"
#include "policy/plan.h"

#define ROOM_WAIT_NS 2000000000ull /* how long others' pins may keep a step waiting */
#define ROOM_TRIES 64              /* victims without I/O per visit: bounds a visit */

/* Points the transfer at "from slot a to slot b", whichever transport has the side that is not memory. -1: neither side
 * is. */
static int transfer_between(struct step *t, const struct slot_mem *a, const struct slot_mem *b,
                            const struct cell_facts *f)
{
  uint64_t len = f->len;
  step_begin(t, len, f->has_crc);
  if (a->mem->base) {
    t->op = XFER_WRITE;
    t->dev = b->dev;
    t->slab = b->mem;
    t->slab_off = b->off;
    t->mem = span_flat((char *)a->mem->base + a->off, len);
    return 0;
  }
  if (b->mem->base) {
    t->op = XFER_READ;
    t->dev = a->dev;
    t->slab = a->mem;
    t->slab_off = a->off;
    t->mem = span_flat((char *)b->mem->base + b->off, len);
    return 0;
  }
  return -1;
}

/* The step has its slot: sets its own transfer up. */
static int room_found(struct lane *l, struct step *t)
{
  struct store *st = l->d->store;
  struct slot_mem to, from;
  store_slot_mem(st, t->to, &to);
  t->state = STEP_CUT;
  if (t->from.slab) {
    store_slot_mem(st, t->from, &from);
    if (transfer_between(t, &from, &to, &t->facts) < 0) {
      t->reason = DRAY_UNSUPPORTED;
      complete_step(l, t);
      return -1;
    }
    return 1;
  }
  if (UNLIKELY(t->peer != NULL)) {
    if (!to.mem->base) {
      t->reason = DRAY_UNSUPPORTED;
      complete_step(l, t);
      return -1;
    }
    peer_source(l, t, (char *)to.mem->base + to.off);
    return 1;
  }
  /* PUT, FILL: from the engine's memory */
  t->mem = t->src.len ? t->src : t->mem;
  t->op = XFER_WRITE;
  t->dev = to.dev;
  t->slab = to.mem;
  t->slab_off = to.off;
  step_begin(t, t->len, t->cell.has_crc);
  if (t->dev->caps.asynchronous)
    store_expect_commit(st, &t->cell, false);
  return 1;
}

static int room_refuse(struct lane *l, struct step *t, unsigned reason)
{
  list_remove(&t->run);
  if (t->quota_reason &&
      !t->job->stop) { /* what kept it from where it wanted to be, rather than from the last resort */
    reason = t->quota_reason;
    t->detail = t->quota_rule;
  }
  t->reason = (uint16_t)reason;
  complete_step(l, t);
  return -1;
}

/* Where policy left the tier to us, a pool that cannot take the cell is passed over for the next one that may. */
static bool next_pool(struct lane *l, struct step *t)
{
  struct store *st = l->d->store;
  if (t->job->req.sqe.tier || (t->kind != STEP_PUT && t->kind != STEP_STAGE))
    return false;
  for (uint32_t p = t->pool + 1; p < store_pools(st); p++) {
    if ((t->kind == STEP_STAGE || t->leases) && !store_pool(st, p)->attendable)
      continue;
    t->pool = p;
    if (t->kind == STEP_PUT)
      t->tier = store_pool(st, p)->tier;
    t->room_until = 0;
    t->asked = false;
    t->make = 0;
    return true;
  }
  return false;
}

/* Begins to move the victim down. False: no colder tier takes it. */
static bool demote(struct lane *l, struct step *t)
{
  struct store *st = l->d->store;
  const struct cell_facts *f = &t->victim;
  struct store_who who = {.tenant = f->tenant, .agent = f->agent, .scope = f->scope};
  for (uint32_t p = t->pool + 1; p < store_pools(st); p++) {
    if (f->copies >= STORE_COPIES || store_alloc(st, p, &who, f->len, &t->demoted_to) != DRAY_REASON_OK)
      continue;
    struct slot_mem a, b;
    store_slot_mem(st, t->victim_slot, &a);
    store_slot_mem(st, t->demoted_to, &b);
    if (t->mem.len && !t->src.len)
      t->src = t->mem; /* its own memory side, for when the demotion is done */
    if (transfer_between(t, &a, &b, f) == 0) {
      t->demoting = true;
      t->state = STEP_CUT;
      return true;
    }
    store_discard(st, t->demoted_to);
    store_unpin(st, t->demoted_to);
  }
  return false;
}

bool room_worth(const struct daemon *d, const struct cell_facts *f, uint32_t pool)
{
  uint64_t retain, replay;
  if (!f->replay || pool + 1 >= store_pools(d->store))
    return true; /* nobody said what it costs */
  unsigned below = store_pool(d->store, pool + 1)->tier;
  return !plan_stage_ns(&d->cfg->policy.profiles, below, f->len, &retain) ||
         !mul_u64(f->replay, d->cfg->token_ns, &replay) || retain < replay;
}

static void room_note(struct step *t, unsigned reason)
{
  if (t->quota_reason || !quota_reason(reason))
    return;
  t->quota_reason = (uint16_t)reason;
  t->quota_rule = reason == DRAY_QUOTA_EXCEEDED ? DRAY_RULE_LIMIT : t->rule;
}

/* A slot in the pool as things are: OK; NO_ROOM: something must go first, and *ret_how says whether it must
   (QUOTA_EVICT) or may (0) be dropped; else why not. */
static unsigned room_slot(struct lane *l, struct step *t, uint8_t *ret_how)
{
  struct store *st = l->d->store;
  *ret_how = 0;
  /* rules are asked about growing, once for each pool; what it is charged for anyway needs no asking, and what ALLOC
     was granted COMMIT gets */
  if (!t->asked && quotas_active(&l->d->quotas) && t->kind != STEP_FILL) {
    if (store_alloc_held(st, t->pool, &t->cell.who, t->len, &t->to))
      return DRAY_REASON_OK;
    unsigned r = quotas_room(l, t->pool, t->cell.who.tenant, t->job->req.sqe.klass, t->len, &t->rule, &t->make);
    t->asked = r == DRAY_REASON_OK;
    if (r != DRAY_REASON_OK)
      return r;
  }
  if (t->make) { /* a rule in force: what it takes, something else gives first */
    *ret_how = t->make;
    return DRAY_NO_ROOM;
  }
  unsigned r = store_alloc(st, t->pool, &t->cell.who, t->len, &t->to);
  if (r != DRAY_QUOTA_EXCEEDED)
    return r;
  *ret_how = (uint8_t)quotas_over(l->d, t->pool, t->cell.who.tenant);
  return *ret_how == QUOTA_REFUSE ? DRAY_QUOTA_EXCEEDED : DRAY_NO_ROOM;
}

int room_find(struct lane *l, struct step *t)
{
  struct store *st = l->d->store;
  if (UNLIKELY(t->reason))
    return room_refuse(l, t, t->reason);
  for (int i = 0; i < ROOM_TRIES; i++) {
    uint8_t how;
    unsigned r = room_slot(l, t, &how);
    bool by_rule = t->make != 0;
    t->make = 0;
    if (r == DRAY_REASON_OK)
      return room_found(l, t);
    if (r != DRAY_NO_ROOM) {
      room_note(t, r);
      if (r != DRAY_ZERO_LENGTH && next_pool(l, t))
        continue;
      return room_refuse(l, t, r);
    }
    r = store_victim(st, t->pool, &t->cell.who, t->len, &t->victim, &t->victim_slot);
    if (r == DRAY_ABSENT || (by_rule && r != DRAY_REASON_OK))
      continue; /* a rule has nothing to take: there may be room all the same */
    if (r != DRAY_REASON_OK) {
      /* all of it is pinned: by transfers, which end by themselves, or by leases, which may not */
      if (t->room_until == 0)
        t->room_until = l->now_ns + ROOM_WAIT_NS;
      if (l->flying && l->now_ns <= t->room_until)
        return 0;
      if (next_pool(l, t))
        continue;
      return room_refuse(l, t, DRAY_NO_ROOM);
    }
    if (how != QUOTA_EVICT && !cell_has_colder(&t->victim, t->pool) && room_worth(l->d, &t->victim, t->pool) &&
        demote(l, t))
      return 0;
    if (store_evict(st, &t->victim, (uint8_t)t->pool) == DRAY_REASON_OK)
      stat_add(cell_has_colder(&t->victim, t->pool) ? &l->stats.demoted : &l->stats.evicted, 1);
    store_unpin(st, t->victim_slot);
    t->victim_slot.slab = 0;
  }
  return 0;
}

void room_try(struct lane *l, struct step *t)
{
  struct store *st = l->d->store;
  if (t->state != STEP_ROOM || t->reason || !t->len)
    return;
  if (quotas_active(&l->d->quotas) ? store_alloc_held(st, t->pool, &t->cell.who, t->len, &t->to)
                                   : store_alloc(st, t->pool, &t->cell.who, t->len, &t->to) == DRAY_REASON_OK)
    room_found(l, t);
}

void room_demoted(struct lane *l, struct step *t)
{
  struct store *st = l->d->store;
  bool whole = !t->reason;
  uint32_t crc;
  unsigned why = whole && t->crc ? step_crc(t, &crc) : DRAY_REASON_OK;
  if (why != DRAY_REASON_OK || (whole && t->crc && crc != t->victim.crc)) {
    whole = false; /* a corrupted source does not become a good copy */
    t->reason = (uint16_t)(why != DRAY_REASON_OK ? why : DRAY_CRC_MISMATCH);
    log_line(&l->d->log, LOG_WARN, "tier %s: a cell of %llu bytes failed its CRC on the way down: %s",
             store_pool(st, t->pool)->name, (unsigned long long)t->victim.len, dray_reason_name(t->reason));
  }
  bool bad = UNLIKELY(!whole) && poison_demotion(l, t);
  /* a failed demotion costs the cell only when it must go anyway; the device's fault is not the asker's */
  if (whole && store_move_copy(st, &t->victim, (uint8_t)t->pool, t->demoted_to) == DRAY_REASON_OK) {
    stat_add(&l->stats.demoted, 1);
  } else {
    store_discard(st, t->demoted_to);
    if (!whole && !bad && !t->job->stop && store_evict(st, &t->victim, (uint8_t)t->pool) == DRAY_REASON_OK)
      stat_add(&l->stats.evicted, 1);
  }
  store_unpin(st, t->demoted_to);
  store_unpin(st, t->victim_slot);
  t->demoted_to.slab = t->victim_slot.slab = 0;
  t->demoting = false;
  t->reason = t->job->stop;
  t->detail = 0;
  t->bad = (struct badness){0};
  t->path = DRAY_PATH_NONE;
  t->state = STEP_ROOM;
  if (t->reason)
    complete_step(l, t);
  else
    step_start(l, t);
}
