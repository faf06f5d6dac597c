/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of transfers when a path goes down under them, and when queues are as small or as large as they get. */
#include "tests/guest/rdma.h"

#include <atomic>
#include <thread>

namespace {
constexpr uint64_t kPiece = 512 << 10;
constexpr int kOpen = 16;

class GuestPaths : public GuestRdma {
protected:
  static constexpr const char *kDead = "loss 100%";
  std::unique_ptr<Mover> Lender() // what it lends outlives the time that a control connection needs to find another path
  {
    kit::MoverOptions o;
    o.config = "node: b\nlanes: 1\ncopy_plan: builtin\ntiers:\n  - {name: dram, transport: memory, capacity: 16MiB, slab_size: 4MiB}\n"
               "listen: {address: '10.9.0.2', key_file: " + key_ + ", lend: 32MiB}\n";
    o.tenants = Tenants();
    return std::make_unique<Mover>(o);
  }
  std::unique_ptr<Mover> Far(const std::string &address, const std::string &knobs, const std::string &bounce = "4MiB")
  {
    kit::MoverOptions o;
    o.config = "node: a\nlanes: 1\ncopy_plan: builtin\npeers:\n  - {name: b, address: '" + address + "', key_file: " + key_ +
               ", timeout_ms: " + std::to_string(timeout_ms_) + "}\ntiers:\n  - {name: dram, transport: memory, capacity: 16MiB, slab_size: 1MiB}\n"
               "  - {name: remote_dram, transport: rdma, peer: b, capacity: 16MiB, slab_size: 1MiB, bounce: " + bounce + knobs + "}\n  - {name: remote, transport: rdma, peer: b, bounce: 1MiB}\n";
    o.tenants = Tenants();
    return std::make_unique<Mover>(o);
  }
  static bool Up(const Mover &a, int64_t paths) { return a.wait_status("peers.0.paths_open", paths) && a.wait_status("peers.1.paths_open", paths); }
  // Sends n directives of one op on cells 0..n-1, each with its own place.
  static void Send(Engine &e, uint8_t op, int n, uint64_t bytes, uint32_t deadline_us)
  {
    for (int i = 0; i < n; i++) {
      struct dray_sqe *q = e.sqe();
      q->op = op;
      q->region = e.region.id;
      q->off = i * bytes;
      q->len = bytes;
      q->tier = DRAY_TIER_REMOTE_DRAM;
      q->flags = DRAY_VERIFY_CRC;
      q->cookie = i;
      q->deadline_us = deadline_us;
      memcpy(q->key, kit::Key(Name(i)).b, 16);
    }
    ASSERT_GE(dray_submit(e.d), 0);
  }
  struct Ends {
    std::vector<struct dray_cqe> done, links;
    double took = 0;
  };
  static Ends Reap(Engine &e, int n, double seconds)
  {
    Ends r;
    auto t = Clock::now();
    while ((int)r.done.size() < n && Since(t) < seconds)
      for (const struct dray_cqe *c; dray_wait(e.d, 1, 100) >= 0 && (c = dray_peek(e.d)); dray_seen(e.d)) {
        if (c->type == DRAY_DONE)
          r.done.push_back(*c);
        else if (c->type == DRAY_LINK_STATE)
          r.links.push_back(*c);
      }
    r.took = Since(t);
    return r;
  }
  // Something of it has arrived and not all: now is in mid-transfer.
  static bool Midway(const Mover &a, const char *what, int64_t before)
  {
    auto t = Clock::now();
    while (Since(t) < 10)
      if (a.status(std::string("peers.0.") + what) > before)
        return true;
    return false;
  }
  // All cells once; each must be OK.
  static void Round(Engine &e, uint8_t op, std::vector<struct dray_cqe> *links)
  {
    Send(e, op, kOpen, kPiece, 0);
    auto r = Reap(e, kOpen, 60);
    EXPECT_EQ((size_t)kOpen, r.done.size());
    for (auto &c : r.done)
      EXPECT_EQ(DRAY_OK, c.status) << c.cookie << say(c);
    links->insert(links->end(), r.links.begin(), r.links.end());
  }
  // Rounds, and in the middle of one of them something happens; two more after it.
  static std::vector<struct dray_cqe> Through(Engine &e, Mover &a, uint8_t op, void (*happens)())
  {
    std::vector<struct dray_cqe> links;
    const char *what = op == DRAY_PUT ? "writes" : "reads";
    int64_t before = a.status(std::string("peers.0.") + what);
    std::atomic<bool> over{false};
    std::thread other([&] {
      EXPECT_TRUE(Midway(a, what, before)) << a.log();
      happens();
      over = true;
    });
    auto t = Clock::now();
    for (int left = 3; left && Since(t) < 90; left -= over) {
      auto one = Clock::now();
      Round(e, op, &links);
      printf("%s: %.1f s\n", over ? "after it" : "before", Since(one));
    }
    other.join();
    return links;
  }
  static bool Notice(Engine &e, std::vector<struct dray_cqe> seen, uint32_t open, uint32_t all)
  {
    auto t = Clock::now();
    for (;;) {
      for (auto &c : seen)
        if (c.detail == (open << 16 | all) && c.tier == DRAY_TIER_REMOTE_DRAM && c.reason == (open ? DRAY_REASON_OK : DRAY_PEER_UNREACHABLE))
          return true;
      if (Since(t) > 15)
        return false;
      seen = Reap(e, 1, 0.2).links;
    }
  }
};
} // namespace

