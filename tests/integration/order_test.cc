/* SPDX-License-Identifier: Apache-2.0 */
/* LINK, DRAIN, FENCE, CANCEL, deadlines and credits, through a real mover. */
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "tests/kit/mover.h"

using kit::Engine;
using kit::Key;
using kit::Mover;
using kit::say;

namespace {
class Order : public ::testing::Test {
 protected:
  Mover mover;
  Engine e{mover, {.region = 64u << 20}};
  void SetUp() override
  {
    ASSERT_TRUE(mover.up()) << mover.log();
    ASSERT_EQ(e.error(), 0);
  }
  struct dray_sqe *put(const char *name, uint64_t len, uint8_t tier, uint64_t cookie, uint16_t flags = 0)
  {
    struct dray_sqe *s = e.sqe();
    dray_prep_put(s, Key(name).b, e.region.id, 0, len, tier);
    s->cookie = cookie;
    s->flags = flags;
    return s;
  }
  struct dray_sqe *nop(uint64_t cookie, uint16_t flags = 0)
  {
    struct dray_sqe *s = e.sqe();
    dray_prep_nop(s);
    s->cookie = cookie;
    s->flags = flags;
    return s;
  }
  /* Completions by cookie, and the order they came in. */
  std::map<uint64_t, struct dray_cqe> by;
  std::vector<uint64_t> order;
  void collect(size_t n)
  {
    by.clear();
    order.clear();
    for (auto &c : e.wait(n)) {
      ASSERT_EQ(by.count(c.cookie), 0u) << "a second completion for " << c.cookie;
      by[c.cookie] = c;
      order.push_back(c.cookie);
    }
    ASSERT_EQ(by.size(), n);
  }
  size_t place(uint64_t cookie) { return std::find(order.begin(), order.end(), cookie) - order.begin(); }
};

TEST_F(Order, DirectivesWithoutFlagsDoNotWaitForEachOther)
{
  put("slow", 32u << 20, DRAY_TIER_DISK, 1);
  nop(2);
  collect(2);
  EXPECT_EQ(order[0], 2u);
}

TEST_F(Order, DrainWaitsForAllEarlierAndHoldsAllLater)
{
  put("slow", 32u << 20, DRAY_TIER_DISK, 1);
  nop(2, DRAY_DRAIN);
  nop(3);
  collect(3);
  EXPECT_EQ(order, (std::vector<uint64_t>{1, 2, 3}));
}

TEST_F(Order, LinkStartsTheNextOnlyAfterSuccess)
{
  put("slow", 32u << 20, DRAY_TIER_DISK, 1, DRAY_LINK);
  struct dray_sqe *s = e.sqe();
  dray_prep_get(s, Key("slow").b, e.region.id, 0, 1000, 0);
  s->cookie = 2;
  nop(3);
  collect(3);
  EXPECT_EQ(by[2].status, DRAY_OK) << say(by[2]);
  EXPECT_LT(place(1), place(2));
  EXPECT_EQ(order[0], 3u) << "a directive behind the chain does not wait for it";
}

TEST_F(Order, FailureCancelsTheRestOfTheChainAndNoMore)
{
  struct dray_sqe *s = e.sqe();
  dray_prep_get(s, Key("nowhere").b, e.region.id, 0, 1000, 0);
  s->cookie = 1;
  s->flags = DRAY_LINK;
  nop(2, DRAY_LINK);
  nop(3);
  nop(4);
  collect(4);
  EXPECT_EQ(by[1].status, DRAY_MISSED);
  EXPECT_EQ(by[2].status, DRAY_CANCELED);
  EXPECT_EQ(by[2].reason, DRAY_LINK_BROKEN);
  EXPECT_EQ(by[3].reason, DRAY_LINK_BROKEN);
  EXPECT_EQ(by[4].status, DRAY_OK);
}

TEST_F(Order, ChainAcrossSubmitsHolds)
{
  struct dray_sqe *s = e.sqe();
  dray_prep_get(s, Key("nowhere").b, e.region.id, 0, 1000, 0);
  s->flags = DRAY_LINK;
  EXPECT_EQ(e.one().status, DRAY_MISSED);
  nop(2);
  EXPECT_EQ(e.one().reason, DRAY_LINK_BROKEN) << "the predecessor had failed before this one was submitted";
  nop(3);
  EXPECT_EQ(e.one().status, DRAY_OK);
}

TEST_F(Order, ChainsLongerThanTheLimitAreRefused)
{
  for (uint64_t i = 1; i <= DRAY_LINK_MAX + 2; i++)
    nop(i, i < DRAY_LINK_MAX + 2 ? DRAY_LINK : 0);
  collect(DRAY_LINK_MAX + 2);
  EXPECT_EQ(by[DRAY_LINK_MAX].status, DRAY_OK);
  EXPECT_EQ(by[DRAY_LINK_MAX + 1].reason, DRAY_LIMIT);
  EXPECT_NE(by[DRAY_LINK_MAX + 2].status, DRAY_OK);
}

TEST_F(Order, FenceCompletesAfterEarlierWritesAreDurable)
{
  for (uint64_t i = 1; i <= 8; i++)
    put(("w" + std::to_string(i)).c_str(), 1u << 20, DRAY_TIER_DISK, i);
  dray_prep_fence(e.sqe());
  collect(9);
  EXPECT_EQ(order.back(), 0u);
  EXPECT_EQ(by[0].status, DRAY_OK) << say(by[0]);
}

TEST_F(Order, FencedDirectiveStartsAfterTheSync)
{
  put("f", 8u << 20, DRAY_TIER_DISK, 1);
  put("g", 4096, DRAY_TIER_DRAM, 2, DRAY_FENCED);
  nop(3, DRAY_FENCED);
  collect(3);
  EXPECT_EQ(order, (std::vector<uint64_t>{1, 2, 3}));
  for (auto &p : by)
    EXPECT_EQ(p.second.status, DRAY_OK) << say(p.second);
}

TEST_F(Order, CancelOfWhatWaitsEndsItWithoutStartingIt)
{
  put("slow", 48u << 20, DRAY_TIER_DISK, 1);
  put("never", 4096, DRAY_TIER_DRAM, 2, DRAY_DRAIN);
  uint32_t pos = dray_sq_pos(e.d);
  dray_submit(e.d);
  struct dray_sqe *s = dray_get_sqe_cancel(e.d);
  dray_prep_cancel(s, pos);
  s->cookie = 3;
  collect(3);
  EXPECT_EQ(by[3].status, DRAY_OK) << say(by[3]);
  EXPECT_EQ(by[2].status, DRAY_CANCELED) << say(by[2]);
  EXPECT_EQ(by[1].status, DRAY_OK);
  EXPECT_EQ(e.stat("never").status, DRAY_MISSED);
}

TEST_F(Order, CancelOfWhatRunsLeavesNoCell)
{
  put("half", 60u << 20, DRAY_TIER_DISK, 1);
  uint32_t pos = dray_sq_pos(e.d);
  struct dray_sqe *s = dray_get_sqe_cancel(e.d);
  dray_prep_cancel(s, pos);
  s->cookie = 2;
  collect(2);
  EXPECT_EQ(by[2].status, DRAY_OK);
  EXPECT_EQ(by[1].status, DRAY_CANCELED) << say(by[1]);
  EXPECT_EQ(e.stat("half").status, DRAY_MISSED);
  EXPECT_TRUE(mover.audit_clean());
}

TEST_F(Order, CancelOfNothingIsMissed)
{
  dray_prep_cancel(dray_get_sqe_cancel(e.d), 12345);
  auto c = e.one();
  EXPECT_EQ(c.status, DRAY_MISSED);
  EXPECT_EQ(c.reason, DRAY_ABSENT);
}

TEST_F(Order, CancelHasCreditsOfItsOwn)
{
  put("slow", 48u << 20, DRAY_TIER_DISK, 1);
  while (struct dray_sqe *s = dray_get_sqe(e.d)) { /* all credits, behind a DRAIN */
    dray_prep_nop(s);
    s->cookie = 99;
    s->flags = DRAY_DRAIN;
  }
  ASSERT_EQ(dray_get_sqe(e.d), nullptr);
  dray_submit(e.d);
  struct dray_sqe *s = dray_get_sqe_cancel(e.d);
  ASSERT_NE(s, nullptr);
  dray_prep_cancel(s, 0);
  s->cookie = 2;
  size_t done = 0;
  bool slow_canceled = false;
  for (auto &c : e.wait(65)) {
    done++;
    if (c.cookie == 1)
      slow_canceled = c.status == DRAY_CANCELED;
  }
  EXPECT_EQ(done, 65u);
  EXPECT_TRUE(slow_canceled);
}

TEST_F(Order, DeadlineEndsWhatWaitsAsRefusedAndWhatRunsAsSoonAsItIsQuiet)
{
  put("slow", 60u << 20, DRAY_TIER_DISK, 1);
  nop(2, DRAY_DRAIN)->deadline_us = 1000;
  collect(2);
  EXPECT_EQ(by[2].status, DRAY_REFUSED) << say(by[2]);
  EXPECT_EQ(by[2].reason, DRAY_DEADLINE);
  put("slower", 60u << 20, DRAY_TIER_DISK, 3)->deadline_us = 1;
  collect(1);
  EXPECT_EQ(by[3].reason, DRAY_DEADLINE) << say(by[3]);
  EXPECT_EQ(e.stat("slower").status, DRAY_MISSED);
}

TEST_F(Order, EngineThatDoesNotReapStopsItselfOnly)
{
  Engine other(mover);
  ASSERT_EQ(other.error(), 0);
  uint64_t sent = 0;
  while (struct dray_sqe *s = dray_get_sqe(e.d)) {
    dray_prep_nop(s);
    sent++;
  }
  EXPECT_EQ(sent, 64u) << "credits";
  dray_submit(e.d);
  EXPECT_EQ(dray_get_sqe(e.d), nullptr);
  for (int i = 0; i < 100; i++) {
    dray_prep_nop(other.sqe());
    ASSERT_EQ(other.one().status, DRAY_OK);
  }
  EXPECT_EQ(e.wait(sent).size(), sent);
}

TEST_F(Order, EveryDirectiveIsAnsweredExactlyOnce)
{
  uint64_t sent = 0, got = 0;
  std::vector<uint8_t> seen(200000);
  while (got < seen.size()) {
    for (struct dray_sqe *s; sent < seen.size() && (s = dray_get_sqe(e.d));) {
      s->op = sent % 7 == 3 ? 200 : DRAY_NOP; /* refused ones count, too */
      s->cookie = sent++;
    }
    dray_submit(e.d);
    ASSERT_GE(dray_wait(e.d, 1, 10000), 1);
    for (const struct dray_cqe *c; (c = dray_peek(e.d)); dray_seen(e.d)) {
      ASSERT_LT(c->cookie, seen.size());
      ASSERT_EQ(seen[c->cookie]++, 0) << c->cookie;
      ASSERT_EQ(c->reason, c->cookie % 7 == 3 ? DRAY_BAD_OP : DRAY_REASON_OK);
      got++;
    }
  }
  EXPECT_EQ(mover.status("counters.taken"), mover.status("counters.completed"));
}
}  // namespace
