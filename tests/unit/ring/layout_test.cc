/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <cstring>

extern "C" {
#include "ring/layout.h"
}

namespace {
TEST(Layout, EveryWordAndAreaIsApart)
{
  for (uint32_t n : {1u, 2u, 63u, 64u, 256u, 1000u, DRAY_ENTRIES_MAX})
    for (uint32_t items : {0u, 1u, 8192u, DRAY_ITEMS_MAX}) {
      struct dray_geometry g;
      ASSERT_EQ(layout_compute(n, items, &g), 0);
      EXPECT_GE(g.sq_slots, n + DRAY_CANCEL_RESERVE + 1);
      EXPECT_GE(g.cq_slots, n + DRAY_CANCEL_RESERVE + DRAY_NOTICE_KINDS + 1) << "the CQ could overflow";
      EXPECT_EQ(g.sq_slots & (g.sq_slots - 1), 0u);
      EXPECT_GE(g.sq_off, sizeof(struct dray_u_head));
      EXPECT_GE(g.arena_off, g.sq_off + g.sq_slots * 64);
      EXPECT_GE(g.u_size, g.arena_off + uint64_t(items) * 32);
      EXPECT_GE(g.cq_off, sizeof(struct dray_m_head));
      EXPECT_GE(g.results_off, g.cq_off + g.cq_slots * 64);
      EXPECT_GE(g.objects_off, g.results_off + uint64_t(items) * 32);
      EXPECT_GE(g.m_size, g.objects_off + uint64_t(g.objects) * 16);
      for (uint64_t off : {(uint64_t)g.sq_off, (uint64_t)g.arena_off, (uint64_t)g.cq_off, (uint64_t)g.results_off, g.u_size, g.m_size})
        EXPECT_EQ(off % 4096, 0u);
    }
}

TEST(Layout, OutOfRangeIsRefused)
{
  struct dray_geometry g;
  EXPECT_EQ(layout_compute(0, 1, &g), -EINVAL);
  EXPECT_EQ(layout_compute(DRAY_ENTRIES_MAX + 1, 1, &g), -EINVAL);
  EXPECT_EQ(layout_compute(UINT32_MAX, 1, &g), -EINVAL);
  EXPECT_EQ(layout_compute(1, DRAY_ITEMS_MAX + 1, &g), -EINVAL);
  EXPECT_EQ(layout_compute(1, UINT32_MAX, &g), -EINVAL);
}

TEST(Layout, AnyChangedNumberIsNoticed)
{
  struct dray_geometry g, out;
  ASSERT_EQ(layout_compute(64, 128, &g), 0);
  ASSERT_EQ(layout_verify(&g, &out), 0);
  for (size_t i = 0; i < sizeof g; i++) {
    struct dray_geometry bad = g;
    reinterpret_cast<uint8_t *>(&bad)[i] ^= 1;
    EXPECT_EQ(layout_verify(&bad, &out), -EPROTO) << "byte " << i;
  }
}
}  // namespace
