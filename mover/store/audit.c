/* SPDX-License-Identifier: Apache-2.0 */
/* Counts everything again, from the records and rows, and compares with the books. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "include/priv/cleanup.h"
#include "mover/store/inside.h"
#include "mover/store/quota.h"

struct audit {
  struct store *s;
  struct err *e;
  uint64_t cells, copies;
  uint64_t pool_cells[STORE_POOLS_MAX], pool_bytes[STORE_POOLS_MAX];
  uint64_t (*tenant_bytes)[NAMES_TENANTS + 1]; /* payload, by pool */
};

#define BROKEN(a, ...) err_set((a)->e, -EUCLEAN, "store: audit: " __VA_ARGS__)

static int audit_cell(struct audit *a, const struct shard *sh, uint32_t bucket, uint32_t idx)
{
  struct store *s = a->s;
  if (!idx || idx > s->cells.bump)
    return BROKEN(a, "bucket %u names record %u of %u", bucket, idx, s->cells.bump);
  const struct cell_rec *c = &s->cells.rec[idx];
  uint64_t hash = directory_hash(&s->directory, cell_domain(c), c->key);
  if (!c->state || !c->copies || c->copies > STORE_COPIES)
    return BROKEN(a, "cell %u is listed with state %u and %u copies", idx, c->state, c->copies);
  if (directory_shard(&s->directory, hash) != sh || shard_bucket_of(sh, hash) != bucket || c->tag != (uint32_t)hash)
    return BROKEN(a, "cell %u is listed in the wrong bucket", idx);
  for (unsigned i = 0; i < c->copies; i++) {
    struct store_copy copy = cell_copy(c, i);
    if (copy.pool >= s->pools || slab_index(copy.slab) >= s->slabs.bump || (i && cell_copy(c, i - 1).pool >= copy.pool))
      return BROKEN(a, "cell %u: copy %u is out of order", idx, i);
    const struct slab_rec *r = store_slab(s, copy.slab);
    if (r->id != copy.slab || r->pool != copy.pool || copy.slot >= r->fresh || r->tenant != c->tenant ||
        r->scope != c->scope || (c->scope == DRAY_SCOPE_AGENT && r->agent != c->agent) || c->len > r->slot_bytes)
      return BROKEN(a, "cell %u: copy %u is in slab %#x, which cannot hold it", idx, i, copy.slab);
    const struct slot_row *row = slab_row(&s->slabs, slab_index(copy.slab), copy.slot);
    if (row_state(row) != SLOT_HELD || row->link != idx)
      return BROKEN(a, "cell %u: slot %u of slab %#x is not its own", idx, copy.slot, copy.slab);
    a->pool_cells[copy.pool]++;
    a->pool_bytes[copy.pool] += c->len;
    a->tenant_bytes[copy.pool][r->tenant] += c->len;
    a->copies++;
  }
  return 0;
}

static int audit_bucket(struct audit *a, const struct shard *sh, uint32_t bucket, uint64_t *count)
{
  const struct bucket *b = &sh->bucket[bucket];
  int rc = 0;
  for (unsigned i = 0; rc == 0 && i < BUCKET_CELLS; i++)
    if (b->idx[i]) {
      rc = audit_cell(a, sh, bucket, b->idx[i]);
      ++*count;
      if (rc == 0 && b->tag[i] != directory_tag(&a->s->directory, b->idx[i]))
        rc = BROKEN(a, "cell %u is listed with a wrong tag", b->idx[i]);
    }
  for (uint32_t idx = b->more; rc == 0 && idx; idx = a->s->cells.rec[idx].next) {
    rc = audit_cell(a, sh, bucket, idx);
    if (++*count > sh->table->count)
      break;
  }
  if (rc == 0 && *count > sh->table->count)
    rc = BROKEN(a, "bucket %u: the shard lists more than its %u cells", bucket, sh->table->count);
  return rc;
}

static int audit_directory(struct audit *a)
{
  struct store *s = a->s;
  for (unsigned i = 0; i < DIRECTORY_SHARDS; i++) {
    struct shard *sh = &s->directory.shard[i];
    LOCKED(&sh->lock);
    uint64_t count = 0;
    for (uint32_t bucket = 0; bucket < shard_buckets(sh); bucket++) {
      int rc = audit_bucket(a, sh, bucket, &count);
      if (rc < 0)
        return rc;
    }
    if (count != sh->table->count)
      return BROKEN(a, "shard %u lists %llu cells, its books say %u", i, (unsigned long long)count, sh->table->count);
    a->cells += count;
  }
  LOCKED(&s->cells.lock);
  uint32_t unused = 0;
  for (uint32_t idx = s->cells.free_head; idx && unused <= s->cells.free_count; idx = s->cells.rec[idx].next)
    unused++;
  if (unused != s->cells.free_count || a->cells + unused != s->cells.bump)
    return BROKEN(a, "%llu cells and %u free records are not %u records", (unsigned long long)a->cells, unused,
                  s->cells.bump);
  return 0;
}

