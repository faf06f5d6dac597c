/* SPDX-License-Identifier: Apache-2.0 */
/* A tier on one mapped device (a file stands in): drained, kept over a restart, without coherence. tests/guest has the
   same on device-dax. */
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "tests/integration/run_dray.h"
#include "tests/kit/poison.h"

using kit::Engine;
using kit::Mover;
using kit::say;

namespace {
constexpr uint64_t kCell = 256 << 10;
std::string Name(int i) { return "c" + std::to_string(i); }

class TierTest : public ::testing::Test {
protected:
  void SetUp() override
  {
    std::ofstream(device_).put(0);
    ASSERT_EQ(0, truncate(device_.c_str(), 32 << 20));
  }
  std::unique_ptr<Mover> Start(const std::string &more, bool disk = true, int lanes = 2)
  {
    kit::MoverOptions o;
    o.config = "lanes: " + std::to_string(lanes) + "\ntiers:\n  - {name: dram, transport: memory, capacity: 32MiB}\n"
               "  - {name: cxl, transport: cxl, path: " + device_ + ", owner: red" + more + "}\n";
    if (disk)
      o.config += "  - {name: disk, transport: file, path: " + scratch_.path("disk") + ", capacity: 32MiB}\n";
    o.tenants = {"red:r-token", "blue:b-token"};
    return std::make_unique<Mover>(o);
  }
  kit::EngineOptions Red() const
  {
    kit::EngineOptions o;
    o.token = "r-token";
    return o;
  }
  /* Mappings and fds of the device in a process. */
  int Holds(pid_t pid) const
  {
    int n = 0;
    std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
    for (std::string line; std::getline(maps, line);)
      n += line.find(device_) != std::string::npos;
    for (int fd = 0; fd < 1024; fd++) {
      char to[512];
      ssize_t k = readlink(("/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd)).c_str(), to, sizeof to);
      n += k > 0 && std::string(to, (size_t)k) == device_;
    }
    return n;
  }
  run::Scratch scratch_;
  std::string device_ = scratch_.path("device");
};
} // namespace

TEST_F(TierTest, ADrainMovesCellsDownWaitsForLeasesAndLetsGo)
{
  auto m = Start("");
  ASSERT_TRUE(m->up()) << m->log();
  Engine e(*m, Red());
  for (int i = 0; i < 6; i++) {
    e.fill(0, kCell, i);
    ASSERT_EQ(e.put(Name(i), 0, kCell, DRAY_TIER_CXL, i % 2 ? DRAY_VERIFY_CRC : 0).status, DRAY_OK);
  }
  auto lease = e.map(Name(3), DRAY_TIER_CXL);
  ASSERT_EQ(lease.status, DRAY_OK) << say(lease);
  const void *p = dray_map_address(e.d, lease.slab, lease.off);
  ASSERT_NE(p, nullptr);
  EXPECT_GT(Holds(m->worker()), 0);
  EXPECT_GT(Holds(m->keeper()), 0);
  auto r = run::dray({"tier", "drain", "cxl", "--timeout", "1"}, m.get());
  EXPECT_EQ(r.code, 3) << r.out << r.err;
  EXPECT_NE(r.out.find("draining: 6 cells moved, 0 dropped"), std::string::npos) << r.out;
  EXPECT_TRUE(kit::pattern_holds(p, kCell, 3));
  auto c = e.put("new", 0, kCell, DRAY_TIER_CXL);
  EXPECT_EQ(c.reason, DRAY_TIER_DRAINING) << say(c);
  EXPECT_EQ(c.status, DRAY_REFUSED);
  EXPECT_EQ(e.put("new", 0, kCell).status, DRAY_OK);
  ASSERT_EQ(e.unmap(lease.object).status, DRAY_OK);
  r = run::dray({"tier", "drain", "cxl", "--json"}, m.get());
  EXPECT_EQ(r.code, 0) << r.out << r.err;
  EXPECT_EQ(run::Json(r.out).text("state"), "drained");
  EXPECT_EQ(Holds(m->worker()), 0);
  EXPECT_EQ(Holds(m->keeper()), 0);
  for (int i = 0; i < 6; i++) {
    c = e.get(Name(i), 0, kCell, 0, i % 2 ? DRAY_VERIFY_CRC : 0);
    ASSERT_EQ(c.status, DRAY_OK) << say(c);
    EXPECT_EQ(c.tier, DRAY_TIER_DISK);
    EXPECT_TRUE(e.holds(0, kCell, i));
  }
  for (int i = 0; i < 1000 && Holds(getpid()); i++)
    (void)e.stat(Name(0));
  EXPECT_EQ(Holds(getpid()), 0) << "the engine was told that the tier is gone";
  r = run::dray({"tiers"}, m.get());
  EXPECT_NE(r.out.find("cxl: drained"), std::string::npos) << r.out;
  r = run::dray({"tiers", "--verbose"}, m.get());
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("CXL: "), std::string::npos) << r.out;
  r = run::dray({"tiers", "--json", "--verbose"}, m.get());
  EXPECT_NE(json_object_get(run::Json(r.out).o, "cxl"), nullptr) << r.out;
  EXPECT_TRUE(m->audit_clean());
  e.close();
  EXPECT_EQ(m->stop(), 0) << m->log();
}

TEST_F(TierTest, ADrainUnderLoadLosesNothing)
{
  auto m = Start("");
  ASSERT_TRUE(m->up()) << m->log();
  std::atomic<int> wrong{0}, puts{0};
  std::atomic<bool> end{false};
  std::vector<std::thread> engines;
  for (int k = 0; k < 2; k++)
    engines.emplace_back([&, k] {
      auto o = Red();
      o.agent = "a" + std::to_string(k);
      Engine e(*m, o);
      for (int i = 0; !end; i = (i + 1) % 16) {
        std::string name = std::to_string(k) + Name(i);
        e.fill(0, kCell, i);
        auto c = e.put(name, 0, kCell, i % 2 ? DRAY_TIER_CXL : 0);
        if (c.status != DRAY_OK && c.reason != DRAY_TIER_DRAINING && c.reason != DRAY_NO_ROOM)
          wrong++;
        if (c.status != DRAY_OK)
          continue;
        puts++;
        c = e.get(name, kCell, kCell);
        if (c.status != DRAY_OK || !e.holds(kCell, kCell, i))
          wrong++;
      }
    });
  while (puts < 40 && !wrong)
    poll(nullptr, 0, 5);
  auto r = run::dray({"tier", "drain", "cxl"}, m.get());
  EXPECT_EQ(r.code, 0) << r.out << r.err << m->log();
  int before = puts;
  while (puts < before + 10 && !wrong)
    poll(nullptr, 0, 5);
  end = true;
  for (auto &t : engines)
    t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(m->audit_clean());
  EXPECT_EQ(Holds(m->worker()), 0);
}

TEST_F(TierTest, WithNoTierBelowADrainDropsAndAnotherTierIsNoDevice)
{
  auto m = Start("", false);
  ASSERT_TRUE(m->up()) << m->log();
  Engine e(*m, Red());
  for (int i = 0; i < 4; i++)
    ASSERT_EQ(e.put(Name(i), 0, kCell, DRAY_TIER_CXL).status, DRAY_OK);
  auto r = run::dray({"tier", "drain", "dram"}, m.get());
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("only a cxl tier"), std::string::npos) << r.err;
  r = run::dray({"tier", "drain", "disk"}, m.get());
  EXPECT_NE(r.err.find("no such tier"), std::string::npos) << r.err;
  EXPECT_EQ(run::dray({"tier", "fill", "cxl"}, m.get()).code, 2);
  r = run::dray({"tier", "drain", "cxl"}, m.get());
  EXPECT_EQ(r.code, 0) << r.out << r.err;
  EXPECT_NE(r.out.find("0 cells moved, 4 dropped"), std::string::npos) << r.out;
  EXPECT_EQ(e.get(Name(0), 0, kCell).reason, DRAY_EVICTED);
  /* the next worker does not open it again */
  pid_t old = m->worker();
  kill(old, SIGKILL);
  for (int i = 0; i < 500 && (m->worker() == old || m->worker() <= 0); i++)
    poll(nullptr, 0, 20);
  ASSERT_GT(m->worker(), 0) << m->log();
  EXPECT_EQ(Holds(m->worker()), 0);
  Engine again(*m, Red());
  EXPECT_EQ(again.put("x", 0, kCell, DRAY_TIER_CXL).status, DRAY_REFUSED);
  EXPECT_EQ(again.put("x", 0, kCell).status, DRAY_OK);
}

