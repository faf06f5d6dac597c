/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/store/cell.h"

#include <string.h>

#include "include/priv/cleanup.h"
#include "include/priv/order.h"

uint64_t cells_bytes(uint32_t max)
{
  return ((uint64_t)max + 1) * sizeof(struct cell_rec);
}

void cells_init(struct cells *t, void *arena, uint32_t max)
{
  *t = (struct cells){.rec = arena, .max = max};
  pthread_mutex_init(&t->lock, NULL);
}

void cells_deinit(struct cells *t)
{
  pthread_mutex_destroy(&t->lock);
}

uint32_t cell_take(struct cells *t)
{
  LOCKED(&t->lock);
  uint32_t idx = t->free_head;
  if (idx) {
    t->free_head = t->rec[idx].next;
    t->free_count--;
  } else if (t->bump < t->max) {
    idx = ++t->bump;
    t->rec[idx].gen = 1;
  } else {
    return 0;
  }
  t->rec[idx].serial = ++t->serial;
  t->rec[idx].copies = 0;
  return idx;
}

void cell_give(struct cells *t, uint32_t idx)
{
  struct cell_rec *c = &t->rec[idx];
  c->account[0] = c->account[1] = c->replay = 0;
  LOCKED(&t->lock);
  c->state = 0;
  if (!++c->gen)
    c->gen = 1;
  c->next = t->free_head;
  t->free_head = idx;
  t->free_count++;
}

int cell_copy_in(const struct cell_rec *c, uint8_t pool)
{
  for (unsigned i = 0; i < c->copies; i++)
    if (c->where[i] >> 12 == pool)
      return (int)i;
  return -1;
}

void cell_copy_add(struct cell_rec *c, struct store_copy copy)
{
  unsigned i = c->copies++;
  for (; i && c->where[i - 1] >> 12 > copy.pool; i--) {
    hint_set(&c->slab[i], c->slab[i - 1]);
    hint_set16(&c->where[i], c->where[i - 1]);
  }
  hint_set(&c->slab[i], copy.slab);
  hint_set16(&c->where[i], (uint16_t)(copy.slot | (uint32_t)copy.pool << 12));
}

void cell_copy_del(struct cell_rec *c, unsigned i)
{
  for (c->copies--; i < c->copies; i++) {
    hint_set(&c->slab[i], c->slab[i + 1]);
    hint_set16(&c->where[i], c->where[i + 1]);
  }
}

void cell_facts_get(const struct cell_rec *c, uint32_t idx, struct cell_facts *ret_facts)
{
  struct cell_facts *f = ret_facts;
  f->idx = idx;
  f->gen = c->gen;
  memcpy(f->key, c->key, sizeof f->key);
  f->tenant = c->tenant;
  f->agent = c->agent;
  f->mkey = c->mkey;
  f->len = c->len;
  f->crc = c->crc;
  f->has_crc = c->has_crc;
  f->scope = c->scope;
  f->taint = c->taint;
  f->state = c->state;
  f->copies = c->copies;
  f->replay = c->replay * 16u;
  f->serial = c->serial;
  for (unsigned i = 0; i < c->copies; i++)
    f->copy[i] = cell_copy(c, i);
}
