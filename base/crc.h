/* SPDX-License-Identifier: Apache-2.0 */
/* CRC32C (Castagnoli, as in iSCSI): crc32c(0, "123456789", 9) is 0xE3069283. */
#ifndef BASE_CRC_H
#define BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Continues crc (0 to begin) over n bytes; crc32c(crc32c(0, a), b) is the CRC of a followed by b. */
uint32_t crc32c(uint32_t crc, const void *p, size_t n);

/* What n zero bytes behind it make of a CRC's linear part: the CRC of a followed by b is
   crc32c_shift(crc of a, length of b) ^ crc of b, so parts may be combined in any order. Any n. */
uint32_t crc32c_shift(uint32_t crc, uint64_t n);
static inline uint32_t crc32c_combine(uint32_t a, uint32_t b, uint64_t b_len)
{
  return crc32c_shift(a, b_len) ^ b;
}

/* crc32c() by table, on any CPU: the reference for the tests. */
uint32_t crc32c_table(uint32_t crc, const void *p, size_t n);
#endif
