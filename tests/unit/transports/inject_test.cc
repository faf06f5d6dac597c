/* SPDX-License-Identifier: Apache-2.0 */
// Poison on purpose, and what the guard makes of it. What the kernel sends (poison or a missing page) must not matter.
#include <gtest/gtest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

extern "C" {
#include <dray/types.h>

#include "base/guard.h"
#include "base/known.h"
#include "transports/addressable.h"
#include "transports/fault/inject.h"
}

namespace {
struct Map {
  char *p;
  explicit Map(uint64_t bytes)
  {
    int fd = memfd_create("inject", 0);
    EXPECT_EQ(0, ftruncate(fd, (off_t)bytes));
    p = static_cast<char *>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    memset(p, 7, bytes);
    close(fd);
  }
};
#define INJECT(base, len, unit)                                                                                        \
  do {                                                                                                                 \
    int r_ = inject_poison(base, len, unit);                                                                           \
    if (r_ == -ENOTSUP)                                                                                                \
      GTEST_SKIP() << "this kernel has no UFFDIO_POISON (6.6)";                                                        \
    ASSERT_EQ(0, r_);                                                                                                  \
  } while (0)
} // namespace

TEST(Inject, AReadOfItIsPoisonOfItsUnitWhateverTheKernelCallsIt)
{
  ASSERT_EQ(0, guard_install());
  Map a(68 << 10), b(64 << 10);
  a.p += (uintptr_t)a.p & 4096; /* units lie on their own size */
  INJECT(a.p + 16384, 8192, 8192);
  struct guard_hit hit = {};
  uint8_t path;
  ASSERT_EQ(-EFAULT, guard_copy(&copy_plan_default, b.p, a.p, 64 << 10, 0, &hit, &path));
  EXPECT_EQ(GUARD_POISON, hit.kind);
  EXPECT_EQ(8192u, hit.unit);
  EXPECT_EQ((uintptr_t)a.p + 16384, hit.addr & ~8191ull);
  EXPECT_LE(hit.good, 16384u);
  EXPECT_EQ(0, guard_copy(&copy_plan_default, b.p, a.p, 16384, 0, &hit, &path)) << "and nothing beside it";
  EXPECT_EQ(0, guard_copy(&copy_plan_default, b.p, a.p + 24576, 4096, 0, &hit, &path));
  ASSERT_EQ(-EFAULT, guard_copy(&copy_plan_default, a.p + 20480, b.p, 64, 0, &hit, &path)) << "writes, too";
  EXPECT_EQ(GUARD_POISON, hit.kind);
  inject_forget(a.p, 64 << 10);
  uint64_t unit;
  EXPECT_FALSE(known_bad_find((uintptr_t)a.p + 16384, &unit));
}

TEST(Inject, AnXferThatMeetsItSaysWhereAndHowMuch)
{
  ASSERT_EQ(0, guard_install());
  Map a(64 << 10), b(64 << 10);
  INJECT(a.p + 16384, 4096, 4096);
  struct xfer_vec from = {a.p, 64 << 10}, to = {b.p, 64 << 10};
  struct xfer_done d = {};
  addr_how how = {};
  how.plan = &copy_plan_default;
  addr_copy(&how, vec_begin(&to), vec_begin(&from), 64 << 10, &d);
  EXPECT_EQ(XFER_FAILED, d.status);
  EXPECT_EQ(DRAY_POISONED, d.reason);
  EXPECT_EQ(EHWPOISON, d.err);
  EXPECT_EQ(4096u, d.bad_unit);
  EXPECT_EQ((uintptr_t)a.p + 16384, d.bad_addr & ~4095ull);
  inject_forget(a.p, 64 << 10);
}

