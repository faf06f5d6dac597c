/* SPDX-License-Identifier: Apache-2.0 */
/* Several peers under one tier: who is asked, who takes, what is said when one is not there. */
#include "tests/guest/rdma.h"
#include "tests/integration/http.h"

#include <atomic>
#include <thread>

#include <jansson.h>

namespace {
constexpr uint64_t kBig = 256 << 10;

class GuestPeers : public GuestRdma {
protected:
  // b and c are at one address with two ports: a name each, a device each for a.
  std::unique_ptr<Mover> Node(const std::string &name, const std::string &dram = "64MiB", const std::string &slab = "4MiB")
  {
    kit::MoverOptions o;
    o.config = "node: " + name + "\nlanes: 1\ncopy_plan: builtin\ntiers:\n  - {name: dram, transport: memory, capacity: " + dram +
               ", slab_size: " + slab + "}\nlisten: {address: '10.9.0.2:" + (name == "b" ? "7471" : "7472") +
               "', key_file: " + key_ + ", lend: 32MiB, lease_ms: 2000}\n";
    o.tenants = Tenants();
    return std::make_unique<Mover>(o);
  }
  std::unique_ptr<Mover> Asker(const std::string &tiers = "", const std::string &more = "")
  {
    kit::MoverOptions o;
    std::string common = ", key_file: " + key_ + ", timeout_ms: " + std::to_string(timeout_ms_) + "}\n";
    o.config = "node: a\nlanes: 1\ncopy_plan: builtin\npeers:\n  - {name: b, address: '10.9.0.1>10.9.0.2'" + common +
               "  - {name: c, address: '10.9.0.1>10.9.0.2:7472'" + common + "tiers:\n" +
               (tiers.empty() ? "  - {name: dram, transport: memory, capacity: 32MiB, slab_size: 1MiB}\n" : tiers) +
               "  - {name: remote, transport: rdma, peers: [b, c], bounce: 1MiB}\n" + more;
    o.tenants = Tenants();
    return std::make_unique<Mover>(o);
  }
  // Both answer: the row of each says so.
  static bool BothUp(const Mover &a)
  {
    for (auto t = Clock::now(); Since(t) < 30;) // one that was killed and comes back: back-off and time-outs of the kernel's
      if (a.wait_status("peers.0.paths_open", 1) && a.wait_status("peers.1.paths_open", 1))
        return true;
    return false;
  }
};
} // namespace

TEST_F(GuestPeers, ACellIsFoundWhicheverOfThemHasIt)
{
  auto b = Node("b"), c = Node("c");
  auto a = Asker();
  ASSERT_TRUE(a->up() && b->up() && c->up()) << a->log() << b->log() << c->log();
  ASSERT_TRUE(BothUp(*a)) << a->log();
  Engine of_b(*b, guest::as("red")), of_c(*c, guest::as("red")), e(*a, guest::as("red"));
  of_b.fill(0, kMid, 1);
  of_c.fill(0, kMid, 2);
  ASSERT_EQ(DRAY_OK, of_b.put("on-b", 0, kMid).status);
  ASSERT_EQ(DRAY_OK, of_c.put("on-c", 0, kMid).status);
  for (int round = 0; round < 3; round++) {
    auto x = e.get("on-b", 0, kMid);
    EXPECT_EQ(DRAY_OK, x.status) << say(x) << a->log();
    EXPECT_TRUE(e.holds(0, kMid, 1));
    x = e.get("on-c", 0, kMid);
    EXPECT_EQ(DRAY_OK, x.status) << say(x) << a->log();
    EXPECT_TRUE(e.holds(0, kMid, 2));
    x = Stat(e, "on-c");
    EXPECT_EQ(DRAY_OK, x.status) << say(x);
    EXPECT_EQ(kMid, x.bytes);
  }
  // remembered: b was asked for what c has once, not once for each read
  int64_t asked = a->status("peers.0.questions");
  for (int i = 0; i < 5; i++)
    EXPECT_EQ(DRAY_OK, e.get("on-c", 0, kMid).status);
  EXPECT_EQ(asked, a->status("peers.0.questions"));
  auto x = e.get("nowhere", 0, kMid);
  EXPECT_EQ(DRAY_ABSENT, x.reason) << say(x);
  EXPECT_EQ(DRAY_MISSED, x.status) << say(x);
  x = Stat(e, "nowhere");
  EXPECT_EQ(DRAY_ABSENT, x.reason) << say(x);
  x = e.move("on-c", DRAY_TIER_DRAM, DRAY_TIER_REMOTE);
  EXPECT_EQ(DRAY_OK, x.status) << say(x) << a->log();
  x = e.get("on-c", kMid, kMid, DRAY_TIER_DRAM, DRAY_VERIFY_CRC);
  EXPECT_EQ(DRAY_OK, x.status) << say(x);
  EXPECT_TRUE(e.holds(kMid, kMid, 2));
  EXPECT_TRUE(a->audit_clean() && b->audit_clean() && c->audit_clean());
}

