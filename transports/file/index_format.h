/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of dray.index. Little-endian machines only; the version goes up with any change. */
#ifndef TRANSPORTS_FILE_INDEX_FORMAT_H
#define TRANSPORTS_FILE_INDEX_FORMAT_H

#include <assert.h>
#include <stdint.h>

#include "transports/entry.h"
#include "transports/file/index.h"

#define INDEX_MAGIC "DRAYIDX"
#define INDEX_VERSION 1u
#define SLAB_MAGIC 0x42414c53u /* "SLAB" */
#define CELL_MAGIC 0x4c4c4543u /* "CELL" */
#define INDEX_PAGE 4096u

struct index_geometry {
  uint64_t unit, seg_bytes, capacity, units;
  uint32_t entry_bytes, entries_per_unit;
};
struct index_super {
  char magic[8];
  uint32_t version, zero;
  struct index_geometry geometry;
  uint64_t geometry_hash;
  uint32_t zero2, crc; /* of all before crc */
};
struct index_slab_header {
  uint32_t magic, version;
  uint64_t unit, units;
  uint64_t slot_bytes;
  uint32_t slots;
  uint8_t scope, zero[3];
  uint64_t seed; /* random; goes into the CRC of each entry */
  char tenant[INDEX_NAME_MAX], agent[INDEX_NAME_MAX];
  uint32_t zero2, crc; /* of all before crc */
};

static_assert(sizeof(struct index_slab_header) <= INDEX_PAGE, "a header is a page");
static_assert(sizeof(struct index_super) <= INDEX_PAGE, "the superblock is a page");

#define ENTRY_SPACE ((uint64_t)INDEX_ENTRIES_PER_UNIT * sizeof(struct index_cell))

static inline uint64_t index_header_off(uint64_t unit)
{
  return INDEX_PAGE * (1 + unit);
}
static inline uint64_t index_cells_off(uint64_t units, uint64_t unit)
{
  return index_header_off(units) + unit * ENTRY_SPACE;
}
#endif
