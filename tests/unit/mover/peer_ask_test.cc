/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

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
