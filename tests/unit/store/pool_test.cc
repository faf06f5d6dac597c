/* SPDX-License-Identifier: Apache-2.0 */
/* Slabs, slot sizes, room and who has to give it. */
#include <fcntl.h>

#include "tests/unit/store/store_kit.h"

class PoolTest : public StoreTest {
 protected:
  FakeDev *dram = nullptr;
  void Dram(uint64_t capacity, uint64_t slab_max = 0)
  {
    dram = AddPool(DRAY_TIER_DRAM, capacity);
    cfg.pool[0].slab_bytes_max = slab_max;
    Open();
  }
  /* Fills the pool with cells numbered from n; returns the number after the last. */
  uint64_t FillUp(store_who who, uint64_t n, uint64_t len)
  {
    while (Put(0, who, n, len) == DRAY_REASON_OK)
      n++;
    return n;
  }
  /* What a mover does for room: evicts until alloc succeeds. Counts whose cells went. */
  unsigned MakeRoom(store_who who, uint64_t len, slot_ref *r, std::map<uint32_t, int> *lost)
  {
    unsigned why;
    while ((why = store_alloc(s, 0, &who, len, r)) == DRAY_NO_ROOM) {
      cell_facts f{};
      slot_ref v{};
      why = store_victim(s, 0, &who, len, &f, &v);
      if (why == DRAY_ABSENT)
        continue;
      if (why != DRAY_REASON_OK)
        return why;
      EXPECT_OK(store_evict(s, &f, 0));
      store_unpin(s, v);
      (*lost)[f.tenant]++;
    }
    return why;
  }
  unsigned PutHard(store_who who, uint64_t n, uint64_t len, std::map<uint32_t, int> *lost)
  {
    slot_ref r{};
    unsigned why = MakeRoom(who, len, &r, lost);
    if (why == DRAY_REASON_OK) {
      why = Commit(who, n, len, r);
      store_unpin(s, r);
    }
    return why;
  }
};

TEST_F(PoolTest, SlotSizeWastesAtMostAnEighth)
{
  Dram(256 << 20);
  for (uint64_t len : {1ull, 63ull, 64ull, 65ull, 500ull, 513ull, 4097ull, 100000ull, 1048577ull, 20000001ull}) {
    slot_ref r{};
    ASSERT_OK(Fill(0, Alice(), 1, len, &r));
    uint64_t grain = (len + 63) / 64 * 64;
    EXPECT_GE(SlotBytes(r), len);
    EXPECT_LE((double)SlotBytes(r), (double)grain * 1.125) << len;
    EXPECT_EQ(SlotBytes(r) % 64, 0u);
    store_discard(s, r);
    store_unpin(s, r);
  }
  for (uint64_t len : {64ull, 576ull, 4096ull, 16384ull, 20480ull, 1048576ull, 1179648ull}) {
    slot_ref r{};
    ASSERT_OK(Fill(0, Alice(), 1, len, &r));
    EXPECT_EQ(SlotBytes(r), len) << "a class-sized cell wastes nothing";
    store_discard(s, r);
    store_unpin(s, r);
  }
}

TEST_F(PoolTest, SlotsOfADeviceThatIsNotAddressableAreAligned)
{
  AddPool(DRAY_TIER_DISK, 16 << 20, true);
  Open();
  slot_ref r{};
  for (uint64_t len : {1ull, 4096ull, 5000ull, 40000ull}) {
    ASSERT_OK(Fill(0, Alice(), 1, len, &r));
    EXPECT_EQ(SlotBytes(r) % 4096, 0u);
    store_discard(s, r);
    store_unpin(s, r);
  }
}

TEST_F(PoolTest, SlabsStartSmallAndDouble)
{
  Dram(64 << 20, 4 << 20);
  uint64_t last = 0;
  std::vector<uint64_t> sizes;
  for (uint64_t n = 0; sizes.size() < 7; n++) {
    ASSERT_OK(Put(0, Alice(), n, 65536));
    if (Stats(0).slab_bytes != last)
      sizes.push_back(Stats(0).slab_bytes - last);
    last = Stats(0).slab_bytes;
  }
  EXPECT_EQ(sizes, (std::vector<uint64_t>{256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20, 4 << 20, 4 << 20}));
}

