/* SPDX-License-Identifier: Apache-2.0 */
#include "transports/memory/memfd.h"

#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x8U /* 6.3 */
#endif
#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21U << 26)
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* 5.14 */
#endif

#define NODES_MAX 1024

static int memfd_open(const struct memfd_plan *p)
{
  unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  if (p->hugetlb)
    flags |= MFD_HUGETLB | MFD_HUGE_2MB;
  int fd = memfd_create(p->name, flags | MFD_NOEXEC_SEAL);
  if (fd < 0 && errno == EINVAL)
    fd = memfd_create(p->name, flags);
  return fd < 0 ? -errno : fd;
}

static int bind_node(void *base, uint64_t bytes, int32_t node)
{
  unsigned long mask[NODES_MAX / (8 * sizeof(unsigned long))] = {0};
  if (node < 0)
    return 0;
  if (node >= NODES_MAX)
    return -EINVAL;
  unsigned bits = 8 * sizeof mask[0];
  mask[(unsigned)node / bits] = 1ul << ((unsigned)node % bits);
  return syscall(SYS_mbind, base, bytes, MPOL_BIND, mask, (unsigned long)NODES_MAX + 1, 0) ? -errno : 0;
}

/* All pages now: a page that is missing is an error here and a SIGBUS later, and a first touch costs
   a hundred times a copy. */
static int populate(int fd, void *base, uint64_t bytes)
{
  if (!madvise(base, bytes, MADV_POPULATE_WRITE))
    return 0;
  if (errno == EINVAL) /* before 5.14 */
    return fallocate(fd, 0, 0, (off_t)bytes) ? -errno : 0;
  return errno == EFAULT ? -ENOMEM : -errno;
}

int memfd_make(const struct memfd_plan *p, uint64_t bytes, int *ret_fd, void **ret_base)
{
  CLEAN_FD fd = memfd_open(p);
  if (fd < 0)
    return fd;
  if (bytes > INT64_MAX || ftruncate(fd, (off_t)bytes))
    return -ENOMEM;
  void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED)
    return -ENOMEM;
  int rc = bind_node(base, bytes, p->numa_node);
  if (!rc && p->thp && !p->hugetlb)
    (void)madvise(base, bytes, MADV_HUGEPAGE); /* a wish: the kernel may be set to never */
  if (!rc)
    rc = populate(fd, base, bytes);
  if (!rc && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL))
    rc = -errno;
  if (!rc && fchmod(fd, 0400))
    rc = -errno;
  if (rc) {
    munmap(base, bytes);
    return rc == -ENOSPC ? -ENOMEM : rc;
  }
  *ret_base = base;
  *ret_fd = take_fd(&fd);
  return 0;
}
