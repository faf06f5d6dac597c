/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where slots come from. A class's free slot is taken at once; otherwise one thread makes a slab, without the lock,
 * with its bytes taken from the pool beforehand, and whoever wants the same class meanwhile waits for it.
 */
#include <errno.h>
#include <string.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "mover/store/inside.h"
#include "mover/store/pool.h"
#include "mover/store/quota.h"

#define SLAB_BYTES_FIRST KIB(256)

/* Look again. Not a dray_reason. */
#define GROW_AGAIN 0u

static uint64_t class_wants(const struct pool *p, const struct slot_class *c)
{
  uint64_t want = MAX_OF(SLAB_BYTES_FIRST, p->unit);
  for (uint32_t i = 0; i < c->grown && want < p->cfg.slab_bytes_max; i++)
    want *= 2;
  return MIN_OF(want, MAX_OF(p->cfg.slab_bytes_max, p->unit));
}

static unsigned reason_of(const struct pool *p, int rc)
{
  switch (-rc) {
  case EMFILE:
  case ENFILE:
    return DRAY_LIMIT;
  case EIO:
    return DRAY_IO_ERROR;
  case ENOSPC:
    return p->cfg.dev->caps.persistent ? DRAY_NO_SPACE : DRAY_NO_ROOM;
  default:
    return DRAY_NO_ROOM;
  }
}

/* No locks are held; the slab's record is filled. Tells everybody who must know of it before it is used. */
static int slab_introduce(struct store *s, struct pool *p, uint32_t idx)
{
  int rc = s->slabs.rec[idx].adopted ? 0 : pool_index_slab(s, p, idx);
  if (rc == 0 && s->hooks.slab_made)
    rc = s->hooks.slab_made(s->hooks.ctx, s->slabs.rec[idx].id, &s->slabs.own[idx].mem);
  return rc;
}

/* Makes a slab of about *bytes; a device with less in one piece is asked for half, down to one slot. The pool's lock is
   not held. Returns its index, or -errno; *bytes is what it has, or 0. */
static int64_t slab_make(struct store *s, struct pool *p, const struct class_key *k, uint64_t *bytes, uint32_t slots)
{
  struct dev *dev = p->cfg.dev;
  uint64_t ask = *bytes;
  *bytes = 0;
  int64_t idx = slab_take(&s->slabs);
  if (idx < 0)
    return -EMFILE;
  struct slab_mem *mem = &s->slabs.own[idx].mem;
  int rc;
  while ((rc = dev->cold->slab_add(dev, ask, NULL, mem)) == -ENOSPC && slots > 1) {
    ask = slab_size(k->slot_bytes, ask / 2, p->unit, ask - p->unit, &slots);
    if (!ask)
      break;
  }
  if (rc < 0) {
    slab_give(&s->slabs, (uint32_t)idx);
    return rc;
  }
  struct slab_rec *r = &s->slabs.rec[idx];
  r->pool = p->nr;
  r->tenant = k->tenant;
  r->agent = k->agent;
  r->scope = (uint8_t)k->scope;
  r->slot_bytes = k->slot_bytes;
  r->slots = slots;
  r->bytes = ask;
  rc = slab_introduce(s, p, (uint32_t)idx);
  if (rc < 0) {
    dev->cold->slab_del(dev, mem, false);
    slab_give(&s->slabs, (uint32_t)idx);
    return rc;
  }
  bar_slab_made(s, p, (uint32_t)idx);
  *bytes = ask;
  return idx;
}

/* Gives up one kept slab, of a tenant at its limit one of its own; the lock is released meanwhile, and c, of which it
   may be the last slab, stays. */
static bool class_squeeze(struct store *s, struct pool *p, struct slot_class *c, unsigned why)
{
  struct doomed d = {0};
  c->waiters++;
  bool dropped = pool_kept_drop(s, p, why == DRAY_QUOTA_EXCEEDED ? c->key.tenant : 0, &d);
  if (dropped) {
    pthread_mutex_unlock(&p->lock);
    pool_bury(s, &d);
    pthread_mutex_lock(&p->lock);
  }
  c->waiters--;
  return dropped;
}

