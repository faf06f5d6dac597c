/* SPDX-License-Identifier: Apache-2.0 */
/* Rules, rates and the checks of a plan, as tables. */
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

extern "C" {
#include "policy/quota.h"
}

namespace {
constexpr uint64_t kSec = 1000000000, kMs = 1000000;

struct Plan {
  std::unique_ptr<quota_plan> p = std::make_unique<quota_plan>();
  uint64_t capacity[DRAY_TIER_COUNT] = {};
  Plan() { capacity[DRAY_TIER_DRAM] = 1000 << 20; }
  quota_grant &grant(const char *tenant, uint64_t reserve, uint64_t limit = UINT64_MAX)
  {
    quota_grant &g = p->grant[p->grants_n++];
    snprintf(g.tenant, sizeof g.tenant, "%s", tenant);
    g = {{}, reserve, limit, 1, DRAY_TIER_DRAM, QUOTA_REFUSE, {}};
    snprintf(g.tenant, sizeof g.tenant, "%s", tenant);
    return g;
  }
  quota_rule &rule(const char *name, uint32_t when, uint32_t until, uint8_t what, uint8_t klass = QUOTA_ANY_CLASS)
  {
    quota_rule &r = p->rule[p->rules_n++];
    r = {};
    snprintf(r.name, sizeof r.name, "%s", name);
    r.when = when;
    r.until = until;
    r.what = what;
    r.klass = klass;
    r.tier = DRAY_TIER_DRAM;
    r.of = RULE_OF_FILL;
    r.rate = what == QUOTA_SLOW ? 1 << 20 : 0;
    return r;
  }
  std::string check()
  {
    err e{};
    return quota_plan_check(p.get(), capacity, 1 << DRAY_TIER_DRAM, 1 << DRAY_TIER_DRAM, &e) < 0 ? e.text : "";
  }
};

#define SAYS(plan, text) EXPECT_NE((plan).check().find(text), std::string::npos) << (plan).check()

TEST(QuotaPlan, WhatIsPossibleIsAccepted)
{
  Plan p;
  p.grant("a", 100 << 20, 200 << 20);
  p.grant("b", 400 << 20);
  p.rule("full", 900, 800, QUOTA_REFUSE, DRAY_CLASS_BULK);
  p.rule("fuller", 950, 800, QUOTA_SLOW);
  EXPECT_EQ(p.check(), "");
}

TEST(QuotaPlan, ReservesAboveTheCapacityAreRefused)
{
  Plan p;
  p.grant("a", 600 << 20);
  p.grant("b", 401 << 20);
  SAYS(p, "reserves on dram");
  p.capacity[DRAY_TIER_DRAM] = 0; /* not known before the device is open */
  EXPECT_EQ(p.check(), "");
}

TEST(QuotaPlan, ReservesWhoseSumOverflowsAreRefused)
{
  Plan p;
  p.grant("a", UINT64_MAX - 5);
  p.grant("b", 10);
  p.capacity[DRAY_TIER_DRAM] = 0;
  SAYS(p, "reserves on dram");
}

TEST(QuotaPlan, BadGrantsAreRefused)
{
  {
    Plan p;
    p.grant("a", 11, 10);
    SAYS(p, "reserve: need at most its limit");
  }
  {
    Plan p;
    p.grant("a", 1);
    p.grant("a", 2);
    SAYS(p, "given twice");
  }
  {
    Plan p;
    p.grant("a", 1).weight = 0;
    SAYS(p, "weight");
  }
  {
    Plan p;
    p.grant("a", 1).over = QUOTA_SLOW;
    SAYS(p, "over");
  }
  {
    Plan p;
    p.grant("a", 1).tier = 0;
    SAYS(p, "tier");
  }
  {
    Plan p;
    p.p->rates_n = 1;
    SAYS(p, "above 0");
  }
}

TEST(QuotaPlan, ARuleThatCanNeverEndIsRefused)
{
  for (uint32_t until : {0u, 900u, 950u}) {
    Plan p;
    p.rule("r", 900, until, QUOTA_REFUSE);
    SAYS(p, "never end");
  }
  Plan p;
  p.grant("a", 850 << 20);
  p.rule("r", 900, 800, QUOTA_REFUSE); /* the reserve alone keeps it above */
  SAYS(p, "never end");
}

TEST(QuotaPlan, RulesThatContradictEachOtherAreRefused)
{
  Plan p;
  p.rule("one", 900, 800, QUOTA_REFUSE);
  p.rule("two", 900, 700, QUOTA_SLOW, DRAY_CLASS_BULK);
  SAYS(p, "contradict");
  p.p->rule[1].when = 910;
  EXPECT_EQ(p.check(), "");
  snprintf(p.p->rule[1].name, 32, "one");
  SAYS(p, "given twice");
}

TEST(QuotaPlan, BadRulesAreRefused)
{
  {
    Plan p;
    p.rule("r", 900, 800, QUOTA_SLOW).rate = 0;
    SAYS(p, "rate");
  }
  {
    Plan p;
    p.rule("r", 900, 800, QUOTA_REFUSE).rate = 5;
    SAYS(p, "rate");
  }
  {
    Plan p;
    p.rule("r", 900, 800, QUOTA_DEMOTE).tier = DRAY_TIER_DISK;
    SAYS(p, "no tier below");
  }
  {
    Plan p;
    p.rule("", 900, 800, QUOTA_REFUSE);
    SAYS(p, "name");
  }
  {
    Plan p;
    p.rule("r", 1001, 800, QUOTA_REFUSE);
    SAYS(p, "when");
  }
  {
    Plan p;
    p.rule("r", 900, 800, 9);
    SAYS(p, "what");
  }
}

TEST(QuotaRule, BeginsAtWhenAndEndsBelowUntil)
{
  Plan plan;
  quota_rule &r = plan.rule("r", 900, 800, QUOTA_REFUSE);
  r.return_ms = 100;
  const struct {
    unsigned phase;
    uint32_t fill;
    bool someone;
    uint64_t now;
    unsigned next;
  } rows[] = {
      {RULE_IDLE, 899, false, 0, RULE_IDLE},      {RULE_IDLE, 900, false, 0, RULE_FORCE},
      {RULE_FORCE, 899, false, 0, RULE_FORCE},    {RULE_FORCE, 800, false, 0, RULE_FORCE},
      {RULE_FORCE, 799, false, 0, RULE_IDLE},     {RULE_FORCE, 799, true, 0, RULE_RETURN},
      {RULE_RETURN, 850, true, 99 * kMs, RULE_RETURN}, {RULE_RETURN, 850, true, 100 * kMs, RULE_IDLE},
      {RULE_RETURN, 900, true, 50 * kMs, RULE_FORCE},
  };
  for (const auto &row : rows)
    EXPECT_EQ(rule_next(&r, row.phase, row.fill, row.someone, 0, row.now), row.next)
        << row.phase << " at " << row.fill << " after " << row.now;
  r.return_ms = 0;
  EXPECT_EQ(rule_next(&r, RULE_FORCE, 799, true, 0, 0), (unsigned)RULE_IDLE) << "no order of return: all at once";
}

TEST(QuotaRule, TheyComeBackInTurnsByWeight)
{
  const uint32_t weights[] = {1, 3, 2};
  int turns[3] = {};
  for (int i = 0; i < 600; i++)
    turns[rule_turn(weights, 3, 5 * kSec, 5 * kSec + (uint64_t)i * RULE_TURN_NS)]++;
  EXPECT_EQ(turns[0], 100);
  EXPECT_EQ(turns[1], 300);
  EXPECT_EQ(turns[2], 200);
}

quota_verdict decide(Plan &p, uint8_t klass, uint64_t charged, uint64_t bytes, std::vector<uint8_t> phase,
                     uint32_t barred = 0, uint64_t reserve = 1000, uint8_t tier = DRAY_TIER_DRAM)
{
  quota_ask a{};
  a.tier = tier;
  a.klass = klass;
  a.bytes = bytes;
  a.charged = charged;
  a.reserve = reserve;
  a.barred = barred;
  for (size_t i = 0; i < phase.size(); i++)
    a.phase[i] = phase[i];
  quota_verdict v{};
  quota_decide(p.p.get(), &a, &v);
  return v;
}

TEST(QuotaDecide, EachRowOfWhatARuleInForceSays)
{
  Plan p;
  p.rule("bulk", 800, 700, QUOTA_REFUSE, DRAY_CLASS_BULK);
  p.rule("all", 900, 850, QUOTA_REFUSE);
  const uint8_t F = RULE_FORCE, I = RULE_IDLE, R = RULE_RETURN;
  EXPECT_EQ(decide(p, DRAY_CLASS_BULK, 1000, 1, {I, I}).reason, DRAY_REASON_OK);
  EXPECT_EQ(decide(p, DRAY_CLASS_BULK, 1000, 1, {F, I}).reason, DRAY_PRIORITY_LOST);
  EXPECT_EQ(decide(p, DRAY_CLASS_NORMAL, 1000, 1, {F, I}).reason, DRAY_REASON_OK) << "another class";
  EXPECT_EQ(decide(p, DRAY_CLASS_NORMAL, 1000, 1, {F, F}).reason, DRAY_POOL_PRESSURE);
  EXPECT_EQ(decide(p, DRAY_CLASS_NORMAL, 1000, 1, {F, F}).rule, 1u);
  EXPECT_EQ(decide(p, DRAY_CLASS_BULK, 1000, 1, {F, F}).rule, 0u) << "the first that applies";
  EXPECT_EQ(decide(p, DRAY_CLASS_NORMAL, 900, 100, {F, F}).reason, DRAY_REASON_OK) << "within its reserve";
  EXPECT_EQ(decide(p, DRAY_CLASS_NORMAL, 900, 101, {F, F}).reason, DRAY_POOL_PRESSURE) << "a byte above";
  EXPECT_EQ(decide(p, DRAY_CLASS_NORMAL, 1000, 1, {F, F}, 0, 1000, DRAY_TIER_CXL).reason, DRAY_REASON_OK);
  EXPECT_EQ(decide(p, DRAY_CLASS_NORMAL, 1000, 1, {I, R}, 2).reason, DRAY_REBALANCE) << "not its turn";
  EXPECT_EQ(decide(p, DRAY_CLASS_NORMAL, 1000, 1, {I, R}, 0).reason, DRAY_REASON_OK) << "its turn";
  EXPECT_EQ(decide(p, DRAY_CLASS_NORMAL, 0, 1, {I, R}, 2).reason, DRAY_REASON_OK) << "its reserve has no turns";
}

TEST(QuotaDecide, ARuleOfBandwidthIsAboutMovingAndOneOfFillAboutGrowing)
{
  Plan p;
  p.rule("band", 800, 700, QUOTA_REFUSE).of = RULE_OF_BANDWIDTH;
  p.rule("fill", 800, 700, QUOTA_REFUSE);
  EXPECT_EQ(p.check(), "") << "the same when of two things is no contradiction";
  quota_ask a{};
  a.tier = DRAY_TIER_DRAM;
  a.moves = true;
  a.bytes = 1;
  a.reserve = 1000;
  a.phase[0] = RULE_FORCE;
  a.phase[1] = RULE_IDLE;
  quota_verdict v{};
  quota_decide(p.p.get(), &a, &v);
  EXPECT_EQ(v.reason, DRAY_POOL_PRESSURE) << "a reserve is bytes kept, not bytes a second";
  a.tier = 0;
  quota_decide(p.p.get(), &a, &v);
  EXPECT_EQ(v.reason, DRAY_POOL_PRESSURE) << "where it will go is not known yet";
  a.tier = DRAY_TIER_CXL;
  quota_decide(p.p.get(), &a, &v);
  EXPECT_EQ(v.reason, DRAY_REASON_OK);
  a.tier = DRAY_TIER_DRAM;
  a.moves = false;
  a.reserve = 0;
  quota_decide(p.p.get(), &a, &v);
  EXPECT_EQ(v.reason, DRAY_REASON_OK) << "only the rule of fill is asked, and it is idle";
}

TEST(QuotaPlan, ARuleOfBandwidthThatWouldMakeItWorseOrCannotBeMeasuredIsRefused)
{
  for (uint8_t what : {QUOTA_DEMOTE, QUOTA_EVICT}) {
    Plan p;
    p.rule("r", 800, 700, what).of = RULE_OF_BANDWIDTH;
    SAYS(p, "makes a rule of bandwidth worse");
  }
  Plan p;
  p.rule("r", 800, 700, QUOTA_REFUSE).of = RULE_OF_BANDWIDTH;
  p.p->rule[0].tier = DRAY_TIER_DISK;
  SAYS(p, "of disk is not known");
}

TEST(QuotaPlan, WhatIsWrongIsSaidWithItsLine)
{
  Plan p;
  p.rule("a", 900, 800, QUOTA_REFUSE).line = 12;
  p.rule("b", 900, 700, QUOTA_REFUSE).line = 14;
  EXPECT_EQ(p.check().find("line 14: rules a and b contradict"), 0u) << p.check();
}

TEST(QuotaDecide, SlowDemoteAndEvictAdmitAndSaySo)
{
  for (uint8_t what : {QUOTA_SLOW, QUOTA_DEMOTE, QUOTA_EVICT}) {
    Plan p;
    p.rule("r", 800, 700, what);
    quota_verdict v = decide(p, DRAY_CLASS_NORMAL, 1000, 1, {RULE_FORCE});
    EXPECT_EQ(v.reason, DRAY_REASON_OK);
    EXPECT_EQ(v.what, what);
    EXPECT_EQ(v.rate != 0, what == QUOTA_SLOW);
  }
}

TEST(QuotaRateTest, ARateIsKeptOverTimeWhateverTheSizes)
{
  uint64_t full = 0, now = kSec, got = 0;
  for (int i = 0; i < 100000; i++, now += kMs / 10) /* ten seconds, asked every 100 us */
    if (rate_take(&full, 1 << 20, 1 << 16, 1000 + i % 7 * 10000, now) == 0)
      got += 1000 + i % 7 * 10000;
  EXPECT_NEAR((double)got, 10.0 * (1 << 20), 0.02 * 10 * (1 << 20));
}

TEST(QuotaRateTest, WhatDoesNotFitWaitsExactlySoLongAndTakesNothing)
{
  uint64_t full = 0;
  EXPECT_EQ(rate_take(&full, 1000, 0, 500, kSec), 0u);
  EXPECT_EQ(rate_take(&full, 1000, 0, 1, kSec), kSec / 2);
  EXPECT_EQ(rate_take(&full, 1000, 0, 1, kSec), kSec / 2) << "asking costs nothing";
  EXPECT_EQ(rate_take(&full, 1000, 0, 1, kSec + kSec / 2), 0u);
}

TEST(QuotaRateTest, ABurstIsFreeAndALargeOneIsPaidOff)
{
  uint64_t full = 0;
  EXPECT_EQ(rate_take(&full, 1000, 100, 50, kSec), 0u);
  EXPECT_EQ(rate_take(&full, 1000, 100, 50, kSec), 0u);
  EXPECT_EQ(rate_take(&full, 1000, 100, 5000, kSec), 0u) << "not yet overdrawn";
  EXPECT_EQ(rate_take(&full, 1000, 100, 1, kSec), 5 * kSec);
}

TEST(QuotaRateTest, HugeNumbersDoNotWrap)
{
  uint64_t full = 0;
  EXPECT_EQ(rate_take(&full, 1, 0, UINT64_MAX, kSec), 0u);
  EXPECT_GT(rate_take(&full, 1, 0, 1, kSec), kSec);
  rate_spend(&full, 1, UINT64_MAX, UINT64_MAX - 1);
  EXPECT_EQ(full, UINT64_MAX);
}

TEST(QuotaRateTest, WhatFreesNeverWaits)
{
  for (unsigned op : {DRAY_UNMAP, DRAY_DROP, DRAY_CANCEL, DRAY_FENCE, DRAY_ACCOUNT, DRAY_QUARANTINE, DRAY_NOP})
    EXPECT_FALSE(rate_counts(op)) << op;
  for (unsigned op : {DRAY_PUT, DRAY_GET, DRAY_MAP, DRAY_ALLOC, DRAY_MOVE, DRAY_COPY})
    EXPECT_TRUE(rate_counts(op)) << op;
}
} // namespace
