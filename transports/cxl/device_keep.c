/* SPDX-License-Identifier: Apache-2.0 */
/* What a mapped device is found with: wiped, or with the directory that it keeps; and its index ops. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/copy.h"
#include "base/guard.h"
#include "transports/cxl/cxl_internal.h"

struct zero_job {
  char *base;
  uint64_t bytes;
};
static int zero_run(void *ctx)
{
  const struct zero_job *j = ctx;
  copy_zero(j->base, j->bytes);
  return 0;
}

int cxl_zero(void *base, uint64_t bytes, struct guard_hit *ret_hit)
{
  struct zero_job j = {base, bytes};
  const struct guard_range range = {base, bytes};
  return guard_run(zero_run, &j, &range, 1, ret_hit);
}

/* Holes read as zero; a file that had all its pages gets them back. False: this file system has no holes. */
static bool wipe_file(const struct cxl_dev *d, uint64_t size)
{
  struct stat st;
  if (!d->addr.dev.caps.emulated || fstat(d->fd, &st) ||
      fallocate(d->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)size))
    return false;
  if ((uint64_t)st.st_blocks * 512 >= size)
    (void)fallocate(d->fd, 0, 0, (off_t)size); /* for want of space slab_add will say so */
  return true;
}

/* A whole device, past the configured capacity too: whoever gets its fd can map all of it. */
int cxl_device_wipe(struct cxl_dev *d, uint64_t size, uint64_t align, struct err *e)
{
  size &= ~(align - 1);
  if (wipe_file(d, size))
    return 0;
  char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, d->fd, 0);
  if (p == MAP_FAILED)
    return err_set(e, -errno, "%s: mapping %llu bytes to wipe them: %s", d->path, (unsigned long long)size,
                   strerror(errno));
  int rc = 0;
  for (uint64_t at = 0; rc == 0 && at < size; at += align) {
    struct guard_hit hit;
    if (!cxl_zero(p + at, align, &hit))
      continue;
    if (hit.kind == GUARD_LOST)
      rc = err_set(e, -EIO, "%s: no memory behind offset %llu: unplugged?", d->path, (unsigned long long)at);
    else if (at < d->mapped && d->bad_n < DAX_BAD_MAX)
      d->bad[d->bad_n++] = (struct dax_bad){at, align}; /* nobody can read it either */
  }
  munmap(p, size);
  d->bad_n = dax_bad_merge(d->bad, d->bad_n); /* what it met lies around what was known */
  return rc;
}

/* Units that nobody may have: the directory's own, and those known to be bad as far as no slab is there. */
static int reserve_bad(void *ctx, uint64_t off, uint64_t len, bool proven)
{
  struct cxl_dev *d = ctx;
  const struct dax_bad bad = {off, len};
  (void)proven;
  dax_bad_leave_out(&d->map, d->addr.dev.caps.unit, &bad, 1);
  return 0;
}

static void reserve_all_bad(struct cxl_dev *d)
{
  const struct index_visitor v = {.ctx = d, .bad = reserve_bad};
  uint64_t skipped = 0;
  (void)keep_scan_bad(&d->keep, &v, &skipped);
}

static bool known_bad(const struct cxl_dev *d, uint64_t bytes)
{
  for (uint32_t i = 0; i < d->bad_n; i++)
    if (d->bad[i].off < bytes)
      return true;
  return false;
}

/* The directory's memory is bad. A mover with other tiers does not stay down for that: this one begins empty and
   remembers nothing, and says so. What of it is true can no longer be told, so it is wiped; with strict it is refused
   as it is. */
static int keep_none(struct cxl_dev *d, const struct dev_config *cfg, uint64_t size, uint64_t align, bool wiped,
                     struct err *e)
{
  static const char bad[] = "the memory of its directory is bad";
  if (cfg->coherence == DEV_SOFTWARE)
    return err_set(e, -EHWPOISON, "%s: %s, and with coherence: software other hosts read by it: use another device",
                   d->path, bad);
  if (cfg->strict)
    return err_set(
        e, -EHWPOISON,
        "%s: %s, and with strict: yes a tier that would not be kept is refused%s: use another device, or set "
        "keep: no or strict: no (then all on it is wiped)",
        d->path, bad, wiped ? "" : ", as it is, nothing wiped");
  d->keep = (struct keep){.base = NULL};
  d->addr.dev.caps.aside = false;
  snprintf(d->addr.dev.caps.note, sizeof d->addr.dev.caps.note,
           "%s: begun anew, and nothing on it outlives this mover (use another device, or keep: no)", bad);
  return wiped ? 0 : cxl_device_wipe(d, size, align, e);
}