/* The lock is held before and after, not in between. */
static unsigned class_grow(struct store *s, struct pool *p, struct slot_class *c)
{
  uint32_t slots;
  unsigned why;
  uint64_t left = quota_left(p, c->key.tenant, align_up(c->key.slot_bytes, p->unit), &why);
  uint64_t bytes = slab_size(c->key.slot_bytes, class_wants(p, c), p->unit, left, &slots), had = bytes;
  if (!bytes)
    return class_squeeze(s, p, c, why) ? GROW_AGAIN : why;
  if (class_reserve(c) < 0)
    return DRAY_LIMIT;
  p->slab_bytes += bytes;
  quota_charge(p, c->key.tenant, bytes);
  c->making = true;
  pthread_mutex_unlock(&p->lock);
  int64_t idx = slab_make(s, p, &c->key, &bytes, slots);
  pthread_mutex_lock(&p->lock);
  p->slab_bytes -= had - bytes;
  quota_refund(p, c->key.tenant, had - bytes);
  c->making = false;
  if (idx >= 0)
    pool_slab_link(s, p, (uint32_t)idx, c);
  pthread_cond_broadcast(&p->made);
  if (idx >= 0 || (idx == -ENOSPC && class_squeeze(s, p, c, DRAY_NO_ROOM)))
    return GROW_AGAIN;
  return reason_of(p, (int)idx);
}

unsigned store_alloc(struct store *s, uint32_t pool, const struct store_who *who, uint64_t len,
                     struct slot_ref *ret_slot)
{
  struct pool *p = &s->pool[pool];
  struct class_key k;
  if (!pool_admits(s, p, who))
    return DRAY_SCOPE_DENIED;
  if (!pool_class_key(p, who, len, &k))
    return len ? DRAY_TOO_LARGE : DRAY_ZERO_LENGTH;
  LOCKED(&p->lock);
  if (UNLIKELY(p->closed))
    return DRAY_TIER_DRAINING;
  struct slot_class *c = class_get(&p->classes, &k);
  if (!c)
    return DRAY_LIMIT;
  unsigned why = GROW_AGAIN;
  while (list_empty(&c->avail) && why == GROW_AGAIN) {
    if (!c->making) {
      why = class_grow(s, p, c);
    } else {
      c->waiters++;
      pthread_cond_wait(&p->made, &p->lock);
      c->waiters--;
    }
  }
  if (list_empty(&c->avail)) {
    class_put(&p->classes, c);
    return why;
  }
  *ret_slot = pool_slot_take(s, p, (uint32_t)(LIST_OF(c->avail.next, struct slab, avail) - s->slabs.own));
  return DRAY_REASON_OK;
}

bool store_alloc_held(struct store *s, uint32_t pool, const struct store_who *who, uint64_t len,
                      struct slot_ref *ret_slot)
{
  struct pool *p = &s->pool[pool];
  struct class_key k;
  if (!pool_admits(s, p, who) || !pool_class_key(p, who, len, &k))
    return false;
  LOCKED(&p->lock);
  struct slot_class *c = class_find(&p->classes, &k);
  if (!c || list_empty(&c->avail))
    return false;
  *ret_slot = pool_slot_take(s, p, (uint32_t)(LIST_OF(c->avail.next, struct slab, avail) - s->slabs.own));
  return true;
}

