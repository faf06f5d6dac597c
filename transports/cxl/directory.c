/* SPDX-License-Identifier: Apache-2.0 */
/* A directory (tmpfs, hugetlbfs, famfs): one nameless file per slab, so that each slab is isolated by its fd. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "include/priv/bits.h"
#include "transports/cxl/cxl_internal.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

int cxl_directory_open(struct cxl_dev *d, const struct dev_config *cfg, struct err *e)
{
  struct statfs fs;
  if (!cfg->capacity)
    return err_set(e, -EINVAL, "pool %s: the directory %s has no size of its own: set capacity", cfg->name, d->path);
  if (mkdir(d->path, 0700) && errno != EEXIST)
    return err_set(e, -errno, "%s: cannot be made: %s", d->path, strerror(errno));
  d->fd = open(d->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (d->fd < 0 || fstatfs(d->fd, &fs))
    return err_set(e, -errno, "%s: %s", d->path, strerror(errno));
  int rc = cxl_lock(d->fd, d->path, e);
  if (rc)
    return rc;
  struct dev_caps *caps = &d->addr.dev.caps;
  uint64_t bsize = (uint64_t)fs.f_bsize;
  caps->unit = is_pow2_u64(bsize) && bsize > PAGE_BYTES ? bsize : PAGE_BYTES;
  caps->capacity = cfg->capacity & ~(caps->unit - 1);
  caps->isolation = DEV_PER_SLAB;
  caps->emulated = true;
  snprintf(caps->note, sizeof caps->note, "emulated: files in a directory stand in for a CXL device");
  if (!caps->capacity)
    return err_set(e, -EINVAL, "pool %s: capacity is less than one page of %llu", cfg->name,
                   (unsigned long long)caps->unit);
  return 0;
}

/* A file without a name. File systems that lack O_TMPFILE: a name for a moment. */
static int nameless_file(int dir)
{
  int fd = openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT && errno != EINVAL))
    return fd < 0 ? -errno : fd;
  for (unsigned tries = 0; tries < 16; tries++) {
    uint64_t r;
    char name[48];
    if (getrandom(&r, sizeof r, 0) != sizeof r)
      return -EIO;
    snprintf(name, sizeof name, ".dray.%016llx", (unsigned long long)r);
    fd = openat(dir, name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0)
      return unlinkat(dir, name, 0) ? (close(fd), -EIO) : fd;
    if (errno != EEXIST)
      return -errno;
  }
  return -EEXIST;
}

/* Room on the file system and pages in the mapping, now. */
static int fill(void *base, uint64_t bytes)
{
  if (!madvise(base, bytes, MADV_POPULATE_WRITE) || errno == EINVAL)
    return 0;
  return errno == EFAULT ? -ENOSPC : -errno;
}

static int slab_make(struct cxl_dev *d, uint64_t bytes, int *ret_ro, void **ret_base)
{
  CLEAN_FD fd = nameless_file(d->fd);
  if (fd < 0)
    return fd;
  if (fallocate(fd, 0, 0, (off_t)bytes)) {
    if (errno != EOPNOTSUPP && errno != ENOSYS)
      return -errno;
    if (ftruncate(fd, (off_t)bytes))
      return -errno;
  }
  if (fchmod(fd, 0400))
    return -errno;
  char self[64];
  snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
  CLEAN_FD ro = open(self, O_RDONLY | O_CLOEXEC);
  if (ro < 0)
    return -errno;
  void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED)
    return -errno;
  int rc = fill(base, bytes);
  if (rc) {
    munmap(base, bytes);
    return rc;
  }
  *ret_base = base;
  *ret_ro = take_fd(&ro);
  return 0;
}

int cxl_directory_slab_add(struct cxl_dev *d, uint64_t bytes, struct err *e, struct slab_mem *ret_mem)
{
  uint64_t capacity = d->addr.dev.caps.capacity;
  uint32_t unit;
  {
    LOCKED(&d->lock);
    if (!range_inside(d->used, bytes, capacity))
      return err_set(e, -ENOSPC, "%s: slab of %llu bytes, %llu of capacity %llu in use", d->path,
                     (unsigned long long)bytes, (unsigned long long)d->used, (unsigned long long)capacity);
    d->used += bytes;
    unit = d->next_unit++;
  }
  int fd = -1;
  void *base = NULL;
  int rc = slab_make(d, bytes, &fd, &base);
  if (rc) {
    LOCKED(&d->lock);
    d->used -= bytes;
    return err_set(e, rc, "%s: slab file of %llu bytes: %s%s", d->path, (unsigned long long)bytes, strerror(-rc),
                   rc == -ENOSPC ? ": its file system is smaller than capacity" : "");
  }
  *ret_mem = (struct slab_mem){.bytes = bytes, .base = base, .fd = fd, .unit = unit};
  return 0;
}

void cxl_directory_slab_del(struct cxl_dev *d, struct slab_mem *mem)
{
  munmap(mem->base, mem->bytes);
  close(mem->fd);
  LOCKED(&d->lock);
  d->used -= mem->bytes;
}
