/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dray.index: what the segments hold, in a file of its own so that payload stays aligned and headers together.
 *
 *   page 0                    superblock: geometry, so that another capacity is an error and not a loss
 *   page 1 + u                header of the slab whose first unit is u
 *   after the headers         ENTRY_SPACE bytes per unit: the entries of a slab, contiguous from its first unit
 *
 * The file is sparse; a slab's parts are allocated with it, so a store into the mapping never meets a full disk.
 * Each record carries a CRC. An entry's CRC is seeded with its slab's random number: what an earlier slab left in
 * the same place does not verify. Nothing that is read is trusted: index_scan is fed with garbage by the fuzzer.
 */
#ifndef TRANSPORTS_FILE_INDEX_H
#define TRANSPORTS_FILE_INDEX_H

#include "transports/extent.h"
#include "transports/file/durable.h"
#include "transports/transport.h"

#define INDEX_UNIT ((uint64_t)1 << 20)
#define INDEX_ENTRIES_PER_UNIT 256u
#define INDEX_SLOTS_MAX 4096u
#define INDEX_SLOT_ALIGN 4096u

struct index {
  int fd;
  uint8_t *base; /* the whole file, shared */
  uint64_t bytes, units, seg_bytes;
  bool fresh; /* made by this open */
  struct durable durable;
};

/* Opens (or makes) and maps; checks the superblock; takes the lock of the directory.
   0, -EBUSY, -EINVAL (another geometry; text says how to mend), -errno. */
int index_open(struct index *ix, int dir, const char *path, uint64_t capacity, uint64_t seg_bytes, struct err *e);
void index_close(struct index *ix);

/* Room for the header and entries of units [unit, unit+n), reading as zero. 0, -ENOSPC, -errno. */
int index_reserve(struct index *ix, uint64_t unit, uint64_t n);
/* Forgets the slab: first the header, then the room. */
void index_release(struct index *ix, uint64_t unit, uint64_t n);

/* As the ops of the same name in transport.h. */
int index_write_slab(struct index *ix, const struct slab_mem *mem, uint64_t slot_bytes, uint32_t slots,
                     const char *tenant, const char *agent, uint8_t scope);
int index_write_cell(struct index *ix, const struct slab_mem *mem, uint32_t slot, const struct index_entry *e);
void index_expect_cell(const struct index *ix, const struct slab_mem *mem, uint32_t slot);
void index_clear_cell(struct index *ix, const struct slab_mem *mem, uint32_t slot);

/* Where the slabs go that the scan found: make takes the units and completes mem (bytes, dev_off, unit are set). */
struct index_place {
  void *ctx;
  int (*make)(void *ctx, struct slab_mem *mem);
};
/* Visits what verifies and whose place make accepts (-EBUSY, -EINVAL: skipped). Stops at a visitor's non-zero. */
int index_read(struct index *ix, const struct index_place *place, const struct index_visitor *v, uint64_t *ret_skipped);
#endif
