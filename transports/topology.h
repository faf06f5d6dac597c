/* SPDX-License-Identifier: Apache-2.0 */
/* The CXL memory of the machine, as libcxl has it: for people who look, not for the mover. */
#ifndef TRANSPORTS_TOPOLOGY_H
#define TRANSPORTS_TOPOLOGY_H

#include <stdint.h>

#include "include/priv/err.h"

#define TOPOLOGY_MAX 64u

struct topology_memdev {
  char name[32], host[64]; /* mem0, the PCI address */
  uint64_t persistent, temporary;
  int32_t node;
};
struct topology_region {
  char name[32], decoder[32];
  uint64_t start, size;
  uint32_t ways;
};
struct topology {
  uint32_t memdevs, regions; /* what is beyond TOPOLOGY_MAX of each is left out */
  struct topology_memdev memdev[TOPOLOGY_MAX];
  struct topology_region region[TOPOLOGY_MAX];
};

/* 0; -ENOTSUP: built without libcxl; -errno. */
int topology_read(struct topology *ret_topology);
/* Can the CXL devices' own lists of bad memory be read, as a mover does at start. 0; -ENOENT: there are none;
   -ENOTSUP, -EACCES, -errno: e says what is absent. */
int topology_poison_lists(struct err *e);
#endif
