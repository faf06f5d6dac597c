/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that other programs are compiled against: they are only ever added to. */
#include <gtest/gtest.h>

#include <dray/ring_abi.h>

namespace {
#define AT(s, f, n) EXPECT_EQ(offsetof(struct s, f), (size_t)(n)) << #s "." #f
TEST(Layout, DirectiveIsWhatItWas)
{
  AT(dray_sqe, op, 0);
  AT(dray_sqe, ver, 1);
  AT(dray_sqe, flags, 2);
  AT(dray_sqe, region, 4);
  AT(dray_sqe, tier, 6);
  AT(dray_sqe, klass, 7);
  AT(dray_sqe, cookie, 8);
  AT(dray_sqe, key, 16);
  AT(dray_sqe, off, 32);
  AT(dray_sqe, len, 40);
  AT(dray_sqe, request, 48);
  AT(dray_sqe, deadline_us, 52);
  AT(dray_sqe, layout, 56);
  AT(dray_sqe, peer, 58);
  AT(dray_sqe, arg, 60);
}
TEST(Layout, CompletionIsWhatItWas)
{
  AT(dray_cqe, cookie, 0);
  AT(dray_cqe, type, 8);
  AT(dray_cqe, status, 9);
  AT(dray_cqe, reason, 10);
  AT(dray_cqe, path, 12);
  AT(dray_cqe, tier, 13);
  AT(dray_cqe, flags, 14);
  AT(dray_cqe, bytes, 16);
  AT(dray_cqe, object, 24);
  AT(dray_cqe, off, 32);
  AT(dray_cqe, slab, 40);
  AT(dray_cqe, detail, 44);
  AT(dray_cqe, queue_ns, 48);
  AT(dray_cqe, exec_ns, 52);
  AT(dray_cqe, sq_pos, 56);
  AT(dray_cqe, epoch, 60);
  AT(dray_cqe, failed, 62);
}
TEST(Layout, SharedWordsHaveLinesOfTheirOwn)
{
  AT(dray_u_head, sq_prod, 0);
  AT(dray_u_head, cq_cons, 128);
  AT(dray_u_head, sleep, 256);
  AT(dray_u_head, wake_at, 260);
  AT(dray_m_head, magic, 0);
  AT(dray_m_head, state, 8);
  AT(dray_m_head, epoch, 12);
  AT(dray_m_head, cq_prod, 128);
  AT(dray_m_head, sq_cons, 256);
  AT(dray_m_head, need_wakeup, 384);
  AT(dray_m_head, geo, 512);
}
TEST(Layout, ItemsAreWhatTheyWere)
{
  AT(dray_item, key, 0);
  AT(dray_item, off, 16);
  AT(dray_item, len, 24);
  AT(dray_item_result, object, 0);
  AT(dray_item_result, off, 8);
  AT(dray_item_result, bytes, 16);
  AT(dray_item_result, slab, 20);
  AT(dray_item_result, reason, 24);
  AT(dray_item_result, path, 26);
  AT(dray_item_result, tier, 27);
  AT(dray_item_result, detail, 28);
}
TEST(Layout, NumbersAreStable)
{
  EXPECT_EQ((int)DRAY_PUT, 3);
  EXPECT_EQ((int)DRAY_MAP, 7);
  EXPECT_EQ((int)DRAY_CANCEL, 16);
  EXPECT_EQ((int)DRAY_READ_SOON, 128);
  EXPECT_EQ((int)DRAY_TIER_CXL, 4);
  EXPECT_EQ((int)DRAY_OK, 1);
  EXPECT_EQ((int)DRAY_CANCELED, 5);
  EXPECT_EQ((int)DRAY_REASON_OK, 1);
  EXPECT_EQ((int)DRAY_NO_ROOM, 41);
  EXPECT_EQ((int)DRAY_ABSENT, 50);
  EXPECT_EQ((int)DRAY_ABORTED, 104);
  EXPECT_EQ((int)DRAY_PATH_PREAD, 10);
}
}  // namespace
