/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hot ops of every device that loads and stores reach: memory, cxl, and file on tmpfs. submit copies under a
 * guard and leaves a done record in the lane's ring, so nothing is ever in flight when submit has returned.
 */
#ifndef TRANSPORTS_ADDRESSABLE_H
#define TRANSPORTS_ADDRESSABLE_H

#include "transports/transport.h"
#include "transports/vec.h"

/* Done records a lane holds until poll; a power of two. */
#define ADDR_RING 64u

struct addr_lane {
  struct xfer_done done[ADDR_RING];
  uint32_t head, tail; /* free-running, both the lane's own thread's */
} __attribute__((aligned(64)));

/* Embedded first in the transport's own struct. */
struct addr_dev {
  struct dev dev;
  struct addr_lane *lane;
  uint32_t lanes;
};

/* Installs the SIGBUS guard and makes the lanes. 0, -EINVAL, -ENOMEM. */
int addr_dev_init(struct addr_dev *d, uint32_t lanes);
void addr_dev_deinit(struct addr_dev *d);
/* Start and stop of a transport that has nothing else to do then. */
int addr_dev_start(struct dev *d, struct err *e);
void addr_dev_stop(struct dev *d);

extern const struct transport_hot hot_addressable;

/* Copies bytes from one place in a list of pieces to another, under the guard and fenced. ret_done is filled but for
   cookie: OK, or FAILED with the proven prefix. */
void addr_copy(struct vec_at dst, struct vec_at src, uint64_t bytes, unsigned xfer_flags, struct xfer_done *ret_done);
#endif
