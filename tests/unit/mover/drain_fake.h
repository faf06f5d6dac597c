/* SPDX-License-Identifier: Apache-2.0 */
/* Three tiers of memory in a mover that is nothing but a store and a keeper's ear: what a drain does there. The structs
   are C. */
#ifndef TESTS_UNIT_MOVER_DRAIN_FAKE_H
#define TESTS_UNIT_MOVER_DRAIN_FAKE_H

#include <stdbool.h>
#include <stdint.h>

#define FAKE_POOLS 3u

struct fake_mover;
struct fake_mover *fake_mover_new(void);
void fake_mover_free(struct fake_mover *f);

/* As a new worker: what the one before it had begun, a bit each. */
void fake_drain_again(struct fake_mover *f, uint32_t due);
int fake_drain_begin(struct fake_mover *f, uint32_t pool);
/* pthread_create fails from now on. */
void fake_no_threads(struct fake_mover *f, bool none);
/* enum drain_state. */
unsigned fake_state(struct fake_mover *f, uint32_t pool);
/* What a put there is answered with. */
unsigned fake_put_reason(struct fake_mover *f, uint32_t pool);
/* A cell there, pinned by a lease until fake_lease_end(). */
void fake_lease(struct fake_mover *f, uint32_t pool);
void fake_lease_end(struct fake_mover *f);
/* The device of that pool is let go of with this result. */
void fake_detach_says(struct fake_mover *f, uint32_t pool, int error);
bool fake_detached(struct fake_mover *f, uint32_t pool);
/* The control thread's loop, until n devices were asked to be let go of (10 s at most). Whether they were. */
bool fake_loop(struct fake_mover *f, uint32_t n);
/* Pools that the keeper holds to be drained, by its own books. */
uint32_t fake_keeper_due(struct fake_mover *f);

/* A cell of `bytes` goes from pool 1 to pool 2, whose device is slow: each piece is there at the `after`-th look. */
struct fake_looks {
  bool moved;
  uint32_t pieces, looks; /* looks: polls while a piece was under way */
  uint32_t undozed;       /* of these, without a doze before */
  uint32_t idle;          /* polls after the end of a piece */
};
struct fake_looks fake_move(struct fake_mover *f, uint64_t bytes, uint32_t after);
#endif
