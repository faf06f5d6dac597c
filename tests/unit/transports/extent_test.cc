/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <random>
#include <vector>

extern "C" {
#include <errno.h>

#include "transports/extent.h"
}

class Extent : public ::testing::Test {
 protected:
  ~Extent() override { extent_map_deinit(&m); }
  uint64_t Alloc(uint64_t n)
  {
    uint64_t off = UINT64_MAX;
    return extent_alloc(&m, n, &off) ? UINT64_MAX : off;
  }
  struct extent_map m = {};
};

TEST_F(Extent, FirstFitTakesTheLowest)
{
  ASSERT_EQ(0, extent_map_init(&m, 100, 0));
  EXPECT_EQ(0u, Alloc(10));
  EXPECT_EQ(10u, Alloc(10));
  EXPECT_EQ(20u, Alloc(10));
  EXPECT_TRUE(extent_free(&m, 0, 10));
  EXPECT_EQ(30u, Alloc(11));
  EXPECT_EQ(0u, Alloc(4));
  EXPECT_EQ(4u, Alloc(6));
  EXPECT_EQ(UINT64_MAX, Alloc(60));
  EXPECT_EQ(41u, m.used);
}
TEST_F(Extent, FreedNeighboursBecomeOne)
{
  ASSERT_EQ(0, extent_map_init(&m, 30, 0));
  for (int i = 0; i < 3; i++)
    Alloc(10);
  EXPECT_TRUE(extent_free(&m, 0, 10));
  EXPECT_TRUE(extent_free(&m, 20, 10));
  EXPECT_TRUE(extent_free(&m, 10, 10));
  EXPECT_EQ(1u, m.n);
  EXPECT_EQ(0u, Alloc(30));
}
TEST_F(Extent, WrongFreesAreRefused)
{
  ASSERT_EQ(0, extent_map_init(&m, 30, 0));
  Alloc(10);
  EXPECT_FALSE(extent_free(&m, 10, 10)) << "was free";
  EXPECT_FALSE(extent_free(&m, 5, 10)) << "half free";
  EXPECT_FALSE(extent_free(&m, 25, 10)) << "outside";
  EXPECT_TRUE(extent_free(&m, 0, 10));
  EXPECT_FALSE(extent_free(&m, 0, 10)) << "twice";
}
TEST_F(Extent, NoExtentCrossesABarrier)
{
  ASSERT_EQ(0, extent_map_init(&m, 25, 10));
  EXPECT_EQ(0u, Alloc(6));
  EXPECT_EQ(10u, Alloc(6));
  EXPECT_EQ(UINT64_MAX, Alloc(6)) << "the last piece is 5 long";
  EXPECT_EQ(20u, Alloc(5));
  EXPECT_EQ(6u, Alloc(4));
  EXPECT_TRUE(extent_free(&m, 6, 4));
  EXPECT_TRUE(extent_free(&m, 10, 6));
  EXPECT_EQ(UINT64_MAX, Alloc(11));
  uint64_t off;
  EXPECT_EQ(-EINVAL, extent_alloc(&m, 11, &off));
  EXPECT_EQ(-EINVAL, extent_reserve(&m, 8, 4));
}
TEST_F(Extent, ReserveTakesExactlyWhatIsFree)
{
  ASSERT_EQ(0, extent_map_init(&m, 30, 0));
  EXPECT_EQ(0, extent_reserve(&m, 10, 5));
  EXPECT_EQ(-EBUSY, extent_reserve(&m, 10, 5));
  EXPECT_EQ(-EBUSY, extent_reserve(&m, 14, 2));
  EXPECT_EQ(-EBUSY, extent_reserve(&m, 8, 3));
  EXPECT_EQ(-EINVAL, extent_reserve(&m, 29, 2));
  EXPECT_EQ(-EINVAL, extent_reserve(&m, UINT64_MAX, 2));
  EXPECT_EQ(-EINVAL, extent_reserve(&m, 0, 0));
  EXPECT_EQ(0u, Alloc(10));
  EXPECT_EQ(15u, Alloc(15));
  EXPECT_EQ(UINT64_MAX, Alloc(1));
}
TEST_F(Extent, RandomUseNeverOverlapsAndComesBackWhole)
{
  for (uint64_t barrier : {uint64_t{0}, uint64_t{64}}) {
    extent_map_deinit(&m);
    ASSERT_EQ(0, extent_map_init(&m, 1000, barrier));
    std::mt19937 rnd(1);
    std::vector<std::pair<uint64_t, uint64_t>> live;
    std::vector<bool> taken(1000);
    for (int i = 0; i < 20000; i++) {
      if (rnd() % 2) {
        uint64_t n = 1 + rnd() % 40, off = Alloc(n);
        if (off == UINT64_MAX)
          continue;
        for (uint64_t k = off; k < off + n; k++) {
          ASSERT_FALSE(taken[k]);
          taken[k] = true;
        }
        if (barrier) {
          ASSERT_EQ(off / barrier, (off + n - 1) / barrier);
        }
        live.emplace_back(off, n);
      } else if (!live.empty()) {
        size_t k = rnd() % live.size();
        ASSERT_TRUE(extent_free(&m, live[k].first, live[k].second));
        for (uint64_t j = 0; j < live[k].second; j++)
          taken[live[k].first + j] = false;
        live[k] = live.back();
        live.pop_back();
      }
    }
    for (auto &l : live)
      ASSERT_TRUE(extent_free(&m, l.first, l.second));
    EXPECT_EQ(0u, m.used);
    EXPECT_EQ(barrier ? 16u : 1u, m.n);
  }
}
