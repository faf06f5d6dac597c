/* SPDX-License-Identifier: Apache-2.0 */
/* CRC32C (Castagnoli, as in iSCSI): crc32c(0, "123456789", 9) is 0xE3069283. */
#ifndef BASE_CRC_H
#define BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Continues crc (0 to begin) over n bytes; crc32c(crc32c(0, a), b) is the CRC of a followed by b. */
uint32_t crc32c(uint32_t crc, const void *p, size_t n);

/* The same by table, on any CPU: the reference for the tests. */
uint32_t crc32c_table(uint32_t crc, const void *p, size_t n);
#endif
