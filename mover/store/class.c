/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/store/class.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "include/priv/hash.h"

static uint32_t bucket_of(const struct class_key *k, uint32_t buckets)
{
  return (uint32_t)hash_bytes(k, sizeof *k, 0) & (buckets - 1);
}

int class_table_init(struct class_table *t)
{
  *t = (struct class_table){.buckets = 64, .bucket = calloc(64, sizeof(struct slot_class *))};
  return t->bucket ? 0 : -ENOMEM;
}

static void class_free(struct slot_class *c)
{
  free(c->slab);
  free(c);
}

void class_table_deinit(struct class_table *t)
{
  for (uint32_t i = 0; t->bucket && i < t->buckets; i++)
    for (struct slot_class *c = t->bucket[i], *next; c; c = next) {
      next = c->next;
      class_free(c);
    }
  free(t->bucket);
  *t = (struct class_table){0};
}

struct slot_class *class_find(const struct class_table *t, const struct class_key *k)
{
  for (struct slot_class *c = t->bucket[bucket_of(k, t->buckets)]; c; c = c->next)
    if (!memcmp(&c->key, k, sizeof *k))
      return c;
  return NULL;
}

/* A table that cannot grow is slower, not wrong. */
static void table_grow(struct class_table *t)
{
  uint32_t buckets = t->buckets * 2;
  struct slot_class **bucket = calloc(buckets, sizeof *bucket);
  if (!bucket)
    return;
  for (uint32_t i = 0; i < t->buckets; i++)
    for (struct slot_class *c = t->bucket[i], *next; c; c = next) {
      next = c->next;
      struct slot_class **head = &bucket[bucket_of(&c->key, buckets)];
      c->next = *head;
      *head = c;
    }
  free(t->bucket);
  t->bucket = bucket;
  t->buckets = buckets;
}

struct slot_class *class_get(struct class_table *t, const struct class_key *k)
{
  struct slot_class *c = class_find(t, k);
  if (c)
    return c;
  c = calloc(1, sizeof *c);
  if (!c)
    return NULL;
  if (t->count >= t->buckets)
    table_grow(t);
  c->key = *k;
  list_init(&c->avail);
  struct slot_class **head = &t->bucket[bucket_of(k, t->buckets)];
  c->next = *head;
  *head = c;
  t->count++;
  return c;
}

void class_put(struct class_table *t, struct slot_class *c)
{
  if (c->slabs || c->making || c->waiters)
    return;
  struct slot_class **link = &t->bucket[bucket_of(&c->key, t->buckets)];
  while (*link != c)
    link = &(*link)->next;
  *link = c->next;
  t->count--;
  class_free(c);
}

int class_reserve(struct slot_class *c)
{
  if (c->slabs < c->room)
    return 0;
  uint32_t room = c->room ? c->room * 2 : 4;
  uint32_t *slab = realloc(c->slab, room * sizeof *slab);
  if (!slab)
    return -ENOMEM;
  c->slab = slab;
  c->room = room;
  return 0;
}

uint32_t class_link(struct slot_class *c, uint32_t slab)
{
  c->slab[c->slabs] = slab;
  return c->slabs++;
}

uint32_t class_unlink(struct slot_class *c, uint32_t pos)
{
  if (!--c->slabs)
    c->grown = 0;
  if (pos == c->slabs)
    return UINT32_MAX;
  c->slab[pos] = c->slab[c->slabs];
  return c->slab[pos];
}
