/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

extern "C" {
#include "base/copy_crc.h"
#include "base/crc.h"
#include "include/priv/order.h"
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

namespace {
std::vector<unsigned char> Bytes(size_t n, uint32_t s = 1)
{
  std::vector<unsigned char> v(n);
  for (auto &b : v)
    b = static_cast<unsigned char>((s = s * 1664525u + 1013904223u) >> 24);
  return v;
}
}  // namespace

TEST(Crc, CombinesAtEverySplit)
{
  auto v = Bytes(3000);
  const uint32_t all = crc32c_table(0, v.data(), v.size());
  for (size_t cut = 0; cut <= v.size(); cut++)
    ASSERT_EQ(all, crc32c_combine(crc32c_table(0, v.data(), cut), crc32c_table(0, v.data() + cut, v.size() - cut),
                                  v.size() - cut))
        << cut;
}
TEST(Crc, PartsCombineInAnyOrder)
{
  auto v = Bytes(100003);
  const size_t cuts[] = {0, 1, 17, 4096, 4097, 65536, 99999, v.size()};
  const int order[] = {3, 0, 6, 1, 5, 2, 4};
  uint32_t sum = 0;
  for (int k : order)
    sum ^= crc32c_shift(crc32c(0, v.data() + cuts[k], cuts[k + 1] - cuts[k]), v.size() - cuts[k + 1]);
  EXPECT_EQ(crc32c_table(0, v.data(), v.size()), sum);
}
TEST(Crc, ShiftIsThatManyZeroes)
{
  // crc of the zeroes themselves taken out again
  for (size_t n : {1, 63, 64, 1000, 1 << 20}) {
    std::vector<unsigned char> v(5 + n, 0);
    memcpy(v.data(), "hello", 5);
    const uint32_t zeroes = crc32c(0, v.data() + 5, n);
    EXPECT_EQ(crc32c(0, v.data(), v.size()), crc32c_shift(crc32c(0, v.data(), 5), n) ^ zeroes) << n;
  }
  for (unsigned k = 1; k < 64; k++) // twice as far is twice as far, also beyond what any test could hold
    EXPECT_EQ(crc32c_shift(crc32c_shift(77, 1ull << (k - 1)), 1ull << (k - 1)), crc32c_shift(77, 1ull << k)) << k;
  const uint64_t far = (1ull << 40) + 12345;
  EXPECT_EQ(crc32c_shift(77, far), crc32c_shift(crc32c_shift(77, 1ull << 40), 12345));
}

TEST(CopyCrc, CopiesExactlyAndItsCrcIsTheTables)
{
  auto src = Bytes(300000, 9);
  std::vector<size_t> sizes = {0, 1, 7, 8, 9, 63, 64, 65, 127, 300, 959, 960, 1023, 1024, 1025, 4031, 4032, 4096, 16319, 16320,
                               16384, 16385, 65536, 262144, 262145};
  for (bool stream : {false, true})
    for (size_t n : sizes)
      for (size_t d : {0, 1, 8, 31, 63})
        for (size_t s : {0, 1, 17}) {
          std::vector<unsigned char> dst(n + 256, 0xee);
          const uint32_t crc = copy_crc(dst.data() + 64 + d, src.data() + s, n, 5, stream, src.data());
          stream_fence();
          ASSERT_EQ(crc32c_table(5, src.data() + s, n), crc) << n << " " << d << " " << s;
          ASSERT_EQ(0, memcmp(dst.data() + 64 + d, src.data() + s, n)) << n << " " << d << " " << s;
          for (size_t i = 0; i < 64 + d; i++)
            ASSERT_EQ(0xee, dst[i]);
          for (size_t i = 64 + d + n; i < dst.size(); i++)
            ASSERT_EQ(0xee, dst[i]) << n << " " << d;
        }
}
TEST(CopyCrc, PlainAgrees)
{
  auto src = Bytes(10000, 3);
  for (size_t n : {0, 1, 2047, 2048, 2049, 10000}) {
    std::vector<unsigned char> dst(n + 1, 0xee);
    EXPECT_EQ(crc32c_table(9, src.data(), n), copy_crc_plain(dst.data(), src.data(), n, 9));
    EXPECT_EQ(0, memcmp(dst.data(), src.data(), n));
    EXPECT_EQ(0xee, dst[n]);
  }
}
TEST(CopyCrc, IsOfTheBytesStoredHoweverTheSourceChanges)
{
  // somebody rewrites the source all the while: copy and CRC must still be of one reading
  const size_t n = 65536 + 37;
  auto *src = static_cast<volatile unsigned char *>(malloc(n));
  for (size_t i = 0; i < n; i++)
    src[i] = 0;
  uint32_t stop = 0;
  std::thread writer([&] {
    for (unsigned char v = 1; !stop_see(&stop); v++)
      for (size_t i = 0; i < n; i += 8)
        src[i] = v;
  });
  std::vector<unsigned char> dst(n);
  int changed = 0;
  uint32_t last = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (int i = 0; i < 2000 || (changed < 3 && std::chrono::steady_clock::now() < end); i++) {
    const uint32_t crc = copy_crc(dst.data(), const_cast<const unsigned char *>(src), n, 0, i % 2, nullptr);
    stream_fence();
    const uint32_t want = crc32c(0, dst.data(), n);
    if (crc != want) {
      ADD_FAILURE() << i;
      break;
    }
    changed += crc != last;
    last = crc;
  }
  stop_raise(&stop);
  writer.join();
  free(const_cast<unsigned char *>(src));
  if (changed < 2)
    GTEST_SKIP() << "the writer never ran in 10 s: nothing was shown";
}