TEST_F(GuestPeers, WhatOneHasNoRoomForTheNextTakes)
{
  auto b = Node("b", "2MiB", "1MiB"), c = Node("c", "2MiB", "1MiB");
  auto a = Asker();
  ASSERT_TRUE(a->up() && b->up() && c->up()) << a->log() << b->log() << c->log();
  ASSERT_TRUE(BothUp(*a)) << a->log();
  Engine e(*a, guest::as("red"));
  int took = 0;
  struct dray_cqe x = {};
  for (; took < 32; took++) {
    e.fill(0, kBig, took);
    if (took % 2) { // PUT, and MOVE of what is here
      ASSERT_EQ(DRAY_OK, e.put(Name(took), 0, kBig, DRAY_TIER_DRAM, DRAY_VERIFY_CRC).status);
      x = e.move(Name(took), DRAY_TIER_REMOTE);
    } else {
      x = e.put(Name(took), 0, kBig, DRAY_TIER_REMOTE);
    }
    if (x.status != DRAY_OK)
      break;
  }
  EXPECT_EQ(DRAY_NO_ROOM, x.reason) << say(x) << "both are full";
  EXPECT_GE(took, 10);
  EXPECT_GE(b->status("cells"), 4);
  EXPECT_GE(c->status("cells"), 4);
  for (int i = 0; i < took; i++) {
    x = e.get(Name(i), 0, kBig);
    EXPECT_EQ(DRAY_OK, x.status) << i << say(x) << a->log();
    EXPECT_TRUE(e.holds(0, kBig, i)) << i;
  }
  // replaced where it is, though b is asked first
  e.fill(0, kSmall, 99);
  int64_t cells = c->status("cells");
  x = e.put(Name(took - 1), 0, kBig, DRAY_TIER_REMOTE);
  EXPECT_TRUE(x.status == DRAY_OK || x.reason == DRAY_NO_ROOM) << say(x);
  EXPECT_EQ(cells, c->status("cells"));
}

