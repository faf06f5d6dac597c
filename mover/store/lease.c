/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/store/lease.h"

#include <errno.h>
#include <stdlib.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"

uint64_t leases_bytes(uint32_t max)
{
  return ((uint64_t)max + 1) * sizeof(struct lease_rec);
}

int leases_init(struct leases *t, void *arena, uint32_t max)
{
  *t = (struct leases){.rec = arena, .max = max, .head = calloc(LEASE_SESSIONS, sizeof(uint32_t))};
  pthread_mutex_init(&t->lock, NULL);
  return t->head ? 0 : -ENOMEM;
}

void leases_deinit(struct leases *t)
{
  free(t->head);
  pthread_mutex_destroy(&t->lock);
}

uint32_t leases_count(struct leases *t)
{
  LOCKED(&t->lock);
  return t->count;
}

static struct lease_info lease_info_of(const struct lease_rec *r, uint32_t idx)
{
  return (struct lease_info){.id = (uint64_t)r->gen << 32 | idx,
                             .session = r->session,
                             .row = r->row,
                             .slot = {.slab = r->slab, .slot = r->slot},
                             .len = r->len,
                             .off = r->off,
                             .ctx = r->ctx};
}

/* NULL when id is no lease of the session. */
static struct lease_rec *lease_of(struct leases *t, uint32_t session, uint64_t id)
{
  uint32_t idx = (uint32_t)id;
  if (!idx || idx > t->bump)
    return NULL;
  struct lease_rec *r = &t->rec[idx];
  return r->live && r->gen == id >> 32 && r->session == session ? r : NULL;
}

unsigned lease_add(struct leases *t, const struct lease_info *l, uint64_t *ret_id)
{
  if (l->session >= LEASE_SESSIONS)
    return DRAY_LIMIT;
  LOCKED(&t->lock);
  uint32_t idx = t->free_head;
  if (idx)
    t->free_head = t->rec[idx].next;
  else if (t->bump < t->max)
    idx = ++t->bump;
  else
    return DRAY_LIMIT;
  struct lease_rec *r = &t->rec[idx];
  uint32_t gen = r->gen + 1 ? r->gen + 1 : 1, first = t->head[l->session];
  *r = (struct lease_rec){.gen = gen,
                          .session = l->session,
                          .row = l->row,
                          .slab = l->slot.slab,
                          .slot = l->slot.slot,
                          .next = first,
                          .live = 1,
                          .len = l->len,
                          .off = l->off,
                          .ctx = l->ctx};
  if (first)
    t->rec[first].prev = idx;
  t->head[l->session] = idx;
  t->count++;
  *ret_id = (uint64_t)gen << 32 | idx;
  return DRAY_REASON_OK;
}

unsigned lease_find(struct leases *t, uint32_t session, uint64_t id, struct lease_info *ret_lease)
{
  LOCKED(&t->lock);
  const struct lease_rec *r = lease_of(t, session, id);
  if (!r)
    return DRAY_BAD_LEASE;
  *ret_lease = lease_info_of(r, (uint32_t)id);
  return DRAY_REASON_OK;
}

unsigned lease_end(struct leases *t, uint32_t session, uint64_t id, struct lease_info *ret_lease)
{
  LOCKED(&t->lock);
  struct lease_rec *r = lease_of(t, session, id);
  if (!r)
    return DRAY_BAD_LEASE;
  *ret_lease = lease_info_of(r, (uint32_t)id);
  if (r->prev)
    t->rec[r->prev].next = r->next;
  else
    t->head[session] = r->next;
  if (r->next)
    t->rec[r->next].prev = r->prev;
  r->live = 0;
  r->prev = 0;
  r->next = t->free_head;
  t->free_head = (uint32_t)id;
  t->count--;
  return DRAY_REASON_OK;
}

unsigned lease_first(struct leases *t, uint32_t session, struct lease_info *ret_lease)
{
  LOCKED(&t->lock);
  if (session >= LEASE_SESSIONS || !t->head[session])
    return DRAY_BAD_LEASE;
  *ret_lease = lease_info_of(&t->rec[t->head[session]], t->head[session]);
  return DRAY_REASON_OK;
}

uint32_t lease_in(struct leases *t, uint32_t session, uint32_t slab, uint64_t off, uint64_t len, uint32_t *cursor,
                  struct lease_info *ret_lease, uint32_t n)
{
  uint32_t k = 0;
  LOCKED(&t->lock);
  uint32_t i = session >= LEASE_SESSIONS ? 0 : *cursor ? *cursor : t->head[session];
  for (; i && k < n; i = t->rec[i].next) {
    const struct lease_rec *r = &t->rec[i];
    if (r->slab == slab && range_overlaps(r->off, r->len, off, len))
      ret_lease[k++] = lease_info_of(r, i);
  }
  *cursor = i;
  return k;
}
