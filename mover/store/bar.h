/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bad memory: what is never handed out again.
 *
 * A barred slot carries one pin more than its users gave it, for ever. Since nothing pinned is reused, no other rule is
 * needed: a free slot becomes DETACHED with that one pin, any other becomes so when its last user lets go. Rows say
 * which bytes of which slab are bad; they live in an arena that a new worker does not clear. A slab whose memory is its
 * own (a memfd) and that holds nothing but barred slots is destroyed, and the bad memory goes with it; a slab of a
 * device stays. The rows' lock is innermost, after a pool's.
 */
#ifndef MOVER_STORE_BAR_H
#define MOVER_STORE_BAR_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "mover/store/store.h"

#define BAR_ROWS 16384u
/* Rows of one tenant that rest on an engine's word alone. */
#define BAR_WORDS 256u

struct bar_head {
  uint32_t magic, rows; /* rows below were used at least once */
  uint64_t zero[7];
};
struct bars {
  pthread_mutex_t lock;
  struct bar_head *head;
  struct store_bad *row;
  uint64_t any; /* [STAT] not 0 once anything was barred */
};

struct pool;
struct doomed;

uint64_t bars_bytes(void);
/* Takes over what the last worker left. */
void bars_init(struct bars *b, void *arena);
void bars_deinit(struct bars *b);
/* Rows whose memory went with the last worker are history now. All pools are set up. */
void bars_begin(struct store *s);

/* The pool's lock is held, or nobody else knows the slab. */
bool bar_covers(struct store *s, uint32_t idx, uint32_t slot);
/* A slab on a device that had bad memory there before: bars the slots that lie on it. Cells found there are not its
   business. */
void bar_slab_made(struct store *s, struct pool *p, uint32_t idx);
/* Bars the slots of the range that are not yet; adds how many. The pool's lock is held. */
void bar_range(struct store *s, struct pool *p, uint32_t idx, uint64_t off, uint64_t len, uint32_t *ret_slots);
/* A row that does not count yet, or the live one that says it already (*ret_known). -1: no room. */
int64_t bar_row_add(struct store *s, const struct store_bad *bad, bool *ret_known);
/* A piece of a pool's device is known to be bad from before: a row that waits for the slab that comes there. */
void bar_row_found(struct store *s, const struct pool *p, uint64_t dev_off, uint64_t len, bool proven);
/* Its slots are barred: from now on it counts. */
void bar_row_live(struct store *s, int64_t row, uint32_t slots);
/* After a barred slot lost a user: a slab of its own memory that only barred slots are left in is doomed. */
void bar_settle(struct store *s, struct pool *p, uint32_t idx, struct doomed *d);
/* Barred slots that nobody uses any more. */
uint32_t bar_resting(struct store *s, uint32_t idx);
/* Do the rows and the slots of that slab agree? */
bool bar_audit(struct store *s, uint32_t idx);
/* After rebuild: slots of found slabs are barred, and their cells quarantined. No locks are held. */
void bar_found(struct store *s);
#endif
