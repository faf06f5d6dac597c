/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file transport: a directory with dray.index and segment files. Slabs are extents of one segment each; no fd
 * ever leaves the mover. Bytes go by io_uring, by a pread pool where that is refused, or by the CPU on tmpfs.
 */
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <dray/types.h>

#include "base/guard.h"
#include "include/priv/bits.h"
#include "transports/file/file_internal.h"
#include "transports/file/op.h"
#include "transports/file/status.h"
#include "transports/stub.h"

static void file_close(struct dev *dev)
{
  struct file_dev *d = file_of(dev);
  uring_close(d);
  pool_close(d);
  segments_close(&d->seg);
  extent_map_deinit(&d->map);
  close_fd(&d->dir);
  index_close(&d->index); /* last: it holds the lock */
  addr_dev_deinit(&d->addr);
  pthread_mutex_destroy(&d->lock);
  free(d->durable);
  free(d->path);
  free(d);
}

static int check_config(const struct dev_config *cfg, struct err *e)
{
  if (!cfg->path || !cfg->path[0])
    return err_set(e, -EINVAL, "pool %s: set path to a directory", cfg->name);
  if (cfg->capacity < INDEX_UNIT)
    return err_set(e, -EINVAL, "pool %s: capacity %llu is less than one unit of 1 MiB: set capacity", cfg->name,
                   (unsigned long long)cfg->capacity);
  if (cfg->capacity / INDEX_UNIT > UINT32_MAX)
    return err_set(e, -EINVAL, "pool %s: capacity %llu is more than 4 PiB", cfg->name,
                   (unsigned long long)cfg->capacity);
  if (cfg->depth < 1 || cfg->depth > 1024)
    return err_set(e, -EINVAL, "pool %s: depth %u is not in 1..1024", cfg->name, cfg->depth);
  return 0;
}

