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
#include "mover/session.h"
#include "mover/step.h"

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
  /* PUT, FILL: from the engine's memory */
  t->mem = t->src.len ? t->src : t->mem;
  t->op = XFER_WRITE;
  t->dev = to.dev;
  t->slab = to.mem;
  t->slab_off = to.off;
  step_begin(t, t->len, t->cell.has_crc);
  return 1;
}

static int room_refuse(struct lane *l, struct step *t, unsigned reason)
{
  list_remove(&t->run);
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
    if (t->kind == STEP_STAGE && !store_pool(st, p)->attendable)
      continue;
    t->pool = p;
    if (t->kind == STEP_PUT)
      t->tier = store_pool(st, p)->tier;
    t->room_until = 0;
    return true;
  }
  return false;
}

/* A cell has its copy in a colder pool already: letting go of this one loses nothing. */
static bool has_colder(const struct cell_facts *f, uint32_t pool)
{
  for (unsigned i = 0; i < f->copies; i++)
    if (f->copy[i].pool > pool)
      return true;
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

int room_find(struct lane *l, struct step *t)
{
  struct store *st = l->d->store;
  if (UNLIKELY(t->reason))
    return room_refuse(l, t, t->reason);
  for (int i = 0; i < ROOM_TRIES; i++) {
    unsigned r = store_alloc(st, t->pool, &t->cell.who, t->len, &t->to);
    if (r == DRAY_REASON_OK)
      return room_found(l, t);
    if (r != DRAY_NO_ROOM) {
      if (r != DRAY_ZERO_LENGTH && next_pool(l, t))
        continue;
      return room_refuse(l, t, r);
    }
    r = store_victim(st, t->pool, &t->cell.who, t->len, &t->victim, &t->victim_slot);
    if (r == DRAY_ABSENT)
      continue;
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
    if (!has_colder(&t->victim, t->pool) && demote(l, t))
      return 0;
    if (store_evict(st, &t->victim, (uint8_t)t->pool) == DRAY_REASON_OK)
      stat_add(has_colder(&t->victim, t->pool) ? &l->stats.demoted : &l->stats.evicted, 1);
    store_unpin(st, t->victim_slot);
    t->victim_slot.slab = 0;
  }
  return 0;
}

void room_try(struct lane *l, struct step *t)
{
  if (t->state == STEP_ROOM && !t->reason && t->len &&
      store_alloc(l->d->store, t->pool, &t->cell.who, t->len, &t->to) == DRAY_REASON_OK)
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
