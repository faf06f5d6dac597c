/* SPDX-License-Identifier: Apache-2.0 */
/* The cxl transport: chooses by what path is, then copies by the CPU like memory. */
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <dray/types.h>

#include "include/priv/bits.h"
#include "transports/cxl/cxl_internal.h"
#include "transports/stub.h"

int cxl_lock(int fd, const char *path, struct err *e)
{
  /* O_EXCL excludes nobody on a dax device, so the lock is our own convention */
  if (!flock(fd, LOCK_EX | LOCK_NB))
    return 0;
  if (errno == EWOULDBLOCK)
    return err_set(e, -EBUSY, "%s: another mover has it: stop that one, or set another path", path);
  return err_set(e, -errno, "%s: lock: %s", path, strerror(errno));
}

static void cxl_close(struct dev *dev)
{
  struct cxl_dev *d = cxl_of(dev);
  cxl_device_close(d);
  close_fd(&d->fd); /* last: it holds the lock */
  addr_dev_deinit(&d->addr);
  pthread_mutex_destroy(&d->lock);
  free(d->path);
  free(d);
}

static int cxl_open(const struct dev_config *cfg, struct err *e, struct dev **ret_dev)
{
  if (!cfg->path || !cfg->path[0])
    return err_set(e, -EINVAL, "pool %s: set path to a dax device, a file or a directory", cfg->name);
  struct cxl_dev *d = calloc(1, sizeof *d);
  if (!d)
    return err_set(e, -ENOMEM, "pool %s: out of memory", cfg->name);
  d->fd = d->ro_fd = -1;
  pthread_mutex_init(&d->lock, NULL);
  struct dev *dev = &d->addr.dev;
  dev->cold = transport_cxl.cold;
  dev->hot = &hot_dummy;
  dev->caps = (struct dev_caps){.align = 1, .addressable = true};
  d->addr.copy_flags = COPY_FRAGILE;
  d->path = strdup(cfg->path);
  int rc = d->path ? addr_dev_init(&d->addr, cfg->lanes, cfg->copy) : -ENOMEM;
  if (rc) {
    err_set(e, rc, "pool %s: %u lanes: %s", cfg->name, cfg->lanes, strerror(-rc));
    cxl_close(dev);
    return rc;
  }
  struct stat st;
  size_t len = strlen(cfg->path);
  if (!stat(cfg->path, &st)) {
    if (S_ISDIR(st.st_mode))
      rc = cxl_directory_open(d, cfg, e);
    else if (S_ISCHR(st.st_mode) || S_ISREG(st.st_mode))
      rc = cxl_device_open(d, cfg, e);
    else
      rc = err_set(e, -EINVAL, "pool %s: %s is neither a dax device nor a file nor a directory", cfg->name, cfg->path);
  } else if (errno == ENOENT && strncmp(cfg->path, "/dev/dax", 8) && (cfg->capacity || cfg->path[len - 1] == '/')) {
    rc = cxl_directory_open(d, cfg, e); /* a path that is not there yet becomes a directory */
  } else {
    rc = err_set(e, -errno, "pool %s: %s: %s%s", cfg->name, cfg->path, strerror(errno),
                 errno == ENOENT ? ": set path to a device of `daxctl list`, or set capacity for a new directory" : "");
  }
  if (rc) {
    cxl_close(dev);
    return rc;
  }
  *ret_dev = dev;
  return 0;
}

static int cxl_slab_add(struct dev *dev, uint64_t bytes, struct err *e, struct slab_mem *ret_mem)
{
  struct cxl_dev *d = cxl_of(dev);
  if (!bytes || !is_aligned(bytes, dev->caps.unit) || bytes > INT64_MAX)
    return err_set(e, -EINVAL, "%s: slab of %llu bytes: not a multiple of %llu", d->path, (unsigned long long)bytes,
                   (unsigned long long)dev->caps.unit);
  if (d->detached)
    return err_set(e, -ENODEV, "%s: drained: restart the mover to use it again", d->path);
  if (dev->caps.persistent && !d->scanned)
    return err_set(e, -EINVAL, "%s: what is there has not been looked at", d->path);
  if (d->base)
    return cxl_device_slab_add(d, bytes, e, ret_mem);
  return cxl_directory_slab_add(d, bytes, e, ret_mem);
}

static void cxl_slab_del(struct dev *dev, struct slab_mem *mem, bool lent)
{
  struct cxl_dev *d = cxl_of(dev);
  (void)lent; /* a device has one owner and is zeroed at every slab_add; a directory's files are never reused */
  if (d->base)
    cxl_device_slab_del(d, mem);
  else
    cxl_directory_slab_del(d, mem);
  mem->base = NULL;
  mem->fd = -1;
}

static int cxl_detach(struct dev *dev)
{
  struct cxl_dev *d = cxl_of(dev);
  LOCKED(&d->lock);
  d->detached = true;
  cxl_device_close(d); /* a directory has no mapping of its own, and its lock is all there is to let go of */
  close_fd(&d->fd);
  return 0;
}

static int cxl_start(struct dev *dev, struct err *e)
{
  struct cxl_dev *d = cxl_of(dev);
  int rc = addr_dev_start(dev, e);
  if (!rc && d->keep.lines) {
    cxl_hot_software(dev, &d->software);
    dev->hot = &d->software;
  }
  return rc;
}

static const struct transport_cold cxl_cold = {
    .size = sizeof(struct transport_cold),
    .name = "cxl",
    .tier_default = DRAY_TIER_CXL,
    .open = cxl_open,
    .prepare = stub_prepare,
    .start = cxl_start,
    .stop = addr_dev_stop,
    .quiesce = stub_quiesce,
    .close = cxl_close,
    .slab_add = cxl_slab_add,
    .slab_del = cxl_slab_del,
    .index_slab = cxl_index_slab,
    .index_put = cxl_index_put,
    .index_del = cxl_index_del,
    .index_expect = stub_index_expect,
    .index_scan = cxl_index_scan,
    .index_bad = cxl_index_bad,
    .index_met = cxl_index_met,
    .detach = cxl_detach,
    .paths = stub_paths,
    .memory_add = stub_memory_add,
    .memory_del = stub_memory_del,
};
const struct transport transport_cxl = {&cxl_cold, &hot_addressable};
