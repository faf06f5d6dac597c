/* SPDX-License-Identifier: Apache-2.0 */
/* Two movers on two soft RoCE devices: a's engines use what b has and lends. */
#include "tests/guest/rdma.h"

#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <random>

TEST_F(GuestRdma, AThousandCellsArePutToThePeerAndGotBack)
{
  timeout_ms_ = 20000; // an emulated machine on a busy one
  auto b = std::make_unique<Peer>(this);
  ASSERT_TRUE(b->up()) << b->log();
  auto a = A();
  ASSERT_TRUE(a->up()) << a->log();
  Engine e(*a, guest::as("red"));
  ASSERT_EQ(0, e.error());
  ASSERT_TRUE(Connected(e)) << a->log() << b->log();
  ASSERT_TRUE(Direct(e, Name(0), DRAY_TIER_REMOTE)) << a->log();
  constexpr int kBurst = 32; // at a time: each is three messages and a transfer, and emulation makes each turn long
  auto all = [&](uint8_t op) {
    for (int i = 0; i < 1000; i += kBurst) {
      int n = std::min(kBurst, 1000 - i);
      for (int k = 0; k < n; k++) {
        struct dray_sqe *q = e.sqe();
        q->op = op;
        q->region = e.region.id;
        q->off = k * kSmall;
        q->len = kSmall;
        q->tier = DRAY_TIER_REMOTE;
        q->cookie = k;
        memcpy(q->key, kit::Key(Name(i + k)).b, 16);
        if (op == DRAY_PUT)
          e.fill(k * kSmall, kSmall, i + k);
        else
          memset(e.mem() + k * kSmall, 0, kSmall);
      }
      int done = 0;
      for (auto &c : e.wait(n)) {
        if (c.type != DRAY_DONE)
          continue;
        done++;
        ASSERT_EQ(DRAY_OK, c.status) << i << " " << say(c) << a->log() << b->log();
        ASSERT_EQ(op == DRAY_PUT ? DRAY_PATH_RDMA_WRITE : DRAY_PATH_RDMA_READ, c.path);
        ASSERT_EQ(DRAY_TIER_REMOTE, c.tier);
        ASSERT_TRUE(c.flags & DRAY_CRC_CHECKED);
        ASSERT_TRUE(e.holds(c.cookie * kSmall, kSmall, i + c.cookie)) << i + c.cookie;
      }
      ASSERT_EQ(n, done);
    }
  };
  all(DRAY_PUT);
  EXPECT_EQ(1000, b->cells());
  all(DRAY_GET);
  auto c = Stat(e, Name(7));
  EXPECT_EQ(DRAY_OK, c.status) << say(c);
  EXPECT_EQ(kSmall, c.bytes);
  EXPECT_TRUE(b->audit_clean());
  EXPECT_TRUE(a->audit_clean());
}

TEST_F(GuestRdma, WhatAPeerLendsIsATierLikeAnyOther)
{
  auto b = B();
  auto a = A("10.9.0.1>10.9.0.2", "", "2MiB");
  ASSERT_TRUE(a->up() && b->up()) << a->log() << b->log();
  Engine e(*a, guest::as("red"));
  ASSERT_TRUE(Connected(e)) << a->log() << b->log();
  for (int i = 0; i < 60; i++) { // more than dram holds: what is least used goes down to the peer's memory
    e.fill(0, kMid, i);
    auto c = e.put(Name(i), 0, kMid, DRAY_TIER_ANY, DRAY_VERIFY_CRC);
    ASSERT_EQ(DRAY_OK, c.status) << i << " " << say(c) << a->log();
  }
  int far = 0;
  for (int i = 0; i < 60; i++) {
    auto c = e.get(Name(i), 0, kMid, DRAY_TIER_ANY, DRAY_VERIFY_CRC);
    ASSERT_EQ(DRAY_OK, c.status) << i << " " << say(c) << a->log();
    ASSERT_TRUE(e.holds(0, kMid, i)) << i;
    far += c.tier == DRAY_TIER_REMOTE_DRAM && (c.path == DRAY_PATH_RDMA_READ || c.path == DRAY_PATH_BOUNCE);
  }
  EXPECT_GE(far, 20);
  auto c = e.map(Name(0), DRAY_TIER_REMOTE_DRAM);
  EXPECT_EQ(DRAY_NOT_ATTENDABLE, c.reason) << say(c);
  c = e.map(Name(0), DRAY_TIER_ANY, DRAY_MAP_OR_STAGE);
  EXPECT_EQ(DRAY_OK, c.status) << say(c);
  EXPECT_TRUE(c.flags & DRAY_STAGED_FIRST);
  e.unmap(c.object);
  EXPECT_TRUE(a->audit_clean());
}