TEST_F(PoolTest, SlabHasAtMostItsSlots)
{
  Dram(64 << 20);
  for (uint64_t n = 0; n < 10000; n++)
    ASSERT_OK(Put(0, Alice(), n, 64));
  EXPECT_EQ(Stats(0).slabs, 3u);
  EXPECT_EQ(Stats(0).slab_bytes, 3u * 4096 * 64);
}

TEST_F(PoolTest, CellLargerThanASlabGetsOneOfItsOwn)
{
  Dram(64 << 20, 1 << 20);
  slot_ref r{};
  ASSERT_OK(Fill(0, Alice(), 1, 20 << 20, &r));
  EXPECT_EQ(Stats(0).slab_bytes, 20u << 20);
  store_discard(s, r);
  store_unpin(s, r);
}

TEST_F(PoolTest, WholePoolCanBeOneCell)
{
  Dram((10 << 20) + 4096);
  EXPECT_OK(Put(0, Alice(), 1, (10 << 20) + 4096));
  EXPECT_WHY(Put(0, Alice(), 2, (10 << 20) + 4097), DRAY_TOO_LARGE);
  EXPECT_WHY(Put(0, Alice(), 2, 1), DRAY_NO_ROOM);
  slot_ref r{};
  store_who w = Alice();
  EXPECT_WHY(store_alloc(s, 0, &w, 0, &r), DRAY_ZERO_LENGTH);
  EXPECT_WHY(store_alloc(s, 0, &w, UINT64_MAX, &r), DRAY_TOO_LARGE);
}

TEST_F(PoolTest, RestOfThePoolIsUsedBySmallerSlabs)
{
  Dram(1 << 20);
  EXPECT_EQ(FillUp(Alice(), 0, 65536), 16u);
  EXPECT_EQ(store_pool_free(s, 0), 0u);
}

TEST_F(PoolTest, FreedSlabOfOneTenantIsNeverGivenToAnother)
{
  Dram(1 << 20);
  hooks.lent = true;
  uint64_t n = FillUp(Alice(), 0, 65536);
  std::set<uint32_t> hers = hooks.live;
  cell_facts f{};
  for (uint64_t i = 0; i < n; i++) {
    ASSERT_OK(Find(t1, i, &f));
    ASSERT_OK(store_drop(s, &f));
  }
  FillUp(Bob(), 0, 65536);
  for (uint64_t i = 0; i < n; i++)
    EXPECT_EQ(hers.count(SlabOf(t2, i)), 0u);
  EXPECT_EQ(dram->lent, hers.size()) << "each was destroyed, as lent";
}

TEST_F(PoolTest, AgentsOfOneTenantDoNotShareASlabUnlessTheScopeIsWider)
{
  Dram(4 << 20);
  slot_ref r[4] = {};
  ASSERT_OK(Fill(0, Alice(), 1, 100, &r[0]));
  ASSERT_OK(Fill(0, Who(t1, a2), 1, 100, &r[1]));
  ASSERT_OK(Fill(0, Alice(DRAY_SCOPE_TENANT), 1, 100, &r[2]));
  ASSERT_OK(Fill(0, Who(t1, a2, DRAY_SCOPE_TENANT), 1, 100, &r[3]));
  EXPECT_NE(r[0].slab, r[1].slab);
  EXPECT_NE(r[0].slab, r[2].slab);
  EXPECT_EQ(r[2].slab, r[3].slab);
  for (auto &x : r) {
    store_discard(s, x);
    store_unpin(s, x);
  }
}

TEST_F(PoolTest, OneEmptySlabPerClassIsKept)
{
  Dram(16 << 20);
  for (uint64_t n = 0; n < 12; n++) /* 4 in the first slab, 8 in the second */
    ASSERT_OK(Put(0, Alice(), n, 65536));
  EXPECT_EQ(Stats(0).slabs, 2u);
  cell_facts f{};
  for (uint64_t n = 0; n < 12; n++) {
    ASSERT_OK(Find(t1, n, &f));
    ASSERT_OK(store_drop(s, &f));
  }
  EXPECT_EQ(Stats(0).slabs, 1u);
  EXPECT_EQ(hooks.gone, 1u);
  EXPECT_EQ(store_pool_free(s, 0), 16u << 20) << "what is kept can be had";
}

