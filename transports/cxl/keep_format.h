/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of the directory on a mapped device. Little-endian machines only; the version goes up with any change.
 *
 *   0          two superblocks, written in turn: one is always whole
 *   4 KiB      rows of bad memory
 *   then       a header for each unit of the device: the slab that begins there
 *   then       entries, so many for each unit: a slab's lie together from its first unit's on
 *
 *   then       (software coherence) a line for each entry: share.h
 *
 * Each record carries a CRC; an entry's is seeded with its slab's random number, so that what an earlier slab left in
 * the same place does not verify.
 */
#ifndef TRANSPORTS_CXL_KEEP_FORMAT_H
#define TRANSPORTS_CXL_KEEP_FORMAT_H

#include <assert.h>
#include <stdint.h>

#include "include/priv/bits.h"
#include "transports/entry.h"
#include "transports/transport.h"

#define KEEP_MAGIC "DRAYCXL"
#define KEEP_VERSION 1u
#define KEEP_SLAB_MAGIC 0x424c5343u /* "CSLB" */
#define KEEP_CELL_MAGIC 0x4c454343u /* "CCEL" */
#define KEEP_BAD_MAGIC 0x44414243u  /* "CBAD" */
#define KEEP_SUPER_STEP 2048u
#define KEEP_BAD_OFF 4096u
#define KEEP_BAD_ROWS 1024u
#define KEEP_SLOT_ALIGN 4096u
#define KEEP_SLOTS_MAX 4096u

struct keep_geometry {
  uint64_t unit, units, bytes;
  uint32_t entry_bytes, entries_per_unit, bad_rows, line_bytes; /* line_bytes 0: no lines */
};
struct keep_super {
  char magic[8];
  uint32_t version, zero;
  struct keep_geometry geometry;
  uint64_t geometry_hash;
  uint64_t generation; /* goes up each time the device is opened */
  char owner[64];      /* "": published cells only */
  uint32_t zero2, crc; /* of all before crc */
};
struct keep_bad {
  uint32_t magic, proven;
  uint64_t off, len;
  uint32_t zero, crc;
};
struct keep_slab {
  uint32_t magic, version;
  uint64_t unit, units, slot_bytes;
  uint32_t slots;
  uint8_t scope, zero[3];
  uint64_t seed; /* random; goes into the CRC of each entry */
  char tenant[INDEX_NAME_MAX], agent[INDEX_NAME_MAX];
  uint64_t zero2;
  uint32_t zero3, crc; /* of all before crc */
};
static_assert(sizeof(struct keep_super) <= KEEP_SUPER_STEP, "two superblocks in a page");
static_assert(sizeof(struct keep_bad) == 32, "32-byte rows");
static_assert(sizeof(struct keep_slab) == 128, "a header is two lines");

static inline uint32_t keep_entries_per_unit(uint64_t unit)
{
  return (uint32_t)MIN_OF(unit / KEEP_SLOT_ALIGN, (uint64_t)KEEP_SLOTS_MAX);
}
static inline uint64_t keep_bad_off(uint64_t row)
{
  return KEEP_BAD_OFF + row * sizeof(struct keep_bad);
}
static inline uint64_t keep_slab_off(uint64_t unit)
{
  return keep_bad_off(KEEP_BAD_ROWS) + unit * sizeof(struct keep_slab);
}
static inline uint64_t keep_cell_off(uint64_t units, uint64_t unit_bytes, uint64_t unit, uint64_t slot)
{
  return keep_slab_off(units) + (unit * keep_entries_per_unit(unit_bytes) + slot) * sizeof(struct index_cell);
}
/* The line of an entry; lines begin on a line. */
static inline uint64_t keep_line_off(uint64_t units, uint64_t unit_bytes, uint64_t unit, uint64_t slot)
{
  return align_up(keep_cell_off(units, unit_bytes, units, 0), PAGE_BYTES) +
         (unit * keep_entries_per_unit(unit_bytes) + slot) * CACHE_LINE;
}
#endif
