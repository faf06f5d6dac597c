/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that several hosts see and no hardware keeps coherent. One host writes a cell: its bytes, then (when they are
 * out of its caches) its entry, then one line that says what is where. Another reads: forgets the line and loads it,
 * forgets the bytes and copies them, checks their CRC, forgets the line and looks whether it still says the same.
 * Flush and fence prove only that something left a cache, not that the device has it; the CRC and the second look are
 * the contract, and what fails them is tried again.
 */
#ifndef TRANSPORTS_CXL_SHARE_H
#define TRANSPORTS_CXL_SHARE_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/flush.h"
#include "include/priv/bits.h"

#define SHARE_MAGIC 0x454e494cu /* "LINE" */

/* One cache line, written last, alone in it. Zeroes: nothing. */
struct share_line {
  uint32_t magic, generation;
  uint8_t key[16];
  uint64_t off, len; /* of the bytes, in the device */
  uint32_t data_crc, zero[4];
  uint32_t crc; /* of all before: a line that was torn on its way does not verify */
};
static_assert(sizeof(struct share_line) == CACHE_LINE, "a line");

void share_line_make(struct share_line *ret_line, const uint8_t key[16], uint64_t off, uint64_t len,
                     uint32_t generation, uint32_t data_crc);

/* Another host's view of a device: a mapping of its own, read-only is enough. */
struct share {
  const uint8_t *base;
  uint64_t bytes; /* of the mapping */
  uint64_t line_off, lines;
  uint64_t data_off; /* where slabs may be */
  enum flush_by flush;
};

/* Reads the directory's superblock there. 0; -EINVAL: none of ours, damaged, or without lines; -ENOTSUP: this CPU has
   no instruction that forgets a line; -EIO: bad memory. */
int share_open(struct share *s, const void *base, uint64_t bytes);
/* The line of that key. 0; -ENOENT; -EIO. A hint: it may have changed when it is read. */
int share_find(const struct share *s, const uint8_t key[16], uint64_t *ret_line);
/* Copies the cell of a line out, if it is what the line says and the line is what it was. 0 and its length; -ENOENT:
   the line is empty, or another key's; -EMSGSIZE: longer than room; -EAGAIN: it changes, or what it names has not
   arrived, after all tries; -EILSEQ: the line names what cannot be; -EIO: bad memory. */
int share_read(const struct share *s, uint64_t line, const uint8_t key[16], void *to, uint64_t room, uint64_t *ret_len,
               uint32_t *ret_generation);
#endif
