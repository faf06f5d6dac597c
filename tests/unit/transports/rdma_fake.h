/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rdma transport's own parts on a verbs device that is none: queues in memory, completions at once, messages of
 * whatever content. Each scenario is one call, as the structs it needs are C.
 */
#ifndef TESTS_UNIT_TRANSPORTS_RDMA_FAKE_H
#define TESTS_UNIT_TRANSPORTS_RDMA_FAKE_H

#include <stdbool.h>
#include <stdint.h>

/* A peer lends `capacity` bytes, says that they are in `said` pieces, and then sends n pieces of `each` bytes at a
   time, at most `times` times. */
struct fake_lent {
  char why[80];       /* the connection was dropped for; "": it was not */
  bool in;            /* what it lends may be used */
  uint32_t pieces;    /* taken */
  uint32_t questions; /* that we sent it */
};
struct fake_lent fake_lend(uint64_t capacity, uint32_t said, uint32_t n, uint64_t each, uint32_t times);

/* A lane looks at a path whose connection was lost; seen: it had seen it up before. The word afterwards, and whether
   the link's thread was woken. */
extern const uint32_t fake_drained;
uint32_t fake_lost_path(bool seen, bool *ret_rung);

/* A connection has `questions` PINGs waiting: how many are answered in its turn, and, if it says that there is more, in
   the one after. */
struct fake_turns {
  uint32_t first, second;
  bool more; /* after the first */
};
struct fake_turns fake_busy_peer(uint32_t questions);

/* Opens a control connection: which protection domains its queue pair and its buffers are in. */
struct fake_domains {
  bool opened, own_qp, own_mr; /* apart from that of lent memory */
};
struct fake_domains fake_control(void);

void fake_name(char ret_name[64], const char *node, const char *tier, const char *peer);

/* So many xfers of that many bytes and nanoseconds, at a time so many: what the tally's means are. */
void fake_tally(uint32_t n, uint64_t bytes, uint64_t ns, uint64_t *ret_latency_ns, uint64_t *ret_bytes_per_s);
#endif
