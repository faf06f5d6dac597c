/* SPDX-License-Identifier: Apache-2.0 */
#include "base/copy.h"

#include <dray/types.h>

#include "base/stream.h"
#include "include/priv/bits.h"
#include "include/priv/order.h"

/* 4 KiB: measured, cold scattered blocks gain from 4 KiB on (a cached store reads the line first, a
   third of the traffic). 4 MiB: what one core can hope to keep of a shared last-level cache. */
const struct copy_plan copy_plan_default = {.stream_min = KIB(4), .soon_max = MIB(4)};

void copy_cached(void *dst, const void *src, size_t n)
{
  stream_copy_cached(dst, src, n);
}

void copy_stream(void *dst, const void *src, size_t n, const void *next)
{
  stream_copy(dst, src, n, next);
  stream_fence();
}

int copy_streams(const struct copy_plan *plan, size_t n, unsigned flags)
{
  if (n < plan->stream_min || !stream_available())
    return 0;
  return !(flags & COPY_READ_SOON) || n > plan->soon_max;
}

uint8_t copy_run(void *dst, const void *src, size_t n, unsigned flags)
{
  if (!copy_streams(&copy_plan_default, n, flags)) {
    stream_copy_cached(dst, src, n);
    return DRAY_PATH_CPU;
  }
  stream_copy(dst, src, n, NULL);
  if (!(flags & COPY_UNFENCED))
    stream_fence();
  return DRAY_PATH_CPU_NT;
}

void copy_zero(void *dst, size_t n)
{
  stream_zero(dst, n);
  stream_fence();
}
