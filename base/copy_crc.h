/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies and takes the CRC32C of exactly the bytes that were stored, in one pass: each byte of the source is loaded
 * once, so somebody who rewrites the source meanwhile cannot make copy and CRC differ.
 */
#ifndef BASE_COPY_CRC_H
#define BASE_COPY_CRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Continues crc (0 to begin) over n bytes while copying them; any alignment, any n. stream: non-temporal stores for
   whole lines, not fenced. next: where the following copy will read (a hint, never touched). */
uint32_t copy_crc(void *dst, const void *src, size_t n, uint32_t crc, bool stream, const void *next);

/* The same by plain C, on any CPU. */
uint32_t copy_crc_plain(void *dst, const void *src, size_t n, uint32_t crc);
#endif