TEST(Inject, AMissingPageIsStillAMissingPage)
{
  ASSERT_EQ(0, guard_install());
  int fd = memfd_create("cut", 0);
  ASSERT_EQ(0, ftruncate(fd, 8192));
  char *p = static_cast<char *>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)), to[64];
  ASSERT_EQ(0, ftruncate(fd, 4096));
  struct guard_hit hit = {};
  uint8_t path;
  ASSERT_EQ(-EFAULT, guard_copy(&copy_plan_default, to, p + 4096, 64, 0, &hit, &path));
  EXPECT_EQ(GUARD_LOST, hit.kind);
  close(fd);
}

TEST(Inject, MemoryThatIsNotSharedMemoryIsSaidNotToBePossible)
{
  char name[] = "/tmp/dray-inject-XXXXXX";
  int fd = mkstemp(name);
  unlink(name);
  ASSERT_EQ(0, ftruncate(fd, 8192));
  void *p = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  int r = inject_poison(p, 4096, 4096);
  uint64_t unit;
  if (r) { /* /tmp may be tmpfs */
    EXPECT_EQ(-ENOTSUP, r);
    EXPECT_FALSE(known_bad_find((uintptr_t)p, &unit));
  }
  inject_forget(p, 8192);
  close(fd);
}

TEST(Known, EntriesComeAndGoAndTheTableEnds)
{
  static char mem[KNOWN_MAX + 2];
  uint64_t unit = 0;
  EXPECT_EQ(-EINVAL, known_bad_add(mem, 0, 4096));
  EXPECT_EQ(-EINVAL, known_bad_add(mem, 1, 3));
  EXPECT_EQ(-EINVAL, known_bad_add(nullptr, 1, 4096));
  EXPECT_EQ(-EINVAL, known_bad_add(mem, UINT64_MAX, 4096));
  for (uint32_t i = 0; i < KNOWN_MAX; i++)
    ASSERT_EQ(0, known_bad_add(mem + i, 1, 64)) << i;
  EXPECT_EQ(-ENOSPC, known_bad_add(mem + KNOWN_MAX, 1, 64));
  EXPECT_TRUE(known_bad_find((uintptr_t)mem + 100, &unit));
  EXPECT_EQ(64u, unit);
  known_bad_del(mem + 100, 1);
  EXPECT_FALSE(known_bad_find((uintptr_t)mem + 100, &unit));
  EXPECT_TRUE(known_bad_find((uintptr_t)mem + 101, &unit));
  EXPECT_EQ(0, known_bad_add(mem + 100, 1, 128)) << "its place is free again";
  known_bad_del(mem, sizeof mem);
  EXPECT_FALSE(known_bad_find((uintptr_t)mem + 101, &unit));
}

/* The kernel's early news (BUS_MCEERR_AO): sent to ourselves, since only the kernel may send it to others. */
static void SendEarly(void *at, short lsb)
{
  siginfo_t si = {};
  si.si_signo = SIGBUS;
  si.si_code = BUS_MCEERR_AO;
  si.si_addr = at;
  si.si_addr_lsb = lsb;
  ASSERT_EQ(0, syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)syscall(SYS_gettid), SIGBUS, &si));
}

TEST(Early, NewsOfPoisonThatNobodyTouchedGoesToThePipe)
{
  ASSERT_EQ(0, guard_install());
  int fd[2];
  ASSERT_EQ(0, pipe2(fd, O_NONBLOCK));
  guard_early_fd(fd[1]);
  Map a(64 << 10);
  SendEarly(a.p + 4096, 21);
  struct guard_early e = {};
  ASSERT_EQ((ssize_t)sizeof e, read(fd[0], &e, sizeof e));
  EXPECT_EQ((uintptr_t)a.p + 4096, e.addr);
  EXPECT_EQ(2u << 20, e.unit);
  EXPECT_LT(read(fd[0], &e, sizeof e), 0) << "once";
  guard_early_fd(-1);
  EXPECT_DEATH(SendEarly(a.p, 12), "") << "where nobody asked, it does what it always did";
  close(fd[0]);
  close(fd[1]);
}