TEST_F(PoolTest, KeptSlabGivesWayToAnotherClass)
{
  Dram(1 << 20);
  cell_facts f{};
  ASSERT_OK(Put(0, Alice(), 1, 1 << 20, &f));
  ASSERT_OK(store_drop(s, &f));
  EXPECT_EQ(Stats(0).slabs, 1u);
  EXPECT_OK(Put(0, Bob(), 1, 1 << 20));
}

TEST_F(PoolTest, TablesThatAreFullSayLimit)
{
  cfg.cells_max = 3;
  cfg.slabs_max = 2;
  cfg.leases_max = 1;
  Dram(16 << 20);
  ASSERT_OK(Put(0, Alice(), 1, 100));
  ASSERT_OK(Put(0, Bob(), 2, 100));
  EXPECT_WHY(Put(0, Alice(DRAY_SCOPE_TENANT), 3, 100), DRAY_LIMIT) << "no third slab";
  ASSERT_OK(Put(0, Alice(), 3, 100));
  EXPECT_WHY(Put(0, Alice(), 4, 100), DRAY_LIMIT) << "no fourth cell";
  lease_info l{};
  uint64_t id;
  ASSERT_OK(store_lease_add(s, &l, &id));
  EXPECT_WHY(store_lease_add(s, &l, &id), DRAY_LIMIT);
}

TEST_F(PoolTest, PrivateDeviceIsItsOwnersAlone)
{
  dram = AddPool(DRAY_TIER_CXL, 4 << 20);
  dram->d.caps.isolation = DEV_PRIVATE;
  strcpy(dram->d.caps.owner, "one");
  Open();
  EXPECT_OK(Put(0, Alice(), 1, 100));
  EXPECT_WHY(Put(0, Bob(), 1, 100), DRAY_SCOPE_DENIED);
}

TEST_F(PoolTest, SharedDeviceHoldsPublishedCellsOnly)
{
  dram = AddPool(DRAY_TIER_CXL, 4 << 20);
  dram->d.caps.isolation = DEV_SHARED;
  Open();
  EXPECT_WHY(Put(0, Alice(), 1, 100), DRAY_SCOPE_DENIED);
  EXPECT_WHY(Put(0, Alice(DRAY_SCOPE_TENANT), 1, 100), DRAY_SCOPE_DENIED);
  EXPECT_OK(Put(0, Alice(DRAY_SCOPE_FLEET), 1, 100));
}

TEST_F(PoolTest, DeviceInPiecesGivesSmallerSlabs)
{
  Dram(4 << 20);
  dram->largest = 64 << 10;
  EXPECT_OK(Put(0, Alice(), 1, 16384));
  EXPECT_EQ(Stats(0).slab_bytes, 64u << 10);
  dram->largest = 4096;
  EXPECT_WHY(Put(0, Bob(), 1, 16384), DRAY_NO_ROOM);
  EXPECT_EQ(Stats(0).slab_bytes, 64u << 10) << "what was taken beforehand is given back";
}

TEST_F(PoolTest, WhatTheTransportSaysBecomesAReason)
{
  Dram(4 << 20);
  dram->add_fails = -EMFILE;
  EXPECT_WHY(Put(0, Alice(), 1, 100), DRAY_LIMIT);
  dram->add_fails = -ENOMEM;
  EXPECT_WHY(Put(0, Alice(), 1, 100), DRAY_NO_ROOM);
  EXPECT_OK(Put(0, Alice(), 1, 100));
}

