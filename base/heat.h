/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a copy's memory likely still in this core's cache? A small table of the places that one lane copied from and to,
 * each with the lane's running count of bytes at that time: a place is hot when fewer than hot_bytes were touched
 * since. Both sides must be: a cached store into a cold line reads it first, and then non-temporal wins whatever the
 * source's state (measured: source in cache and destination cold, 12 against 6 GB/s; both in cache, 13 against 80).
 * A wrong answer costs speed, never bytes.
 */
#ifndef BASE_HEAT_H
#define BASE_HEAT_H

#include <stdbool.h>
#include <stdint.h>

#define HEAT_PLACES 128u /* a power of two */

/* One lane's; zero to begin. Two lanes never share one. */
struct copy_heat {
  uint64_t clock; /* bytes touched so far, never 0 after the first */
  struct {
    uintptr_t place; /* 64-byte grain; 0: none */
    uint64_t at;
  } seen[HEAT_PLACES];
};

/* Notes a copy of n bytes from src to dst and says whether it is hot. Cheap: two table entries. */
bool copy_heat_note(struct copy_heat *h, const void *dst, const void *src, uint64_t n, uint64_t hot_bytes);
#endif
