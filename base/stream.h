/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vector loops under base/copy.h: plain loads, then cached or non-temporal stores. Never `rep movs`:
 * a machine check in the middle of a string instruction is not recoverable on every CPU (MCE-safe copy).
 */
#ifndef BASE_STREAM_H
#define BASE_STREAM_H

#include <stdbool.h>
#include <stddef.h>

/* The CPU has a non-temporal store that this file has a loop for. */
bool stream_available(void);

/* Cached stores. Any alignment, any n. */
void stream_copy_cached(void *dst, const void *src, size_t n);

/* Non-temporal stores for the cache-line-aligned middle, cached ones for head and tail. next is where the
   following copy will read (a prefetch hint, may be NULL, never dereferenced). Not fenced: the caller
   calls stream_fence() once before it says that the bytes are there. */
void stream_copy(void *dst, const void *src, size_t n, const void *next);

/* Zeroes without reading the lines first; not fenced. */
void stream_zero(void *dst, size_t n);
#endif