TEST_F(PoolTest, FullDiskSaysNoSpace)
{
  dram = AddPool(DRAY_TIER_DISK, 4 << 20, true);
  Open();
  dram->largest = 0;
  EXPECT_WHY(Put(0, Alice(), 1, 100), DRAY_NO_SPACE);
  dram->largest = UINT64_MAX;
  dram->put_fails = -ENOSPC;
  EXPECT_WHY(Put(0, Alice(), 1, 100), DRAY_NO_SPACE);
  dram->put_fails = -EIO;
  EXPECT_WHY(Put(0, Alice(), 1, 100), DRAY_IO_ERROR);
  EXPECT_WHY(Find(t1, 1), DRAY_ABSENT);
}

TEST_F(PoolTest, SlabThatTheHookRefusesIsUndone)
{
  Dram(4 << 20);
  hooks.made_fails = -ENOMEM;
  EXPECT_WHY(Put(0, Alice(), 1, 100), DRAY_NO_ROOM);
  EXPECT_EQ(dram->deleted, 1u);
  EXPECT_EQ(Stats(0).slab_bytes, 0u);
  hooks.made_fails = 0;
  EXPECT_OK(Put(0, Alice(), 1, 100));
}

TEST_F(PoolTest, ReservedBytesAreNotForSlabs)
{
  Dram(1 << 20);
  ASSERT_OK(store_reserve(s, 0, t1, (1 << 20) - 4096));
  EXPECT_WHY(store_reserve(s, 0, t1, 8192), DRAY_NO_ROOM);
  EXPECT_WHY(Put(0, Alice(), 1, 8192), DRAY_NO_ROOM);
  EXPECT_OK(Put(0, Alice(), 1, 4096));
  store_unreserve(s, 0, t1, (1 << 20) - 4096);
  EXPECT_OK(Put(0, Alice(), 2, 8192));
}

TEST_F(PoolTest, AdoptedSlabEndsWithItsCell)
{
  Dram(1 << 20);
  slab_mem m{};
  m.bytes = 64 << 10;
  m.fd = memfd_create("fill", 0);
  ASSERT_EQ(ftruncate(m.fd, 64 << 10), 0);
  m.base = mmap(nullptr, m.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m.fd, 0);
  memset(m.base, 5, m.bytes);
  store_who w = Alice();
  slot_ref r{}, q{};
  ASSERT_OK(store_adopt(s, 0, &w, &m, 60000, false, &r));
  EXPECT_EQ(Stats(0).slab_bytes, 64u << 10);
  cell_facts f{};
  ASSERT_OK(Commit(Alice(), 5, 60000, r, &f));
  store_unpin(s, r);
  ASSERT_OK(Pin(t1, 5, &q));
  EXPECT_EQ(Bytes(q)[59999], 5);
  Audit();
  ASSERT_OK(store_drop(s, &f));
  EXPECT_EQ(Bytes(q)[59999], 5);
  store_unpin(s, q);
  EXPECT_EQ(Stats(0).slab_bytes, 0u);
  EXPECT_EQ(fcntl(m.fd, F_GETFD), -1) << "closed";
  EXPECT_EQ(dram->deleted, 0u) << "it was not the transport's";
  EXPECT_EQ(hooks.gone, 1u);
}

TEST_F(PoolTest, RefusedAdoptionLeavesTheMemoryWithTheCaller)
{
  Dram(1 << 20);
  slab_mem m{};
  m.bytes = 2 << 20;
  m.fd = -1;
  store_who w = Alice();
  slot_ref r{};
  EXPECT_WHY(store_adopt(s, 0, &w, &m, 100, false, &r), DRAY_NO_ROOM);
  m.bytes = 4096;
  hooks.made_fails = -EIO;
  EXPECT_WHY(store_adopt(s, 0, &w, &m, 100, false, &r), DRAY_LIMIT);
  EXPECT_EQ(Stats(0).slab_bytes, 0u);
}

TEST_F(PoolTest, VictimIsTheLeastRecentlyUsedOfASmallClass)
{
  Dram(256 << 10);
  now = 1000;
  ASSERT_EQ(FillUp(Alice(), 0, 65536), 4u);
  now = 2000;
  for (uint64_t n : {0, 1, 3})
    ASSERT_OK(Find(t1, n));
  store_who w = Alice();
  int right = 0;
  for (int i = 0; i < 50; i++) {
    cell_facts f{};
    slot_ref r{};
    ASSERT_OK(store_victim(s, 0, &w, 65536, &f, &r));
    right += memcmp(f.key, K(2).b, 16) == 0;
    store_unpin(s, r);
  }
  EXPECT_GE(right, 35) << "a sample of 8 from 4 slots misses one of them now and then";
}

