/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One peer's thread on the asking side: connects and connects again, says who we are, keeps what was lent, asks what
 * others want asked, and hands data connections to lanes. Nobody else ever waits for the peer.
 */
#ifndef TRANSPORTS_RDMA_LINK_H
#define TRANSPORTS_RDMA_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "include/priv/list.h"
#include "transports/rdma/wire.h"

struct rdma_dev;
struct link;

enum link_status { LINK_TRYING = 1, LINK_OPEN = 2, LINK_DOWN = 3 };

/* A question, and who wants its answer. The caller's memory until done was called, once, by the link thread. */
struct link_call {
  struct list link;
  union wire_msg q; /* id and epoch are the link's to fill */
  uint64_t deadline_ns;
  /* a: NULL: there is none, and reason says why (PEER_UNREACHABLE, DEADLINE, PEER_STALE). */
  void (*done)(struct link_call *c, const union wire_msg *a, unsigned reason);
  uint64_t id, asked_ns; /* the link's */
};

int link_open(struct rdma_dev *d, struct link **ret_link);
int link_start(struct link *k);
/* Every call has been answered when it returns. */
void link_close(struct link *k);
/* Any thread, never waits. */
void link_ask(struct link *k, struct link_call *c);
void link_ring(struct link *k);
unsigned link_status(const struct link *k); /* enum link_status */
void link_paths(const struct link *k, uint32_t *ret_open, uint32_t *ret_all);
struct dev_paths;
/* What the link knows of a transport.h:dev_paths; the rest is left as it is. */
void link_tell(const struct link *k, struct dev_paths *ret_paths);
#endif