TEST_F(TierTest, AKeptDeviceKeepsItsCellsAndItsBadMemory)
{
  for (int round = 0; round < 3; round++) {
    auto m = Start(", keep: 'yes'", false);
    ASSERT_TRUE(m->up()) << m->log();
    Engine e(*m, Red());
    EXPECT_EQ(m->status("found_on_disk"), round ? 8 : 0);
    if (round == 0) {
      for (int i = 0; i < 8; i++) {
        e.fill(0, kCell, i);
        ASSERT_EQ(e.put(Name(i), 0, kCell, DRAY_TIER_CXL, DRAY_VERIFY_CRC).status, DRAY_OK);
      }
      auto l = e.map(Name(5), DRAY_TIER_CXL);
      ASSERT_EQ(l.status, DRAY_OK);
      dray_prep_quarantine_lease(e.sqe(), l.object, 4096, 1, 4096);
      bool told = false; /* the holder's notice comes before or after the answer */
      for (auto &v : e.wait(1))
        told |= v.type == DRAY_POISON;
      for (; !told && dray_wait(e.d, 1, 10000) > 0; dray_seen(e.d))
        told = dray_peek(e.d)->type == DRAY_POISON;
      EXPECT_TRUE(told);
    }
    for (int i = 0; i < 8; i++) {
      auto c = e.get(Name(i), 0, kCell, DRAY_TIER_CXL, DRAY_VERIFY_CRC);
      if (i == 5)
        EXPECT_EQ(c.status, DRAY_REFUSED) << round << say(c);
      else
        EXPECT_TRUE(c.status == DRAY_OK && e.holds(0, kCell, i)) << round << " " << i << say(c);
    }
    EXPECT_EQ(m->status("poison.barred_bytes"), 4096) << round;
    EXPECT_TRUE(m->audit_clean());
    e.close();
    if (round == 1)
      kill(m->keeper(), SIGKILL);
    else
      EXPECT_EQ(m->stop(), 0) << m->log();
  }
  auto m = Start(", keep: 'maybe'");
  EXPECT_FALSE(m->up());
  EXPECT_NE(m->log().find("'maybe' is none of no yes fresh"), std::string::npos) << m->log();
}

