/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of cells: visibility, replacement, copies, publishing, leases. */
#include <sys/stat.h>

#include <random>

#include "tests/unit/store/store_kit.h"

class CellTest : public StoreTest {
 protected:
  void SetUp() override
  {
    AddPool(DRAY_TIER_DRAM, 16 << 20);
    AddPool(DRAY_TIER_CXL, 16 << 20);
    AddPool(DRAY_TIER_DISK, 16 << 20, true);
    Open();
  }
};

TEST_F(CellTest, CommitMakesTheCellVisible)
{
  slot_ref r{};
  ASSERT_OK(Fill(0, Alice(), 7, 1000, &r));
  EXPECT_WHY(Find(t1, 7), DRAY_ABSENT);
  cell_facts f{};
  ASSERT_OK(Commit(Alice(), 7, 1000, r, &f));
  store_unpin(s, r);
  cell_facts g{};
  slot_ref q{};
  ASSERT_OK(Pin(t1, 7, &q, &g));
  EXPECT_EQ(g.idx, f.idx);
  EXPECT_EQ(g.gen, f.gen);
  EXPECT_EQ(g.len, 1000u);
  EXPECT_EQ(g.crc, 7u);
  EXPECT_EQ(g.tenant, t1);
  EXPECT_EQ(g.agent, a1);
  EXPECT_EQ(g.state, CELL_LIVE);
  EXPECT_EQ(g.copies, 1);
  EXPECT_EQ(q.slab, r.slab);
  EXPECT_EQ(q.slot, r.slot);
  EXPECT_EQ(Bytes(q)[999], 7);
  store_unpin(s, q);
}

TEST_F(CellTest, DiscardedSlotIsFreeAgain)
{
  slot_ref r{}, q{};
  ASSERT_OK(Fill(0, Alice(), 1, 1000, &r));
  store_discard(s, r);
  store_unpin(s, r);
  ASSERT_OK(Fill(0, Alice(), 2, 1000, &q));
  EXPECT_EQ(q.slab, r.slab);
  EXPECT_EQ(q.slot, r.slot);
  store_discard(s, q);
  store_unpin(s, q);
}

TEST_F(CellTest, TenantsDoNotSeeEachOthersKeys)
{
  ASSERT_OK(Put(0, Alice(), 1, 100));
  EXPECT_WHY(Find(t2, 1), DRAY_ABSENT);
  ASSERT_OK(Put(0, Bob(), 1, 200));
  cell_facts f{};
  ASSERT_OK(Find(t1, 1, &f));
  EXPECT_EQ(f.len, 100u);
  ASSERT_OK(Find(t2, 1, &f));
  EXPECT_EQ(f.len, 200u);
}

TEST_F(CellTest, FleetCellIsSeenByEveryTenantAndHiddenByOnesOwn)
{
  ASSERT_OK(Put(0, Alice(DRAY_SCOPE_FLEET), 1, 100));
  cell_facts f{};
  ASSERT_OK(Find(t2, 1, &f));
  EXPECT_EQ(f.tenant, t1);
  ASSERT_OK(Put(0, Bob(), 1, 300));
  ASSERT_OK(Find(t2, 1, &f));
  EXPECT_EQ(f.tenant, t2);
}

TEST_F(CellTest, ReplacedCellUnderLeaseKeepsItsBytesUntilUnmap)
{
  ASSERT_OK(Put(0, Alice(), 1, 1000));
  slot_ref r{};
  cell_facts old{};
  ASSERT_OK(Pin(t1, 1, &r, &old));
  lease_info l{};
  l.session = 3;
  l.slot = r;
  uint64_t id;
  ASSERT_OK(store_lease_add(s, &l, &id));
  for (int i = 0; i < 100; i++) {
    slot_ref q{};
    ASSERT_OK(Fill(0, Alice(), 50 + i, 1000, &q));
    EXPECT_FALSE(q.slab == r.slab && q.slot == r.slot);
    ASSERT_OK(Commit(Alice(), 1, 1000, q));
    store_unpin(s, q);
  }
  EXPECT_FALSE(store_cell_current(s, &old));
  EXPECT_EQ(Bytes(r)[0], 1);
  EXPECT_EQ(Bytes(r)[999], 1);
  Audit();
  ASSERT_OK(store_lease_end(s, 3, id, false, &l));
  slot_ref q{};
  ASSERT_OK(Fill(0, Alice(), 9, 1000, &q));
  EXPECT_EQ(q.slot, r.slot) << "the slot under the lease is the one that became free last";
  store_discard(s, q);
  store_unpin(s, q);
}

