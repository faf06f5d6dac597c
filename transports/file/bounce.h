/* SPDX-License-Identifier: Apache-2.0 */
/* Equal slots of a lane's bounce memory; the lane's thread alone takes and gives back. */
#ifndef TRANSPORTS_FILE_BOUNCE_H
#define TRANSPORTS_FILE_BOUNCE_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "include/priv/bits.h"

#define BOUNCE_SLOT_MIN KIB(64)
#define BOUNCE_SLOT_MAX MIB(1)
#define BOUNCE_NONE UINT32_MAX

struct bounce {
  uint8_t *base;
  uint64_t slot_bytes;
  uint32_t *idle, n_idle, n;
};

/* As many slots as xfers in flight, if they come out at a useful size. 0 or -ENOMEM. bytes >= BOUNCE_SLOT_MIN. */
static inline int bounce_init(struct bounce *b, void *base, uint64_t bytes, uint32_t depth)
{
  uint64_t slot = BOUNCE_SLOT_MAX;
  while (slot > BOUNCE_SLOT_MIN && bytes / slot < depth)
    slot /= 2;
  b->base = base;
  b->slot_bytes = slot;
  b->n = (uint32_t)MIN_OF(bytes / slot, depth);
  b->idle = malloc((b->n ? b->n : 1) * sizeof *b->idle);
  return b->idle ? 0 : -ENOMEM;
}
/* All slots idle. */
static inline void bounce_reset(struct bounce *b)
{
  for (b->n_idle = 0; b->n_idle < b->n; b->n_idle++)
    b->idle[b->n_idle] = b->n - 1 - b->n_idle;
}
static inline uint32_t bounce_take(struct bounce *b)
{
  return b->n_idle ? b->idle[--b->n_idle] : BOUNCE_NONE;
}
static inline void bounce_give(struct bounce *b, uint32_t slot)
{
  b->idle[b->n_idle++] = slot;
}
static inline void *bounce_at(const struct bounce *b, uint32_t slot)
{
  return slot == BOUNCE_NONE ? NULL : b->base + slot * b->slot_bytes;
}
#endif