TEST_F(GuestPaths, OneOfTwoThatDiesUnderWritesLeavesThemToTheOther)
{
  timeout_ms_ = 40000;
  auto b = Lender();
  auto a = Far("10.9.0.1>10.9.0.2,10.9.0.2>10.9.0.2", "");
  ASSERT_TRUE(a->up() && b->up()) << a->log() << b->log();
  ASSERT_TRUE(Up(*a, 2)) << a->log() << b->log();
  Engine e(*a, guest::as("red"));
  for (int i = 0; i < kOpen; i++)
    e.fill(i * kPiece, kPiece, i);
  auto links = Through(e, *a, DRAY_PUT, [] { Wire(kDead); });
  EXPECT_TRUE(Notice(e, links, 1, 2)) << a->log();
  for (int i = 0; i < kOpen; i++)
    memset(e.mem() + i * kPiece, 0, kPiece);
  Round(e, DRAY_GET, &links); // by the one that is left
  for (int i = 0; i < kOpen; i++)
    EXPECT_TRUE(e.holds(i * kPiece, kPiece, i)) << i;
  EXPECT_NE(std::string::npos, a->log().find("LINK_STATE: tier remote_dram, peer b: 1 of 2 paths are up")) << a->log();
  Wire("");
  EXPECT_TRUE(Up(*a, 2)) << "it comes back: " << a->log();
  EXPECT_TRUE(Notice(e, {}, 2, 2)) << a->log();
  EXPECT_TRUE(a->audit_clean());
}

TEST_F(GuestPaths, OneOfTwoWhosePortGoesDownUnderReadsLeavesThemToTheOther)
{
  timeout_ms_ = 40000;
  auto b = Lender();
  auto a = Far("10.9.0.1>10.9.0.2,10.9.0.2>10.9.0.2", "");
  ASSERT_TRUE(a->up() && b->up()) << a->log() << b->log();
  ASSERT_TRUE(Up(*a, 2)) << a->log() << b->log();
  Engine e(*a, guest::as("red"));
  std::vector<struct dray_cqe> links;
  for (int i = 0; i < kOpen; i++)
    e.fill(i * kPiece, kPiece, i);
  Round(e, DRAY_PUT, &links);
  for (int i = 0; i < kOpen; i++)
    memset(e.mem() + i * kPiece, 0, kPiece);
  links = Through(e, *a, DRAY_GET, [] { Shell("ip link set " + guest::env("GUEST_IF1") + " down"); });
  for (int i = 0; i < kOpen; i++)
    EXPECT_TRUE(e.holds(i * kPiece, kPiece, i)) << i;
  EXPECT_TRUE(Notice(e, links, 1, 2)) << a->log();
  EXPECT_TRUE(a->wait_status("peers.1.paths_open", 1)) << "nothing was sent there, and all links of a device hear of it";
  EXPECT_TRUE(a->audit_clean());
  e.close();
  a = nullptr;
  b = nullptr;
  // rxe: what the connection manager sends while the link is down breaks its queue pair for good; a new device has another
  Shell("rdma link delete rxe1; ip link set " + guest::env("GUEST_IF1") + " up && rdma link add rxe1 type rxe netdev " +
        guest::env("GUEST_IF1") + " && bash -c '. ./devices.sh && rxe_way 1 && rxe_way 2'");
}

