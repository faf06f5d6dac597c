/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

extern "C" {
#include <dray/ring_abi.h>
#include <dray/types.h>

#include "tests/unit/mover/peer_map_fake.h"
}

TEST(PeerMap, APeersCellIsCopiedHereAndLeased)
{
  for (unsigned tier : {DRAY_TIER_ANY, DRAY_TIER_REMOTE}) {
    auto r = fake_map(FAKE_NONE, false, tier);
    ASSERT_TRUE(r.ended);
    EXPECT_EQ((unsigned)DRAY_REASON_OK, r.reason);
    EXPECT_EQ(FAKE_THEIRS, r.leased);
    EXPECT_EQ(FAKE_THEIRS, r.listed);
    EXPECT_TRUE(r.flags & DRAY_STAGED_FIRST);
    EXPECT_EQ((unsigned)DRAY_PATH_BOUNCE, r.path);
    EXPECT_TRUE(r.clean);
  }
}

TEST(PeerMap, ANewerCellThatWasPutMeanwhileStaysAndIsWhatIsLeased)
{
  auto r = fake_map(FAKE_OWN, false, DRAY_TIER_ANY);
  ASSERT_TRUE(r.ended);
  EXPECT_EQ((unsigned)DRAY_REASON_OK, r.reason);
  EXPECT_EQ(FAKE_OURS, r.listed) << "MAP is a read";
  EXPECT_EQ(FAKE_OURS, r.leased);
  EXPECT_EQ(4096u, r.bytes);
  EXPECT_EQ((unsigned)DRAY_PATH_MAP, r.path) << "what is leased was not copied";
  EXPECT_FALSE(r.flags & DRAY_STAGED_FIRST);
  EXPECT_TRUE(r.clean);
}

TEST(PeerMap, ALocalCellIsNotReplacedByAMapThatAsksForThePeers)
{
  auto r = fake_map(FAKE_OWN, true, DRAY_TIER_REMOTE);
  ASSERT_TRUE(r.ended);
  EXPECT_EQ((unsigned)DRAY_REASON_OK, r.reason);
  EXPECT_EQ(FAKE_OURS, r.listed);
  EXPECT_EQ(FAKE_OURS, r.leased);
  EXPECT_TRUE(r.clean);
}

TEST(PeerMap, AQuarantinedCellStaysQuarantinedAndIsNotLeased)
{
  for (bool early : {true, false}) {
    auto r = fake_map(FAKE_QUARANTINED, early, DRAY_TIER_REMOTE);
    ASSERT_TRUE(r.ended);
    EXPECT_EQ((unsigned)DRAY_QUARANTINED, r.reason);
    EXPECT_EQ(-1, r.leased);
    EXPECT_EQ(FAKE_OURS, r.listed);
    EXPECT_TRUE(r.quarantined);
    EXPECT_TRUE(r.clean);
  }
}

TEST(PeerMap, AnotherAgentsCellMeanwhileIsUnderTheGateOfEveryMap)
{
  auto r = fake_map(FAKE_OTHERS, false, DRAY_TIER_ANY);
  ASSERT_TRUE(r.ended);
  EXPECT_EQ((unsigned)DRAY_SCOPE_DENIED, r.reason);
  EXPECT_EQ(-1, r.leased);
  EXPECT_EQ(FAKE_OURS, r.listed);
  EXPECT_TRUE(r.clean);
}
