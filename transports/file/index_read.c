/* SPDX-License-Identifier: Apache-2.0 */
/* The reading side of dray.index: every number is checked before it is used, by pread and not by mapping. */
#include <string.h>
#include <unistd.h>

#include <dray/types.h>

#include "base/crc.h"
#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "transports/file/index.h"
#include "transports/file/index_format.h"

static bool header_valid(const struct index *ix, const struct index_slab_header *h, uint64_t unit)
{
  uint64_t all;
  if (h->magic != SLAB_MAGIC || h->version != INDEX_VERSION ||
      h->crc != crc32c(0, h, offsetof(struct index_slab_header, crc)))
    return false;
  if (h->unit != unit || !h->units || !range_inside(unit, h->units, ix->units) || unit > UINT32_MAX)
    return false;
  if (!h->slot_bytes || !is_aligned(h->slot_bytes, INDEX_SLOT_ALIGN) || !h->slots || h->slots > INDEX_SLOTS_MAX ||
      h->slots > h->units * INDEX_ENTRIES_PER_UNIT)
    return false;
  if (!mul_u64(h->slot_bytes, h->slots, &all) || all > h->units * INDEX_UNIT)
    return false;
  return entry_owner_valid(h->tenant, h->agent, h->scope);
}

static int read_cells(const struct index *ix, const struct index_slab_header *h, const struct slab_mem *mem,
                      struct index_cell *buf, const struct index_visitor *v, uint64_t *skipped)
{
  for (uint32_t first = 0; first < h->slots; first += INDEX_ENTRIES_PER_UNIT) {
    uint32_t n = MIN_OF(h->slots - first, INDEX_ENTRIES_PER_UNIT);
    uint64_t off = index_cells_off(ix->units, h->unit) + first * sizeof *buf;
    memset(buf, 0, n * sizeof *buf);
    if (pread(ix->fd, buf, n * sizeof *buf, (off_t)off) != (ssize_t)(n * sizeof *buf)) {
      *skipped += n; /* not readable: none of them verifies */
      continue;
    }
    for (uint32_t i = 0; i < n; i++) {
      if (!buf[i].magic)
        continue;
      if (!entry_valid(&buf[i], CELL_MAGIC, first + i, h->seed, h->slot_bytes)) {
        ++*skipped;
        continue;
      }
      struct index_entry e;
      entry_read(&buf[i], &e);
      int rc = v->cell(v->ctx, mem, first + i, &e);
      if (rc)
        return rc;
    }
  }
  return 0;
}

static int read_slab(const struct index *ix, uint64_t unit, struct index_cell *buf, const struct index_place *place,
                     const struct index_visitor *v, uint64_t *skipped)
{
  struct index_slab_header h;
  if (pread(ix->fd, &h, sizeof h, (off_t)index_header_off(unit)) != (ssize_t)sizeof h) {
    ++*skipped;
    return 0;
  }
  if (!h.magic)
    return 0;
  if (!header_valid(ix, &h, unit)) {
    ++*skipped;
    return 0;
  }
  struct slab_mem mem = {.bytes = h.units * INDEX_UNIT, .dev_off = unit * INDEX_UNIT, .fd = -1, .unit = (uint32_t)unit};
  int rc = place->make(place->ctx, &mem);
  if (rc == -EBUSY || rc == -EINVAL) {
    ++*skipped;
    return 0;
  }
  if (!rc)
    rc = v->slab(v->ctx, &mem, h.slot_bytes, h.slots, h.tenant, h.agent, h.scope);
  return rc ? rc : read_cells(ix, &h, &mem, buf, v, skipped);
}

int index_read(struct index *ix, const struct index_place *place, const struct index_visitor *v, uint64_t *ret_skipped)
{
  CLEAN_PTR struct index_cell *buf = malloc(INDEX_ENTRIES_PER_UNIT * sizeof *buf);
  if (!buf)
    return -ENOMEM;
  uint64_t skipped = 0;
  off_t end = (off_t)index_header_off(ix->units);
  off_t at = (off_t)index_header_off(0);
  while (at < end) {
    /* most units head no slab: their pages are holes, and a terabyte has a million of them */
    off_t data = lseek(ix->fd, at, SEEK_DATA);
    if (data < 0 && errno == ENXIO)
      break;
    if (data < 0)
      data = at;
    off_t hole = lseek(ix->fd, data, SEEK_HOLE);
    if (hole <= data || hole > end)
      hole = end;
    for (at = data & ~(off_t)(INDEX_PAGE - 1); at < hole; at += INDEX_PAGE) {
      int rc = read_slab(ix, (uint64_t)at / INDEX_PAGE - 1, buf, place, v, &skipped);
      if (rc)
        return rc;
    }
  }
  *ret_skipped = skipped;
  return 0;
}
