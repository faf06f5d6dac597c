/* SPDX-License-Identifier: Apache-2.0 */
#include "transports/fault/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/known.h"
#include "include/priv/bits.h"
#include "include/priv/cleanup.h"

/* Linux 6.6; older headers do not know them */
#ifndef UFFD_FEATURE_POISON
#define UFFD_FEATURE_POISON (1 << 14)
#endif
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
struct inject_ioctl {
  struct uffdio_range range;
  uint64_t mode;
  int64_t updated;
};
#define INJECT_POISON _IOWR(UFFDIO, 0x08, struct inject_ioctl)
#define TRIES 64

/* Only pages that no page table has yet can be marked: they are dropped from ours (the file keeps the bytes), and
   somebody may touch them again in between. */
static int mark(int uffd, uint64_t base, uint64_t len)
{
  uint64_t at = 0;
  for (unsigned i = 0; i < TRIES && at < len; i++) {
    if (madvise((void *)(uintptr_t)(base + at), len - at, MADV_DONTNEED))
      return -errno;
    struct inject_ioctl p = {.range = {base + at, len - at}};
    if (!ioctl(uffd, INJECT_POISON, &p))
      return 0;
    if (errno != EEXIST && errno != EAGAIN)
      return errno == EINVAL || errno == ENOTTY ? -ENOTSUP : -errno;
    at += p.updated > 0 ? (uint64_t)p.updated : 0;
  }
  return at == len ? 0 : -EBUSY;
}

int inject_poison(void *base, uint64_t len, uint64_t unit)
{
  uint64_t start = (uintptr_t)base & ~(uint64_t)(PAGE_BYTES - 1);
  len = align_up((uintptr_t)base + len, PAGE_BYTES) - start;
  CLEAN_FD uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
  if (uffd < 0)
    return errno == ENOSYS || errno == EPERM || errno == EINVAL ? -ENOTSUP : -errno;
  struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_POISON | UFFD_FEATURE_SIGBUS};
  if (ioctl(uffd, UFFDIO_API, &api))
    return -ENOTSUP;
  struct uffdio_register reg = {.range = {start, len}, .mode = UFFDIO_REGISTER_MODE_MISSING};
  if (ioctl(uffd, UFFDIO_REGISTER, &reg))
    return errno == EINVAL || errno == EPERM ? -ENOTSUP : -errno;
  int rc = known_bad_add((void *)(uintptr_t)start, len, unit);
  if (rc)
    return rc;
  rc = mark(uffd, start, len);
  if (rc)
    known_bad_del((void *)(uintptr_t)start, len);
  /* the marks stay when the registration goes */
  struct uffdio_range range = reg.range;
  (void)ioctl(uffd, UFFDIO_UNREGISTER, &range);
  return rc;
}

int inject_early(void *at, uint64_t unit)
{
  siginfo_t si;
  memset(&si, 0, sizeof si);
  si.si_signo = SIGBUS;
  si.si_code = BUS_MCEERR_AO;
  si.si_addr = at;
  si.si_addr_lsb = (short)__builtin_ctzll(unit);
  /* only a thread itself may be told what else the kernel alone may say */
  return syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)syscall(SYS_gettid), SIGBUS, &si) ? -errno : 0;
}

void inject_forget(const void *base, uint64_t len)
{
  known_bad_del(base, len);
}
