/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens to cells: found, committed, given and robbed of copies, published, forgotten.
 *
 * Order within one change, under the shard's lock: first what can be refused, then the index entry of a persistent
 * pool, then the record and the slot, last the slots that are let go (their index entry is removed before a slot can be
 * taken again). Emptied slabs are buried after the lock is released.
 */
#include "mover/store/commit.h"

#include <string.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "include/priv/order.h"
#include "mover/store/inside.h"

static void slot_hold(struct store *s, struct slot_ref r, uint32_t cell, uint64_t len, uint32_t now_ms)
{
  struct pool *p = store_pool_of(s, r.slab);
  LOCKED(&p->lock);
  pool_slot_hold(s, p, r, cell, len, now_ms);
  if (UNLIKELY(bar_covers(s, slab_index(r.slab), r.slot))) /* since it was looked at */
    s->cells.rec[cell].state = CELL_QUARANTINED;
}

/* It is let go shortly. */
static void copy_expect(struct store *s, struct store_copy copy)
{
  __builtin_prefetch(slab_row(&s->slabs, slab_index(copy.slab), copy.slot), 1);
  pool_index_expect(s, copy);
}

static void copy_let_go(struct store *s, struct store_copy copy, uint64_t len, struct doomed *d)
{
  struct pool *p = &s->pool[copy.pool];
  pool_index_del(s, copy);
  LOCKED(&p->lock);
  pool_slot_detach(s, p, copy_slot(copy), len, d);
}

void cell_forget(struct store *s, uint64_t hash, uint32_t idx, struct doomed *d)
{
  struct cell_rec *c = &s->cells.rec[idx];
  directory_remove(&s->directory, hash, idx);
  while (c->copies) {
    struct store_copy copy = cell_copy(c, c->copies - 1u);
    cell_copy_del(c, c->copies - 1u);
    copy_let_go(s, copy, c->len, d);
  }
  account_refund(&s->accounts, c->account[0], c->len);
  account_refund(&s->accounts, c->account[1], c->len);
  cell_give(&s->cells, idx);
}

struct cell_rec *cell_of_facts(struct store *s, uint64_t hash, const struct cell_facts *f)
{
  uint32_t domain = store_domain(f->scope, f->tenant);
  uint32_t idx = directory_find(&s->directory, hash, domain, f->key);
  return idx && idx == f->idx && s->cells.rec[idx].gen == f->gen ? &s->cells.rec[idx] : NULL;
}

uint64_t facts_hash(const struct store *s, const struct cell_facts *f)
{
  return directory_hash(&s->directory, store_domain(f->scope, f->tenant), f->key);
}

bool store_cell_current(struct store *s, const struct cell_facts *f)
{
  uint64_t hash = facts_hash(s, f);
  LOCKED(&directory_shard(&s->directory, hash)->lock);
  return cell_of_facts(s, hash, f) != NULL;
}

/* The copy on that tier, or the hottest; -1 when there is none. */
static int copy_on_tier(const struct store *s, const struct cell_rec *c, uint8_t tier)
{
  for (unsigned i = 0; i < c->copies; i++)
    if (tier == DRAY_TIER_ANY || s->pool[c->where[i] >> 12].cfg.tier == tier)
      return (int)i;
  return -1;
}

static unsigned find_in(struct store *s, uint32_t domain, const uint8_t key[16], uint8_t pin_tier, uint32_t now_ms,
                        struct cell_facts *ret_facts, struct slot_ref *ret_slot)
{
  uint64_t hash = directory_hash(&s->directory, domain, key);
  LOCKED(&directory_shard(&s->directory, hash)->lock);
  uint32_t idx = directory_find(&s->directory, hash, domain, key);
  if (!idx)
    return directory_evicted(&s->directory, hash) ? DRAY_EVICTED : DRAY_ABSENT;
  struct cell_rec *c = &s->cells.rec[idx];
  c->stamp = now_ms;
  cell_facts_get(c, idx, ret_facts);
  if (pin_tier == PIN_NONE)
    return DRAY_REASON_OK;
  int i = copy_on_tier(s, c, pin_tier);
  if (i < 0) {
    *ret_slot = (struct slot_ref){0};
    return DRAY_REASON_OK;
  }
  struct slot_ref r = copy_slot(cell_copy(c, (unsigned)i));
  struct pool *p = &s->pool[c->where[i] >> 12];
  pthread_mutex_lock(&p->lock);
  pool_slot_pin(s, p, r, now_ms);
  pthread_mutex_unlock(&p->lock);
  *ret_slot = r;
  return DRAY_REASON_OK;
}