TEST_F(CellTest, NoReplaceAnswersExistsAndLeavesTheSlotFilling)
{
  ASSERT_OK(Put(0, Alice(), 1, 100));
  slot_ref r{};
  ASSERT_OK(Fill(0, Alice(), 2, 100, &r));
  EXPECT_WHY(Commit(Alice(), 1, 100, r, nullptr, true), DRAY_EXISTS);
  EXPECT_OK(Commit(Alice(), 2, 100, r));
  store_unpin(s, r);
}

TEST_F(CellTest, CellOfAnotherAgentCannotBeReplaced)
{
  ASSERT_OK(Put(0, Alice(DRAY_SCOPE_TENANT), 1, 100));
  EXPECT_WHY(Put(0, Who(t1, a2, DRAY_SCOPE_TENANT), 1, 100), DRAY_SCOPE_DENIED);
  ASSERT_OK(Put(0, Alice(DRAY_SCOPE_FLEET), 2, 100));
  EXPECT_WHY(Put(0, Bob(DRAY_SCOPE_FLEET), 2, 100), DRAY_SCOPE_DENIED);
}

TEST_F(CellTest, CopiesAreSortedHottestFirstAndPinnedByTier)
{
  cell_facts f{};
  slot_ref disk{}, cxl{}, r{};
  ASSERT_OK(Put(1, Alice(), 1, 5000, &f));
  ASSERT_OK(Fill(2, Alice(), 1, 5000, &disk));
  ASSERT_OK(store_add_copy(s, &f, disk));
  store_unpin(s, disk);
  ASSERT_OK(Fill(0, Alice(), 1, 5000, &r));
  ASSERT_OK(store_add_copy(s, &f, r));
  store_unpin(s, r);
  ASSERT_OK(Find(t1, 1, &f));
  ASSERT_EQ(f.copies, 3);
  EXPECT_EQ(f.copy[0].pool, 0);
  EXPECT_EQ(f.copy[1].pool, 1);
  EXPECT_EQ(f.copy[2].pool, 2);
  ASSERT_OK(Pin(t1, 1, &r));
  slot_mem m{};
  store_slot_mem(s, r, &m);
  EXPECT_EQ(m.tier, DRAY_TIER_DRAM);
  EXPECT_TRUE(m.attendable);
  store_unpin(s, r);
  ASSERT_OK(Pin(t1, 1, &r, nullptr, DRAY_TIER_DISK));
  EXPECT_EQ(r.slab, disk.slab);
  store_unpin(s, r);
  ASSERT_OK(Pin(t1, 1, &r, nullptr, DRAY_TIER_HBM));
  EXPECT_EQ(r.slab, 0u);
  ASSERT_OK(Fill(1, Alice(), 1, 5000, &cxl));
  EXPECT_WHY(store_add_copy(s, &f, cxl), DRAY_EXISTS);
  EXPECT_WHY(store_move_copy(s, &f, 0, cxl), DRAY_EXISTS);
  EXPECT_OK(store_move_copy(s, &f, 1, cxl)) << "within a pool";
  store_unpin(s, cxl);
  EXPECT_OK(store_drop_copy(s, &f, 0));
  EXPECT_WHY(store_drop_copy(s, &f, 0), DRAY_ABSENT);
  EXPECT_OK(store_drop_copy(s, &f, 1));
  EXPECT_TRUE(store_cell_current(s, &f));
  EXPECT_OK(store_drop_copy(s, &f, 2));
  EXPECT_FALSE(store_cell_current(s, &f));
  EXPECT_WHY(store_drop_copy(s, &f, 2), DRAY_STALE_GENERATION);
  EXPECT_WHY(Find(t1, 1), DRAY_ABSENT);
}

