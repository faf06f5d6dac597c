/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel already knows to be bad of a device-dax device. An empty list proves nothing. */
#ifndef TRANSPORTS_CXL_BAD_H
#define TRANSPORTS_CXL_BAD_H

#include <stdbool.h>
#include <stdint.h>

#include "include/priv/err.h"
#include "transports/extent.h"

#define DAX_BAD_MAX 1024u

/* In the device: bytes, as far as they lie in it. */
struct dax_bad {
  uint64_t off, len;
};

/* A piece of physical address space that is a piece of the device. */
#define DAX_PIECES_MAX 64u
struct dax_piece {
  uint64_t start, len, off;
};
/* Where the device of that sysfs directory lies: how many pieces, or -errno. */
int dax_pieces(const char *dir, uint64_t size, struct dax_piece ret_piece[DAX_PIECES_MAX]);
/* The part of the addresses [at, at+len) that the piece holds, as bytes of the device. False: none. */
bool dax_cut(const struct dax_piece *p, uint64_t size, uint64_t at, uint64_t len, struct dax_bad *ret_bad);

/* dir: the device's sysfs directory. Its region's `badblocks` (512-byte sectors from the region's start) becomes ranges
   of the device. How many (at most DAX_BAD_MAX are given); -ENOENT: the region keeps no list; -EACCES: the list is
   there, but the addresses to read it by are root's; -EINVAL: it is not understood. e says which file. */
int dax_bad_ranges(const char *dir, uint64_t size, struct err *e, struct dax_bad ret_bad[DAX_BAD_MAX]);
/* Several lists name the same memory: ranges that overlap become one, in the order of their places. How many are left.
 */
uint32_t dax_bad_merge(struct dax_bad *bad, uint32_t n);
/* Takes the units that these ranges lie in out of a map of free units; how many. */
uint64_t dax_bad_leave_out(struct extent_map *m, uint64_t unit, const struct dax_bad *bad, uint32_t n);
#endif
