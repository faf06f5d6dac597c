/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/hist.h"

#include "include/priv/bits.h"

/* Values below 2*HIST_SUB have a bucket each; above, each power of two is cut in HIST_SUB. */
static uint32_t bucket_of(uint64_t v)
{
  if (v < HIST_SUB)
    return (uint32_t)v;
  unsigned shift = 63u - (unsigned)__builtin_clzll(v) - 6u;
  return (uint32_t)((shift + 1) * HIST_SUB + ((v >> shift) - HIST_SUB));
}

static uint64_t value_of(uint32_t bucket)
{
  if (bucket < HIST_SUB)
    return bucket;
  unsigned shift = bucket / HIST_SUB - 1;
  uint64_t low = (uint64_t)(HIST_SUB + bucket % HIST_SUB) << shift;
  return low + ((1ull << shift) - 1) / 2;
}

void hist_add(struct hist *h, uint64_t v)
{
  h->count[MIN_OF(bucket_of(v), HIST_BUCKETS - 1)]++;
  h->n++;
  h->max = MAX_OF(h->max, v);
}

void hist_merge(struct hist *to, const struct hist *from)
{
  for (uint32_t i = 0; i < HIST_BUCKETS; i++)
    to->count[i] += from->count[i];
  to->n += from->n;
  to->max = MAX_OF(to->max, from->max);
}

uint64_t hist_quantile(const struct hist *h, double q)
{
  uint64_t want = (uint64_t)(q * (double)h->n), at = 0;
  if (h->n == 0)
    return 0;
  for (uint32_t i = 0; i < HIST_BUCKETS; i++) {
    at += h->count[i];
    if (at > want || at == h->n)
      return MIN_OF(value_of(i), h->max);
  }
  return h->max;
}