TEST_F(GuestRdma, ThePeersOwnGateDecides)
{
  auto b = B();
  auto a = A();
  ASSERT_TRUE(a->up() && b->up()) << a->log() << b->log();
  Engine mine(*b, guest::as("red", "a")), red(*a, guest::as("red", "a")), other(*a, guest::as("red", "z")),
      blue(*a, guest::as("blue", "a"));
  ASSERT_TRUE(Connected(red)) << a->log() << b->log();
  mine.fill(0, kMid, 5);
  ASSERT_EQ(DRAY_OK, mine.put("private", 0, kMid).status);
  auto c = red.get("private", 0, kMid);
  EXPECT_EQ(DRAY_OK, c.status) << say(c) << "its own agent, on another node; no CRC was kept, but one is proven";
  EXPECT_TRUE(c.flags & DRAY_CRC_CHECKED);
  EXPECT_TRUE(red.holds(0, kMid, 5));
  c = other.get("private", 0, kMid);
  EXPECT_EQ(DRAY_SCOPE_DENIED, c.reason) << say(c);
  c = blue.get("private", 0, kMid);
  EXPECT_EQ(DRAY_ABSENT, c.reason) << say(c);
  c = Stat(blue, "private");
  EXPECT_EQ(DRAY_ABSENT, c.reason) << say(c);
  c = red.get("private", 0, kMid + 1);
  EXPECT_EQ(DRAY_OUT_OF_RANGE, c.reason) << say(c);
  c = red.get("private", 0, kMid - 100);
  EXPECT_EQ(DRAY_OK, c.status) << say(c);
  // MOVE brings it here, with what it is; and what is here goes there
  c = red.move("private", DRAY_TIER_DRAM, DRAY_TIER_REMOTE);
  EXPECT_EQ(DRAY_OK, c.status) << say(c) << a->log();
  c = red.get("private", 0, kMid, DRAY_TIER_DRAM, DRAY_VERIFY_CRC);
  EXPECT_EQ(DRAY_OK, c.status) << say(c);
  EXPECT_TRUE(red.holds(0, kMid, 5));
  red.fill(0, kMid, 9);
  ASSERT_EQ(DRAY_OK, red.put("going", 0, kMid).status);
  c = red.move("going", DRAY_TIER_REMOTE);
  EXPECT_EQ(DRAY_OK, c.status) << say(c) << a->log() << b->log();
  c = mine.get("going", kMid, kMid, DRAY_TIER_ANY, DRAY_VERIFY_CRC);
  EXPECT_EQ(DRAY_OK, c.status) << say(c);
  EXPECT_TRUE(mine.holds(kMid, kMid, 9));
  EXPECT_EQ(DRAY_ABSENT, red.get("going", 0, kMid, DRAY_TIER_DRAM).reason);
  EXPECT_TRUE(b->audit_clean());
}

TEST_F(GuestRdma, ALocalOnlyTierIsNotShown)
{
  auto b = B("", ", local_only: yes");
  auto a = A();
  ASSERT_TRUE(a->up() && b->up()) << a->log() << b->log();
  Engine mine(*b, guest::as("red")), red(*a, guest::as("red"));
  ASSERT_TRUE(Connected(red)) << a->log() << b->log();
  ASSERT_EQ(DRAY_OK, mine.put("private", 0, kMid).status);
  EXPECT_EQ(DRAY_ABSENT, red.get("private", 0, kMid).reason);
  auto c = red.put("x", 0, kMid, DRAY_TIER_REMOTE);
  EXPECT_EQ(DRAY_NO_ROOM, c.reason) << say(c);
}

TEST_F(GuestRdma, LengthsAtTheEdgesAreRefusedWithAReason)
{
  auto b = B();
  auto a = A();
  ASSERT_TRUE(a->up() && b->up()) << a->log() << b->log();
  EngineOptions o = guest::as("red");
  o.region = (4ull << 30) + kMid; // sparse: nothing of it is touched
  Engine e(*a, o);
  ASSERT_EQ(0, e.error());
  ASSERT_TRUE(Connected(e)) << a->log() << b->log();
  EXPECT_EQ(DRAY_ZERO_LENGTH, e.put("zero", 0, 0, DRAY_TIER_REMOTE).reason);
  for (uint64_t n : {(4ull << 30) - 1, 4ull << 30, (4ull << 30) + 1}) {
    auto c = e.put("big", 0, n, DRAY_TIER_REMOTE);
    EXPECT_EQ(DRAY_REFUSED, c.status) << n << say(c);
    EXPECT_TRUE(c.reason == DRAY_TOO_LARGE || c.reason == DRAY_NO_ROOM) << n << say(c);
    c = e.put("big", 0, n, DRAY_TIER_REMOTE_DRAM);
    EXPECT_EQ(DRAY_TOO_LARGE, c.reason) << n << say(c);
    c = e.get("big", 0, n);
    EXPECT_EQ(DRAY_ABSENT, c.reason) << n << say(c);
  }
}

TEST_F(GuestRdma, APeerThatIsNotThereHasItsReasonWithinTheDeadline)
{
  auto a = A(); // nobody listens
  ASSERT_TRUE(a->up()) << a->log();
  Engine e(*a, guest::as("red"));
  for (int i = 0; i < 5; i++) {
    auto t = Clock::now();
    auto c = Timed(e, DRAY_GET, "x", 0, kSmall, DRAY_TIER_ANY, 1000000);
    EXPECT_EQ(DRAY_PEER_UNREACHABLE, c.reason) << say(c);
    c = Timed(e, DRAY_PUT, "x", 0, kSmall, DRAY_TIER_REMOTE, 1000000);
    EXPECT_EQ(DRAY_PEER_UNREACHABLE, c.reason) << say(c);
    c = Timed(e, DRAY_PUT, "x", 0, kSmall, DRAY_TIER_REMOTE_DRAM, 1000000);
    EXPECT_EQ(DRAY_PEER_UNREACHABLE, c.reason) << say(c);
    EXPECT_LT(Since(t), 3.5);
  }
  // and nobody else waits for it
  auto t = Clock::now();
  EXPECT_EQ(DRAY_OK, e.put("here", 0, kSmall, DRAY_TIER_DRAM).status);
  EXPECT_EQ(DRAY_OK, e.get("here", 0, kSmall).status);
  EXPECT_LT(Since(t), 1.0);
  // it comes, and is found
  auto b = B();
  ASSERT_TRUE(b->up()) << b->log();
  EXPECT_TRUE(Connected(e, 20)) << a->log() << b->log();
}