/* The pool's lock is held. */
static int audit_slab(struct audit *a, uint32_t idx)
{
  struct store *s = a->s;
  const struct slab_rec *r = &s->slabs.rec[idx];
  const struct slab *own = &s->slabs.own[idx];
  uint32_t used = 0, held = 0, idle = 0, unused = 0;
  if (r->fresh > r->slots || r->slots > STORE_SLOTS || r->slots * r->slot_bytes > r->bytes)
    return BROKEN(a, "slab %#x: %u slots, %u used ever", r->id, r->slots, r->fresh);
  for (uint32_t i = 0; i < r->fresh; i++) {
    const struct slot_row *row = slab_row(&s->slabs, idx, i);
    used += row_state(row) != SLOT_FREE;
    held += row_state(row) == SLOT_HELD;
    idle += row->bits == SLOT_HELD;
    if ((row_state(row) == SLOT_FREE && row_pins(row)) || (row_state(row) == SLOT_DETACHED && !row_pins(row)))
      return BROKEN(a, "slab %#x: slot %u has state %d and %u pins", r->id, i, row_state(row), row_pins(row));
  }
  if (used != r->used || held != r->held || idle != r->idle)
    return BROKEN(a, "slab %#x: %u used, %u held, %u idle; its books say %u, %u, %u", r->id, used, held, idle, r->used,
                  r->held, r->idle);
  for (uint32_t i = r->free_head; i; i = slab_row(&s->slabs, idx, i - 1)->link)
    if (++unused > r->fresh || i > r->fresh || row_state(slab_row(&s->slabs, idx, i - 1)) != SLOT_FREE)
      return BROKEN(a, "slab %#x: the free list is broken at %u", r->id, i);
  if (unused + used != r->fresh)
    return BROKEN(a, "slab %#x: %u free and %u used slots are not %u", r->id, unused, used, r->fresh);
  if (!bar_audit(s, idx))
    return BROKEN(a, "slab %#x: its books say %u barred slots, which its bad memory does not bear out", r->id, r->bad);
  bool avail = own->class && r->state == SLAB_LIVE && slab_has_room(r), kept = !r->used;
  if (avail == list_empty(&own->avail) || kept == list_empty(&own->kept))
    return BROKEN(a, "slab %#x: %u of %u slots used, but avail %d, kept %d", r->id, used, r->slots,
                  !list_empty(&own->avail), !list_empty(&own->kept));
  if (own->class && (own->class->slab[own->class_pos] != idx || own->class->key.tenant != r->tenant ||
                     own->class->key.slot_bytes != r->slot_bytes || own->class->key.scope != r->scope))
    return BROKEN(a, "slab %#x is not of its class", r->id);
  return 0;
}

/* Each tenant is charged for its slabs and what is set aside for it, and nothing else. The pool's lock is held. */
static int audit_charges(struct audit *a, const struct pool *p)
{
  uint64_t owed = 0, charged = 0, aside = 0;
  for (uint32_t i = 0; i <= NAMES_TENANTS; i++) {
    const struct share *sh = &p->share[i];
    if (sh->charged != sh->bytes + sh->set_aside || sh->charged > sh->peak)
      return BROKEN(a, "pool %s: tenant %u is charged %llu bytes for %llu of slabs and %llu set aside (peak %llu)",
                    p->cfg.name, i, (unsigned long long)sh->charged, (unsigned long long)sh->bytes,
                    (unsigned long long)sh->set_aside, (unsigned long long)sh->peak);
    if (sh->cell_bytes != a->tenant_bytes[p->nr][i])
      return BROKEN(a, "pool %s: tenant %u has %llu bytes of cells, the books say %llu", p->cfg.name, i,
                    (unsigned long long)a->tenant_bytes[p->nr][i], (unsigned long long)sh->cell_bytes);
    owed += sh->reserve > sh->charged ? sh->reserve - sh->charged : 0;
    charged += sh->charged;
    aside += sh->set_aside;
  }
  if (owed != p->owed || aside != p->reserved || charged != p->slab_bytes + p->reserved)
    return BROKEN(a, "pool %s: %llu bytes charged, %llu set aside, %llu owed; the books say %llu, %llu, %llu",
                  p->cfg.name, (unsigned long long)charged, (unsigned long long)aside, (unsigned long long)owed,
                  (unsigned long long)(p->slab_bytes + p->reserved), (unsigned long long)p->reserved,
                  (unsigned long long)p->owed);
  return 0;
}

