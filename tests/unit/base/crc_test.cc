/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <vector>

extern "C" {
#include "base/crc.h"
}

TEST(Crc, KnownAnswers)
{
  EXPECT_EQ(0xE3069283u, crc32c(0, "123456789", 9));
  EXPECT_EQ(0xE3069283u, crc32c_table(0, "123456789", 9));
  EXPECT_EQ(0u, crc32c(0, "", 0));
  std::vector<unsigned char> v(32, 0);  // RFC 3720 B.4
  EXPECT_EQ(0x8A9136AAu, crc32c(0, v.data(), 32));
  v.assign(32, 0xff);
  EXPECT_EQ(0x62A8AB43u, crc32c(0, v.data(), 32));
}

TEST(Crc, FastAndTableAgreeOnEveryLengthAndAlignment)
{
  std::vector<unsigned char> v(40000);
  uint32_t s = 1;
  for (auto &b : v)
    b = static_cast<unsigned char>((s = s * 1664525u + 1013904223u) >> 24);
  for (size_t n = 0; n < 1700; n++)
    for (size_t off : {0, 1, 7})
      ASSERT_EQ(crc32c_table(5, v.data() + off, n), crc32c(5, v.data() + off, n)) << n;
  for (size_t n : {6143, 6144, 6145, 12287, 12288, 20000, 39990})
    ASSERT_EQ(crc32c_table(0, v.data() + 3, n), crc32c(0, v.data() + 3, n)) << n;
}

TEST(Crc, GoesOnWhereItStopped)
{
  std::vector<unsigned char> v(30000, 0x5a);
  for (size_t cut : {0, 1, 100, 6144, 29999})
    EXPECT_EQ(crc32c(0, v.data(), v.size()), crc32c(crc32c(0, v.data(), cut), v.data() + cut, v.size() - cut));
}
