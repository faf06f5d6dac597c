/* SPDX-License-Identifier: Apache-2.0 */
/* Fleet economics: the anchor's numbers exactly, and placement as a table. */
#include <gtest/gtest.h>

extern "C" {
#include "policy/plan.h"
}

namespace {
const uint64_t MiB = 1 << 20;
struct Plan : ::testing::Test {
  profile_set s{};
  plan_fleet f{8, 4000, 64 * MiB, 100000};
  plan_regime_cost c{};
  void SetUp() override { profile_defaults(&s); }
};

TEST_F(Plan, AnchorOnCxlSavesPrefillsAndCopies)
{
  ASSERT_TRUE(plan_tier(&s, DRAY_TIER_CXL, &f, &c));
  EXPECT_EQ(c.regime, PLAN_SHARED);
  EXPECT_EQ(c.prefills, 1u);
  EXPECT_EQ(c.copies, 1u);
  EXPECT_EQ(c.saved_tokens, 28000u);
  EXPECT_EQ(c.saved_bytes, 448 * MiB);
  EXPECT_EQ(c.next_ns, s.tier[DRAY_TIER_CXL].read_latency_ns);
}

TEST_F(Plan, AnchorOnRdmaSavesPrefillsOnly)
{
  for (unsigned tier : {DRAY_TIER_REMOTE_DRAM, DRAY_TIER_REMOTE}) {
    ASSERT_TRUE(plan_tier(&s, tier, &f, &c)) << tier;
    EXPECT_EQ(c.regime, PLAN_COPY) << tier;
    EXPECT_EQ(c.copies, 8u);
    EXPECT_EQ(c.saved_tokens, 28000u);
    EXPECT_EQ(c.saved_bytes, 0u);
    EXPECT_EQ(c.next_ns, s.tier[tier].read_latency_ns + 64 * MiB * 1000 / s.tier[tier].bandwidth_mbps);
  }
}

TEST_F(Plan, AnchorOnDramSavesNothing)
{
  ASSERT_TRUE(plan_tier(&s, DRAY_TIER_DRAM, &f, &c));
  EXPECT_EQ(c.regime, PLAN_PRIVATE);
  EXPECT_EQ(c.prefills, 8u);
  EXPECT_EQ(c.copies, 8u);
  EXPECT_EQ(c.saved_tokens, 0u);
  EXPECT_EQ(c.saved_bytes, 0u);
  EXPECT_EQ(c.next_ns, 400000000u);
}

TEST_F(Plan, OneTenantSavesNothingAnywhere)
{
  f.tenants = 1;
  for (unsigned t = 1; t < DRAY_TIER_COUNT; t++) {
    ASSERT_TRUE(plan_tier(&s, t, &f, &c));
    EXPECT_EQ(c.saved_tokens + c.saved_bytes, 0u);
  }
}

TEST_F(Plan, OverflowIsRefusedNotWrapped)
{
  f.bytes = UINT64_MAX / 4;
  EXPECT_FALSE(plan_tier(&s, DRAY_TIER_CXL, &f, &c));
  EXPECT_FALSE(plan_tier(&s, DRAY_TIER_REMOTE, &f, &c));
  f.bytes = 1;
  f.tokens = UINT64_MAX / 2;
  EXPECT_FALSE(plan_tier(&s, DRAY_TIER_DRAM, &f, &c));
  s.tier[DRAY_TIER_REMOTE].bandwidth_mbps = 0;
  f.tokens = 1;
  EXPECT_FALSE(plan_tier(&s, DRAY_TIER_REMOTE, &f, &c)) << "no bandwidth is not for nothing";
}

TEST_F(Plan, PlacementAsATable)
{
  auto bit = [](unsigned t) { return (uint8_t)(1u << t); };
  const uint8_t D = bit(DRAY_TIER_DRAM), X = bit(DRAY_TIER_CXL), K = bit(DRAY_TIER_DISK), R = bit(DRAY_TIER_REMOTE);
  const struct {
    uint8_t tier;
    bool full, hot;
    uint8_t room;
    uint64_t tokens;
    uint8_t verdict, to;
  } rows[] = {
      {DRAY_TIER_DRAM, false, false, X, 4000, PLAN_KEEP, 0},
      {DRAY_TIER_DRAM, true, false, (uint8_t)(X | K), 4000, PLAN_DEMOTE, DRAY_TIER_CXL},
      {DRAY_TIER_DRAM, true, false, K, 4000, PLAN_DEMOTE, DRAY_TIER_DISK},
      {DRAY_TIER_DRAM, true, false, R, 4000, PLAN_SPILL, DRAY_TIER_REMOTE},
      {DRAY_TIER_DRAM, true, false, 0, 4000, PLAN_EVICT, 0},
      {DRAY_TIER_DISK, false, true, D, 4000, PLAN_PROMOTE, DRAY_TIER_DRAM},
      {DRAY_TIER_DISK, false, true, (uint8_t)(X | K), 4000, PLAN_PROMOTE, DRAY_TIER_CXL},
      {DRAY_TIER_DISK, false, true, 0, 4000, PLAN_KEEP, 0},
      {DRAY_TIER_DISK, false, false, D, 0, PLAN_EVICT, 0}, /* nothing to recompute */
  };
  for (const auto &r : rows) {
    plan_span p{r.tier, r.full, r.hot, r.room, 64 * MiB, r.tokens, 100000};
    plan_placement v{};
    ASSERT_TRUE(plan_place(&s, &p, &v));
    EXPECT_EQ(v.verdict, r.verdict) << (int)r.tier << (r.full ? " full " : " ") << r.tokens << " " << v.why;
    EXPECT_EQ(v.to, r.to) << v.why;
  }
}

TEST_F(Plan, ADemotionThatCostsMoreThanRecomputingIsAnEviction)
{
  plan_span p{DRAY_TIER_DRAM, true, false, 1 << DRAY_TIER_DISK, 64 * MiB, 1, 0};
  uint64_t dram, disk;
  ASSERT_TRUE(plan_stage_ns(&s, DRAY_TIER_DRAM, p.bytes, &dram) && plan_stage_ns(&s, DRAY_TIER_DISK, p.bytes, &disk));
  ASSERT_LT(dram, disk);
  plan_placement v{};
  p.ns_per_token = disk;
  ASSERT_TRUE(plan_place(&s, &p, &v));
  EXPECT_EQ(v.verdict, PLAN_EVICT);
  p.ns_per_token = disk + 1;
  ASSERT_TRUE(plan_place(&s, &p, &v));
  EXPECT_EQ(v.verdict, PLAN_DEMOTE);
}
} // namespace
