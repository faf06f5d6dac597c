/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <thread>

extern "C" {
#include "ring/region.h"
#include "ring/wire.h"
}

namespace {
struct Line {
  alignas(128) uint32_t v = 0;
};
/* Both halves over one memfd, with the consumer's slots mapped read-only. */
class Wire : public ::testing::Test {
 protected:
  void open(uint32_t slots, uint32_t start)
  {
    int fd = region_make("t", 4096 + slots * 64, false);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(wire_map(&out.w, fd, 0, slots, 1, start), 0);
    ASSERT_EQ(wire_map(&in.w, fd, 0, slots, 0, start), 0);
    close(fd);
    prod.v = cons.v = start;
    out.mine = &prod.v;
    out.theirs = &cons.v;
    in.theirs = &prod.v;
    in.mine = &cons.v;
  }
  ~Wire() override
  {
    wire_unmap(&out.w);
    wire_unmap(&in.w);
  }
  bool push(uint64_t v)
  {
    int err = 0;
    void *s = wire_out_slot(&out, &err);
    if (!s)
      return false;
    memcpy(s, &v, 8);
    return true;
  }
  struct wire_out out = {};
  struct wire_in in = {};
  Line prod, cons;
  uint8_t buf[64 * 64];
  uint64_t at(int i)
  {
    uint64_t v;
    memcpy(&v, buf + i * 64, 8);
    return v;
  }
};

TEST_F(Wire, NothingIsSeenBeforeCommit)
{
  open(8, 0);
  ASSERT_TRUE(push(1));
  EXPECT_EQ(wire_in_take(&in, buf, 8), 0);
  EXPECT_EQ(wire_out_commit(&out), 1u);
  EXPECT_EQ(wire_in_take(&in, buf, 8), 1);
  EXPECT_EQ(at(0), 1u);
}

TEST_F(Wire, HoldsCapacityAndNoMore)
{
  open(8, 0);
  for (int i = 0; i < 7; i++)
    EXPECT_TRUE(push(i));
  EXPECT_FALSE(push(7));
  EXPECT_EQ(wire_out_commit(&out), 7u);
  EXPECT_EQ(wire_in_take(&in, buf, 64), 7);
  EXPECT_FALSE(push(8)) << "taken is not released";
  wire_in_release(&in, 0);
  EXPECT_TRUE(push(8));
}

TEST_F(Wire, OrderSurvivesTheWrapOfTheIndex)
{
  open(16, UINT32_MAX - 20);
  uint64_t next = 0, seen = 0;
  for (int round = 0; round < 100; round++) {
    for (int i = 0; i < 11; i++)
      ASSERT_TRUE(push(next++));
    wire_out_commit(&out);
    for (int left = 11; left > 0;) {
      int n = wire_in_take(&in, buf, 4);
      ASSERT_GT(n, 0);
      for (int i = 0; i < n; i++)
        ASSERT_EQ(at(i), seen++);
      left -= n;
      wire_in_release(&in, 0);
    }
  }
}

TEST_F(Wire, MoreSlotsThanOneReservationAreStillOneCommit)
{
  open(16, 0);
  for (int i = 0; i < 10; i++)
    push(i);
  wire_out_commit(&out);
  wire_in_take(&in, buf, 10);
  wire_in_release(&in, 0);
  for (int i = 0; i < 15; i++) /* 5 by the old view of the consumer, 10 after importing its index */
    ASSERT_TRUE(push(100 + i)) << i;
  EXPECT_EQ(prod.v, 10u) << "published before commit";
  EXPECT_EQ(wire_out_commit(&out), 15u);
  EXPECT_EQ(wire_in_take(&in, buf, 64), 15);
  EXPECT_EQ(at(14), 114u);
}

TEST_F(Wire, ProducerIndexOutOfRangeIsAProtocolError)
{
  for (uint32_t lie : {8u, 9u, 100u, 0x80000000u, UINT32_MAX}) {
    open(8, 0);
    prod.v = lie;
    EXPECT_EQ(wire_in_take(&in, buf, 8), -EPROTO) << lie;
    wire_unmap(&out.w);
    wire_unmap(&in.w);
  }
  open(8, 0);
  prod.v = 7;
  EXPECT_EQ(wire_in_take(&in, buf, 8), 7) << "exactly the capacity is honest";
}

TEST_F(Wire, ProducerIndexThatMovesBackIsAProtocolError)
{
  open(8, 100);
  push(1);
  wire_out_commit(&out);
  ASSERT_EQ(wire_in_take(&in, buf, 8), 1);
  prod.v = 100;
  EXPECT_EQ(wire_in_take(&in, buf, 8), -EPROTO);
}

TEST_F(Wire, ConsumerIndexAheadOfProducerIsAProtocolError)
{
  open(8, 0);
  for (int i = 0; i < 7; i++)
    push(i);
  wire_out_commit(&out);
  cons.v = 8;
  int err = 0;
  EXPECT_EQ(wire_out_slot(&out, &err), nullptr);
  EXPECT_EQ(err, -EPROTO);
  cons.v = UINT32_MAX;
  err = 0;
  EXPECT_EQ(wire_out_slot(&out, &err), nullptr);
  EXPECT_EQ(err, -EPROTO);
}

TEST_F(Wire, SlotCountMustBeAPowerOfTwoInRange)
{
  struct wire w;
  int fd = region_make("t", 1 << 20, false);
  for (uint32_t n : {0u, 1u, 3u, 1000u, 1u << 17, 1u << 31})
    EXPECT_EQ(wire_map(&w, fd, 0, n, 1, 0), -EINVAL) << n;
  EXPECT_EQ(wire_map(&w, fd, 64, 8, 1, 0), -EINVAL) << "offset not on a page";
  close(fd);
}

TEST_F(Wire, TwoThreadsExchangeEverythingInOrder)
{
  open(64, 0);
  const uint64_t total = 300000;
  std::thread producer([&] {
    for (uint64_t i = 0; i < total;) {
      if (push(i))
        i++;
      else
        std::this_thread::yield();
      wire_out_commit(&out);
    }
  });
  uint64_t seen = 0, bad = 0;
  while (seen < total) {
    int n = wire_in_take(&in, buf, 32);
    if (n <= 0) {
      std::this_thread::yield();
      continue;
    }
    for (int i = 0; i < n; i++)
      bad += at(i) != seen++;
    wire_in_release(&in, 0);
  }
  producer.join();
  EXPECT_EQ(bad, 0u);
}
}  // namespace
