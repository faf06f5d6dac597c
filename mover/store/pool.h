/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool: the books over the slabs of one device. Everything in it belongs to its lock, and so do the records and rows
 * of its slabs.
 *
 * How a slab ends. The function that empties it unlinks it under the lock and puts it on the caller's list of the
 * doomed; the caller, holding no locks, hands the list to pool_bury. Its bytes are free when its transport is done.
 */
#ifndef MOVER_STORE_POOL_H
#define MOVER_STORE_POOL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "include/priv/list.h"
#include "mover/store/class.h"
#include "mover/store/names.h"
#include "mover/store/slab.h"
#include "mover/store/store.h"

/* What one tenant has of a pool. */
struct share {
  struct list active; /* of pool->shares while it has slabs */
  struct list slabs;  /* struct slab.peer */
  uint64_t bytes;
  uint32_t tenant;
  uint32_t reclaim; /* the slab being emptied, + 1 */
  /* quota.h */
  uint64_t charged; /* slabs that are there, being made or dying, and what is set aside */
  uint64_t set_aside, peak, cell_bytes;
  uint64_t reserve, limit; /* UINT64_MAX: none */
  uint32_t weight;
};

struct pool {
  pthread_mutex_t lock;
  pthread_cond_t made; /* a slab has been made, or not, or has been buried */
  struct store_pool_config cfg;
  char owner[STORE_NAME_MAX];
  uint8_t nr;
  uint64_t unit, grain;
  uint64_t slab_bytes; /* of slabs that are there, being made or dying */
  uint64_t kept_bytes; /* of empty slabs among them */
  uint64_t reserved;
  uint64_t owed; /* of reserves, to tenants that are charged for less */
  uint64_t cell_bytes, cells;
  uint32_t slabs, dying;
  bool closed;     /* nothing new goes here */
  uint32_t now_ms; /* the latest time heard of */
  uint64_t random;
  struct class_table classes;
  struct list shares, kept;
  struct share *share; /* by tenant */
};

/* At most: a replaced cell's copies, a moved copy, a kept slab. */
#define DOOMED_MAX (STORE_COPIES + 2)
struct doomed {
  uint32_t n;
  uint32_t slab[DOOMED_MAX];
};

int pool_init(struct pool *p, const struct store_pool_config *cfg, uint8_t nr);
void pool_deinit(struct pool *p);
/* May a cell of who be in this pool at all. */
bool pool_admits(struct store *s, const struct pool *p, const struct store_who *who);
/* The class of len bytes; false when the pool can never hold it. */
bool pool_class_key(const struct pool *p, const struct store_who *who, uint64_t len, struct class_key *ret_key);

static inline struct store_copy slot_copy(const struct pool *p, struct slot_ref r)
{
  return (struct store_copy){.slab = r.slab, .slot = r.slot, .pool = p->nr};
}

/* The lock is held. */
uint64_t pool_left(const struct pool *p);
/* A slab whose record is filled joins the books; class NULL: adopted. class_reserve was called. */
void pool_slab_link(struct store *s, struct pool *p, uint32_t idx, struct slot_class *class);
/* Off the list of the kept, when it is on it. */
void pool_slab_unkeep(struct store *s, struct pool *p, uint32_t idx);
void pool_slab_unlink(struct store *s, struct pool *p, uint32_t idx);
/* Takes a slot; there is one. */
struct slot_ref pool_slot_take(struct store *s, struct pool *p, uint32_t idx);
/* The slot is pinned now. */
void pool_slot_pin(struct store *s, struct pool *p, struct slot_ref r, uint32_t now_ms);
/* Ends a pin; a detached slot without pins becomes free. */
void pool_slot_unpin(struct store *s, struct pool *p, struct slot_ref r, struct doomed *d);
/* FILLING -> HELD by a cell of len bytes. */
void pool_slot_hold(struct store *s, struct pool *p, struct slot_ref r, uint32_t cell, uint64_t len, uint32_t now_ms);
/* HELD by a cell of len bytes, or FILLING (then len is not looked at) -> DETACHED, and free when it has no pins. */
void pool_slot_detach(struct store *s, struct pool *p, struct slot_ref r, uint64_t len, struct doomed *d);
/* An empty slab is kept, when it is the only one of its class, or doomed. */
void pool_slab_settle(struct store *s, struct pool *p, uint32_t idx, struct doomed *d);
/* Dooms the empty slab that was kept longest, of that tenant (0: of any); false when there is none. */
bool pool_kept_drop(struct store *s, struct pool *p, uint32_t tenant, struct doomed *d);

/* No locks are held. */
void pool_bury(struct store *s, struct doomed *d);
/* Tells the hooks and destroys the memory. */
void pool_slab_destroy(struct store *s, struct pool *p, uint32_t idx, bool lent);
/* The entry of a copy in a persistent pool. 0 when there is nothing to write. */
struct cell_rec;
int pool_index_put(struct store *s, const struct cell_rec *c, struct store_copy copy);
void pool_index_del(struct store *s, struct store_copy copy);
/* A hint: pool_index_put or _del of it follows. */
void pool_index_expect(struct store *s, struct store_copy copy);
/* Tells the device whose cells a new slab will hold. */
int pool_index_slab(struct store *s, struct pool *p, uint32_t idx);
#endif