TEST_F(GuestPaths, TheOnlyOneThatGoesDownEndsEachTransferOnceInItsDeadline)
{
  constexpr uint32_t kDeadlineUs = 1500000;
  timeout_ms_ = 20000;
  auto b = Lender();
  auto a = Far("10.9.0.1>10.9.0.2", "");
  ASSERT_TRUE(a->up() && b->up()) << a->log() << b->log();
  ASSERT_TRUE(Up(*a, 1)) << a->log() << b->log();
  Engine e(*a, guest::as("red"));
  std::vector<struct dray_cqe> links;
  for (uint8_t op : {DRAY_PUT, DRAY_GET}) {
    for (int i = 0; i < kOpen; i++)
      e.fill(i * kPiece, kPiece, i);
    Round(e, DRAY_PUT, &links); // of what is there
    if (op == DRAY_GET)
      memset(e.mem(), 0xee, kOpen * kPiece);
    const char *what = op == DRAY_PUT ? "writes" : "reads";
    int64_t before = a->status(std::string("peers.0.") + what);
    std::atomic<bool> dead{false};
    std::thread cutter([&] {
      EXPECT_TRUE(Midway(*a, what, before)) << a->log();
      Wire(kDead);
      dead = true;
    });
    int failed = 0;
    for (int round = 0; round < 30 && !failed; round++) { // until it was down in the middle of one
      Send(e, op, kOpen, kPiece, kDeadlineUs);
      auto r = Reap(e, kOpen, 20);
      EXPECT_EQ((size_t)kOpen, r.done.size()) << a->log();
      EXPECT_LT(r.took, kDeadlineUs / 1e6 + 1.5);
      std::vector<int> seen(kOpen, 0);
      for (auto &c : r.done) {
        seen[c.cookie]++;
        failed += c.status != DRAY_OK;
        EXPECT_TRUE(c.status == DRAY_OK || c.reason == DRAY_DEADLINE || c.reason == DRAY_PEER_UNREACHABLE) << say(c);
      }
      for (int i = 0; i < kOpen; i++)
        EXPECT_EQ(1, seen[i]) << i;
    }
    cutter.join();
    EXPECT_GT(failed, 0);
    std::vector<char> after(e.mem(), e.mem() + kOpen * kPiece);
    Wire("");
    auto t = Clock::now();
    struct dray_cqe c;
    do
      c = Timed(e, DRAY_PUT, "probe", kOpen * kPiece, kMid, DRAY_TIER_REMOTE_DRAM, 1000000);
    while (c.status != DRAY_OK && Since(t) < 20);
    ASSERT_EQ(DRAY_OK, c.status) << say(c) << a->log();
    EXPECT_EQ(0, memcmp(after.data(), e.mem(), after.size())) << "a byte landed after the end";
  }
  EXPECT_TRUE(a->audit_clean());
}

/* Queues as small and as large as they get: full ones are back-pressure. */
class GuestQueues : public GuestPaths {
protected:
  void AllGoThrough(Mover &a, int n, uint64_t bytes, uint32_t entries)
  {
    EngineOptions o = guest::as("red");
    o.entries = entries;
    Engine e(a, o);
    ASSERT_EQ(0, e.error());
    ASSERT_TRUE(Up(a, 1)) << a.log();
    for (int i = 0; i < n; i++)
      e.fill(i * bytes, bytes, i);
    Send(e, DRAY_PUT, n, bytes, 0);
    auto r = Reap(e, n, 60);
    ASSERT_EQ((size_t)n, r.done.size()) << a.log();
    for (auto &c : r.done)
      ASSERT_EQ(DRAY_OK, c.status) << c.cookie << say(c) << a.log();
    memset(e.mem(), 0, n * bytes);
    Send(e, DRAY_GET, n, bytes, 0);
    r = Reap(e, n, 60);
    ASSERT_EQ((size_t)n, r.done.size()) << a.log();
    for (auto &c : r.done) {
      ASSERT_EQ(DRAY_OK, c.status) << c.cookie << say(c) << a.log();
      ASSERT_TRUE(e.holds(c.cookie * bytes, bytes, c.cookie)) << c.cookie;
    }
    EXPECT_TRUE(a.audit_clean());
    EXPECT_EQ(0, a.status("peers.0.failed"));
    EXPECT_EQ(0, a.status("peers.0.lost"));
  }
};

TEST_F(GuestQueues, OneTransferAtATimeIsEnough)
{
  timeout_ms_ = 40000;
  auto b = Lender();
  auto a = Far("10.9.0.1>10.9.0.2", ", depth: 1", "256KiB");
  ASSERT_TRUE(a->up() && b->up()) << a->log() << b->log();
  AllGoThrough(*a, 48, kMid, 64);
}

TEST_F(GuestQueues, AsManyAsMayBeUnderWayAtATime)
{
  timeout_ms_ = 40000;
  auto b = Lender();
  auto a = Far("10.9.0.1>10.9.0.2", ", depth: 1024", "16MiB");
  ASSERT_TRUE(a->up() && b->up()) << a->log() << b->log();
  AllGoThrough(*a, 1000, kSmall, 1024);
}

TEST_F(GuestQueues, ADeviceWhoseQueuesAreSmallIsNeverAskedForMore)
{
  timeout_ms_ = 40000;
  auto b = Lender();
  ASSERT_TRUE(b->up()) << b->log();
  setenv("LD_PRELOAD", (guest::env("GUEST_BUILD") + "/tests/guest/guest-small-device.so").c_str(), 1);
  setenv("GUEST_MAX_WR", "3", 1); // not even a window of the control connection's
  setenv("GUEST_MAX_CQE", "10", 1);
  auto a = Far("10.9.0.1>10.9.0.2", ", depth: 1024", "8MiB");
  unsetenv("LD_PRELOAD");
  ASSERT_TRUE(a->up()) << a->log();
  AllGoThrough(*a, 64, 2 * kMid, 64);
}
