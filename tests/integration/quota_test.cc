/* SPDX-License-Identifier: Apache-2.0 */
/* Quotas with a real mover and real engines: what was promised is served, refusals say why and by which rule. */
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/kit/mover.h"

using kit::Engine;
using kit::Mover;
using kit::say;

namespace {
const uint64_t kCell = 64 << 10, kMiB = 1 << 20;

/* dram of 16 MiB and a disk, tenants a b c. */
std::string config(const std::string &dir, const std::string &more)
{
  return "harden: true\n"
         "tiers:\n"
         "  - {name: dram, transport: memory, capacity: 16MiB, slab_size: 1MiB}\n"
         "  - {name: disk, transport: file, path: " + dir + "/disk, capacity: 64MiB, slab_size: 1MiB}\n"
         "tenants: [{name: a, token: ta}, {name: b, token: tb}, {name: c, token: tc}]\n" + more;
}
/* A mover whose file can be rewritten. */
class Quota : public ::testing::Test {
 protected:
  std::string dir, file;
  void SetUp() override
  {
    char name[] = "/tmp/dray-quota-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    dir = name;
    file = dir + "/drayd.yaml";
  }
  void TearDown() override
  {
    if (system(("rm -rf " + dir).c_str()) != 0) {
    }
  }
  void write(const std::string &more)
  {
    std::ofstream(file + ".new") << config(dir, more);
    ASSERT_EQ(rename((file + ".new").c_str(), file.c_str()), 0) << "as an editor does it: another inode";
  }
  std::unique_ptr<Mover> start(const std::string &more)
  {
    kit::MoverOptions o;
    o.dir = dir;
    o.config = config(dir, more);
    auto m = std::make_unique<Mover>(o);
    EXPECT_TRUE(m->up()) << m->log();
    return m;
  }
  static bool reload(const Mover &m, std::string *text = nullptr)
  {
    std::string answer = m.ask("{\"verb\":\"reload\"}");
    if (text)
      *text = answer;
    return answer.find("\"good\":true") != std::string::npos;
  }
};
std::string n(int i) { return "c" + std::to_string(i); }

TEST_F(Quota, ATenantThatAsksForThreeTimesItsLimitGetsItsLimitAndOthersTheirReserve)
{
  auto m = start("quotas:\n"
                 "  - {tenant: a, tier: dram, reserve: 2MiB, limit: 4MiB}\n"
                 "  - {tenant: b, tier: dram, reserve: 4MiB}\n");
  Engine a(*m, {.token = "ta"}), b(*m, {.token = "tb"}), c(*m, {.token = "tc"});
  int got = 0, refused = 0;
  for (int i = 0; i < 192; i++) { /* 12 MiB */
    auto r = a.put(n(i), 0, kCell, DRAY_TIER_DRAM);
    if (r.status == DRAY_OK) {
      got++;
      continue;
    }
    refused++;
    ASSERT_EQ(r.reason, DRAY_QUOTA_EXCEEDED) << say(r);
    ASSERT_EQ(r.detail, (uint32_t)DRAY_RULE_LIMIT) << "the rule";
    ASSERT_EQ(r.bytes, 0u);
  }
  EXPECT_EQ(got, 64) << "all of its limit";
  EXPECT_EQ(refused, 128);
  for (int i = 0; i < 200; i++) /* c has no quota and takes what there is, again and again */
    ASSERT_EQ(c.put(n(i), 0, kCell, DRAY_TIER_DRAM).status, DRAY_OK) << i;
  for (int i = 0; i < 64; i++)
    ASSERT_EQ(b.put(n(i), 0, kCell, DRAY_TIER_DRAM).status, DRAY_OK) << i;
  for (int i = 0; i < 100; i++)
    ASSERT_EQ(c.put(n(300 + i), 0, kCell, DRAY_TIER_DRAM).status, DRAY_OK) << i;
  int in_dram = 0;
  for (int i = 0; i < 64; i++) {
    auto r = b.get(n(i), 0, kCell);
    ASSERT_EQ(r.status, DRAY_OK);
    in_dram += r.tier == DRAY_TIER_DRAM;
  }
  EXPECT_EQ(in_dram, 64) << "what b's reserve covers was not moved out for c";
  std::string t = m->ask("{\"verb\":\"tenants\"}");
  EXPECT_NE(t.find("\"QUOTA_EXCEEDED\":128"), std::string::npos) << t;
  EXPECT_NE(t.find("\"last_rule\":\"limit\""), std::string::npos) << t;
  EXPECT_TRUE(m->audit_clean());
}

TEST_F(Quota, FreedBytesComeBackAndOverEvictMakesRoomOfItsOwn)
{
  auto m = start("quotas:\n"
                 "  - {tenant: a, tier: dram, limit: 1MiB}\n"
                 "  - {tenant: b, tier: dram, limit: 1MiB, over: evict}\n"
                 "  - {tenant: c, tier: dram, limit: 1MiB, over: demote}\n");
  Engine a(*m, {.token = "ta"}), b(*m, {.token = "tb"}), c(*m, {.token = "tc"});
  for (int i = 0; i < 16; i++)
    ASSERT_EQ(a.put(n(i), 0, kCell, DRAY_TIER_DRAM).status, DRAY_OK);
  EXPECT_EQ(a.put("x", 0, kCell, DRAY_TIER_DRAM).reason, DRAY_QUOTA_EXCEEDED);
  EXPECT_EQ(a.drop(n(3)).status, DRAY_OK);
  EXPECT_EQ(a.put("x", 0, kCell, DRAY_TIER_DRAM).status, DRAY_OK);
  for (int i = 0; i < 40; i++) {
    ASSERT_EQ(b.put(n(i), 0, kCell, DRAY_TIER_DRAM).status, DRAY_OK) << i;
    c.fill(0, kCell, i);
    ASSERT_EQ(c.put(n(i), 0, kCell, DRAY_TIER_DRAM).status, DRAY_OK) << i;
  }
  int evicted = 0, on_disk = 0;
  for (int i = 0; i < 40; i++) {
    evicted += b.get(n(i), 0, kCell).reason == DRAY_EVICTED;
    auto r = c.get(n(i), 0, kCell);
    ASSERT_EQ(r.status, DRAY_OK) << say(r);
    ASSERT_TRUE(c.holds(0, kCell, i));
    on_disk += r.tier == DRAY_TIER_DISK;
  }
  EXPECT_EQ(evicted, 24);
  EXPECT_EQ(on_disk, 24);
  EXPECT_TRUE(m->audit_clean());
}

TEST_F(Quota, ABatchSaysForEachItemWhichRule)
{
  auto m = start("quotas: [{tenant: a, tier: dram, limit: 1MiB}]\n");
  Engine a(*m, {.token = "ta"});
  struct dray_item *items = dray_items(a.d);
  for (int i = 0; i < 20; i++) {
    items[i] = {};
    memcpy(items[i].key, kit::Key(n(i)).b, 16);
    items[i].off = (uint64_t)i * kCell;
    items[i].len = kCell;
  }
  struct dray_sqe *q = a.sqe();
  dray_prep_put(q, kit::Key("x").b, a.region.id, 0, kCell, DRAY_TIER_DRAM);
  dray_sqe_batch(q, 0, 20);
  auto r = a.one();
  EXPECT_EQ(r.failed, 4);
  EXPECT_EQ(r.reason, DRAY_QUOTA_EXCEEDED) << say(r);
  const struct dray_item_result *res = dray_results(a.d);
  int refused = 0;
  for (int i = 0; i < 20; i++)
    if (res[i].reason != DRAY_REASON_OK) {
      refused++;
      EXPECT_EQ(res[i].reason, DRAY_QUOTA_EXCEEDED);
      EXPECT_EQ(res[i].detail, (uint32_t)DRAY_RULE_LIMIT);
    }
  EXPECT_EQ(refused, 4);
}

TEST_F(Quota, AWriteLeaseIsChargedAndItsCommitIsNotRefused)
{
  auto m = start("quotas: [{tenant: a, tier: dram, limit: 1MiB}]\n");
  Engine a(*m, {.token = "ta"});
  dray_prep_alloc(a.sqe(), kit::Key("one").b, kMiB, DRAY_TIER_DRAM);
  auto one = a.one();
  ASSERT_EQ(one.status, DRAY_OK) << say(one);
  dray_prep_alloc(a.sqe(), kit::Key("two").b, 4096, DRAY_TIER_DRAM);
  auto two = a.one();
  EXPECT_EQ(two.reason, DRAY_QUOTA_EXCEEDED) << say(two);
  EXPECT_EQ(two.detail, (uint32_t)DRAY_RULE_LIMIT);
  EXPECT_EQ(a.put("x", 0, 4096, DRAY_TIER_DRAM).reason, DRAY_QUOTA_EXCEEDED);
  dray_prep_commit(a.sqe(), one.object);
  auto c = a.one();
  EXPECT_EQ(c.status, DRAY_OK) << say(c);
  EXPECT_TRUE(m->audit_clean());
}

TEST_F(Quota, ARuleInForceRefusesTheClassThatComesFirstAndSparesReserves)
{
  auto m = start("quotas: [{tenant: b, tier: dram, reserve: 2MiB}]\n"
                 "rules:\n"
                 "  - {name: bulk-first, tier: dram, when: 50%, until: 40%, class: bulk, what: refuse}\n"
                 "  - {name: full, tier: dram, when: 70%, until: 60%, what: refuse}\n");
  Engine a(*m, {.token = "ta"}), b(*m, {.token = "tb"});
  int i = 0;
  auto put = [&](Engine &e, uint8_t klass) {
    struct dray_sqe *q = e.sqe();
    dray_prep_put(q, kit::Key(n(i++)).b, e.region.id, 0, kCell, DRAY_TIER_DRAM);
    q->klass = klass;
    poll(nullptr, 0, 2); /* the fill is looked at every ms */
    return e.one();
  };
  struct dray_cqe r;
  int bulk = 0, normal = 0;
  while ((r = put(a, DRAY_CLASS_BULK)).status == DRAY_OK && bulk < 300)
    bulk++;
  EXPECT_EQ(r.reason, DRAY_PRIORITY_LOST) << say(r);
  EXPECT_EQ(r.detail, (uint32_t)DRAY_RULE_FIRST);
  EXPECT_NE(m->ask("{\"verb\":\"status\"}").find("\"phase\":\"in force\""), std::string::npos);
  while ((r = put(a, DRAY_CLASS_NORMAL)).status == DRAY_OK && normal < 300)
    normal++;
  EXPECT_EQ(r.reason, DRAY_POOL_PRESSURE) << say(r);
  EXPECT_EQ(r.detail, (uint32_t)DRAY_RULE_FIRST + 1);
  EXPECT_NEAR(bulk, 128, 24);
  EXPECT_NEAR(bulk + normal, 179, 24);
  for (int k = 0; k < 32; k++)
    EXPECT_EQ((r = put(b, DRAY_CLASS_BULK)).status, DRAY_OK) << k << say(r);
  EXPECT_TRUE(m->audit_clean());
}

TEST_F(Quota, AfterARuleTheyComeBackInTurns)
{
  auto m = start("rules: [{name: full, tier: dram, when: 50%, until: 40%, what: refuse, return: 3s}]\n");
  Engine a(*m, {.token = "ta"}), b(*m, {.token = "tb"}), c(*m, {.token = "tc"});
  int i = 0;
  auto put = [&](Engine &e) { return e.put(n(i++), 0, kCell, DRAY_TIER_DRAM); };
  struct dray_cqe r;
  while (i < 400 && (r = put(a)).status == DRAY_OK)
    poll(nullptr, 0, 1);
  ASSERT_EQ(r.reason, DRAY_POOL_PRESSURE) << say(r);
  ASSERT_EQ(put(b).reason, DRAY_POOL_PRESSURE);
  ASSERT_EQ(put(c).reason, DRAY_POOL_PRESSURE);
  for (int k = 0; k < i; k++)
    a.drop(n(k));
  int ok[2] = {}, rebalance[2] = {};
  for (int k = 0; k < 100 && (!ok[0] || !ok[1] || !rebalance[0] || !rebalance[1]); k++) {
    for (Engine *e : {&b, &c}) { /* each a slab of its own */
      auto r = e->put(n(i++), 0, kMiB, DRAY_TIER_DRAM);
      ok[e == &c] += r.status == DRAY_OK;
      rebalance[e == &c] += r.reason == DRAY_REBALANCE;
    }
    poll(nullptr, 0, 7);
  }
  EXPECT_GT(ok[0], 0);
  EXPECT_GT(ok[1], 0);
  EXPECT_GT(rebalance[0], 0);
  EXPECT_GT(rebalance[1], 0);
}

TEST_F(Quota, AnEvictingRuleKeepsTheTierFromFillingUp)
{
  auto m = start("rules: [{name: keep, tier: dram, when: 50%, until: 40%, what: evict}]\n");
  Engine a(*m, {.token = "ta"});
  for (int i = 0; i < 400; i++) {
    ASSERT_EQ(a.put(n(i), 0, kCell, DRAY_TIER_DRAM).status, DRAY_OK) << i;
    poll(nullptr, 0, 1);
  }
  EXPECT_GT(m->status("counters.evicted") + m->status("relief.evicted"), 100) << "by puts, and between them";
  EXPECT_EQ(m->status("counters.demoted"), 0);
  std::string t = m->ask("{\"verb\":\"tenants\"}");
  size_t at = t.find("\"peak\":");
  ASSERT_NE(at, std::string::npos);
  EXPECT_LE(std::stoull(t.substr(at + 7)), 11 * kMiB) << t;
}

/* What put it over `when` need not go on putting: the rule empties the tier to below `until` by itself, then rests. */
TEST_F(Quota, ADemotingRuleDrainsToItsUntilAndLosesNothing)
{
  auto m = start("quotas: [{tenant: b, tier: dram, reserve: 2MiB}]\n"
                 "rules: [{name: down, tier: dram, when: 75%, until: 40%, what: demote}]\n");
  Engine a(*m, {.token = "ta"}), b(*m, {.token = "tb"});
  for (int i = 0; i < 32; i++)
    ASSERT_EQ(b.put("b" + n(i), 0, kCell, DRAY_TIER_DRAM).status, DRAY_OK);
  int i = 0;
  for (; i < 400 && m->ask("{\"verb\":\"status\"}").find("\"begun\":0") != std::string::npos; i++) {
    a.fill(0, kCell, (uint64_t)i);
    ASSERT_EQ(a.put(n(i), 0, kCell, DRAY_TIER_DRAM).status, DRAY_OK);
  }
  ASSERT_LT(i, 400) << "the rule never came into force";
  auto charged = [&](const char *tenant) {
    std::string t = m->ask("{\"verb\":\"tenants\"}");
    size_t at = t.find("\"tenant\":\"" + std::string(tenant) + "\"");
    return (uint64_t)std::stoull(t.substr(t.find("\"charged\":", at) + 10));
  };
  for (int k = 0; k < 500 && m->ask("{\"verb\":\"status\"}").find("in force") != std::string::npos; k++)
    poll(nullptr, 0, 20);
  EXPECT_EQ(m->ask("{\"verb\":\"status\"}").find("in force"), std::string::npos) << "nobody puts, and it ends all the same";
  EXPECT_LT(charged("a") + charged("b"), 16 * kMiB * 40 / 100 + 1);
  EXPECT_GE(charged("b"), 2 * kMiB) << "what a reserve covers is not taken";
  EXPECT_GT(m->status("relief.demoted"), 30);
  EXPECT_EQ(m->status("relief.evicted"), 0);
  for (int k = 0; k < i; k++) {
    ASSERT_EQ(a.get(n(k), 0, kCell).status, DRAY_OK) << k;
    EXPECT_TRUE(a.holds(0, kCell, (uint64_t)k));
  }
  EXPECT_TRUE(m->audit_clean());
}

/* By session and by request: what it has put and is still here; freeing gives it back. */
TEST_F(Quota, ASessionAndARequestHaveLimitsOfTheirOwn)
{
  auto m = start("quotas:\n  - {tenant: a, unit: session, limit: 512KiB}\n  - {tenant: a, unit: request, limit: 256KiB}\n");
  Engine a(*m, {.agent = "one", .token = "ta"}), other(*m, {.agent = "two", .token = "ta"}), b(*m, {.token = "tb"});
  auto put = [&](Engine &e, uint32_t request, const std::string &name) {
    struct dray_sqe *q = e.sqe();
    dray_prep_put(q, kit::Key(name).b, e.region.id, 0, kCell, DRAY_TIER_DRAM);
    q->request = request;
    return e.one();
  };
  struct dray_cqe r;
  for (int i = 0; i < 4; i++)
    ASSERT_EQ(put(a, 7, "r7." + n(i)).status, DRAY_OK) << i;
  r = put(a, 7, "r7.4");
  EXPECT_EQ(r.reason, DRAY_QUOTA_EXCEEDED) << say(r);
  EXPECT_EQ(r.detail, (uint32_t)DRAY_RULE_LIMIT);
  for (int i = 0; i < 4; i++)
    ASSERT_EQ(put(a, 8, "r8." + n(i)).status, DRAY_OK) << "another request";
  EXPECT_EQ(put(a, 9, "r9").reason, DRAY_QUOTA_EXCEEDED) << "the session's own";
  EXPECT_EQ(put(a, 0, "r0").reason, DRAY_QUOTA_EXCEEDED);
  EXPECT_EQ(put(other, 8, "o").reason, DRAY_QUOTA_EXCEEDED) << "request 8 is the tenant's, whichever session puts";
  EXPECT_EQ(put(other, 10, "o").status, DRAY_OK) << "a session of its own";
  EXPECT_EQ(put(b, 7, "b").status, DRAY_OK) << "another tenant's request 7";
  ASSERT_EQ(a.drop("r7.c0").status, DRAY_OK);
  EXPECT_EQ(put(a, 7, "r7.4").status, DRAY_OK) << "freed";
  EXPECT_EQ(put(a, 7, "r7.5").reason, DRAY_QUOTA_EXCEEDED);
  ASSERT_EQ(a.drop("r8.c1").status, DRAY_OK);
  dray_prep_alloc(a.sqe(), kit::Key("fill").b, kCell, DRAY_TIER_DRAM);
  auto fill = a.one();
  ASSERT_EQ(fill.status, DRAY_OK) << say(fill);
  EXPECT_EQ(put(a, 0, "r0").reason, DRAY_QUOTA_EXCEEDED) << "a write lease counts";
  dray_prep_commit(a.sqe(), fill.object);
  ASSERT_EQ((r = a.one()).status, DRAY_OK) << say(r);
  EXPECT_EQ(put(a, 0, "r0").reason, DRAY_QUOTA_EXCEEDED) << "and the cell that it became";
  ASSERT_EQ(a.drop("fill").status, DRAY_OK);
  EXPECT_EQ(put(a, 0, "r0").status, DRAY_OK);
  dray_prep_alloc(a.sqe(), kit::Key("never").b, kCell, DRAY_TIER_DRAM);
  EXPECT_EQ(a.one().reason, DRAY_QUOTA_EXCEEDED);
  for (int i = 0; i < 3; i++) { /* a refusal by anything else gives the charge back, too */
    ASSERT_EQ(a.drop("r0").status, DRAY_OK);
    dray_prep_put(a.sqe(), kit::Key("r8.c2").b, a.region.id, 0, kCell, DRAY_TIER_DRAM);
    struct dray_cqe c = a.one();
    EXPECT_EQ(c.status, DRAY_OK) << "replaces: " << say(c);
    EXPECT_EQ(put(a, 0, "r0").status, DRAY_OK);
  }
  EXPECT_TRUE(m->audit_clean());
  write("quotas: [{tenant: a, unit: session, limit: 1MiB}]\n");
  ASSERT_TRUE(reload(*m));
  for (int i = 0; i < 8; i++)
    EXPECT_EQ(put(a, 7, "more" + n(i)).status, DRAY_OK) << i;
  EXPECT_EQ(put(a, 7, "more").reason, DRAY_QUOTA_EXCEEDED);
}

/* What engines say it costs to compute a cell again decides which goes first, and whether it is worth a place below. */
TEST_F(Quota, CheapCellsGoBeforeDearOnesThatAreNoMoreIdle)
{
  auto m = start("token_cost: 1us\nquotas: [{tenant: a, tier: dram, limit: 2MiB, over: demote}]\n");
  Engine a(*m, {.token = "ta"});
  auto cost = [&](const std::string &name, uint32_t tokens) {
    auto lease = a.map(name);
    ASSERT_EQ(lease.status, DRAY_OK) << say(lease);
    dray_prep_replay_cost(a.sqe(), lease.object, tokens);
    ASSERT_EQ(a.one().status, DRAY_OK);
    ASSERT_EQ(a.unmap(lease.object).status, DRAY_OK);
  };
  for (int i = 0; i < 32; i++) {
    a.fill(0, kCell, (uint64_t)i);
    ASSERT_EQ(a.put(n(i), 0, kCell, DRAY_TIER_DRAM).status, DRAY_OK);
    cost(n(i), i % 2 ? 1 : 1000000); /* the dear ones are the older of each pair */
  }
  poll(nullptr, 0, 20);
  for (int i = 0; i < 12; i++)
    ASSERT_EQ(a.put("new" + n(i), 0, kCell, DRAY_TIER_DRAM).status, DRAY_OK);
  int cheap = 0, dear = 0;
  for (int i = 0; i < 32; i++) {
    auto c = a.stat(n(i));
    (i % 2 ? cheap : dear) += c.status != DRAY_OK || c.tier != DRAY_TIER_DRAM;
    if (c.status != DRAY_OK) {
      EXPECT_EQ(i % 2, 1) << "a dear one is kept below rather than thrown away";
    }
  }
  EXPECT_GT(cheap, 4 * dear) << cheap << " cheap, " << dear << " dear ones went";
  EXPECT_GT(m->status("counters.evicted"), 0) << "one token is computed sooner than 64 KiB are read from the disk";
  EXPECT_TRUE(m->audit_clean());
}

/* 64 KiB at a time against a dram of which a calibration says that it does 20 MB/s. */
TEST_F(Quota, ARuleOfBandwidthRefusesWhileTheTierIsBusyAndEndsByItself)
{
  std::ofstream(dir + "/cal.json") << "{\"tiers\":{\"dram\":{\"BandwidthMBPerSec\":20}}}";
  auto m = start("calibration: " + dir + "/cal.json\n"
                 "rules: [{name: busy, tier: dram, of: bandwidth, when: 80%, until: 40%, class: bulk, what: refuse}]\n");
  Engine a(*m, {.token = "ta"});
  ASSERT_EQ(a.put("x", 0, kCell, DRAY_TIER_DRAM).status, DRAY_OK);
  auto one = [&](uint8_t klass) {
    struct dray_sqe *q = a.sqe();
    dray_prep_get(q, kit::Key("x").b, a.region.id, 0, kCell, DRAY_TIER_DRAM);
    q->klass = klass;
    return a.one();
  };
  struct dray_cqe r = {};
  for (int i = 0; i < 100000 && (r = one(DRAY_CLASS_BULK)).status == DRAY_OK; i++) {
  }
  ASSERT_EQ(r.reason, DRAY_PRIORITY_LOST) << say(r);
  EXPECT_EQ(r.detail, (uint32_t)DRAY_RULE_FIRST);
  EXPECT_EQ(one(DRAY_CLASS_LATENCY).status, DRAY_OK) << "bulk comes first";
  EXPECT_NE(m->ask("{\"verb\":\"status\"}").find("\"of\":\"bandwidth\""), std::string::npos);
  for (int i = 0; i < 1000 && (r = one(DRAY_CLASS_BULK)).status != DRAY_OK; i++)
    poll(nullptr, 0, 10); /* nothing is moved meanwhile: it ends */
  EXPECT_EQ(r.status, DRAY_OK) << say(r);
}

double seconds(const std::function<void()> &f)
{
  auto t = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
}

TEST_F(Quota, ARateHoldsBackOrRefusesAndNeverWhatFrees)
{
  auto m = start("rates:\n"
                 "  - {tenant: a, bytes: 4MiB, burst: 64KiB}\n"
                 "  - {tenant: b, directives: 10, over: refuse}\n");
  Engine a(*m, {.token = "ta"}), b(*m, {.token = "tb"}), c(*m, {.token = "tc"});
  double took = seconds([&] {
    for (int i = 0; i < 64; i++) /* 4 MiB at 4 MiB/s */
      ASSERT_EQ(a.put(n(i), 0, kCell, DRAY_TIER_DRAM).status, DRAY_OK);
  });
  EXPECT_GT(took, 0.9);
  EXPECT_GT(m->ask("{\"verb\":\"tenants\"}").find("\"waits\":"), 0u);
  int refused = 0;
  for (int i = 0; i < 30; i++) {
    auto r = b.put(n(i), 0, 4096, DRAY_TIER_DRAM);
    if (r.status == DRAY_OK)
      continue;
    refused++;
    ASSERT_EQ(r.reason, DRAY_RATE_LIMITED) << say(r);
    ASSERT_EQ(r.detail, (uint32_t)DRAY_RULE_RATE);
  }
  EXPECT_GT(refused, 15);
  EXPECT_NE(b.drop(n(0)).reason, DRAY_RATE_LIMITED);
  for (int i = 0; i < 64; i++)
    ASSERT_EQ(c.put(n(i), 0, kCell, DRAY_TIER_DRAM).status, DRAY_OK) << "no rate is c's";
}

TEST_F(Quota, ADirectiveThatARateHoldsBackStillHasItsDeadline)
{
  auto m = start("rates: [{tenant: a, bytes: 64KiB, burst: 1KiB}]\n");
  Engine a(*m, {.token = "ta"});
  ASSERT_EQ(a.put("x", 0, 1 << 20, DRAY_TIER_DRAM).status, DRAY_OK); /* 16 s of debt */
  struct dray_sqe *q = a.sqe();
  dray_prep_put(q, kit::Key("y").b, a.region.id, 0, 4096, DRAY_TIER_DRAM);
  q->deadline_us = 50000;
  double took = seconds([&] { EXPECT_EQ(a.one().reason, DRAY_DEADLINE); });
  EXPECT_LT(took, 5);
}

TEST_F(Quota, ReloadReplacesAllOrNothing)
{
  auto m = start("quotas: [{tenant: a, tier: dram, limit: 1MiB}]\n");
  Engine a(*m, {.token = "ta"});
  int i = 0;
  auto fill = [&] {
    struct dray_cqe r = {};
    int got = 0;
    for (; got < 200; got++)
      if ((r = a.put(n(i++), 0, kCell, DRAY_TIER_DRAM)).status != DRAY_OK)
        break;
    return got;
  };
  EXPECT_EQ(fill(), 16);
  write("quotas: [{tenant: a, tier: dram, limit: 2MiB}]\n");
  std::string text;
  ASSERT_TRUE(reload(*m, &text)) << text;
  EXPECT_EQ(fill(), 16) << "as much again";
  write("quotas: [{tenant: a, tier: dram, limit: 8MiB}, {tenant: zz, tier: dram, limit: 1MiB}]\n");
  EXPECT_FALSE(reload(*m, &text));
  EXPECT_NE(text.find("quota of zz: there is no such tenant"), std::string::npos) << text;
  EXPECT_EQ(fill(), 0) << "the old one stands, whole";
  EXPECT_EQ(m->status("reload_failures"), 1);
  write("quotas: [{tenant: a, tier: dram, limit: 3MiB, colour: red}]\n");
  EXPECT_FALSE(reload(*m, &text));
  EXPECT_EQ(fill(), 0);
  ASSERT_EQ(kill(m->keeper(), SIGHUP), 0); /* with the bad file still there */
  ASSERT_TRUE(m->wait_status("reload_failures", 3)) << m->log();
  EXPECT_EQ(fill(), 0) << "what stood stands";
  write("quotas: [{tenant: a, tier: dram, limit: 3MiB}]\n");
  int64_t version = m->status("quota_version");
  ASSERT_EQ(kill(m->keeper(), SIGHUP), 0);
  ASSERT_TRUE(m->wait_status("quota_version", version + 1)) << m->log();
  EXPECT_EQ(fill(), 16);
}

/* The list, each at a reload: one clear error, and what stood stands. */
TEST_F(Quota, EveryBadFileIsOneClearErrorAndTheOldPlanStands)
{
  auto m = start("quotas: [{tenant: a, tier: dram, limit: 1MiB}]\n");
  Engine a(*m, {.token = "ta"});
  const std::string q = "quotas: [{tenant: a, tier: dram, ", r = "rules: [{name: x, tier: dram, ", mib(1 << 20, 'x');
  const struct {
    std::string file, says;
  } bad[] = {{q + "reserve: 9MiB}, {tenant: b, tier: dram, reserve: 9MiB}]\n", "reserves on dram"},
             {"quotas: [{tenant: zz, tier: dram, limit: 1MiB}]\n", "no such tenant"},
             {q + "limit: -1}]\n", "'-1' is not a size"},
             {q + "limit: 99999999999999999999}]\n", "too large"},
             {q + "limit: .nan}]\n", "is not a size"},
             {q + "limit: 1MiB, limit: 2MiB}]\n", "limit"},
             {q + "limit: 1MiB}]\nquotas: [{tenant: b, tier: dram}]\n", "quotas"},
             {q + "limit: " + mib + "}]\n", ""},
             {"quotas: [{tenant: " + mib + ", tier: dram}]\n", ""},
             {mib + ": 1\n", ""},
             {r + "when: 50%, until: 60%, what: refuse}]\n", "never end"},
             {r + "when: 50%, until: 40%, what: refuse}, {name: y, tier: dram, when: 50%, until: 30%, what: evict}]\n", "contradict"},
             {r + "of: bandwidth, when: 50%, until: 40%, what: evict}]\n", "worse"},
             {"rates: [{tenant: a, bytes: inf}]\n", "is not a size"},
             {"quotas: [\n", ""},
             {"calibration: /nowhere\nrules: {}\n", ""}};
  int failures = 0;
  for (auto &b : bad) {
    std::string text;
    write(b.file);
    EXPECT_FALSE(reload(*m, &text)) << b.file.substr(0, 100);
    EXPECT_NE(text.find(b.says), std::string::npos) << b.file.substr(0, 100) << " -> " << text.substr(0, 500);
    EXPECT_LT(text.size(), 4000u) << "one line for people";
    EXPECT_EQ(m->status("reload_failures"), ++failures);
  }
  int got = 0;
  while (got < 100 && a.put(n(got), 0, kCell, DRAY_TIER_DRAM).status == DRAY_OK)
    got++;
  EXPECT_EQ(got, 16) << "1 MiB still";
}

/* exit code and what it said */
std::pair<int, std::string> run(const Mover &m, const std::string &args)
{
  std::string text, cmd = std::string(DRAY_PATH) + " " + args + " --admin " + m.admin() + " 2>&1 </dev/null";
  FILE *f = popen(cmd.c_str(), "r");
  char buf[512];
  while (f && fgets(buf, sizeof buf, f))
    text += buf;
  int status = f ? pclose(f) : -1;
  return {WEXITSTATUS(status), text};
}
#define RUNS(m, args, code, says)                                                                                      \
  do {                                                                                                                 \
    auto r = run(m, args);                                                                                             \
    EXPECT_EQ(r.first, code) << r.second;                                                                              \
    EXPECT_NE(r.second.find(says), std::string::npos) << r.second;                                                     \
  } while (0)

TEST_F(Quota, TheCommandLineShowsChecksDiffsAndReloads)
{
  auto m = start("quotas: [{tenant: a, tier: dram, reserve: 1MiB, limit: 2MiB}]\n"
                 "rules: [{name: soon, tier: dram, when: 10%, until: 8%, class: bulk, what: refuse}]\n");
  RUNS(*m, "tenants", 0, "2.0 MiB");
  RUNS(*m, "config diff", 0, "are the same");
  RUNS(*m, "config show", 0, "\"node\"");
  RUNS(*m, "config", 2, "usage");
  RUNS(*m, "config destroy", 2, "need show, diff, check or reload");
  write("quotas: [{tenant: a, tier: dram, limit: 4MiB}]\nrates: [{tenant: b, directives: 5}]\n");
  auto d = run(*m, "config diff");
  EXPECT_EQ(d.first, 3);
  EXPECT_EQ(d.second, "- quota a\n+ quota a\n+ rate b\n- rule soon\n");
  write("quotas: [{tenant: a, tier: dram, limit: 4MiB}]\nrates: [{tenant: b, directives: 5}]\nlanes: 9\n");
  RUNS(*m, "config diff", 3, "~ lanes: file 9, runs ");
  write("quotas: [{tenant: a, tier: dram, limit: 4MiB}]\nrates: [{tenant: b, directives: 5}]\n");
  RUNS(*m, "config check", 0, "good");
  RUNS(*m, "config diff", 3, "+ rate b");
  Engine a(*m, {.token = "ta"});
  for (int i = 0; i < 16; i++)
    ASSERT_EQ(a.put(n(i), 0, kCell, DRAY_TIER_DRAM).status, DRAY_OK);
  poll(nullptr, 0, 2);
  RUNS(*m, "tenants", 3, "in force");
  RUNS(*m, "status", 0, "in force");
  write("quotas: [{tenant: a, tier: dram, limit: -1}]\n");
  RUNS(*m, "config check", 1, "'-1' is not a size");
  RUNS(*m, "config reload", 1, "'-1' is not a size");
  RUNS(*m, "status", 0, "the last reload was refused");
  write("");
  RUNS(*m, "config reload", 0, "reloaded");
  RUNS(*m, "config diff", 0, "are the same");
}

/* An engine that does anything until it is killed. */
[[noreturn]] void anything(const Mover &m, const char *token, unsigned seed)
{
  std::mt19937 rng(seed);
  Engine e(m, {.agent = "w" + std::to_string(seed % 4), .token = token});
  if (e.error())
    _exit(1);
  const uint8_t tiers[] = {DRAY_TIER_DRAM, DRAY_TIER_DISK, 0};
  for (;;) {
    std::string name = n(rng() % 60);
    uint64_t len = 4096 + rng() % (96 << 10);
    struct dray_cqe c;
    switch (rng() % 8) {
    case 0:
      e.drop(name);
      break;
    case 1:
      c = e.map(name, 0, DRAY_MAP_OR_STAGE);
      if (c.status == DRAY_OK && rng() % 2)
        e.unmap(c.object);
      break;
    case 2:
      dray_prep_alloc(e.sqe(), kit::Key(name).b, len, DRAY_TIER_DRAM);
      c = e.one();
      if (c.status == DRAY_OK && rng() % 2) {
        dray_prep_commit(e.sqe(), c.object);
        e.one();
      } else if (c.status == DRAY_OK && rng() % 2) {
        e.unmap(c.object);
      }
      break;
    case 3:
      e.move(name, tiers[rng() % 2]);
      break;
    default:
      e.put(name, 0, len, tiers[rng() % 3]);
    }
  }
}

/* QUOTA_KILLS: how many (40). */
TEST_F(Quota, BooksAreRightAfterEnginesWereKilledInTheMidst)
{
  auto m = start("quotas:\n"
                 "  - {tenant: a, tier: dram, reserve: 1MiB, limit: 3MiB}\n"
                 "  - {tenant: b, tier: dram, reserve: 2MiB, limit: 6MiB, over: demote}\n"
                 "  - {tenant: b, tier: disk, limit: 8MiB, over: evict}\n"
                 "rules: [{name: r, tier: dram, when: 90%, until: 80%, what: refuse, return: 50ms}]\n");
  const char *env = getenv("QUOTA_KILLS");
  const char *const tokens[] = {"ta", "tb", "tc"};
  std::mt19937 rng(1);
  std::vector<pid_t> live;
  for (int i = 0, kills = env ? atoi(env) : 40; i < kills; i++) {
    while (live.size() < 6) {
      pid_t pid = fork();
      if (pid == 0)
        anything(*m, tokens[rng() % 3], (unsigned)rng() + (unsigned)live.size());
      (void)rng();
      live.push_back(pid);
    }
    poll(nullptr, 0, 20 + (int)(rng() % 60));
    size_t at = rng() % live.size();
    kill(live[at], SIGKILL);
    waitpid(live[at], nullptr, 0);
    live.erase(live.begin() + (long)at);
  }
  for (pid_t p : live) {
    kill(p, SIGKILL);
    waitpid(p, nullptr, 0);
  }
  ASSERT_TRUE(m->wait_status("sessions", 0));
  EXPECT_TRUE(m->audit_clean()) << m->ask("{\"verb\":\"audit\"}");
  EXPECT_EQ(m->status("leases"), 0);
  EXPECT_GT(m->status("counters.completed"), 500);
  printf("directives completed: %lld\n", (long long)m->status("counters.completed"));
  std::string t = m->ask("{\"verb\":\"tenants\"}");
  size_t a = t.find("\"tenant\":\"a\"");
  ASSERT_NE(a, std::string::npos);
  EXPECT_LE(std::stoull(t.substr(t.find("\"peak\":", a) + 7)), 3 * kMiB) << t;
}

TEST_F(Quota, PlanPrintsTheAnchorAndRefusesNonsense)
{
  auto dray = [&](const std::string &args) {
    std::string text, cmd = std::string(DRAY_PATH) + " plan " + args + " 2>&1 </dev/null";
    FILE *f = popen(cmd.c_str(), "r");
    char buf[512];
    while (f && fgets(buf, sizeof buf, f))
      text += buf;
    return std::make_pair(f ? WEXITSTATUS(pclose(f)) : -1, text);
  };
  auto r = dray("--json");
  EXPECT_EQ(r.first, 0) << r.second;
  EXPECT_NE(r.second.find("469762048"), std::string::npos) << "448 MiB" << r.second;
  EXPECT_NE(r.second.find("28000"), std::string::npos);
  EXPECT_NE(dray("").second.find("448"), std::string::npos);
  EXPECT_EQ(dray("--placement dram --full --room cxl").second.substr(0, 13), "demote to cxl");
  EXPECT_NE(dray("--ledger").second.find("not measured"), std::string::npos);
  for (const char *bad : {"--tenants 0", "--tenants -1", "--bytes NaN", "--tokens 99999999999999999999", "--placement tape",
                          "--token-time x", "--placement dram --ledger", "extra"}) {
    auto b = dray(bad);
    EXPECT_EQ(b.first, 2) << bad << b.second;
  }
  for (const char *text : {"{\"tiers\":{\"cxl\":{\"BandwidthMBPerSec\":-5}}}", "{\"tiers\":{\"cxl\":{\"ReadLatencyNanos\":NaN}}}",
                           "{\"tiers\":{\"cxl\":{\"ReadLatencyNanos\":1,\"ReadLatencyNanos\":2}}}", "nonsense"}) {
    std::ofstream(dir + "/cal.json") << text;
    auto b = dray("--calibration " + dir + "/cal.json");
    EXPECT_EQ(b.first, 1) << text << b.second;
    EXPECT_NE(b.second.find("cal.json"), std::string::npos) << b.second;
  }
  EXPECT_EQ(dray("--calibration /nowhere").first, 1);
}

TEST_F(Quota, DrillsKeepTheirBoundsAndReport)
{
  auto drill = [&](const std::string &args, const std::string &env = "") {
    std::string text, cmd = env + " " + std::string(DRAY_PATH) + " drill " + args + " 2>&1 </dev/null";
    FILE *f = popen(cmd.c_str(), "r");
    char buf[512];
    while (f && fgets(buf, sizeof buf, f))
      text += buf;
    return std::make_pair(f ? WEXITSTATUS(pclose(f)) : -1, text);
  };
  std::string page = dir + "/page.html", report = dir + "/report.json", here = std::string("DRAYD=") + DRAYD_PATH;
  std::string rules = " --alerts " SOURCE_DIR "/deploy/prometheus/dray.rules.yml";
  auto q = drill("quota --json --html " + page + rules, here);
  EXPECT_EQ(q.first, 0) << q.second;
  EXPECT_NE(q.second.find("\"refused\": 512"), std::string::npos) << q.second;
  EXPECT_EQ(q.second.find("\"kept\": false"), std::string::npos) << q.second;
  EXPECT_NE(kit::read_file(page).find("bounds kept"), std::string::npos);
  if (system("command -v prometheus >/dev/null 2>&1") == 0) {
    EXPECT_NE(q.second.find("the alert fires in Prometheus"), std::string::npos) << q.second;
  } else {
    EXPECT_NE(q.second.find("no prometheus that runs here"), std::string::npos) << q.second;
  }
  auto without = drill("quota --alerts /nowhere", here);
  EXPECT_EQ(without.first, 0) << "a bound that cannot be looked at is not broken, and is said";
  EXPECT_NE(without.second.find("not looked at: no alert rules"), std::string::npos) << without.second;
  auto n = drill("noisy-neighbour --time 300ms --json", here);
  EXPECT_EQ(n.first, 0) << n.second;
  for (const char *what : {"before", "during", "after", "p999_ns", "others", "schema_version"})
    EXPECT_NE(n.second.find(what), std::string::npos) << what;
  std::ofstream(report) << n.second;
  std::string cmd = std::string(DRAY_PATH) + " plan --ledger --drill " + report + " | grep -q p99_during_ns";
  EXPECT_EQ(system(cmd.c_str()), 0) << "the ledger takes the drill's report";
  for (const char *scene : {"lifecycle --time 500ms --json", "maintenance --json"}) {
    auto d = drill(scene, here);
    EXPECT_EQ(d.first, 0) << scene << d.second;
    EXPECT_EQ(d.second.find("\"kept\": false"), std::string::npos) << d.second;
  }
  /* and of a mover that is not as it should be it says so */
  std::string faulty = dir + "/drayd";
  auto with = [&](const std::string &set) {
    std::ofstream(faulty) << "#!/bin/sh\nexec " << DRAYD_PATH << " \"$@\" --set " << set << "\n";
    chmod(faulty.c_str(), 0755);
    return "DRAYD=" + faulty;
  };
  auto d = drill("lifecycle --time 500ms", with("tier.numa_far.fault='fail=EIO:1/20'"));
  EXPECT_EQ(d.first, 1) << d.second;
  EXPECT_NE(d.second.find("NO   no outcome is undefined"), std::string::npos) << d.second;
  d = drill("maintenance", with("tier.disk.fault='fail=EIO:1/4'"));
  EXPECT_EQ(d.first, 1) << d.second;
  EXPECT_EQ(drill("quota", "DRAYD=/bin/false").first, 1);
  EXPECT_EQ(drill("fire").first, 2);
  EXPECT_EQ(drill("quota --time 1ms").first, 2);
}

TEST_F(Quota, AReloadedPlanOutlivesTheWorker)
{
  auto m = start("quotas: [{tenant: a, tier: dram, limit: 1MiB}]\n");
  write("quotas: [{tenant: a, tier: dram, limit: 2MiB}]\n");
  ASSERT_TRUE(reload(*m));
  int64_t epoch = m->status("epoch");
  ASSERT_EQ(kill(m->worker(), SIGKILL), 0);
  ASSERT_TRUE(m->wait_status("epoch", epoch + 1)) << m->log();
  Engine a(*m, {.token = "ta"});
  int got = 0;
  while (got < 100 && a.put(n(got), 0, kCell, DRAY_TIER_DRAM).status == DRAY_OK)
    got++;
  EXPECT_EQ(got, 32);
  EXPECT_TRUE(m->audit_clean());
}

TEST_F(Quota, ReloadWhileEnginesWorkIsSeenWholeAndBooksStayRight)
{
  auto m = start("quotas: [{tenant: a, tier: dram, limit: 1MiB}]\n");
  bool stop = false;
  std::thread t([&] {
    for (int i = 0; i < 20; i++) {
      write(i % 2 ? "quotas: [{tenant: a, tier: dram, reserve: 1MiB, limit: 1MiB}]\n"
                  : "quotas: [{tenant: a, tier: dram, limit: 2MiB}]\nrates: [{tenant: b, bytes: 1GiB}]\n"
                    "rules: [{name: r, tier: dram, when: 90%, until: 50%, what: demote}]\n");
      EXPECT_TRUE(reload(*m));
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELEASE);
  });
  {
    Engine a(*m, {.token = "ta"}), b(*m, {.token = "tb"});
    for (int i = 0; !__atomic_load_n(&stop, __ATOMIC_ACQUIRE); i++) {
      auto r = a.put(n(i % 100), 0, kCell, DRAY_TIER_DRAM);
      EXPECT_TRUE(r.status == DRAY_OK || r.reason == DRAY_QUOTA_EXCEEDED) << say(r);
      EXPECT_EQ(b.put(n(i % 300), 0, kCell, DRAY_TIER_DRAM).status, DRAY_OK);
    }
  }
  t.join();
  EXPECT_TRUE(m->wait_status("sessions", 0));
  EXPECT_TRUE(m->audit_clean());
}
} // namespace
