/* SPDX-License-Identifier: Apache-2.0 */
/* Leases taken back: who gives back in time keeps its session; who does not is ended, and what it still maps is never reused
   while its process lives. */
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/run_dray.h"

using kit::Engine;
using kit::Key;
using kit::Mover;
using kit::say;

namespace {
constexpr uint64_t kLen = 60000;

uint32_t MKey(Engine &e)
{
  struct dray_key k;
  memset(&k, 0, sizeof k);
  for (char *axis : {k.model, k.tokenizer, k.serializer, k.position, k.policy, k.admitter})
    strcpy(axis, "1");
  uint32_t id = 0;
  EXPECT_EQ(dray_key_define(e.d, &k, &id), 0);
  return id;
}
struct dray_cqe Publish(Engine &e, const std::string &name, uint8_t taint, uint32_t mkey, uint8_t scope = DRAY_SCOPE_FLEET)
{
  struct dray_publish p;
  memset(&p, 0, sizeof p);
  p.scope = scope;
  p.taint = taint;
  p.mkey = mkey;
  memcpy(dray_items(e.d) + 3, &p, sizeof p);
  dray_prep_publish(e.sqe(), Key(name).b, 3);
  return e.one();
}
struct dray_cqe Map(Engine &e, const std::string &name, uint32_t mkey)
{
  struct dray_sqe *q = e.sqe();
  dray_prep_map(q, Key(name).b, 0);
  q->arg = mkey;
  return e.one();
}
/* Ends a lease, past whatever notices wait before the answer. */
struct dray_cqe GiveBack(Engine &e, uint64_t lease)
{
  dray_prep_unmap(e.sqe(), lease);
  for (auto &c : e.wait(1))
    if (c.type == DRAY_DONE)
      return c;
  return {};
}
/* The next notice of that kind, within ten seconds; type 0: none came. */
struct dray_cqe Notice(Engine &e, unsigned type)
{
  for (int i = 0; i < 1000; i++) {
    const struct dray_cqe *c = dray_peek(e.d);
    if (!c) {
      dray_wait(e.d, 1, 10);
      continue;
    }
    struct dray_cqe v = *c;
    dray_seen(e.d);
    if (v.type == type)
      return v;
  }
  return {};
}

/* An engine in a process of its own: maps the cell, says so, and keeps the map whatever it is told. */
struct Keeper {
  pid_t pid = -1;
  int say[2] = {-1, -1}, hear[2] = {-1, -1};
  Keeper(const Mover &m, const std::string &cell, uint64_t seed, bool hang_up)
  {
    if (pipe(say) < 0 || pipe(hear) < 0)
      return;
    pid = fork();
    if (pid)
      return;
    alarm(120);
    auto tell = [&](char c) { return write(say[1], &c, 1) == 1; };
    char c;
    auto e = std::make_unique<Engine>(m, kit::EngineOptions{.token = "b"});
    auto lease = e->error() ? dray_cqe{} : Map(*e, cell, MKey(*e));
    const void *p = lease.status == DRAY_OK ? dray_map_address(e->d, lease.slab, lease.off) : nullptr;
    if (!p || !kit::pattern_holds(p, kLen, seed) || !tell('m'))
      _exit(1);
    if (hang_up && read(hear[0], &c, 1) == 1) { /* its socket goes, its map stays: what no honest library does */
      for (int fd = 3; fd < 256; fd++)
        if (fd != say[1] && fd != hear[0])
          close(fd);
      tell('h');
    }
    while (read(hear[0], &c, 1) == 1) /* looks whenever it is asked to */
      tell(kit::pattern_holds(p, kLen, seed) ? 'y' : 'n');
    _exit(0);
  }
  char ask()
  {
    char c = '?';
    struct pollfd p = {say[0], POLLIN, 0};
    return write(hear[1], "?", 1) == 1 && poll(&p, 1, 20000) == 1 && read(say[0], &c, 1) == 1 ? c : '!';
  }
  char hear_one()
  {
    char c = '?';
    struct pollfd p = {say[0], POLLIN, 0};
    return poll(&p, 1, 20000) == 1 && read(say[0], &c, 1) == 1 ? c : '!';
  }
  void end()
  {
    if (pid > 0) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    pid = -1;
  }
  ~Keeper()
  {
    end();
    for (int fd : {say[0], say[1], hear[0], hear[1]})
      if (fd >= 0)
        close(fd);
  }
};

struct Revoke : ::testing::Test {
  std::unique_ptr<Mover> m;
  std::unique_ptr<Engine> red;
  uint32_t mk = 0;
  void start(const std::string &grace, const std::string &tiers = "[{name: dram, transport: memory, capacity: 4MiB}]")
  {
    kit::MoverOptions o;
    o.config = "revoke_grace: " + grace + "\ntenants: [{name: red, token: r}, {name: blue, token: b}]\ntiers: " + tiers + "\n";
    m = std::make_unique<Mover>(o);
    ASSERT_TRUE(m->up()) << m->log();
    red = std::make_unique<Engine>(*m, kit::EngineOptions{.token = "r"});
    mk = MKey(*red);
  }
  void publish(const std::string &name, uint64_t seed)
  {
    red->fill(0, kLen, seed);
    ASSERT_EQ(red->put(name, 0, kLen, DRAY_TIER_DRAM).status, DRAY_OK);
    ASSERT_EQ(Publish(*red, name, DRAY_TRUSTED, mk).status, DRAY_OK);
  }
  /* Far more published cells than the tier has room for, all of the class of the one that was taken back. */
  void churn(uint64_t seed)
  {
    for (uint64_t i = 0; i < 200; i++) {
      std::string name = "churn" + std::to_string(i);
      red->fill(0, kLen, seed + i);
      ASSERT_EQ(red->put(name, 0, kLen, DRAY_TIER_DRAM).status, DRAY_OK);
      auto c = Publish(*red, name, DRAY_TRUSTED, mk);
      ASSERT_EQ(c.status, DRAY_OK) << say(c) << i;
    }
  }
};

TEST_F(Revoke, WhoGivesBackInTimeKeepsItsSession)
{
  start("20s");
  Engine blue(*m, {.token = "b"});
  publish("c", 1);
  auto lease = Map(blue, "c", MKey(blue));
  ASSERT_EQ(lease.status, DRAY_OK) << say(lease);
  auto mine = Map(*red, "c", mk);
  ASSERT_EQ(mine.status, DRAY_OK);
  ASSERT_EQ(Publish(*red, "c", DRAY_TAINTED, mk).status, DRAY_OK);
  auto n = Notice(blue, DRAY_REVOKE);
  ASSERT_EQ(n.type, DRAY_REVOKE);
  EXPECT_EQ(n.reason, DRAY_LEASE_REVOKED);
  EXPECT_EQ(n.object, lease.object);
  EXPECT_EQ(n.slab, lease.slab);
  EXPECT_EQ(n.detail, 20000u) << "milliseconds to end it in";
  EXPECT_EQ(dray_lease_state(blue.d, lease.object), DRAY_LEASE_REVOKING);
  EXPECT_EQ(dray_lease_state(red->d, mine.object), DRAY_LEASE_LIVE) << "the owner keeps its own";
  EXPECT_TRUE(kit::pattern_holds(dray_map_address(blue.d, lease.slab, lease.off), kLen, 1)) << "readable until it lets go";
  EXPECT_EQ(blue.unmap(lease.object).status, DRAY_OK);
  EXPECT_EQ(dray_lease_state(blue.d, lease.object), DRAY_LEASE_NONE);
  EXPECT_EQ(blue.put("own", 0, 4096).status, DRAY_OK) << "its session goes on";
  EXPECT_TRUE(m->wait_status("revoked.given_back", 1));
  EXPECT_EQ(m->status("revoked.sessions_ended"), 0);
  EXPECT_EQ(red->unmap(mine.object).status, DRAY_OK);
  EXPECT_TRUE(m->audit_clean());
}

TEST_F(Revoke, TheGraceIsOverOnlyForWhatWasNotGivenBack)
{
  start("300ms");
  Engine blue(*m, {.token = "b"});
  uint32_t bk = MKey(blue);
  publish("c", 1);
  auto a = Map(blue, "c", bk), b = Map(blue, "c", bk);
  ASSERT_EQ(a.status, DRAY_OK);
  ASSERT_EQ(b.status, DRAY_OK);
  ASSERT_EQ(Publish(*red, "c", DRAY_TAINTED, mk).status, DRAY_OK);
  ASSERT_EQ(Notice(blue, DRAY_REVOKE).type, DRAY_REVOKE);
  EXPECT_EQ(blue.unmap(a.object).status, DRAY_OK);
  auto n = Notice(blue, DRAY_FATAL); /* the second is kept */
  ASSERT_EQ(n.type, DRAY_FATAL);
  EXPECT_EQ(n.reason, DRAY_LEASE_REVOKED);
  EXPECT_TRUE(m->wait_status("revoked.sessions_ended", 1));
  EXPECT_TRUE(m->wait_status("sessions", 1));
  EXPECT_TRUE(m->wait_status("revoked.held", 1)) << "this process lives";
  EXPECT_EQ(m->status("revoked.held_bytes"), (int64_t)kLen);
  EXPECT_NE(m->log().find("did not give a lease back within 300 ms"), std::string::npos) << m->log();
  Engine again(*m, {.token = "b"});
  EXPECT_EQ(again.put("own", 0, 4096).status, DRAY_OK) << "it may come again";
  EXPECT_TRUE(m->audit_clean());
}

TEST_F(Revoke, BytesAreNotReusedWhileTheProcessLives)
{
  start("100ms");
  publish("c", 7);
  Keeper k(*m, "c", 7, false);
  ASSERT_EQ(k.hear_one(), 'm');
  ASSERT_EQ(Publish(*red, "c", DRAY_QUARANTINED_TAINT, mk).status, DRAY_OK);
  ASSERT_TRUE(m->wait_status("revoked.held", 1)) << m->log();
  ASSERT_TRUE(m->wait_status("sessions", 1));
  red->drop("c");
  churn(1000);
  EXPECT_EQ(k.ask(), 'y') << "its map shows what it always did";
  int64_t slabs = m->status("slabs");
  k.end();
  EXPECT_TRUE(m->wait_status("revoked.held", 0));
  EXPECT_TRUE(m->wait_status("revoked.held_bytes", 0));
  churn(5000);
  EXPECT_LE(m->status("slabs"), slabs) << "the slab was destroyed, or is on its way with what is left in it";
  EXPECT_TRUE(m->audit_clean());
}

/* The slab has more slots than the lease: none of them takes anything new as long as somebody maps them all. */
TEST_F(Revoke, NothingNewGoesIntoASlabThatIsHeld)
{
  start("100ms");
  publish("c", 7);
  Keeper k(*m, "c", 7, false);
  ASSERT_EQ(k.hear_one(), 'm');
  Engine blue(*m, {.token = "b"});
  uint32_t bk = MKey(blue);
  publish("before", 3);
  auto before = Map(blue, "before", bk);
  ASSERT_EQ(before.status, DRAY_OK);
  ASSERT_EQ(Publish(*red, "c", DRAY_TAINTED, mk).status, DRAY_OK);
  ASSERT_TRUE(m->wait_status("revoked.held", 1)) << m->log();
  publish("after", 4);
  auto after = Map(blue, "after", bk);
  ASSERT_EQ(after.status, DRAY_OK);
  EXPECT_NE(after.slab, before.slab) << "the same class, and there was room";
  EXPECT_TRUE(m->audit_clean());
}

TEST_F(Revoke, HangingUpInsteadOfGivingBackIsHeldToo)
{
  start("60s");
  publish("c", 7);
  Keeper k(*m, "c", 7, true);
  ASSERT_EQ(k.hear_one(), 'm');
  ASSERT_EQ(Publish(*red, "c", DRAY_TAINTED, mk).status, DRAY_OK);
  ASSERT_TRUE(m->wait_status("revoked.asked", 1));
  ASSERT_EQ(k.ask(), 'h');
  ASSERT_TRUE(m->wait_status("sessions", 1)) << m->log();
  EXPECT_EQ(m->status("revoked.held"), 1);
  red->drop("c");
  churn(1000);
  EXPECT_EQ(k.ask(), 'y');
  k.end();
  EXPECT_TRUE(m->wait_status("revoked.held", 0));
  EXPECT_TRUE(m->audit_clean());
}

TEST_F(Revoke, WhoHangsUpByItselfLeavesNothingBehind)
{
  start("60s");
  publish("c", 7);
  {
    Engine blue(*m, {.token = "b"});
    ASSERT_EQ(Map(blue, "c", MKey(blue)).status, DRAY_OK);
  }
  EXPECT_TRUE(m->wait_status("leases", 0));
  EXPECT_EQ(m->status("revoked.held"), 0);
  EXPECT_TRUE(m->audit_clean());
}

TEST_F(Revoke, TheOperatorTakesACellFromEverybodyElse)
{
  start("20s");
  Engine blue(*m, {.token = "b"});
  uint32_t bk = MKey(blue);
  publish("c", 1);
  auto lease = Map(blue, "c", bk);
  ASSERT_EQ(lease.status, DRAY_OK);
  run::Result list = run::dray({"cells", "--tenant", "red", "--json"}, m.get());
  json_t *all = json_loads(list.out.c_str(), 0, nullptr);
  std::string key = json_string_value(json_object_get(json_array_get(json_object_get(all, "cells"), 0), "key"));
  json_decref(all);
  run::Result r = run::dray({"cells", "--revoke", key, "--tenant", "red"}, m.get());
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("20000 ms"), std::string::npos) << r.out;
  EXPECT_EQ(Notice(blue, DRAY_REVOKE).object, lease.object);
  EXPECT_EQ(Map(blue, "c", bk).reason, DRAY_QUARANTINED);
  EXPECT_EQ(blue.unmap(lease.object).status, DRAY_OK);
  EXPECT_EQ(run::dray({"cells", "--revoke", key, "--tenant", "blue"}, m.get()).code, 1) << "it is not blue's";
  EXPECT_EQ(run::dray({"cells", "--revoke", key, "--tenant", "nobody"}, m.get()).code, 1);
  EXPECT_EQ(run::dray({"cells", "--revoke", "zz", "--tenant", "red"}, m.get()).code, 2);
  EXPECT_EQ(run::dray({"cells", "--revoke", key}, m.get()).code, 2);
  EXPECT_EQ(red->drop("c").status, DRAY_OK) << "its owner may still throw it away";
}