int cxl_keep_open(struct cxl_dev *d, const struct dev_config *cfg, uint64_t size, uint64_t align, struct err *e)
{
  struct dev_caps *caps = &d->addr.dev.caps;
  uint64_t units = d->mapped / caps->unit, own;
  bool lines = cfg->coherence == DEV_SOFTWARE;
  enum flush_by flush = caps->emulated ? FLUSH_NONE : flush_probe();
  if (lines) /* another host's caches are no business of this kernel's, whatever the file is */
    flush = flush_probe();
  own = keep_units(caps->unit, units, lines);
  if (own >= units)
    return err_set(e, -EINVAL, "%s: %llu bytes are too few for a directory and one unit of %llu: set keep: no", d->path,
                   (unsigned long long)d->mapped, (unsigned long long)caps->unit);
  bool known = known_bad(d, own * caps->unit);
  int rc = -ENOENT;
  if (cfg->keep == DEV_KEEP_YES)
    rc = known ? keep_look(d->base, caps->unit, units, caps->owner, lines, d->path, e)
               : keep_open(&d->keep, d->base, caps->unit, units, caps->owner, flush, lines, d->path, e);
  if (known && rc != -EINVAL) /* another's is another's also when it is bad */
    rc = -EHWPOISON;
  bool fresh = rc == -ENOENT;
  if (fresh) {
    rc = cxl_device_wipe(d, size, align, e);
    if (rc)
      return rc;
    if (known_bad(d, own * caps->unit)) /* the wipe met it; devdax would let stores through from now on */
      rc = -EHWPOISON;
    else
      rc = keep_format(&d->keep, d->base, caps->unit, units, caps->owner, flush, lines);
    if (rc == -EIO)
      err_set(e, rc, "%s: no memory behind its directory: its file system is full, or the device unplugged", d->path);
  }
  if (rc == -EHWPOISON)
    return keep_none(d, cfg, size, align, fresh, e);
  if (rc)
    return rc;
  for (uint32_t i = 0; i < d->bad_n; i++)
    (void)keep_index_bad(&d->keep, d->bad[i].off, d->bad[i].len, true);
  d->scanned = fresh;
  caps->persistent = true;
  caps->capacity = d->mapped - own * caps->unit;
  rc = extent_reserve(&d->map, 0, own);
  if (rc)
    return err_set(e, rc, "%s: %s", d->path, strerror(-rc));
  reserve_all_bad(d);
  return 0;
}

/* ---- software coherence ---- */

/* Nobody's stale line is read, nothing that was written waits in a cache. */
static int software_submit(struct dev *dev, uint32_t lane, const struct xfer *x)
{
  const struct cxl_dev *d = cxl_of(dev);
  char *at = x->slab ? (char *)x->slab->base + x->slab_off : NULL;
  if (x->op == XFER_READ)
    (void)keep_flush(d->keep.flush, at, x->bytes, true); /* what is bad is met by the copy */
  int rc = hot_addressable.submit(dev, lane, x);
  if (!rc && x->op == XFER_WRITE)
    (void)keep_flush(d->keep.flush, at, x->bytes, false);
  return rc;
}

void cxl_hot_software(const struct dev *dev, struct transport_hot *ret_hot)
{
  (void)dev;
  *ret_hot = hot_addressable;
  ret_hot->submit = software_submit;
}

/* ---- ops ---- */

int cxl_index_slab(struct dev *dev, const struct slab_mem *mem, uint64_t slot_bytes, uint32_t slots, const char *tenant,
                   const char *agent, uint8_t scope)
{
  struct cxl_dev *d = cxl_of(dev);
  return d->keep.base ? keep_index_slab(&d->keep, mem, slot_bytes, slots, tenant, agent, scope) : -ENOTSUP;
}

int cxl_index_put(struct dev *dev, const struct slab_mem *mem, uint32_t slot, const struct index_entry *e)
{
  struct cxl_dev *d = cxl_of(dev);
  return d->keep.base ? keep_index_put(&d->keep, mem, slot, e) : -ENOTSUP;
}

void cxl_index_del(struct dev *dev, const struct slab_mem *mem, uint32_t slot)
{
  struct cxl_dev *d = cxl_of(dev);
  if (d->keep.base)
    keep_index_del(&d->keep, mem, slot);
}

int cxl_index_met(struct dev *dev, uintptr_t addr, uint64_t unit)
{
  struct cxl_dev *d = cxl_of(dev);
  LOCKED(&d->lock); /* a drain may be letting go of it */
  if (!d->keep.base || !is_pow2_u64(unit) ||
      !range_overlaps((uintptr_t)d->keep.base, d->keep.own * d->keep.unit, addr & ~(unit - 1), unit))
    return 0;
  keep_give_up(&d->keep);
  return -EHWPOISON;
}

int cxl_index_bad(struct dev *dev, uint64_t dev_off, uint64_t len, bool proven)
{
  struct cxl_dev *d = cxl_of(dev);
  return d->keep.base ? keep_index_bad(&d->keep, dev_off, len, proven) : -ENOTSUP;
}

/* A slab that the directory speaks of takes its place. */
static int make_found(void *ctx, struct slab_mem *mem)
{
  struct cxl_dev *d = ctx;
  uint64_t unit = d->addr.dev.caps.unit;
  LOCKED(&d->lock);
  int rc = extent_reserve(&d->map, mem->dev_off / unit, mem->bytes / unit);
  if (rc)
    return rc;
  mem->base = (char *)d->base + mem->dev_off;
  mem->fd = d->ro_fd;
  mem->fd_off = mem->dev_off;
  return 0;
}

int cxl_index_scan(struct dev *dev, const struct index_visitor *v, uint64_t *ret_skipped)
{
  struct cxl_dev *d = cxl_of(dev);
  const struct keep_place place = {.ctx = d, .make = make_found};
  if (d->detached) { /* by an earlier worker's drain */
    *ret_skipped = 0;
    return 0;
  }
  if (!d->keep.base)
    return -ENOTSUP;
  if (keep_holds(&d->keep)) { /* an earlier worker found its memory bad: what it says may be out of date */
    extent_map_reset(&d->map);
    int own = extent_reserve(&d->map, 0, d->keep.own); /* first: a bad row may lie in it */
    reserve_all_bad(d);
    *ret_skipped = 0;
    d->scanned = true;
    return own ? -EINVAL : -EHWPOISON;
  }
  extent_map_reset(&d->map);
  int rc = extent_reserve(&d->map, 0, d->keep.own);
  rc = rc ? rc : keep_scan(&d->keep, &place, v, ret_skipped);
  reserve_all_bad(d);
  d->scanned = true;
  return rc;
}
