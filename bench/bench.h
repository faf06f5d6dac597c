/* SPDX-License-Identifier: Apache-2.0 */
/* The benches that `dray bench` runs. Method: bench/README.md. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/report.h"

struct bench_options {
  uint32_t rounds;    /* 0: the bench's own */
  double seconds;     /* per measurement, 0: its own */
  bool quick;         /* a look, not a figure: for CI */
  const char *dir;    /* where to work (file: the filesystem under test) */
  const char *config; /* unused: the bench starts a mover of its own */
  uint64_t cells;     /* map, directory */
  bool verify;        /* copy: look at every byte that was moved, in every round */
  bool versus;        /* file: also run fio */
  bool progress;
  const char *peer, *key_file; /* rdma: the peer's address, and the key that it has, too */
  uint64_t size;               /* rdma: bytes of each, 0: of each figure its own */
  uint32_t iters;              /* rdma: transfers in a round, 0 */
  char rw;                     /* rdma: 'r', 'w', 0: both */
};

/* Each returns 0, or 1 when it could not run or a byte was wrong; results are added to the report. */
int bench_ring(const struct bench_options *o, struct report *r);
int bench_map(const struct bench_options *o, struct report *r);
int bench_file(const struct bench_options *o, struct report *r);
int bench_copy(const struct bench_options *o, struct report *r);
int bench_policy(const struct bench_options *o, struct report *r);
int bench_rdma(const struct bench_options *o, struct report *r);
int bench_sessions(const struct bench_options *o, struct report *r);
#endif