TEST_F(Revoke, AnAgentsNeighbourGivesBackATenantsCell)
{
  start("20s");
  Engine other(*m, {.agent = "second", .token = "r"});
  uint32_t ok = MKey(other);
  red->fill(0, kLen, 2);
  ASSERT_EQ(red->put("t", 0, kLen, DRAY_TIER_DRAM).status, DRAY_OK);
  ASSERT_EQ(Publish(*red, "t", DRAY_TRUSTED, mk, DRAY_SCOPE_TENANT).status, DRAY_OK);
  auto lease = Map(other, "t", ok);
  ASSERT_EQ(lease.status, DRAY_OK) << say(lease);
  ASSERT_EQ(Publish(*red, "t", DRAY_TRUSTED, mk, DRAY_SCOPE_FLEET).status, DRAY_OK) << "wider is not worse: nobody is asked";
  EXPECT_EQ(m->status("revoked.asked"), 0);
  auto fleet = Map(other, "t", ok);
  ASSERT_EQ(fleet.status, DRAY_OK) << say(fleet);
  ASSERT_NE(fleet.slab, lease.slab);
  ASSERT_EQ(Publish(*red, "t", DRAY_TAINTED, mk).status, DRAY_OK);
  ASSERT_TRUE(m->wait_status("revoked.asked", 2)) << "that on the bytes before they were widened, too";
  EXPECT_EQ(dray_lease_state(other.d, lease.object), DRAY_LEASE_REVOKING);
  EXPECT_EQ(dray_lease_state(other.d, fleet.object), DRAY_LEASE_REVOKING);
  EXPECT_EQ(GiveBack(other, lease.object).status, DRAY_OK);
  EXPECT_EQ(GiveBack(other, fleet.object).status, DRAY_OK);
  EXPECT_EQ(Map(other, "t", ok).reason, DRAY_TAINT_DENIED);
}