TEST_F(GuestPeers, ReasonsSayWhetherSomebodyCouldNotBeAsked)
{
  auto b = Node("b"), c = Node("c");
  auto a = Asker();
  ASSERT_TRUE(a->up() && b->up() && c->up()) << a->log() << b->log() << c->log();
  ASSERT_TRUE(BothUp(*a)) << a->log();
  Engine of_b(*b, guest::as("red", "z")), e(*a, guest::as("red", "a"));
  of_b.fill(0, kMid, 1);
  ASSERT_EQ(DRAY_OK, of_b.put("another agent's", 0, kMid).status);
  auto x = e.get("another agent's", 0, kMid);
  EXPECT_EQ(DRAY_SCOPE_DENIED, x.reason) << say(x) << " b has it and c does not: b's word counts";
  ASSERT_EQ(DRAY_OK, e.put("mine", 0, kMid, DRAY_TIER_REMOTE).status);
  kill(c->keeper(), SIGKILL);
  c = nullptr;
  auto t = Clock::now();
  do // until it is known to be down: a question that waits for it ends with its deadline
    x = Timed(e, DRAY_GET, "nowhere", 0, kMid, DRAY_TIER_ANY, 500000);
  while (x.reason == DRAY_ABSENT && Since(t) < 10);
  EXPECT_TRUE(x.reason == DRAY_PEER_UNREACHABLE || x.reason == DRAY_DEADLINE) << say(x) << " c could not be asked";
  ASSERT_TRUE(a->wait_status("peers.1.paths_open", 0));
  t = Clock::now();
  x = e.get("mine", 0, kMid);
  EXPECT_EQ(DRAY_OK, x.status) << say(x) << a->log();
  EXPECT_LT(Since(t), 1.0) << "nobody waits for c";
  x = e.put("new", 0, kMid, DRAY_TIER_REMOTE);
  EXPECT_EQ(DRAY_OK, x.status) << say(x) << a->log();
  x = e.get("another agent's", 0, kMid);
  EXPECT_EQ(DRAY_SCOPE_DENIED, x.reason) << say(x);
  // the other way round: c is back, b is gone, and c takes
  c = Node("c");
  ASSERT_TRUE(BothUp(*a)) << a->log();
  x = e.get("nowhere", 0, kMid);
  EXPECT_EQ(DRAY_ABSENT, x.reason) << say(x);
  kill(b->keeper(), SIGKILL);
  ASSERT_TRUE(a->wait_status("peers.0.paths_open", 0));
  x = e.put("new2", 0, kMid, DRAY_TIER_REMOTE);
  EXPECT_EQ(DRAY_OK, x.status) << say(x) << a->log();
  EXPECT_EQ(1, c->status("cells"));
}

TEST_F(GuestPeers, ATransferWhosePeerDiesIsCarriedOutByTheNext)
{
  timeout_ms_ = 30000;
  auto b = Node("b"), c = Node("c");
  auto a = Asker();
  ASSERT_TRUE(a->up() && b->up() && c->up()) << a->log() << b->log() << c->log();
  ASSERT_TRUE(BothUp(*a)) << a->log();
  EngineOptions o = guest::as("red");
  Engine e(*a, o), of_b(*b, o), of_c(*c, o);
  constexpr uint64_t kHuge = 4 << 20;
  for (Engine *x : {&of_b, &of_c}) {
    x->fill(0, kHuge, 3);
    ASSERT_EQ(DRAY_OK, x->put("twice", 0, kHuge, DRAY_TIER_DRAM, DRAY_VERIFY_CRC).status);
  }
  of_b.close();
  int64_t had = a->status("peers.1.read_bytes");
  // 1 MiB of bounce memory: its 4 MiB are four answers of b's one after the other, each so late
  Wire("delay 120ms", "GUEST_IF2");
  std::atomic<bool> over{false};
  bool midway = false;
  std::thread killer([&] {
    auto t = Clock::now();
    while (Since(t) < 20 && b->status("served.cells") < 1)
      ;
    Wire("loss 100%"); // nothing more is asked of b
    midway = !over && b->status("served.cells") == 1;
    kill(b->keeper(), SIGKILL);
    Wire("");
    Wire("", "GUEST_IF2");
  });
  auto x = e.get("twice", 0, kHuge);
  over = true;
  killer.join();
  EXPECT_TRUE(midway) << "it had ended before b died";
  EXPECT_EQ(DRAY_OK, x.status) << say(x) << a->log();
  EXPECT_TRUE(e.holds(0, kHuge, 3));
  int64_t of_the_other = a->status("peers.1.read_bytes") - had;
  EXPECT_GT(of_the_other, 0) << "c was not asked";
  printf("b read %lld, c read %lld of 4 MiB\n", (long long)a->status("peers.0.read_bytes"), (long long)of_the_other);
  EXPECT_TRUE(a->audit_clean() && c->audit_clean());
}

