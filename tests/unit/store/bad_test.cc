/* SPDX-License-Identifier: Apache-2.0 */
/* Bad memory: what is barred, who is told, and that it is never handed out again. */
#include "tests/unit/store/store_kit.h"

class Bad : public StoreTest {
protected:
  static constexpr uint64_t kLen = 4096;
  store_bad got[8];

  void SetUp() override
  {
    AddPool(DRAY_TIER_DRAM, 16 << 20);
    AddPool(DRAY_TIER_DISK, 16 << 20, true);
    Open();
  }
  uint32_t Hit(const void *at, uint64_t unit = 4096, bool proven = true)
  {
    store_hit h = {unit, 1234, proven};
    return store_poison_at(s, (uintptr_t)at, &h, got, 8);
  }
  slot_ref SlotOf(uint64_t n, unsigned copy = 0)
  {
    cell_facts f{};
    EXPECT_OK(Find(t1, n, &f));
    return {f.copy[copy].slab, f.copy[copy].slot};
  }
  uint8_t State(uint64_t n)
  {
    cell_facts f{};
    return Find(t1, n, &f) == DRAY_REASON_OK ? f.state : 0;
  }
  bad_sums Sums()
  {
    bad_sums b{};
    store_bad_sums(s, &b);
    return b;
  }
  /* Fills the pool and looks where everything is. */
  bool AnybodyGets(uint32_t pool, slot_ref bad)
  {
    bool hit = false;
    for (uint64_t n = 100000; n < 110000; n++) {
      cell_facts f{};
      if (Put(pool, Alice(), n, kLen, &f) != DRAY_REASON_OK)
        break;
      for (unsigned i = 0; i < f.copies; i++)
        hit |= f.copy[i].slab == bad.slab && f.copy[i].slot == bad.slot;
    }
    return hit;
  }
};

TEST_F(Bad, OneUnitQuarantinesItsCellAndNoOther)
{
  for (uint64_t n = 0; n < 8; n++)
    ASSERT_OK(Put(0, Alice(), n, kLen));
  slot_ref r = SlotOf(3);
  ASSERT_EQ(Hit(Bytes(r) + 100), 1u);
  EXPECT_EQ(got[0].fresh, 1);
  EXPECT_EQ(got[0].slab, r.slab);
  EXPECT_EQ(got[0].unit, 4096u);
  EXPECT_EQ(got[0].cells, 1u);
  EXPECT_EQ(0, memcmp(got[0].key, K(3).b, 16));
  for (uint64_t n = 0; n < 8; n++)
    EXPECT_EQ(State(n), n == 3 ? CELL_QUARANTINED : CELL_LIVE) << n;
  bool proven = false;
  EXPECT_TRUE(store_slot_bad(s, r, &proven));
  EXPECT_TRUE(proven);
  EXPECT_FALSE(store_slot_bad(s, SlotOf(4), &proven));
  Audit();
}

TEST_F(Bad, ADroppedCellFreesItsNameAndNeverTheUnit)
{
  for (uint64_t n = 0; n < 8; n++)
    ASSERT_OK(Put(0, Alice(), n, kLen));
  slot_ref r = SlotOf(3);
  Hit(Bytes(r));
  cell_facts f{};
  ASSERT_OK(Find(t1, 3, &f));
  ASSERT_OK(store_drop(s, &f));
  EXPECT_WHY(Find(t1, 3), DRAY_ABSENT);
  Audit();
  EXPECT_FALSE(AnybodyGets(0, r));
  ASSERT_OK(Find(t1, 7));
  Audit();
}

