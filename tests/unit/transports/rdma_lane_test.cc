/* SPDX-License-Identifier: Apache-2.0 */
/* What a lane posts, and whose fault it is when a connection goes down under several transfers. */
#include <gtest/gtest.h>

#include <cerrno>

extern "C" {
#include <dray/types.h>

#include "tests/unit/transports/rdma_fake_lane.h"
#include "transports/xfer.h"
}

TEST(RdmaLane, AReadHasNoMorePiecesThanTheDeviceTakesInReads)
{
  auto r = fake_gather(16, 1, false, 8192); // iWARP
  EXPECT_TRUE(r.ok);
  EXPECT_EQ(1u, r.largest);
  EXPECT_EQ(4u, r.posts);
  r = fake_gather(16, 2, false, 8192);
  EXPECT_TRUE(r.ok);
  EXPECT_EQ(2u, r.largest);
  r = fake_gather(16, 0, false, 8192); // a driver that does not say
  EXPECT_TRUE(r.ok);
  EXPECT_EQ(1u, r.largest);
}

TEST(RdmaLane, AWriteHasAsManyAsOtherRequests)
{
  auto r = fake_gather(16, 1, true, 8192);
  EXPECT_TRUE(r.ok);
  EXPECT_EQ(4u, r.largest);
  EXPECT_EQ(1u, r.posts);
  r = fake_gather(16, 16, false, 8192);
  EXPECT_TRUE(r.ok);
  EXPECT_EQ(4u, r.largest);
}

TEST(RdmaLane, OthersDeadlinesAreNoTriesOfATransfer)
{
  auto r = fake_late_others(6);
  EXPECT_TRUE(r.last.ended);
  EXPECT_EQ((unsigned)DRAY_DEADLINE, r.last.reason);
  EXPECT_EQ(6u, r.made) << "each takes its connection with it";
  ASSERT_TRUE(r.innocent.ended);
  EXPECT_EQ((unsigned)XFER_OK, r.innocent.status) << r.innocent.reason;
  EXPECT_EQ(7u, r.innocent.posts);
}

TEST(RdmaLane, WhatNoConnectionTakesFailsAfterThreeAndTakesNobodyAlong)
{
  auto r = fake_refused_others(2);
  ASSERT_TRUE(r.last.ended) << "not tried until its deadline";
  EXPECT_EQ((unsigned)XFER_FAILED, r.last.status);
  EXPECT_EQ((unsigned)DRAY_IO_ERROR, r.last.reason);
  EXPECT_EQ(EINVAL, r.last.err);
  EXPECT_EQ(3u, r.last.posts);
  EXPECT_EQ(6u, r.made);
  ASSERT_TRUE(r.innocent.ended);
  EXPECT_EQ((unsigned)XFER_OK, r.innocent.status) << r.innocent.reason;
}

TEST(RdmaLane, AConnectionThatBreaksByItselfIsATry)
{
  EXPECT_FALSE(fake_broken(2).ended);
  auto r = fake_broken(3);
  ASSERT_TRUE(r.ended);
  EXPECT_EQ((unsigned)DRAY_PEER_UNREACHABLE, r.reason);
  EXPECT_EQ(3u, r.posts);
}