void store_expect(struct store *s, uint32_t tenant, const struct store_hint *hints, uint32_t n, bool pins)
{
  uint64_t hash[STORE_HINTS_MAX];
  uint32_t cell[STORE_HINTS_MAX];
  n = MIN_OF(n, STORE_HINTS_MAX);
  for (uint32_t i = 0; i < n; i++) {
    hash[i] = directory_hash(&s->directory, tenant, hints[i].key);
    directory_expect_bucket(&s->directory, hash[i]);
  }
  for (uint32_t i = 0; i < n; i++)
    cell[i] = directory_expect_cell(&s->directory, hash[i]);
  for (uint32_t i = 0; pins && i < n; i++) { /* the slot of its hottest copy */
    const struct cell_rec *c = &s->cells.rec[cell[i]];
    __builtin_prefetch(slab_row(&s->slabs, slab_index(hint_read(&c->slab[0])), hint_read16(&c->where[0]) & 0xfff), 1);
  }
}

static uint64_t hash_of_new(const struct store *s, const struct cell_new *n)
{
  return directory_hash(&s->directory, store_domain(n->who.scope, n->who.tenant), n->key);
}

void store_expect_commit(struct store *s, const struct cell_new *n, bool listed)
{
  uint64_t hash = hash_of_new(s, n);
  if (listed)
    (void)directory_expect_cell(&s->directory, hash);
  else
    directory_expect_bucket(&s->directory, hash);
}

unsigned store_find(struct store *s, uint32_t tenant, const uint8_t key[16], uint8_t pin_tier, uint32_t now_ms,
                    struct cell_facts *ret_facts, struct slot_ref *ret_slot)
{
  unsigned own = find_in(s, tenant, key, pin_tier, now_ms, ret_facts, ret_slot);
  if (own == DRAY_REASON_OK)
    return own;
  unsigned fleet = find_in(s, STORE_DOMAIN_FLEET, key, pin_tier, now_ms, ret_facts, ret_slot);
  return fleet == DRAY_ABSENT ? own : fleet;
}

unsigned cell_list(struct store *s, uint64_t hash, const struct cell_new *n, uint8_t state, struct slot_ref slot,
                   uint32_t now_ms, uint32_t old, struct cell_facts *ret_facts, struct doomed *d)
{
  if (UNLIKELY(store_slot_bad(s, slot, NULL)))
    return DRAY_POISONED;
  if (old)
    copy_expect(s, cell_copy(&s->cells.rec[old], 0));
  uint32_t idx = cell_take(&s->cells);
  if (!idx)
    return DRAY_LIMIT;
  struct cell_rec *c = &s->cells.rec[idx];
  memcpy(c->key, n->key, sizeof c->key);
  c->tenant = n->who.tenant;
  c->agent = n->who.agent;
  c->mkey = n->mkey;
  c->len = n->len;
  c->crc = n->crc;
  c->stamp = now_ms;
  c->has_crc = n->has_crc;
  c->scope = n->who.scope;
  c->taint = n->taint;
  c->state = state;
  cell_copy_add(c, slot_copy(store_pool_of(s, slot.slab), slot));
  int rc = pool_index_put(s, c, cell_copy(c, 0));
  if (rc < 0) {
    cell_give(&s->cells, idx);
    return rc == -ENOSPC ? DRAY_NO_SPACE : DRAY_IO_ERROR;
  }
  c->account[0] = n->account[0];
  c->account[1] = n->account[1];
  c->replay = n->replay;
  if (old)
    cell_forget(s, hash, old, d);
  directory_insert(&s->directory, hash, idx);
  directory_evicted_clear(&s->directory, hash);
  slot_hold(s, slot, idx, n->len, now_ms);
  cell_facts_get(c, idx, ret_facts);
  return DRAY_REASON_OK;
}

unsigned store_commit(struct store *s, const struct cell_new *n, struct slot_ref slot, uint32_t now_ms,
                      struct cell_facts *ret_facts)
{
  struct doomed d = {0};
  uint32_t domain = store_domain(n->who.scope, n->who.tenant);
  uint64_t hash = hash_of_new(s, n);
  struct shard *sh = directory_shard(&s->directory, hash);
  pthread_mutex_lock(&sh->lock);
  uint32_t old = directory_find(&s->directory, hash, domain, n->key);
  const struct cell_rec *o = &s->cells.rec[old];
  unsigned why;
  if (old && n->no_replace)
    why = DRAY_EXISTS;
  else if (old && (o->agent != n->who.agent || o->tenant != n->who.tenant))
    why = DRAY_SCOPE_DENIED;
  else
    why = cell_list(s, hash, n, CELL_LIVE, slot, now_ms, old, ret_facts, &d);
  pthread_mutex_unlock(&sh->lock);
  pool_bury(s, &d);
  return why;
}