/* The bytes that a lease is on may not be the cell's any more: the key is what is taken back. */
TEST_F(Revoke, TheOperatorReachesLeasesOnWhatWasReplacedMovedOrDropped)
{
  start("20s", "[{name: dram, transport: memory, capacity: 4MiB}, {name: numa_far, transport: memory, capacity: 4MiB}]");
  Engine other(*m, {.agent = "second", .token = "r"}), blue(*m, {.token = "b"});
  uint32_t ok = MKey(other), bk = MKey(blue);
  char hex[33];
  for (int i = 0; i < 16; i++)
    snprintf(hex + 2 * i, 3, "%02x", Key("t").b[i]);
  auto revoke = [&] { return run::dray({"cells", "--revoke", hex, "--tenant", "red"}, m.get()); };
  red->fill(0, kLen, 1);
  ASSERT_EQ(red->put("t", 0, kLen, DRAY_TIER_DRAM).status, DRAY_OK);
  ASSERT_EQ(Publish(*red, "t", DRAY_TRUSTED, mk, DRAY_SCOPE_TENANT).status, DRAY_OK);
  std::vector<std::pair<Engine *, uint64_t>> held;
  auto hold = [&](Engine &e, uint32_t k) {
    auto c = Map(e, "t", k);
    ASSERT_EQ(c.status, DRAY_OK) << say(c);
    held.emplace_back(&e, c.object);
  };
  hold(other, ok); /* tenant-wide bytes */
  ASSERT_EQ(red->move("t", DRAY_TIER_NUMA_FAR).status, DRAY_OK);
  hold(other, ok); /* those on the other tier */
  ASSERT_EQ(Publish(*red, "t", DRAY_TRUSTED, mk).status, DRAY_OK);
  hold(other, ok); /* the fleet's */
  hold(blue, bk);
  auto own = Map(*red, "t", mk);
  ASSERT_EQ(own.status, DRAY_OK);
  ASSERT_EQ(red->put("beside", 0, kLen, DRAY_TIER_DRAM).status, DRAY_OK);
  ASSERT_EQ(Publish(*red, "beside", DRAY_TRUSTED, mk).status, DRAY_OK);
  auto beside = Map(blue, "beside", bk);
  ASSERT_EQ(beside.status, DRAY_OK);
  ASSERT_EQ(red->drop("t").status, DRAY_OK); /* then another of that name */
  ASSERT_EQ(red->put("t", 0, kLen, DRAY_TIER_DRAM).status, DRAY_OK);
  EXPECT_EQ(revoke().code, 0);
  EXPECT_TRUE(m->wait_status("revoked.asked", (int64_t)held.size()));
  for (auto &[e, id] : held) {
    EXPECT_EQ(dray_lease_state(e->d, id), DRAY_LEASE_REVOKING);
    EXPECT_EQ(GiveBack(*e, id).status, DRAY_OK);
  }
  EXPECT_EQ(dray_lease_state(red->d, own.object), DRAY_LEASE_LIVE) << "its owner's";
  EXPECT_EQ(dray_lease_state(blue.d, beside.object), DRAY_LEASE_LIVE) << "another cell's";
  EXPECT_EQ(red->unmap(own.object).status, DRAY_OK);
  /* gone altogether, and somebody still holds it */
  ASSERT_EQ(red->drop("t").status, DRAY_OK);
  red->fill(0, kLen, 2);
  publish("t", 2);
  held.clear();
  hold(blue, bk);
  ASSERT_EQ(red->drop("t").status, DRAY_OK);
  auto r = revoke();
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("asked back"), std::string::npos) << r.err;
  EXPECT_TRUE(m->wait_status("revoked.asked", 5));
  EXPECT_EQ(dray_lease_state(blue.d, held[0].second), DRAY_LEASE_REVOKING);
  auto back = GiveBack(blue, held[0].second);
  EXPECT_EQ(back.status, DRAY_OK) << say(back) << m->log();
  /* what is granted after a verdict is not asked back by it */
  publish("t", 3);
  ASSERT_EQ(Publish(*red, "t", DRAY_TAINTED, mk).status, DRAY_OK);
  int64_t asked = m->status("revoked.asked");
  auto mine = Map(*red, "t", mk);
  EXPECT_EQ(mine.status, DRAY_OK) << say(mine);
  EXPECT_EQ(m->status("revoked.asked"), asked);
  EXPECT_TRUE(m->audit_clean());
}

TEST_F(Revoke, ABadGraceIsAClearError)
{
  for (const char *bad : {"-1", "0", "nan", "9ms", "11m", "99999999999999999999s"}) {
    kit::MoverOptions o;
    o.config = std::string("revoke_grace: ") + bad + "\n";
    Mover b(o);
    EXPECT_FALSE(b.up()) << bad;
    EXPECT_NE(b.log().find("revoke_grace"), std::string::npos) << b.log();
  }
}
} // namespace
