/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory side of a directive: bytes of one KV block, contiguous or scattered by a layout, in memory of the mover's
 * own address space. Made and checked once against its region; afterwards only cut.
 */
#ifndef MOVER_SPAN_H
#define MOVER_SPAN_H

#include <stdint.h>

#include <dray/ring_abi.h>

#include "transports/xfer.h"

struct span {
  char *base;          /* first byte of segment 0 */
  uint64_t len;        /* bytes in all */
  uint64_t seg_stride; /* contiguous: 0 */
  uint64_t seg_bytes;  /* contiguous: len */
};

/* A contiguous piece. */
static inline struct span span_flat(void *base, uint64_t len)
{
  struct span s = {(char *)base, len, 0, len};
  return s;
}
/* region[off, off+len), or with a layout the first len bytes of block `off`. enum dray_reason: OK, OUT_OF_RANGE,
   TOO_LARGE (more than a block), ZERO_LENGTH. */
unsigned span_make(void *region, uint64_t region_size, const struct dray_layout *layout, uint64_t off, uint64_t len,
                   struct span *ret_span);
/* What can be said of a layout alone: OK or BAD_LAYOUT. */
unsigned span_layout_check(const struct dray_layout *layout);
/* The pieces of [from, from+bytes) of the span, at most max: returns how many, *ret_bytes is what they cover (<=
 * bytes). */
uint32_t span_cut(const struct span *s, uint64_t from, uint64_t bytes, struct xfer_vec *ret_vec, uint32_t max,
                  uint64_t *ret_bytes);
/* Where byte `at` of the span lies; at < len. */
static inline const void *span_at(const struct span *s, uint64_t at)
{
  return s->base + at / s->seg_bytes * s->seg_stride + at % s->seg_bytes;
}
/* Do the two touch a common byte? */
int span_overlap(const struct span *a, const struct span *b);
/* CRC32C over [0, len), under the SIGBUS guard; -EFAULT when a page is gone or bad, ret_hit (may be NULL) says which.
 */
struct guard_hit;
int span_crc(const struct span *s, uint64_t len, uint32_t *ret_crc, struct guard_hit *ret_hit);
#endif
