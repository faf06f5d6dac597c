/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <thread>
#include <vector>

extern "C" {
#include <dray/types.h>

#include "base/guard.h"
}

namespace {
constexpr size_t kBytes = 1 << 20;

// A mapping whose pages beyond `good` are gone.
struct Cut {
  explicit Cut(size_t good) : fd(memfd_create("cut", MFD_CLOEXEC))
  {
    EXPECT_EQ(0, ftruncate(fd, kBytes));
    p = static_cast<char *>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    memset(p, 7, kBytes);
    EXPECT_EQ(0, ftruncate(fd, static_cast<off_t>(good)));
  }
  ~Cut()
  {
    munmap(p, kBytes);
    close(fd);
  }
  int fd;
  char *p;
};

bool SigbusBlocked()
{
  sigset_t s;
  pthread_sigmask(SIG_BLOCK, nullptr, &s);
  return sigismember(&s, SIGBUS);
}
}  // namespace

TEST(Guard, CopyOfGoodMemoryIsACopy)
{
  ASSERT_EQ(0, guard_install());
  std::vector<char> a(kBytes, 3), b(kBytes);
  struct guard_hit hit;
  uint8_t path = 0;
  ASSERT_EQ(0, guard_copy(&copy_plan_default, b.data(), a.data(), kBytes, 0, &hit, &path));
  EXPECT_TRUE(path == DRAY_PATH_CPU || path == DRAY_PATH_CPU_NT);
  EXPECT_TRUE(a == b);
}

TEST(Guard, LostSourceSaysWhereAndWhatIsGood)
{
  ASSERT_EQ(0, guard_install());
  Cut src(GUARD_PIECE + 8192);
  std::vector<char> dst(kBytes);
  for (int round = 0; round < 3; round++) {
    struct guard_hit hit = {};
    uint8_t path = 99;
    ASSERT_EQ(-EFAULT, guard_copy(&copy_plan_default, dst.data(), src.p, kBytes, 0, &hit, &path));
    EXPECT_EQ(GUARD_LOST, hit.kind);
    EXPECT_EQ(GUARD_PIECE, hit.good);
    EXPECT_GE(hit.addr, reinterpret_cast<uintptr_t>(src.p) + GUARD_PIECE + 8192);
    EXPECT_LT(hit.addr, reinterpret_cast<uintptr_t>(src.p) + kBytes);
    EXPECT_EQ(4096u, hit.unit);
    EXPECT_EQ(99, path) << "written only on success";
    EXPECT_FALSE(SigbusBlocked());
    EXPECT_EQ(0, memcmp(dst.data(), std::vector<char>(GUARD_PIECE, 7).data(), GUARD_PIECE));
  }
}

TEST(Guard, LostDestinationIsAHitToo)
{
  ASSERT_EQ(0, guard_install());
  Cut dst(0);
  std::vector<char> src(kBytes, 1);
  for (size_t n : {size_t{1}, size_t{100}, size_t{70000}}) {
    struct guard_hit hit = {};
    uint8_t path;
    ASSERT_EQ(-EFAULT, guard_copy(&copy_plan_default, dst.p, src.data(), n, 0, &hit, &path)) << n;
    EXPECT_EQ(0u, hit.good);
  }
}

TEST(Guard, RunGuardsAnyFunctionAndNests)
{
  ASSERT_EQ(0, guard_install());
  Cut bad(0);
  struct guard_range range = {bad.p, kBytes};
  struct guard_hit hit = {};
  auto touch = [](void *c) -> int { return *static_cast<volatile char *>(c); };
  EXPECT_EQ(-EFAULT, guard_run(touch, bad.p + 5000, &range, 1, &hit));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(bad.p) + 5000, hit.addr);
  struct Outer {
    char *p;
    int inner;
  } o = {bad.p, 0};
  auto nested = [](void *c) -> int {
    auto *x = static_cast<Outer *>(c);
    struct guard_hit h;
    char byte = 0;
    uint8_t path;
    x->inner = guard_copy(&copy_plan_default, &byte, x->p, 1, 0, &h, &path);
    return *static_cast<volatile char *>(x->p) + 1;  // the outer guard is up again
  };
  EXPECT_EQ(-EFAULT, guard_run(nested, &o, &range, 1, &hit));
  EXPECT_EQ(-EFAULT, o.inner);
  EXPECT_EQ(42, guard_run([](void *) -> int { return 42; }, nullptr, &range, 1, &hit));
}

