/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/store/rebuild.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "mover/store/quota.h"

/* One scan. Entries to remove are gathered, for the index is not written while it is read. */
struct rebuild {
  struct store *s;
  struct pool *p;
  struct err *e;
  int64_t slab; /* the slab visited last; -1: it was skipped */
  struct store_copy *dead;
  uint32_t dead_count, dead_room;
};

static int skip(struct rebuild *b)
{
  b->s->skipped++;
  return 0;
}

static int entry_remove(struct rebuild *b, struct store_copy copy)
{
  if (b->dead_count == b->dead_room) {
    uint32_t room = b->dead_room ? b->dead_room * 2 : 64;
    struct store_copy *dead = realloc(b->dead, room * sizeof *dead);
    if (!dead)
      return err_set(b->e, -ENOMEM, "store: pool %s: no memory for the index", b->p->cfg.name);
    b->dead = dead;
    b->dead_room = room;
  }
  b->dead[b->dead_count++] = copy;
  return 0;
}

static int skip_and_remove(struct rebuild *b, struct store_copy copy)
{
  int rc = entry_remove(b, copy);
  return rc < 0 ? rc : skip(b);
}

static bool name_ends(const char name[INDEX_NAME_MAX])
{
  return memchr(name, 0, INDEX_NAME_MAX) != NULL;
}

/* Does it lie on bytes of a slab that is already there? */
static bool slab_overlaps(struct store *s, const struct pool *p, const struct slab_mem *mem)
{
  for (uint32_t i = 0; i < s->slabs.bump; i++) {
    const struct slab_rec *r = &s->slabs.rec[i];
    if (r->id && r->pool == p->nr && range_overlaps(s->slabs.own[i].mem.dev_off, r->bytes, mem->dev_off, mem->bytes) &&
        s->slabs.own[i].mem.unit == mem->unit)
      return true;
  }
  return false;
}

static int visit_slab(void *ctx, const struct slab_mem *mem, uint64_t slot_bytes, uint32_t slots, const char *tenant,
                      const char *agent, uint8_t scope)
{
  struct rebuild *b = ctx;
  struct store *s = b->s;
  struct pool *p = b->p;
  uint64_t end;
  b->slab = -1;
  if (!slot_bytes || !slots || slots > STORE_SLOTS || slot_bytes % p->grain || mem->bytes & (p->unit - 1) ||
      !mul_u64(slot_bytes, slots, &end) || end > mem->bytes || scope < DRAY_SCOPE_AGENT || scope > DRAY_SCOPE_FLEET ||
      mem->bytes > pool_left(p) || slab_overlaps(s, p, mem))
    return skip(b);
  struct store_who who = {.tenant = names_tenant(&s->names, tenant), .scope = scope};
  if (who.tenant && scope == DRAY_SCOPE_AGENT)
    who.agent = names_agent(&s->names, who.tenant, agent);
  if (!who.tenant || (scope == DRAY_SCOPE_AGENT && agent[0] && !who.agent) || !pool_admits(s, p, &who))
    return skip(b);
  struct class_key k = {.tenant = who.tenant, .agent = who.agent, .slot_bytes = slot_bytes, .scope = scope};
  struct slot_class *c = class_get(&p->classes, &k);
  int64_t idx = c && class_reserve(c) == 0 ? slab_take(&s->slabs) : -1;
  if (idx < 0) {
    if (c)
      class_put(&p->classes, c);
    return skip(b);
  }
  struct slab_rec *r = &s->slabs.rec[idx];
  s->slabs.own[idx].mem = *mem;
  r->pool = p->nr;
  r->tenant = k.tenant;
  r->agent = k.agent;
  r->scope = scope;
  r->indexed = 1;
  r->slot_bytes = slot_bytes;
  r->bytes = mem->bytes;
  r->slots = slots;
  p->slab_bytes += r->bytes;
  quota_charge(p, r->tenant, r->bytes);
  pool_slab_link(s, p, (uint32_t)idx, c);
  b->slab = idx;
  return s->hooks.slab_made ? s->hooks.slab_made(s->hooks.ctx, r->id, &s->slabs.own[idx].mem) : 0;
}

