/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a persistent device writes down one cell: 128 bytes with a CRC, the same in the disk tier's index and in the
 * directory on a device. Little-endian machines only; each format's version goes up with any change here.
 */
#ifndef TRANSPORTS_ENTRY_H
#define TRANSPORTS_ENTRY_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "transports/transport.h"

struct index_cell {
  uint32_t magic, slot;
  uint8_t key[16], mkey_hash[16];
  uint64_t len;
  uint32_t data_crc, generation;
  uint8_t scope, taint, has_crc, zero;
  char tenant[INDEX_NAME_MAX], agent[INDEX_NAME_MAX];
  uint32_t crc; /* of the slab's seed and all before crc: what an earlier slab left in its place does not verify */
};
static_assert(sizeof(struct index_cell) == 128, "an entry is two cache lines");

/* Fills all of it, CRC included. magic says whose format it is. */
void entry_write(struct index_cell *ret_cell, uint32_t magic, uint32_t slot, uint64_t seed,
                 const struct index_entry *e);
/* May it be believed: written for that slot of that slab, whole, and every field in range. */
bool entry_valid(const struct index_cell *c, uint32_t magic, uint32_t slot, uint64_t seed, uint64_t slot_bytes);
/* What it says; it is valid. */
void entry_read(const struct index_cell *c, struct index_entry *ret_entry);

/* Of a slab's header likewise: both names end, and the scope is one. */
bool entry_owner_valid(const char tenant[INDEX_NAME_MAX], const char agent[INDEX_NAME_MAX], uint8_t scope);
#endif
