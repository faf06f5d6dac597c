/* SPDX-License-Identifier: Apache-2.0 */
/* Memfds that cross the border: how ours are made and sealed, and what an engine's must be. */
#ifndef RING_REGION_H
#define RING_REGION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "include/priv/err.h"

/* A memfd of that size, close-on-exec, not executable where the kernel knows how; not sealed yet. fd or -errno. */
int region_make(const char *name, uint64_t size, bool huge);
/* No shrinking, no growing, no more seals; with read_only also no new writable mapping and mode 0400, so that neither
   the engine nor another uid that reopens it can write. Map it read-write first. 0 or -errno. */
int region_seal(int fd, bool read_only);
/* An engine's memory may be lent to us only when its size cannot change under us: -EINVAL when fd is no memfd (FUSE and
   NFS pages could block us for ever), -EPERM without F_SEAL_SHRINK, -EMSGSIZE when it is not `size` bytes or empty. */
int region_check(int fd, uint64_t size, struct err *e);
/* Shared mapping, pages present from the start when populate. Address or NULL with errno. */
void *region_map(int fd, uint64_t off, uint64_t size, bool write, bool populate);
#endif