TEST_F(GuestPeers, AMapOfTheirCellsIsALeaseOnACopyHere)
{
  auto b = Node("b"), c = Node("c");
  auto a = Asker();
  ASSERT_TRUE(a->up() && b->up() && c->up()) << a->log() << b->log() << c->log();
  ASSERT_TRUE(BothUp(*a)) << a->log();
  Engine of_c(*c, guest::as("red")), other(*c, guest::as("red", "z")), e(*a, guest::as("red"));
  of_c.fill(0, kMid, 7);
  ASSERT_EQ(DRAY_OK, of_c.put("theirs", 0, kMid).status);
  ASSERT_EQ(DRAY_OK, other.put("another agent's", 0, kMid).status);
  auto x = e.map("theirs");
  EXPECT_EQ(DRAY_NOT_ATTENDABLE, x.reason) << say(x);
  x = e.map("nowhere", DRAY_TIER_ANY, DRAY_MAP_OR_STAGE);
  EXPECT_EQ(DRAY_ABSENT, x.reason) << say(x);
  EXPECT_EQ(DRAY_MISSED, x.status) << say(x);
  x = e.map("another agent's", DRAY_TIER_ANY, DRAY_MAP_OR_STAGE);
  EXPECT_EQ(DRAY_SCOPE_DENIED, x.reason) << say(x);
  x = e.map("theirs", DRAY_TIER_ANY, DRAY_MAP_OR_STAGE);
  ASSERT_EQ(DRAY_OK, x.status) << say(x) << a->log();
  EXPECT_EQ(DRAY_TIER_DRAM, x.tier) << say(x);
  EXPECT_EQ(DRAY_PATH_BOUNCE, x.path) << say(x);
  EXPECT_TRUE(x.flags & DRAY_STAGED_FIRST);
  EXPECT_TRUE(x.flags & DRAY_CRC_CHECKED);
  EXPECT_EQ(kMid, x.bytes);
  const void *p = dray_map_address(e.d, x.slab, x.off);
  ASSERT_NE(nullptr, p);
  EXPECT_TRUE(kit::pattern_holds(p, kMid, 7));
  EXPECT_EQ(DRAY_OK, e.unmap(x.object).status);
  x = e.map("theirs"); // it is here now
  EXPECT_EQ(DRAY_OK, x.status) << say(x);
  EXPECT_FALSE(x.flags & DRAY_STAGED_FIRST);
  EXPECT_EQ(DRAY_OK, e.unmap(x.object).status);
  x = of_c.get("theirs", 0, kMid);
  EXPECT_EQ(DRAY_OK, x.status) << say(x) << " and still there";
  EXPECT_TRUE(a->audit_clean() && c->audit_clean());
}

TEST_F(GuestPeers, AMapWithoutATierThatIsAttendableIsRefused)
{
  auto b = Node("b"), c = Node("c");
  auto a = Asker("  - {name: disk, transport: file, path: " + scratch_.path("disk") + ", capacity: 32MiB}\n");
  ASSERT_TRUE(a->up() && b->up() && c->up()) << a->log() << b->log() << c->log();
  ASSERT_TRUE(BothUp(*a)) << a->log();
  Engine of_b(*b, guest::as("red")), e(*a, guest::as("red"));
  ASSERT_EQ(DRAY_OK, of_b.put("theirs", 0, kMid).status);
  auto x = e.map("theirs", DRAY_TIER_ANY, DRAY_MAP_OR_STAGE);
  EXPECT_EQ(DRAY_NOT_ATTENDABLE, x.reason) << say(x);
}

