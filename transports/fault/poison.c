/* SPDX-License-Identifier: Apache-2.0 */
/* Which memory the script made bad. In the mapping where that can be, so that whoever touches it meets it, by whatever
   way; else as a tale that this device tells at submit. */
#include <string.h>

#include "include/priv/cleanup.h"
#include "include/priv/order.h"
#include "transports/fault/fault_internal.h"
#include "transports/fault/inject.h"

static bool same_slab(const struct fault_bad *b, const struct slab_mem *mem)
{
  return b->unit == mem->unit && b->dev_off == mem->dev_off && b->base == (uintptr_t)mem->base;
}

/* The lock is held. */
static void poison(struct fault_dev *f, const struct slab_mem *mem, uint64_t off)
{
  uint64_t unit = f->script.unit, at = mem->base ? (uintptr_t)mem->base : mem->dev_off;
  if (off >= mem->bytes || f->bad_n == FAULT_BAD_MAX)
    return;
  uint64_t begin = (at + off) & ~(unit - 1), end = MIN_OF(begin + unit, at + mem->bytes);
  begin = MAX_OF(begin, at);
  struct fault_bad b = {
      .unit = mem->unit, .dev_off = mem->dev_off, .off = begin - at, .len = end - begin, .base = (uintptr_t)mem->base};
  for (uint32_t i = 0; i < f->bad_n; i++)
    if (same_slab(&f->bad[i], mem) && f->bad[i].off == b.off)
      return;
  b.real = mem->base && inject_poison((char *)mem->base + b.off, b.len, unit) == 0;
  f->bad[f->bad_n++] = b;
  if (!b.real)
    stat_set(&f->tales, f->tales + 1);
}

void fault_poison(struct fault_dev *f, const struct slab_mem *mem, uint64_t off)
{
  LOCKED(&f->lock);
  if (f->script.poison_max && f->poisoned >= f->script.poison_max)
    return;
  f->poisoned++;
  poison(f, mem, off);
}

void fault_poison_source(struct fault_dev *f, void *at)
{
  LOCKED(&f->lock);
  if ((f->script.source_max && f->sources >= f->script.source_max) || f->bad_n == FAULT_BAD_MAX)
    return;
  uintptr_t page = (uintptr_t)at & ~(uintptr_t)(PAGE_BYTES - 1);
  f->sources++;
  /* listed only to be forgotten at the end; no slab has this unit */
  if (inject_poison((void *)page, PAGE_BYTES, PAGE_BYTES) == 0)
    f->bad[f->bad_n++] = (struct fault_bad){.unit = UINT32_MAX, .len = PAGE_BYTES, .base = page, .real = true};
}

static void place_try(struct fault_dev *f, uint32_t i, uint64_t taken)
{
  struct fault_place *p = &f->place[i];
  if (!p->made || p->hit || taken < f->script.place[i].after)
    return;
  p->hit = true;
  poison(f, &p->mem, f->script.place[i].off);
  if (f->script.place[i].early && p->mem.base)
    (void)inject_early((char *)p->mem.base + f->script.place[i].off, f->script.unit);
}

void fault_places(struct fault_dev *f, uint64_t taken)
{
  LOCKED(&f->lock);
  for (uint32_t i = 0; i < f->script.places; i++)
    place_try(f, i, taken);
}

void fault_slab_made(struct fault_dev *f, const struct slab_mem *mem)
{
  LOCKED(&f->lock);
  uint32_t nr = f->slabs_made++;
  for (uint32_t i = 0; i < f->script.places; i++) {
    const struct script_place *p = &f->script.place[i];
    /* the directory is what lies before all slabs of a device that is mapped whole */
    bool before = p->directory && !f->place[i].made && f->dev.caps.persistent && mem->base && mem->dev_off;
    if (p->directory ? !before : p->slab != nr)
      continue;
    f->place[i].made = true;
    f->place[i].mem = *mem;
    if (before)
      f->place[i].mem = (struct slab_mem){
          .base = (char *)mem->base - mem->dev_off, .bytes = mem->dev_off, .fd = -1, .unit = UINT32_MAX};
    place_try(f, i, stat_read(&f->taken));
  }
}

static void forget(struct fault_dev *f, uint32_t i)
{
  struct fault_bad *b = &f->bad[i];
  if (b->real)
    inject_forget((const char *)b->base + b->off, b->len);
  else
    stat_set(&f->tales, f->tales - 1);
  *b = f->bad[--f->bad_n];
}

void fault_slab_gone(struct fault_dev *f, const struct slab_mem *mem)
{
  LOCKED(&f->lock);
  for (uint32_t i = 0; i < f->script.places; i++)
    if (f->place[i].made && f->place[i].mem.unit == mem->unit && f->place[i].mem.dev_off == mem->dev_off)
      f->place[i].made = false;
  /* a device that is mapped whole stays bad where it is */
  if (f->dev.caps.isolation != DEV_PER_SLAB)
    return;
  for (uint32_t i = f->bad_n; i > 0; i--)
    if (same_slab(&f->bad[i - 1], mem))
      forget(f, i - 1);
}

void fault_forget_all(struct fault_dev *f)
{
  LOCKED(&f->lock);
  while (f->bad_n)
    forget(f, f->bad_n - 1);
}

uint64_t fault_good(struct fault_dev *f, const struct slab_mem *mem, uint64_t off, uint64_t len)
{
  if (!stat_read(&f->tales))
    return len;
  LOCKED(&f->lock);
  for (uint32_t i = 0; i < f->bad_n; i++) {
    const struct fault_bad *b = &f->bad[i];
    /* by place on the device: a slab made anew there meets it, too */
    uint64_t at = b->off;
    bool here = same_slab(b, mem);
    if (!here && f->dev.caps.isolation != DEV_PER_SLAB && b->dev_off + b->off >= mem->dev_off) {
      at = b->dev_off + b->off - mem->dev_off;
      here = true;
    }
    if (here && !b->real && range_overlaps(at, b->len, off, len))
      len = at > off ? at - off : 0;
  }
  return len;
}