/* The cell gains `to`, and loses its copy in pool `from` when that is not -1. */
static unsigned copy_change(struct store *s, const struct cell_facts *f, struct slot_ref to, int from)
{
  struct doomed d = {0};
  uint64_t hash = facts_hash(s, f);
  struct store_copy copy = slot_copy(store_pool_of(s, to.slab), to), gone = {0};
  unsigned why = DRAY_REASON_OK;
  struct shard *sh = directory_shard(&s->directory, hash);
  pthread_mutex_lock(&sh->lock);
  struct cell_rec *c = cell_of_facts(s, hash, f);
  int at = c && from >= 0 ? cell_copy_in(c, (uint8_t)from) : -1;
  if (!c)
    why = DRAY_STALE_GENERATION;
  else if (from >= 0 && at < 0)
    why = DRAY_ABSENT;
  else if (copy.pool != from && cell_copy_in(c, copy.pool) >= 0)
    why = DRAY_EXISTS;
  else if (at < 0 && c->copies == STORE_COPIES)
    why = DRAY_LIMIT;
  else if (UNLIKELY(store_slot_bad(s, to, NULL)))
    why = DRAY_POISONED;
  else if (pool_index_put(s, c, copy) < 0)
    why = DRAY_IO_ERROR;
  if (why == DRAY_REASON_OK) {
    if (at >= 0) {
      gone = cell_copy(c, (unsigned)at);
      cell_copy_del(c, (unsigned)at);
    }
    cell_copy_add(c, copy);
    slot_hold(s, to, f->idx, c->len, c->stamp);
    if (at >= 0)
      copy_let_go(s, gone, c->len, &d);
  }
  pthread_mutex_unlock(&sh->lock);
  pool_bury(s, &d);
  return why;
}

unsigned store_add_copy(struct store *s, const struct cell_facts *f, struct slot_ref slot)
{
  return copy_change(s, f, slot, -1);
}

unsigned store_move_copy(struct store *s, const struct cell_facts *f, uint8_t from_pool, struct slot_ref to)
{
  return copy_change(s, f, to, from_pool);
}

static unsigned copy_drop(struct store *s, const struct cell_facts *f, uint8_t pool, bool evicted)
{
  struct doomed d = {0};
  uint64_t hash = facts_hash(s, f);
  unsigned why = DRAY_REASON_OK;
  struct shard *sh = directory_shard(&s->directory, hash);
  pthread_mutex_lock(&sh->lock);
  struct cell_rec *c = cell_of_facts(s, hash, f);
  int at = c ? cell_copy_in(c, pool) : -1;
  if (!c) {
    why = DRAY_STALE_GENERATION;
  } else if (at < 0) {
    why = DRAY_ABSENT;
  } else if (c->copies == 1) {
    cell_forget(s, hash, f->idx, &d);
    if (evicted)
      directory_evicted_mark(&s->directory, hash);
  } else {
    struct store_copy gone = cell_copy(c, (unsigned)at);
    cell_copy_del(c, (unsigned)at);
    copy_let_go(s, gone, c->len, &d);
  }
  pthread_mutex_unlock(&sh->lock);
  pool_bury(s, &d);
  return why;
}

unsigned store_drop_copy(struct store *s, const struct cell_facts *f, uint8_t pool)
{
  return copy_drop(s, f, pool, false);
}

unsigned store_evict(struct store *s, const struct cell_facts *f, uint8_t pool)
{
  return copy_drop(s, f, pool, true);
}

unsigned store_drop(struct store *s, const struct cell_facts *f)
{
  struct doomed d = {0};
  uint64_t hash = facts_hash(s, f);
  struct shard *sh = directory_shard(&s->directory, hash);
  pthread_mutex_lock(&sh->lock);
  struct cell_rec *c = cell_of_facts(s, hash, f);
  if (c)
    cell_forget(s, hash, f->idx, &d);
  pthread_mutex_unlock(&sh->lock);
  pool_bury(s, &d);
  return c ? DRAY_REASON_OK : DRAY_STALE_GENERATION;
}

static void cell_quarantine(struct store *s, struct cell_rec *c)
{
  c->state = CELL_QUARANTINED;
  for (unsigned i = 0; i < c->copies; i++)
    (void)pool_index_put(s, c, cell_copy(c, i)); /* what cannot be written is quarantined here and now all the same */
}

unsigned store_quarantine(struct store *s, const struct cell_facts *f)
{
  uint64_t hash = facts_hash(s, f);
  LOCKED(&directory_shard(&s->directory, hash)->lock);
  struct cell_rec *c = cell_of_facts(s, hash, f);
  if (!c)
    return DRAY_STALE_GENERATION;
  cell_quarantine(s, c);
  return DRAY_REASON_OK;
}

bool cell_bad_copy(struct store *s, uint64_t hash, uint32_t idx, uint32_t gen, struct store_copy copy,
                   struct cell_facts *ret_facts)
{
  struct doomed d = {0};
  struct shard *sh = directory_shard(&s->directory, hash);
  pthread_mutex_lock(&sh->lock);
  struct cell_rec *c = &s->cells.rec[idx];
  bool same = directory_lists(&s->directory, hash, idx) && c->gen == gen;
  int at = same ? cell_copy_in(c, copy.pool) : -1;
  same = at >= 0 && c->slab[at] == copy.slab && cell_copy(c, (unsigned)at).slot == copy.slot;
  if (same) {
    cell_facts_get(c, idx, ret_facts);
    if (c->copies == 1) {
      cell_quarantine(s, c);
    } else {
      cell_copy_del(c, (unsigned)at);
      copy_let_go(s, copy, c->len, &d);
    }
  }
  pthread_mutex_unlock(&sh->lock);
  pool_bury(s, &d);
  return same;
}
