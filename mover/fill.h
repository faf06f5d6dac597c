/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that an engine fills in place between ALLOC and COMMIT: a memfd of one session, charged to its pool. COMMIT
 * freezes it with F_SEAL_WRITE when no writable mapping is left; otherwise its bytes are copied.
 */
#ifndef MOVER_FILL_H
#define MOVER_FILL_H

#include <stdint.h>

#include "mover/job.h"
#include "mover/store/store.h"

struct daemon;

#define FILLS_MAX 4096u
#define FILL_INDEX_BASE 61440u /* slab indices from here on are fills: the store's stay below */

struct fill {
  uint32_t id; /* slab id that the engine knows it by: its own number space (session_lend) */
  uint32_t pool;
  int fd;
  void *base;          /* mapped only to be copied from */
  uint64_t len, bytes; /* asked for; in whole pages */
  uint64_t set_aside;  /* in the pool: bytes, or 0 while a COMMIT has its slot instead */
  uint8_t key[16];
  uint32_t mkey;
  uint16_t account[2]; /* charges of the session and the request */
  struct store_who who;
  bool busy; /* a COMMIT copies from it: neither a second one nor UNMAP may take it away */
};

/* ALLOC: makes the memfd, charges it, sends it, grants a write lease. Fills the outcome. */
void fill_alloc(struct lane *l, struct session *s, const uint8_t key[16], uint8_t klass, uint32_t request, uint64_t len,
                uint32_t pool, uint32_t mkey, struct outcome *ret_outcome);
/* COMMIT: done at once by freezing (true, outcome filled), or to be copied: false, the fill is mapped and the lease
 * still holds it. */
bool fill_commit(struct lane *l, struct session *s, uint64_t lease, unsigned flags, struct outcome *ret_outcome,
                 uint64_t *ret_ctx);
/* The fill behind a lease's ctx, or NULL. */
struct fill *fill_at(struct daemon *d, uint64_t ctx);
/* The COMMIT that copied from it is over; nothing when that ended the lease. */
void fill_idle(struct daemon *d, struct session *s, uint64_t lease);
/* Its COMMIT made a cell of it, which has its charges. */
void fill_done(struct daemon *d, uint64_t ctx);
/* Uncharges, unmaps, closes. */
void fill_free(struct daemon *d, uint64_t ctx);
#endif
