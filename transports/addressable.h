/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hot ops of every device that loads and stores reach: memory, cxl, and file on tmpfs. submit copies under a
 * guard and leaves a done record in the lane's ring; poll fences before it hands records out, so what a done record
 * speaks of is visible to everybody.
 */
#ifndef TRANSPORTS_ADDRESSABLE_H
#define TRANSPORTS_ADDRESSABLE_H

#include "base/copy.h"
#include "base/heat.h"
#include "transports/transport.h"
#include "transports/vec.h"

/* Done records a lane holds until poll; a power of two. */
#define ADDR_RING 64u

struct addr_lane {
  struct xfer_done done[ADDR_RING];
  uint32_t head, tail; /* free-running, both the lane's own thread's */
  bool unfenced;       /* non-temporal stores since the last poll: it fences once for all of them */
  struct copy_heat heat;
} __attribute__((aligned(64)));

/* Embedded first in the transport's own struct. */
struct addr_dev {
  struct dev dev;
  struct addr_lane *lane;
  uint32_t lanes;
  unsigned copy_flags; /* enum copy_flag of every copy: COPY_FRAGILE where the hardware may poison the slabs */
  struct copy_plan plan;
};

/* Installs the SIGBUS guard and makes the lanes. plan (NULL: copy_plan_default) is copied. 0, -EINVAL, -ENOMEM. */
int addr_dev_init(struct addr_dev *d, uint32_t lanes, const struct copy_plan *plan);
void addr_dev_deinit(struct addr_dev *d);
/* Start and stop of a transport that has nothing else to do then. */
int addr_dev_start(struct dev *d, struct err *e);
void addr_dev_stop(struct dev *d);

extern const struct transport_hot hot_addressable;

/* How to copy, beside what. */
struct addr_how {
  const struct copy_plan *plan;
  struct copy_heat *heat; /* the lane's, or NULL: nothing is known to be hot */
  const void *next;       /* where the copy after this one will read: a hint, or NULL */
  unsigned flags;         /* enum xfer_flag */
  unsigned copy_flags;    /* enum copy_flag */
};

/* Copies bytes from one place in a list of pieces to another, under one guard for all of them and fenced (on success
   not with COPY_UNFENCED and path CPU_NT: then the caller does). Each piece names the next one's source to the loop
   below, so that its first lines are on their way. ret_done is filled but for cookie: OK, or FAILED with the proven
   prefix. */
void addr_copy(const struct addr_how *how, struct vec_at dst, struct vec_at src, uint64_t bytes,
               struct xfer_done *ret_done);
/* The CRC32C of the next `bytes` of a list of pieces, under one guard. ret_done: OK with crc and has_crc, or FAILED. */
void addr_crc(struct vec_at at, uint64_t bytes, struct xfer_done *ret_done);
#endif