static int audit_pool(struct audit *a, struct pool *p)
{
  struct store *s = a->s;
  LOCKED(&p->lock);
  uint64_t bytes = 0, kept = 0, held = 0;
  uint32_t slabs = 0;
  LIST_EACH (&p->shares, n) {
    const struct share *sh = LIST_OF(n, struct share, active);
    uint64_t own = 0;
    LIST_EACH (&sh->slabs, m) {
      uint32_t idx = (uint32_t)(LIST_OF(m, struct slab, peer) - s->slabs.own);
      const struct slab_rec *r = &s->slabs.rec[idx];
      if (!r->id || r->pool != p->nr || r->tenant != sh->tenant)
        return BROKEN(a, "pool %s: slab %u is in the wrong list", p->cfg.name, idx);
      int rc = audit_slab(a, idx);
      if (rc < 0)
        return rc;
      own += r->bytes;
      held += r->held;
      kept += r->used ? 0 : r->bytes;
      slabs++;
    }
    if (own != sh->bytes)
      return BROKEN(a, "pool %s: tenant %u has %llu bytes, the books say %llu", p->cfg.name, sh->tenant,
                    (unsigned long long)own, (unsigned long long)sh->bytes);
    bytes += own;
  }
  if (bytes != p->slab_bytes || kept != p->kept_bytes || slabs != p->slabs || p->dying)
    return BROKEN(a, "pool %s: %u slabs of %llu bytes, %llu kept; the books say %u, %llu, %llu, %u dying", p->cfg.name,
                  slabs, (unsigned long long)bytes, (unsigned long long)kept, p->slabs,
                  (unsigned long long)p->slab_bytes, (unsigned long long)p->kept_bytes, p->dying);
  if (bytes + p->reserved > p->cfg.capacity)
    return BROKEN(a, "pool %s: more than its capacity is given away", p->cfg.name);
  if (held != a->pool_cells[p->nr] || held != p->cells || p->cell_bytes != a->pool_bytes[p->nr])
    return BROKEN(a, "pool %s: %llu held slots, %llu copies of %llu bytes; the books say %llu, %llu", p->cfg.name,
                  (unsigned long long)held, (unsigned long long)a->pool_cells[p->nr],
                  (unsigned long long)a->pool_bytes[p->nr], (unsigned long long)p->cells,
                  (unsigned long long)p->cell_bytes);
  return audit_charges(a, p);
}

/* Every lease that pins a slot finds it pinned at least as often as it is leased. */
static int audit_leases(struct audit *a)
{
  struct store *s = a->s;
  struct leases *t = &s->leases;
  CLEAN_PTR uint32_t *pins = calloc((size_t)s->slabs.bump * STORE_SLOTS + 1, sizeof *pins);
  uint64_t count = 0, booked = leases_count(t);
  if (!pins)
    return -ENOMEM;
  for (uint32_t session = 0; session < LEASE_SESSIONS; session++)
    for (uint32_t i = t->purse[session].head, prev = 0; i; prev = i, i = t->rec[i].next) {
      const struct lease_rec *r = &t->rec[i];
      if (i > t->max || !r->live || r->session != session || r->prev != prev || ++count > booked)
        return BROKEN(a, "the list of session %u's leases is broken at %u", session, i);
      if (!r->slab)
        continue;
      const struct slab_rec *slab = store_slab(s, r->slab);
      uint32_t idx = slab_index(r->slab);
      if (slab->id != r->slab || r->slot >= slab->fresh ||
          ++pins[(size_t)idx * STORE_SLOTS + r->slot] > row_pins(slab_row(&s->slabs, idx, r->slot)))
        return BROKEN(a, "lease %u: slot %u of slab %#x is not pinned for it", i, r->slot, r->slab);
    }
  if (count != booked)
    return BROKEN(a, "%llu leases, the books say %llu", (unsigned long long)count, (unsigned long long)booked);
  return 0;
}

int store_audit(struct store *s, struct err *e)
{
  CLEAN_PTR void *bytes = calloc(STORE_POOLS_MAX, sizeof *((struct audit *)0)->tenant_bytes);
  struct audit a = {.s = s, .e = e, .tenant_bytes = bytes};
  if (!bytes)
    return -ENOMEM;
  uint32_t slabs = 0;
  int rc = audit_directory(&a);
  for (uint32_t i = 0; rc == 0 && i < s->pools; i++) {
    rc = audit_pool(&a, &s->pool[i]);
    slabs += s->pool[i].slabs;
  }
  if (rc == 0 && slabs != slabs_count(&s->slabs))
    rc = BROKEN(&a, "%u slabs in pools, the table has %u", slabs, slabs_count(&s->slabs));
  return rc == 0 ? audit_leases(&a) : rc;
}
