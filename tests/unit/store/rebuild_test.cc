/* SPDX-License-Identifier: Apache-2.0 */
/* What a persistent pool remembers. */
#include "tests/unit/store/store_kit.h"

class RebuildTest : public StoreTest {
 protected:
  FakeDev *disk = nullptr;
  void SetUp() override
  {
    AddPool(DRAY_TIER_DRAM, 4 << 20);
    disk = AddPool(DRAY_TIER_DISK, 8 << 20, true);
    Open();
  }
  StoreStats All()
  {
    StoreStats st{};
    store_stats_get(&st);
    return st;
  }
  FakeSlab &FirstSlab() { return disk->slabs.begin()->second; }
};

TEST_F(RebuildTest, RebuildFromIndexFindsCommittedCells)
{
  for (uint64_t n = 0; n < 200; n++)
    ASSERT_OK(Put(1, n % 2 ? Alice() : Bob(DRAY_SCOPE_TENANT), n, 5000 + n));
  ASSERT_OK(Put(0, Alice(), 1000, 5000));
  Reopen();
  EXPECT_EQ(All().found_on_disk, 200u);
  EXPECT_EQ(All().skipped_on_disk, 0u);
  EXPECT_WHY(Find(t1, 1000), DRAY_ABSENT) << "memory does not last";
  for (uint64_t n = 0; n < 200; n++) {
    cell_facts f{};
    slot_ref r{};
    ASSERT_OK(Pin(n % 2 ? t1 : t2, n, &r, &f));
    EXPECT_EQ(f.len, 5000 + n);
    EXPECT_EQ(f.crc, (uint32_t)n);
    EXPECT_EQ(f.has_crc, 1);
    EXPECT_EQ(f.scope, n % 2 ? DRAY_SCOPE_AGENT : DRAY_SCOPE_TENANT);
    EXPECT_EQ(f.agent, n % 2 ? a1 : b1);
    EXPECT_EQ(Bytes(r)[n], (uint8_t)n);
    store_unpin(s, r);
  }
  Audit();
  for (uint64_t n = 200; n < 400; n++)
    ASSERT_OK(Put(1, Alice(), n, 5000));
}

TEST_F(RebuildTest, DroppedCellIsNotFoundAgain)
{
  cell_facts f{};
  slot_ref pin{};
  ASSERT_OK(Put(1, Alice(), 1, 5000));
  ASSERT_OK(Put(1, Alice(), 2, 5000, &f));
  ASSERT_OK(Pin(t1, 2, &pin));
  ASSERT_OK(store_drop(s, &f));
  EXPECT_EQ(disk->Entries(), 1u) << "even while a lease keeps its bytes";
  store_unpin(s, pin);
  Reopen();
  EXPECT_OK(Find(t1, 1));
  EXPECT_WHY(Find(t1, 2), DRAY_ABSENT);
}

TEST_F(RebuildTest, ReplacedCellIsFoundOnceAndNew)
{
  ASSERT_OK(Put(1, Alice(), 1, 5000));
  ASSERT_OK(Put(1, Alice(), 1, 6000));
  EXPECT_EQ(disk->Entries(), 1u);
  Reopen();
  cell_facts f{};
  ASSERT_OK(Find(t1, 1, &f));
  EXPECT_EQ(f.len, 6000u);
}

TEST_F(RebuildTest, TheEntryThatAReplacementRemovesIsFetchedBeforehand)
{
  cell_facts f{};
  cell_new next{};
  next.who = Alice();
  memcpy(next.key, K(1).b, 16);
  store_expect_commit(s, &next, false); /* nothing is there yet: no harm */
  store_expect_commit(s, &next, true);
  ASSERT_OK(Put(1, Alice(), 1, 5000, &f));
  uint32_t old = f.copy[0].slot;
  EXPECT_TRUE(disk->expected.empty());
  store_expect_commit(s, &next, false);
  store_expect_commit(s, &next, true);
  ASSERT_OK(Put(1, Alice(), 1, 5000));
  EXPECT_EQ(disk->expected, std::vector<uint32_t>{old});
}

TEST_F(RebuildTest, OfTwoEntriesOfOneKeyTheNewerStands)
{
  cell_facts f{};
  ASSERT_OK(Put(1, Alice(), 1, 5000, &f));
  ASSERT_OK(Put(1, Alice(), 2, 6000));
  ASSERT_OK(Put(1, Alice(), 3, 7000));
  FakeSlab &slab = FirstSlab(); /* as if the mover had died between the new entry and the removal of the old */
  for (auto &c : slab.cells)
    memcpy(c.second.key, K(1).b, 16);
  uint32_t oldest = slab.cells[0].generation;
  slab.cells[0].generation = oldest + 1000;
  Reopen();
  EXPECT_EQ(All().found_on_disk, 1u);
  EXPECT_EQ(All().skipped_on_disk, 2u);
  ASSERT_OK(Find(t1, 1, &f));
  EXPECT_EQ(f.len, 5000u);
  EXPECT_EQ(disk->Entries(), 1u) << "the others are gone for good";
  ASSERT_OK(Put(1, Alice(), 1, 8000));
  EXPECT_GT(FirstSlab().cells.begin()->second.generation, oldest + 1000);
}

