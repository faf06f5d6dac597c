/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <set>
#include <string>

#include <dray/types.h>

namespace {
TEST(Names, EveryReasonHasAWordOfItsOwn)
{
  std::set<std::string> seen;
  unsigned known = 0;
  for (unsigned r = 0; r < DRAY_REASON_COUNT + 10; r++) {
    std::string w = dray_reason_name(r);
    if (w == "?")
      continue;
    known++;
    EXPECT_TRUE(seen.insert(w).second) << w;
  }
  EXPECT_EQ(known, 53u) << "a reason was added or lost: update this number and POLICY's list together";
}
TEST(Names, ZeroIsNoWord)
{
  EXPECT_STREQ(dray_reason_name(0), "?");
  EXPECT_STREQ(dray_op_name(0), "?");
  EXPECT_STREQ(dray_status_name(0), "?");
  EXPECT_STREQ(dray_path_name(0), "?");
}
TEST(Names, TiersGoBothWays)
{
  for (unsigned t = 1; t < DRAY_TIER_COUNT; t++)
    EXPECT_EQ(dray_tier_by_name(dray_tier_name(t)), t);
  EXPECT_EQ(dray_tier_by_name("any"), 0u);
  EXPECT_EQ(dray_tier_by_name("DRAM"), 0u);
  EXPECT_EQ(dray_tier_by_name(nullptr), 0u);
}
}  // namespace
