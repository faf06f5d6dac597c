/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kit/poison.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace kit {
namespace {
struct PoisonIoctl {
  struct uffdio_range range;
  uint64_t mode;
  int64_t updated;
};
} // namespace

int poison_mapping(void *base, uint64_t len)
{
  uint64_t at = reinterpret_cast<uint64_t>(base);
  int fd = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1));
  if (fd < 0)
    return -ENOTSUP;
  struct uffdio_api api = {};
  api.api = UFFD_API;
  api.features = 1 << 14; /* UFFD_FEATURE_POISON */
  struct uffdio_register reg = {};
  reg.range = {at, len};
  reg.mode = UFFDIO_REGISTER_MODE_MISSING;
  PoisonIoctl p = {};
  p.range = {at, len};
  int r = 0;
  if (ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &reg))
    r = -ENOTSUP;
  else if (madvise(base, len, MADV_DONTNEED) || ioctl(fd, _IOWR(UFFDIO, 0x08, PoisonIoctl), &p))
    r = -errno;
  close(fd);
  return r;
}

int poison_over(const void *base, uint64_t len)
{
  int fd = memfd_create("poison", MFD_CLOEXEC);
  void *at = const_cast<void *>(base);
  int r = fd < 0 || ftruncate(fd, static_cast<off_t>(len)) ? -errno : 0;
  if (r == 0 && mmap(at, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != at)
    r = -errno;
  if (fd >= 0)
    close(fd);
  return r ? r : poison_mapping(at, len);
}
} // namespace kit
