/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleeping and waking. Both sides raise a flag, fence, look again and only then sleep; both sides publish, fence and
 * only then look at the flag. Each fence alone loses wake-ups (measured, facts ring.md 2.3), so both are here.
 *
 *   engine -> mover: M.need_wakeup, an eventfd that the mover watches edge-triggered and never reads (its O_NONBLOCK
 *                    belongs to the engine too, so a read could be made to block for ever)
 *   mover -> engine: U.sleep, FUTEX_WAKE on M.cq_prod (a word the engine cannot write), or one byte on a socketpair
 */
#ifndef RING_DOORBELL_H
#define RING_DOORBELL_H

#include <stdbool.h>
#include <stdint.h>

#include "include/priv/order.h"

/* Engine, after publishing sq_prod: must the doorbell be rung? [BELL] */
static inline bool doorbell_needed(const uint32_t *need_wakeup)
{
  wake_fence();
  return flag_read(need_wakeup) != 0;
}
/* Rings: one write of 1, never blocking. A saturated counter means that the mover is already notified. */
void doorbell_ring(int eventfd);
/* Mover, after publishing cq_prod: who sleeps where (enum dray_sleep)? [BELL] */
static inline uint32_t doorbell_sleeper(const uint32_t *sleep_word)
{
  wake_fence();
  return flag_read(sleep_word);
}
/* Wakes an engine that sleeps on the futex. */
void doorbell_wake(const uint32_t *cq_prod);
/* Wakes one that sleeps in its event loop; a full socket counts as awake. */
void doorbell_poke(int sock);
/* Sleeps while *word == seen, at most timeout_ns. 0, -EAGAIN (changed), -ETIMEDOUT, -EINTR. */
int doorbell_sleep(const uint32_t *word, uint32_t seen, uint64_t timeout_ns);
#endif