TEST_F(Bad, AUnitOverSeveralSlotsBarsEachUsedOrNot)
{
  for (uint64_t n = 0; n < 6; n++)
    ASSERT_OK(Put(0, Alice(), n, kLen));
  cell_facts f{};
  ASSERT_OK(Find(t1, 5, &f));
  ASSERT_OK(store_drop(s, &f)); /* a free one that was used, and behind it those never used */
  slot_ref r = SlotOf(0);
  uint64_t unit = 32768, base = (uintptr_t)Bytes(r) & ~(unit - 1);
  ASSERT_EQ(Hit((void *)((uintptr_t)Bytes(r) + 4096 * 4), unit), 1u);
  uint32_t cells = 0;
  for (uint64_t n = 0; n < 5; n++) {
    uintptr_t at = (uintptr_t)Bytes(SlotOf(n));
    bool inside = ((at ^ ((uintptr_t)Bytes(r) + 4096 * 4)) & ~(unit - 1)) == 0;
    EXPECT_EQ(State(n), inside ? CELL_QUARANTINED : CELL_LIVE) << n;
    cells += inside;
  }
  EXPECT_EQ(got[0].cells, cells);
  EXPECT_EQ(got[0].slots, got[0].len / 4096);
  (void)base;
  Audit();
}

TEST_F(Bad, AUnitThatBeginsBeforeTheSlabIsClippedToIt)
{
  ASSERT_OK(Put(0, Alice(), 1, kLen));
  slot_ref r = SlotOf(1);
  ASSERT_EQ(Hit(Bytes(r), 1ull << 30), 1u);
  EXPECT_EQ(got[0].off, 0u);
  EXPECT_EQ(State(1), CELL_QUARANTINED);
  Audit();
}

TEST_F(Bad, MemoryThatIsNoSlabsIsNobodysLoss)
{
  ASSERT_OK(Put(0, Alice(), 1, kLen));
  static char mine[8192];
  EXPECT_EQ(Hit(mine + 4096), 0u);
  EXPECT_EQ(State(1), CELL_LIVE);
  EXPECT_EQ(Sums().units, 0u);
}

TEST_F(Bad, ACellWithAGoodCopyLosesOnlyTheBadOne)
{
  cell_facts f{};
  ASSERT_OK(Put(0, Alice(), 1, kLen, &f));
  ASSERT_OK(Put(0, Alice(), 2, kLen));
  slot_ref disk{};
  ASSERT_OK(Fill(1, Alice(), 1, kLen, &disk));
  ASSERT_OK(store_add_copy(s, &f, disk));
  store_unpin(s, disk);
  slot_ref r = SlotOf(1);
  Hit(Bytes(r));
  ASSERT_OK(Find(t1, 1, &f));
  EXPECT_EQ(f.state, CELL_LIVE);
  ASSERT_EQ(f.copies, 1);
  EXPECT_EQ(f.copy[0].pool, 1);
  EXPECT_FALSE(AnybodyGets(0, r));
  Audit();
}

TEST_F(Bad, WhatIsLeasedStaysUntilItsLeaseEndsAndBarredAfter)
{
  ASSERT_OK(Put(0, Alice(), 1, kLen));
  ASSERT_OK(Put(0, Alice(), 2, kLen));
  slot_ref r{};
  ASSERT_OK(Pin(t1, 1, &r));
  lease_info l{}, out[4];
  l.session = 7;
  l.slot = r;
  l.len = kLen;
  slot_mem m{};
  store_slot_mem(s, r, &m);
  l.off = m.off;
  uint64_t id;
  ASSERT_OK(store_lease_add(s, &l, &id));
  Hit(Bytes(r));
  uint32_t cursor = 0;
  ASSERT_EQ(store_lease_in(s, 7, got[0].slab, got[0].off, got[0].len, &cursor, out, 4), 1u);
  EXPECT_EQ(out[0].id, id);
  EXPECT_EQ(cursor, 0u);
  EXPECT_EQ(store_lease_in(s, 7, got[0].slab, got[0].off + got[0].len, 4096, &cursor, out, 4), 0u);
  EXPECT_EQ(store_lease_in(s, 8, got[0].slab, got[0].off, got[0].len, &cursor, out, 4), 0u);
  Audit();
  ASSERT_OK(store_lease_end(s, 7, id, false, &l));
  Audit();
  EXPECT_FALSE(AnybodyGets(0, r));
}

