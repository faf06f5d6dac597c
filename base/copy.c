/* SPDX-License-Identifier: Apache-2.0 */
#include "base/copy.h"

#include <string.h>

#include <dray/types.h>

#include "base/stream.h"
#include "include/priv/bits.h"
#include "include/priv/order.h"

/* 4 KiB: measured, cold scattered blocks gain from 4 KiB on (a cached store reads the line first, a
   third of the traffic). 4 MiB: what one core can hope to keep of a shared last-level cache. */
const struct copy_plan copy_plan_default = {.stream_min = KIB(4),
                                            .hot_stream_min = COPY_NEVER,
                                            .movsb_min = COPY_NEVER,
                                            .soon_max = MIB(4),
                                            .hot_bytes = KIB(256),
                                            .small = COPY_BY_VECTOR};

const char *copy_plan_wrong(const struct copy_plan *p)
{
  if (p->stream_min > COPY_NEVER)
    return "stream_min_bytes must be at most 2^40";
  if (p->hot_stream_min > COPY_NEVER)
    return "hot_stream_min_bytes must be at most 2^40";
  if (p->movsb_min > COPY_NEVER)
    return "movsb_min_bytes must be at most 2^40";
  if (p->soon_max > COPY_NEVER)
    return "soon_max_bytes must be at most 2^40";
  if (p->hot_bytes > GIB(1))
    return "hot_bytes must be at most 1 GiB: no core has a larger cache of its own";
  if (p->cold_mbps > 1000000)
    return "cold_mbps must be at most 1000000";
  if (p->small != COPY_BY_MEMCPY && p->small != COPY_BY_VECTOR)
    return "small must be memcpy or vector";
  return NULL;
}

enum copy_method copy_choose(const struct copy_plan *plan, size_t n, unsigned flags)
{
  bool soon = (flags & COPY_READ_SOON) && n <= plan->soon_max;
  uint64_t stream = flags & COPY_HOT ? plan->hot_stream_min : plan->stream_min;
  if (!soon && n >= stream && stream_available())
    return COPY_BY_STREAM;
  if (flags & COPY_FRAGILE)
    return COPY_BY_VECTOR;
  return n >= plan->movsb_min ? COPY_BY_MOVSB : (enum copy_method)plan->small;
}

const char *copy_method_name(enum copy_method m)
{
  static const char *const names[] = {"?", "memcpy", "vector", "movsb", "stream"};
  return (unsigned)m < ARRAY_LEN(names) ? names[m] : "?";
}

void copy_by(enum copy_method m, void *dst, const void *src, size_t n, const void *next)
{
  switch (m) {
  case COPY_BY_STREAM:
    stream_copy(dst, src, n, next);
    return;
  case COPY_BY_MOVSB:
    stream_copy_movsb(dst, src, n);
    return;
  case COPY_BY_VECTOR:
    stream_copy_cached(dst, src, n);
    return;
  default:
    memcpy(dst, src, n);
  }
}

uint8_t copy_run(const struct copy_plan *plan, void *dst, const void *src, size_t n, const void *next, unsigned flags)
{
  enum copy_method m = copy_choose(plan, n, flags);
  copy_by(m, dst, src, n, next);
  if (m != COPY_BY_STREAM)
    return DRAY_PATH_CPU;
  if (!(flags & COPY_UNFENCED))
    stream_fence();
  return DRAY_PATH_CPU_NT;
}

void copy_zero(void *dst, size_t n)
{
  stream_zero(dst, n);
  stream_fence();
}