TEST(Guard, OneGuardCoversManyRangesInSeveralLists)
{
  ASSERT_EQ(0, guard_install());
  Cut a(0), b(0), c(0);
  const struct guard_range first[] = {{a.p, 4096}, {b.p, kBytes}}, second[] = {{a.p + 8192, 4096}, {c.p + 4096, 1}};
  const struct guard_list lists[] = {{first, 2}, {second, 2}};
  auto touch = [](void *p) -> int { return *static_cast<volatile char *>(p); };
  for (char *p : {a.p, a.p + 4095, b.p + kBytes - 1, a.p + 8192, c.p + 4096}) {
    struct guard_hit hit = {};
    EXPECT_EQ(-EFAULT, guard_run_lists(touch, p, lists, 2, &hit));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p), hit.addr);
  }
}

[[noreturn]] static void FaultBetweenTheRanges()
{
  signal(SIGBUS, SIG_DFL);
  guard_install();
  Cut a(0);
  const struct guard_range first[] = {{a.p, 4096}}, second[] = {{a.p + 8192, 4096}};
  const struct guard_list lists[] = {{first, 1}, {second, 1}};
  struct guard_hit hit;
  guard_run_lists([](void *p) -> int { return *static_cast<volatile char *>(p); }, a.p + 4096, lists, 2, &hit);
  _exit(0);
}
TEST(Guard, FaultBetweenTheRangesIsNotOurs)
{
  EXPECT_EXIT(FaultBetweenTheRanges(), ::testing::KilledBySignal(SIGBUS), "");
}

TEST(Guard, EachThreadHasItsOwn)
{
  ASSERT_EQ(0, guard_install());
  std::vector<std::thread> all;
  std::vector<int> bad(4);
  for (int t = 0; t < 4; t++)
    all.emplace_back([&bad, t] {
      Cut cut(4096);
      std::vector<char> dst(kBytes);
      for (int i = 0; i < 200; i++) {
        struct guard_hit hit = {};
        uint8_t path;
        size_t n = i % 2 ? 4096 : 8192;
        int want = i % 2 ? 0 : -EFAULT;
        if (guard_copy(&copy_plan_default, dst.data(), cut.p, n, 0, &hit, &path) != want ||
            (want && (hit.addr < reinterpret_cast<uintptr_t>(cut.p) ||
                      hit.addr >= reinterpret_cast<uintptr_t>(cut.p) + kBytes)))
          bad[t]++;
      }
    });
  for (auto &t : all)
    t.join();
  EXPECT_EQ((std::vector<int>{0, 0, 0, 0}), bad);
}

// Each of these runs in a process of its own, whose first guard_install finds what it put there.
[[noreturn]] static void FaultOutside()
{
  signal(SIGBUS, SIG_DFL);
  guard_install();
  Cut bad(0), good(kBytes);
  struct guard_range range = {good.p, kBytes};
  struct guard_hit hit;
  guard_run([](void *c) -> int { return *static_cast<volatile char *>(c); }, bad.p, &range, 1, &hit);
  _exit(0);
}
TEST(Guard, FaultOutsideTheRangesKillsAsBefore)
{
  EXPECT_EXIT(FaultOutside(), ::testing::KilledBySignal(SIGBUS), "");
}

[[noreturn]] static void FaultWithHandlerBefore()
{
  struct sigaction sa = {};
  sa.sa_flags = SA_SIGINFO;
  sa.sa_sigaction = [](int, siginfo_t *, void *) { _exit(33); };
  sigaction(SIGBUS, &sa, nullptr);
  guard_install();
  Cut bad(0);
  (void)*static_cast<volatile char *>(bad.p);
  _exit(0);
}
TEST(Guard, FaultOutsideTheRangesGoesToTheHandlerBefore)
{
  EXPECT_EXIT(FaultWithHandlerBefore(), ::testing::ExitedWithCode(33), "");
}

[[noreturn]] static void SentInsideAGuard()
{
  signal(SIGBUS, SIG_DFL);
  guard_install();
  Cut good(kBytes);
  struct guard_range range = {good.p, kBytes};
  struct guard_hit hit;
  guard_run([](void *) -> int { return raise(SIGBUS); }, nullptr, &range, 1, &hit);
  _exit(0);
}
TEST(Guard, ASentSigbusIsNotOurs)
{
  EXPECT_EXIT(SentInsideAGuard(), ::testing::KilledBySignal(SIGBUS), "");
}

int main(int argc, char **argv)
{
  // death tests start afresh: the handler of the tests before would be inherited
  ::testing::InitGoogleTest(&argc, argv);
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  return RUN_ALL_TESTS();
}
