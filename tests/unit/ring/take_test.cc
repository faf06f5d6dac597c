/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <cstring>

#include <dray/dray.h>

extern "C" {
#include "ring/take.h"
}

namespace {
struct dray_sqe valid(uint8_t op)
{
  struct dray_sqe s;
  memset(&s, 0, sizeof s);
  s.op = op;
  s.ver = 1;
  if (op == DRAY_PUT || op == DRAY_GET || op == DRAY_COPY || op == DRAY_ALLOC)
    s.len = 4096;
  if (op == DRAY_MOVE)
    s.tier = DRAY_TIER_DISK;
  return s;
}

TEST(Take, EveryOpHasAValidForm)
{
  for (uint8_t op = 1; op < DRAY_OP_COUNT; op++) {
    struct dray_sqe s = valid(op);
    EXPECT_EQ(take_check(&s), (unsigned)DRAY_REASON_OK) << int(op);
  }
}

TEST(Take, UnknownOpsAreRefused)
{
  for (unsigned op : {0u, (unsigned)DRAY_OP_COUNT, 100u, 255u}) {
    struct dray_sqe s = valid(DRAY_NOP);
    s.op = (uint8_t)op;
    EXPECT_EQ(take_check(&s), (unsigned)DRAY_BAD_OP) << op;
  }
}

TEST(Take, OtherVersionsAreRefused)
{
  for (unsigned v : {0u, 2u, 255u}) {
    struct dray_sqe s = valid(DRAY_NOP);
    s.ver = (uint8_t)v;
    EXPECT_EQ(take_check(&s), (unsigned)DRAY_BAD_RESERVED);
  }
}

TEST(Take, UnknownFlagBitsAreRefusedOnEveryOp)
{
  for (uint8_t op = 1; op < DRAY_OP_COUNT; op++)
    for (int bit = 8; bit < 16; bit++) {
      struct dray_sqe s = valid(op);
      s.flags = (uint16_t)(1u << bit);
      EXPECT_EQ(take_check(&s), (unsigned)DRAY_BAD_FLAG) << int(op) << " bit " << bit;
    }
}

TEST(Take, FieldsAnOpDoesNotUseMustBeZero)
{
  /* for each op and each byte: a 1 there is either accepted, or has a reason; NOP accepts none but cookie and class */
  for (size_t i = 0; i < sizeof(struct dray_sqe); i++) {
    struct dray_sqe s = valid(DRAY_NOP);
    reinterpret_cast<uint8_t *>(&s)[i] ^= 1;
    bool free_field = (i >= 8 && i < 16) || (i >= 52 && i < 56) || i == 7 || i == 2; /* cookie, deadline, class, LINK */
    unsigned r = take_check(&s);
    if (i == 0)
      EXPECT_NE(r, (unsigned)DRAY_REASON_OK + 1000);
    else if (free_field)
      EXPECT_EQ(r, (unsigned)DRAY_REASON_OK) << "byte " << i;
    else
      EXPECT_NE(r, (unsigned)DRAY_REASON_OK) << "byte " << i;
  }
}

TEST(Take, LengthZeroIsRefusedEverywhereAlike)
{
  for (uint8_t op : {DRAY_PUT, DRAY_GET, DRAY_COPY, DRAY_ALLOC}) {
    struct dray_sqe s = valid(op);
    s.len = 0;
    EXPECT_EQ(take_check(&s), (unsigned)DRAY_ZERO_LENGTH) << int(op);
    s.layout = op == DRAY_ALLOC ? 0 : 1;
    EXPECT_EQ(take_check(&s), (unsigned)DRAY_ZERO_LENGTH) << int(op);
  }
  for (uint8_t op : {DRAY_PUT, DRAY_GET, DRAY_MAP, DRAY_UNMAP, DRAY_MOVE, DRAY_DROP, DRAY_STAT}) {
    struct dray_sqe s = valid(op);
    s.flags = DRAY_BATCH;
    s.len = 0;
    EXPECT_EQ(take_check(&s), (unsigned)DRAY_ZERO_LENGTH) << int(op);
    s.len = DRAY_BATCH_MAX;
    EXPECT_EQ(take_check(&s), (unsigned)DRAY_REASON_OK) << int(op);
    s.len = DRAY_BATCH_MAX + 1;
    EXPECT_EQ(take_check(&s), (unsigned)DRAY_TOO_LARGE) << int(op);
  }
}

TEST(Take, OffsetPlusLengthMustNotOverflow)
{
  struct dray_sqe s = valid(DRAY_PUT);
  s.off = UINT64_MAX;
  s.len = 1;
  EXPECT_EQ(take_check(&s), (unsigned)DRAY_OUT_OF_RANGE);
  s.off = UINT64_MAX - 1;
  EXPECT_EQ(take_check(&s), (unsigned)DRAY_REASON_OK) << "ends exactly at the last byte: the region decides";
}

TEST(Take, TiersPeersAndClassesOutOfRange)
{
  struct dray_sqe s = valid(DRAY_PUT);
  s.tier = DRAY_TIER_COUNT;
  EXPECT_EQ(take_check(&s), (unsigned)DRAY_BAD_TIER);
  s = valid(DRAY_PUT);
  s.klass = 3;
  EXPECT_EQ(take_check(&s), (unsigned)DRAY_BAD_FLAG);
  s = valid(DRAY_PUT);
  s.peer = 1;
  EXPECT_EQ(take_check(&s), (unsigned)DRAY_PEER_UNREACHABLE);
  s = valid(DRAY_NOP);
  s.peer = 1;
  EXPECT_EQ(take_check(&s), (unsigned)DRAY_BAD_PEER);
  s = valid(DRAY_MOVE);
  s.tier = 0;
  EXPECT_EQ(take_check(&s), (unsigned)DRAY_BAD_TIER);
  s = valid(DRAY_MOVE);
  s.arg = DRAY_TIER_COUNT;
  EXPECT_EQ(take_check(&s), (unsigned)DRAY_BAD_TIER);
  s = valid(DRAY_NOP);
  s.tier = 1;
  EXPECT_EQ(take_check(&s), (unsigned)DRAY_BAD_TIER);
}

TEST(Take, ItemTableIsOnRows)
{
  struct dray_sqe s = valid(DRAY_PUT);
  s.flags = DRAY_BATCH;
  s.off = 31;
  EXPECT_EQ(take_check(&s), (unsigned)DRAY_OUT_OF_RANGE);
  s.off = 32;
  EXPECT_EQ(take_check(&s), (unsigned)DRAY_REASON_OK);
  s.key[3] = 1;
  EXPECT_EQ(take_check(&s), (unsigned)DRAY_BAD_RESERVED) << "a BATCH has its keys in the items";
}

TEST(Take, ItemsAreCheckedOneByOne)
{
  struct dray_item it;
  memset(&it, 0, sizeof it);
  EXPECT_EQ(take_item_check(DRAY_PUT, false, &it), (unsigned)DRAY_ZERO_LENGTH);
  it.len = 1;
  it.off = UINT64_MAX;
  EXPECT_EQ(take_item_check(DRAY_PUT, false, &it), (unsigned)DRAY_OUT_OF_RANGE);
  it.off = 0;
  EXPECT_EQ(take_item_check(DRAY_PUT, false, &it), (unsigned)DRAY_REASON_OK);
  EXPECT_EQ(take_item_check(DRAY_MAP, false, &it), (unsigned)DRAY_BAD_RESERVED);
  it.len = 0;
  it.zero = 1;
  EXPECT_EQ(take_item_check(DRAY_MAP, false, &it), (unsigned)DRAY_BAD_RESERVED);
  memset(&it, 0, sizeof it);
  it.off = 77;
  EXPECT_EQ(take_item_check(DRAY_UNMAP, false, &it), (unsigned)DRAY_REASON_OK);
  it.key[0] = 1;
  EXPECT_EQ(take_item_check(DRAY_UNMAP, false, &it), (unsigned)DRAY_BAD_RESERVED);
}

TEST(Take, PublishRecordIsChecked)
{
  struct dray_item arena[2];
  struct dray_publish p, out;
  memset(&p, 0, sizeof p);
  auto check = [&] {
    memcpy(&arena[1], &p, sizeof p);
    return take_publish(arena, 1, &out);
  };
  EXPECT_EQ(check(), (unsigned)DRAY_BAD_FLAG) << "all zero must not mean anything";
  p.scope = DRAY_SCOPE_FLEET;
  p.taint = DRAY_TRUSTED;
  EXPECT_EQ(check(), (unsigned)DRAY_REASON_OK);
  p.scope = DRAY_SCOPE_FLEET + 1;
  EXPECT_EQ(check(), (unsigned)DRAY_BAD_FLAG);
  p.scope = DRAY_SCOPE_TENANT;
  p.zero1[2] = 1;
  EXPECT_EQ(check(), (unsigned)DRAY_BAD_RESERVED);
}
}  // namespace

