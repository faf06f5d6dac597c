/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/store/pool.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "include/priv/bits.h"
#include "mover/store/inside.h"

#define GRAIN_ADDRESSABLE 64u
#define GRAIN_KEPT 4096u /* a directory on a device has an entry for a slot of at least that */

int pool_init(struct pool *p, const struct store_pool_config *cfg, uint8_t nr)
{
  const struct dev_caps *caps = &cfg->dev->caps;
  *p = (struct pool){.cfg = *cfg, .nr = nr, .random = 0x9e3779b97f4a7c15ull + nr};
  p->cfg.name[sizeof p->cfg.name - 1] = 0;
  snprintf(p->owner, sizeof p->owner, "%s", caps->owner);
  p->unit = MAX_OF(caps->unit, 1u);
  p->grain = caps->persistent    ? MAX_OF(caps->align, GRAIN_KEPT)
             : caps->addressable ? GRAIN_ADDRESSABLE
                                 : MAX_OF(caps->align, 1u);
  if (!p->cfg.capacity || p->cfg.capacity > caps->capacity)
    p->cfg.capacity = caps->capacity;
  if (!p->cfg.slab_bytes_max)
    p->cfg.slab_bytes_max = MIB(64);
  pthread_mutex_init(&p->lock, NULL);
  pthread_condattr_t clock;
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&p->made, &clock);
  pthread_condattr_destroy(&clock);
  list_init(&p->shares);
  list_init(&p->kept);
  p->share = calloc(NAMES_TENANTS + 1, sizeof *p->share);
  if (class_table_init(&p->classes) < 0 || !p->share)
    return -ENOMEM;
  for (uint32_t i = 0; i <= NAMES_TENANTS; i++) {
    p->share[i].limit = UINT64_MAX;
    p->share[i].weight = 1;
  }
  return is_pow2_u64(p->unit) && is_pow2_u64(p->grain) ? 0 : -EINVAL;
}

void pool_deinit(struct pool *p)
{
  class_table_deinit(&p->classes);
  free(p->share);
  pthread_cond_destroy(&p->made);
  pthread_mutex_destroy(&p->lock);
}

bool pool_admits(struct store *s, const struct pool *p, const struct store_who *who)
{
  switch (p->cfg.dev->caps.isolation) {
  case DEV_PRIVATE: {
    const char *name = names_tenant_get(&s->names, who->tenant);
    return name && !strcmp(name, p->owner);
  }
  case DEV_SHARED:
    return who->scope == DRAY_SCOPE_FLEET;
  default:
    return true;
  }
}

bool pool_class_key(const struct pool *p, const struct store_who *who, uint64_t len, struct class_key *ret_key)
{
  uint64_t capacity = p->cfg.capacity & ~(p->unit - 1);
  if (!len || len > capacity)
    return false;
  uint64_t slot = slab_slot_bytes(len, p->grain);
  if (slot > capacity) /* an eighth more is too much, the bytes themselves are not */
    slot = align_up(len, p->grain);
  if (slot > capacity)
    return false;
  *ret_key = (struct class_key){.tenant = who->tenant,
                                .agent = who->scope == DRAY_SCOPE_AGENT ? who->agent : 0,
                                .slot_bytes = slot,
                                .scope = who->scope};
  return true;
}

uint64_t pool_left(const struct pool *p)
{
  uint64_t taken = p->slab_bytes + p->reserved;
  return taken < p->cfg.capacity ? p->cfg.capacity - taken : 0;
}

void pool_slab_link(struct store *s, struct pool *p, uint32_t idx, struct slot_class *class)
{
  struct slab_rec *r = &s->slabs.rec[idx];
  struct slab *own = &s->slabs.own[idx];
  struct share *sh = &p->share[r->tenant];
  r->state = SLAB_LIVE;
  r->stamp = p->now_ms;
  own->class = class;
  if (class) {
    own->class_pos = class_link(class, idx);
    class->grown++;
    if (slab_has_room(r)) /* in front, where its maker takes the first slot: a slab that stays empty is a kept one */
      list_push_front(&class->avail, &own->avail);
  }
  if (!sh->slabs.next) { /* calloc'd: a tenant's first slab here */
    list_init(&sh->slabs);
    sh->tenant = r->tenant;
  }
  if (list_empty(&sh->slabs))
    list_push_back(&p->shares, &sh->active);
  list_push_back(&sh->slabs, &own->peer);
  sh->bytes += r->bytes;
  p->slabs++;
}

void pool_slab_unkeep(struct store *s, struct pool *p, uint32_t idx)
{
  struct slab *own = &s->slabs.own[idx];
  if (list_empty(&own->kept))
    return;
  list_remove(&own->kept);
  own->class->kept = false;
  p->kept_bytes -= s->slabs.rec[idx].bytes;
}

void pool_slab_unlink(struct store *s, struct pool *p, uint32_t idx)
{
  struct slab_rec *r = &s->slabs.rec[idx];
  struct slab *own = &s->slabs.own[idx];
  struct share *sh = &p->share[r->tenant];
  pool_slab_unkeep(s, p, idx);
  list_remove(&own->avail);
  if (own->class) {
    uint32_t moved = class_unlink(own->class, own->class_pos);
    if (moved != UINT32_MAX)
      s->slabs.own[moved].class_pos = own->class_pos;
    class_put(&p->classes, own->class);
    own->class = NULL;
  }
  list_remove(&own->peer);
  if (list_empty(&sh->slabs))
    list_remove(&sh->active);
  if (sh->reclaim == idx + 1)
    sh->reclaim = 0;
  sh->bytes -= r->bytes;
  p->slabs--;
}

