/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine check as hardware sends it: the hypervisor injects it for a page while this process reads that page in user
 * mode. One processor only, since QEMU tells all of them and one that is in the kernel would not survive it. Lines that
 * begin with MATRIX are what docs/POISON.md's table is filled in from.
 */
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "tests/guest/guest.h"

using guest::Get;
using guest::kCell;
using guest::kMiB;
using guest::mover;
using guest::Raw;
using kit::Engine;
using kit::say;

namespace {
std::string Name(int i) { return "c" + std::to_string(i); }

/* Asks the hypervisor: an uncorrected, recoverable error of a data load at that page, to the processor that runs. */
bool Ask(const volatile void *p)
{
  char line[200];
  int n = snprintf(line, sizeof line,
                   "{\"execute\":\"human-monitor-command\",\"arguments\":{\"command-line\":"
                   "\"mce -b 0 9 0xbd80000000000134 0x7 0x%llx 0x8c\"}}\n",
                   (unsigned long long)guest::frame(p) << 12);
  int fd = open("/dev/vport0p3", O_WRONLY);
  bool ok = fd >= 0 && write(fd, line, (size_t)n) == n;
  close(fd);
  return ok;
}
/* Reads that page and nothing else until something ends it; true when only the time did. */
bool Spin(const volatile char *p, int seconds)
{
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (std::chrono::steady_clock::now() < end)
    for (int i = 0; i < 20000000; i++)
      (void)*p;
  return true;
}
#define CAN_ASK()                                                                                                      \
  if (access("/dev/vport0p3", W_OK))                                                                                   \
  GTEST_SKIP() << "the hypervisor cannot be asked: run.sh -q"

struct Tier {
  const char *which;
  uint8_t tier;
  uint64_t unit;
};
void PrintTo(const Tier &t, std::ostream *o) { *o << t.which; }
} // namespace

class GuestMce : public ::testing::TestWithParam<Tier> {};
INSTANTIATE_TEST_SUITE_P(Tiers, GuestMce,
                         ::testing::Values(Tier{"GUEST_DAX", DRAY_TIER_CXL, 2 * kMiB},
                                           Tier{"GUEST_DAX_4K", DRAY_TIER_CXL, 4096},
                                           Tier{"GUEST_DAX_DYN", DRAY_TIER_DRAM, 4096}),
                         [](const auto &i) { return std::string(i.param.which).substr(6) + (i.param.tier == DRAY_TIER_DRAM ? "memfd" : ""); });

TEST_P(GuestMce, AMachineCheckUnderAMappedReadEndsThatReadAndTheUnitIsBarred)
{
  CAN_ASK();
  NEEDS(GetParam().which);
  uint8_t tier = GetParam().tier;
  auto m = mover({.dax = guest::dax(GetParam().which), .keep = "fresh", .capacity = "16MiB"});
  ASSERT_TRUE(m->up()) << m->log();
  pid_t worker = m->worker();
  Engine e(*m, guest::as("red")), other(*m, guest::as("red", "z"));
  for (int i = 0; i < 12; i++) {
    e.fill(0, kCell, i);
    ASSERT_EQ(e.put(Name(i), 0, kCell, tier).status, DRAY_OK) << i;
  }
  ASSERT_EQ(other.put("mine", 0, kCell, tier).status, DRAY_OK);
  auto lease = e.map(Name(5), tier);
  ASSERT_EQ(lease.status, DRAY_OK) << say(lease);
  char *p = (char *)(uintptr_t)dray_map_address(e.d, lease.slab, lease.off);
  ASSERT_NE(p, nullptr);
  struct dray_guard g;
  volatile bool late = false;
  volatile int r = dray_guard_begin(&g, e.d, lease.object, p, kCell);
  if (r == 0) {
    if (Ask(p + 0x3000))
      late = Spin(p + 0x3000, 25);
    dray_guard_end(&g);
  }
  ASSERT_FALSE(late) << "no signal: the hypervisor did not deliver it";
  ASSERT_EQ(r, -EHWPOISON);
  EXPECT_EQ(g.hit.unit, GetParam().unit);
  EXPECT_TRUE(guest::WaitPoisoned(e, lease.object)) << m->log();
  EXPECT_EQ(Get(e, Name(5), tier).reason, DRAY_POISONED);
  int good = 0;
  for (int i = 0; i < 12; i++)
    good += Get(e, Name(i), tier).status == DRAY_OK && e.holds(8 * kMiB, kCell, i);
  EXPECT_GE(good, GetParam().unit == 4096 ? 11 : 3);
  EXPECT_EQ(Get(other, "mine", tier).status, DRAY_OK) << "the other session has not noticed";
  EXPECT_EQ(m->worker(), worker) << "nobody died";
  EXPECT_GE(m->status("poison.barred_bytes"), (int64_t)GetParam().unit);
  EXPECT_TRUE(m->audit_clean());
  std::string seen;
  guest::shell("dmesg | grep -i 'hardware memory error' | tail -1", &seen);
  EXPECT_NE(seen, "") << "the kernel saw it as a machine check";
  printf("MATRIX %s engine, machine check by the hypervisor: %s, unit %llu, off %llu; kernel: %s", GetParam().which, strerror(-r),
         (unsigned long long)g.hit.unit, (unsigned long long)g.hit.off, seen.c_str());
}

TEST_P(GuestMce, AMachineCheckOnADirectorysPageEndsTheKeepingAndNothingElse)
{
  CAN_ASK();
  NEEDS(GetParam().which);
  if (GetParam().tier != DRAY_TIER_CXL)
    GTEST_SKIP() << "no directory in a memfd";
  auto m = mover({.dax = guest::dax(GetParam().which), .keep = "fresh", .capacity = "16MiB"});
  ASSERT_TRUE(m->up()) << m->log();
  pid_t worker = m->worker();
  Engine e(*m, guest::as("red"));
  e.fill(0, kCell, 1);
  ASSERT_EQ(e.put(Name(1), 0, kCell, DRAY_TIER_CXL).status, DRAY_OK);
  pid_t child = fork();
  if (child == 0) { /* somebody who reads it: it dies of it, as it has no guard */
    Raw raw(guest::dax(GetParam().which), 2 * kMiB);
    if (!raw.ok() || !Ask(raw.at()))
      _exit(2);
    Spin(raw.at(), 25);
    _exit(3);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS) << status;
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const char said[] = "the memory of its directory is bad";
  while (m->log().find(said) == std::string::npos && std::chrono::steady_clock::now() < end)
    poll(nullptr, 0, 20);
  EXPECT_NE(m->log().find(said), std::string::npos) << m->log();
  EXPECT_EQ(Get(e, Name(1), DRAY_TIER_CXL).status, DRAY_OK);
  EXPECT_TRUE(e.holds(8 * kMiB, kCell, 1));
  EXPECT_EQ(e.put(Name(2), 0, kCell, DRAY_TIER_CXL).status, DRAY_OK);
  EXPECT_EQ(m->worker(), worker);
  EXPECT_TRUE(m->audit_clean());
}