TEST_F(Bad, ASlabOfNothingButBarredSlotsGoesAndItsMemoryWithIt)
{
  ASSERT_OK(Put(0, Alice(), 1, 200 << 10)); /* one slot in its slab */
  slot_ref r = SlotOf(1);
  Hit(Bytes(r));
  EXPECT_EQ(Sums().live_units, 1u);
  EXPECT_EQ(devs[0]->deleted, 0u);
  cell_facts f{};
  ASSERT_OK(Find(t1, 1, &f));
  ASSERT_OK(store_drop(s, &f));
  EXPECT_EQ(devs[0]->deleted, 1u) << "a memfd dies whole";
  EXPECT_EQ(Sums().live_units, 0u);
  EXPECT_EQ(Sums().units, 1u) << "but is remembered";
  EXPECT_EQ(Stats(0).slab_bytes, 0u);
  Audit();
}

TEST_F(Bad, AFillingSlotIsRefusedAtCommitAndBarred)
{
  slot_ref r{};
  ASSERT_OK(Fill(0, Alice(), 1, kLen, &r));
  ASSERT_OK(Put(0, Alice(), 2, kLen));
  Hit(Bytes(r));
  EXPECT_WHY(Commit(Alice(), 1, kLen, r), DRAY_POISONED);
  store_discard(s, r);
  store_unpin(s, r);
  Audit();
  EXPECT_WHY(Find(t1, 1), DRAY_ABSENT);
  EXPECT_FALSE(AnybodyGets(0, r));
}

TEST_F(Bad, TheSameUnitTwiceIsNoNewsAndNoSecondBar)
{
  for (uint64_t n = 0; n < 8; n++) /* the pages before and behind it are of the slab, too */
    ASSERT_OK(Put(0, Alice(), n, kLen));
  slot_ref r = SlotOf(4);
  ASSERT_EQ(Hit(Bytes(r), 4096, false), 1u);
  bool proven = true;
  EXPECT_TRUE(store_slot_bad(s, r, &proven));
  EXPECT_FALSE(proven) << "a word is not a proof";
  ASSERT_EQ(Hit(Bytes(r), 4096, false), 1u);
  EXPECT_EQ(got[0].fresh, 0);
  ASSERT_EQ(Hit(Bytes(r)), 1u);
  EXPECT_EQ(got[0].fresh, 1) << "now it is proven";
  EXPECT_TRUE(store_slot_bad(s, r, &proven));
  EXPECT_TRUE(proven);
  EXPECT_EQ(Sums().units, 1u);
  ASSERT_EQ(Hit(Bytes(r), 8192), 1u);
  EXPECT_EQ(got[0].fresh, 1) << "more than was known";
  Audit();
}

TEST_F(Bad, VictimsAreNeverBarredSlots)
{
  for (uint64_t n = 0; n < 64; n++)
    ASSERT_OK(Put(0, Alice(), n, kLen));
  for (uint64_t n = 0; n < 64; n += 2)
    Hit(Bytes(SlotOf(n)));
  store_who who = Alice();
  for (int i = 0; i < 200; i++) {
    cell_facts f{};
    slot_ref r{};
    unsigned why = store_victim(s, 0, &who, kLen, &f, &r);
    if (why != DRAY_REASON_OK)
      continue;
    EXPECT_EQ(f.state, CELL_LIVE);
    store_unpin(s, r);
  }
  Audit();
}

TEST_F(Bad, ADeviceWithoutAddressesIsHitByPlace)
{
  for (uint64_t n = 0; n < 4; n++)
    ASSERT_OK(Put(1, Alice(), n, kLen));
  slot_ref r = SlotOf(2);
  slot_mem m{};
  store_slot_mem(s, r, &m);
  /* the fake's memory has an address; by place is what a real disk tier has */
  store_hit h = {4096, 1, true};
  ASSERT_EQ(store_poison_in(s, r.slab, m.off + 7, &h, got, 8), 1u);
  EXPECT_EQ(State(2), CELL_QUARANTINED);
  EXPECT_EQ(State(1), CELL_LIVE);
  Audit();
}

