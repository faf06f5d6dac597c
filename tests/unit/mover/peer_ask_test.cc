/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <vector>

extern "C" {
#include <dray/types.h>

#include "tests/unit/mover/peer_fake.h"
}

TEST(PeerAsk, APartThatArrivesAfterThePeersPromiseIsStaleAndAWholeCellIsProvenByItsCrc)
{
  EXPECT_EQ((unsigned)DRAY_PEER_STALE, fake_read_landed(1000000, false));
  EXPECT_EQ(0u, fake_read_landed(-1000000000, false));
  EXPECT_EQ(0u, fake_read_landed(1000000, true));
}

TEST(PeerAsk, AnAnswerNeedsNoMemoryToReachItsLane)
{
  auto r = fake_ask_closed();
  EXPECT_EQ(1u, r.messages);
  EXPECT_TRUE(r.in_question) << "the message is a part of the question";
  EXPECT_EQ((unsigned)DRAY_SHUTTING_DOWN, r.reason);
}

TEST(PeerTell, LinksOfOneTierAreOneNoticeTheNewest)
{
  std::vector<uint8_t> many(256, DRAY_TIER_REMOTE);
  auto r = fake_tell(many.data(), (uint32_t)many.size());
  EXPECT_EQ(0u, r.early) << "they wait for the flush";
  ASSERT_EQ(1u, r.said) << "slots that POISON and REVOKE need";
  EXPECT_EQ(256u, r.detail[0]);
}

TEST(PeerTell, AnotherTiersNoticeGoesFirstAndWakesItsEngine)
{
  const uint8_t two[] = {DRAY_TIER_REMOTE, DRAY_TIER_REMOTE, DRAY_TIER_REMOTE_DRAM};
  auto r = fake_tell(two, 3);
  EXPECT_EQ(1u, r.early);
  EXPECT_TRUE(r.woken_early) << "what is published without the doorbell is seen by nobody who sleeps";
  ASSERT_EQ(2u, r.said);
  EXPECT_EQ(DRAY_TIER_REMOTE, r.tier[0]);
  EXPECT_EQ(2u, r.detail[0]);
  EXPECT_EQ(DRAY_TIER_REMOTE_DRAM, r.tier[1]);
  EXPECT_EQ(3u, r.detail[1]);
}
