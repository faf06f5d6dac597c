/* SPDX-License-Identifier: Apache-2.0 */
/* The bare echo to compare with: two rings through private headers, SQ dequeue and CQ enqueue in another process,
 * nothing between. */
#ifndef BENCH_BARE_H
#define BENCH_BARE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct bare;

/* Forks the echo on CPU cpu. NULL on failure. */
struct bare *bare_open(uint32_t entries, int cpu);
void bare_close(struct bare *b);
/* One 64-byte entry there and back, polling. */
void bare_trip(struct bare *b);
/* The same, and the echo first copies the first `bytes` (at most BARE_COPY_MAX) of bare_source() to memory of its own
   kind, as a mover would. */
#define BARE_COPY_MAX 65536u
char *bare_source(struct bare *b);
void bare_copy_trip(struct bare *b, uint32_t bytes);
/* Whether what was copied last is what the source holds. */
bool bare_copied(const struct bare *b, uint32_t bytes);
/* n entries in bursts of 32 with at most `window` under way. */
void bare_stream(struct bare *b, uint64_t n, uint32_t window);
#endif