TEST_F(GuestPeers, TheyAreSeenInStatusTiersAndMetrics)
{
  auto b = Node("b");
  int port = http::free_port();
  auto a = Asker("", "metrics: 127.0.0.1:" + std::to_string(port) + "\n"); // nobody is c
  ASSERT_TRUE(a->up() && b->up()) << a->log() << b->log();
  ASSERT_TRUE(a->wait_status("peers.0.paths_open", 1)) << a->log();
  Engine e(*a, guest::as("red"));
  e.fill(0, kMid, 1);
  ASSERT_EQ(DRAY_OK, e.put("x", 0, kMid, DRAY_TIER_REMOTE).status);
  ASSERT_EQ(DRAY_OK, e.get("x", 0, kMid).status);
  ASSERT_TRUE(a->wait_status("peers.1.lost", 0));
  auto t = Clock::now();
  while (Since(t) < 10 && run::dray({"status"}, a.get()).out.find("peer c at") == std::string::npos)
    ;
  auto r = run::dray({"status", "--json"}, a.get());
  json_t *s = json_loads(r.out.c_str(), 0, nullptr), *peers = json_object_get(s, "peers");
  ASSERT_EQ(2u, json_array_size(peers)) << r.out;
  auto text = [&](int i, const char *key) { return std::string(json_string_value(json_object_get(json_array_get(peers, i), key)) ?: ""); };
  auto number = [&](int i, const char *key) { return json_integer_value(json_object_get(json_array_get(peers, i), key)); };
  EXPECT_EQ("b", text(0, "peer"));
  EXPECT_EQ("remote", text(0, "tier"));
  EXPECT_EQ("up", text(0, "state"));
  EXPECT_EQ(1, number(0, "paths_open"));
  EXPECT_EQ(1, number(0, "reads"));
  EXPECT_EQ(1, number(0, "writes"));
  EXPECT_EQ((json_int_t)kMid, number(0, "read_bytes"));
  EXPECT_EQ((json_int_t)kMid, number(0, "write_bytes"));
  EXPECT_GT(number(0, "latency_ns"), 0);
  EXPECT_GT(number(0, "answer_ns"), 0);
  EXPECT_EQ(b->status("epoch"), number(0, "epoch"));
  EXPECT_EQ("down", text(1, "state")) << r.out;
  EXPECT_EQ(0, number(1, "paths_open"));
  EXPECT_GE(number(1, "dials"), 1);
  EXPECT_FALSE(text(1, "last_error").empty());
  json_decref(s);
  r = run::dray({"status"}, a.get());
  EXPECT_NE(std::string::npos, r.out.find("peer c at 10.9.0.1>10.9.0.2:7472: down")) << r.out;
  r = run::dray({"tiers"}, a.get());
  EXPECT_NE(std::string::npos, r.out.find("peer c at")) << r.out;
  r = run::dray({"status"}, b.get());
  EXPECT_NE(std::string::npos, r.out.find("answering 1 peers")) << r.out;
  auto metric = [&](const std::string &name, const char *peer, const char *more = "") {
    return http::metric(port, "dray_peer_" + name + "{tier=\"remote\",peer=\"" + peer + "\"" + more + "}");
  };
  EXPECT_EQ(1, metric("up", "b"));
  EXPECT_EQ(0, metric("up", "c"));
  EXPECT_EQ(1, metric("paths_open", "b"));
  EXPECT_EQ(1, metric("paths", "c"));
  EXPECT_EQ(kMid, metric("bytes_total", "b", ",direction=\"read\""));
  EXPECT_EQ(kMid, metric("bytes_total", "b", ",direction=\"write\""));
  EXPECT_EQ(0, metric("transfers_total", "c", ",direction=\"read\""));
  EXPECT_GT(metric("latency_seconds", "b"), 0);
  EXPECT_LT(metric("latency_seconds", "b"), 10);
  EXPECT_GE(metric("dials_total", "c"), 1);
  EXPECT_NE(std::string::npos, a->log().find("LINK_STATE: tier remote, peer b: 1 of 1 paths are up")) << a->log();
}

TEST_F(GuestPeers, ABenchTakesTheNameOfOne)
{
  auto b = Node("b");
  auto a = Asker();
  ASSERT_TRUE(a->up() && b->up()) << a->log() << b->log();
  auto r = run::dray({"bench", "rdma", "--peer", "nobody", "--admin", a->admin()});
  EXPECT_EQ(2, r.code) << r.out << r.err;
  EXPECT_NE(std::string::npos, r.err.find("'nobody' is none of the running mover's 2 peers")) << r.err;
  r = run::dray({"bench", "rdma", "--peer", "b", "--admin", a->admin(), "--rounds", "1", "--iters", "4", "--size", "4096", "--rw", "read", "--no-versus", "--json"});
  EXPECT_EQ(0, r.code) << r.out << r.err;
  EXPECT_NE(std::string::npos, r.out.find("rdma.read.64k")) << r.out << " with b's address and key file";
}
