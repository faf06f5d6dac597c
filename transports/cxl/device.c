/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One device-dax device, or a regular file that stands in for one: mapped whole and once, cut into extents.
 * Whoever holds its fd can map all of it, so it is one isolation unit and needs an owner.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "base/guard.h"
#include "include/priv/bits.h"
#include "transports/cxl/cxl_internal.h"
#include "transports/cxl/dax.h"
#include "transports/cxl/media.h"

/* A stand-in is cut like the usual device. */
#define FILE_ALIGN MIB(2)
/* Bad ranges passed over in one slab_add before it gives up. */
#define BAD_MAX 8

static int device_owner(struct dev_caps *caps, const struct dev_config *cfg, struct err *e)
{
  if (!cfg->owner || !cfg->owner[0])
    return err_set(e, -EINVAL,
                   "pool %s: %s is one isolation unit, whoever gets a slab of it can map all: set owner to one "
                   "tenant, or to \"shared\" for published cells only",
                   cfg->name, cfg->path);
  if (strlen(cfg->owner) >= sizeof caps->owner)
    return err_set(e, -EINVAL, "pool %s: owner is longer than %zu bytes", cfg->name, sizeof caps->owner - 1);
  if (!strcmp(cfg->owner, "shared")) {
    caps->isolation = DEV_SHARED;
  } else {
    caps->isolation = DEV_PRIVATE;
    snprintf(caps->owner, sizeof caps->owner, "%s", cfg->owner);
  }
  return 0;
}

/* Size and align of what fd is; sets caps.emulated. */
static int device_shape(const struct cxl_dev *d, const struct stat *st, struct err *e, uint64_t *ret_size,
                        uint64_t *ret_align, bool *ret_emulated)
{
  if (S_ISCHR(st->st_mode)) {
    struct dax_info info;
    int rc = dax_lookup(st, e, &info);
    if (!rc)
      rc = dax_usable(&info, e);
    if (rc)
      return rc;
    *ret_size = info.size;
    *ret_align = info.align;
    *ret_emulated = false;
    return 0;
  }
  struct statfs fs;
  if (fstatfs(d->fd, &fs))
    return err_set(e, -errno, "%s: %s", d->path, strerror(errno));
  *ret_size = (uint64_t)st->st_size;
  *ret_align = FILE_ALIGN;
  if (is_pow2_u64((uint64_t)fs.f_bsize) && (uint64_t)fs.f_bsize > FILE_ALIGN)
    *ret_align = (uint64_t)fs.f_bsize; /* hugetlbfs with larger pages */
  *ret_emulated = true;
  return 0;
}

__attribute__((format(printf, 2, 3))) static void note_add(struct dev_caps *caps, const char *format, ...)
{
  size_t n = caps->emulated ? 0 : strnlen(caps->note, sizeof caps->note - 1);
  if (n)
    n += (size_t)snprintf(caps->note + n, sizeof caps->note - n, "; ");
  n = MIN_OF(n, sizeof caps->note - 1);
  caps->aside = false;
  va_list args;
  va_start(args, format);
  vsnprintf(caps->note + n, sizeof caps->note - n, format, args);
  va_end(args);
}

/* What the kernel knows to be bad goes into d->bad; what it does not say is found by who touches it. */
static void device_bad(struct cxl_dev *d, const struct stat *st)
{
  struct dev_caps *caps = &d->addr.dev.caps;
  char dir[64];
  struct media_news w;
  if (!S_ISCHR(st->st_mode))
    return;
  snprintf(dir, sizeof dir, "/sys/dev/char/%u:%u", major(st->st_rdev), minor(st->st_rdev));
  d->bad_n = media_known_bad(&media_kernel, dir, d->mapped, &w, d->bad);
  if (w.blocks < 0 && w.blocks != -ENOENT)
    snprintf(caps->note, sizeof caps->note, "known bad memory cannot be listed: %.110s", w.why_blocks.text);
  /* the devices' own lists know what nobody has touched yet */
  if (w.lists < 0 && w.lists != -ENOENT) {
    bool alone = !caps->note[0] || caps->emulated;
    note_add(caps, "the CXL poison list is not read: %.110s", w.why_lists.text);
    caps->aside = alone; /* nobody asked for it: it is as with a device that keeps none */
  }
  if (w.lists >= 0 && (w.list.cut || w.list.homeless))
    note_add(caps, "the CXL poison list has more than could be placed (%u of %u records have no address%s)",
             w.list.homeless, w.list.records, w.list.cut ? ", and it was cut" : "");
}

