/* SPDX-License-Identifier: Apache-2.0 */
/* perftest's own figures on the same device: a server and a client of it, on this host. */
#ifndef BENCH_PERFTEST_H
#define BENCH_PERFTEST_H

#include <stdbool.h>
#include <stdint.h>

enum perftest { PERFTEST_WRITE_BW = 1, PERFTEST_READ_BW = 2, PERFTEST_READ_LAT = 3 };

/* Are the three programs here. */
bool perftest_present(void);
/* One run over TCP port 18515 to that address of ours. MB/s (decimal), or microseconds of the typical read; -1: it did
   not work within 60 s. */
double perftest_run(enum perftest what, const char *address, uint64_t size, uint32_t iters);
#endif
