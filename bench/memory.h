/* SPDX-License-Identifier: Apache-2.0 */
/* A mapping under test and its rows in the report: `mem` and `cxl` measure alike. */
#ifndef BENCH_MEMORY_H
#define BENCH_MEMORY_H

#include "bench/bench.h"
#include "bench/touch.h"

struct memory {
  const char *what; /* "mem": begins the rows' names and errors */
  char *base;
  uint64_t bytes;
  const struct bench_options *options;
  double link_gbps; /* what a share is said of; 0: nothing */
};

/* Rows WHAT.read.4t and WHAT.latency. 0; 1 after a message: bad memory, a wrong byte, no thread. A stop asked for in
   between is no error. */
int memory_rate(const struct memory *m, struct report *r, enum touch_rw rw, uint32_t threads);
int memory_latency(const struct memory *m, struct report *r);
#endif
