/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of bad memory, and the bar on slots. What a new hit does to cells: poison.c. */
#include "mover/store/bar.h"

#include <string.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "include/priv/order.h"
#include "mover/store/inside.h"

#define BAR_MAGIC 0x42444152u

uint64_t bars_bytes(void)
{
  return sizeof(struct bar_head) + (uint64_t)BAR_ROWS * sizeof(struct store_bad);
}

void bars_init(struct bars *b, void *arena)
{
  *b = (struct bars){.head = arena, .row = (struct store_bad *)(void *)((char *)arena + sizeof(struct bar_head))};
  pthread_mutex_init(&b->lock, NULL);
  if (b->head->magic != BAR_MAGIC || b->head->rows > BAR_ROWS) {
    b->head->magic = BAR_MAGIC;
    b->head->rows = 0;
  }
}

void bars_deinit(struct bars *b)
{
  pthread_mutex_destroy(&b->lock);
}

static bool forgets(const struct pool *p)
{
  return p->cfg.dev->caps.isolation == DEV_PER_SLAB;
}

void bars_begin(struct store *s)
{
  for (uint32_t i = 0; i < s->bars.head->rows; i++) {
    struct store_bad *b = &s->bars.row[i];
    if (b->pool >= s->pools || forgets(&s->pool[b->pool]))
      b->live = 0;
    b->slab = 0;
    b->tenant = 0; /* names are interned anew */
  }
}

static bool row_hits(const struct store_bad *b, uint32_t slab, uint64_t off, uint64_t len)
{
  return b->live && b->slab == slab && range_overlaps(b->off, b->len, off, len);
}

/* The rows' lock is held. */
static const struct store_bad *row_over(const struct bars *b, uint32_t slab, uint64_t off, uint64_t len)
{
  const struct store_bad *found = NULL;
  for (uint32_t i = 0; i < b->head->rows; i++)
    if (row_hits(&b->row[i], slab, off, len) && (!found || b->row[i].proven))
      found = &b->row[i];
  return found;
}

bool bar_covers(struct store *s, uint32_t idx, uint32_t slot)
{
  const struct slab_rec *r = &s->slabs.rec[idx];
  if (LIKELY(!r->bad))
    return false;
  LOCKED(&s->bars.lock);
  return row_over(&s->bars, r->id, slot * r->slot_bytes, r->slot_bytes) != NULL;
}

bool store_slot_bad(struct store *s, struct slot_ref slot, bool *ret_proven)
{
  /* whoever acts on the answer is told of later hits by a message, which orders this */
  if (LIKELY(!stat_read(&s->bars.any)))
    return false;
  const struct slab_rec *r = store_slab(s, slot.slab);
  struct pool *p = store_pool_of(s, slot.slab);
  LOCKED(&p->lock);
  if (LIKELY(!r->bad) || r->id != slot.slab)
    return false;
  LOCKED(&s->bars.lock);
  const struct store_bad *b = row_over(&s->bars, slot.slab, slot.slot * r->slot_bytes, r->slot_bytes);
  if (b && ret_proven)
    *ret_proven = b->proven;
  return b != NULL;
}

/* ---- the bar ---- */

/* Out of the free list, wherever in it. Rows never used become free ones first. */
static void free_slot_take(struct slabs *t, uint32_t idx, uint32_t slot)
{
  struct slab_rec *r = &t->rec[idx];
  for (; r->fresh <= slot; r->fresh++) {
    row_set(slab_row(t, idx, r->fresh), SLOT_FREE, 0, r->free_head);
    r->free_head = r->fresh + 1;
  }
  uint32_t *link = &r->free_head;
  while (*link != slot + 1)
    link = &slab_row(t, idx, *link - 1)->link;
  *link = slab_row(t, idx, slot)->link;
  row_set(slab_row(t, idx, slot), SLOT_DETACHED, 0, 0);
  r->used++;
}

/* The pool's lock is held; the slot is not barred yet. */
static void slot_bar(struct store *s, struct pool *p, uint32_t idx, uint32_t slot)
{
  struct slab_rec *r = &s->slabs.rec[idx];
  if (slot >= r->fresh || row_state(slab_row(&s->slabs, idx, slot)) == SLOT_FREE) {
    pool_slab_unkeep(s, p, idx);
    free_slot_take(&s->slabs, idx, slot);
  }
  slab_slot_pin(&s->slabs, idx, slot);
  r->bad++;
  stat_set(&s->bars.any, 1);
  if (!slab_has_room(r))
    list_remove(&s->slabs.own[idx].avail);
}

void bar_range(struct store *s, struct pool *p, uint32_t idx, uint64_t off, uint64_t len, uint32_t *ret_slots)
{
  const struct slab_rec *r = &s->slabs.rec[idx];
  uint64_t first = off / r->slot_bytes, last = (off + len - 1) / r->slot_bytes;
  for (uint64_t slot = first; slot <= last && slot < r->slots; slot++)
    if (!bar_covers(s, idx, (uint32_t)slot)) {
      slot_bar(s, p, idx, (uint32_t)slot);
      ++*ret_slots;
    }
}

