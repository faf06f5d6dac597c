/* SPDX-License-Identifier: Apache-2.0 */
/* What a piece of memory gives by load and store alone: bandwidth of some threads, latency of loads that wait for each
 * other. */
#ifndef BENCH_TOUCH_H
#define BENCH_TOUCH_H

#include <stdint.h>

#include "base/guard.h"
#include "bench/hist.h"

#define TOUCH_THREADS_MAX 256u

/* 0 is nothing. */
enum touch_rw { TOUCH_READ = 1, TOUCH_WRITE = 2, TOUCH_COPY = 3 };

struct touch {
  char *base;
  uint64_t bytes; /* a multiple of 2 * block * threads: each thread has a part of its own */
  uint64_t block; /* taken at a time, in order; a multiple of 64 */
  uint32_t threads;
  enum touch_rw rw; /* copy: from the first half of a part to its second */
  uint32_t ms;
  /* read: what the bytes of each part add up to (touch_sums); a pass that adds up to something else is `wrong` */
  uint64_t sum[TOUCH_THREADS_MAX];
};
struct touch_result {
  double gbps; /* decimal GB/s of all threads together; copied bytes count once */
  uint64_t wrong;
  struct guard_hit hit; /* -EFAULT: where */
};

/* Reads everything once for touch.sum, untimed. 0; -EFAULT: bad memory (guard_install() was called before). */
int touch_sums(struct touch *t, struct guard_hit *ret_hit);
/* Runs for about ms, whole passes of each thread's part; thread k is pinned to CPU k modulo their number. 0; -EFAULT:
   bad memory; -EAGAIN: no thread; -ENOMEM. */
int touch_run(const struct touch *t, struct touch_result *ret);
/* Whether what TOUCH_WRITE or TOUCH_COPY left is right, untimed. 0; -EBADMSG; -EFAULT. */
int touch_check(const struct touch *t);
/* `loads` loads of single cache lines anywhere in it, each address needing the value before; stores nothing. salt:
   other lines than with another one, which caches still hold. Adds the time of each 8 divided by 8, in tenths of ns. 0
   or -EFAULT. */
int touch_chase(const char *base, uint64_t bytes, uint32_t loads, uint64_t salt, struct hist *h,
                struct guard_hit *ret_hit);
#define TOUCH_CHASE_UNIT 0.1 /* ns of one unit in that histogram */
#endif