TEST_F(CellTest, CopyForACellThatWasReplacedIsStale)
{
  cell_facts f{};
  slot_ref r{};
  ASSERT_OK(Put(0, Alice(), 1, 100, &f));
  ASSERT_OK(Put(0, Alice(), 1, 100));
  ASSERT_OK(Fill(1, Alice(), 1, 100, &r));
  EXPECT_WHY(store_add_copy(s, &f, r), DRAY_STALE_GENERATION);
  EXPECT_WHY(store_move_copy(s, &f, 0, r), DRAY_STALE_GENERATION);
  EXPECT_WHY(store_drop(s, &f), DRAY_STALE_GENERATION);
  EXPECT_WHY(store_quarantine(s, &f), DRAY_STALE_GENERATION);
  EXPECT_WHY(store_evict(s, &f, 0), DRAY_STALE_GENERATION);
  store_discard(s, r);
  store_unpin(s, r);
}

TEST_F(CellTest, MovedCopyLeavesItsOldSlotToItsPins)
{
  cell_facts f{};
  slot_ref r{}, q{};
  ASSERT_OK(Put(0, Alice(), 1, 5000, &f));
  ASSERT_OK(Pin(t1, 1, &r));
  ASSERT_OK(Fill(2, Alice(), 1, 5000, &q));
  ASSERT_OK(store_move_copy(s, &f, 0, q));
  store_unpin(s, q);
  EXPECT_EQ(Stats(0).cells, 0u);
  EXPECT_EQ(Stats(2).cells, 1u);
  EXPECT_EQ(Bytes(r)[4999], 1);
  store_unpin(s, r);
}

TEST_F(CellTest, EvictedKeyIsSaidToBeEvicted)
{
  cell_facts f{};
  ASSERT_OK(Put(0, Alice(), 1, 100, &f));
  ASSERT_OK(store_evict(s, &f, 0));
  EXPECT_WHY(Find(t1, 1), DRAY_EVICTED);
  EXPECT_WHY(Find(t2, 1), DRAY_ABSENT);
  ASSERT_OK(Put(0, Alice(), 1, 100, &f));
  EXPECT_OK(Find(t1, 1));
  ASSERT_OK(store_drop(s, &f));
  EXPECT_WHY(Find(t1, 1), DRAY_ABSENT);
}

TEST_F(CellTest, EvictionOfOneCopyIsNoEvictionOfTheCell)
{
  cell_facts f{};
  slot_ref r{};
  ASSERT_OK(Put(0, Alice(), 1, 100, &f));
  ASSERT_OK(Fill(1, Alice(), 1, 100, &r));
  ASSERT_OK(store_add_copy(s, &f, r));
  store_unpin(s, r);
  ASSERT_OK(store_evict(s, &f, 0));
  EXPECT_OK(Find(t1, 1));
}

TEST_F(CellTest, PublishToTheTenantMovesTheCellToASlabOfItsNewScope)
{
  cell_facts f{}, g{};
  slot_ref r{};
  ASSERT_OK(Put(0, Alice(), 1, 100, &f));
  ASSERT_OK(Fill(0, Alice(DRAY_SCOPE_TENANT), 1, 100, &r));
  EXPECT_NE(r.slab, f.copy[0].slab);
  ASSERT_OK(store_publish(s, &f, DRAY_SCOPE_TENANT, DRAY_TRUSTED, 0, r, &g));
  store_unpin(s, r);
  EXPECT_EQ(g.scope, DRAY_SCOPE_TENANT);
  EXPECT_EQ(g.taint, DRAY_TAINTED) << "taint never falls";
  EXPECT_FALSE(store_cell_current(s, &f));
  EXPECT_TRUE(store_cell_current(s, &g));
  EXPECT_EQ(Stats(0).cells, 1u);
}

TEST_F(CellTest, PublishToTheFleetChangesTheDomain)
{
  cell_facts f{}, g{};
  slot_ref r{}, q{};
  ASSERT_OK(Put(0, Alice(), 1, 100, &f));
  ASSERT_OK(Fill(0, Alice(DRAY_SCOPE_FLEET), 1, 100, &r));
  ASSERT_OK(store_publish(s, &f, DRAY_SCOPE_FLEET, DRAY_TAINTED, 0, r, &g));
  store_unpin(s, r);
  EXPECT_FALSE(store_cell_current(s, &f));
  cell_facts h{};
  ASSERT_OK(Find(t2, 1, &h));
  EXPECT_EQ(h.idx, g.idx);
  ASSERT_OK(Put(0, Bob(), 1, 100, &f));
  ASSERT_OK(Fill(0, Bob(DRAY_SCOPE_FLEET), 1, 100, &q));
  EXPECT_WHY(store_publish(s, &f, DRAY_SCOPE_FLEET, 0, 0, q, &g), DRAY_EXISTS);
  EXPECT_TRUE(store_cell_current(s, &f));
  store_discard(s, q);
  store_unpin(s, q);
}

