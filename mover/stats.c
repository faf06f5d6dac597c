/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/stats.h"

_Static_assert(sizeof(struct lane_stats) % sizeof(uint64_t) == 0, "only 64-bit counters");

void stats_add(struct lane_stats *dst, const struct lane_stats *src)
{
  uint64_t *d = (uint64_t *)dst;
  const uint64_t *s = (const uint64_t *)src;
  for (size_t i = 0; i < sizeof *dst / sizeof *d; i++)
    d[i] += stat_read(&s[i]);
}
