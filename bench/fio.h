/* SPDX-License-Identifier: Apache-2.0 */
/* fio as the rival of the file tier: one run, its bandwidth. */
#ifndef BENCH_FIO_H
#define BENCH_FIO_H

#include <stdbool.h>
#include <stdint.h>

/* Is fio installed? */
bool fio_present(void);
/* Lays the file out (bytes, written once). 0 or -1. */
int fio_layout(const char *file, uint64_t bytes);
/* random read or write of block bytes at that depth, direct, by engine ("io_uring", "libaio"), for ms. MB/s, or -1. */
double fio_run(const char *engine, const char *file, uint64_t bytes, bool write, uint32_t block, uint32_t depth,
               uint32_t ms);
#endif
