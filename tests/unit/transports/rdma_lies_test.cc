/* SPDX-License-Identifier: Apache-2.0 */
/* What a review of the rdma transport found: peers that lie or never stop, and what is easily mixed up. */
#include <gtest/gtest.h>

#include <cstring>
#include <string>

extern "C" {
#include "tests/unit/transports/rdma_fake.h"
#include "transports/rdma/wire.h"
}

TEST(RdmaLies, PiecesOfWhatIsLentThatAddUpAreTaken)
{
  auto r = fake_lend(64 << 10, 4, 4, 16 << 10, 1);
  EXPECT_TRUE(r.in) << r.why;
  EXPECT_EQ(4u, r.pieces);
  r = fake_lend(64 << 10, 64, 16, 1 << 10, 4); // in several answers
  EXPECT_TRUE(r.in) << r.why;
  EXPECT_EQ(64u, r.pieces);
  EXPECT_EQ(5u, r.questions);
}

TEST(RdmaLies, MorePiecesThanItSaidAreNotWrittenBehindTheList)
{
  auto r = fake_lend(64 << 10, 1, 24, 1 << 10, 1);
  EXPECT_FALSE(r.in);
  EXPECT_STREQ("it lends more than is asked for", r.why);
  EXPECT_LE(r.pieces, 1u);
  EXPECT_EQ(2u, r.questions) << "it is not asked on";
  r = fake_lend(64 << 10, 24, 24, 1, 3); // as many as said, but far too small: the next answer has no room
  EXPECT_FALSE(r.in);
  EXPECT_STRNE("", r.why);
  EXPECT_LE(r.pieces, 24u);
  r = fake_lend(64 << 10, 0, 24, 1 << 10, 1);
  EXPECT_FALSE(r.in);
  EXPECT_EQ(0u, r.pieces);
}

TEST(RdmaLies, APieceThatIsLargerThanAllIsRefused)
{
  auto r = fake_lend(64 << 10, 2, 1, 65 << 10, 1);
  EXPECT_FALSE(r.in);
  EXPECT_STREQ("it lends more than is asked for", r.why);
}

TEST(RdmaPaths, OneThatIsLostIsGivenBackToBeDialledAgainSeenUpOrNot)
{
  bool rung = false;
  EXPECT_EQ(fake_drained, fake_lost_path(true, &rung));
  EXPECT_TRUE(rung);
  rung = false;
  EXPECT_EQ(fake_drained, fake_lost_path(false, &rung)) << "lost before the lane looked";
  EXPECT_TRUE(rung);
}

TEST(RdmaServe, APeerThatAsksWithoutEndIsAnsweredAWindowAtATime)
{
  auto r = fake_busy_peer(1000);
  EXPECT_EQ(WIRE_WINDOW, r.first);
  EXPECT_TRUE(r.more);
  EXPECT_EQ(WIRE_WINDOW, r.second) << "and goes on in its next turn";
  r = fake_busy_peer(3);
  EXPECT_EQ(3u, r.first);
  EXPECT_FALSE(r.more);
}

TEST(RdmaServe, WhoHasNotShownAKeyIsInAnotherProtectionDomainThanLentMemory)
{
  auto r = fake_control();
  ASSERT_TRUE(r.opened);
  EXPECT_TRUE(r.own_qp);
  EXPECT_TRUE(r.own_mr);
}

TEST(RdmaNames, NoTwoNodesTiersOrPeersAreOne)
{
  char a[64], b[64];
  auto differ = [&](const std::string &na, const std::string &nb, const char *ta, const char *tb, const char *pa, const char *pb) {
    fake_name(a, na.c_str(), ta, pa);
    fake_name(b, nb.c_str(), tb, pb);
    EXPECT_LT(strlen(a), 64u);
    EXPECT_LT(strlen(b), 64u);
    return strcmp(a, b) != 0;
  };
  std::string common(31, 'n'), longer(200, 'n');
  EXPECT_TRUE(differ("a", "b", "remote", "remote", "p", "p"));
  EXPECT_TRUE(differ(common + "1", common + "2", "remote", "remote", "p", "p"));
  EXPECT_TRUE(differ(longer + "1", longer + "2", "remote", "remote", "p", "p"));
  EXPECT_TRUE(differ(longer, longer, "remote_dram", "remote", "p", "p"));
  EXPECT_TRUE(differ("a", "a", "remote", "remote", "p1", "p2"));
  EXPECT_TRUE(differ(common, common, "remote", "remote", "peer-with-a-name-of-31-bytes-01", "peer-with-a-name-of-31-bytes-02"));
  fake_name(a, "a", "remote", nullptr);
  EXPECT_STREQ("a/remote", a);
  fake_name(a, "a", "remote", "b");
  EXPECT_STREQ("a/remote:b", a);
}

TEST(RdmaTally, MeansAreOfTheTimeThatSomethingWasUnderWay)
{
  uint64_t latency, rate;
  fake_tally(1000, 1 << 20, 1000000, &latency, &rate);
  EXPECT_EQ(1000000u, latency);
  EXPECT_NEAR((double)(1 << 20) * 1000, (double)rate, 1e6);
  fake_tally(3, 1 << 20, 1000000, &latency, &rate);
  EXPECT_EQ(0u, rate) << "no window is full yet";
}