/* Bad units are taken out for good. */
static void device_leave_out(struct cxl_dev *d)
{
  struct dev_caps *caps = &d->addr.dev.caps;
  if (!d->bad_n)
    return;
  uint64_t before = d->map.used;
  dax_bad_leave_out(&d->map, caps->unit, d->bad, d->bad_n);
  if (!caps->persistent)
    caps->capacity -= (d->map.used - before) * caps->unit;
  note_add(caps, "%u pieces of known bad memory are left out", d->bad_n);
}

static int device_map(struct cxl_dev *d, const struct dev_config *cfg, struct err *e)
{
  struct stat st;
  uint64_t size = 0, align = 0;
  bool emulated = false;
  if (fstat(d->fd, &st))
    return err_set(e, -errno, "%s: %s", d->path, strerror(errno));
  int rc = device_shape(d, &st, e, &size, &align, &emulated);
  if (rc)
    return rc;
  /* the kernel checks neither offset nor end of a dax mapping: what is used lies inside, by our own count */
  uint64_t want = cfg->capacity ? cfg->capacity : size;
  if (want > size)
    return err_set(e, -ENOSPC, "%s: capacity %llu, the %s has %llu: lower capacity%s", d->path,
                   (unsigned long long)want, emulated ? "file" : "device", (unsigned long long)size,
                   emulated ? " or grow it with truncate -s" : "");
  uint64_t unit = cfg->keep ? MAX_OF(align, KEEP_UNIT_MIN) : align;
  want &= ~(unit - 1);
  if (!want)
    return err_set(e, -EINVAL, "%s: %llu bytes are less than one unit of %llu%s", d->path, (unsigned long long)size,
                   (unsigned long long)align, emulated ? ": make it with truncate -s" : "");
  void *base = mmap(NULL, want, PROT_READ | PROT_WRITE, MAP_SHARED, d->fd, 0);
  if (base == MAP_FAILED)
    return err_set(e, -errno, "%s: mapping %llu bytes: %s", d->path, (unsigned long long)want, strerror(errno));
  d->base = base;
  d->mapped = want;
  rc = extent_map_init(&d->map, want / unit, 0);
  d->bad = calloc(DAX_BAD_MAX, sizeof *d->bad);
  if (rc || !d->bad)
    return err_set(e, rc ? rc : -ENOMEM, "%s: %s", d->path, strerror(rc ? -rc : ENOMEM));
  struct dev_caps *caps = &d->addr.dev.caps;
  caps->capacity = want;
  caps->unit = unit;
  caps->emulated = emulated;
  if (emulated)
    snprintf(caps->note, sizeof caps->note, "emulated: a file stands in for a CXL device");
  device_bad(d, &st);
  rc = cfg->keep ? cxl_keep_open(d, cfg, size, align, e) : cxl_device_wipe(d, size, align, e);
  if (!rc)
    device_leave_out(d);
  free(take_ptr(&d->bad));
  return rc;
}

