/* SPDX-License-Identifier: Apache-2.0 */
/* The store from the inside: who has what. Only mover/store includes this. */
#ifndef MOVER_STORE_INSIDE_H
#define MOVER_STORE_INSIDE_H

#include "mover/store/account.h"
#include "mover/store/arena.h"
#include "mover/store/bar.h"
#include "mover/store/cell.h"
#include "mover/store/directory.h"
#include "mover/store/lease.h"
#include "mover/store/names.h"
#include "mover/store/pool.h"
#include "mover/store/slab.h"
#include "mover/store/store.h"

struct store {
  struct directory directory; /* first: its shards are aligned */
  struct store_hooks hooks;
  struct arena arena[ARENA_COUNT];
  struct names names;
  struct cells cells;
  struct slabs slabs;
  struct leases leases;
  struct bars bars;
  struct accounts accounts;
  struct pool pool[STORE_POOLS_MAX];
  uint32_t pools;
  uint64_t found, skipped; /* on disk, at start */
};

static inline struct slab_rec *store_slab(struct store *s, uint32_t id)
{
  return &s->slabs.rec[slab_index(id)];
}
/* The caller holds a pin or the lock that keeps the slab. */
static inline struct pool *store_pool_of(struct store *s, uint32_t slab)
{
  return &s->pool[store_slab(s, slab)->pool];
}
static inline struct slot_ref copy_slot(struct store_copy c)
{
  return (struct slot_ref){.slab = c.slab, .slot = c.slot};
}
#endif
