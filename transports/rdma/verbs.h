/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine's verbs devices, and memory registered with them. All devices are opened once, in the worker, when its
 * sandbox has closed (the kernel refuses descriptors of before: its credentials are others then); every connection of
 * the process uses the same contexts and one protection domain per device.
 */
#ifndef TRANSPORTS_RDMA_VERBS_H
#define TRANSPORTS_RDMA_VERBS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "include/priv/bits.h"
#include "include/priv/err.h"
#include "transports/rdma/wire.h"

struct verbs_dev {
  struct ibv_context *ctx;
  struct ibv_pd *pd;
  struct ibv_pd
      *talk; /* of control connections, which reach nothing else: whoever dials has one before it has shown a key */
  struct ibv_cq *idle; /* for queue pairs that only the other side uses */
  uint64_t max_mr;     /* bytes of one registration, a multiple of a page */
  uint32_t max_wr, max_cqe, max_sge;
  uint32_t max_sge_rd; /* of an RDMA READ: never more than max_sge */
  uint8_t max_read;    /* RDMA READs at a time */
};
struct verbs {
  struct ibv_context **list;
  struct verbs_dev dev[WIRE_DEVS];
  uint32_t n;
};

/* Loads the providers' libraries: what comes later opens device nodes and sysfs only. Before the sandbox closes. */
void verbs_load(void);
/* piece_max: registrations are cut to this although the device takes more (tests); 0: the device's. 0; -ENODEV: there
   is none; -errno with a text. Nothing is left open after a failure. */
int verbs_open(struct verbs *v, uint64_t piece_max, struct err *e);
void verbs_close(struct verbs *v);
/* Index of the device of that context, -1: none of ours. */
int verbs_index(const struct verbs *v, const struct ibv_context *ctx);

/* A contiguous piece of memory registered with every device, in pieces where it is longer than one may be. */
struct verbs_mem {
  char *base;
  uint64_t bytes, piece;
  uint32_t pieces, devs;
  struct ibv_mr **mr; /* [piece * devs + dev] */
};
/* access: ibv_access_flags. 0; -EINVAL (empty), -ENOMEM: locked memory is short, and the text says need, have and the
   knob; -errno. */
int verbs_mem_reg(const struct verbs *v, void *base, uint64_t bytes, int access, struct verbs_mem *ret_mem,
                  struct err *e);
/* The same, a piece of at most piece_max bytes at a time: nothing is registered after begin, one piece more after each
   step. step: 1: there is more; 0: all is; -errno as above, and nothing is left. */
int verbs_mem_begin(const struct verbs *v, void *base, uint64_t bytes, uint64_t piece_max, struct verbs_mem *ret_mem,
                    struct err *e);
int verbs_mem_step(const struct verbs *v, struct verbs_mem *m, int access, struct err *e);
/* When it returns no peer reaches the memory any more. */
void verbs_mem_dereg(struct verbs_mem *m);
/* The pieces of [off, off+len) as the other side names them; 0: more than max. */
uint32_t verbs_mem_segs(const struct verbs_mem *m, uint64_t off, uint64_t len, struct wire_seg *ret_seg, uint32_t max);
/* For a work request of ours on [off, off+len), which lies in one piece. */
static inline struct ibv_sge verbs_mem_sge(const struct verbs_mem *m, uint64_t off, uint32_t len, uint32_t dev)
{
  uint64_t p = off / m->piece;
  return (struct ibv_sge){.addr = ((uintptr_t)(m->base + p * m->piece) & (PAGE_BYTES - 1)) + off % m->piece,
                          .length = len,
                          .lkey = m->mr[p * m->devs + dev]->lkey};
}
#endif
