/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/store/lease.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "include/priv/order.h"

uint64_t leases_bytes(uint32_t max)
{
  return ((uint64_t)max + 1) * sizeof(struct lease_rec);
}

int leases_init(struct leases *t, void *arena, uint32_t max)
{
  uint32_t blocks = (uint32_t)(((uint64_t)max + LEASE_BLOCK - 1) / LEASE_BLOCK);
  *t = (struct leases){.rec = arena, .max = max, .blocks = blocks};
  t->block = calloc(MAX_OF(blocks, 1u), sizeof *t->block);
  t->purse = aligned_alloc(_Alignof(struct lease_purse), LEASE_SESSIONS * sizeof *t->purse);
  pthread_mutex_init(&t->lock, NULL);
  if (!t->block || !t->purse)
    return -ENOMEM;
  memset(t->purse, 0, LEASE_SESSIONS * sizeof *t->purse);
  return 0;
}

void leases_deinit(struct leases *t)
{
  free(t->block);
  free(t->purse);
  pthread_mutex_destroy(&t->lock);
}

uint64_t leases_count(struct leases *t)
{
  uint64_t n = 0, high = stat_read(&t->high);
  for (uint64_t i = 0; i < high; i++)
    n += stat_read(&t->purse[i].count);
  return n;
}

static struct lease_info lease_info_of(const struct lease_rec *r, uint32_t idx)
{
  struct lease_info l = {.id = (uint64_t)r->gen << 32 | idx,
                         .session = r->session,
                         .row = r->row,
                         .slot = {.slab = r->slab, .slot = r->slot},
                         .len = r->len,
                         .off = r->off,
                         .ctx = r->ctx,
                         .tenant = r->tenant,
                         .agent = r->agent,
                         .serial = r->serial};
  memcpy(l.key, r->key, sizeof l.key);
  return l;
}

static uint32_t block_of(uint32_t idx)
{
  return (idx - 1) / LEASE_BLOCK;
}

/* NULL when id is no lease of the session. */
static struct lease_rec *lease_of(struct leases *t, uint32_t session, uint64_t id)
{
  uint32_t idx = (uint32_t)id;
  if (!idx || idx > t->max || lease_owner_see(&t->block[block_of(idx)].owner) != session + 1)
    return NULL;
  struct lease_rec *r = &t->rec[idx];
  return r->live && r->gen == id >> 32 ? r : NULL;
}

/* ---- the blocks of a session that have a free row ---- */

static void block_offer(struct leases *t, struct lease_purse *p, uint32_t b)
{
  t->block[b].prev = 0;
  t->block[b].next = p->avail;
  if (p->avail)
    t->block[p->avail - 1].prev = b + 1;
  p->avail = b + 1;
}

static void block_withdraw(struct leases *t, struct lease_purse *p, uint32_t b)
{
  struct lease_block *k = &t->block[b];
  if (k->prev)
    t->block[k->prev - 1].next = k->next;
  else
    p->avail = k->next;
  if (k->next)
    t->block[k->next - 1].prev = k->prev;
}

static uint32_t block_rows(const struct leases *t, uint32_t b)
{
  uint32_t n = MIN_OF(t->max - b * LEASE_BLOCK, LEASE_BLOCK);
  return n == LEASE_BLOCK ? UINT32_MAX : (1u << n) - 1;
}

static bool block_take(struct leases *t, struct lease_purse *p, uint32_t session)
{
  LOCKED(&t->lock);
  uint32_t b;
  if (t->free_head) {
    b = t->free_head - 1;
    t->free_head = t->block[b].next;
  } else if (t->bump < t->blocks) {
    b = t->bump++;
  } else {
    return false;
  }
  if (session >= stat_read(&t->high))
    stat_set(&t->high, session + 1);
  t->block[b].free = block_rows(t, b);
  block_offer(t, p, b);
  lease_owner_set(&t->block[b].owner, session + 1);
  return true;
}

static void block_give(struct leases *t, struct lease_purse *p, uint32_t b)
{
  LOCKED(&t->lock);
  block_withdraw(t, p, b);
  lease_owner_set(&t->block[b].owner, 0);
  t->block[b].next = t->free_head;
  t->free_head = b + 1;
}

/* ---- leases ---- */