TEST_F(TierTest, WithoutHardwareCoherenceEnginesGetCopiesOnly)
{
  for (const char *how : {", coherence: none", ", coherence: software, keep: fresh"}) {
    auto m = Start(how);
    ASSERT_TRUE(m->up()) << m->log();
    Engine e(*m, Red());
    for (uint64_t len : {kCell, kCell - 7, uint64_t{33}}) {
      e.fill(0, len, len);
      ASSERT_EQ(e.put("x", 0, len, DRAY_TIER_CXL, DRAY_VERIFY_CRC).status, DRAY_OK) << how;
      auto c = e.get("x", kCell, len, DRAY_TIER_CXL, DRAY_VERIFY_CRC);
      ASSERT_EQ(c.status, DRAY_OK) << how << say(c);
      EXPECT_TRUE(e.holds(kCell, len, len));
    }
    EXPECT_EQ(e.map("x").reason, DRAY_NOT_ATTENDABLE) << how;
    auto c = e.map("x", 0, DRAY_MAP_OR_STAGE);
    EXPECT_EQ(c.status, DRAY_OK) << how << say(c);
    EXPECT_EQ(c.tier, DRAY_TIER_DRAM);
  }
}

TEST_F(TierTest, AWorkerThatDiesInMidDrainDoesNotForgetIt)
{
  auto m = Start(", keep: 'fresh'");
  ASSERT_TRUE(m->up()) << m->log();
  pid_t old = m->worker();
  {
    Engine e(*m, Red());
    for (int i = 0; i < 6; i++) {
      e.fill(0, kCell, i);
      ASSERT_EQ(e.put(Name(i), 0, kCell, DRAY_TIER_CXL, DRAY_VERIFY_CRC).status, DRAY_OK);
    }
    auto lease = e.map(Name(3), DRAY_TIER_CXL); /* holds the drain up */
    ASSERT_EQ(lease.status, DRAY_OK) << say(lease);
    auto r = run::dray({"tier", "drain", "cxl", "--timeout", "0"}, m.get());
    ASSERT_EQ(r.code, 3) << r.out << r.err;
    kill(old, SIGKILL);
    for (int i = 0; i < 500 && (m->worker() == old || m->worker() <= 0); i++)
      poll(nullptr, 0, 20);
  }
  ASSERT_GT(m->worker(), 0) << m->log();
  Engine e(*m, Red());
  auto c = e.put("new", 0, kCell, DRAY_TIER_CXL);
  EXPECT_EQ(c.reason, DRAY_TIER_DRAINING) << say(c) << m->log();
  EXPECT_NE(m->log().find("the worker before was at it"), std::string::npos) << m->log();
  /* it ends by itself: nobody asks again */
  for (int i = 0; i < 500 && Holds(m->keeper()) + Holds(m->worker()); i++)
    poll(nullptr, 0, 20);
  EXPECT_EQ(Holds(m->worker()), 0) << m->log();
  EXPECT_EQ(Holds(m->keeper()), 0);
  auto r = run::dray({"tier", "drain", "cxl"}, m.get());
  EXPECT_EQ(r.code, 0) << r.out << r.err;
  for (int i = 0; i < 6; i++) {
    c = e.get(Name(i), 0, kCell, 0, DRAY_VERIFY_CRC);
    ASSERT_EQ(c.status, DRAY_OK) << i << say(c) << m->log();
    EXPECT_EQ(c.tier, DRAY_TIER_DISK);
    EXPECT_TRUE(e.holds(0, kCell, i));
  }
  EXPECT_TRUE(m->audit_clean());
  /* and a third worker knows that it is over */
  old = m->worker();
  e.close();
  kill(old, SIGKILL);
  for (int i = 0; i < 500 && (m->worker() == old || m->worker() <= 0); i++)
    poll(nullptr, 0, 20);
  std::string log = m->log(), again = "the worker before was at it";
  EXPECT_EQ(log.find(again, log.find(again) + 1), std::string::npos) << log;
}