TEST_F(Bad, ANewWorkerKnowsWhatTheLastFoundOnADevice)
{
  for (uint64_t n = 0; n < 4; n++)
    ASSERT_OK(Put(1, Alice(), n, kLen));
  ASSERT_OK(Put(0, Alice(), 9, kLen));
  slot_ref r = SlotOf(2);
  Hit(Bytes(r));
  Hit(Bytes(SlotOf(9)));
  cell_facts f{};
  ASSERT_OK(Find(t1, 2, &f));
  ASSERT_OK(store_drop(s, &f));
  EXPECT_EQ(Sums().live_units, 2u);
  uint32_t slot = r.slot;
  Reopen();
  Audit();
  EXPECT_EQ(Sums().units, 2u);
  EXPECT_EQ(Sums().live_units, 1u) << "memory of its own is gone with the worker, a device is not";
  ASSERT_OK(Find(t1, 1, &f));
  uint32_t slab = f.copy[0].slab;
  EXPECT_FALSE(AnybodyGets(1, {slab, slot})) << "the name is free, the place is not";
  Audit();
}

TEST_F(Bad, ACellFoundOnBadMemoryIsQuarantined)
{
  for (uint64_t n = 0; n < 4; n++)
    ASSERT_OK(Put(1, Alice(), n, kLen));
  Hit(Bytes(SlotOf(2)));
  for (auto &p : devs[1]->slabs) /* an index that could not be written */
    for (auto &c : p.second.cells)
      c.second.taint = DRAY_TAINTED;
  Reopen();
  EXPECT_EQ(State(2), CELL_QUARANTINED);
  EXPECT_EQ(State(1), CELL_LIVE);
  bool proven = false;
  EXPECT_TRUE(store_slot_bad(s, SlotOf(2), &proven) && proven);
  Audit();
}

TEST_F(Bad, ATenantsWordIsNotTakenForEver)
{
  uint32_t fresh = 0;
  for (uint64_t n = 0; n < 400; n++)
    ASSERT_OK(Put(0, Alice(), n, kLen));
  for (uint64_t n = 0; n < 400; n++) {
    Hit(Bytes(SlotOf(n)), 4096, false);
    fresh += got[0].live && got[0].slots;
  }
  EXPECT_EQ(fresh, 256u);
  EXPECT_EQ(State(399), CELL_QUARANTINED) << "the cell is, the memory is not barred any more";
  Audit();
}

/* One mapped device: whoever gets a slab of it later gets the same bytes. */
class BadDevice : public StoreTest {
protected:
  void SetUp() override
  {
    FakeDev *d = AddPool(DRAY_TIER_CXL, 4 << 20);
    d->d.caps.isolation = DEV_PRIVATE;
    strcpy(d->d.caps.owner, "one");
    Open();
  }
  slot_ref SlotOf(uint64_t n)
  {
    cell_facts f{};
    EXPECT_OK(Find(t1, n, &f));
    return {f.copy[0].slab, f.copy[0].slot};
  }
  void Reopen_at_the_same_places()
  {
    s = store_free(s);
    hooks.live.clear();
    devs[0]->next_unit = 1;
    Open();
  }
  uint64_t Place(slot_ref r)
  {
    slot_mem m{};
    store_slot_mem(s, r, &m);
    return m.mem->dev_off + m.off;
  }
};

TEST_F(BadDevice, ASlabWithBarredSlotsIsNotGivenBackAndServesItsOwn)
{
  for (uint64_t n = 0; n < 4; n++)
    ASSERT_OK(Put(0, Alice(), n, 4096));
  slot_ref r = SlotOf(2);
  store_bad got[1];
  store_hit h = {4096, 1, true};
  ASSERT_EQ(store_poison_at(s, (uintptr_t)Bytes(r), &h, got, 1), 1u);
  for (uint64_t n = 0; n < 4; n++) {
    cell_facts f{};
    ASSERT_OK(Find(t1, n, &f));
    ASSERT_OK(store_drop(s, &f));
  }
  EXPECT_EQ(devs[0]->deleted, 0u) << "its bytes would be somebody else's next";
  Audit();
  uint64_t n = 100;
  while (Put(0, Alice(), n, 4096) == DRAY_REASON_OK) {
    EXPECT_FALSE(SlotOf(n).slab == r.slab && SlotOf(n).slot == r.slot);
    n++;
  }
  EXPECT_GT(n, 100u + 500u);
  Audit();
}

