/* SPDX-License-Identifier: Apache-2.0 */
#include "ring/region.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

int region_make(const char *name, uint64_t size, bool huge)
{
  if (size == 0 || size > INT64_MAX)
    return -EINVAL;
  unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING | (huge ? MFD_HUGETLB : 0);
  CLEAN_FD fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);
  if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
    fd = memfd_create(name, flags);
  if (fd < 0)
    return -errno;
  if (ftruncate(fd, (off_t)size) < 0)
    return -errno;
  return take_fd(&fd);
}

int region_seal(int fd, bool read_only)
{
  int seals = F_SEAL_SHRINK | F_SEAL_GROW | (read_only ? F_SEAL_FUTURE_WRITE : 0);
  if (fcntl(fd, F_ADD_SEALS, seals) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL) < 0)
    return -errno;
  /* the default mode 0777 lets another uid reopen it writable through /proc */
  if (fchmod(fd, read_only ? 0400 : 0600) < 0)
    return -errno;
  return 0;
}

int region_check(int fd, uint64_t size, struct err *e)
{
  int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0)
    return err_set(e, -EINVAL,
                   "region: the fd is not a memfd (F_GET_SEALS: %d); pass a memfd sealed with F_SEAL_SHRINK", errno);
  if (!(seals & F_SEAL_SHRINK))
    return err_set(e, -EPERM, "region: the memfd can still shrink under us; add F_SEAL_SHRINK before registering it");
  struct stat st;
  if (fstat(fd, &st) < 0)
    return err_set(e, -errno, "region: fstat failed");
  if (size == 0 || (uint64_t)st.st_size < size)
    return err_set(e, -EMSGSIZE, "region: need %llu bytes, the memfd has %llu", (unsigned long long)size,
                   (unsigned long long)st.st_size);
  return 0;
}

void *region_map(int fd, uint64_t off, uint64_t size, bool write, bool populate)
{
  if (size > SIZE_MAX || off > INT64_MAX) {
    errno = EINVAL;
    return NULL;
  }
  void *p = mmap(NULL, (size_t)size, PROT_READ | (write ? PROT_WRITE : 0), MAP_SHARED | (populate ? MAP_POPULATE : 0),
                 fd, (off_t)off);
  return p == MAP_FAILED ? NULL : p;
}
