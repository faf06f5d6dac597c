/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that does the same work as a bench, in turns with it, so that both are measured in one run. Protocol, on
 * its standard input and output, one line each: it says "ready"; for each "go" it does one round and answers "GBPS
 * CPU_NS WRONG" (decimal GB/s, processor time of all its processes, bytes that were wrong); end of input ends it. Its
 * environment has BENCH_BLOCKS, BENCH_BLOCK_BYTES, BENCH_STRIDE (which blocks: every STRIDEth) and BENCH_THREADS.
 */
#ifndef BENCH_RIVAL_H
#define BENCH_RIVAL_H

#include <stdint.h>

struct rival;
struct rival_work {
  uint32_t blocks, block_bytes, stride, threads;
};

/* Starts "sh -c command" and waits for its "ready", at most 60 s. cpu: -1 any. NULL after a message on stderr. */
struct rival *rival_open(const char *name, const char *command, const struct rival_work *w, int cpu);
/* One round, at most 60 s. GB/s; negative after a message: it ended, said something else, or was wrong. */
double rival_round(struct rival *v, uint64_t *ret_cpu_ns);
/* Closes its input and waits for its end, at most 5 s; then it is killed. NULL is fine. */
void rival_close(struct rival *v);
#endif