TEST_F(BadDevice, ANewWorkerBarsThePlaceWhateverSlabComesThere)
{
  for (uint64_t n = 0; n < 4; n++)
    ASSERT_OK(Put(0, Alice(), n, 4096));
  uint64_t bad = Place(SlotOf(2));
  store_bad got[1];
  store_hit h = {4096, 1, true};
  ASSERT_EQ(store_poison_at(s, (uintptr_t)Bytes(SlotOf(2)), &h, got, 1), 1u);
  Reopen_at_the_same_places();
  bad_sums sums{};
  store_bad_sums(s, &sums);
  EXPECT_EQ(sums.live_units, 1u);
  uint64_t n = 100, first = UINT64_MAX;
  while (Put(0, Alice(), n, 8192) == DRAY_REASON_OK) { /* another size of slot, too */
    uint64_t at = Place(SlotOf(n));
    EXPECT_FALSE(bad >= at && bad < at + 8192) << n;
    first = first < at ? first : at;
    n++;
  }
  EXPECT_LT(first, bad) << "the slab there was used";
  Audit();
}

TEST_F(BadDevice, AClosedPoolGivesUpItsSlabsBarredSlotsOrNot)
{
  for (uint64_t n = 0; n < 4; n++)
    ASSERT_OK(Put(0, Alice(), n, 4096));
  slot_ref lease{};
  ASSERT_OK(Pin(t1, 1, &lease));
  store_bad got[1];
  store_hit h = {4096, 1, true};
  ASSERT_EQ(store_poison_at(s, (uintptr_t)Bytes(SlotOf(2)), &h, got, 1), 1u);
  EXPECT_FALSE(store_pool_idle(s, 0));
  store_pool_close(s, 0);
  EXPECT_WHY(Put(0, Alice(), 10, 4096), DRAY_TIER_DRAINING);
  EXPECT_WHY(store_reserve(s, 0, t1, 4096), DRAY_TIER_DRAINING);
  for (uint64_t n = 0; n < 4; n++) {
    cell_facts f{};
    ASSERT_OK(Find(t1, n, &f));
    ASSERT_OK(store_drop(s, &f));
  }
  store_pool_close(s, 0);
  EXPECT_FALSE(store_pool_idle(s, 0)) << "a lease is in it";
  Audit();
  store_unpin(s, lease);
  store_pool_close(s, 0);
  EXPECT_TRUE(store_pool_idle(s, 0));
  EXPECT_EQ(devs[0]->deleted, devs[0]->added);
  Audit();
}

/* A device that remembers: a new keeper, which has no rows, is told by it. */
TEST_F(StoreTest, APersistentDeviceIsToldOfBadMemoryAndTellsTheNextKeeper)
{
  FakeDev *d = AddPool(DRAY_TIER_CXL, 4 << 20, true);
  d->d.caps.isolation = DEV_PRIVATE;
  strcpy(d->d.caps.owner, "one");
  Open();
  for (uint64_t n = 0; n < 4; n++)
    ASSERT_OK(Put(0, Alice(), n, 4096));
  slot_ref r{};
  ASSERT_OK(Pin(t1, 2, &r));
  store_bad got[1];
  store_hit h = {4096, 1, true};
  ASSERT_EQ(store_poison_at(s, (uintptr_t)Bytes(r), &h, got, 1), 1u);
  store_unpin(s, r);
  ASSERT_EQ(d->bad.size(), 1u);
  EXPECT_EQ(d->bad.begin()->second, 4096u);
  s = store_free(s);
  hooks.live.clear();
  close(fd[ARENA_BAD]);
  fd[ARENA_BAD] = memfd_create("arena", 0);
  Open();
  bad_sums sums{};
  store_bad_sums(s, &sums);
  EXPECT_EQ(sums.live_units, 1u);
  EXPECT_EQ(sums.live_bytes, 4096u);
  for (uint64_t n = 0; n < 4; n++) {
    cell_facts f{};
    ASSERT_OK(Find(t1, n, &f));
    EXPECT_EQ(f.state, n == 2 ? CELL_QUARANTINED : CELL_LIVE) << n;
  }
  Audit();
  Reopen();
  store_bad_sums(s, &sums);
  EXPECT_EQ(sums.live_units, 1u) << "what a worker left and what the device says is one row";
}
