/* SPDX-License-Identifier: Apache-2.0 */
/* What went over a lane's connections: one writer, the lane; any reader [STAT]. */
#ifndef TRANSPORTS_RDMA_TALLY_H
#define TRANSPORTS_RDMA_TALLY_H

#include <stdbool.h>
#include <stdint.h>

#include "include/priv/order.h"

#define TALLY_WINDOW_NS 100000000ull /* bandwidth is of windows in which the lane was busy for so long */

struct tally {
  uint64_t ops[2], bytes[2], failed; /* [STAT] [0] read, [1] written */
  uint64_t latency_ns, bytes_per_s;  /* [STAT] running means; 0: none yet */
  uint64_t busy_ns, window_bytes;    /* of the window under way, before since_ns; and in all */
  uint64_t since_ns;                 /* the lane has xfers since, without a pause; 0: it has none */
};

static inline uint64_t tally_mean(uint64_t mean, uint64_t v)
{
  return !mean ? v : v > mean ? mean + (v - mean) / 8 : mean - (mean - v) / 8;
}

/* An xfer is taken. */
static inline void tally_begin(struct tally *t, uint64_t now_ns)
{
  if (!t->since_ns)
    t->since_ns = now_ns;
}

/* One has ended. last: the lane has none any more. */
static inline void tally_end(struct tally *t, bool write, bool good, uint64_t bytes, uint64_t begun_ns, uint64_t now_ns,
                             bool last)
{
  if (good) {
    stat_add(&t->ops[write], 1);
    stat_add(&t->bytes[write], bytes);
    stat_set(&t->latency_ns, tally_mean(t->latency_ns, now_ns - begun_ns));
    t->window_bytes += bytes;
  } else {
    stat_add(&t->failed, 1);
  }
  uint64_t busy = t->busy_ns + (now_ns - t->since_ns);
  if (busy >= TALLY_WINDOW_NS) {
    stat_set(&t->bytes_per_s, tally_mean(t->bytes_per_s, (uint64_t)((double)t->window_bytes * 1e9 / (double)busy)));
    t->window_bytes = t->busy_ns = 0;
    t->since_ns = now_ns;
  }
  if (last) {
    t->busy_ns += now_ns - t->since_ns;
    t->since_ns = 0;
  }
}
#endif