TEST(Take, QuarantineByLeaseNeedsAUnitALengthAndAKeyThatIsALease)
{
  struct dray_sqe s = {};
  dray_prep_quarantine_lease(&s, 7, 4096, 1, 4096);
  s.ver = 1;
  EXPECT_EQ(12u, s.arg);
  EXPECT_EQ((unsigned)DRAY_REASON_OK, take_check(&s));
  struct dray_sqe t = s;
  t.len = 0;
  EXPECT_EQ((unsigned)DRAY_ZERO_LENGTH, take_check(&t));
  for (uint32_t arg : {1u, 5u, 31u, 64u, UINT32_MAX}) {
    t = s;
    t.arg = arg;
    EXPECT_EQ((unsigned)DRAY_OUT_OF_RANGE, take_check(&t)) << arg;
  }
  for (uint32_t arg : {6u, 30u}) {
    t = s;
    t.arg = arg;
    EXPECT_EQ((unsigned)DRAY_REASON_OK, take_check(&t)) << arg;
  }
  t = s;
  t.key[15] = 1;
  EXPECT_EQ((unsigned)DRAY_BAD_RESERVED, take_check(&t));
  t = s;
  t.arg = 0;
  t.key[15] = 1;
  EXPECT_EQ((unsigned)DRAY_REASON_OK, take_check(&t)) << "a cell's key is any 16 bytes";
  t = s;
  t.tier = DRAY_TIER_DRAM;
  EXPECT_EQ((unsigned)DRAY_BAD_TIER, take_check(&t));
}
