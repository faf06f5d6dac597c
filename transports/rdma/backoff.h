/* SPDX-License-Identifier: Apache-2.0 */
/* When to try again: twice as long after each failure, up to a limit, and never all at the same moment. */
#ifndef TRANSPORTS_RDMA_BACKOFF_H
#define TRANSPORTS_RDMA_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

#define BACKOFF_FIRST_MS 50u
#define BACKOFF_LAST_MS 1000u

struct backoff {
  uint32_t failures;
  uint64_t at_ns; /* not before */
};

static inline bool backoff_due(const struct backoff *b, uint64_t now_ns)
{
  return now_ns >= b->at_ns;
}
static inline void backoff_reset(struct backoff *b)
{
  *b = (struct backoff){0, 0};
}
/* One more failure; salt: any number of the caller's, it spreads the next attempts over half of the wait. */
static inline void backoff_fail(struct backoff *b, uint64_t now_ns, uint64_t salt)
{
  uint64_t ms = BACKOFF_FIRST_MS;
  for (uint32_t i = 0; i < b->failures && ms < BACKOFF_LAST_MS; i++)
    ms *= 2;
  if (ms > BACKOFF_LAST_MS)
    ms = BACKOFF_LAST_MS;
  salt = (salt + b->failures) * 0x9e3779b97f4a7c15ull;
  b->at_ns = now_ns + ms * 500000u + (salt >> 40) % (ms * 500000u);
  if (b->failures < UINT32_MAX)
    b->failures++;
}
#endif
