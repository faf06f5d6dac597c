/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cell's record and the table of records.
 *
 * Owner of each field: a listed record belongs to the lock of its directory shard. The identity (key, gen, tenant,
 * agent, mkey, len, scope, serial) does not change while any slot names the record, so whoever holds the lock of a
 * pool and finds the record named by a HELD slot of that pool may read the identity without the shard's lock.
 */
#ifndef MOVER_STORE_CELL_H
#define MOVER_STORE_CELL_H

#include <pthread.h>
#include <stdint.h>

#include "mover/store/store.h"

struct cell_rec {
  uint8_t key[16];
  uint32_t next; /* in the bucket's chain, or in the free list; 0 ends both */
  uint32_t tag;  /* low half of the hash: tells where it goes when its bucket splits, and most strangers apart */
  uint32_t gen;
  uint32_t tenant, agent, mkey;
  uint64_t len;
  uint32_t crc;
  uint32_t stamp;                       /* ms when it was last used */
  uint32_t serial;                      /* of the commit, over all cells: tells older from newer in an index on disk */
  uint8_t has_crc, scope, taint, state; /* state 0: the record is free */
  uint8_t copies;
  uint8_t zero;
  uint16_t account[2]; /* of the session and the request that put it: account.h; 0: none */
  uint16_t replay;     /* what computing it again would cost, in 16 tokens; 0: nobody said */
  uint32_t slab[STORE_COPIES];
  uint16_t where[STORE_COPIES]; /* slot | pool << 12 */
};
_Static_assert(sizeof(struct cell_rec) == 96, "the first 32 bytes, where chains are followed, lie in one cache line");
_Static_assert(STORE_SLOTS <= 1u << 12 && STORE_POOLS_MAX <= 16, "slot and pool share 16 bits");

/* Index 0 is no cell. */
struct cells {
  pthread_mutex_t lock; /* of the free list; innermost */
  struct cell_rec *rec;
  uint32_t max, bump, free_head, free_count;
  uint32_t serial;
};

uint64_t cells_bytes(uint32_t max);
void cells_init(struct cells *t, void *arena, uint32_t max);
void cells_deinit(struct cells *t);
/* A record with its generation and a new serial, all else unset; 0 when the table is full. */
uint32_t cell_take(struct cells *t);
/* No shard lists it and no slot names it any more. */
void cell_give(struct cells *t, uint32_t idx);

static inline uint32_t cell_domain(const struct cell_rec *c)
{
  return store_domain(c->scope, c->tenant);
}
static inline struct store_copy cell_copy(const struct cell_rec *c, unsigned i)
{
  return (struct store_copy){.slab = c->slab[i], .slot = c->where[i] & 0xfff, .pool = (uint8_t)(c->where[i] >> 12)};
}
/* Which copy lies in that pool, or -1. */
int cell_copy_in(const struct cell_rec *c, uint8_t pool);
/* There is room for it and none in its pool. */
void cell_copy_add(struct cell_rec *c, struct store_copy copy);
void cell_copy_del(struct cell_rec *c, unsigned i);
void cell_facts_get(const struct cell_rec *c, uint32_t idx, struct cell_facts *ret_facts);
#endif
