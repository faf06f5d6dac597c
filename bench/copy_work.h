/* SPDX-License-Identifier: Apache-2.0 */
/* An engine with scattered blocks in a registered region, and what it asks a mover to do with them. */
#ifndef BENCH_COPY_WORK_H
#define BENCH_COPY_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/copy_bare.h"
#include "bench/stage.h"

struct copy_work {
  struct dray *d;
  struct dray_region src, dst, back; /* dst: of the bare copies; back: what a check reads into */
  struct bare_blocks b;
  uint32_t turn, row;
  uint16_t layout;
  bool verify, wrong;
  unsigned path;
};

/* A session and its regions: blocks (a power of two) times BARE_STRIDE of source. 0 or -1; closed by copy_work_close()
   either way. */
int copy_work_open(struct copy_work *w, const struct stage *st, bool verify, uint32_t blocks);
void copy_work_close(struct copy_work *w);
/* Every measurement takes the next set. */
void copy_work_choose(struct copy_work *w);
/* GB/s; 0 when it failed (said on stderr, w->wrong set). flags: DRAY_VERIFY_CRC or 0.
   One PUT whose layout scatters the cell over the whole source: */
double copy_work_layout(struct copy_work *w, uint16_t flags);
/* Reads that cell back: w->wrong when a byte differs. */
void copy_work_layout_check(struct copy_work *w);
/* One BATCH of as many PUTs as blocks: */
double copy_work_batch(struct copy_work *w, uint16_t flags);
/* After a bare copy: w->wrong when a byte differs; then its destination is wiped. */
void copy_work_check(struct copy_work *w);
#endif
