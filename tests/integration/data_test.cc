/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes in, bytes out: every tier, every way, through a real mover. */
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <cstring>

#include "tests/kit/mover.h"

using kit::Engine;
using kit::Key;
using kit::Mover;
using kit::say;

namespace {
class Data : public ::testing::Test {
 protected:
  Mover mover;
  Engine e{mover};
  void SetUp() override
  {
    ASSERT_TRUE(mover.up()) << mover.log();
    ASSERT_EQ(e.error(), 0);
  }
  void TearDown() override { EXPECT_TRUE(mover.audit_clean()) << mover.ask("{\"verb\":\"audit\"}"); }
};

TEST_F(Data, PutThenGetReturnsTheSameBytesOnEveryTier)
{
  for (uint8_t tier : {DRAY_TIER_DRAM, DRAY_TIER_CXL, DRAY_TIER_DISK}) {
    for (uint64_t len : {1u, 63u, 4095u, 4096u, 4097u, 16384u, 262144u, 262145u, 1048576u, 3000001u}) {
      std::string name = "k" + std::to_string(tier) + "." + std::to_string(len);
      e.fill(0, len, len + tier);
      auto c = e.put(name, 0, len, tier);
      ASSERT_EQ(c.status, DRAY_OK) << say(c) << " len " << len;
      EXPECT_EQ(c.tier, tier);
      EXPECT_EQ(c.bytes, len);
      memset(e.mem() + (4u << 20), 0, len);
      c = e.get(name, 4u << 20, len);
      ASSERT_EQ(c.status, DRAY_OK) << say(c) << " len " << len;
      EXPECT_EQ(c.tier, tier);
      EXPECT_TRUE(e.holds(4u << 20, len, len + tier)) << "tier " << int(tier) << " len " << len;
    }
  }
}

TEST_F(Data, UnalignedGetFromDiskBouncesAndSaysSo)
{
  e.fill(0, 100000, 1);
  ASSERT_EQ(e.put("b", 0, 100000, DRAY_TIER_DISK).status, DRAY_OK);
  auto c = e.get("b", (4u << 20) + 13, 99999);
  EXPECT_EQ(c.status, DRAY_OK) << say(c);
  EXPECT_EQ(c.path, DRAY_PATH_BOUNCE) << say(c);
  EXPECT_TRUE(e.holds((4u << 20) + 13, 99999, 1));
}

TEST_F(Data, AlignedGetFromDiskIsDirect)
{
  e.fill(0, 65536, 1);
  ASSERT_EQ(e.put("d", 0, 65536, DRAY_TIER_DISK).status, DRAY_OK);
  auto c = e.get("d", 4u << 20, 65536);
  EXPECT_EQ(c.path, DRAY_PATH_IO_URING_DIRECT) << say(c);
}

TEST_F(Data, MapGivesTheBytesWithoutMovingThem)
{
  e.fill(0, 50000, 7);
  ASSERT_EQ(e.put("m", 0, 50000, DRAY_TIER_DRAM).status, DRAY_OK);
  auto c = e.map("m");
  ASSERT_EQ(c.status, DRAY_OK) << say(c);
  EXPECT_EQ(c.path, DRAY_PATH_MAP);
  EXPECT_EQ(c.bytes, 50000u);
  const void *p = dray_map_address(e.d, c.slab, c.off);
  ASSERT_NE(p, nullptr);
  EXPECT_TRUE(kit::pattern_holds(p, 50000, 7));
  EXPECT_EQ(dray_lease_state(e.d, c.object), DRAY_LEASE_LIVE);
  EXPECT_EQ(e.unmap(c.object).status, DRAY_OK);
  EXPECT_EQ(dray_lease_state(e.d, c.object), DRAY_LEASE_NONE);
  EXPECT_EQ(e.unmap(c.object).reason, DRAY_BAD_LEASE);
}

TEST_F(Data, MapOfADiskCellIsNotAttendableUnlessStaged)
{
  e.fill(0, 70000, 3);
  ASSERT_EQ(e.put("s", 0, 70000, DRAY_TIER_DISK).status, DRAY_OK);
  auto c = e.map("s");
  EXPECT_EQ(c.status, DRAY_REFUSED);
  EXPECT_EQ(c.reason, DRAY_NOT_ATTENDABLE) << say(c);
  c = e.map("s", 0, DRAY_MAP_OR_STAGE);
  ASSERT_EQ(c.status, DRAY_OK) << say(c);
  EXPECT_TRUE(c.flags & DRAY_STAGED_FIRST);
  EXPECT_NE(c.path, DRAY_PATH_MAP);
  const void *p = dray_map_address(e.d, c.slab, c.off);
  ASSERT_NE(p, nullptr);
  EXPECT_TRUE(kit::pattern_holds(p, 70000, 3));
  e.unmap(c.object);
  c = e.map("s"); /* now it has a copy that can be leased */
  EXPECT_EQ(c.path, DRAY_PATH_MAP) << say(c);
  e.unmap(c.object);
}

TEST_F(Data, MoveTakesTheCellDownAndUpTheLadder)
{
  e.fill(0, 123456, 9);
  ASSERT_EQ(e.put("v", 0, 123456, DRAY_TIER_DRAM).status, DRAY_OK);
  for (uint8_t to : {DRAY_TIER_CXL, DRAY_TIER_DISK, DRAY_TIER_DRAM, DRAY_TIER_DISK, DRAY_TIER_CXL, DRAY_TIER_DRAM}) {
    auto c = e.move("v", to);
    ASSERT_EQ(c.status, DRAY_OK) << say(c);
    EXPECT_EQ(e.stat("v").tier, to);
    memset(e.mem() + (4u << 20), 0, 123456);
    c = e.get("v", 4u << 20, 123456);
    ASSERT_EQ(c.status, DRAY_OK) << say(c);
    EXPECT_EQ(c.tier, to);
    EXPECT_TRUE(e.holds(4u << 20, 123456, 9));
  }
}

TEST_F(Data, FilledMemoryThatWasReleasedIsFrozenInPlace)
{
  dray_prep_alloc(e.sqe(), Key("f").b, 300000, 0);
  auto c = e.one();
  ASSERT_EQ(c.status, DRAY_OK) << say(c);
  void *p = dray_fill_address(e.d, c.slab);
  ASSERT_NE(p, nullptr);
  kit::pattern_fill(p, 300000, 5);
  dray_fill_release(e.d, c.slab);
  dray_prep_commit(e.sqe(), c.object);
  c = e.one();
  ASSERT_EQ(c.status, DRAY_OK) << say(c);
  EXPECT_EQ(c.path, DRAY_PATH_MAP) << "not frozen but copied";
  c = e.get("f", 0, 300000);
  EXPECT_TRUE(e.holds(0, 300000, 5));
  c = e.map("f");
  ASSERT_EQ(c.status, DRAY_OK);
  EXPECT_TRUE(kit::pattern_holds(dray_map_address(e.d, c.slab, c.off), 300000, 5));
  e.unmap(c.object);
  EXPECT_EQ(e.drop("f").status, DRAY_OK);
}

TEST_F(Data, FilledMemoryThatIsStillMappedIsCopiedAndTheCopyCannotBeChanged)
{
  dray_prep_alloc(e.sqe(), Key("g").b, 300000, 0);
  auto c = e.one();
  ASSERT_EQ(c.status, DRAY_OK) << say(c);
  void *p = dray_fill_address(e.d, c.slab);
  ASSERT_NE(p, nullptr);
  kit::pattern_fill(p, 300000, 6);
  dray_prep_commit(e.sqe(), c.object);
  auto done = e.one();
  ASSERT_EQ(done.status, DRAY_OK) << say(done);
  EXPECT_NE(done.path, DRAY_PATH_MAP);
  memset(p, 0xee, 300000); /* a committed cell is immutable, whatever its engine still maps */
  e.get("g", 0, 300000);
  EXPECT_TRUE(e.holds(0, 300000, 6));
}

TEST_F(Data, AbandonedFillGivesItsRoomBack)
{
  int64_t leases = mover.status("leases");
  dray_prep_alloc(e.sqe(), Key("h").b, 1u << 20, 0);
  auto c = e.one();
  ASSERT_EQ(c.status, DRAY_OK);
  EXPECT_EQ(mover.status("leases"), leases + 1);
  EXPECT_EQ(e.unmap(c.object).status, DRAY_OK);
  EXPECT_EQ(mover.status("leases"), leases);
  dray_prep_commit(e.sqe(), c.object);
  EXPECT_EQ(e.one().reason, DRAY_BAD_LEASE);
}

TEST_F(Data, FillCannotBeTakenAwayFromTheCommitThatCopiesIt)
{
  pid_t worker = mover.worker();
  for (uint8_t tier : {(uint8_t)DRAY_TIER_DRAM, (uint8_t)DRAY_TIER_DISK}) {
    dray_prep_alloc(e.sqe(), Key("busy").b, 8u << 20, tier);
    auto a = e.one();
    if (a.status != DRAY_OK)
      continue; /* not a tier to fill in place */
    void *p = dray_fill_address(e.d, a.slab);
    ASSERT_NE(p, nullptr);
    kit::pattern_fill(p, 8u << 20, 11);
    for (int i = 0; i < 2; i++)
      dray_prep_commit(e.sqe(), a.object);
    dray_prep_unmap(e.sqe(), a.object);
    auto v = e.wait(3);
    ASSERT_EQ(v.size(), 3u) << mover.log();
    int ok = 0, leased = 0;
    for (auto &c : v) {
      ok += c.status == DRAY_OK;
      leased += c.reason == DRAY_LEASED;
    }
    EXPECT_EQ(ok, 1);
    EXPECT_EQ(leased, 2);
    auto c = e.get("busy", 8u << 20, 8u << 20);
    EXPECT_EQ(c.status, DRAY_OK) << say(c);
    EXPECT_TRUE(e.holds(8u << 20, 8u << 20, 11));
    EXPECT_EQ(e.unmap(a.object).reason, DRAY_BAD_LEASE);
    e.drop("busy");
  }
  EXPECT_EQ(mover.worker(), worker) << mover.log();
}

TEST_F(Data, CopyMovesWithinAndBetweenRegions)
{
  e.fill(0, 5000000, 2);
  dray_prep_copy(e.sqe(), e.region.id, 0, e.region.id, 8u << 20, 5000000);
  auto c = e.one();
  EXPECT_EQ(c.status, DRAY_OK) << say(c);
  EXPECT_EQ(c.bytes, 5000000u);
  EXPECT_TRUE(e.holds(8u << 20, 5000000, 2));
}

TEST_F(Data, ReplacedCellUnderLeaseKeepsItsBytes)
{
  e.fill(0, 40000, 1);
  e.put("r", 0, 40000, DRAY_TIER_DRAM);
  auto lease = e.map("r");
  const void *p = dray_map_address(e.d, lease.slab, lease.off);
  e.fill(0, 40000, 2);
  ASSERT_EQ(e.put("r", 0, 40000, DRAY_TIER_DRAM).status, DRAY_OK);
  for (int i = 0; i < 50; i++) { /* whatever is put now must not land under the lease */
    e.fill(0, 40000, 100 + i);
    e.put("x" + std::to_string(i), 0, 40000, DRAY_TIER_DRAM);
  }
  EXPECT_TRUE(kit::pattern_holds(p, 40000, 1));
  e.get("r", 0, 40000);
  EXPECT_TRUE(e.holds(0, 40000, 2));
  EXPECT_EQ(e.unmap(lease.object).status, DRAY_OK);
}

TEST_F(Data, NoReplaceRefusesWithExists)
{
  ASSERT_EQ(e.put("n", 0, 100, 0).status, DRAY_OK);
  auto c = e.put("n", 0, 100, 0, DRAY_NO_REPLACE);
  EXPECT_EQ(c.status, DRAY_REFUSED);
  EXPECT_EQ(c.reason, DRAY_EXISTS);
}

TEST_F(Data, CrcIsStoredOnPutAndCheckedOnGet)
{
  e.fill(0, 90000, 4);
  auto c = e.put("c", 0, 90000, DRAY_TIER_DISK, DRAY_VERIFY_CRC);
  EXPECT_TRUE(c.flags & DRAY_CRC_CHECKED) << say(c);
  c = e.get("c", 1u << 20, 90000, 0, DRAY_VERIFY_CRC);
  EXPECT_EQ(c.status, DRAY_OK) << say(c);
  EXPECT_TRUE(c.flags & DRAY_CRC_CHECKED);
}

TEST_F(Data, GetOfAPrefixAndBeyondTheEnd)
{
  e.fill(0, 10000, 8);
  e.put("p", 0, 10000);
  auto c = e.get("p", 1u << 20, 1000);
  EXPECT_EQ(c.status, DRAY_OK);
  EXPECT_EQ(memcmp(e.mem(), e.mem() + (1u << 20), 1000), 0);
  c = e.get("p", 1u << 20, 10001);
  EXPECT_EQ(c.reason, DRAY_OUT_OF_RANGE);
}

TEST_F(Data, DroppedCellIsAbsent)
{
  e.put("q", 0, 100);
  EXPECT_EQ(e.drop("q").status, DRAY_OK);
  auto c = e.get("q", 0, 100);
  EXPECT_EQ(c.status, DRAY_MISSED);
  EXPECT_EQ(c.reason, DRAY_ABSENT);
  EXPECT_EQ(e.drop("q").status, DRAY_MISSED);
}

/* Llama-3.1-70B at TP8: 80 segments of 8 KiB a block. */
TEST_F(Data, BatchOfScatteredBlocksComesBackWhole)
{
  const uint32_t blocks = 16, segs = 20, seg = 8192;
  struct dray_layout l = {};
  l.seg_bytes = seg;
  l.segs = segs;
  l.block_stride = seg;
  l.seg_stride = uint64_t(seg) * blocks * 2;
  uint16_t id;
  ASSERT_EQ(dray_layout_define(e.d, &l, &id), 0);
  for (uint8_t tier : {DRAY_TIER_DRAM, DRAY_TIER_DISK}) {
    e.fill(0, e.region.size, tier);
    std::string want(e.mem(), e.region.size);
    uint32_t first;
    ASSERT_EQ(dray_items_get(e.d, blocks, &first), 0);
    struct dray_item *items = dray_items(e.d) + first;
    for (uint32_t i = 0; i < blocks; i++) {
      memset(&items[i], 0, sizeof items[i]);
      memcpy(items[i].key, Key("blk" + std::to_string(tier) + std::to_string(i)).b, 16);
      items[i].off = i;
      items[i].len = segs * seg;
    }
    struct dray_sqe *s = e.sqe();
    s->op = DRAY_PUT;
    s->region = e.region.id;
    s->layout = id;
    s->tier = tier;
    dray_sqe_batch(s, first, blocks);
    auto c = e.one();
    ASSERT_EQ(c.status, DRAY_OK) << say(c);
    EXPECT_EQ(c.bytes, uint64_t(blocks) * segs * seg);
    /* back into the other half of each layer */
    for (uint32_t i = 0; i < blocks; i++)
      items[i].off = blocks + i;
    s = e.sqe();
    s->op = DRAY_GET;
    s->region = e.region.id;
    s->layout = id;
    dray_sqe_batch(s, first, blocks);
    c = e.one();
    ASSERT_EQ(c.status, DRAY_OK) << say(c);
    for (uint32_t b = 0; b < blocks; b++)
      for (uint32_t k = 0; k < segs; k++) {
        uint64_t at = uint64_t(b) * l.block_stride + k * l.seg_stride, to = uint64_t(blocks + b) * l.block_stride + k * l.seg_stride;
        ASSERT_EQ(memcmp(want.data() + at, e.mem() + to, seg), 0) << "block " << b << " segment " << k;
      }
    dray_items_put(e.d, first, blocks);
  }
}

/* More items than the mover copies out of the arena at a time, and more batches at once than it has room to copy for. */
TEST_F(Data, LargeAndManyBatchesEachReachTheirOwnCells)
{
  kit::EngineOptions o;
  o.entries = 128;
  kit::Engine many(mover, o);
  ASSERT_EQ(many.error(), 0);
  constexpr uint32_t n = 1500, len = 256, batches = 100, each = 15;
  static_assert(batches * each == n, "the same cells both ways");
  uint32_t first;
  ASSERT_EQ(dray_items_get(many.d, n, &first), 0);
  many.fill(0, uint64_t(n) * len, 5);
  std::string want(many.mem(), uint64_t(n) * len);
  auto rows = [&](uint64_t shift) {
    for (uint32_t i = 0; i < n; i++)
      dray_prep_item(dray_items(many.d) + first + i, Key("many" + std::to_string(i)).b, (shift + i) * len, len);
  };
  for (bool split : {false, true}) {
    for (uint8_t op : {DRAY_PUT, DRAY_GET}) {
      rows(op == DRAY_GET ? n : 0);
      if (op == DRAY_GET)
        memset(many.mem() + uint64_t(n) * len, 0, uint64_t(n) * len);
      for (uint32_t k = 0; k < (split ? batches : 1); k++) {
        struct dray_sqe *s = many.sqe();
        ASSERT_NE(nullptr, s);
        s->op = op;
        s->region = many.region.id;
        dray_sqe_batch(s, first + (split ? k * each : 0), split ? each : n);
      }
      ASSERT_GE(dray_submit(many.d), 0);
      for (auto &c : many.wait(split ? batches : 1)) {
        EXPECT_EQ(c.status, DRAY_OK) << say(c);
        EXPECT_EQ(c.bytes, uint64_t(split ? each : n) * len);
      }
      if (op == DRAY_GET) {
        EXPECT_EQ(memcmp(want.data(), many.mem() + uint64_t(n) * len, uint64_t(n) * len), 0) << split;
      }
    }
  }
}

TEST_F(Data, BatchSaysWhichItemsFailedAndWhy)
{
  uint32_t first;
  ASSERT_EQ(dray_items_get(e.d, 5, &first), 0);
  struct dray_item *items = dray_items(e.d) + first;
  const struct dray_item_result *res = dray_results(e.d) + first;
  memset(items, 0, 5 * sizeof *items);
  for (int i = 0; i < 5; i++) {
    memcpy(items[i].key, Key("item" + std::to_string(i)).b, 16);
    items[i].off = uint64_t(i) * 4096;
    items[i].len = 4096;
  }
  items[1].len = 0;
  items[2].off = e.region.size - 4095;
  items[3].zero = 1;
  struct dray_sqe *s = e.sqe();
  s->op = DRAY_PUT;
  s->region = e.region.id;
  dray_sqe_batch(s, first, 5);
  auto c = e.one();
  EXPECT_EQ(c.status, DRAY_FAULT);
  EXPECT_EQ(c.failed, 3);
  EXPECT_EQ(c.detail, 1u);
  EXPECT_EQ(c.bytes, 8192u);
  EXPECT_EQ(res[0].reason, DRAY_REASON_OK);
  EXPECT_EQ(res[1].reason, DRAY_ZERO_LENGTH);
  EXPECT_EQ(res[2].reason, DRAY_OUT_OF_RANGE);
  EXPECT_EQ(res[3].reason, DRAY_BAD_RESERVED);
  EXPECT_EQ(res[4].reason, DRAY_REASON_OK);
}

/* Slabs are announced on a socket that an engine which only polls has no reason to look at. */
TEST(DataSlabs, AnEngineThatOnlyPollsMayMapAnyNumberOfThem)
{
  Mover mover({.sets = {"tier.dram.slab_size=64KiB"}});
  Engine e(mover);
  ASSERT_EQ(e.error(), 0) << mover.log();
  auto polled = [&](auto prepare) {
    prepare(e.sqe());
    EXPECT_EQ(dray_submit(e.d), 1);
    const struct dray_cqe *c;
    for (auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
         !(c = dray_peek(e.d)) && std::chrono::steady_clock::now() < end;) {
    }
    struct dray_cqe v = c ? *c : dray_cqe{};
    dray_seen(e.d);
    return v;
  };
  for (int i = 0; i < 600; i++) { /* a slab each */
    Key k("s" + std::to_string(i));
    auto c = polled([&](dray_sqe *q) { dray_prep_put(q, k.b, e.region.id, 0, 64 << 10, DRAY_TIER_DRAM); });
    ASSERT_EQ(c.status, DRAY_OK) << i << ": " << kit::say(c);
    auto m = polled([&](dray_sqe *q) { dray_prep_map(q, k.b, 0); });
    ASSERT_EQ(m.status, DRAY_OK) << i << ": " << kit::say(m);
    ASSERT_EQ(polled([&](dray_sqe *q) { dray_prep_unmap(q, m.object); }).status, DRAY_OK);
  }
}

TEST_F(Data, BatchOfMapsGivesEveryLease)
{
  const uint32_t n = 1000;
  uint32_t first;
  ASSERT_EQ(dray_items_get(e.d, n, &first), 0);
  struct dray_item *items = dray_items(e.d) + first;
  const struct dray_item_result *res = dray_results(e.d) + first;
  memset(items, 0, n * sizeof *items);
  for (uint32_t i = 0; i < n; i++) {
    memcpy(items[i].key, Key("bm" + std::to_string(i)).b, 16);
    items[i].off = i * 4096;
    items[i].len = 4096;
    e.fill(i * 4096, 4096, i);
  }
  struct dray_sqe *s = e.sqe();
  s->op = DRAY_PUT;
  s->region = e.region.id;
  dray_sqe_batch(s, first, n);
  ASSERT_EQ(e.one().status, DRAY_OK);
  for (uint32_t i = 0; i < n; i++)
    items[i].off = items[i].len = 0;
  s = e.sqe();
  s->op = DRAY_MAP;
  dray_sqe_batch(s, first, n);
  auto c = e.one();
  ASSERT_EQ(c.status, DRAY_OK) << say(c);
  for (uint32_t i = 0; i < n; i++) {
    const void *p = dray_map_address(e.d, res[i].slab, res[i].off);
    ASSERT_NE(p, nullptr);
    ASSERT_TRUE(kit::pattern_holds(p, 4096, i)) << i;
  }
  for (uint32_t i = 0; i < n; i++) {
    memset(items[i].key, 0, 16);
    items[i].off = res[i].object;
  }
  s = e.sqe();
  s->op = DRAY_UNMAP;
  dray_sqe_batch(s, first, n);
  EXPECT_EQ(e.one().status, DRAY_OK);
  EXPECT_EQ(mover.status("leases"), 0);
}

TEST_F(Data, FourGigabytesAndMoreAreRefusedNotWrapped)
{
  for (uint64_t len : {(4ull << 30) - 1, 4ull << 30, (4ull << 30) + 1, 1ull << 63, ~0ull}) {
    auto c = e.put("big", 0, len);
    EXPECT_EQ(c.status, DRAY_REFUSED);
    EXPECT_EQ(c.reason, DRAY_OUT_OF_RANGE) << say(c);
    dray_prep_alloc(e.sqe(), Key("big").b, len, 0);
    c = e.one();
    EXPECT_EQ(c.status, DRAY_REFUSED);
    EXPECT_EQ(c.reason, DRAY_TOO_LARGE) << say(c);
  }
}

TEST_F(Data, PollableFdWakesAnEventLoop)
{
  ASSERT_EQ(dray_arm(e.d), 0);
  dray_prep_nop(e.sqe());
  ASSERT_EQ(dray_submit(e.d), 1);
  struct pollfd p = {dray_fd(e.d), POLLIN, 0};
  ASSERT_EQ(poll(&p, 1, 10000), 1);
  ASSERT_NE(dray_peek(e.d), nullptr);
  dray_seen(e.d);
}
}  // namespace
