/* SPDX-License-Identifier: Apache-2.0 */
/* A tier is drained, and its device unbound from its driver with nobody noticing, the kernel least of all. */
#include <poll.h>

#include "tests/guest/guest.h"

using guest::holds_dax;
using guest::kCell;
using guest::mover;
using kit::Engine;
using kit::say;

namespace {
std::string Name(int i) { return "c" + std::to_string(i); }
pid_t Parent(pid_t pid)
{
  std::string s = kit::read_file("/proc/" + std::to_string(pid) + "/status");
  return atoi(s.c_str() + s.find("PPid:") + 5);
}
/* echo dax0.0 > .../unbind; and back */
void Unbind(const std::string &dax)
{
  int before = guest::kernel_warnings();
  std::string out;
  ASSERT_EQ(guest::shell("echo " + dax + " > /sys/bus/dax/drivers/device_dax/unbind", &out), 0) << out;
  EXPECT_NE(access(("/sys/bus/dax/devices/" + dax + "/driver").c_str(), F_OK), 0);
  ASSERT_EQ(guest::shell("echo " + dax + " > /sys/bus/dax/drivers/device_dax/bind", &out), 0) << out;
  EXPECT_EQ(guest::kernel_warnings(), before);
}
} // namespace

class GuestDrain : public ::testing::TestWithParam<const char *> {};
INSTANTIATE_TEST_SUITE_P(Devices, GuestDrain, ::testing::Values("GUEST_DAX", "GUEST_DAX_DYN", "GUEST_DAX_4K"),
                         [](const auto &i) { return std::string(i.param).substr(6); });

TEST_P(GuestDrain, CellsGoDownLeasesAreWaitedForAndThenNothingHoldsTheDevice)
{
  NEEDS(GetParam());
  std::string dax = guest::dax(GetParam());
  auto m = mover({.dax = dax, .keep = "fresh", .capacity = "16MiB"}, guest::env("GUEST_DISK"));
  ASSERT_TRUE(m->up()) << m->log();
  pid_t worker = m->worker(), keeper = Parent(worker);
  Engine e(*m, guest::as("red"));
  for (int i = 0; i < 6; i++) {
    e.fill(0, kCell, i);
    ASSERT_EQ(e.put(Name(i), 0, kCell, DRAY_TIER_CXL, DRAY_VERIFY_CRC).status, DRAY_OK);
  }
  auto lease = e.map(Name(3), DRAY_TIER_CXL);
  ASSERT_EQ(lease.status, DRAY_OK) << say(lease);
  const void *p = dray_map_address(e.d, lease.slab, lease.off);
  ASSERT_NE(p, nullptr);
  EXPECT_GT(holds_dax(worker), 0);
  EXPECT_GT(holds_dax(keeper), 0);
  auto r = run::dray({"tier", "drain", "cxl", "--timeout", "2"}, m.get());
  EXPECT_EQ(r.code, 3) << r.out << r.err;
  EXPECT_NE(r.out.find("draining: 6 cells moved, 0 dropped"), std::string::npos) << r.out;
  EXPECT_TRUE(kit::pattern_holds(p, kCell, 3)) << "a lease is a lease";
  auto c = e.put("new", 0, kCell, DRAY_TIER_CXL);
  EXPECT_EQ(c.status, DRAY_REFUSED);
  EXPECT_EQ(c.reason, DRAY_TIER_DRAINING) << say(c);
  for (int i = 0; i < 6; i++) { /* from the disk */
    c = e.get(Name(i), 0, kCell, 0, DRAY_VERIFY_CRC);
    ASSERT_EQ(c.status, DRAY_OK) << i << say(c);
    EXPECT_EQ(c.tier, DRAY_TIER_DISK);
    EXPECT_TRUE(e.holds(0, kCell, i));
  }
  ASSERT_EQ(e.unmap(lease.object).status, DRAY_OK);
  r = run::dray({"tier", "drain", "cxl"}, m.get());
  EXPECT_EQ(r.code, 0) << r.out << r.err;
  EXPECT_NE(r.out.find("drained"), std::string::npos) << r.out;
  EXPECT_EQ(holds_dax(worker), 0);
  EXPECT_EQ(holds_dax(keeper), 0);
  for (int i = 0; i < 1000 && holds_dax(getpid()); i++)
    (void)e.stat(Name(0)); /* whoever looks at its queue meets the notice that the tier is down, and unmaps */
  ASSERT_EQ(holds_dax(getpid()), 0) << "the engine's mapping";
  Unbind(dax);
  EXPECT_TRUE(m->audit_clean());
  c = e.put("after", 0, kCell);
  EXPECT_EQ(c.status, DRAY_OK) << "the mover serves on " << say(c);
  e.close();
  EXPECT_EQ(m->stop(), 0) << m->log();
}

TEST_P(GuestDrain, WithoutATierBelowCellsAreDroppedAndAWorkerThatDiesDoesNotBringItBack)
{
  NEEDS(GetParam());
  std::string dax = guest::dax(GetParam());
  auto m = mover({.dax = dax, .capacity = "16MiB"});
  ASSERT_TRUE(m->up()) << m->log();
  {
    Engine e(*m, guest::as("red"));
    for (int i = 0; i < 4; i++)
      ASSERT_EQ(e.put(Name(i), 0, kCell, DRAY_TIER_CXL).status, DRAY_OK);
    auto r = run::dray({"tier", "drain", "cxl"}, m.get());
    EXPECT_EQ(r.code, 0) << r.out << r.err;
    EXPECT_NE(r.out.find("0 cells moved, 4 dropped"), std::string::npos) << r.out;
    EXPECT_EQ(e.get(Name(0), 0, kCell).reason, DRAY_EVICTED);
  }
  pid_t old = m->worker(), keeper = Parent(old);
  kill(old, SIGKILL);
  for (int i = 0; i < 500 && (m->worker() == old || m->worker() <= 0); i++)
    poll(nullptr, 0, 20);
  ASSERT_GT(m->worker(), 0) << m->log();
  EXPECT_EQ(holds_dax(m->worker()), 0);
  EXPECT_EQ(holds_dax(keeper), 0);
  Engine e(*m, guest::as("red"));
  auto c = e.put("x", 0, kCell, DRAY_TIER_CXL);
  EXPECT_EQ(c.status, DRAY_REFUSED) << say(c);
  EXPECT_EQ(e.put("x", 0, kCell).status, DRAY_OK);
  Unbind(dax);
  auto r = run::dray({"tier", "drain", "dram"}, m.get());
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("only a cxl tier"), std::string::npos) << r.err;
}
