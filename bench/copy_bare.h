/* SPDX-License-Identifier: Apache-2.0 */
/* Scattered blocks copied in this process: by bare loops, by CMA, and by the transports' own addr_copy. */
#ifndef BENCH_COPY_BARE_H
#define BENCH_COPY_BARE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/copy.h"
#include "transports/addressable.h"

#define BARE_BLOCK 16384u
#define BARE_STRIDE 16u /* a set takes every 16th block of the source */

/* n blocks of a source of n * BARE_STRIDE, gathered into a destination in order. */
struct bare_blocks {
  char *src, *dst;
  uint32_t n;     /* a power of two */
  uint32_t set;   /* which of the BARE_STRIDE disjoint sets */
  uint32_t *list; /* the set's blocks, shuffled: block list[i] goes to place i */
};

/* Chooses the set and shuffles it; blocks of the other sets push this one out of the caches meanwhile. */
void bare_choose(struct bare_blocks *b, uint32_t set);
/* Each returns GB/s; 0 when it could not. */
double bare_loop(const struct bare_blocks *b, enum copy_method by, uint32_t threads); /* 1 or 2 */
double bare_cma(const struct bare_blocks *b);
/* In xfers of 256 KiB (the mover's chunk), each naming the next one's first block. crc: with XFER_CRC. */
double bare_addr(const struct bare_blocks *b, const struct copy_plan *plan, struct copy_heat *heat, bool crc);
/* Every byte of the destination is the source's. */
bool bare_right(const struct bare_blocks *b);
#endif
