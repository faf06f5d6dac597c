/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slot class: what two cells must have in common to lie in one slab (tenant, scope, agent where the scope is agent,
 * slot size). Knows its slabs and which of them have free slots. Lives in a pool's table, which the pool's lock guards,
 * and only as long as it has slabs or somebody works on it.
 */
#ifndef MOVER_STORE_CLASS_H
#define MOVER_STORE_CLASS_H

#include <stdbool.h>
#include <stdint.h>

#include "include/priv/list.h"

struct class_key {
  uint32_t tenant, agent;
  uint64_t slot_bytes;
  uint64_t scope; /* wide, so that the key has no padding and hashes as bytes */
};

struct slot_class {
  struct class_key key;
  struct slot_class *next; /* in the bucket */
  struct list avail;       /* struct slab.avail */
  uint32_t *slab;          /* indices of all its slabs */
  uint32_t slabs, room;
  uint32_t grown;   /* slabs made since it had none: each is twice the one before */
  uint32_t waiters; /* threads that wait for the slab being made */
  bool making;
  bool kept; /* one of the slabs is empty and kept */
};

struct class_table {
  struct slot_class **bucket;
  uint32_t buckets, count;
};

int class_table_init(struct class_table *t);
/* Frees the classes too. */
void class_table_deinit(struct class_table *t);
struct slot_class *class_find(const struct class_table *t, const struct class_key *k);
/* NULL: out of memory. */
struct slot_class *class_get(struct class_table *t, const struct class_key *k);
/* Frees it when nobody needs it. */
void class_put(struct class_table *t, struct slot_class *c);
/* Room for one more slab: -ENOMEM. */
int class_reserve(struct slot_class *c);
/* Returns the position; class_reserve made room. */
uint32_t class_link(struct slot_class *c, uint32_t slab);
/* Returns the slab that took the position's place, or UINT32_MAX. */
uint32_t class_unlink(struct slot_class *c, uint32_t pos);
#endif
