/* SPDX-License-Identifier: Apache-2.0 */
/* A lane of the rdma transport on the device in memory of rdma_fake.h: what it posts, and how its parts end. */
#ifndef TESTS_UNIT_TRANSPORTS_RDMA_FAKE_LANE_H
#define TESTS_UNIT_TRANSPORTS_RDMA_FAKE_LANE_H

#include <stdbool.h>
#include <stdint.h>

/* A device that takes `sge` pieces in a work request and `sge_rd` in a READ; four pieces of `each` bytes lie apart in
   registered memory. */
struct fake_pieces {
  uint32_t posts;   /* work requests for all of them */
  uint32_t largest; /* pieces of one */
  bool ok;          /* all were taken, and it ended well */
};
struct fake_pieces fake_gather(int sge, int sge_rd, bool write, uint32_t each);

/* One transfer waits for its answer, while others on its connection have a deadline that is over (late), or are such
   that no connection takes them; `times` of them, each after the connection has come back. */
struct fake_end {
  bool ended;
  uint32_t status, reason; /* enum xfer_status, enum dray_reason */
  int32_t err;
  uint32_t posts; /* attempts to post it */
};
struct fake_among {
  struct fake_end innocent, last; /* last: of the others */
  uint32_t made;                  /* connections that were needed after the first */
};
struct fake_among fake_late_others(uint32_t times);
struct fake_among fake_refused_others(uint32_t times);
/* It waits, and its connection breaks `times` times. */
struct fake_end fake_broken(uint32_t times);
#endif