/* A row above those that were used: all below become used or free. */
static void rows_reach(struct store *s, uint32_t idx, uint32_t slot)
{
  struct slab_rec *r = &s->slabs.rec[idx];
  for (; r->fresh <= slot; r->fresh++) {
    row_set(slab_row(&s->slabs, idx, r->fresh), SLOT_FREE, 0, r->free_head);
    r->free_head = r->fresh + 1;
  }
}

/* Takes that very slot, which is free, FILLING and without a pin. */
static void slot_take_at(struct store *s, uint32_t idx, uint32_t slot)
{
  struct slab_rec *r = &s->slabs.rec[idx];
  rows_reach(s, idx, slot);
  uint32_t *link = &r->free_head;
  while (*link != slot + 1)
    link = &slab_row(&s->slabs, idx, *link - 1)->link;
  *link = slab_row(&s->slabs, idx, slot)->link;
  row_set(slab_row(&s->slabs, idx, slot), SLOT_FILLING, 0, 0);
  r->used++;
  if (!slab_has_room(r))
    list_remove(&s->slabs.own[idx].avail);
}

/* An older cell gives way. Its entries are removed after the scan, its slots are free at once: the store has no users
   yet who could take them. */
static int cell_outdated(struct rebuild *b, uint64_t hash, uint32_t idx)
{
  struct store *s = b->s;
  struct cell_rec *c = &s->cells.rec[idx];
  directory_remove(&s->directory, hash, idx);
  for (; c->copies; cell_copy_del(c, c->copies - 1u)) {
    struct store_copy gone = cell_copy(c, c->copies - 1u);
    struct slab *own = &s->slabs.own[slab_index(gone.slab)];
    if (entry_remove(b, gone) < 0)
      return -ENOMEM;
    s->pool[gone.pool].cells--;
    s->pool[gone.pool].cell_bytes -= c->len;
    s->pool[gone.pool].share[store_slab(s, gone.slab)->tenant].cell_bytes -= c->len;
    slab_slot_detach(&s->slabs, slab_index(gone.slab), gone.slot);
    slab_slot_give(&s->slabs, slab_index(gone.slab), gone.slot);
    if (list_empty(&own->avail))
      list_push_back(&own->class->avail, &own->avail);
  }
  cell_give(&s->cells, idx);
  s->found--;
  s->skipped++;
  return 0;
}

static void cell_fill(struct store *s, struct cell_rec *c, const struct index_entry *e, uint32_t tenant, uint32_t agent)
{
  memcpy(c->key, e->key, sizeof c->key);
  c->tenant = tenant;
  c->agent = agent;
  c->mkey = names_mkey_by_digest(&s->names, e->mkey_hash);
  c->len = e->len;
  c->crc = e->crc;
  c->has_crc = e->has_crc != 0;
  c->scope = e->scope;
  c->taint = e->taint;
  c->state = e->taint == DRAY_QUARANTINED_TAINT ? CELL_QUARANTINED : CELL_LIVE;
  c->serial = e->generation;
  c->stamp = 0;
}

/* The slot is good; what of the cell? Lists it, or adds a copy to it, or settles which of two is the newer. */
static int cell_found(struct rebuild *b, const struct index_entry *e, uint32_t tenant, uint32_t agent,
                      struct store_copy copy)
{
  struct store *s = b->s;
  uint32_t domain = store_domain(e->scope, tenant);
  uint64_t hash = directory_hash(&s->directory, domain, e->key);
  uint32_t idx = directory_find(&s->directory, hash, domain, e->key);
  struct cell_rec *c = &s->cells.rec[idx];
  bool same = idx && c->serial == e->generation && c->len == e->len && c->agent == agent && c->copies < STORE_COPIES &&
              cell_copy_in(c, b->p->nr) < 0;
  if (!same) {
    if (idx && (int32_t)(e->generation - c->serial) <= 0)
      return skip_and_remove(b, copy);
    if (idx && cell_outdated(b, hash, idx) < 0)
      return -ENOMEM;
    idx = cell_take(&s->cells);
    if (!idx)
      return skip(b);
    c = &s->cells.rec[idx];
    cell_fill(s, c, e, tenant, agent);
    directory_insert(&s->directory, hash, idx);
    s->found++;
  }
  slot_take_at(s, slab_index(copy.slab), copy.slot);
  pool_slot_hold(s, b->p, copy_slot(copy), idx, c->len, 0);
  cell_copy_add(c, copy);
  return 0;
}

