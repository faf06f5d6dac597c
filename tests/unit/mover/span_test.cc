/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <vector>

extern "C" {
#include "base/crc.h"
#include "mover/span.h"
}

namespace {
char region[1 << 20];

TEST(Span, FlatRangesEndExactlyAtTheRegion)
{
  struct span s;
  EXPECT_EQ(span_make(region, 4096, nullptr, 0, 4096, &s), (unsigned)DRAY_REASON_OK);
  EXPECT_EQ(span_make(region, 4096, nullptr, 4095, 1, &s), (unsigned)DRAY_REASON_OK);
  EXPECT_EQ(span_make(region, 4096, nullptr, 4096, 1, &s), (unsigned)DRAY_OUT_OF_RANGE);
  EXPECT_EQ(span_make(region, 4096, nullptr, 0, 4097, &s), (unsigned)DRAY_OUT_OF_RANGE);
  EXPECT_EQ(span_make(region, 4096, nullptr, UINT64_MAX, 2, &s), (unsigned)DRAY_OUT_OF_RANGE);
  EXPECT_EQ(span_make(region, 4096, nullptr, 1, UINT64_MAX, &s), (unsigned)DRAY_OUT_OF_RANGE);
  EXPECT_EQ(span_make(region, 4096, nullptr, 0, 0, &s), (unsigned)DRAY_ZERO_LENGTH);
}

TEST(Span, LayoutsThatCannotBeAreRefused)
{
  struct dray_layout l = {0, 8192, 4096, 4096, 2};
  EXPECT_EQ(span_layout_check(&l), (unsigned)DRAY_REASON_OK);
  l.segs = 0;
  EXPECT_EQ(span_layout_check(&l), (unsigned)DRAY_BAD_LAYOUT);
  l.segs = 4097;
  EXPECT_EQ(span_layout_check(&l), (unsigned)DRAY_BAD_LAYOUT);
  l.segs = 2;
  l.seg_bytes = 0;
  EXPECT_EQ(span_layout_check(&l), (unsigned)DRAY_BAD_LAYOUT);
  l.seg_bytes = 63;
  EXPECT_EQ(span_layout_check(&l), (unsigned)DRAY_BAD_LAYOUT);
  l.seg_bytes = 4097;
  EXPECT_EQ(span_layout_check(&l), (unsigned)DRAY_BAD_LAYOUT) << "segments lie on each other";
  l.seg_bytes = 4096;
  l.seg_stride = UINT64_MAX;
  EXPECT_EQ(span_layout_check(&l), (unsigned)DRAY_BAD_LAYOUT);
  l.seg_stride = 4096;
  l.base = UINT64_MAX - 100;
  EXPECT_EQ(span_layout_check(&l), (unsigned)DRAY_BAD_LAYOUT);
}

TEST(Span, BlocksOutsideTheRegionAreRefusedWithoutOverflow)
{
  struct dray_layout l = {0, 4096, 65536, 4096, 16}; /* 16 blocks in 1 MiB */
  struct span s;
  EXPECT_EQ(span_make(region, sizeof region, &l, 15, 65536, &s), (unsigned)DRAY_REASON_OK);
  EXPECT_EQ(span_make(region, sizeof region, &l, 16, 65536, &s), (unsigned)DRAY_OUT_OF_RANGE);
  EXPECT_EQ(span_make(region, sizeof region - 1, &l, 15, 65536, &s), (unsigned)DRAY_OUT_OF_RANGE);
  EXPECT_EQ(span_make(region, sizeof region - 1, &l, 15, 65535, &s), (unsigned)DRAY_REASON_OK) << "a part of the block";
  EXPECT_EQ(span_make(region, sizeof region, &l, 0, 65537, &s), (unsigned)DRAY_TOO_LARGE);
  for (uint64_t b : {UINT64_MAX, UINT64_MAX / 4096, UINT64_MAX / 4096 + 1, uint64_t(1) << 52})
    EXPECT_EQ(span_make(region, sizeof region, &l, b, 65536, &s), (unsigned)DRAY_OUT_OF_RANGE) << b;
}

TEST(Span, CutsCoverEveryByteOnceWhateverTheSteps)
{
  struct dray_layout l = {100, 1000, 5000, 777, 13};
  const uint64_t len = 13 * 777 - 5;
  struct span s;
  ASSERT_EQ(span_make(region, sizeof region, &l, 3, len, &s), (unsigned)DRAY_REASON_OK);
  for (uint64_t step : {1u, 7u, 776u, 777u, 778u, 5000u, 100000u})
    for (uint32_t max : {1u, 2u, 5u, 256u}) {
      std::vector<int> hits(sizeof region);
      uint64_t at = 0;
      while (at < len) {
        struct xfer_vec v[256];
        uint64_t n;
        uint32_t k = span_cut(&s, at, step, v, max, &n);
        ASSERT_GT(k, 0u);
        ASSERT_LE(n, step);
        uint64_t sum = 0;
        for (uint32_t i = 0; i < k; i++) {
          sum += v[i].len;
          for (uint64_t b = 0; b < v[i].len; b++)
            hits[(char *)v[i].base - region + b]++;
        }
        ASSERT_EQ(sum, n);
        at += n;
      }
      for (uint64_t i = 0, left = len; i < 13; i++)
        for (uint64_t b = 0; b < 777; b++) {
          int want = left ? 1 : 0;
          left -= left ? 1 : 0;
          ASSERT_EQ(hits[100 + 3000 + i * 5000 + b], want);
        }
    }
}

TEST(Span, NeighbouringSegmentsBecomeOnePiece)
{
  struct dray_layout l = {0, 65536, 4096, 4096, 16};
  struct span s;
  struct xfer_vec v[16];
  uint64_t n;
  ASSERT_EQ(span_make(region, sizeof region, &l, 0, 65536, &s), (unsigned)DRAY_REASON_OK);
  EXPECT_EQ(span_cut(&s, 0, 65536, v, 16, &n), 1u);
  EXPECT_EQ(n, 65536u);
}

TEST(Span, OverlapIsFoundAmongInterleavedSegments)
{
  struct dray_layout a = {0, 128, 256, 128, 64}, b = {128, 128, 256, 128, 64};
  struct span x, y, z;
  ASSERT_EQ(span_make(region, sizeof region, &a, 0, 64 * 128, &x), (unsigned)DRAY_REASON_OK);
  ASSERT_EQ(span_make(region, sizeof region, &b, 0, 64 * 128, &y), (unsigned)DRAY_REASON_OK);
  EXPECT_FALSE(span_overlap(&x, &y)) << "they interleave and share nothing";
  ASSERT_EQ(span_make(region, sizeof region, nullptr, 63 * 256 + 127, 1, &z), (unsigned)DRAY_REASON_OK);
  EXPECT_TRUE(span_overlap(&x, &z));
  EXPECT_TRUE(span_overlap(&z, &x));
  EXPECT_FALSE(span_overlap(&y, &z));
  EXPECT_TRUE(span_overlap(&x, &x));
}

TEST(Span, CrcOfScatteredBytesIsThatOfTheirConcatenation)
{
  struct dray_layout l = {0, 0, 1000, 300, 9};
  struct span s;
  std::vector<char> flat;
  for (size_t i = 0; i < sizeof region; i++)
    region[i] = (char)(i * 31 + i / 7);
  for (int i = 0; i < 9; i++)
    flat.insert(flat.end(), region + i * 1000, region + i * 1000 + 300);
  ASSERT_EQ(span_make(region, sizeof region, &l, 0, 2700, &s), (unsigned)DRAY_REASON_OK);
  uint32_t crc;
  ASSERT_EQ(span_crc(&s, 2700, &crc, nullptr), 0);
  EXPECT_EQ(crc, crc32c(0, flat.data(), flat.size()));
}
}  // namespace
