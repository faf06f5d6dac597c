/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

extern "C" {
#include <dray/types.h>

#include "base/copy.h"
#include "base/stream.h"
#include "include/priv/order.h"
}

namespace {
std::vector<uint8_t> Pattern(size_t n)
{
  std::vector<uint8_t> v(n);
  uint32_t s = 7;
  for (auto &b : v)
    b = static_cast<uint8_t>((s = s * 1664525u + 1013904223u) >> 24);
  return v;
}

// Copies with f to every alignment and checks the bytes around.
template <class F> void Exact(F f, const std::vector<size_t> &sizes)
{
  auto src = Pattern(1 << 18);
  for (size_t n : sizes)
    for (size_t d : {0, 1, 31, 63, 64})
      for (size_t s : {0, 1, 17}) {
        std::vector<uint8_t> dst(n + 256, 0xee);
        f(dst.data() + 64 + d, src.data() + s, n);
        ASSERT_EQ(0, memcmp(dst.data() + 64 + d, src.data() + s, n)) << n << " " << d << " " << s;
        for (size_t i = 0; i < 64 + d; i++)
          ASSERT_EQ(0xee, dst[i]);
        for (size_t i = 64 + d + n; i < dst.size(); i++)
          ASSERT_EQ(0xee, dst[i]) << n << " " << d;
      }
}
std::vector<size_t> Sizes()
{
  std::vector<size_t> v;
  for (size_t n = 0; n < 700; n += n < 130 ? 1 : 13)
    v.push_back(n);
  for (size_t n : {4095, 4096, 4097, 16384, 65537, 200000})
    v.push_back(n);
  return v;
}
}  // namespace

TEST(Copy, CachedCopiesExactly)
{
  Exact([](void *d, const void *s, size_t n) { copy_cached(d, s, n); }, Sizes());
}
TEST(Copy, StreamCopiesExactly)
{
  Exact([](void *d, const void *s, size_t n) { copy_stream(d, s, n, nullptr); }, Sizes());
}
TEST(Copy, AHintForTheNextBlockIsNeverTouched)
{
  // an address that would fault
  Exact([](void *d, const void *s, size_t n) { copy_stream(d, s, n, reinterpret_cast<void *>(16)); }, {4096, 65536});
}
TEST(Copy, RunCopiesExactlyWithAnyFlags)
{
  for (unsigned flags : {0u, unsigned{COPY_READ_SOON}, unsigned{COPY_UNFENCED}})
    Exact(
        [flags](void *d, const void *s, size_t n) {
          copy_run(d, s, n, flags);
          stream_fence();
        },
        Sizes());
}
TEST(Copy, ZeroZeroesExactly)
{
  for (size_t n : Sizes())
    for (size_t d : {0, 1, 63}) {
      std::vector<uint8_t> v(n + 128, 0xee);
      copy_zero(v.data() + d, n);
      for (size_t i = 0; i < v.size(); i++)
        ASSERT_EQ(i >= d && i < d + n ? 0 : 0xee, v[i]) << n << " " << d;
    }
}
TEST(Copy, SizeAndHintChooseThePath)
{
  std::vector<uint8_t> a(8 << 20), b(8 << 20);
  const uint8_t nt = stream_available() ? DRAY_PATH_CPU_NT : DRAY_PATH_CPU;
  EXPECT_EQ(DRAY_PATH_CPU, copy_run(a.data(), b.data(), 4095, 0));
  EXPECT_EQ(nt, copy_run(a.data(), b.data(), 4096, 0));
  EXPECT_EQ(DRAY_PATH_CPU, copy_run(a.data(), b.data(), 1 << 20, COPY_READ_SOON));
  EXPECT_EQ(nt, copy_run(a.data(), b.data(), 8 << 20, COPY_READ_SOON)) << "would not stay in the cache";
}
