/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An open loop: operations fall due by the clock, whether or not the ones before are done, and the latency of each
 * counts from when it was due. So a stretch in which nothing moved is in the percentiles with all that fell due in it,
 * not with the one operation that happened to be under way (no coordinated omission).
 */
#ifndef BENCH_PACE_H
#define BENCH_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/hist.h"
#include "bench/report.h"

#define PACE_DEPTH_MAX 256u

/* Who does the work; all of one thread. */
struct pace_io {
  void *ctx;
  uint64_t (*now)(void *ctx);
  /* Begins operation i in a free slot. False: it cannot, and the run ends. */
  bool (*send)(void *ctx, uint32_t slot, uint64_t i);
  /* Pushes what send gathered. */
  void (*push)(void *ctx);
  /* Slots whose operations are over, at most room. Negative: one was wrong, and the run ends. */
  int (*reap)(void *ctx, uint32_t *slot, uint32_t room);
  /* Until the next is due, or (some under way) one is over, whichever is first. */
  void (*rest)(void *ctx, uint64_t until, bool under_way);
};
struct pace {
  double rate;        /* operations per second that fall due */
  uint64_t ns;        /* for so long */
  uint64_t late_ns;   /* how long after the end the last may still be under way; then it is given up */
  uint32_t depth;     /* under way at most; what falls due meanwhile waits, and its clock runs */
  bool (*stop)(void); /* may be NULL */
};
struct pace_result {
  uint64_t due, done;
  uint64_t late;   /* begun after they were due, by more than a tenth of the time between two */
  uint64_t unmade; /* due, but not over when it was given up: in the latencies with the time that they waited */
  uint64_t
      away_ns; /* longest that this loop itself was off its CPU, past what it wanted to rest: not the mover's doing */
  double seconds; /* from the first that was due to the last that was over */
  struct hist latency;
};

/* 0, or -1: an operation failed. What was measured is in *ret_result either way. */
int pace_run(const struct pace *p, const struct pace_io *io, struct pace_result *ret_result);
/* Its row: achieved against offered, percentiles from when due. */
struct result *pace_row(struct report *r, const char *name, const struct pace *p, const struct pace_result *x,
                        const char *path, bool verified);
#endif
