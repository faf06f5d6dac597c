/* SPDX-License-Identifier: Apache-2.0 */
/* Checked arithmetic, powers of two, alignment. Every number of a peer goes through these. */
#ifndef PRIV_BITS_H
#define PRIV_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define CONTAINER_OF(p, type, member) ((type *)(void *)((char *)(p)-offsetof(type, member)))
#define MIN_OF(a, b) ((a) < (b) ? (a) : (b))
#define MAX_OF(a, b) ((a) > (b) ? (a) : (b))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define CACHE_LINE 64
#define PAGE_BYTES 4096u
#define KIB(n) ((uint64_t)(n) << 10)
#define MIB(n) ((uint64_t)(n) << 20)
#define GIB(n) ((uint64_t)(n) << 30)

/* [off, off+len) lies inside [0, size), without overflow. Length 0 is the caller's business. */
static inline bool range_inside(uint64_t off, uint64_t len, uint64_t size)
{
  return off <= size && len <= size - off;
}
/* True when [a, a+alen) and [b, b+blen) share a byte; both are known not to overflow. */
static inline bool range_overlaps(uint64_t a, uint64_t alen, uint64_t b, uint64_t blen)
{
  return alen && blen && a < b + blen && b < a + alen;
}
static inline bool add_u64(uint64_t a, uint64_t b, uint64_t *ret)
{
  return !__builtin_add_overflow(a, b, ret);
}
static inline bool mul_u64(uint64_t a, uint64_t b, uint64_t *ret)
{
  return !__builtin_mul_overflow(a, b, ret);
}
static inline bool is_pow2_u64(uint64_t v)
{
  return v && !(v & (v - 1));
}
/* The smallest power of two >= v; v is in 1..2^31. */
static inline uint32_t pow2_at_least(uint32_t v)
{
  return v <= 1 ? 1 : 1u << (32 - __builtin_clz(v - 1));
}
/* v rounded up to a multiple of a (a power of two); the caller knows that it does not overflow. */
static inline uint64_t align_up(uint64_t v, uint64_t a)
{
  return (v + a - 1) & ~(a - 1);
}
static inline bool is_aligned(uint64_t v, uint64_t a)
{
  return !(v & (a - 1));
}
/* a value that no longer fits saturates: a meter must not wrap */
static inline uint32_t saturate_u32(uint64_t v)
{
  return v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
}
/* A line that will be written soon, for ourselves alone. */
static inline void prefetch_write(const void *p)
{
#ifdef __x86_64__
  __asm__ volatile("prefetchw %0" ::"m"(*(const char *)p)); /* a no-operation where it is not known */
#else
  __builtin_prefetch(p, 1);
#endif
}

#endif
