/* SPDX-License-Identifier: Apache-2.0 */
/* Copies memory the way its size and its next reader ask for. */
#ifndef BASE_COPY_H
#define BASE_COPY_H

#include <stddef.h>
#include <stdint.h>

enum copy_flag {
  COPY_READ_SOON = 1 << 0, /* a CPU reads the destination next: keep it in cache */
  COPY_UNFENCED = 1 << 1,  /* one of many pieces: the caller fences once, after the last */
};

/* Where one way of copying overtakes the other; measured by calibration later. */
struct copy_plan {
  size_t stream_min; /* shorter: cached. A fence and the head and tail cost more than is saved */
  size_t soon_max;   /* READ_SOON longer than this: it would not stay in the cache anyway */
};
extern const struct copy_plan copy_plan_default;

/* Cached copy, and non-temporal copy (fenced). The regions do not overlap. */
void copy_cached(void *dst, const void *src, size_t n);
void copy_stream(void *dst, const void *src, size_t n, const void *next);

/* Non-temporal is what the plan says for n bytes with these flags (and the CPU can). */
int copy_streams(const struct copy_plan *plan, size_t n, unsigned flags);

/* Copies by the default plan; returns what was done, DRAY_PATH_CPU or DRAY_PATH_CPU_NT. */
uint8_t copy_run(void *dst, const void *src, size_t n, unsigned flags);

/* Zeroes n bytes, non-temporal and fenced. */
void copy_zero(void *dst, size_t n);
#endif