TEST_F(GuestRdma, AnotherKeyIsNotLetIn)
{
  auto b = B();
  auto a = A("10.9.0.1>10.9.0.2", Key("other.key", "ffffffffffffffffffffffffffffffff"));
  ASSERT_TRUE(a->up() && b->up()) << a->log() << b->log();
  Engine e(*a, guest::as("red"));
  auto c = Timed(e, DRAY_GET, "x", 0, kSmall, DRAY_TIER_ANY, 3000000);
  EXPECT_EQ(DRAY_PEER_UNREACHABLE, c.reason) << say(c);
  EXPECT_FALSE(Connected(e, 2));
  EXPECT_NE(std::string::npos, b->log().find("its key is another")) << b->log();
}

TEST_F(GuestRdma, ABlackHoleEndsEveryDirectiveInItsDeadlineAndTheLinkComesBack)
{
  auto b = B();
  auto a = A();
  ASSERT_TRUE(a->up() && b->up()) << a->log() << b->log();
  Engine e(*a, guest::as("red"));
  ASSERT_TRUE(Connected(e)) << a->log() << b->log();
  e.fill(0, kMid, 1);
  ASSERT_EQ(DRAY_OK, e.put("lent", 0, kMid, DRAY_TIER_REMOTE_DRAM, DRAY_VERIFY_CRC).status) << a->log();
  ASSERT_EQ(DRAY_OK, e.put("far", 0, kMid, DRAY_TIER_REMOTE).status);
  ASSERT_EQ(0, guest::shell("tc qdisc add dev " + guest::env("GUEST_IF1") + " root netem loss 100%"));
  e.fill(kMid, kMid, 77);
  // the write first, while its connection still looks alive: it is out when its deadline comes
  for (auto op : {DRAY_PUT, DRAY_GET})
    for (auto tier : {DRAY_TIER_REMOTE_DRAM, DRAY_TIER_REMOTE}) {
      auto t = Clock::now();
      std::string name = op == DRAY_PUT ? "new" : tier == DRAY_TIER_REMOTE ? "far" : "lent";
      auto c = Timed(e, op, name, kMid, kMid, tier, 300000);
      EXPECT_TRUE(c.reason == DRAY_DEADLINE || c.reason == DRAY_PEER_UNREACHABLE) << say(c);
      EXPECT_LT(Since(t), 1.0) << say(c);
      EXPECT_TRUE(e.holds(kMid, kMid, 77)) << "nothing arrived";
    }
  ASSERT_EQ(0, guest::shell("tc qdisc del dev " + guest::env("GUEST_IF1") + " root"));
  EXPECT_TRUE(Connected(e, 20)) << a->log() << b->log();
  EXPECT_TRUE(e.holds(kMid, kMid, 77)) << "nor later";
  auto c = e.get("far", 0, kMid);
  EXPECT_EQ(DRAY_OK, c.status) << say(c) << a->log();
  EXPECT_TRUE(e.holds(0, kMid, 1));
  EXPECT_TRUE(a->audit_clean());
}

TEST_F(GuestRdma, WhatWasLentIsStaleAfterThePeersRestartAndNothingElseIsServed)
{
  auto b = B();
  auto a = A();
  ASSERT_TRUE(a->up() && b->up()) << a->log() << b->log();
  Engine e(*a, guest::as("red"));
  ASSERT_TRUE(Connected(e)) << a->log() << b->log();
  for (int i = 0; i < 8; i++) {
    e.fill(0, kMid, i);
    ASSERT_EQ(DRAY_OK, e.put(Name(i), 0, kMid, DRAY_TIER_REMOTE_DRAM, DRAY_VERIFY_CRC).status);
  }
  kill(b->worker(), SIGKILL); // the same name, the same address, another epoch
  auto t = Clock::now();
  while (Since(t) < 20) {
    auto c = Timed(e, DRAY_GET, Name(0), 0, kMid, DRAY_TIER_REMOTE_DRAM, 1000000);
    if (c.status == DRAY_OK) { // read before it died
      EXPECT_TRUE(e.holds(0, kMid, 0));
    }
    if (c.reason == DRAY_ABSENT || c.reason == DRAY_PEER_STALE)
      break;
    poll(nullptr, 0, 20);
  }
  ASSERT_TRUE(Connected(e, 20)) << a->log() << b->log();
  t = Clock::now();
  struct dray_cqe c = {};
  while (Since(t) < 20 && c.status != DRAY_OK) { // the tier is closed until all of the old is gone, then it serves again
    e.fill(0, kMid, 100);
    c = Timed(e, DRAY_PUT, "after", 0, kMid, DRAY_TIER_REMOTE_DRAM, 1000000);
    poll(nullptr, 0, 20);
  }
  EXPECT_EQ(DRAY_OK, c.status) << say(c) << a->log();
  for (int i = 0; i < 8; i++) {
    c = Timed(e, DRAY_GET, Name(i), kMid, kMid, DRAY_TIER_REMOTE_DRAM, 1000000);
    EXPECT_TRUE(c.reason == DRAY_ABSENT || c.reason == DRAY_PEER_STALE) << i << say(c);
  }
  c = Timed(e, DRAY_GET, "after", kMid, kMid, DRAY_TIER_REMOTE_DRAM, 1000000);
  EXPECT_EQ(DRAY_OK, c.status) << say(c);
  EXPECT_TRUE(e.holds(kMid, kMid, 100));
  EXPECT_TRUE(a->audit_clean()) << a->log();
}

