/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of engines that the device may reach without bounce memory. The mover names it when it maps it; it is
 * registered, and so pinned, when an xfer first wants it, by the link thread: no lane waits for that, and its xfers
 * bounce meanwhile. What cannot be registered goes on bouncing.
 */
#ifndef TRANSPORTS_RDMA_REGION_H
#define TRANSPORTS_RDMA_REGION_H

#include <pthread.h>

#include "transports/rdma/verbs.h"
#include "transports/vec.h"

#define REGION_STEP_BYTES MIB(256) /* registered at a time: the link thread has peers to answer */
#define REGION_SGES 16u            /* pieces of one work request, at most */

enum region_step {
  REGMEM_KNOWN = 1,   /* named, nothing more */
  REGMEM_WANTED = 2,  /* an xfer would have liked it */
  REGMEM_BUSY = 3,    /* the link thread is at it */
  REGMEM_READY = 4,   /* mem is valid */
  REGMEM_REFUSED = 5, /* it could not be registered */
};
struct region_mem {
  char *base;
  uint64_t bytes;
  uint8_t state; /* enum region_step; under the lock */
  bool gone;     /* while BUSY: the link thread frees it */
  struct verbs_mem mem;
};
struct regions {
  pthread_mutex_t lock;
  struct region_mem **v; /* by base */
  uint32_t n, room;
  struct region_mem *busy; /* the link thread's */
  uint32_t wanted;         /* of them */
};

void regions_init(struct regions *g);
/* Nothing is in flight, and no link thread is there. All are but known again. */
void regions_deregister(struct regions *g);
/* The same, and they are forgotten. */
void regions_deinit(struct regions *g);
/* 0, -ENOMEM, -EEXIST (they overlap). */
int regions_add(struct regions *g, void *base, uint64_t bytes);
/* Nothing is in flight on it. It is pinned no more, but for one that is just being registered: soon. */
void regions_del(struct regions *g, void *base);
/* The region in which the next `bytes` of the list lie, when it is registered; it stays so as long as an xfer on it is
   in flight. NULL: bounce; *ret_wanted: the link thread has something to do now. */
const struct region_mem *regions_find(struct regions *g, struct vec_at at, uint64_t bytes, bool *ret_wanted);
/* For the link thread: registers a piece of one that is wanted. True: there may be more to do. */
bool regions_tick(struct regions *g, const struct verbs *v);

/* At most `bytes` from `at` on, as pieces for a work request on device dev; returns how many, *ret_bytes is what they
   cover. */
uint32_t region_sges(const struct region_mem *r, struct vec_at at, uint64_t bytes, uint32_t dev,
                     struct ibv_sge *ret_sge, uint32_t max, uint64_t *ret_bytes);
#endif
