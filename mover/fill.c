/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/fill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/guard.h"
#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "mover/daemon.h"
#include "mover/grant.h"
#include "ring/region.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

static int fill_list(struct daemon *d, struct fill *f, uint64_t *ret_ctx)
{
  struct fill_table *t = &d->fills;
  LOCKED(&t->lock);
  for (uint32_t i = 0; i < FILLS_MAX; i++) {
    uint32_t at = (t->next + i) % FILLS_MAX;
    if (t->at[at])
      continue;
    t->at[at] = f;
    t->next = at + 1;
    t->gen[at] = (uint16_t)(t->gen[at] == UINT16_MAX ? 1 : t->gen[at] + 1);
    f->id = (uint32_t)t->gen[at] << 16 | (FILL_INDEX_BASE + at);
    *ret_ctx = at + 1;
    return 0;
  }
  return -ENOSPC;
}

struct fill *fill_at(struct daemon *d, uint64_t ctx)
{
  LOCKED(&d->fills.lock);
  return ctx && ctx <= FILLS_MAX ? d->fills.at[ctx - 1] : NULL;
}

void fill_done(struct daemon *d, uint64_t ctx)
{
  struct fill *f = fill_at(d, ctx);
  if (f)
    f->account[0] = f->account[1] = 0; /* the cell's */
  fill_free(d, ctx);
}

void fill_free(struct daemon *d, uint64_t ctx)
{
  struct fill *f = fill_at(d, ctx);
  if (!f)
    return;
  pthread_mutex_lock(&d->fills.lock);
  d->fills.at[ctx - 1] = NULL;
  pthread_mutex_unlock(&d->fills.lock);
  store_unreserve(d->store, f->pool, f->who.tenant, f->set_aside);
  store_account_refund(d->store, f->account, f->len);
  if (f->base)
    munmap(f->base, f->bytes);
  close_fd(&f->fd);
  free(f);
}

/* The session's lent bit of a fill's index is only a memory of the last fill there: each is sent. */
static int fill_send(struct session *s, const struct fill *f)
{
  uint32_t i = f->id & 0xffffu;
  pthread_mutex_lock(&s->d->lend_lock);
  stat_set(&s->lent[i / 64], s->lent[i / 64] & ~(1ull << (i % 64)));
  pthread_mutex_unlock(&s->d->lend_lock);
  return session_lend(s, f->id, f->fd, f->bytes, 0, true);
}

