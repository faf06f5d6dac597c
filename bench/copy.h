/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of `dray bench copy`. Each returns 0, or 1 when it could not run or a byte was wrong. */
#ifndef BENCH_COPY_H
#define BENCH_COPY_H

#include "bench/bench.h"

/* Scattered cold 16 KiB blocks, a mover with that many lanes (1 or 2) against as many threads. */
int copy_scatter(const struct bench_options *o, struct report *r, uint32_t rounds, uint32_t lanes);
/* 2 MiB cells, one lane, against the non-temporal loop; 64 MiB, two lanes against one. */
int copy_large(const struct bench_options *o, struct report *r, uint32_t rounds);
/* One 16 KiB PUT that is hot in cache, polling, against a bare round trip and the copy by another CPU. */
int copy_hot(const struct bench_options *o, struct report *r, uint32_t rounds);
#endif
