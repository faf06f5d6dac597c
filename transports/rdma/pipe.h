/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control connection's queue pair with its buffers: whole messages in, whole messages out. For one thread. Both
 * sides use it; what the messages mean is not its business.
 */
#ifndef TRANSPORTS_RDMA_PIPE_H
#define TRANSPORTS_RDMA_PIPE_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "transports/rdma/verbs.h"

#define PIPE_SLOTS (WIRE_WINDOW + 2)

struct pipe {
  struct rdma_cm_id *id; /* has our queue pair; NULL: closed */
  struct ibv_comp_channel *channel;
  struct ibv_cq *cq;
  struct ibv_mr *mr;
  uint8_t *buf; /* 2 * PIPE_SLOTS messages: out, in */
  uint32_t out; /* a bit per message on its way out */
  unsigned events;
};

/* Makes queue pair and buffers for an id with a device, and posts the receives. 0 or -errno with a text; the id stays
   the caller's then. */
int pipe_open(struct pipe *p, const struct verbs *v, struct rdma_cm_id *id, struct err *e);
/* Destroys queue pair and id. A closed one is fine. */
void pipe_close(struct pipe *p);
/* 0; -EAGAIN: all buffers are on their way; -EIO. */
int pipe_send(struct pipe *p, const union wire_msg *m);
/* The next message that came; it stays where it is until pipe_done. 1; 0: none now, and the channel's fd will say when;
   -EIO: the connection is broken. */
int pipe_recv(struct pipe *p, const void **ret_msg, uint32_t *ret_bytes, uint32_t *ret_slot);
int pipe_done(struct pipe *p, uint32_t slot);
#endif