/* Opens the directory; says whether it is to be mapped. */
static int directory_open(struct file_dev *d, struct err *e)
{
  struct statfs fs;
  if (mkdir(d->path, 0700) && errno != EEXIST)
    return err_set(e, -errno, "%s: cannot be made: %s", d->path, strerror(errno));
  d->dir = open(d->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (d->dir < 0 || fstatfs(d->dir, &fs))
    return err_set(e, -errno, "%s: %s", d->path, strerror(errno));
  if (fs.f_type == HUGETLBFS_MAGIC)
    return err_set(e, -EINVAL, "%s: hugetlbfs cannot hold an index (no write): use tmpfs, or a cxl pool on it",
                   d->path);
  d->mode = fs.f_type == TMPFS_MAGIC ? FILE_MAPPED : FILE_URING;
  return 0;
}

static int files_open(struct file_dev *d, const struct dev_config *cfg, struct err *e)
{
  uint64_t capacity = cfg->capacity & ~(INDEX_UNIT - 1);
  int rc = index_open(&d->index, d->dir, d->path, capacity, MIN_OF(capacity, SEGMENT_MAX_BYTES), e);
  if (rc)
    return rc;
  bool direct = !cfg->buffered && d->mode != FILE_MAPPED;
  rc = segments_open(&d->seg, d->dir, d->path, capacity, direct, e);
  if (rc)
    return rc;
  struct dev_caps *caps = &d->addr.dev.caps;
  if (direct && !d->seg.direct)
    status_note(caps, "no O_DIRECT on this file system: buffered");
  d->durable = calloc(d->seg.n, sizeof *d->durable);
  if (!d->durable)
    return err_set(e, -ENOMEM, "%s: out of memory", d->path);
  /* what an earlier mover wrote may not be durable yet */
  for (uint32_t i = 0; i < file_count(d) && !d->index.fresh; i++)
    durable_wrote(file_durable(d, i));
  caps->capacity = capacity;
  caps->unit = INDEX_UNIT;
  d->scanned = d->index.fresh;
  rc = extent_map_init(&d->map, capacity / INDEX_UNIT, d->seg.bytes / INDEX_UNIT);
  return rc ? err_set(e, rc, "%s: %s", d->path, strerror(-rc)) : 0;
}

/* The way the bytes go. */
static int engine_open(struct file_dev *d, const struct dev_config *cfg, struct err *e)
{
  struct dev_caps *caps = &d->addr.dev.caps;
  if (d->mode == FILE_MAPPED) {
    caps->addressable = true;
    caps->align = 1;
    status_note(caps, "on tmpfs: mapped and copied by the CPU, gone with a reboot");
    return 0;
  }
  caps->align = OP_ALIGN;
  caps->asynchronous = true;
  int rc = -ENOSYS;
  if (cfg->no_uring) {
    status_note(caps, "io_uring off by configuration: pread/pwrite pool");
  } else {
    rc = uring_open(d, cfg);
    if (!rc)
      return 0;
    status_note(caps, "io_uring refused (%s): pread/pwrite pool", strerrorname_np(-rc) ? strerrorname_np(-rc) : "?");
  }
  d->mode = FILE_POOL;
  rc = pool_open(d, cfg);
  return rc ? err_set(e, rc, "%s: I/O threads: %s", d->path, strerror(-rc)) : 0;
}

static int file_open(const struct dev_config *cfg, struct err *e, struct dev **ret_dev)
{
  int rc = check_config(cfg, e);
  if (rc)
    return rc;
  struct file_dev *d = calloc(1, sizeof *d);
  if (!d)
    return err_set(e, -ENOMEM, "pool %s: out of memory", cfg->name);
  struct dev *dev = &d->addr.dev;
  d->dir = d->index.fd = -1;
  pthread_mutex_init(&d->lock, NULL);
  dev->cold = transport_file.cold;
  dev->hot = &hot_dummy;
  dev->caps = (struct dev_caps){.persistent = true, .isolation = DEV_HIDDEN};
  d->path = strdup(cfg->path);
  rc = d->path ? addr_dev_init(&d->addr, cfg->lanes, cfg->copy) : -ENOMEM;
  if (rc)
    err_set(e, rc, "pool %s: %u lanes: %s", cfg->name, cfg->lanes, strerror(-rc));
  if (!rc)
    rc = directory_open(d, e);
  if (!rc)
    rc = files_open(d, cfg, e);
  if (!rc)
    rc = engine_open(d, cfg, e);
  if (rc) {
    file_close(dev);
    return rc;
  }
  *ret_dev = dev;
  return 0;
}

static int file_start(struct dev *dev, struct err *e)
{
  struct file_dev *d = file_of(dev);
  int rc;
  switch (d->mode) {
  case FILE_URING:
    rc = uring_start(d);
    break;
  case FILE_POOL:
    rc = pool_start(d);
    break;
  default:
    rc = addr_dev_start(dev, e);
  }
  return rc ? err_set(e, rc, "%s: start: %s", d->path, strerror(-rc)) : 0;
}

static void file_stop(struct dev *dev)
{
  struct file_dev *d = file_of(dev);
  if (d->mode == FILE_POOL)
    pool_stop(d);
  dev->hot = &hot_dummy;
}

static int file_quiesce(struct dev *dev, uint32_t deadline_ms)
{
  struct file_dev *d = file_of(dev);
  d->scanned = false; /* the worker added slabs that this process knows nothing of */
  for (uint32_t i = 0; i < file_count(d); i++)
    durable_wrote(file_durable(d, i)); /* and wrote what it never synced */
  if (d->mode == FILE_URING)
    return uring_quiesce(d, deadline_ms);
  return d->mode == FILE_POOL ? pool_quiesce(d) : 0;
}

/* FILE_MAPPED: the slab's piece of its segment. */
static int slab_map(struct file_dev *d, struct slab_mem *mem)
{
  mem->fd = -1;
  if (d->mode != FILE_MAPPED)
    return 0;
  void *p = mmap(NULL, mem->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, d->seg.fd[segment_of(&d->seg, mem->dev_off)],
                 (off_t)segment_off(&d->seg, mem->dev_off));
  if (p == MAP_FAILED)
    return -ENOMEM;
  mem->base = p;
  return 0;
}

static int slab_take(struct file_dev *d, uint64_t bytes, struct err *e, uint64_t *ret_at)
{
  LOCKED(&d->lock);
  if (!d->scanned)
    return err_set(e, -EINVAL, "%s: slab_add before index_scan would overwrite what is there", d->path);
  int rc = extent_alloc(&d->map, bytes / INDEX_UNIT, ret_at);
  if (rc == -EINVAL)
    return err_set(e, rc, "%s: slab of %llu bytes: longer than a segment of %llu", d->path, (unsigned long long)bytes,
                   (unsigned long long)d->seg.bytes);
  if (rc)
    return err_set(e, rc, "%s: no free range of %llu bytes (%llu of capacity %llu in use)", d->path,
                   (unsigned long long)bytes, (unsigned long long)(d->map.used * INDEX_UNIT),
                   (unsigned long long)d->addr.dev.caps.capacity);
  return 0;
}

static void slab_give(struct file_dev *d, uint64_t at, uint64_t bytes)
{
  LOCKED(&d->lock);
  extent_free(&d->map, at, bytes / INDEX_UNIT);
}

static int file_slab_add(struct dev *dev, uint64_t bytes, struct err *e, struct slab_mem *ret_mem)
{
  struct file_dev *d = file_of(dev);
  uint64_t at;
  if (!bytes || !is_aligned(bytes, INDEX_UNIT))
    return err_set(e, -EINVAL, "%s: slab of %llu bytes: not a multiple of 1 MiB", d->path, (unsigned long long)bytes);
  int rc = slab_take(d, bytes, e, &at);
  if (rc)
    return rc;
  struct slab_mem mem = {.bytes = bytes, .dev_off = at * INDEX_UNIT, .fd = -1, .unit = (uint32_t)at};
  segments_release(&d->seg, mem.dev_off, bytes); /* an unclean end may have left bytes: it reads as zero */
  rc = index_reserve(&d->index, at, bytes / INDEX_UNIT);
  if (!rc) {
    rc = segments_reserve(&d->seg, mem.dev_off, bytes);
    if (!rc)
      rc = slab_map(d, &mem);
    if (rc) {
      segments_release(&d->seg, mem.dev_off, bytes);
      index_release(&d->index, at, bytes / INDEX_UNIT);
    }
  }
  if (rc) {
    slab_give(d, at, bytes);
    return err_set(e, rc, "%s: disk space for a slab of %llu bytes: %s%s", d->path, (unsigned long long)bytes,
                   strerror(-rc), rc == -ENOSPC ? ": free some, or lower capacity" : "");
  }
  durable_wrote(&d->durable[segment_of(&d->seg, mem.dev_off)]); /* the allocation itself */
  *ret_mem = mem;
  return 0;
}

static void file_slab_del(struct dev *dev, struct slab_mem *mem, bool lent)
{
  struct file_dev *d = file_of(dev);
  (void)lent; /* never: no fd of it leaves */
  if (mem->base)
    munmap(mem->base, mem->bytes);
  mem->base = NULL;
  index_release(&d->index, mem->unit, mem->bytes / INDEX_UNIT);
  segments_release(&d->seg, mem->dev_off, mem->bytes);
  slab_give(d, mem->unit, mem->bytes);
}

static int file_index_slab(struct dev *dev, const struct slab_mem *mem, uint64_t slot_bytes, uint32_t slots,
                           const char *tenant, const char *agent, uint8_t scope)
{
  return index_write_slab(&file_of(dev)->index, mem, slot_bytes, slots, tenant, agent, scope);
}
static int file_index_put(struct dev *dev, const struct slab_mem *mem, uint32_t slot, const struct index_entry *e)
{
  return index_write_cell(&file_of(dev)->index, mem, slot, e);
}
static void file_index_expect(struct dev *dev, const struct slab_mem *mem, uint32_t slot)
{
  index_expect_cell(&file_of(dev)->index, mem, slot);
}
static void file_index_del(struct dev *dev, const struct slab_mem *mem, uint32_t slot)
{
  index_clear_cell(&file_of(dev)->index, mem, slot);
}

static int place_make(void *ctx, struct slab_mem *mem)
{
  struct file_dev *d = ctx;
  uint64_t units = mem->bytes / INDEX_UNIT;
  int rc = extent_reserve(&d->map, mem->unit, units);
  if (!rc)
    rc = slab_map(d, mem);
  return rc;
}

static int file_index_scan(struct dev *dev, const struct index_visitor *v, uint64_t *ret_skipped)
{
  struct file_dev *d = file_of(dev);
  const struct index_place place = {d, place_make};
  LOCKED(&d->lock);
  extent_map_reset(&d->map);
  int rc = index_read(&d->index, &place, v, ret_skipped);
  if (!rc)
    d->scanned = true;
  return rc;
}

static const struct transport_cold file_cold = {
    .size = sizeof(struct transport_cold),
    .name = "file",
    .tier_default = DRAY_TIER_DISK,
    .open = file_open,
    .prepare = stub_prepare,
    .start = file_start,
    .stop = file_stop,
    .quiesce = file_quiesce,
    .close = file_close,
    .slab_add = file_slab_add,
    .slab_del = file_slab_del,
    .index_slab = file_index_slab,
    .index_put = file_index_put,
    .index_del = file_index_del,
    .index_expect = file_index_expect,
    .index_scan = file_index_scan,
    .index_bad = stub_index_bad,
    .index_met = stub_index_met,
    .detach = stub_detach,
    .paths = stub_paths,
    .memory_add = stub_memory_add,
    .memory_del = stub_memory_del,
};
const struct transport transport_file = {&file_cold, &hot_uring};
