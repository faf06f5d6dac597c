/* SPDX-License-Identifier: Apache-2.0 */
/* Which of several paths takes the next piece: the least laden one that is up. Pure. */
#ifndef TRANSPORTS_RDMA_STRIPE_H
#define TRANSPORTS_RDMA_STRIPE_H

#include <stdbool.h>
#include <stdint.h>

#define STRIPE_PATHS_MAX 4u
#define STRIPE_NONE UINT32_MAX

struct stripe_path {
  bool up;
  uint32_t open, room; /* work requests that are out, and may be out at a time */
  uint64_t bytes;      /* that are out */
};

/* The path for a piece that has the choice; STRIPE_NONE: none is up, or all are full (ret_full says which). turn: rises
   with each call, so that equals take turns. */
static inline uint32_t stripe_choose(const struct stripe_path *p, uint32_t n, uint32_t turn, bool *ret_full)
{
  uint32_t best = STRIPE_NONE;
  bool full = false;
  for (uint32_t k = 0; k < n; k++) {
    uint32_t i = (turn + k) % n;
    if (!p[i].up)
      continue;
    if (p[i].open >= p[i].room) {
      full = true;
      continue;
    }
    if (best == STRIPE_NONE || p[i].bytes < p[best].bytes)
      best = i;
  }
  *ret_full = full && best == STRIPE_NONE;
  return best;
}
#endif
