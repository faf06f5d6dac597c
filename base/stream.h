/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops under base/copy.h: plain loads, then cached or non-temporal stores; and `rep movsb` apart. A machine check
 * in the middle of a string instruction is not recoverable on every CPU (MCE-safe copy), so memory that the hardware
 * may poison (cxl, device-dax) is only ever copied by the vector loops: COPY_FRAGILE. The C library's memcpy uses
 * `rep movsb`, too, from a few KiB on.
 */
#ifndef BASE_STREAM_H
#define BASE_STREAM_H

#include <stdbool.h>
#include <stddef.h>

/* The CPU has a non-temporal store that this file has a loop for. */
bool stream_available(void);

/* Cached stores. Any alignment, any n. */
void stream_copy_cached(void *dst, const void *src, size_t n);

/* rep movsb (memcpy where there is none). Any alignment, any n. */
void stream_copy_movsb(void *dst, const void *src, size_t n);

/* Non-temporal stores for the cache-line-aligned middle, cached ones for the two partial lines. next is where the
   following copy will read (a prefetch hint, may be NULL, never dereferenced). Not fenced: the caller
   calls stream_fence() once before it says that the bytes are there. */
void stream_copy(void *dst, const void *src, size_t n, const void *next);

/* Zeroes without reading the lines first; not fenced. */
void stream_zero(void *dst, size_t n);
#endif
