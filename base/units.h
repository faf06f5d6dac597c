/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that people write: "64MiB", "1.5GB", "200ms". Negative, empty, overflowing and trailing text is refused, not
 * wrapped. */
#ifndef BASE_UNITS_H
#define BASE_UNITS_H

#include <stddef.h>
#include <stdint.h>

/* Bytes: digits, optional fraction, then B KB MB GB TB (decimal), K M G T, KiB MiB GiB TiB (binary), in any case. 0,
 * -EINVAL, -ERANGE. */
int units_bytes(const char *text, uint64_t *ret_bytes);
/* A whole number in [min, max]. 0, -EINVAL, -ERANGE. */
int units_count(const char *text, uint64_t min, uint64_t max, uint64_t *ret_count);
/* Nanoseconds: ns us ms s m h d (a bare number is seconds). 0, -EINVAL, -ERANGE. */
int units_time(const char *text, uint64_t *ret_ns);
/* "64.0 MiB" into buf, for tables. Returns buf. */
char *units_format_bytes(uint64_t bytes, char *buf, size_t n);
/* "12.3 us" into buf. Returns buf. */
char *units_format_time(uint64_t ns, char *buf, size_t n);
#endif
