/* SPDX-License-Identifier: Apache-2.0 */
// Drains in a mover without lanes: what is promised when it goes wrong, several of them, and a device that is slow.
#include <gtest/gtest.h>
#include <poll.h>

#include <cerrno>

/* In C a struct and a function may share a name; C++ remarks on it. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
extern "C" {
#include <dray/types.h>

#include "mover/drain.h"
#include "tests/unit/mover/drain_fake.h"
}
#pragma GCC diagnostic pop

namespace {
class Drain : public ::testing::Test {
protected:
  void SetUp() override { f = fake_mover_new(); }
  void TearDown() override { fake_mover_free(f); }
  /* Until the pool's drain is over: its end. */
  unsigned End(uint32_t pool)
  {
    for (int i = 0; i < 2000 && fake_state(f, pool) == DRAIN_RUNS; i++)
      poll(nullptr, 0, 5);
    return fake_state(f, pool);
  }
  struct fake_mover *f = nullptr;
};
} // namespace

TEST_F(Drain, OneThatDidNotBeginIsNotRememberedAndNothingIsClosed)
{
  fake_no_threads(f, true);
  EXPECT_EQ(-EAGAIN, fake_drain_begin(f, 1));
  EXPECT_EQ(DRAIN_NONE, fake_state(f, 1));
  EXPECT_EQ(DRAY_REASON_OK, fake_put_reason(f, 1)) << "it was refused: the tier serves";
  fake_no_threads(f, false);
  ASSERT_EQ(0, fake_drain_begin(f, 2));
  EXPECT_EQ(DRAY_TIER_DRAINING, fake_put_reason(f, 2));
  EXPECT_TRUE(fake_loop(f, 1)) << "by then the keeper has heard all";
  EXPECT_TRUE(fake_detached(f, 2));
  EXPECT_EQ(0u, fake_keeper_due(f)) << "the next worker would drain what nobody was promised";
}

TEST_F(Drain, AllThatAWorkerLeftAreClosedAtOnceAndDrainedInTurn)
{
  fake_lease(f, 1);
  fake_drain_again(f, 1 << 1 | 1 << 2);
  EXPECT_EQ(DRAY_REASON_OK, fake_put_reason(f, 0));
  EXPECT_EQ(DRAY_TIER_DRAINING, fake_put_reason(f, 1));
  EXPECT_EQ(DRAY_TIER_DRAINING, fake_put_reason(f, 2)) << "it waits for its turn, and is closed";
  EXPECT_EQ(DRAIN_RUNS, fake_state(f, 1));
  EXPECT_EQ(DRAIN_RUNS, fake_state(f, 2));
  EXPECT_EQ(0, fake_drain_begin(f, 2)) << "asked again it goes on waiting";
  EXPECT_EQ(-EBUSY, fake_drain_begin(f, 0));
  EXPECT_FALSE(fake_detached(f, 2));
  fake_lease_end(f);
  EXPECT_TRUE(fake_loop(f, 2)) << "nobody asks again";
  EXPECT_TRUE(fake_detached(f, 1));
  EXPECT_TRUE(fake_detached(f, 2));
  EXPECT_EQ(DRAIN_DONE, End(2));
  EXPECT_EQ(0u, fake_keeper_due(f));
}

TEST_F(Drain, OneWhoseDeviceIsNotLetGoOfHoldsUpNoOther)
{
  fake_detach_says(f, 1, -EIO);
  fake_drain_again(f, 1 << 1 | 1 << 2);
  EXPECT_TRUE(fake_loop(f, 1));
  EXPECT_FALSE(fake_detached(f, 1));
  EXPECT_TRUE(fake_detached(f, 2));
  EXPECT_EQ(1u << 1, fake_keeper_due(f)) << "the next worker tries that one again";
}

TEST_F(Drain, ASlowDeviceIsDozedBeforeEachLookAndSeesThatNothingFliesAtTheEnd)
{
  struct fake_looks k = fake_move(f, 3 << 20, 4);
  EXPECT_TRUE(k.moved);
  EXPECT_EQ(3u, k.pieces);
  EXPECT_EQ(13u, k.looks) << "the first was sent at the second flush only";
  EXPECT_EQ(0u, k.undozed) << "poll_fd need not tell without";
  EXPECT_EQ(3u, k.idle);
}

TEST(DrainSet, IsOfPoolsOnlyAndWhatIsGoneStaysGone)
{
  struct drain_set s = {};
  drain_set_begin(&s, 3);
  drain_set_begin(&s, 40);
  drain_set_begin(&s, STORE_POOLS_MAX);
  drain_set_begin(&s, UINT32_MAX);
  EXPECT_EQ(1u << 3, s.due) << "a peer's device is no pool";
  drain_set_end(&s, 35);
  EXPECT_EQ(1u << 3, s.due);
  drain_set_end(&s, 3);
  drain_set_begin(&s, 3);
  EXPECT_EQ(0u, s.due) << "it was told late, and the device is gone";
}
