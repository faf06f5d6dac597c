/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

extern "C" {
#include "base/units.h"
}

namespace {
TEST(Units, BytesWithAndWithoutUnits)
{
  const struct {
    const char *text;
    uint64_t want;
  } good[] = {{"0", 0}, {"1", 1}, {"4096B", 4096}, {"64MiB", 64ull << 20}, {"64M", 64ull << 20}, {"1GB", 1000000000}, {"1.5GiB", 3ull << 29},
              {"2 KiB", 2048}, {"18446744073709551615", UINT64_MAX}, {"0.5k", 512}};
  for (auto &g : good) {
    uint64_t v = 77;
    EXPECT_EQ(units_bytes(g.text, &v), 0) << g.text;
    EXPECT_EQ(v, g.want) << g.text;
  }
}
TEST(Units, NonsenseIsRefusedAndTheOutputUntouched)
{
  for (const char *t : {"", "-1", "+1", " 1", "1x", "MiB", "1..5", "1.", ".5", "0x10", "1e3", "nan", "inf", "1MiB ", "99999999999999999999", "18446744073709551616",
                        "17179869184GiB", "16777216TiB", "--", "\xff"}) {
    uint64_t v = 77;
    EXPECT_LT(units_bytes(t, &v), 0) << t;
    EXPECT_EQ(v, 77u) << t;
  }
  uint64_t v = 77;
  EXPECT_EQ(units_bytes(nullptr, &v), -EINVAL);
}
TEST(Units, CountsStayInRange)
{
  uint64_t v;
  EXPECT_EQ(units_count("64", 1, 64, &v), 0);
  EXPECT_EQ(units_count("65", 1, 64, &v), -ERANGE);
  EXPECT_EQ(units_count("0", 1, 64, &v), -ERANGE);
  EXPECT_EQ(units_count("1.5", 1, 64, &v), -EINVAL);
  EXPECT_EQ(units_count("1k", 1, 64000, &v), -EINVAL);
}
TEST(Units, TimesAreNanoseconds)
{
  uint64_t v;
  EXPECT_EQ(units_time("250us", &v), 0);
  EXPECT_EQ(v, 250000u);
  EXPECT_EQ(units_time("1.5", &v), 0);
  EXPECT_EQ(v, 1500000000u);
  EXPECT_EQ(units_time("1h", &v), 0);
  EXPECT_EQ(v, 3600000000000u);
  EXPECT_EQ(units_time("7d", &v), 0);
  EXPECT_EQ(v, 604800000000000u);
  EXPECT_EQ(units_time("1y", &v), -EINVAL);
}
}  // namespace
