/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hit on bad memory: every slab that the unit lies in is found, every slot that overlaps it is barred, and every cell
 * that has its bytes there loses that copy, or is quarantined when it has no other.
 */
#include <string.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "mover/store/commit.h"
#include "mover/store/inside.h"

#define SLABS_AT_ONCE 32u

/* A slot whose cell is to be told. Seen under the pool's lock. */
struct held {
  uint32_t slot, cell, gen;
  uint64_t hash;
};

/* The next held slot of the range from *slot on. The identity of its cell may be read: see cell.h. */
static bool next_held(struct store *s, struct pool *p, uint32_t slab, uint32_t *slot, uint32_t last, struct held *ret)
{
  uint32_t idx = slab_index(slab);
  LOCKED(&p->lock);
  const struct slab_rec *r = &s->slabs.rec[idx];
  if (r->id != slab)
    return false;
  for (; *slot <= last && *slot < r->fresh; ++*slot) {
    const struct slot_row *row = slab_row(&s->slabs, idx, *slot);
    if (row_state(row) != SLOT_HELD)
      continue;
    const struct cell_rec *c = &s->cells.rec[row->link];
    *ret = (struct held){*slot, row->link, c->gen, directory_hash(&s->directory, cell_domain(c), c->key)};
    ++*slot;
    return true;
  }
  return false;
}

/* Tells the cells in [off, off+len) of the slab. Returns how many there were; the first goes into ret_first. */
static uint32_t cells_tell(struct store *s, struct pool *p, uint32_t slab, uint64_t slot_bytes, uint64_t off,
                           uint64_t len, struct cell_facts *ret_first)
{
  uint32_t slot = (uint32_t)(off / slot_bytes), last = (uint32_t)((off + len - 1) / slot_bytes), n = 0;
  struct held h;
  while (next_held(s, p, slab, &slot, last, &h)) {
    struct cell_facts f;
    if (cell_bad_copy(s, h.hash, h.cell, h.gen, (struct store_copy){slab, h.slot, p->nr}, &f) && n++ == 0)
      *ret_first = f;
  }
  return n;
}

/* [off, off+len) of the slab is bad. False: it is not there any more, or all is known. */
static bool slab_hit(struct store *s, struct pool *p, uint32_t slab, uint64_t off, uint64_t len,
                     const struct store_hit *h, struct store_bad *ret_bad)
{
  uint32_t idx = slab_index(slab), slots = 0;
  struct cell_facts first;
  uint64_t slot_bytes;
  struct store_bad b = {
      .slab = slab, .pool = p->nr, .proven = h->proven, .off = off, .len = len, .unit = h->unit, .when_ms = h->when_ms};
  bool known;
  int64_t row;
  {
    LOCKED(&p->lock);
    const struct slab_rec *r = &s->slabs.rec[idx];
    if (r->id != slab || r->state == SLAB_DYING || !range_inside(off, len, r->bytes))
      return false;
    b.dev_off = s->slabs.own[idx].mem.dev_off + off;
    b.tenant = r->tenant;
    slot_bytes = r->slot_bytes;
    row = bar_row_add(s, &b, &known);
    if (row < 0) {
      b.slots = 0; /* no room to remember it: its cells are quarantined all the same */
    } else if (!known) {
      bar_range(s, p, idx, off, len, &slots);
      bar_row_live(s, row, slots);
    }
  }
  if (!known && p->cfg.dev->caps.persistent) /* a full list forgets the newest */
    (void)p->cfg.dev->cold->index_bad(p->cfg.dev, b.dev_off, len, h->proven);
  b.fresh = !known;
  b.slots = slots;
  if (!known)
    b.cells = cells_tell(s, p, slab, slot_bytes, off, len, &first);
  if (b.cells) {
    memcpy(b.key, first.key, sizeof b.key);
    for (unsigned i = 0; i < first.copies; i++)
      if (first.copy[i].slab == slab) {
        uint64_t at = first.copy[i].slot * slot_bytes;
        b.cell_off = off > at ? off - at : 0;
      }
    LOCKED(&s->bars.lock);
    if (row >= 0) {
      struct store_bad *r = &s->bars.row[row];
      memcpy(r->key, b.key, sizeof r->key);
      r->cell_off = b.cell_off;
      r->cells += b.cells;
    }
  }
  b.live = row >= 0;
  *ret_bad = b;
  /* free slots became barred ones: it may be all that is left */
  struct doomed d = {0};
  pthread_mutex_lock(&p->lock);
  if (s->slabs.rec[idx].id == slab && s->slabs.rec[idx].bad)
    bar_settle(s, p, idx, &d);
  pthread_mutex_unlock(&p->lock);
  pool_bury(s, &d);
  return true;
}