TEST_F(TierTest, WithAllLanesInUseADrainStillMovesItsCells)
{
  auto m = Start("", true, 64);
  ASSERT_TRUE(m->up()) << m->log();
  Engine e(*m, Red());
  for (int i = 0; i < 4; i++) {
    e.fill(0, kCell, i);
    ASSERT_EQ(e.put(Name(i), 0, kCell, DRAY_TIER_CXL).status, DRAY_OK);
  }
  auto r = run::dray({"tier", "drain", "cxl"}, m.get());
  EXPECT_EQ(r.code, 0) << r.out << r.err << m->log();
  EXPECT_NE(r.out.find("4 cells moved, 0 dropped"), std::string::npos) << r.out;
  for (int i = 0; i < 4; i++) {
    ASSERT_EQ(e.get(Name(i), 0, kCell).status, DRAY_OK);
    EXPECT_TRUE(e.holds(0, kCell, i));
  }
}

/* ---- the directory's own memory goes bad (tests/guest has the kernel's own poison) ---- */

TEST_F(TierTest, ABadDirectoryIsSaidOnceNothingDiesAndNothingIsKept)
{
  /* the page of slab headers; on shared memory, which UFFDIO_POISON can mark */
  device_ = "/dev/shm/dray-tier-" + std::to_string(getpid());
  std::ofstream(device_).put(0);
  ASSERT_EQ(0, truncate(device_.c_str(), 32 << 20));
  struct Gone {
    std::string path;
    ~Gone() { unlink(path.c_str()); }
  } gone{device_};
  char *page = static_cast<char *>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  int can = kit::poison_mapping(page, 4096);
  munmap(page, 4096);
  if (can == -ENOTSUP)
    GTEST_SKIP() << "this kernel has no UFFDIO_POISON (6.6)";
  for (const char *script : {"poison=d:36K@3", "early=d:36K@3"}) {
    auto m = Start(std::string(", keep: 'fresh', fault: \"") + script + "\"");
    ASSERT_TRUE(m->up()) << m->log();
    pid_t worker = m->worker();
    Engine e(*m, Red());
    for (int i = 0; i < 12; i++) {
      e.fill(0, kCell, i);
      auto c = e.put(Name(i), 0, kCell, DRAY_TIER_CXL, DRAY_VERIFY_CRC);
      ASSERT_EQ(c.status, DRAY_OK) << script << i << say(c) << m->log();
      ASSERT_EQ(e.put("d" + Name(i), 0, kCell, DRAY_TIER_DRAM).status, DRAY_OK) << "another tier does not notice";
    }
    for (int i = 0; i < 12; i++) {
      auto c = e.get(Name(i), 0, kCell, DRAY_TIER_CXL, DRAY_VERIFY_CRC);
      ASSERT_EQ(c.status, DRAY_OK) << say(c);
      EXPECT_TRUE(e.holds(0, kCell, i));
      ASSERT_EQ(e.drop(Name(i)).status, DRAY_OK);
    }
    EXPECT_EQ(m->worker(), worker) << "nobody died";
    std::string log = m->log(), said = "the memory of its directory is bad";
    size_t at = log.find(said);
    ASSERT_NE(at, std::string::npos) << script << log;
    EXPECT_EQ(log.find(said, at + 1), std::string::npos) << "said once" << log;
    auto r = run::dray({"tiers"}, m.get());
    EXPECT_NE(r.out.find("not kept"), std::string::npos) << r.out;
    EXPECT_TRUE(m->audit_clean());
    for (int i = 0; i < 4; i++)
      ASSERT_EQ(e.put("last" + Name(i), 0, kCell, DRAY_TIER_CXL).status, DRAY_OK);
    e.close();
    EXPECT_EQ(m->stop(), 0) << m->log();
    auto next = Start(", keep: 'yes'");
    ASSERT_TRUE(next->up()) << next->log();
    EXPECT_EQ(next->status("found_on_disk"), 0) << "what could not be kept true is not believed";
    EXPECT_EQ(next->stop(), 0);
  }
}
