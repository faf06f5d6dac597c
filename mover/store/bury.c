/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a pool that talks to its transport: the end of slabs, and the index of a persistent device. */
#include <string.h>
#include <sys/mman.h>

#include "include/priv/cleanup.h"
#include "mover/store/inside.h"
#include "mover/store/pool.h"
#include "mover/store/quota.h"

void pool_slab_destroy(struct store *s, struct pool *p, uint32_t idx, bool lent)
{
  struct slab *own = &s->slabs.own[idx];
  if (s->slabs.rec[idx].adopted) {
    if (own->mem.base)
      munmap(own->mem.base, own->mem.bytes);
    close_fd(&own->mem.fd);
  } else {
    p->cfg.dev->cold->slab_del(p->cfg.dev, &own->mem, lent);
  }
}

void pool_bury(struct store *s, struct doomed *d)
{
  for (uint32_t i = 0; i < d->n; i++) {
    uint32_t idx = d->slab[i];
    struct slab_rec *r = &s->slabs.rec[idx];
    struct pool *p = &s->pool[r->pool];
    bool lent = true; /* nobody knows: be careful */
    if (s->hooks.slab_gone)
      s->hooks.slab_gone(s->hooks.ctx, r->id);
    if (s->hooks.slab_lent)
      lent = s->hooks.slab_lent(s->hooks.ctx, r->id);
    pool_slab_destroy(s, p, idx, lent);
    pthread_mutex_lock(&p->lock);
    p->slab_bytes -= r->bytes;
    quota_refund(p, r->tenant, r->bytes);
    p->dying--;
    pthread_cond_broadcast(&p->made);
    pthread_mutex_unlock(&p->lock);
    slab_give(&s->slabs, idx);
  }
  d->n = 0;
}

/* One slab that holds nothing but bad memory, if there is one. The lock is held. */
static void barred_settle(struct store *s, struct pool *p, struct doomed *d)
{
  LIST_EACH (&p->shares, n) {
    LIST_EACH (&LIST_OF(n, struct share, active)->slabs, k) {
      uint32_t idx = (uint32_t)(LIST_OF(k, struct slab, peer) - s->slabs.own);
      if (s->slabs.rec[idx].bad)
        bar_settle(s, p, idx, d);
      if (d->n)
        return;
    }
  }
}

void store_pool_close(struct store *s, uint32_t pool)
{
  struct pool *p = &s->pool[pool];
  for (bool more = true; more;) {
    struct doomed d = {0};
    pthread_mutex_lock(&p->lock);
    p->closed = true;
    if (!pool_kept_drop(s, p, 0, &d))
      barred_settle(s, p, &d);
    more = d.n != 0;
    pthread_mutex_unlock(&p->lock);
    pool_bury(s, &d);
  }
}

void store_pool_reopen(struct store *s, uint32_t pool)
{
  LOCKED(&s->pool[pool].lock);
  s->pool[pool].closed = false;
}

bool store_pool_idle(struct store *s, uint32_t pool)
{
  struct pool *p = &s->pool[pool];
  LOCKED(&p->lock);
  return p->closed && !p->slabs && !p->dying && !p->slab_bytes && !p->reserved;
}

/* Names that the index cannot hold whole are not cut short: two tenants must not become one. Such a cell is simply not
   found again after a restart. */
static bool index_name(char to[INDEX_NAME_MAX], const char *from)
{
  size_t n = from ? strlen(from) : 0;
  if (n >= INDEX_NAME_MAX)
    return false;
  memset(to, 0, INDEX_NAME_MAX);
  if (n)
    memcpy(to, from, n);
  return true;
}

/* A persistent pool that cannot remember any more still serves. */
static int index_said(struct store *s, uint32_t pool, int rc)
{
  if (LIKELY(rc != -EHWPOISON))
    return rc;
  if (s->hooks.index_lost)
    s->hooks.index_lost(s->hooks.ctx, pool);
  return 0;
}

int pool_index_slab(struct store *s, struct pool *p, uint32_t idx)
{
  struct slab_rec *r = &s->slabs.rec[idx];
  struct dev *dev = p->cfg.dev;
  char tenant[INDEX_NAME_MAX], agent[INDEX_NAME_MAX];
  if (!dev->caps.persistent || !index_name(tenant, names_tenant_get(&s->names, r->tenant)) ||
      !index_name(agent, names_agent_get(&s->names, r->agent)))
    return 0;
  int rc = dev->cold->index_slab(dev, &s->slabs.own[idx].mem, r->slot_bytes, r->slots, tenant, agent, r->scope);
  r->indexed = rc == 0 || rc == -EHWPOISON; /* still tried: who shares the device reads it */
  return index_said(s, p->nr, rc);
}

int pool_index_put(struct store *s, const struct cell_rec *c, struct store_copy copy)
{
  struct dev *dev = s->pool[copy.pool].cfg.dev;
  struct index_entry e = {.len = c->len,
                          .crc = c->crc,
                          .generation = c->serial,
                          .scope = c->scope,
                          .taint = c->state == CELL_QUARANTINED ? DRAY_QUARANTINED_TAINT : c->taint,
                          .has_crc = c->has_crc};
  if (!dev->caps.persistent || !store_slab(s, copy.slab)->indexed ||
      !index_name(e.tenant, names_tenant_get(&s->names, c->tenant)) ||
      !index_name(e.agent, names_agent_get(&s->names, c->agent)))
    return 0;
  memcpy(e.key, c->key, sizeof e.key);
  names_mkey_digest(&s->names, c->mkey, e.mkey_hash);
  return index_said(s, copy.pool, dev->cold->index_put(dev, &s->slabs.own[slab_index(copy.slab)].mem, copy.slot, &e));
}

void pool_index_del(struct store *s, struct store_copy copy)
{
  struct dev *dev = s->pool[copy.pool].cfg.dev;
  if (dev->caps.persistent && store_slab(s, copy.slab)->indexed)
    dev->cold->index_del(dev, &s->slabs.own[slab_index(copy.slab)].mem, copy.slot);
}

void pool_index_expect(struct store *s, struct store_copy copy)
{
  struct dev *dev = s->pool[copy.pool].cfg.dev;
  if (dev->caps.persistent)
    dev->cold->index_expect(dev, &s->slabs.own[slab_index(copy.slab)].mem, copy.slot);
}
