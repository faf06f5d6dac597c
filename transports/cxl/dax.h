/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says of a device-dax node. The node itself tells nothing: stat size 0, lseek 0. */
#ifndef TRANSPORTS_CXL_DAX_H
#define TRANSPORTS_CXL_DAX_H

#include <stdint.h>
#include <sys/stat.h>

#include "include/priv/err.h"

struct dax_info {
  char name[32];   /* dax0.0 */
  char driver[32]; /* device_dax, kmem, or "" */
  uint64_t size, align;
  int32_t target_node; /* -1: not known */
};

/* Looks at the device of a char node, with libdaxctl where built with it, else in sysfs.
   0, or -ENODEV (no dax device), -errno. */
int dax_lookup(const struct stat *st, struct err *e, struct dax_info *ret_info);

/* The same from one sysfs device directory (tests bring their own). */
int dax_read_sysfs(const char *dir, struct err *e, struct dax_info *ret_info);

/* 0 when a mover can use it; otherwise -ENODEV or -EINVAL with the command that mends it. */
int dax_usable(const struct dax_info *i, struct err *e);
#endif
