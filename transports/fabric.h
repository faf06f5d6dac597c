/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs devices of the machine: for people who look, not for the mover. */
#ifndef TRANSPORTS_FABRIC_H
#define TRANSPORTS_FABRIC_H

#include <stdbool.h>
#include <stdint.h>

#define FABRIC_MAX 16u

struct fabric_dev {
  char name[32], state[32]; /* rxe0; "PORT_ACTIVE", of its first port */
  bool active;
  uint64_t max_mr_size;
  uint32_t max_qp, max_qp_wr, max_cqe;
};
struct fabric {
  uint32_t n; /* what is beyond FABRIC_MAX is left out */
  struct fabric_dev dev[FABRIC_MAX];
  bool connects; /* /dev/infiniband/rdma_cm is there and ours to open */
};

/* 0; -ENOTSUP: built without RDMA; -errno. */
int fabric_read(struct fabric *ret_fabric);
#endif