void fill_alloc(struct lane *l, struct session *s, const uint8_t key[16], uint8_t klass, uint32_t request, uint64_t len,
                uint32_t pool, uint32_t mkey, struct outcome *ret_outcome)
{
  struct daemon *d = l->d;
  struct outcome o = {.status = DRAY_REFUSED, .reason = DRAY_TOO_LARGE, .path = DRAY_PATH_NONE};
  *ret_outcome = o;
  if (len > store_pool(d->store, pool)->capacity)
    return;
  uint64_t bytes = align_up(len, PAGE_BYTES), ctx, id;
  uint32_t rule = 0;
  uint8_t what;
  unsigned reason = quotas_room(l, pool, s->tenant, klass, bytes, &rule, &what);
  if (reason == DRAY_REASON_OK) {
    rule = DRAY_RULE_LIMIT;
    reason = store_reserve(d->store, pool, s->tenant, bytes);
  }
  if (reason != DRAY_REASON_OK) {
    ret_outcome->reason = (uint16_t)reason;
    ret_outcome->detail = quota_reason(reason) ? rule : 0;
    return;
  }
  uint16_t account[2] = {0, 0};
  reason = quotas_budget(l, s, request, len, account);
  if (reason != DRAY_REASON_OK) {
    store_unreserve(d->store, pool, s->tenant, bytes);
    ret_outcome->reason = (uint16_t)reason;
    ret_outcome->detail = reason == DRAY_QUOTA_EXCEEDED ? DRAY_RULE_LIMIT : 0;
    return;
  }
  struct fill *f = calloc(1, sizeof *f);
  ret_outcome->reason = DRAY_LIMIT;
  if (!f || fill_list(d, f, &ctx) < 0) {
    free(f);
    store_account_refund(d->store, account, len);
    store_unreserve(d->store, pool, s->tenant, bytes);
    return;
  }
  f->pool = pool;
  memcpy(f->account, account, sizeof account);
  f->len = len;
  f->bytes = f->set_aside = bytes;
  f->mkey = mkey;
  f->who = (struct store_who){.tenant = s->tenant, .agent = s->agent, .scope = DRAY_SCOPE_AGENT};
  memcpy(f->key, key, 16);
  f->fd = region_make("dray-fill", bytes, false);
  struct lease_info lease = {.session = s->idx, .len = len, .ctx = ctx};
  /* it must not change size under us; F_SEAL_WRITE is for COMMIT. Mode 0400: no other uid reopens it */
  if (f->fd < 0 || fcntl(f->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0 || fchmod(f->fd, 0400) < 0 ||
      fill_send(s, f) < 0 || store_lease_add(d->store, &lease, &id) != DRAY_REASON_OK) {
    fill_free(d, ctx);
    return;
  }
  *ret_outcome = (struct outcome){.status = DRAY_OK,
                                  .reason = DRAY_REASON_OK,
                                  .path = DRAY_PATH_MAP,
                                  .tier = store_pool(d->store, pool)->tier,
                                  .bytes = len,
                                  .object = id,
                                  .slab = f->id};
}

/* Freezes the memfd in place: from here on nobody can write it. Fails while a writable mapping is left anywhere. */
static bool fill_freeze(struct daemon *d, struct session *s, struct fill *f, uint64_t lease_id, unsigned flags,
                        struct outcome *o)
{
  if (f->base || fcntl(f->fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) < 0)
    return false;
  void *base = region_map(f->fd, 0, f->bytes, false, false);
  if (!base)
    return false;
  struct slab_mem mem = {.bytes = f->bytes, .base = base, .fd = f->fd};
  struct slot_ref slot;
  struct cell_facts facts;
  struct cell_new cell = {
      .who = f->who, .mkey = f->mkey, .len = f->len, .taint = 0, .no_replace = (flags & DRAY_NO_REPLACE) != 0};
  memcpy(cell.account, f->account, sizeof cell.account);
  memcpy(cell.key, f->key, 16);
  if ((flags & DRAY_VERIFY_CRC) || d->cfg->crc_always) {
    struct span whole = span_flat(base, f->len);
    struct guard_hit hit;
    cell.has_crc = span_crc(&whole, f->len, &cell.crc, &hit) == 0;
    if (!cell.has_crc) { /* its own memory is bad or gone: nothing is frozen that cannot be read */
      munmap(base, f->bytes);
      bool poison = hit.kind == GUARD_POISON;
      *o = (struct outcome){.status = DRAY_FAULT,
                            .reason = poison ? DRAY_POISONED : DRAY_PAGE_LOST,
                            .path = DRAY_PATH_NONE,
                            .detail = poison ? saturate_u32(hit.unit) : EFAULT};
      return true;
    }
  }
  uint32_t pool = f->pool;
  /* the charge moves from the fill to the slab: what was granted is not refused now */
  unsigned r = store_adopt(d->store, pool, &f->who, &mem, f->len, f->set_aside == f->bytes, &slot);
  if (r != DRAY_REASON_OK) {
    munmap(base, f->bytes);
    *o = (struct outcome){.status = DRAY_REFUSED, .reason = (uint16_t)r, .path = DRAY_PATH_NONE};
    return true;
  }
  f->fd = -1; /* the store's now */
  f->set_aside = 0;
  uint64_t len = f->len;
  r = store_commit(d->store, &cell, slot, (uint32_t)(daemon_now_ns() / 1000000u), &facts);
  if (r != DRAY_REASON_OK)
    store_discard(d->store, slot);
  store_unpin(d->store, slot);
  f->bytes = 0;
  struct lease_info lease;
  if (store_lease_end(d->store, s->idx, lease_id, false, &lease) == DRAY_REASON_OK)
    fill_done(d, lease.ctx);
  if (r != DRAY_REASON_OK) {
    *o = (struct outcome){.status = DRAY_REFUSED, .reason = (uint16_t)r, .path = DRAY_PATH_NONE};
    return true;
  }
  *o = (struct outcome){.status = DRAY_OK,
                        .reason = DRAY_REASON_OK,
                        .path = DRAY_PATH_MAP,
                        .tier = store_pool(d->store, pool)->tier,
                        .bytes = len,
                        .object = (uint64_t)facts.gen << 32 | facts.idx,
                        .flags = cell.has_crc ? DRAY_CRC_CHECKED : 0};
  return true;
}

bool fill_commit(struct lane *l, struct session *s, uint64_t lease, unsigned flags, struct outcome *ret_outcome,
                 uint64_t *ret_ctx)
{
  struct daemon *d = l->d;
  struct lease_info info;
  struct outcome bad = {.status = DRAY_REFUSED, .reason = DRAY_BAD_LEASE, .path = DRAY_PATH_NONE};
  unsigned r = store_lease_find(d->store, s->idx, lease, &info);
  struct fill *f = r == DRAY_REASON_OK ? fill_at(d, info.ctx) : NULL;
  if (!f) {
    *ret_outcome = bad;
    return true;
  }
  if (f->busy) {
    bad.reason = DRAY_LEASED;
    *ret_outcome = bad;
    return true;
  }
  /* only plain DRAM is a memfd; a device's cells live on the device */
  if (store_pool(d->store, f->pool)->tier == DRAY_TIER_DRAM && fill_freeze(d, s, f, lease, flags, ret_outcome))
    return true;
  if (!f->base) {
    f->base = region_map(f->fd, 0, f->bytes, false, false);
    if (!f->base) {
      bad.reason = DRAY_LIMIT;
      *ret_outcome = bad;
      return true;
    }
  }
  /* its slot takes the place of what was set aside */
  store_unreserve(d->store, f->pool, f->who.tenant, f->set_aside);
  f->set_aside = 0;
  f->busy = true;
  *ret_ctx = info.ctx;
  return false;
}

void fill_idle(struct daemon *d, struct session *s, uint64_t lease)
{
  struct lease_info info;
  struct fill *f = store_lease_find(d->store, s->idx, lease, &info) == DRAY_REASON_OK ? fill_at(d, info.ctx) : NULL;
  if (!f)
    return;
  f->busy = false;
  if (!f->set_aside && store_reserve(d->store, f->pool, f->who.tenant, f->bytes) == DRAY_REASON_OK)
    f->set_aside = f->bytes; /* its COMMIT came to nothing, and it may be tried again */
}
