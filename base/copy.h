/* SPDX-License-Identifier: Apache-2.0 */
/* Copies memory the way its size, its heat and its next reader ask for. */
#ifndef BASE_COPY_H
#define BASE_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 0 is no method. */
enum copy_method {
  COPY_BY_MEMCPY = 1, /* the C library's */
  COPY_BY_VECTOR = 2, /* plain loads, cached vector stores */
  COPY_BY_MOVSB = 3,  /* rep movsb: never on memory that the hardware may poison, see base/stream.h */
  COPY_BY_STREAM = 4, /* plain loads, non-temporal stores */
};

enum copy_flag {
  COPY_READ_SOON = 1 << 0, /* a CPU reads the destination next: keep it in cache */
  COPY_UNFENCED = 1 << 1,  /* one of many pieces: the caller fences once, after the last */
  COPY_HOT = 1 << 2,       /* both sides are likely in this core's cache already (base/heat.h) */
  COPY_FRAGILE = 1 << 3,   /* either side may be poisoned by hardware: neither movsb nor memcpy (which may use it) */
};

/* A crossover that is never reached. */
#define COPY_NEVER ((uint64_t)1 << 40)

/* Where one way of copying overtakes the other on this machine. Sizes are bytes, at most COPY_NEVER. */
struct copy_plan {
  uint64_t stream_min;     /* cold: shorter is cached. A fence and partial lines cost more than is saved */
  uint64_t hot_stream_min; /* hot: shorter is cached */
  uint64_t movsb_min;      /* cached copies: shorter by `small`, others by rep movsb */
  uint64_t soon_max;       /* READ_SOON longer than this would not stay in the cache anyway */
  uint64_t hot_bytes;      /* what a lane may have touched since and still find memory in its own cache */
  uint32_t cold_mbps;      /* MB/s of one thread on cold 16 KiB blocks; 0: not measured */
  uint8_t small;           /* COPY_BY_MEMCPY or COPY_BY_VECTOR */
};
/* For a machine that nobody measured. Never movsb: right for any memory. */
extern const struct copy_plan copy_plan_default;

/* NULL, or what is wrong with it ("soon_max_bytes must be at most 1 TiB"). */
const char *copy_plan_wrong(const struct copy_plan *plan);

/* What the plan says for n bytes with these flags, on this CPU. */
enum copy_method copy_choose(const struct copy_plan *plan, size_t n, unsigned flags);
const char *copy_method_name(enum copy_method m);

/* Copies by that method, unfenced. next: where the following copy will read (a hint, may be NULL, never touched).
   The regions do not overlap. */
void copy_by(enum copy_method m, void *dst, const void *src, size_t n, const void *next);

/* Copies by the plan; returns what was done, DRAY_PATH_CPU or DRAY_PATH_CPU_NT. */
uint8_t copy_run(const struct copy_plan *plan, void *dst, const void *src, size_t n, const void *next, unsigned flags);

/* Zeroes n bytes, non-temporal and fenced. */
void copy_zero(void *dst, size_t n);
#endif