TEST_F(RebuildTest, NonsenseInTheIndexIsSkippedAndCounted)
{
  for (uint64_t n = 0; n < 8; n++)
    ASSERT_OK(Put(1, Alice(), n, 8192));
  auto &c = FirstSlab().cells;
  c[0].len = 0;
  c[1].len = UINT64_MAX;
  c[2].scope = DRAY_SCOPE_FLEET;
  strcpy(c[3].tenant, "two");
  memset(c[4].agent, 'x', sizeof c[4].agent);
  c[5].taint = 99;
  c[4095] = c[6];
  Reopen();
  EXPECT_EQ(All().found_on_disk, 2u);
  EXPECT_EQ(All().skipped_on_disk, 7u);
  EXPECT_OK(Find(t1, 6));
  EXPECT_OK(Find(t1, 7));
}

TEST_F(RebuildTest, SlabsThatCannotBeAreSkippedWhole)
{
  ASSERT_OK(Put(1, Alice(), 1, 8192));
  ASSERT_OK(Put(1, Bob(), 2, 8192));
  ASSERT_OK(Put(1, Alice(DRAY_SCOPE_TENANT), 3, 8192));
  ASSERT_OK(Put(1, Bob(DRAY_SCOPE_FLEET), 4, 8192));
  auto it = disk->slabs.begin();
  it++->second.slots = 100000;
  it++->second.slot_bytes = 8193;
  it++->second.scope = 9;
  Reopen();
  EXPECT_EQ(All().found_on_disk, 1u);
  EXPECT_OK(Find(t1, 4));
  disk->slabs.clear();
}

TEST_F(RebuildTest, QuarantineOutlastsARestart)
{
  cell_facts f{};
  ASSERT_OK(Put(1, Alice(), 1, 5000, &f));
  ASSERT_OK(store_quarantine(s, &f));
  Reopen();
  ASSERT_OK(Find(t1, 1, &f));
  EXPECT_EQ(f.state, CELL_QUARANTINED);
}

TEST_F(RebuildTest, MaterializationKeyIsKnownAgainWhenSomebodyBringsIt)
{
  dray_key k{};
  strcpy(k.model, "llama");
  strcpy(k.tokenizer, "t");
  slot_ref r{};
  ASSERT_OK(Fill(1, Alice(), 1, 5000, &r));
  cell_new n{};
  cell_facts f{};
  memcpy(n.key, K(1).b, 16);
  n.who = Alice();
  n.len = 5000;
  n.mkey = store_mkey(s, &k);
  ASSERT_OK(store_commit(s, &n, r, now, &f));
  store_unpin(s, r);
  Reopen();
  ASSERT_OK(Find(t1, 1, &f));
  ASSERT_NE(f.mkey, 0u);
  EXPECT_STREQ(store_mkey_get(s, f.mkey)->model, "") << "not none, but incomplete";
  EXPECT_EQ(store_mkey(s, &k), f.mkey);
  EXPECT_STREQ(store_mkey_get(s, f.mkey)->model, "llama");
}

TEST_F(RebuildTest, LongNamesAreNotCutShortIntoAnotherTenants)
{
  std::string name(40, 'n');
  uint32_t t = store_tenant(s, name.c_str()), a = store_agent(s, t, "a");
  ASSERT_OK(Put(1, Who(t, a), 1, 5000));
  EXPECT_EQ(disk->Entries(), 0u);
  Reopen();
  EXPECT_EQ(All().found_on_disk, 0u);
}

TEST_F(RebuildTest, CopyThatWasMovedToDiskIsFound)
{
  cell_facts f{};
  slot_ref r{};
  ASSERT_OK(Put(0, Alice(), 1, 5000, &f));
  ASSERT_OK(Fill(1, Alice(), 1, 5000, &r));
  ASSERT_OK(store_move_copy(s, &f, 0, r));
  store_unpin(s, r);
  Reopen();
  ASSERT_OK(Find(t1, 1, &f));
  EXPECT_EQ(f.copy[0].pool, 1);
}

TEST(RebuildTwoPools, CopiesOfOneCellInTwoPoolsBecomeOneCell)
{
  struct Two : StoreTest {
    void TestBody() override
    {
      AddPool(DRAY_TIER_CXL, 4 << 20, true);
      AddPool(DRAY_TIER_DISK, 4 << 20, true);
      Open();
      cell_facts f{};
      slot_ref r{};
      ASSERT_OK(Put(0, Alice(), 1, 5000, &f));
      ASSERT_OK(Fill(1, Alice(), 1, 5000, &r));
      ASSERT_OK(store_add_copy(s, &f, r));
      store_unpin(s, r);
      ASSERT_OK(Put(1, Alice(), 2, 5000));
      devs[0]->slabs.begin()->second.cells[1] = devs[1]->slabs.begin()->second.cells[1]; /* an old 2 in pool 0 */
      devs[0]->slabs.begin()->second.cells[1].generation -= 1;
      devs[0]->slabs.begin()->second.cells[1].len = 100;
      Reopen();
      StoreStats st{};
      store_stats_get(&st);
      EXPECT_EQ(st.found_on_disk, 2u);
      EXPECT_EQ(st.skipped_on_disk, 1u);
      ASSERT_OK(Find(t1, 1, &f));
      EXPECT_EQ(f.copies, 2);
      ASSERT_OK(Find(t1, 2, &f));
      EXPECT_EQ(f.copies, 1);
      EXPECT_EQ(f.len, 5000u);
      Audit();
    }
  } two;
  two.TestBody();
}
