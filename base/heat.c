/* SPDX-License-Identifier: Apache-2.0 */
#include "base/heat.h"

#define GRAIN 64u

static bool place_note(struct copy_heat *h, const void *p, uint64_t hot_bytes)
{
  uintptr_t place = (uintptr_t)p / GRAIN + 1; /* never 0 */
  uint64_t i = ((uint64_t)place * 0x9e3779b97f4a7c15ull) >> 57;
  _Static_assert(HEAT_PLACES == 1u << (64 - 57), "the table's index is the hash's top bits");
  bool hot = h->seen[i].place == place && h->clock - h->seen[i].at <= hot_bytes;
  h->seen[i].place = place;
  h->seen[i].at = h->clock;
  return hot;
}

bool copy_heat_note(struct copy_heat *h, const void *dst, const void *src, uint64_t n, uint64_t hot_bytes)
{
  /* longer than half of it: its own tail has evicted its head by the next time */
  if (n > hot_bytes / 2) {
    h->clock += 2 * n;
    return false;
  }
  bool to = place_note(h, dst, hot_bytes), from = place_note(h, src, hot_bytes);
  h->clock += 2 * n;
  return to && from;
}
