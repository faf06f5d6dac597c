/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer's own cells, beside what it lends: what the mover asks it (link.h, wire.h), and the memory that an answer
 * named as a slab that xfers of the same device can read or write.
 */
#ifndef TRANSPORTS_RDMA_REMOTE_H
#define TRANSPORTS_RDMA_REMOTE_H

#include "transports/rdma/link.h"
#include "transports/transport.h"

struct lent;

/* The name that a device has at the peer. */
void remote_name(char to[WIRE_NAME_MAX], const char *node, const char *tier, const char *peer);
/* Of a started rdma device. */
struct link *remote_link(struct dev *d);
/* What the pieces of an answer that was just given are, as a slab; call it in link_call's done, before anything else
   can be answered. ret_mem->far is the caller's to give to remote_free when no xfer on it is in flight. 0, -ENOMEM. */
int remote_slab(struct dev *d, const struct wire_seg *seg, uint32_t n, uint64_t len, struct slab_mem *ret_mem);
void remote_free(struct slab_mem *mem);
#endif