/* The peer dies at any moment of puts and gets: each directive ends once and in its deadline, and what has ended stays as
   it was. */
class GuestRdmaKill : public GuestRdma {};
TEST_F(GuestRdmaKill, AtAnyMomentEveryDirectiveEndsOnceInItsDeadlineAndNothingLandsLater)
{
  auto a = A();
  ASSERT_TRUE(a->up()) << a->log();
  Engine e(*a, guest::as("red"));
  std::mt19937 rnd(7);
  constexpr int kOpen = 8;
  constexpr uint32_t kDeadlineUs = 400000;
  // GUEST_RDMA_KILLS: so many, however long it takes; else as many as there is time for
  const int want = atoi(guest::env("GUEST_RDMA_KILLS").c_str());
  int rounds = 0, ended = 0, ok = 0;
  auto begun = Clock::now();
  auto b = std::make_unique<Peer>(this);
  ASSERT_TRUE(b->up()) << b->log();
  for (; want ? rounds < want : rounds < 50 && Since(begun) < 20; rounds++) {
    ASSERT_TRUE(Connected(e, 20)) << rounds << a->log() << b->log();
    // bytes of an earlier round: whoever writes there later is caught
    memset(e.mem(), 0xee, kOpen * kMid);
    std::vector<int> seen(kOpen, 0);
    for (int k = 0; k < kOpen; k++) {
      struct dray_sqe *q = e.sqe();
      q->op = k % 2 ? DRAY_PUT : DRAY_GET;
      q->region = e.region.id;
      q->off = k * kMid;
      q->len = kMid;
      q->tier = k % 4 < 2 ? DRAY_TIER_REMOTE : DRAY_TIER_REMOTE_DRAM;
      q->cookie = k;
      q->deadline_us = kDeadlineUs;
      memcpy(q->key, kit::Key(k % 2 ? Name(k) : Name(k + 1)).b, 16);
    }
    auto t = Clock::now();
    ASSERT_GE(dray_submit(e.d), 0);
    auto moment = std::chrono::microseconds(rnd() % 250000);
    while (Clock::now() - t < moment) {
    }
    b->kill();
    int left = kOpen;
    while (left && Since(t) < 10)
      for (const struct dray_cqe *c; left && dray_wait(e.d, 1, 100) >= 0 && (c = dray_peek(e.d)); dray_seen(e.d)) {
        if (c->type != DRAY_DONE || c->cookie >= kOpen)
          continue;
        seen[c->cookie]++;
        left--;
        ended++;
        ok += c->status == DRAY_OK;
      }
    ASSERT_EQ(0, left) << a->log();
    EXPECT_LT(Since(t), kDeadlineUs / 1e6 + 2.0) << "round " << rounds;
    for (int k = 0; k < kOpen; k++)
      EXPECT_EQ(1, seen[k]) << k;
    std::vector<char> after(e.mem(), e.mem() + kOpen * kMid);
    b = nullptr;
    b = std::make_unique<Peer>(this);
    ASSERT_TRUE(b->up());
    EXPECT_EQ(0, memcmp(after.data(), e.mem(), after.size())) << "a byte landed after the end, round " << rounds;
  }
  printf("rounds %d, directives ended %d, of them OK %d\n", rounds, ended, ok);
  EXPECT_GE(rounds, 5);
  EXPECT_TRUE(a->audit_clean());
}

/* The second of two machines: what the first one's Peer asks for. */
class GuestPeer : public GuestRdma {};
TEST_F(GuestPeer, DoesWhatTheOtherMachineTellsIt)
{
  if (guest::env("GUEST_NODE") != "2")
    GTEST_SKIP() << "not the second of two machines";
  struct sockaddr_in a = {};
  a.sin_family = AF_INET;
  a.sin_port = htons(kPort);
  a.sin_addr.s_addr = htonl(INADDR_ANY);
  int on = 1, listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  ASSERT_EQ(0, bind(listening, (struct sockaddr *)&a, sizeof a));
  ASSERT_EQ(0, listen(listening, 4));
  std::unique_ptr<Mover> b;
  int starts = 0;
  for (;;) {
    struct pollfd p = {listening, POLLIN, 0};
    ASSERT_GT(poll(&p, 1, 60000), 0) << "the other machine is silent";
    int fd = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
    char text[32] = "";
    p = {fd, POLLIN, 0};
    if (fd < 0 || poll(&p, 1, 10000) <= 0 || read(fd, text, sizeof text - 1) <= 0) {
      close(fd);
      continue;
    }
    std::string word = text, answer = "1";
    if (word == "start\n") {
      b = nullptr;
      b = B();
      starts++;
      answer = b->up() ? "1" : "0";
    } else if (word == "kill\n" && b) {
      ::kill(b->keeper(), SIGKILL);
    } else if (word == "audit\n" && b) {
      answer = b->audit_clean() ? "1" : "0";
    } else if (word == "cells\n" && b) {
      answer = std::to_string(b->status("cells"));
    } else {
      b = nullptr;
    }
    (void)!write(fd, answer.c_str(), answer.size());
    close(fd);
    if (word == "bye\n")
      break;
  }
  close(listening);
  EXPECT_GT(starts, 0);
}