TEST_F(CellTest, CellThatNobodyJudgedYetMayBecomeTrusted)
{
  cell_facts f{}, g{};
  slot_ref r{}, q{};
  ASSERT_OK(Fill(0, Alice(), 1, 100, &r));
  cell_new n{};
  memcpy(n.key, K(1).b, 16);
  n.who = Alice();
  n.len = 100;
  ASSERT_OK(store_commit(s, &n, r, now, &f));
  store_unpin(s, r);
  ASSERT_OK(Fill(0, Alice(DRAY_SCOPE_TENANT), 1, 100, &q));
  ASSERT_OK(store_publish(s, &f, DRAY_SCOPE_TENANT, DRAY_TRUSTED, 0, q, &g));
  store_unpin(s, q);
  EXPECT_EQ(g.taint, DRAY_TRUSTED);
}

TEST_F(CellTest, QuarantineStaysWithTheCellWhenItIsPublished)
{
  cell_facts f{}, g{};
  slot_ref r{};
  ASSERT_OK(Put(0, Alice(), 1, 100, &f));
  ASSERT_OK(store_quarantine(s, &f));
  ASSERT_OK(Find(t1, 1, &g));
  EXPECT_EQ(g.state, CELL_QUARANTINED);
  ASSERT_OK(Fill(0, Alice(DRAY_SCOPE_FLEET), 1, 100, &r));
  ASSERT_OK(store_publish(s, &f, DRAY_SCOPE_FLEET, 0, 0, r, &g));
  store_unpin(s, r);
  EXPECT_EQ(g.state, CELL_QUARANTINED);
}

TEST_F(CellTest, LeaseIsOfItsSessionAndEndsOnce)
{
  ASSERT_OK(Put(0, Alice(), 1, 100));
  lease_info l{}, got{};
  ASSERT_OK(Pin(t1, 1, &l.slot));
  l.session = 5;
  l.row = 9;
  l.ctx = 77;
  l.len = 100;
  uint64_t id = 0, id2 = 0;
  ASSERT_OK(store_lease_add(s, &l, &id));
  EXPECT_NE(id, 0u);
  EXPECT_WHY(store_lease_find(s, 4, id, &got), DRAY_BAD_LEASE);
  EXPECT_WHY(store_lease_end(s, 4, id, false, &got), DRAY_BAD_LEASE);
  ASSERT_OK(store_lease_find(s, 5, id, &got));
  EXPECT_EQ(got.ctx, 77u);
  EXPECT_EQ(got.row, 9u);
  ASSERT_OK(store_lease_end(s, 5, id, false, &got));
  EXPECT_WHY(store_lease_end(s, 5, id, false, &got), DRAY_BAD_LEASE);
  l.slot = {};
  ASSERT_OK(store_lease_add(s, &l, &id2));
  EXPECT_NE(id2, id) << "the row is the same, the generation is not";
  EXPECT_WHY(store_lease_find(s, 5, id, &got), DRAY_BAD_LEASE);
  EXPECT_WHY(store_lease_find(s, 5, 0, &got), DRAY_BAD_LEASE);
  EXPECT_WHY(store_lease_find(s, 5, ~0ull, &got), DRAY_BAD_LEASE);
  ASSERT_OK(store_lease_end(s, 5, id2, false, &got));
}

TEST_F(CellTest, SessionsLeasesComeOneByOne)
{
  std::set<uint64_t> ids;
  lease_info l{}, got{};
  for (int i = 0; i < 30; i++) {
    uint64_t id;
    l.session = i % 3;
    ASSERT_OK(store_lease_add(s, &l, &id));
    if (l.session == 1)
      ids.insert(id);
  }
  Audit();
  while (store_lease_first(s, 1, &got) == DRAY_REASON_OK) {
    EXPECT_EQ(ids.erase(got.id), 1u);
    ASSERT_OK(store_lease_end(s, 1, got.id, false, &got));
  }
  EXPECT_TRUE(ids.empty());
  StoreStats st{};
  store_stats_get(&st);
  EXPECT_EQ(st.leases, 20u);
  l.session = 4096;
  uint64_t id;
  EXPECT_WHY(store_lease_add(s, &l, &id), DRAY_LIMIT);
}