TEST_F(PoolTest, LeasedSlotIsNeverAVictim)
{
  Dram(1 << 20);
  uint64_t n = FillUp(Alice(), 0, 65536);
  ASSERT_EQ(n, 16u);
  std::vector<slot_ref> pins(16);
  for (uint64_t i = 0; i < n; i++)
    if (i != 11) {
      ASSERT_OK(Pin(t1, i, &pins[i]));
    }
  store_who w = Alice();
  cell_facts f{};
  slot_ref r{}, q{};
  ASSERT_OK(store_victim(s, 0, &w, 65536, &f, &r));
  EXPECT_EQ(memcmp(f.key, K(11).b, 16), 0);
  EXPECT_WHY(store_victim(s, 0, &w, 65536, &f, &q), DRAY_NO_ROOM) << "everything is pinned";
  store_unpin(s, r);
  for (uint64_t i = 0; i < n; i++)
    if (i != 11)
      store_unpin(s, pins[i]);
}

TEST_F(PoolTest, FillingSlotIsNeverAVictim)
{
  Dram(256 << 10);
  slot_ref r[4], v{};
  for (auto &x : r)
    ASSERT_OK(Fill(0, Alice(), 1, 65536, &x));
  store_who w = Alice(), b = Bob();
  cell_facts f{};
  EXPECT_WHY(store_victim(s, 0, &w, 65536, &f, &v), DRAY_NO_ROOM);
  EXPECT_WHY(store_victim(s, 0, &b, 65536, &f, &v), DRAY_NO_ROOM);
  for (auto &x : r) {
    store_discard(s, x);
    store_unpin(s, x);
  }
}

TEST_F(PoolTest, VictimSaysAbsentWhenSomethingWasFreed)
{
  Dram(256 << 10);
  ASSERT_EQ(FillUp(Alice(), 0, 65536), 4u);
  cell_facts f{};
  slot_ref r{};
  ASSERT_OK(Find(t1, 2, &f));
  ASSERT_OK(store_drop(s, &f));
  store_who w = Alice();
  EXPECT_WHY(store_victim(s, 0, &w, 65536, &f, &r), DRAY_ABSENT);
  EXPECT_OK(Put(0, Alice(), 9, 65536));
}

TEST_F(PoolTest, TenantUnderItsShareGetsAWholeSlab)
{
  Dram(1 << 20, 256 << 10);
  ASSERT_EQ(FillUp(Alice(), 0, 65536), 16u);
  std::map<uint32_t, int> lost;
  for (uint64_t n = 0; n < 8; n++)
    ASSERT_OK(PutHard(Bob(), n, 65536, &lost));
  EXPECT_EQ(lost[t1], 8);
  EXPECT_EQ(lost[t2], 0);
  Audit();
}

TEST_F(PoolTest, TenantOverItsShareTakesFromItself)
{
  Dram(1 << 20, 256 << 10);
  ASSERT_EQ(FillUp(Alice(), 0, 65536), 16u);
  std::map<uint32_t, int> lost;
  for (uint64_t n = 0; n < 8; n++)
    ASSERT_OK(PutHard(Bob(), n, 65536, &lost));
  lost.clear();
  for (uint64_t n = 100; n < 150; n++)
    ASSERT_OK(PutHard(Bob(), n, 65536, &lost));
  EXPECT_EQ(lost[t1], 0);
  EXPECT_EQ(lost[t2], 50);
  lost.clear();
  for (uint64_t n = 100; n < 150; n++)
    ASSERT_OK(PutHard(Alice(), n, 65536, &lost));
  EXPECT_EQ(lost[t1], 50);
  EXPECT_EQ(lost[t2], 0);
}