int64_t bar_row_add(struct store *s, const struct store_bad *bad, bool *ret_known)
{
  struct bars *b = &s->bars;
  LOCKED(&b->lock);
  uint32_t place = b->head->rows < BAR_ROWS ? b->head->rows : BAR_ROWS, words = 0;
  *ret_known = false;
  for (uint32_t i = 0; i < b->head->rows; i++) {
    struct store_bad *o = &b->row[i];
    if (o->live && o->slab == bad->slab && o->off <= bad->off && o->off + o->len >= bad->off + bad->len) {
      *ret_known = o->proven >= bad->proven;
      o->proven |= bad->proven;
      return i;
    }
    words += o->live && !o->proven && o->tenant == bad->tenant;
    if (!o->live && place == BAR_ROWS)
      place = i; /* history gives way */
  }
  if (place == BAR_ROWS || (!bad->proven && words >= BAR_WORDS))
    return -1;
  b->row[place] = *bad;
  b->row[place].live = 0; /* until its slots are barred: bar_covers must not see it yet */
  if (place == b->head->rows)
    b->head->rows++;
  return place;
}

void bar_row_live(struct store *s, int64_t row, uint32_t slots)
{
  LOCKED(&s->bars.lock);
  s->bars.row[row].slots += slots;
  s->bars.row[row].live = 1;
}

void bar_row_found(struct store *s, const struct pool *p, uint64_t dev_off, uint64_t len, bool proven)
{
  struct bars *b = &s->bars;
  LOCKED(&b->lock);
  for (uint32_t i = 0; i < b->head->rows; i++) {
    const struct store_bad *o = &b->row[i];
    if (o->live && o->pool == p->nr && o->dev_off <= dev_off && o->dev_off + o->len >= dev_off + len)
      return; /* the last worker's, which says more */
  }
  if (b->head->rows == BAR_ROWS)
    return;
  b->row[b->head->rows++] = (struct store_bad){.pool = p->nr,
                                               .proven = proven,
                                               .live = 1,
                                               .off = dev_off,
                                               .len = len,
                                               .dev_off = dev_off,
                                               .unit = len & (~len + 1)};
}

/* Rows of a slab that is no more. */
static void rows_end(struct store *s, uint32_t slab)
{
  LOCKED(&s->bars.lock);
  for (uint32_t i = 0; i < s->bars.head->rows; i++)
    if (s->bars.row[i].slab == slab)
      s->bars.row[i].live = 0;
}

uint32_t bar_resting(struct store *s, uint32_t idx)
{
  const struct slab_rec *r = &s->slabs.rec[idx];
  uint32_t n = 0;
  for (uint32_t i = 0; r->bad && i < r->fresh; i++) {
    const struct slot_row *row = slab_row(&s->slabs, idx, i);
    n += row_state(row) == SLOT_DETACHED && row_pins(row) == 1 && bar_covers(s, idx, i);
  }
  return n;
}

void bar_settle(struct store *s, struct pool *p, uint32_t idx, struct doomed *d)
{
  struct slab_rec *r = &s->slabs.rec[idx];
  if (!(forgets(p) || p->closed) || r->used != r->bad || r->state == SLAB_DYING || bar_resting(s, idx) != r->bad)
    return;
  rows_end(s, r->id);
  r->state = SLAB_RECLAIMING;
  pool_slab_settle(s, p, idx, d);
}

void bar_slab_made(struct store *s, struct pool *p, uint32_t idx)
{
  struct slab_rec *r = &s->slabs.rec[idx];
  const struct slab_mem *mem = &s->slabs.own[idx].mem;
  if (forgets(p) || r->adopted)
    return;
  for (uint32_t i = 0; i < s->bars.head->rows; i++) {
    struct store_bad *b = &s->bars.row[i];
    struct store_bad at = {0};
    {
      LOCKED(&s->bars.lock);
      if (!b->live || b->slab || b->pool != p->nr || !range_overlaps(b->dev_off, b->len, mem->dev_off, r->bytes))
        continue;
      at = *b;
      b->live = 0;
    }
    uint64_t begin = MAX_OF(at.dev_off, mem->dev_off), end = MIN_OF(at.dev_off + at.len, mem->dev_off + r->bytes);
    uint32_t slots = 0;
    at.off = begin - mem->dev_off;
    bar_range(s, p, idx, at.off, end - begin, &slots);
    LOCKED(&s->bars.lock);
    b->slab = r->id;
    b->off = at.off;
    b->len = end - begin;
    b->live = 1;
    b->slots = slots;
  }
}

bool bar_audit(struct store *s, uint32_t idx)
{
  const struct slab_rec *r = &s->slabs.rec[idx];
  uint32_t n = 0;
  for (uint32_t i = 0; r->bad && i < r->slots; i++) {
    if (!bar_covers(s, idx, i))
      continue;
    n++;
    if (i >= r->fresh || row_state(slab_row(&s->slabs, idx, i)) == SLOT_FREE || !row_pins(slab_row(&s->slabs, idx, i)))
      return false;
  }
  return n == r->bad;
}

uint32_t store_bad_list(struct store *s, uint32_t *cursor, struct store_bad *ret_bad, uint32_t n)
{
  uint32_t k = 0;
  LOCKED(&s->bars.lock);
  while (k < n && *cursor < s->bars.head->rows) {
    const struct store_bad *b = &s->bars.row[(*cursor)++];
    if (b->unit)
      ret_bad[k++] = *b;
  }
  if (*cursor >= s->bars.head->rows)
    *cursor = 0;
  return k;
}

void store_bad_sums(struct store *s, struct bad_sums *ret_sums)
{
  struct bad_sums sum = {0};
  LOCKED(&s->bars.lock);
  for (uint32_t i = 0; i < s->bars.head->rows; i++) {
    const struct store_bad *b = &s->bars.row[i];
    sum.units++;
    sum.cells += b->cells;
    if (b->live) {
      sum.live_units++;
      sum.live_bytes += b->len;
    }
  }
  *ret_sums = sum;
}