/* What peers read without asking is not seen by us: who decides when memory goes bad under a registration. */
class GuestRdmaPoison : public GuestRdma {
protected:
  // red's cell on b, in that tier, mapped by an engine of b; read by a; then its first page goes bad.
  void Matrix(const char *source, uint8_t tier, const std::string &more_tiers)
  {
    kit::MoverOptions o;
    o.config = "node: b\nlanes: 1\ncopy_plan: builtin\ntiers:\n  - {name: dram, transport: memory, capacity: 64MiB, slab_size: 4MiB}\n" +
               more_tiers + "listen: {address: '10.9.0.2', key_file: " + key_ + ", lend: 8MiB}\n";
    o.tenants = Tenants();
    auto b = std::make_unique<Mover>(o);
    auto a = A();
    ASSERT_TRUE(a->up() && b->up()) << a->log() << b->log();
    Engine mine(*b, guest::as("red")), far(*a, guest::as("red"));
    ASSERT_TRUE(Connected(far)) << a->log() << b->log();
    mine.fill(0, kMid, 5);
    ASSERT_EQ(DRAY_OK, mine.put("cell", 0, kMid, tier, DRAY_VERIFY_CRC).status);
    ASSERT_EQ(DRAY_OK, mine.put("beside", 0, kMid, DRAY_TIER_DRAM, DRAY_VERIFY_CRC).status);
    auto lease = mine.map("cell", tier);
    ASSERT_EQ(DRAY_OK, lease.status) << say(lease);
    char *p = const_cast<char *>(static_cast<const char *>(dray_map_address(mine.d, lease.slab, lease.off)));
    ASSERT_NE(nullptr, p);
    ASSERT_TRUE(Direct(far, "any", DRAY_TIER_REMOTE));
    auto c = far.get("cell", 0, kMid); // registers the slab
    ASSERT_EQ(DRAY_OK, c.status) << say(c) << a->log() << b->log();
    ASSERT_EQ(DRAY_PATH_RDMA_READ, c.path);
    // bad, in force, and nobody of the mover has touched it
    pid_t pid = fork();
    if (pid == 0) {
      signal(SIGBUS, SIG_DFL);
      madvise(p, 4096, MADV_HWPOISON); // EBUSY where it is pinned, and in force all the same; devdax: SIGBUS
      _exit(0);
    }
    waitpid(pid, nullptr, 0);
    memset(far.mem(), 0, kMid);
    c = far.get("cell", 0, kMid);
    printf("MATRIX %s | RDMA, registered before the poison: %s%s\n", source, say(c).c_str(),
           c.status == DRAY_OK && far.holds(0, kMid, 5) ? ", with the old data" : "");
    // rxe says success; the bytes are proven by the CRC that came with the answer, so they are the cell's or nothing
    if (c.status == DRAY_OK) {
      EXPECT_TRUE(far.holds(0, kMid, 5));
      EXPECT_TRUE(c.flags & DRAY_CRC_CHECKED);
    }
    // an engine meets it and says so: from then on the gate decides, not the provider
    struct dray_sqe *q = mine.sqe();
    dray_prep_quarantine_lease(q, lease.object, 0, 4096, 4096);
    c = mine.one();
    while (c.type == DRAY_POISON)
      c = mine.one();
    c = far.get("cell", 0, kMid);
    printf("MATRIX %s | RDMA, once it is known: %s\n", source, say(c).c_str());
    EXPECT_EQ(DRAY_REFUSED, c.status) << say(c);
    EXPECT_TRUE(c.reason == DRAY_POISONED || c.reason == DRAY_QUARANTINED) << say(c);
    c = far.get("beside", 0, kMid);
    EXPECT_EQ(DRAY_OK, c.status) << say(c) << " others read on";
    mine.close();
  }
};

TEST_F(GuestRdmaPoison, OfAMemfdSlabQuarantineGateAndCrcDecideNotTheProvider) { Matrix("memfd", DRAY_TIER_DRAM, ""); }

TEST_F(GuestRdmaPoison, OfADevdaxSlabQuarantineGateAndCrcDecideNotTheProvider)
{
  NEEDS("GUEST_DAX");
  Matrix("devdax", DRAY_TIER_CXL,
         "  - {name: cxl, transport: cxl, path: /dev/" + guest::dax() + ", owner: red, keep: fresh, capacity: 16MiB}\n");
}

TEST_F(GuestRdma, ADevdaxSlabIsReadByAPeerAndItsDrainLeavesNoRegistrationBehind)
{
  NEEDS("GUEST_DAX");
  int before = guest::kernel_warnings();
  kit::MoverOptions o;
  o.config = "node: b\nlanes: 1\ncopy_plan: builtin\ntiers:\n  - {name: dram, transport: memory, capacity: 64MiB, slab_size: 4MiB}\n"
             "  - {name: cxl, transport: cxl, path: /dev/" + guest::dax() +
             ", owner: red, keep: fresh, capacity: 16MiB}\nlisten: {address: '10.9.0.2', key_file: " + key_ +
             ", lend: 8MiB, lease_ms: 2000}\n";
  o.tenants = Tenants();
  auto b = std::make_unique<Mover>(o);
  auto a = A();
  ASSERT_TRUE(a->up() && b->up()) << a->log() << b->log();
  Engine mine(*b, guest::as("red")), far(*a, guest::as("red"));
  ASSERT_TRUE(Connected(far)) << a->log() << b->log();
  mine.fill(0, kMid, 5);
  ASSERT_EQ(DRAY_OK, mine.put("cell", 0, kMid, DRAY_TIER_CXL, DRAY_VERIFY_CRC).status);
  auto c = far.get("cell", 0, kMid);
  ASSERT_EQ(DRAY_OK, c.status) << say(c) << b->log();
  EXPECT_TRUE(far.holds(0, kMid, 5));
  auto r = run::dray({"tier", "drain", "cxl", "--timeout", "20"}, b.get());
  EXPECT_EQ(0, r.code) << r.out << r.err << b->log();
  EXPECT_EQ(0, guest::holds_dax(b->worker()));
  std::string out;
  EXPECT_EQ(0, guest::shell("echo " + guest::dax() + " > /sys/bus/dax/drivers/device_dax/unbind", &out)) << out;
  EXPECT_EQ(0, guest::shell("echo " + guest::dax() + " > /sys/bus/dax/drivers/device_dax/bind", &out)) << out;
  EXPECT_EQ(before, guest::kernel_warnings()) << "the kernel noticed";
}