static int visit_cell(void *ctx, const struct slab_mem *mem, uint32_t slot, const struct index_entry *e)
{
  struct rebuild *b = ctx;
  struct store *s = b->s;
  if (b->slab < 0 || s->slabs.own[b->slab].mem.dev_off != mem->dev_off || s->slabs.own[b->slab].mem.unit != mem->unit)
    return skip(b);
  const struct slab_rec *r = &s->slabs.rec[b->slab];
  if (slot >= r->slots)
    return skip(b);
  struct store_copy copy = {.slab = r->id, .slot = slot, .pool = b->p->nr};
  if (slot < r->fresh && row_state(slab_row(&s->slabs, (uint32_t)b->slab, slot)) != SLOT_FREE)
    return skip(b); /* the entry that came first stands */
  if (!e->len || e->len > r->slot_bytes || e->scope != r->scope || e->taint > DRAY_QUARANTINED_TAINT ||
      !name_ends(e->tenant) || !name_ends(e->agent))
    return skip_and_remove(b, copy);
  uint32_t tenant = names_tenant(&s->names, e->tenant);
  uint32_t agent = e->agent[0] ? names_agent(&s->names, tenant, e->agent) : 0;
  if (tenant != r->tenant || (e->agent[0] && !agent) || (r->scope == DRAY_SCOPE_AGENT && agent != r->agent))
    return skip_and_remove(b, copy);
  uint32_t serial = s->cells.serial;
  int rc = cell_found(b, e, tenant, agent, copy);
  /* serials go on above the highest on disk, so that a later commit is always the newer one */
  s->cells.serial = (int32_t)(e->generation - serial) > 0 ? e->generation : serial;
  return rc;
}

static int visit_bad(void *ctx, uint64_t dev_off, uint64_t len, bool proven)
{
  struct rebuild *b = ctx;
  bar_row_found(b->s, b->p, dev_off, len, proven);
  return 0;
}

int rebuild_pool(struct store *s, struct pool *p, struct err *e)
{
  struct rebuild b = {.s = s, .p = p, .e = e, .slab = -1};
  struct index_visitor v = {.ctx = &b, .slab = visit_slab, .cell = visit_cell, .bad = visit_bad};
  struct dev *dev = p->cfg.dev;
  uint64_t skipped = 0;
  int rc = dev->cold->index_scan(dev, &v, &skipped);
  if (rc == -EHWPOISON && s->hooks.index_lost)
    s->hooks.index_lost(s->hooks.ctx, p->nr);
  rc = rc == -EHWPOISON ? 0 : rc;
  if (rc < 0 && e && !e->text[0])
    err_set(e, rc, "store: pool %s: cannot read its index: %s", p->cfg.name, strerror(-rc));
  for (uint32_t i = 0; rc >= 0 && i < b.dead_count; i++) {
    /* a slot that a newer entry has taken since is the newer entry's */
    const struct slot_row *row = slab_row(&s->slabs, slab_index(b.dead[i].slab), b.dead[i].slot);
    if (row_state(row) == SLOT_FREE)
      pool_index_del(s, b.dead[i]);
  }
  free(b.dead);
  if (rc < 0)
    return rc;
  s->skipped += skipped;
  return 0;
}

void rebuild_end(struct store *s)
{
  for (uint32_t i = 0; i < s->slabs.bump; i++) {
    const struct slab_rec *r = &s->slabs.rec[i];
    struct doomed d = {0};
    if (r->id && !r->used)
      pool_slab_settle(s, &s->pool[r->pool], i, &d);
    pool_bury(s, &d);
  }
}
