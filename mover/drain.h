/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Empties a tier so that its device can be reconfigured or taken out. From the start on nothing new goes there; its
 * cells go down the ladder, or away where nothing takes them; what is leased stays until its lease ends. When the last
 * slab is gone the worker and the keeper let go of the device: mapping, fds, lock. The kernel would not wait for that.
 *
 * A thread of its own with a queue of its own into every transport (the lane after the last); it ends with the work,
 * or when the mover stops. The keeper remembers a drain until the device is let go of: when the worker dies in the
 * middle of one, or a device was not let go of, the next worker begins it again before it serves anybody, and counts
 * anew. Several, one after the other; all their tiers are closed from the start.
 */
#ifndef MOVER_DRAIN_H
#define MOVER_DRAIN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "mover/store/store.h"

struct daemon;

enum drain_state { DRAIN_NONE = 0, DRAIN_RUNS = 1, DRAIN_DONE = 2, DRAIN_FAILED = 3 };

/* The keeper's books, a bit for each pool. */
struct drain_set {
  uint32_t due;  /* begun, and its device not let go of */
  uint32_t gone; /* let go of, for good: a drain that is told late changes nothing */
};
/* An id that is no pool's is passed over. */
static inline void drain_set_begin(struct drain_set *s, uint32_t pool)
{
  if (pool < STORE_POOLS_MAX)
    s->due |= (1u << pool) & ~s->gone;
}
static inline void drain_set_end(struct drain_set *s, uint32_t pool)
{
  if (pool >= STORE_POOLS_MAX)
    return;
  s->gone |= 1u << pool;
  s->due &= ~(1u << pool);
}

struct control_msg;
struct drain {
  struct daemon *d;
  uint32_t pool;
  uint32_t due;             /* control thread: pools that are closed and wait for their turn, a bit each */
  struct control_msg *over; /* what the thread says at its end */
  pthread_t thread;
  bool started;
  uint32_t stop;           /* [STOP] */
  uint32_t state;          /* enum drain_state, [STATE] */
  int32_t error;           /* of DRAIN_FAILED, before the state */
  uint64_t moved, dropped; /* [STAT] cells */
};

/* Control thread. Begins; a drain that runs, waits or is over goes on being what it is. 0; -ENOTSUP: nothing of that
   tier could be taken away; -EBUSY: another tier's drain runs; -EAGAIN: no thread or no memory, and nothing has begun.
 */
int drain_begin(struct daemon *d, uint32_t pool);
/* In a new worker, before anybody is served: what the one before it had begun. */
void drain_again(struct daemon *d);
/* Control thread: the next that waits, unless one runs. Called at the end of each. */
void drain_next(struct daemon *d);
/* Control thread. How far the pool's is, in this worker. */
enum drain_state drain_state_of(const struct daemon *d, uint32_t pool);
/* Ends the thread, wherever it is; cells are not torn by it. */
void drain_stop(struct daemon *d);
/* One cell down to the first tier below that takes it; its pinned copy in pool is from. False: it stays. Not a lane. */
bool drain_move_down(struct daemon *d, uint32_t pool, const struct cell_facts *f, struct slot_ref from,
                     const uint32_t *stop);
/* A lane tells its sessions: notice TIER_STATE. */
struct lane;
struct lane_msg;
void drain_tell(struct lane *l, const struct lane_msg *m);
const char *drain_state_name(uint32_t state);
#endif