TEST_F(GuestRdmaPoison, OfLentMemoryTheProviderSaysSuccessAndTheCrcProvesTheBytes)
{
  auto b = B();
  auto a = A();
  ASSERT_TRUE(a->up() && b->up()) << a->log() << b->log();
  Engine e(*a, guest::as("red"));
  ASSERT_TRUE(Connected(e)) << a->log() << b->log();
  e.fill(0, kMid, 3);
  ASSERT_EQ(DRAY_OK, e.put("cell", 0, kMid, DRAY_TIER_REMOTE_DRAM, DRAY_VERIFY_CRC).status);
  // b's worker has the lent memory mapped and registered; its first page goes bad, by a process that does not map it
  std::ifstream maps("/proc/" + std::to_string(b->worker()) + "/maps");
  unsigned long long from = 0, to = 0;
  for (std::string line; std::getline(maps, line);)
    if (line.find("/dev/zero") != std::string::npos && sscanf(line.c_str(), "%llx-%llx", &from, &to) == 2 && to - from == 8 * guest::kMiB)
      break;
  ASSERT_EQ(8 * guest::kMiB, to - from);
  uint64_t frame = 0;
  int fd = open(("/proc/" + std::to_string(b->worker()) + "/pagemap").c_str(), O_RDONLY);
  ASSERT_EQ(8, pread(fd, &frame, 8, (off_t)(from / 4096 * 8)));
  close(fd);
  char line[96];
  snprintf(line, sizeof line, "echo 0x%llx > /sys/kernel/debug/hwpoison/corrupt-pfn", (unsigned long long)(frame & ((1ull << 55) - 1)));
  guest::shell(line); // "busy" where it is pinned, and in force all the same
  auto c = e.get("cell", 0, kMid, DRAY_TIER_REMOTE_DRAM, DRAY_VERIFY_CRC);
  printf("MATRIX lent memory | RDMA, registered before the poison: %s%s\n", say(c).c_str(),
         c.status == DRAY_OK && e.holds(0, kMid, 3) ? ", with the old data" : "");
  if (c.status == DRAY_OK) {
    EXPECT_TRUE(c.flags & DRAY_CRC_CHECKED);
    EXPECT_TRUE(e.holds(0, kMid, 3));
  }
  EXPECT_TRUE(Connected(e)) << "the mover that lends lives on";
}

TEST_F(GuestRdma, BytesThatAreNotWhatTheirCrcSaysAreAFaultOfThatReadAlone)
{
  auto b = B();
  auto a = A();
  ASSERT_TRUE(a->up() && b->up()) << a->log() << b->log();
  Engine mine(*b, guest::as("red")), far(*a, guest::as("red"));
  ASSERT_TRUE(Connected(far)) << a->log() << b->log();
  mine.fill(0, kMid, 5);
  mine.fill(kMid, kMid, 6);
  ASSERT_EQ(DRAY_OK, mine.put("lie", 0, kMid, DRAY_TIER_DRAM, DRAY_VERIFY_CRC).status);
  ASSERT_EQ(DRAY_OK, mine.put("truth", kMid, kMid, DRAY_TIER_DRAM, DRAY_VERIFY_CRC).status);
  // b's memory changes behind its back: what it says of the cell is a lie from now on
  std::string pid = std::to_string(b->worker());
  std::ifstream maps("/proc/" + pid + "/maps");
  int mem = open(("/proc/" + pid + "/mem").c_str(), O_RDWR), changed = 0;
  for (std::string line; std::getline(maps, line);) {
    unsigned long long from, to;
    if (line.find("dray-dram") == std::string::npos || sscanf(line.c_str(), "%llx-%llx", &from, &to) != 2)
      continue;
    std::vector<char> page(4096);
    for (; from < to; from += kMid)
      if (pread(mem, page.data(), 4096, (off_t)from) == 4096 && !memcmp(page.data(), mine.mem(), 4096)) {
        page[100] ^= 1;
        changed += pwrite(mem, &page[100], 1, (off_t)(from + 100)) == 1;
      }
  }
  close(mem);
  ASSERT_EQ(1, changed);
  auto c = far.get("lie", 0, kMid);
  EXPECT_EQ(DRAY_FAULT, c.status) << say(c);
  EXPECT_EQ(DRAY_CRC_MISMATCH, c.reason) << say(c);
  c = far.move("lie", DRAY_TIER_DRAM, DRAY_TIER_REMOTE);
  EXPECT_EQ(DRAY_CRC_MISMATCH, c.reason) << say(c) << " a bad copy is no cell here";
  EXPECT_EQ(DRAY_ABSENT, far.get("lie", 0, kMid, DRAY_TIER_DRAM).reason);
  c = far.get("truth", 0, kMid);
  EXPECT_EQ(DRAY_OK, c.status) << say(c);
  EXPECT_TRUE(far.holds(0, kMid, 6));
}