/* Takes bytes from what is left, at the cost of kept slabs. No locks are held. */
static unsigned pool_charge(struct store *s, struct pool *p, uint32_t tenant, uint64_t bytes, uint64_t *account,
                            uint64_t *own)
{
  for (;;) {
    struct doomed d = {0};
    unsigned why = DRAY_TIER_DRAINING;
    pthread_mutex_lock(&p->lock);
    bool fits = !p->closed && bytes <= quota_left(p, tenant, bytes, &why);
    if (fits) {
      *account += bytes;
      if (own)
        *own += bytes;
      quota_charge(p, tenant, bytes);
    }
    bool more = !fits && pool_kept_drop(s, p, why == DRAY_QUOTA_EXCEEDED ? tenant : 0, &d);
    pthread_mutex_unlock(&p->lock);
    pool_bury(s, &d);
    if (!more)
      return fits ? DRAY_REASON_OK : why;
  }
}

unsigned store_reserve(struct store *s, uint32_t pool, uint32_t tenant, uint64_t bytes)
{
  struct pool *p = &s->pool[pool];
  return pool_charge(s, p, tenant, bytes, &p->reserved, &p->share[tenant].set_aside);
}

void store_unreserve(struct store *s, uint32_t pool, uint32_t tenant, uint64_t bytes)
{
  struct pool *p = &s->pool[pool];
  struct share *sh = &p->share[tenant];
  LOCKED(&p->lock);
  bytes = MIN_OF(bytes, sh->set_aside);
  sh->set_aside -= bytes;
  p->reserved -= bytes;
  quota_refund(p, tenant, bytes);
}

/* The charge moves between what is set aside and the slabs. The lock is held. */
static void aside_to_slabs(struct pool *p, uint32_t tenant, uint64_t bytes, bool back)
{
  p->share[tenant].set_aside += back ? bytes : -bytes;
  p->reserved += back ? bytes : -bytes;
  p->slab_bytes += back ? -bytes : bytes;
}

/* Charges an adopted slab. */
static unsigned adopt_charge(struct store *s, struct pool *p, uint32_t tenant, uint64_t bytes, bool set_aside)
{
  if (!set_aside)
    return pool_charge(s, p, tenant, bytes, &p->slab_bytes, NULL);
  LOCKED(&p->lock);
  if (bytes > p->share[tenant].set_aside)
    return DRAY_NO_ROOM;
  aside_to_slabs(p, tenant, bytes, false);
  return DRAY_REASON_OK;
}

static void adopt_refund(struct pool *p, uint32_t tenant, uint64_t bytes, bool set_aside)
{
  LOCKED(&p->lock);
  if (set_aside) {
    aside_to_slabs(p, tenant, bytes, true);
    return;
  }
  p->slab_bytes -= bytes;
  quota_refund(p, tenant, bytes);
}

unsigned store_adopt(struct store *s, uint32_t pool, const struct store_who *who, const struct slab_mem *mem,
                     uint64_t len, bool set_aside, struct slot_ref *ret_slot)
{
  struct pool *p = &s->pool[pool];
  if (!pool_admits(s, p, who))
    return DRAY_SCOPE_DENIED;
  if (!len || len > mem->bytes)
    return DRAY_OUT_OF_RANGE;
  unsigned why = adopt_charge(s, p, who->tenant, mem->bytes, set_aside);
  if (why != DRAY_REASON_OK)
    return why;
  int64_t idx = slab_take(&s->slabs);
  if (idx >= 0) {
    struct slab_rec *r = &s->slabs.rec[idx];
    s->slabs.own[idx].mem = *mem;
    r->pool = p->nr;
    r->tenant = who->tenant;
    r->agent = who->scope == DRAY_SCOPE_AGENT ? who->agent : 0;
    r->scope = who->scope;
    r->adopted = 1;
    r->slots = 1;
    r->slot_bytes = r->bytes = mem->bytes;
    if (slab_introduce(s, p, (uint32_t)idx) == 0) {
      LOCKED(&p->lock);
      pool_slab_link(s, p, (uint32_t)idx, NULL);
      *ret_slot = pool_slot_take(s, p, (uint32_t)idx);
      return DRAY_REASON_OK;
    }
    slab_give(&s->slabs, (uint32_t)idx);
  }
  adopt_refund(p, who->tenant, mem->bytes, set_aside);
  return DRAY_LIMIT;
}
