/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slabs and the rows of their slots. What says who owns which bytes is in the arenas (struct slab_rec, struct
 * slot_row); mappings and list links are the worker's own (struct slab). A slab's fields and rows belong to the lock
 * of its pool; which indices are in use belongs to the table's lock, which is innermost.
 */
#ifndef MOVER_STORE_SLAB_H
#define MOVER_STORE_SLAB_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "include/priv/list.h"
#include "mover/store/store.h"

enum slab_state {
  SLAB_MAKING = 1,     /* its transport is at it; nobody else knows it */
  SLAB_LIVE = 2,       /* slots are taken from it */
  SLAB_RECLAIMING = 3, /* slots are given back only; destroyed when empty */
  SLAB_DYING = 4,      /* empty, unlinked; its transport takes it back */
};
enum slot_state {
  SLOT_FREE = 0, /* an untouched row is a free slot */
  SLOT_FILLING = 1,
  SLOT_HELD = 2,
  SLOT_DETACHED = 3,
};

/* Pins are leases and transfers: at most STORE_POOLS_MAX lanes times depth plus leases_max, far below 2^30. */
struct slot_row {
  uint32_t link; /* HELD: the cell; FREE: the next free slot + 1; else 0 */
  uint32_t bits; /* pins << 2 | enum slot_state */
};
_Static_assert(sizeof(struct slot_row) == 8, "a slot costs 8 bytes");

struct slab_rec {
  uint32_t id; /* generation << 16 | index; 0: not in use */
  uint16_t gen;
  uint8_t pool, state;
  uint32_t tenant, agent; /* agent 0 unless scope is AGENT */
  uint8_t scope;
  uint8_t adopted; /* memory that the caller made: not the transport's to destroy */
  uint8_t indexed; /* its persistent device knows it */
  uint8_t sealed;  /* RECLAIMING for good: somebody who should not may still map it */
  uint32_t next;   /* free list of indices, + 1 */
  uint64_t slot_bytes, bytes;
  uint32_t slots;
  uint32_t fresh;     /* rows below were used at least once; those above are free and untouched */
  uint32_t free_head; /* slot + 1 */
  uint32_t used;      /* FILLING, HELD and DETACHED */
  uint32_t held;
  uint32_t idle;  /* HELD without pins: what can be moved out */
  uint32_t stamp; /* ms when a slot of it was last pinned */
  uint32_t bad;   /* barred slots: bar.h */
};
_Static_assert(sizeof(struct slab_rec) == 72, "slab record");

/* The worker's side of a slab. */
struct slab {
  struct slab_mem mem;
  struct slot_class *class; /* NULL: adopted */
  uint32_t class_pos;       /* in class->slab */
  struct list avail;        /* of class->avail: LIVE with free slots */
  struct list peer;         /* of the tenant's slabs in this pool */
  struct list kept;         /* of the pool's empty slabs */
};

struct slabs {
  pthread_mutex_t lock;
  struct slab_rec *rec;
  struct slot_row *row;
  struct slab *own;
  uint32_t max, bump, free_head, count;
};

uint64_t slabs_bytes(uint32_t max);
uint64_t slabs_row_bytes(uint32_t max);
int slabs_init(struct slabs *t, void *recs, void *rows, uint32_t max);
void slabs_deinit(struct slabs *t);
uint32_t slabs_count(struct slabs *t);
/* An index whose record is zero but for id, gen and state MAKING; -1 when the table is full. */
int64_t slab_take(struct slabs *t);
void slab_give(struct slabs *t, uint32_t idx);

static inline uint32_t slab_index(uint32_t id)
{
  return id & 0xffff;
}
static inline struct slot_row *slab_row(const struct slabs *t, uint32_t idx, uint32_t slot)
{
  return &t->row[(size_t)idx * STORE_SLOTS + slot];
}
static inline enum slot_state row_state(const struct slot_row *r)
{
  return (enum slot_state)(r->bits & 3);
}
static inline uint32_t row_pins(const struct slot_row *r)
{
  return r->bits >> 2;
}
static inline void row_set(struct slot_row *r, enum slot_state state, uint32_t pins, uint32_t link)
{
  r->bits = pins << 2 | (uint32_t)state;
  r->link = link;
}

/* The pool's lock is held for all of these. */
static inline bool slab_has_room(const struct slab_rec *r)
{
  return r->used < r->slots;
}
/* There is one: FILLING, pinned once. */
uint32_t slab_slot_take(struct slabs *t, uint32_t idx);
/* It has no pins and is FILLING or DETACHED. */
void slab_slot_give(struct slabs *t, uint32_t idx, uint32_t slot);
/* FILLING -> HELD by cell. */
void slab_slot_hold(struct slabs *t, uint32_t idx, uint32_t slot, uint32_t cell);
/* HELD or FILLING -> DETACHED. */
void slab_slot_detach(struct slabs *t, uint32_t idx, uint32_t slot);
void slab_slot_pin(struct slabs *t, uint32_t idx, uint32_t slot);
/* Returns the pins that are left. */
uint32_t slab_slot_unpin(struct slabs *t, uint32_t idx, uint32_t slot);

/* The slot size for len bytes: rounded to grain, then to an eighth of its power of two. */
uint64_t slab_slot_bytes(uint64_t len, uint64_t grain);
/* Bytes of a slab with `want` bytes or so in slots of slot_bytes, a multiple of unit and at most left; slots in
 *ret_slots. 0 when not even one slot fits. */
uint64_t slab_size(uint64_t slot_bytes, uint64_t want, uint64_t unit, uint64_t left, uint32_t *ret_slots);
#endif
