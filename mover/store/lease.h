/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases: rows in an arena, linked per session by index. An id carries the row's generation, so an id of an ended lease
 * finds nothing.
 *
 * Whose a row is. Rows come in blocks; a session takes a whole block at a time under the table's lock, and from then on
 * only the one thread that serves the session touches its rows: a MAP or UNMAP takes no lock here. The owner of a block
 * is looked at before any row of it, since ids come from engines and may name rows of others.
 */
#ifndef MOVER_STORE_LEASE_H
#define MOVER_STORE_LEASE_H

#include <pthread.h>
#include <stdint.h>

#include "mover/store/store.h"

#define LEASE_SESSIONS 4096u
#define LEASE_BLOCK 32u /* rows of a block: the bits of its mask */

struct lease_rec {
  uint32_t gen, session;
  uint32_t row;
  uint32_t slab, slot;
  uint32_t prev, next; /* within the session; 0 ends */
  uint32_t live;
  uint64_t len, off, ctx;
  uint32_t tenant, agent, serial; /* whose bytes, of which commit */
  uint8_t key[16];
};

/* The worker's side of LEASE_BLOCK rows. */
struct lease_block {
  uint32_t owner;      /* [LEASE] session + 1; 0: in the table's free list */
  uint32_t free;       /* a bit per row */
  uint32_t prev, next; /* of the session's blocks with free rows, or the free list; index + 1, 0 ends */
};

/* What the one thread of a session has. */
struct lease_purse {
  uint32_t head;  /* the session's leases */
  uint32_t avail; /* blocks with free rows, + 1 */
  uint64_t count; /* [STAT] */
} __attribute__((aligned(64)));

/* Index 0 is no lease; row i is in block (i - 1) / LEASE_BLOCK. */
struct leases {
  pthread_mutex_t lock; /* of the free blocks; innermost */
  struct lease_rec *rec;
  struct lease_block *block;
  struct lease_purse *purse; /* by session */
  uint32_t max, blocks;
  uint32_t bump, free_head; /* blocks */
  uint64_t high;            /* [STAT] sessions above never had one */
};

uint64_t leases_bytes(uint32_t max);
int leases_init(struct leases *t, void *arena, uint32_t max);
void leases_deinit(struct leases *t);
uint64_t leases_count(struct leases *t);

/* For the session's own thread, or whoever took the session over from it. */
unsigned lease_add(struct leases *t, const struct lease_info *l, uint64_t *ret_id);
unsigned lease_find(struct leases *t, uint32_t session, uint64_t id, struct lease_info *ret_lease);
unsigned lease_end(struct leases *t, uint32_t session, uint64_t id, struct lease_info *ret_lease);
/* Those of the session that touch [off, off+len) of the slab. */
uint32_t lease_in(struct leases *t, uint32_t session, uint32_t slab, uint64_t off, uint64_t len, uint32_t *cursor,
                  struct lease_info *ret_lease, uint32_t n);
/* Those of the session on bytes of that key, whatever slot they are in. */
uint32_t lease_whose(struct leases *t, uint32_t session, const struct store_whose *w, uint32_t *cursor,
                     struct lease_info *ret_lease, uint32_t n);
unsigned lease_first(struct leases *t, uint32_t session, struct lease_info *ret_lease);
/* The one after `id`, a lease of the session. */
unsigned lease_next(struct leases *t, uint32_t session, uint64_t id, struct lease_info *ret_lease);
/* The session ends and has no lease any more: its blocks go back. */
void lease_close(struct leases *t, uint32_t session);
#endif
