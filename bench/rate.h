/* SPDX-License-Identifier: Apache-2.0 */
/* `--rate` of the benches whose operations are small: the same work by the clock (bench/pace.h). */
#ifndef BENCH_RATE_H
#define BENCH_RATE_H

#include "bench/bench.h"

/* NOPs; the engine polls. 0 or 1. */
int rate_ring(const struct bench_options *o, struct report *r);
/* PUTs of 64 scattered blocks of 16 KiB; the engine sleeps. */
int rate_copy(const struct bench_options *o, struct report *r);
/* GETs, then PUTs, of 16 KiB cells of the file tier; the engine sleeps. */
int rate_file(const struct bench_options *o, struct report *r);
#endif
