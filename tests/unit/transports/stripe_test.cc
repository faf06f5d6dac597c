/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

extern "C" {
#include "transports/rdma/backoff.h"
#include "transports/rdma/stripe.h"
}

TEST(Stripe, TheLeastLadenPathThatIsUpTakesThePiece)
{
  struct stripe_path p[3] = {{true, 1, 4, 300}, {true, 1, 4, 100}, {false, 0, 4, 0}};
  bool full;
  for (uint32_t turn = 0; turn < 3; turn++)
    EXPECT_EQ(1u, stripe_choose(p, 3, turn, &full));
  EXPECT_FALSE(full);
  p[1].open = 4;
  EXPECT_EQ(0u, stripe_choose(p, 3, 0, &full));
  p[0].open = 4;
  EXPECT_EQ(STRIPE_NONE, stripe_choose(p, 3, 0, &full));
  EXPECT_TRUE(full) << "back-pressure, not a dead peer";
  p[0].up = p[1].up = false;
  EXPECT_EQ(STRIPE_NONE, stripe_choose(p, 3, 0, &full));
  EXPECT_FALSE(full) << "a dead peer";
}

TEST(Stripe, EqualsTakeTurnsAndADeadPathGetsNothing)
{
  struct stripe_path p[4] = {{true, 0, 4, 0}, {true, 0, 4, 0}, {false, 0, 4, 0}, {true, 0, 4, 0}};
  unsigned got[4] = {};
  bool full;
  for (uint32_t turn = 0; turn < 400; turn++)
    got[stripe_choose(p, 4, turn, &full)]++;
  EXPECT_EQ(0u, got[2]);
  for (int i : {0, 1, 3})
    EXPECT_GE(got[i], 100u);
}

TEST(Backoff, WaitsLongerAfterEachFailureUpToALimitAndSpreads)
{
  struct backoff b = {};
  EXPECT_TRUE(backoff_due(&b, 0));
  uint64_t now = 1000000000, most = 0;
  for (int i = 0; i < 40; i++) {
    uint64_t want = std::min<uint64_t>(uint64_t{BACKOFF_FIRST_MS} << std::min(i, 20), BACKOFF_LAST_MS) * 1000000;
    backoff_fail(&b, now, 7);
    EXPECT_GE(b.at_ns - now, want / 2);
    EXPECT_LE(b.at_ns - now, want);
    EXPECT_FALSE(backoff_due(&b, now));
    EXPECT_TRUE(backoff_due(&b, b.at_ns));
    most = std::max(most, b.at_ns - now);
  }
  EXPECT_LE(most, uint64_t{BACKOFF_LAST_MS} * 1000000);
  struct backoff c = {}, d = {};
  backoff_fail(&c, now, 1);
  backoff_fail(&d, now, 2);
  EXPECT_NE(c.at_ns, d.at_ns) << "two of them do not come back at the same moment";
  backoff_reset(&b);
  EXPECT_TRUE(backoff_due(&b, 0));
}
