/* SPDX-License-Identifier: Apache-2.0 */
/* The benches that `dray bench` runs. Method: bench/README.md. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/report.h"

#define BENCH_RIVALS_MAX 4u
#define BENCH_IODEPTH_MAX 256u

struct bench_options {
  uint32_t rounds;  /* 0: the bench's own */
  double seconds;   /* per measurement, 0: its own */
  bool quick;       /* a look, not a figure: for CI */
  const char *dir;  /* where to work (file: the filesystem under test) */
  uint64_t cells;   /* map, directory */
  bool verify;      /* copy: look at every byte that was moved, in every round */
  bool versus;      /* file: also run fio */
  uint32_t iodepth; /* file, and by the clock: under way, 0: its own */
  bool progress;
  /* mem, cxl; size and rw: rdma, too */
  const char *device; /* a device-dax node, or a file on tmpfs, hugetlbfs, famfs */
  uint32_t threads;
  uint64_t block, size; /* 0: the bench's own */
  int rw;               /* enum touch_rw, 0: each that destroys nothing */
  double link_gbps;     /* of the link, GB/s; 0: what sysfs says */
  bool overwrite;       /* cxl: what is on the device may go */
  /* kv */
  const char *preset; /* NULL: llama8b */
  /* kv, ring, copy, file */
  double rate; /* operations/s, by the clock; 0: each when the last is done */
  /* copy: programs that do the same work, see bench/rival.h */
  const char *rival[BENCH_RIVALS_MAX];
  /* rdma; size: of each transfer, 0: of each figure its own; rw: 0 both */
  const char *peer, *key_file; /* the peer's address, and the key that it has, too */
  uint32_t iters;              /* transfers in a round, 0: the figure's own */
};

/* Each returns 0, or 1 when it could not run or a byte was wrong; results are added to the report. */
int bench_ring(const struct bench_options *o, struct report *r);
int bench_map(const struct bench_options *o, struct report *r);
int bench_file(const struct bench_options *o, struct report *r);
int bench_copy(const struct bench_options *o, struct report *r);
int bench_policy(const struct bench_options *o, struct report *r);
int bench_mem(const struct bench_options *o, struct report *r);
int bench_cxl(const struct bench_options *o, struct report *r);
int bench_kv(const struct bench_options *o, struct report *r);
int bench_scale(const struct bench_options *o, struct report *r);
int bench_rdma(const struct bench_options *o, struct report *r);
int bench_sessions(const struct bench_options *o, struct report *r);
#endif
