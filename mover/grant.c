/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/grant.h"

#include <string.h>

#include "include/priv/bits.h"
#include "mover/daemon.h"
#include "mover/fill.h"
#include "mover/lane.h"
#include "mover/session.h"

/* A lease's row is the first free one from its index on: the engine finds it by the same walk. */
int grant_row_set(struct session *s, uint64_t id)
{
  if (s->leases_n >= s->geo.objects)
    return -ENOSPC;
  uint32_t row = (uint32_t)id % s->geo.objects;
  while (s->objects[row].object)
    row = (row + 1) % s->geo.objects;
  s->objects[row].object = id;
  state_publish(&s->objects[row].state, DRAY_LEASE_LIVE);
  s->leases_n++;
  return 0;
}

void grant_row_clear(struct session *s, uint64_t id)
{
  uint32_t row = (uint32_t)id % s->geo.objects;
  for (uint32_t i = 0; i < s->geo.objects; i++, row = (row + 1) % s->geo.objects)
    if (s->objects[row].object == id) {
      if (UNLIKELY(s->objects[row].state == DRAY_LEASE_REVOKING)) {
        s->revoking--;
        stat_add_shared(&s->d->revokes.given, 1);
      }
      state_publish(&s->objects[row].state, DRAY_LEASE_NONE);
      s->objects[row].object = 0;
      s->leases_n--;
      return;
    }
}

void grant_row_poison(struct session *s, uint64_t id)
{
  uint32_t row = (uint32_t)id % s->geo.objects;
  for (uint32_t i = 0; i < s->geo.objects; i++, row = (row + 1) % s->geo.objects)
    if (s->objects[row].object == id) {
      s->revoking -= s->objects[row].state == DRAY_LEASE_REVOKING;
      state_publish(&s->objects[row].state, DRAY_LEASE_POISONED);
      return;
    }
}

bool grant_row_revoking(const struct session *s, uint64_t id)
{
  uint32_t row = (uint32_t)id % s->geo.objects;
  for (uint32_t i = 0; i < s->geo.objects; i++, row = (row + 1) % s->geo.objects)
    if (s->objects[row].object == id)
      return s->objects[row].state == DRAY_LEASE_REVOKING;
  return false;
}

/* Poison stays the word on it: worse than having to give it back. */
void grant_row_revoke(struct session *s, uint64_t id)
{
  uint32_t row = (uint32_t)id % s->geo.objects;
  for (uint32_t i = 0; i < s->geo.objects; i++, row = (row + 1) % s->geo.objects)
    if (s->objects[row].object == id && s->objects[row].state == DRAY_LEASE_LIVE) {
      state_publish(&s->objects[row].state, DRAY_LEASE_REVOKING);
      s->revoking++;
      return;
    }
}

void grant_read(struct lane *l, struct session *s, const struct cell_facts *f, struct slot_ref slot,
                struct outcome *ret_outcome)
{
  struct store *st = l->d->store;
  struct slot_mem m;
  struct outcome o = {.status = DRAY_REFUSED, .path = DRAY_PATH_NONE, .reason = DRAY_LIMIT};
  store_slot_mem(st, slot, &m);
  struct lease_info lease = {.session = s->idx,
                             .slot = slot,
                             .len = f->len,
                             .off = m.off,
                             .tenant = f->tenant,
                             .agent = f->agent,
                             .serial = f->serial};
  uint64_t id;
  memcpy(lease.key, f->key, sizeof lease.key);
  if (m.mem->fd < 0) {
    o.reason = DRAY_NOT_ATTENDABLE;
  } else if (session_lend(s, slot.slab, m.mem->fd, m.mem->bytes, m.mem->fd_off, false) == 0 &&
             store_lease_add(st, &lease, &id) == DRAY_REASON_OK) {
    /* found bad since the cell was found good: whoever barred it sent its message before this lease was there */
    if (UNLIKELY(store_slot_bad(st, slot, NULL))) {
      o.reason = DRAY_POISONED;
    } else if (grant_row_set(s, id) == 0) {
      o.status = DRAY_OK;
      o.reason = DRAY_REASON_OK;
      o.path = DRAY_PATH_MAP;
      o.tier = m.tier;
      o.bytes = f->len;
      o.object = id;
      o.off = m.off;
      o.slab = slot.slab;
      *ret_outcome = o;
      return;
    }
    store_lease_end(st, s->idx, id, true, &lease);
  }
  store_unpin(st, slot);
  *ret_outcome = o;
}

void grant_end(struct lane *l, struct session *s, uint64_t id, struct outcome *ret_outcome)
{
  struct lease_info lease;
  struct outcome o = {.status = DRAY_OK, .reason = DRAY_REASON_OK, .path = DRAY_PATH_NONE};
  unsigned r = store_lease_find(l->d->store, s->idx, id, &lease);
  struct fill *f = r == DRAY_REASON_OK && lease.ctx ? fill_at(l->d, lease.ctx) : NULL;
  if (f && f->busy)
    r = DRAY_LEASED;
  if (r == DRAY_REASON_OK)
    r = store_lease_end(l->d->store, s->idx, id, true, &lease);
  if (r == DRAY_REASON_OK && lease.slot.slab)
    lane_unpin(l, lease.slot);
  if (r != DRAY_REASON_OK) {
    o.status = DRAY_REFUSED;
    o.reason = (uint16_t)r;
  } else if (lease.ctx) {
    fill_free(s->d, lease.ctx);
  } else {
    grant_row_clear(s, id);
  }
  *ret_outcome = o;
}

void grant_end_all(struct session *s)
{
  struct lease_info lease;
  while (store_lease_first(s->d->store, s->idx, &lease) == DRAY_REASON_OK) {
    struct lease_info gone;
    if (store_lease_end(s->d->store, s->idx, lease.id, false, &gone) != DRAY_REASON_OK)
      return;
    if (gone.ctx)
      fill_free(s->d, gone.ctx);
  }
  store_lease_close(s->d->store, s->idx);
}
