/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <vector>

extern "C" {
#include <dray/types.h>

#include "base/copy.h"
#include "base/copy_measure.h"
#include "base/heat.h"
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

TEST(Copy, EveryMethodCopiesExactly)
{
  for (auto m : {COPY_BY_MEMCPY, COPY_BY_VECTOR, COPY_BY_MOVSB, COPY_BY_STREAM})
    Exact(
        [m](void *d, const void *s, size_t n) {
          copy_by(m, d, s, n, nullptr);
          stream_fence();
        },
        Sizes());
}
TEST(Copy, AHintForTheNextBlockIsNeverTouched)
{
  // addresses that would fault
  for (uintptr_t bad : {uintptr_t{16}, uintptr_t{0xdead0000dead0000}})
    Exact([bad](void *d, const void *s, size_t n) { copy_by(COPY_BY_STREAM, d, s, n, reinterpret_cast<void *>(bad)); },
          {4096, 65536});
}
TEST(Copy, RunCopiesExactlyWithAnyFlags)
{
  struct copy_plan movsb = copy_plan_default;
  movsb.movsb_min = 100;
  movsb.small = COPY_BY_MEMCPY;
  for (auto *plan : {&copy_plan_default, const_cast<const struct copy_plan *>(&movsb)})
    for (unsigned flags = 0; flags < 16; flags++)
      Exact(
          [=](void *d, const void *s, size_t n) {
            copy_run(plan, d, s, n, nullptr, flags);
            stream_fence();
          },
          {0, 1, 99, 100, 4095, 4096, 65537});
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

namespace {
struct copy_plan Plan()
{
  struct copy_plan p = copy_plan_default;
  p.stream_min = 4096;
  p.hot_stream_min = 1 << 20;
  p.movsb_min = 512;
  p.soon_max = 64 << 10;
  p.small = COPY_BY_MEMCPY;
  return p;
}
}  // namespace

TEST(CopyPlan, SizeHeatAndHintChooseTheMethod)
{
  if (!stream_available())
    GTEST_SKIP() << "no non-temporal stores on this CPU";
  auto p = Plan();
  const struct {
    size_t n;
    unsigned flags;
    enum copy_method want;
  } rows[] = {
      {511, 0, COPY_BY_MEMCPY},
      {512, 0, COPY_BY_MOVSB},
      {4095, 0, COPY_BY_MOVSB},
      {4096, 0, COPY_BY_STREAM},
      {4096, COPY_HOT, COPY_BY_MOVSB},
      {(1 << 20) - 1, COPY_HOT, COPY_BY_MOVSB},
      {1 << 20, COPY_HOT, COPY_BY_STREAM},
      {64 << 10, COPY_READ_SOON, COPY_BY_MOVSB},
      {(64 << 10) + 1, COPY_READ_SOON, COPY_BY_STREAM},
      {(64 << 10) + 1, COPY_READ_SOON | COPY_HOT, COPY_BY_MOVSB},
      {2 << 20, COPY_READ_SOON | COPY_HOT, COPY_BY_STREAM},
      {4096, COPY_FRAGILE, COPY_BY_STREAM},
  };
  for (auto &r : rows)
    EXPECT_EQ(r.want, copy_choose(&p, r.n, r.flags)) << r.n << " " << r.flags;
}
TEST(CopyPlan, FragileMemoryNeverMeetsAStringInstruction)
{
  auto p = Plan();
  for (size_t n : {1, 100, 600, 4000, 5000, 1 << 20, 4 << 20})
    for (unsigned flags = 0; flags < 8; flags++) {
      auto m = copy_choose(&p, n, flags | COPY_FRAGILE);
      EXPECT_TRUE(m == COPY_BY_VECTOR || m == COPY_BY_STREAM) << n << " " << flags << copy_method_name(m);
    }
}
TEST(CopyPlan, RunSaysWhatItDid)
{
  std::vector<uint8_t> a(8192), b(8192);
  const uint8_t nt = stream_available() ? DRAY_PATH_CPU_NT : DRAY_PATH_CPU;
  EXPECT_EQ(DRAY_PATH_CPU, copy_run(&copy_plan_default, a.data(), b.data(), 4095, nullptr, 0));
  EXPECT_EQ(nt, copy_run(&copy_plan_default, a.data(), b.data(), 4096, nullptr, 0));
  EXPECT_EQ(DRAY_PATH_CPU, copy_run(&copy_plan_default, a.data(), b.data(), 8192, nullptr, COPY_READ_SOON));
}
TEST(CopyPlan, EachWrongFieldIsNamed)
{
  EXPECT_EQ(nullptr, copy_plan_wrong(&copy_plan_default));
  auto says = [](struct copy_plan p, const char *what) {
    const char *w = copy_plan_wrong(&p);
    return w && strstr(w, what);
  };
  auto p = Plan();
  p.stream_min = COPY_NEVER + 1;
  EXPECT_TRUE(says(p, "stream_min_bytes"));
  p = Plan();
  p.hot_stream_min = UINT64_MAX;
  EXPECT_TRUE(says(p, "hot_stream_min_bytes"));
  p = Plan();
  p.movsb_min = COPY_NEVER + 1;
  EXPECT_TRUE(says(p, "movsb_min_bytes"));
  p = Plan();
  p.soon_max = UINT64_MAX;
  EXPECT_TRUE(says(p, "soon_max_bytes"));
  p = Plan();
  p.hot_bytes = (1u << 30) + 1;
  EXPECT_TRUE(says(p, "hot_bytes"));
  p = Plan();
  p.small = COPY_BY_MOVSB;
  EXPECT_TRUE(says(p, "small"));
}

TEST(CopyMeasure, GivesAPlanThatHoldsOrSaysWhyNot)
{
  struct copy_plan p = {};
  uint64_t ns = 0;
  int r = copy_measure(300000000, &p, &ns);
  if (r < 0) {
    EXPECT_TRUE(r == -ENOTSUP || r == -ETIME) << r;
    EXPECT_EQ(0, p.small) << "written only on success";
    return;
  }
  EXPECT_EQ(nullptr, copy_plan_wrong(&p));
  EXPECT_GT(p.cold_mbps, 0u);
  EXPECT_GT(p.hot_bytes, 0u);
}
TEST(CopyMeasure, NoTimeIsNoPlan)
{
  struct copy_plan p = {};
  uint64_t ns;
  int r = copy_measure(0, &p, &ns);
  EXPECT_TRUE(r == -ETIME || r == -ENOTSUP) << r;
}

TEST(Heat, SecondTimeIsHotWhenBothSidesAreTheSame)
{
  struct copy_heat h = {};
  char *a = reinterpret_cast<char *>(0x100000), *b = reinterpret_cast<char *>(0x900000);
  EXPECT_FALSE(copy_heat_note(&h, a, b, 16384, 1 << 20));
  EXPECT_TRUE(copy_heat_note(&h, a, b, 16384, 1 << 20));
  EXPECT_TRUE(copy_heat_note(&h, b, a, 16384, 1 << 20)) << "the other way round";
  EXPECT_FALSE(copy_heat_note(&h, a, b + 65536, 16384, 1 << 20)) << "one cold side makes it cold";
}
TEST(Heat, CoolsDownByTheBytesInBetween)
{
  struct copy_heat h = {};
  char *a = reinterpret_cast<char *>(0x100000), *b = reinterpret_cast<char *>(0x900000);
  copy_heat_note(&h, a, b, 16384, 1 << 20);
  copy_heat_note(&h, reinterpret_cast<char *>(0x5000000), reinterpret_cast<char *>(0x6000000), 2 << 20, 1 << 20);
  EXPECT_FALSE(copy_heat_note(&h, a, b, 16384, 1 << 20));
  EXPECT_TRUE(copy_heat_note(&h, a, b, 16384, 1 << 20));
}
TEST(Heat, LongerThanHalfTheCacheIsNeverHot)
{
  struct copy_heat h = {};
  char *a = reinterpret_cast<char *>(0x100000), *b = reinterpret_cast<char *>(0x9000000);
  for (int i = 0; i < 3; i++)
    EXPECT_FALSE(copy_heat_note(&h, a, b, (1 << 19) + 1, 1 << 20));
}
TEST(Heat, ManyColdBlocksStayCold)
{
  struct copy_heat h = {};
  for (int round = 0; round < 2; round++)
    for (uintptr_t i = 1; i <= 4096; i++)
      ASSERT_FALSE(copy_heat_note(&h, reinterpret_cast<void *>(i << 14), reinterpret_cast<void *>((i << 14) + (1ull << 40)),
                                  16384, 1 << 20))
          << i;
}