int cxl_device_open(struct cxl_dev *d, const struct dev_config *cfg, struct err *e)
{
  if (cfg->coherence == DEV_SOFTWARE && !cfg->keep)
    return err_set(e, -EINVAL, "pool %s: coherence: software needs a directory on the device: set keep: yes",
                   cfg->name);
  d->addr.dev.caps.incoherent = cfg->coherence != DEV_COHERENT;
  int rc = device_owner(&d->addr.dev.caps, cfg, e);
  if (rc)
    return rc;
  d->fd = open(d->path, O_RDWR | O_CLOEXEC);
  if (d->fd < 0) {
    rc = -errno;
    if (rc == -ENXIO)
      return err_set(e, -ENODEV,
                     "%s: not bound to device_dax (system-ram mode, or disabled): run `daxctl reconfigure-device "
                     "--mode=devdax %s`",
                     d->path, strrchr(d->path, '/') ? strrchr(d->path, '/') + 1 : d->path);
    return err_set(e, rc, "%s: %s%s", d->path, strerror(-rc),
                   rc == -EACCES ? ": the mover's user needs read and write" : "");
  }
  rc = cxl_lock(d->fd, d->path, e);
  if (rc)
    return rc;
  /* by the open file, not by name: the path may lead elsewhere by now */
  char self[64];
  snprintf(self, sizeof self, "/proc/self/fd/%d", d->fd);
  d->ro_fd = open(self, O_RDONLY | O_CLOEXEC);
  if (d->ro_fd < 0)
    return err_set(e, -errno, "%s: read-only open for engines: %s", d->path, strerror(errno));
  return device_map(d, cfg, e);
}

void cxl_device_close(struct cxl_dev *d)
{
  if (d->base)
    munmap(d->base, d->mapped);
  d->base = NULL;
  d->keep.base = NULL;
  free(take_ptr(&d->bad));
  extent_map_deinit(&d->map);
  close_fd(&d->ro_fd);
}

/* Nothing else ever zeroes a device. A range that fails while it is zeroed stays taken: never used again. */
int cxl_device_slab_add(struct cxl_dev *d, uint64_t bytes, struct err *e, struct slab_mem *ret_mem)
{
  uint64_t unit = d->addr.dev.caps.unit;
  for (unsigned bad = 0; bad <= BAD_MAX; bad++) {
    uint64_t at;
    {
      LOCKED(&d->lock);
      int rc = extent_alloc(&d->map, bytes / unit, &at);
      if (rc)
        return err_set(e, rc, "%s: no free range of %llu bytes (%llu of %llu in use%s)", d->path,
                       (unsigned long long)bytes, (unsigned long long)(d->map.used * unit),
                       (unsigned long long)d->mapped, bad ? ", bad memory passed over" : "");
    }
    uint64_t off = at * unit;
    struct slab_mem mem = {.bytes = bytes,
                           .dev_off = off,
                           .base = (char *)d->base + off,
                           .fd = d->ro_fd,
                           .fd_off = off,
                           .unit = (uint32_t)at};
    struct guard_hit hit;
    if (!cxl_zero(mem.base, bytes, &hit)) {
      if (d->keep.base && keep_forget(&d->keep, &mem) == -EIO) {
        LOCKED(&d->lock);
        extent_free(&d->map, at, bytes / unit);
        return err_set(e, -EIO, "%s: no memory behind its directory: unplugged?", d->path);
      }
      *ret_mem = mem;
      return 0;
    }
    if (hit.kind == GUARD_LOST) {
      LOCKED(&d->lock);
      extent_free(&d->map, at, bytes / unit);
      return err_set(e, d->addr.dev.caps.emulated ? -ENOSPC : -EIO, "%s: no memory behind offset %llu: %s", d->path,
                     (unsigned long long)off,
                     d->addr.dev.caps.emulated ? "its file system is full, or the file was cut" : "unplugged?");
    }
  }
  return err_set(e, -EIO, "%s: %u poisoned ranges one after the other: see `daxctl`/`cxl` poison lists", d->path,
                 BAD_MAX + 1);
}

void cxl_device_slab_del(struct cxl_dev *d, struct slab_mem *mem)
{
  if (d->keep.base)
    (void)keep_forget(&d->keep, mem);
  LOCKED(&d->lock);
  extent_free(&d->map, mem->dev_off / d->addr.dev.caps.unit, mem->bytes / d->addr.dev.caps.unit);
}