/* Rows are handed to sessions in blocks: no id of one finds anything for another, and a closed session's rows are
   anybody's. */
TEST_F(CellTest, BlocksOfLeasesGoFromSessionToSession)
{
  lease_info l{}, got{};
  std::vector<uint64_t> ids;
  uint64_t id = 0;
  l.session = 1;
  while (store_lease_add(s, &l, &id) == DRAY_REASON_OK)
    ids.push_back(id);
  EXPECT_EQ(ids.size(), cfg.leases_max);
  l.session = 2;
  EXPECT_WHY(store_lease_add(s, &l, &id), DRAY_LIMIT);
  for (uint64_t i : ids)
    EXPECT_WHY(store_lease_find(s, 2, i, &got), DRAY_BAD_LEASE);
  for (size_t i = 0; i < ids.size(); i += 2)
    ASSERT_OK(store_lease_end(s, 1, ids[i], false, &got));
  EXPECT_WHY(store_lease_add(s, &l, &id), DRAY_LIMIT) << "every block still has a lease of the first";
  Audit();
  for (size_t i = 1; i < ids.size(); i += 2)
    ASSERT_OK(store_lease_end(s, 1, ids[i], false, &got));
  store_lease_close(s, 1);
  std::set<uint64_t> again;
  while (store_lease_add(s, &l, &id) == DRAY_REASON_OK)
    again.insert(id);
  EXPECT_EQ(again.size(), cfg.leases_max);
  for (uint64_t i : ids)
    EXPECT_FALSE(again.count(i)) << "generations went on";
  unsigned n = 0;
  for (unsigned why = store_lease_first(s, 2, &got); why == DRAY_REASON_OK; why = store_lease_next(s, 2, got.id, &got))
    n++;
  EXPECT_EQ(n, cfg.leases_max);
  Audit();
  while (store_lease_first(s, 2, &got) == DRAY_REASON_OK)
    ASSERT_OK(store_lease_end(s, 2, got.id, false, &got));
}

TEST_F(CellTest, WalkSeesEveryCellOnce)
{
  for (int i = 0; i < 5000; i++)
    ASSERT_OK(Put(0, Alice(), i, 64));
  std::set<uint32_t> seen;
  uint32_t cursor = 0, n;
  cell_facts f[32];
  do {
    n = store_walk(s, &cursor, f, 32);
    ASSERT_LE(n, 32u);
    for (uint32_t i = 0; i < n; i++)
      EXPECT_TRUE(seen.insert(f[i].idx).second);
  } while (cursor);
  EXPECT_EQ(seen.size(), 5000u);
}

TEST_F(CellTest, DirectoryGrowsBucketByBucket)
{
  StoreStats before{}, after{};
  uint64_t step = 0;
  for (int i = 0; i < 20000; i++) {
    store_stats_get(&before);
    ASSERT_OK(Put(0, Alice(), i, 64));
    store_stats_get(&after);
    step = std::max(step, after.directory_bytes - before.directory_bytes);
  }
  EXPECT_LE(step, 96u + 64 + 8) << "one record, one bucket, one row, and never a rehash";
  for (int i = 0; i < 20000; i++)
    ASSERT_OK(Find(t1, i));
  EXPECT_LE(after.directory_bytes / 20000, 128u);
  cell_facts f{};
  for (int i = 0; i < 20000; i += 2) {
    ASSERT_OK(Find(t1, i, &f));
    ASSERT_OK(store_drop(s, &f));
  }
  for (int i = 0; i < 20000; i++)
    EXPECT_WHY(Find(t1, i), i % 2 ? DRAY_REASON_OK : DRAY_ABSENT);
}