/* From here on this process locks no more than that, root or not. */
static void MayLock(rlim_t bytes)
{
  struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct caps[2] = {};
  struct rlimit l = {bytes, bytes};
  syscall(SYS_capget, &h, caps);
  for (auto *set : {&caps[0].effective, &caps[0].permitted})
    *set &= ~(1u << CAP_IPC_LOCK);
  syscall(SYS_capset, &h, caps);
  setrlimit(RLIMIT_MEMLOCK, &l);
}

TEST_F(GuestRdma, LockedMemoryThatIsShortIsSaidWithNeedHaveAndKnob)
{
  int out[2];
  ASSERT_EQ(0, pipe(out));
  pid_t pid = fork();
  if (pid == 0) {
    MayLock(64 << 10);
    struct dev_config cfg = {};
    cfg.name = "far";
    cfg.path = "10.9.0.1";
    cfg.capacity = 1 << 20;
    cfg.lanes = 2;
    cfg.depth = 16;
    cfg.bounce_bytes = 1 << 20;
    struct err e = {};
    struct dev *d = nullptr;
    int r = transport_rdma.cold->open(&cfg, &e, &d);
    if (r == 0)
      r = d->cold->start(d, &e);
    dprintf(out[1], "%d %s", r, e.text);
    _exit(0);
  }
  close(out[1]);
  char text[600] = "";
  ssize_t n = read(out[0], text, sizeof text - 1);
  EXPECT_GT(n, 0);
  close(out[0]);
  waitpid(pid, nullptr, 0);
  std::string said = text;
  EXPECT_EQ(0u, said.find("-12 ")) << said;
  for (const char *word : {"RLIMIT_MEMLOCK", "2097152", "65536", "LimitMEMLOCK="})
    EXPECT_NE(std::string::npos, said.find(word)) << word << ": " << said;
}

TEST_F(GuestRdma, BytesGoStraightFromAndToRegisteredMemoryAndNothingStaysPinned)
{
  auto b = B();
  auto a = A();
  ASSERT_TRUE(a->up() && b->up()) << a->log() << b->log();
  Engine e(*a, guest::as("red"));
  ASSERT_TRUE(Connected(e)) << a->log() << b->log();
  int64_t before = Pinned(a->worker());
  EXPECT_GT(before, 0) << "bounce memory is";
  e.fill(0, kMid, 1);
  auto c = e.put("first", 0, kMid, DRAY_TIER_REMOTE_DRAM, DRAY_VERIFY_CRC);
  EXPECT_EQ(DRAY_OK, c.status) << say(c);
  for (uint8_t tier : {DRAY_TIER_REMOTE_DRAM, DRAY_TIER_REMOTE}) {
    ASSERT_TRUE(Direct(e, "small", tier)) << tier << a->log();
    e.fill(0, kMid, 2);
    c = e.put("cell", 0, kMid, tier, DRAY_VERIFY_CRC);
    ASSERT_EQ(DRAY_OK, c.status) << say(c);
    EXPECT_EQ(DRAY_PATH_RDMA_WRITE, c.path) << say(c);
    memset(e.mem(), 0, kMid);
    c = e.get("cell", 0, kMid, tier, DRAY_VERIFY_CRC);
    ASSERT_EQ(DRAY_OK, c.status) << say(c);
    EXPECT_EQ(DRAY_PATH_RDMA_READ, c.path) << say(c);
    EXPECT_TRUE(c.flags & DRAY_CRC_CHECKED) << say(c);
    EXPECT_TRUE(e.holds(0, kMid, 2));
  }
  EXPECT_GT(Pinned(a->worker()), before);
  // a layout of pieces that are small: gathered, and the path says so; one of large pieces is not
  for (uint64_t piece : {512ul, 8192ul}) {
    struct dray_layout layout = {0, 80 * piece, 2 * piece, static_cast<uint32_t>(piece), 40};
    uint16_t id = 0;
    ASSERT_EQ(0, dray_layout_define(e.d, &layout, &id));
    for (uint8_t op : {DRAY_PUT, DRAY_GET}) {
      for (int i = 0; op == DRAY_PUT && i < 40; i++)
        kit::pattern_fill(e.mem() + i * 2 * piece, piece, 9 + i);
      if (op == DRAY_GET)
        memset(e.mem(), 0, 80 * piece);
      struct dray_sqe *q = e.sqe();
      q->op = op;
      q->region = e.region.id;
      q->layout = id;
      q->len = 40 * piece;
      q->tier = DRAY_TIER_REMOTE_DRAM;
      memcpy(q->key, kit::Key("scattered").b, 16);
      c = e.one();
      ASSERT_EQ(DRAY_OK, c.status) << say(c);
      uint8_t straight = op == DRAY_PUT ? DRAY_PATH_RDMA_WRITE : DRAY_PATH_RDMA_READ;
      EXPECT_EQ(piece < 4096 ? static_cast<uint8_t>(DRAY_PATH_BOUNCE) : straight, c.path) << piece << say(c);
      for (int i = 0; op == DRAY_GET && i < 40; i++)
        EXPECT_TRUE(kit::pattern_holds(e.mem() + i * 2 * piece, piece, 9 + i)) << piece;
    }
  }
  EXPECT_TRUE(a->audit_clean());
  e.close();
  auto t = Clock::now();
  while (Pinned(a->worker()) != before && Since(t) < 10)
    poll(nullptr, 0, 20);
  EXPECT_EQ(before, Pinned(a->worker())) << "a session's memory is pinned after its end";
}

