/* SPDX-License-Identifier: Apache-2.0 */
/* Latencies in buckets a 64th wide: quantiles to 1.6 % whatever the range, and two can be added. Plain memory, to be
 * shared. */
#ifndef BENCH_HIST_H
#define BENCH_HIST_H

#include <stdint.h>

#define HIST_SUB 64u
#define HIST_BUCKETS (HIST_SUB * 59u)

struct hist {
  uint64_t n, max;
  uint64_t count[HIST_BUCKETS];
};
void hist_add(struct hist *h, uint64_t v);
void hist_merge(struct hist *to, const struct hist *from);
/* q in 0..1; 0 when empty. */
uint64_t hist_quantile(const struct hist *h, double q);
#endif