struct found {
  struct pool *pool;
  uint32_t slab;
  uint64_t off, len;
};

/* Slabs of the pool that the unit lies in, by address, or (addr 0) by the place on the device. */
static uint32_t slabs_over(struct store *s, struct pool *p, uint64_t start, uint64_t unit, bool on_device,
                           struct found *ret, uint32_t room)
{
  uint32_t n = 0;
  LOCKED(&p->lock);
  LIST_EACH (&p->shares, i) {
    const struct share *sh = LIST_OF(i, struct share, active);
    LIST_EACH (&sh->slabs, k) {
      const struct slab *own = LIST_OF(k, struct slab, peer);
      uint32_t idx = (uint32_t)(own - s->slabs.own);
      uint64_t base = on_device ? own->mem.dev_off : (uintptr_t)own->mem.base, bytes = s->slabs.rec[idx].bytes;
      if ((!on_device && !own->mem.base) || n == room || !range_overlaps(base, bytes, start, unit))
        continue;
      uint64_t begin = MAX_OF(base, start), end = MIN_OF(base + bytes, start + unit);
      ret[n++] = (struct found){p, s->slabs.rec[idx].id, begin - base, end - begin};
    }
  }
  return n;
}

static uint32_t hit_all(struct store *s, const struct found *f, uint32_t found, const struct store_hit *h,
                        struct store_bad *ret_bad, uint32_t n)
{
  uint32_t k = 0;
  for (uint32_t i = 0; i < found; i++) {
    struct store_bad b;
    if (slab_hit(s, f[i].pool, f[i].slab, f[i].off, f[i].len, h, &b) && k < n)
      ret_bad[k++] = b;
  }
  return k;
}

uint32_t store_poison_at(struct store *s, uintptr_t addr, const struct store_hit *h, struct store_bad *ret_bad,
                         uint32_t n)
{
  struct found f[SLABS_AT_ONCE];
  uint32_t found = 0;
  for (uint32_t i = 0; i < s->pools && is_pow2_u64(h->unit); i++)
    found +=
        slabs_over(s, &s->pool[i], addr & ~(uintptr_t)(h->unit - 1), h->unit, false, f + found, SLABS_AT_ONCE - found);
  return hit_all(s, f, found, h, ret_bad, n);
}

uint32_t store_poison_in(struct store *s, uint32_t slab, uint64_t off, const struct store_hit *h,
                         struct store_bad *ret_bad, uint32_t n)
{
  struct pool *p = store_pool_of(s, slab);
  const struct slab_mem *mem = &s->slabs.own[slab_index(slab)].mem;
  if (mem->base)
    return store_poison_at(s, (uintptr_t)mem->base + off, h, ret_bad, n);
  struct found f[SLABS_AT_ONCE];
  uint64_t start = (mem->dev_off + off) & ~(h->unit - 1);
  return hit_all(s, f, slabs_over(s, p, start, h->unit, true, f, SLABS_AT_ONCE), h, ret_bad, n);
}

void bar_found(struct store *s)
{
  for (uint32_t i = 0; i < s->slabs.bump; i++) {
    struct slab_rec *r = &s->slabs.rec[i];
    struct pool *p = &s->pool[r->pool];
    if (!r->id)
      continue;
    bar_slab_made(s, p, i);
    for (uint32_t slot = 0; r->bad && slot < r->fresh; slot++) {
      struct cell_facts f;
      if (bar_covers(s, i, slot) && row_state(slab_row(&s->slabs, i, slot)) == SLOT_HELD)
        cells_tell(s, p, r->id, r->slot_bytes, slot * r->slot_bytes, 1, &f);
    }
  }
}