unsigned lease_add(struct leases *t, const struct lease_info *l, uint64_t *ret_id)
{
  if (l->session >= LEASE_SESSIONS)
    return DRAY_LIMIT;
  struct lease_purse *p = &t->purse[l->session];
  if (UNLIKELY(!p->avail) && !block_take(t, p, l->session))
    return DRAY_LIMIT;
  uint32_t b = p->avail - 1;
  uint32_t idx = b * LEASE_BLOCK + (uint32_t)__builtin_ctz(t->block[b].free) + 1;
  t->block[b].free &= t->block[b].free - 1;
  if (!t->block[b].free)
    block_withdraw(t, p, b);
  struct lease_rec *r = &t->rec[idx];
  uint32_t gen = r->gen + 1 ? r->gen + 1 : 1;
  *r = (struct lease_rec){.gen = gen,
                          .session = l->session,
                          .row = l->row,
                          .slab = l->slot.slab,
                          .slot = l->slot.slot,
                          .next = p->head,
                          .live = 1,
                          .len = l->len,
                          .off = l->off,
                          .ctx = l->ctx,
                          .tenant = l->tenant,
                          .agent = l->agent,
                          .serial = l->serial};
  memcpy(r->key, l->key, sizeof r->key);
  if (p->head)
    t->rec[p->head].prev = idx;
  p->head = idx;
  stat_add(&p->count, 1);
  *ret_id = (uint64_t)gen << 32 | idx;
  return DRAY_REASON_OK;
}

unsigned lease_find(struct leases *t, uint32_t session, uint64_t id, struct lease_info *ret_lease)
{
  const struct lease_rec *r = lease_of(t, session, id);
  if (!r)
    return DRAY_BAD_LEASE;
  *ret_lease = lease_info_of(r, (uint32_t)id);
  return DRAY_REASON_OK;
}

unsigned lease_end(struct leases *t, uint32_t session, uint64_t id, struct lease_info *ret_lease)
{
  struct lease_rec *r = lease_of(t, session, id);
  if (!r)
    return DRAY_BAD_LEASE;
  struct lease_purse *p = &t->purse[session];
  *ret_lease = lease_info_of(r, (uint32_t)id);
  if (r->prev)
    t->rec[r->prev].next = r->next;
  else
    p->head = r->next;
  if (r->next)
    t->rec[r->next].prev = r->prev;
  r->live = 0;
  stat_add(&p->count, UINT64_MAX);
  uint32_t b = block_of((uint32_t)id), was = t->block[b].free;
  t->block[b].free |= 1u << ((uint32_t)id - 1) % LEASE_BLOCK;
  if (!was)
    block_offer(t, p, b);
  /* the last one stays: a session that maps one cell at a time takes no lock for each */
  if (t->block[b].free == block_rows(t, b) && (t->block[b].prev || t->block[b].next))
    block_give(t, p, b);
  return DRAY_REASON_OK;
}

unsigned lease_first(struct leases *t, uint32_t session, struct lease_info *ret_lease)
{
  if (session >= LEASE_SESSIONS || !t->purse[session].head)
    return DRAY_BAD_LEASE;
  *ret_lease = lease_info_of(&t->rec[t->purse[session].head], t->purse[session].head);
  return DRAY_REASON_OK;
}

unsigned lease_next(struct leases *t, uint32_t session, uint64_t id, struct lease_info *ret_lease)
{
  const struct lease_rec *r = lease_of(t, session, id);
  if (!r || !r->next)
    return DRAY_BAD_LEASE;
  *ret_lease = lease_info_of(&t->rec[r->next], r->next);
  return DRAY_REASON_OK;
}

void lease_close(struct leases *t, uint32_t session)
{
  if (session >= LEASE_SESSIONS || t->purse[session].head)
    return;
  while (t->purse[session].avail)
    block_give(t, &t->purse[session], t->purse[session].avail - 1);
}

uint32_t lease_in(struct leases *t, uint32_t session, uint32_t slab, uint64_t off, uint64_t len, uint32_t *cursor,
                  struct lease_info *ret_lease, uint32_t n)
{
  uint32_t k = 0;
  uint32_t i = session >= LEASE_SESSIONS ? 0 : *cursor ? *cursor : t->purse[session].head;
  for (; i && k < n; i = t->rec[i].next) {
    const struct lease_rec *r = &t->rec[i];
    if (r->slab == slab && range_overlaps(r->off, r->len, off, len))
      ret_lease[k++] = lease_info_of(r, i);
  }
  *cursor = i;
  return k;
}

uint32_t lease_whose(struct leases *t, uint32_t session, const struct store_whose *w, uint32_t *cursor,
                     struct lease_info *ret_lease, uint32_t n)
{
  uint32_t k = 0;
  uint32_t i = session >= LEASE_SESSIONS ? 0 : *cursor ? *cursor : t->purse[session].head;
  for (; i && k < n; i = t->rec[i].next) {
    const struct lease_rec *r = &t->rec[i];
    if (r->tenant == w->tenant && !memcmp(r->key, w->key, sizeof r->key) &&
        (w->any || (int32_t)(r->serial - w->serial) <= 0))
      ret_lease[k++] = lease_info_of(r, i);
  }
  *cursor = i;
  return k;
}