static void slab_doom(struct store *s, struct pool *p, uint32_t idx, struct doomed *d)
{
  pool_slab_unlink(s, p, idx);
  s->slabs.rec[idx].state = SLAB_DYING;
  p->dying++;
  assert(d->n < DOOMED_MAX);
  d->slab[d->n++] = idx;
}

bool pool_kept_drop(struct store *s, struct pool *p, uint32_t tenant, struct doomed *d)
{
  LIST_EACH (&p->kept, n) {
    uint32_t idx = (uint32_t)(LIST_OF(n, struct slab, kept) - s->slabs.own);
    if (tenant && s->slabs.rec[idx].tenant != tenant)
      continue;
    slab_doom(s, p, idx, d);
    return true;
  }
  return false;
}

/* One empty slab per class is kept, so that a class that lives on one cell does not make and destroy a slab for each.
 */
void pool_slab_settle(struct store *s, struct pool *p, uint32_t idx, struct doomed *d)
{
  struct slab_rec *r = &s->slabs.rec[idx];
  struct slab *own = &s->slabs.own[idx];
  if (!own->class || own->class->kept || r->state == SLAB_RECLAIMING || p->closed) {
    slab_doom(s, p, idx, d);
    return;
  }
  if (list_empty(&own->avail))
    list_push_back(&own->class->avail, &own->avail);
  own->class->kept = true;
  list_push_back(&p->kept, &own->kept);
  p->kept_bytes += r->bytes;
}

/* A slot of it has become free. */
static void slab_loosened(struct store *s, struct pool *p, uint32_t idx, struct doomed *d)
{
  struct slab_rec *r = &s->slabs.rec[idx];
  struct slab *own = &s->slabs.own[idx];
  if (!r->used)
    pool_slab_settle(s, p, idx, d);
  else if (r->state == SLAB_LIVE && own->class && list_empty(&own->avail))
    list_push_front(&own->class->avail, &own->avail);
}

struct slot_ref pool_slot_take(struct store *s, struct pool *p, uint32_t idx)
{
  struct slab_rec *r = &s->slabs.rec[idx];
  pool_slab_unkeep(s, p, idx);
  uint32_t slot = slab_slot_take(&s->slabs, idx);
  if (!slab_has_room(r))
    list_remove(&s->slabs.own[idx].avail);
  return (struct slot_ref){.slab = r->id, .slot = slot};
}

static uint32_t slot_index(struct store *s, struct pool *p, struct slot_ref r)
{
  uint32_t idx = slab_index(r.slab);
  const struct slab_rec *rec = &s->slabs.rec[idx];
  assert(rec->id == r.slab && rec->pool == p->nr && r.slot < rec->fresh);
  (void)rec;
  (void)p;
  return idx;
}

/* Lanes hear of the time one after another, not in order. */
static void slab_touch(struct pool *p, struct slab_rec *r, uint32_t now_ms)
{
  if ((int32_t)(now_ms - p->now_ms) > 0)
    p->now_ms = now_ms;
  r->stamp = p->now_ms;
}

void pool_slot_pin(struct store *s, struct pool *p, struct slot_ref r, uint32_t now_ms)
{
  uint32_t idx = slot_index(s, p, r);
  slab_slot_pin(&s->slabs, idx, r.slot);
  slab_touch(p, &s->slabs.rec[idx], now_ms);
}

void pool_slot_unpin(struct store *s, struct pool *p, struct slot_ref r, struct doomed *d)
{
  uint32_t idx = slot_index(s, p, r);
  assert(row_pins(slab_row(&s->slabs, idx, r.slot)));
  if (!slab_slot_unpin(&s->slabs, idx, r.slot) && row_state(slab_row(&s->slabs, idx, r.slot)) == SLOT_DETACHED) {
    slab_slot_give(&s->slabs, idx, r.slot);
    slab_loosened(s, p, idx, d);
  }
  if (UNLIKELY(s->slabs.rec[idx].bad))
    bar_settle(s, p, idx, d);
}

void pool_slot_hold(struct store *s, struct pool *p, struct slot_ref r, uint32_t cell, uint64_t len, uint32_t now_ms)
{
  uint32_t idx = slot_index(s, p, r);
  slab_slot_hold(&s->slabs, idx, r.slot, cell);
  slab_touch(p, &s->slabs.rec[idx], now_ms);
  p->cells++;
  p->cell_bytes += len;
  p->share[s->slabs.rec[idx].tenant].cell_bytes += len;
}

void pool_slot_detach(struct store *s, struct pool *p, struct slot_ref r, uint64_t len, struct doomed *d)
{
  uint32_t idx = slot_index(s, p, r);
  struct slot_row *row = slab_row(&s->slabs, idx, r.slot);
  if (row_state(row) == SLOT_HELD) {
    p->cells--;
    p->cell_bytes -= len;
    p->share[s->slabs.rec[idx].tenant].cell_bytes -= len;
  }
  slab_slot_detach(&s->slabs, idx, r.slot);
  if (!row_pins(row)) {
    slab_slot_give(&s->slabs, idx, r.slot);
    slab_loosened(s, p, idx, d);
  }
  if (UNLIKELY(s->slabs.rec[idx].bad))
    bar_settle(s, p, idx, d);
}
