/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/store/slab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"

uint64_t slabs_bytes(uint32_t max)
{
  return (uint64_t)max * sizeof(struct slab_rec);
}

uint64_t slabs_row_bytes(uint32_t max)
{
  return (uint64_t)max * STORE_SLOTS * sizeof(struct slot_row);
}

int slabs_init(struct slabs *t, void *recs, void *rows, uint32_t max)
{
  *t = (struct slabs){.rec = recs, .row = rows, .max = max, .own = calloc(max, sizeof(struct slab))};
  pthread_mutex_init(&t->lock, NULL);
  return t->own ? 0 : -ENOMEM;
}

void slabs_deinit(struct slabs *t)
{
  free(t->own);
  pthread_mutex_destroy(&t->lock);
}

uint32_t slabs_count(struct slabs *t)
{
  LOCKED(&t->lock);
  return t->count;
}

int64_t slab_take(struct slabs *t)
{
  LOCKED(&t->lock);
  uint32_t idx;
  if (t->free_head) {
    idx = t->free_head - 1;
    t->free_head = t->rec[idx].next;
  } else if (t->bump < t->max) {
    idx = t->bump++;
  } else {
    return -1;
  }
  uint16_t gen = t->rec[idx].gen;
  gen = gen == UINT16_MAX ? 1 : (uint16_t)(gen + 1); /* an id is never 0 */
  t->rec[idx] = (struct slab_rec){.id = (uint32_t)gen << 16 | idx, .gen = gen, .state = SLAB_MAKING};
  struct slab *own = &t->own[idx];
  *own = (struct slab){.mem.fd = -1};
  list_init(&own->avail);
  list_init(&own->peer);
  list_init(&own->kept);
  t->count++;
  return idx;
}

void slab_give(struct slabs *t, uint32_t idx)
{
  struct slab_rec *r = &t->rec[idx];
  memset(slab_row(t, idx, 0), 0, r->fresh * sizeof(struct slot_row));
  LOCKED(&t->lock);
  r->id = 0;
  r->state = 0;
  r->next = t->free_head;
  t->free_head = idx + 1;
  t->count--;
}

uint32_t slab_slot_take(struct slabs *t, uint32_t idx)
{
  struct slab_rec *r = &t->rec[idx];
  uint32_t slot;
  if (r->free_head) {
    slot = r->free_head - 1;
    r->free_head = slab_row(t, idx, slot)->link;
  } else {
    slot = r->fresh++;
  }
  r->used++;
  row_set(slab_row(t, idx, slot), SLOT_FILLING, 1, 0);
  return slot;
}

void slab_slot_give(struct slabs *t, uint32_t idx, uint32_t slot)
{
  struct slab_rec *r = &t->rec[idx];
  row_set(slab_row(t, idx, slot), SLOT_FREE, 0, r->free_head);
  r->free_head = slot + 1;
  r->used--;
}

void slab_slot_hold(struct slabs *t, uint32_t idx, uint32_t slot, uint32_t cell)
{
  struct slab_rec *r = &t->rec[idx];
  struct slot_row *row = slab_row(t, idx, slot);
  row_set(row, SLOT_HELD, row_pins(row), cell);
  r->held++;
  if (!row_pins(row))
    r->idle++;
}

void slab_slot_detach(struct slabs *t, uint32_t idx, uint32_t slot)
{
  struct slab_rec *r = &t->rec[idx];
  struct slot_row *row = slab_row(t, idx, slot);
  if (row_state(row) == SLOT_HELD) {
    r->held--;
    if (!row_pins(row))
      r->idle--;
  }
  row_set(row, SLOT_DETACHED, row_pins(row), 0);
}

void slab_slot_pin(struct slabs *t, uint32_t idx, uint32_t slot)
{
  struct slot_row *row = slab_row(t, idx, slot);
  if (row_state(row) == SLOT_HELD && !row_pins(row))
    t->rec[idx].idle--;
  row->bits += 1 << 2;
}

uint32_t slab_slot_unpin(struct slabs *t, uint32_t idx, uint32_t slot)
{
  struct slot_row *row = slab_row(t, idx, slot);
  row->bits -= 1 << 2;
  if (row_state(row) == SLOT_HELD && !row_pins(row))
    t->rec[idx].idle++;
  return row_pins(row);
}

uint64_t slab_slot_bytes(uint64_t len, uint64_t grain)
{
  uint64_t r = align_up(len, grain);
  uint64_t step = (1ull << (63 - __builtin_clzll(r))) / 8;
  return align_up(r, MAX_OF(step, grain));
}

uint64_t slab_size(uint64_t slot_bytes, uint64_t want, uint64_t unit, uint64_t left, uint32_t *ret_slots)
{
  left &= ~(unit - 1);
  uint64_t bytes = MIN_OF(align_up(MAX_OF(want, slot_bytes), unit), left);
  uint64_t slots = MIN_OF(bytes / slot_bytes, STORE_SLOTS);
  if (!slots)
    return 0;
  *ret_slots = (uint32_t)slots;
  return align_up(slots * slot_bytes, unit);
}