TEST_F(GuestRdma, ATierThatOnlyBouncesRegistersNothingOfEngines)
{
  remote_more_ = ", bounce_only: yes";
  auto b = B();
  auto a = A();
  ASSERT_TRUE(a->up() && b->up()) << a->log() << b->log();
  Engine e(*a, guest::as("red"));
  ASSERT_TRUE(Connected(e)) << a->log() << b->log();
  int64_t before = Pinned(a->worker());
  EXPECT_FALSE(Direct(e, "small", DRAY_TIER_REMOTE_DRAM, 2));
  auto c = e.get("small", 0, kSmall, DRAY_TIER_REMOTE_DRAM);
  EXPECT_EQ(DRAY_OK, c.status) << say(c);
  EXPECT_EQ(DRAY_PATH_BOUNCE, c.path) << say(c);
  EXPECT_EQ(before, Pinned(a->worker()));
}

/* The wire is dead when the read goes out and alive again right after its deadline: what the adapter would still send
   again must find nobody. */
TEST_F(GuestRdma, AReadStraightIntoAnEnginesMemoryLandsNothingAfterItsDeadline)
{
  auto b = B();
  auto a = A();
  ASSERT_TRUE(a->up() && b->up()) << a->log() << b->log();
  Engine e(*a, guest::as("red"));
  ASSERT_TRUE(Connected(e)) << a->log() << b->log();
  ASSERT_TRUE(Direct(e, "small", DRAY_TIER_REMOTE_DRAM)) << a->log();
  e.fill(0, kMid, 1);
  ASSERT_EQ(DRAY_OK, e.put("lent", 0, kMid, DRAY_TIER_REMOTE_DRAM, DRAY_VERIFY_CRC).status) << a->log();
  for (int i = 0; i < 3; i++) {
    e.fill(kMid, kMid, 77);
    ASSERT_EQ(0, guest::shell("tc qdisc add dev " + guest::env("GUEST_IF1") + " root netem loss 100%"));
    auto c = Timed(e, DRAY_GET, "lent", kMid, kMid, DRAY_TIER_REMOTE_DRAM, 100000);
    ASSERT_EQ(0, guest::shell("tc qdisc del dev " + guest::env("GUEST_IF1") + " root"));
    EXPECT_TRUE(c.reason == DRAY_DEADLINE || c.reason == DRAY_PEER_UNREACHABLE) << say(c);
    auto t = Clock::now();
    c = {};
    while (Since(t) < 20 && c.status != DRAY_OK) // the same connection, or the next: by then all that was out has come
      c = Timed(e, DRAY_GET, "lent", 0, kMid, DRAY_TIER_REMOTE_DRAM, 2000000);
    EXPECT_EQ(DRAY_OK, c.status) << say(c) << a->log();
    EXPECT_TRUE(e.holds(kMid, kMid, 77)) << "bytes landed after the end";
  }
  EXPECT_TRUE(a->audit_clean());
}

TEST_F(GuestRdma, MemoryThatCannotBeLockedGoesOnBouncing)
{
  auto b = B();
  ASSERT_TRUE(b->up()) << b->log();
  int out[2];
  ASSERT_EQ(0, pipe(out));
  pid_t pid = fork();
  if (pid == 0) {
    MayLock(2 << 20);
    struct dev_config cfg = {};
    cfg.name = "far";
    cfg.path = "10.9.0.1>10.9.0.2";
    cfg.key_file = key_.c_str();
    cfg.capacity = 1 << 20;
    cfg.lanes = 1;
    cfg.depth = 16;
    cfg.bounce_bytes = 256 << 10;
    struct err e = {};
    struct dev *d = nullptr;
    struct slab_mem m = {};
    int r = transport_rdma.cold->open(&cfg, &e, &d);
    r = r ? r : d->cold->start(d, &e);
    struct dev_paths paths = {};
    for (auto t = Clock::now(); !r && !paths.open && Since(t) < 10; poll(nullptr, 0, 10))
      d->cold->paths(d, &paths);
    r = r ? r : d->cold->slab_add(d, 1 << 20, &e, &m);
    size_t n = 8 << 20; // four times what may be locked
    void *p = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    r = r ? r : d->cold->memory_add(d, p, n);
    int bounced = 0, other = 0;
    for (int i = 0; !r && i < 20; i++) {
      struct xfer_vec v = {p, 65536};
      struct xfer x = {};
      struct xfer_done done = {};
      x.op = i % 2 ? XFER_READ : XFER_WRITE;
      x.nvec = 1;
      x.vec = &v;
      x.bytes = v.len;
      x.slab = &m;
      r = d->hot->submit(d, 0, &x);
      d->hot->flush(d, 0);
      for (auto t = Clock::now(); !r && !d->hot->poll(d, 0, &done, 1) && Since(t) < 10;)
        ;
      bounced += done.status == XFER_OK && done.path == DRAY_PATH_BOUNCE;
      other += done.status != XFER_OK || done.path != DRAY_PATH_BOUNCE;
      poll(nullptr, 0, 10); // the link thread has tried by then, most times
    }
    dprintf(out[1], "%d %d %d %s", r, bounced, other, e.text);
    _exit(0);
  }
  close(out[1]);
  char text[600] = "";
  EXPECT_GT(read(out[0], text, sizeof text - 1), 0);
  close(out[0]);
  waitpid(pid, nullptr, 0);
  EXPECT_EQ(0u, std::string(text).find("0 20 0 ")) << text;
}
