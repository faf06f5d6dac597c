/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which units of a device are free: first fit, coalescing. Not locked. Sizes and offsets are in units.
 *
 * A barrier (0: none) cuts the space every so many units; no extent crosses a cut (the end of a segment file).
 */
#ifndef TRANSPORTS_EXTENT_H
#define TRANSPORTS_EXTENT_H

#include <stdbool.h>
#include <stdint.h>

struct extent {
  uint64_t off, len;
};

struct extent_map {
  struct extent *free; /* sorted, apart from each other (or by a cut) */
  uint32_t n, room;
  uint32_t taken; /* extents alive: bounds how many free ones giving them back can make */
  uint32_t cuts;
  uint64_t units, barrier, used;
};

/* All free. 0, -EINVAL, -ENOMEM. */
int extent_map_init(struct extent_map *m, uint64_t units, uint64_t barrier);
void extent_map_deinit(struct extent_map *m);
/* All free again; keeps its memory. */
void extent_map_reset(struct extent_map *m);

/* The lowest len units that are free in one piece. 0, -EINVAL (0, or longer than the barrier), -ENOSPC, -ENOMEM. */
int extent_alloc(struct extent_map *m, uint64_t len, uint64_t *ret_off);
/* These units, exactly. 0, -EINVAL (outside, across a cut), -EBUSY (not all free), -ENOMEM. */
int extent_reserve(struct extent_map *m, uint64_t off, uint64_t len);
/* Gives back what alloc or reserve gave, whole. Never fails; false when it was not taken (and nothing is done). */
bool extent_free(struct extent_map *m, uint64_t off, uint64_t len);
#endif