/* Buckets that a round of splits has not come to yet overflow into chains, and chains move up again. */
TEST_F(CellTest, ChurnKeepsBucketsAndChainsRight)
{
  std::set<int> there;
  std::mt19937 rng(5);
  cell_facts f{};
  const int keys = 20000;
  for (int i = 0; i < keys; i++) {
    ASSERT_OK(Put(0, Alice(), i, 64));
    there.insert(i);
    if (i % 1000 == 0)
      Audit();
  }
  for (int round = 0; round < 2 * keys; round++) {
    int i = (int)(rng() % keys);
    if (there.erase(i)) {
      ASSERT_OK(Find(t1, i, &f));
      ASSERT_OK(store_drop(s, &f));
    } else {
      ASSERT_OK(Put(0, Alice(), i, 64));
      there.insert(i);
    }
  }
  Audit();
  for (int i = 0; i < keys; i++)
    EXPECT_WHY(Find(t1, i), there.count(i) ? DRAY_REASON_OK : DRAY_ABSENT);
}

/* What store_expect says is only where to prefetch: for keys that are not there, too. */
TEST_F(CellTest, ExpectingChangesNothing)
{
  ASSERT_OK(Put(0, Alice(), 1, 100));
  Key k[40];
  store_hint hint[40];
  for (int i = 0; i < 40; i++) {
    k[i] = K(i);
    hint[i].key = k[i].b;
  }
  for (uint32_t n : {0u, 1u, 32u, 40u})
    store_expect(s, t1, hint, n, true);
  ASSERT_OK(Find(t1, 1));
  EXPECT_WHY(Find(t1, 2), DRAY_ABSENT);
  Audit();
}

TEST_F(CellTest, FewCellsTouchLittleMemory)
{
  for (int i = 0; i < 10000; i++)
    ASSERT_OK(Put(0, Alice(), i, 64));
  uint64_t touched = 0;
  for (int f : fd) {
    struct stat st;
    fstat(f, &st);
    touched += (uint64_t)st.st_blocks * 512;
  }
  EXPECT_LT(touched, 8u << 20);
}

TEST_F(CellTest, NamesAreInternedAndKeysCompared)
{
  EXPECT_EQ(store_tenant(s, "one"), t1);
  EXPECT_EQ(store_agent(s, t1, "alice"), a1);
  EXPECT_NE(store_agent(s, t2, "alice"), a1);
  EXPECT_STREQ(store_tenant_name(s, t2), "two");
  EXPECT_STREQ(store_agent_name(s, b1), "bob");
  EXPECT_EQ(store_tenant(s, ""), 0u);
  EXPECT_EQ(store_tenant(s, std::string(64, 'x').c_str()), 0u);
  EXPECT_NE(store_tenant(s, std::string(63, 'x').c_str()), 0u);
  EXPECT_EQ(store_agent(s, 999, "x"), 0u);
  EXPECT_EQ(store_tenant_name(s, 0), nullptr);
  EXPECT_EQ(store_tenant_name(s, 999), nullptr);
  dray_key k{};
  strcpy(k.model, "m");
  uint32_t id = store_mkey(s, &k);
  strcpy(k.model + 5, "junk after the end");
  EXPECT_EQ(store_mkey(s, &k), id);
  strcpy(k.model, "n");
  EXPECT_NE(store_mkey(s, &k), id);
  EXPECT_STREQ(store_mkey_get(s, id)->model, "m");
  EXPECT_EQ(store_mkey_get(s, 0), nullptr);
}

TEST_F(CellTest, AuditFindsABrokenBook)
{
  ASSERT_OK(Put(0, Alice(), 1, 100));
  ASSERT_OK(Put(0, Alice(), 2, 100));
  Audit();
  for (int arena : {ARENA_CELLS, ARENA_BUCKETS, ARENA_SLABS, ARENA_SLOTS}) {
    struct stat st;
    fstat(fd[arena], &st);
    uint32_t *w = (uint32_t *)mmap(nullptr, st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd[arena], 0);
    size_t broken = 0, tried = 0;
    for (size_t i = 0; i < (1u << 14) && tried < 64; i++) {
      if (!w[i])
        continue;
      uint32_t was = w[i];
      w[i] ^= 1;
      err e{};
      broken += store_audit(s, &e) == -EUCLEAN && e.text[0];
      w[i] = was;
      tried++;
    }
    EXPECT_GT(broken, 0u) << "arena " << arena;
    munmap(w, st.st_size);
  }
}
