/* SPDX-License-Identifier: Apache-2.0 */
/* The reading side of a device's directory: each record is copied out, then checked, then used. */
#include <errno.h>
#include <string.h>

#include <dray/types.h>

#include "base/crc.h"
#include "include/priv/bits.h"
#include "transports/cxl/keep.h"

static bool slab_valid(const struct keep *k, const struct keep_slab *h, uint64_t unit)
{
  uint64_t all;
  if (h->magic != KEEP_SLAB_MAGIC || h->version != KEEP_VERSION ||
      h->crc != crc32c(0, h, offsetof(struct keep_slab, crc)))
    return false;
  if (h->unit != unit || unit < k->own || !h->units || !range_inside(unit, h->units, k->units))
    return false;
  if (!h->slot_bytes || !is_aligned(h->slot_bytes, KEEP_SLOT_ALIGN) || !h->slots || h->slots > KEEP_SLOTS_MAX ||
      h->slots > h->units * keep_entries_per_unit(k->unit))
    return false;
  if (!mul_u64(h->slot_bytes, h->slots, &all) || all > h->units * k->unit)
    return false;
  return entry_owner_valid(h->tenant, h->agent, h->scope);
}

/* What cannot be read is skipped, and if that is because it is bad, the whole of it is given up. */
static bool load(struct keep *k, uint64_t off, void *to, size_t n, uint64_t *skipped)
{
  int rc = keep_load(k, off, to, n);
  if (rc == -EHWPOISON)
    keep_give_up(k);
  *skipped += rc != 0;
  return rc == 0;
}

static int scan_cells(struct keep *k, const struct keep_slab *h, const struct slab_mem *mem,
                      const struct index_visitor *v, uint64_t *skipped)
{
  for (uint32_t slot = 0; slot < h->slots; slot++) {
    struct index_cell c;
    if (!load(k, keep_cell_off(k->units, k->unit, h->unit, slot), &c, sizeof c, skipped))
      continue;
    if (!c.magic)
      continue;
    if (!entry_valid(&c, KEEP_CELL_MAGIC, slot, h->seed, h->slot_bytes)) {
      ++*skipped;
      continue;
    }
    struct index_entry e;
    entry_read(&c, &e);
    int rc = v->cell(v->ctx, mem, slot, &e);
    if (rc)
      return rc;
  }
  return 0;
}

int keep_scan_bad(struct keep *k, const struct index_visitor *v, uint64_t *skipped)
{
  for (uint64_t i = 0; i < KEEP_BAD_ROWS && v->bad; i++) {
    struct keep_bad b;
    if (!load(k, keep_bad_off(i), &b, sizeof b, skipped))
      continue;
    if (!b.magic)
      continue;
    if (b.magic != KEEP_BAD_MAGIC || b.crc != crc32c(0, &b, offsetof(struct keep_bad, crc)) || b.proven > 1 || !b.len ||
        !range_inside(b.off, b.len, k->unit * k->units)) {
      ++*skipped;
      continue;
    }
    int rc = v->bad(v->ctx, b.off, b.len, b.proven);
    if (rc)
      return rc;
  }
  return 0;
}

int keep_scan(struct keep *k, const struct keep_place *place, const struct index_visitor *v, uint64_t *ret_skipped)
{
  uint64_t skipped = 0;
  int rc = keep_scan_bad(k, v, &skipped);
  for (uint64_t unit = k->own; rc == 0 && unit < k->units; unit++) {
    struct keep_slab h;
    if (!load(k, keep_slab_off(unit), &h, sizeof h, &skipped))
      continue;
    if (!h.magic)
      continue;
    struct slab_mem mem = {.bytes = h.units * k->unit, .dev_off = unit * k->unit, .fd = -1, .unit = (uint32_t)unit};
    if (!slab_valid(k, &h, unit) || (rc = place->make(place->ctx, &mem)) == -EBUSY || rc == -EINVAL) {
      skipped++;
      rc = 0;
      continue;
    }
    rc = rc ? rc : v->slab(v->ctx, &mem, h.slot_bytes, h.slots, h.tenant, h.agent, h.scope);
    rc = rc ? rc : scan_cells(k, &h, &mem, v, &skipped);
  }
  if (rc == 0)
    *ret_skipped = skipped;
  return rc ? rc : keep_holds(k);
}