TEST_F(PoolTest, TenantAtItsShareTakesFromItselfThoughAnotherHasMore)
{
  Dram(6 * (256 << 10), 256 << 10);
  uint32_t t3 = store_tenant(s, "three");
  for (uint64_t n = 0; n < 12; n++)
    ASSERT_OK(Put(0, Alice(), n, 65536));
  for (uint64_t n = 0; n < 8; n++)
    ASSERT_OK(Put(0, Bob(), n, 65536));
  for (uint64_t n = 0; n < 4; n++)
    ASSERT_OK(Put(0, Who(t3, store_agent(s, t3, "carol")), n, 65536));
  std::map<uint32_t, int> lost;
  ASSERT_OK(PutHard(Bob(), 100, 65536, &lost));
  EXPECT_EQ(lost[t2], 1);
  EXPECT_EQ(lost[t1] + lost[t3], 0);
  lost.clear();
  ASSERT_OK(PutHard(Who(t3, store_agent(s, t3, "carol")), 100, 65536, &lost));
  EXPECT_EQ(lost[t1], 4) << "who is above its share gives, the largest first";
  EXPECT_EQ(lost[t2] + lost[t3], 0);
}

TEST_F(PoolTest, TenantThatIsAloneReclaimsASlabOfAnotherOfItsClasses)
{
  Dram(1 << 20, 256 << 10);
  ASSERT_EQ(FillUp(Alice(), 0, 65536), 16u);
  std::map<uint32_t, int> lost;
  ASSERT_OK(PutHard(Alice(), 100, 32768, &lost));
  EXPECT_EQ(lost[t1], 4) << "one slab of four";
  EXPECT_EQ(Stats(0).cells, 13u);
}

TEST_F(PoolTest, SlabWithALeaseIsNotReclaimed)
{
  Dram(1 << 20, 256 << 10);
  ASSERT_EQ(FillUp(Alice(), 0, 65536), 16u);
  std::map<uint32_t, slot_ref> one_of_each;
  for (uint64_t n = 0; n < 16; n++) {
    slot_ref r{};
    ASSERT_OK(Pin(t1, n, &r));
    if (!one_of_each.emplace(r.slab, r).second)
      store_unpin(s, r);
  }
  std::map<uint32_t, int> lost;
  slot_ref r{};
  EXPECT_WHY(MakeRoom(Bob(), 65536, &r, &lost), DRAY_NO_ROOM);
  EXPECT_EQ(lost[t1], 0) << "nothing is lost where nothing can be gained";
  store_unpin(s, one_of_each.begin()->second);
  ASSERT_OK(MakeRoom(Bob(), 65536, &r, &lost));
  EXPECT_EQ(lost[t1], 4);
  store_discard(s, r);
  store_unpin(s, r);
  for (auto it = std::next(one_of_each.begin()); it != one_of_each.end(); ++it)
    store_unpin(s, it->second);
}

TEST_F(PoolTest, ReclaimThatMetALeaseGivesTheSlotsBackToTheirClass)
{
  Dram(256 << 10, 256 << 10);
  ASSERT_EQ(FillUp(Alice(), 0, 65536), 4u);
  store_who b = Bob(), a = Alice();
  cell_facts f{};
  slot_ref v{}, pin{};
  ASSERT_OK(store_victim(s, 0, &b, 65536, &f, &v));
  ASSERT_OK(store_evict(s, &f, 0));
  store_unpin(s, v);
  uint64_t left = 0;
  for (uint64_t n = 0; n < 4; n++)
    if (Pin(t1, n, &pin) == DRAY_REASON_OK) {
      left = n;
      break;
    }
  for (uint64_t n = 0; n < 4; n++) {
    if (n != left && Find(t1, n, &f) == DRAY_REASON_OK) {
      ASSERT_OK(store_drop(s, &f));
    }
  }
  EXPECT_WHY(store_victim(s, 0, &b, 65536, &f, &v), DRAY_NO_ROOM);
  EXPECT_WHY(Put(0, Alice(), 50, 65536), DRAY_NO_ROOM) << "its slab is being emptied";
  EXPECT_WHY(store_victim(s, 0, &a, 65536, &f, &v), DRAY_ABSENT);
  EXPECT_OK(Put(0, Alice(), 50, 65536));
  store_unpin(s, pin);
}
