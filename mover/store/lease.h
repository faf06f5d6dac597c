/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases: rows in an arena, linked per session by index. The table's lock is taken alone, never with another.
 * An id carries the row's generation, so an id of an ended lease finds nothing.
 */
#ifndef MOVER_STORE_LEASE_H
#define MOVER_STORE_LEASE_H

#include <pthread.h>
#include <stdint.h>

#include "mover/store/store.h"

#define LEASE_SESSIONS 4096u

struct lease_rec {
  uint32_t gen, session;
  uint32_t row;
  uint32_t slab, slot;
  uint32_t prev, next; /* within the session; next also links the free list; 0 ends */
  uint32_t live;
  uint64_t len, off, ctx;
};

/* Index 0 is no lease. */
struct leases {
  pthread_mutex_t lock;
  struct lease_rec *rec;
  uint32_t *head; /* by session */
  uint32_t max, bump, free_head, count;
};

uint64_t leases_bytes(uint32_t max);
int leases_init(struct leases *t, void *arena, uint32_t max);
void leases_deinit(struct leases *t);
uint32_t leases_count(struct leases *t);

unsigned lease_add(struct leases *t, const struct lease_info *l, uint64_t *ret_id);
unsigned lease_find(struct leases *t, uint32_t session, uint64_t id, struct lease_info *ret_lease);
unsigned lease_end(struct leases *t, uint32_t session, uint64_t id, struct lease_info *ret_lease);
/* Those of the session that touch [off, off+len) of the slab. */
uint32_t lease_in(struct leases *t, uint32_t session, uint32_t slab, uint64_t off, uint64_t len, uint32_t *cursor,
                  struct lease_info *ret_lease, uint32_t n);
unsigned lease_first(struct leases *t, uint32_t session, struct lease_info *ret_lease);
#endif
