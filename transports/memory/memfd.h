/* SPDX-License-Identifier: Apache-2.0 */
/* One sealed memfd: mapped read-write here, and nobody can map it writable, resize it or unseal it after. */
#ifndef TRANSPORTS_MEMORY_MEMFD_H
#define TRANSPORTS_MEMORY_MEMFD_H

#include <stdbool.h>
#include <stdint.h>

#define MEMFD_HUGE_BYTES ((uint64_t)2 << 20)

struct memfd_plan {
  const char *name;  /* shows in /proc/<pid>/maps */
  int32_t numa_node; /* -1: none */
  bool hugetlb;      /* 2 MiB pages of the hugetlb pool, or fail */
  bool thp;          /* ask for transparent huge pages */
};

/* Makes, binds, fills in all pages, seals. 0; -ENOMEM (also: hugetlb pool empty), -EMFILE, -errno of mbind. */
int memfd_make(const struct memfd_plan *p, uint64_t bytes, int *ret_fd, void **ret_base);
#endif
