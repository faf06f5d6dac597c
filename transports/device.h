/* SPDX-License-Identifier: Apache-2.0 */
/* What a device-dax node is, for who measures it without a mover. */
#ifndef TRANSPORTS_DEVICE_H
#define TRANSPORTS_DEVICE_H

#include <stdint.h>
#include <sys/stat.h>

#include "include/priv/err.h"

struct device_facts {
  uint64_t size, align;
  uint64_t poisoned;  /* bytes that the kernel's list names */
  char bad_from[240]; /* which list that is, or why there is none: an empty list proves nothing */
};

/* 0 when a mover could use it; -ENODEV, -EINVAL with the command that mends it (system-ram mode, size 0), -errno. */
int device_facts(const struct stat *st, struct err *e, struct device_facts *ret_facts);
#endif
