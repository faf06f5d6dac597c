/* SPDX-License-Identifier: Apache-2.0 */
#include "base/flush.h"

#include <stdint.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "include/priv/bits.h"
#include "include/priv/order.h"

#ifdef __x86_64__
enum flush_by flush_probe(void)
{
  unsigned a, b, c, d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
    return FLUSH_CLFLUSH; /* every x86-64 has it */
  return b & 1u << 24 ? FLUSH_CLWB : b & 1u << 23 ? FLUSH_CLFLUSHOPT : FLUSH_CLFLUSH;
}

static inline void line_opt(const char *p)
{
  __asm__ volatile("clflushopt %0" : : "m"(*p) : "memory");
}

void flush_back(enum flush_by by, const void *p, size_t n)
{
  const char *end = (const char *)p + n;
  for (const char *at = (const char *)((uintptr_t)p & ~(uintptr_t)(CACHE_LINE - 1)); n && at < end; at += CACHE_LINE) {
    if (by == FLUSH_CLWB)
      __asm__ volatile("clwb %0" : : "m"(*at) : "memory");
    else if (by == FLUSH_CLFLUSHOPT)
      line_opt(at);
    else
      __asm__ volatile("clflush %0" : : "m"(*at) : "memory");
  }
  stream_fence();
}

void flush_drop(enum flush_by by, const void *p, size_t n)
{
  const char *end = (const char *)p + n;
  sleep_fence(); /* loads and stores before are done with the lines */
  for (const char *at = (const char *)((uintptr_t)p & ~(uintptr_t)(CACHE_LINE - 1)); n && at < end; at += CACHE_LINE) {
    if (by == FLUSH_CLFLUSH)
      __asm__ volatile("clflush %0" : : "m"(*at) : "memory");
    else
      line_opt(at);
  }
  flush_fence();
}
#else
enum flush_by flush_probe(void)
{
  return FLUSH_NONE;
}
void flush_back(enum flush_by by, const void *p, size_t n)
{
  (void)by, (void)p, (void)n;
  stream_fence();
}
void flush_drop(enum flush_by by, const void *p, size_t n)
{
  (void)by, (void)p, (void)n;
  flush_fence();
}
#endif
