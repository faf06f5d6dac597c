/* SPDX-License-Identifier: Apache-2.0 */
/* Reserve and limit: what a tenant is promised is there whatever others want, and nobody gets past its limit. */
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "tests/unit/store/store_kit.h"

static constexpr uint64_t kKiB = 1024, kMiB = 1 << 20;

class QuotaTest : public StoreTest {
 protected:
  void One(uint64_t capacity, uint64_t slab_max = 256 << 10)
  {
    AddPool(DRAY_TIER_DRAM, capacity);
    cfg.pool[0].slab_bytes_max = slab_max;
    Open();
  }
  void Quota(uint32_t tenant, uint64_t reserve, uint64_t limit, uint32_t weight = 1, uint32_t pool = 0)
  {
    auto &all = quotas[pool];
    all.erase(std::remove_if(all.begin(), all.end(), [&](const store_quota &q) { return q.tenant == tenant; }), all.end());
    all.push_back({reserve, limit, tenant, weight});
    store_quota_set(s, pool, all.data(), (uint32_t)all.size());
  }
  std::vector<store_quota> quotas[2];
  struct store_usage Usage(uint32_t tenant, uint32_t pool = 0)
  {
    struct store_usage u {};
    ::store_usage(s, pool, tenant, &u);
    return u;
  }
  /* Puts until one is refused: how many went in. */
  int PutAll(store_who who, uint64_t first, uint64_t len, int max, unsigned *why)
  {
    for (int i = 0; i < max; i++)
      if ((*why = Put(0, who, first + i, len)) != DRAY_REASON_OK)
        return i;
    return max;
  }
  /* Makes room like a mover that evicts. */
  unsigned PutHard(uint32_t pool, store_who who, uint64_t n, uint64_t len)
  {
    for (int i = 0; i < 400; i++) {
      unsigned why = Put(pool, who, n, len);
      if (why != DRAY_NO_ROOM && why != DRAY_QUOTA_EXCEEDED)
        return why;
      cell_facts f{};
      slot_ref v{};
      unsigned got = store_victim(s, pool, &who, len, &f, &v);
      if (got == DRAY_ABSENT)
        continue;
      if (got != DRAY_REASON_OK)
        return why;
      (void)store_evict(s, &f, (uint8_t)pool);
      store_unpin(s, v);
    }
    return DRAY_NO_ROOM;
  }
};

TEST_F(QuotaTest, TheLimitIsWhereATenantEndsAndOthersDoNotNotice)
{
  One(8 * kMiB);
  Quota(t1, 0, 2 * kMiB);
  unsigned why = 0;
  EXPECT_EQ(PutAll(Alice(), 0, 64 * kKiB, 200, &why), 32) << "every byte of the limit is used";
  EXPECT_WHY(why, DRAY_QUOTA_EXCEEDED);
  EXPECT_EQ(Usage(t1).charged, 2 * kMiB);
  EXPECT_EQ(PutAll(Bob(), 0, 64 * kKiB, 96, &why), 96);
}

TEST_F(QuotaTest, ALimitOfNothingGivesNothing)
{
  One(kMiB);
  Quota(t1, 0, 0);
  EXPECT_WHY(Put(0, Alice(), 1, 100), DRAY_QUOTA_EXCEEDED);
  EXPECT_EQ(Usage(t1).charged, 0u);
}

TEST_F(QuotaTest, WhatIsFreedMayBeTakenAgain)
{
  One(8 * kMiB);
  Quota(t1, 0, kMiB);
  unsigned why = 0;
  ASSERT_EQ(PutAll(Alice(), 0, 64 * kKiB, 100, &why), 16);
  for (int i = 0; i < 16; i++) {
    cell_facts f{};
    ASSERT_OK(Find(t1, i, &f));
    ASSERT_OK(store_drop(s, &f));
  }
  EXPECT_EQ(PutAll(Alice(), 100, 96 * kKiB, 100, &why), 10) << "another class: the kept slabs of the first give way";
  EXPECT_WHY(why, DRAY_QUOTA_EXCEEDED);
  EXPECT_LE(Usage(t1).peak, kMiB);
}

TEST_F(QuotaTest, AReserveIsThereAlthoughEverybodyElseWantsIt)
{
  One(4 * kMiB);
  Quota(t2, kMiB, UINT64_MAX);
  unsigned why = 0;
  EXPECT_EQ(PutAll(Alice(), 0, 64 * kKiB, 100, &why), 48);
  EXPECT_WHY(why, DRAY_NO_ROOM);
  EXPECT_EQ(PutAll(Bob(), 0, 64 * kKiB, 16, &why), 16) << "without moving anything out";
}

TEST_F(QuotaTest, NobodyIsPushedBelowItsReserve)
{
  One(4 * kMiB);
  unsigned why = 0;
  ASSERT_EQ(PutAll(Bob(), 0, 64 * kKiB, 64, &why), 64);
  Quota(t2, 3 * kMiB, UINT64_MAX);
  for (int i = 0; i < 100; i++)
    ASSERT_OK(PutHard(0, Alice(), 1000 + i, 64 * kKiB)) << i;
  EXPECT_GE(Usage(t2).charged, 3 * kMiB);
  EXPECT_EQ(Usage(t1).charged, kMiB);
  int kept = 0;
  for (int i = 0; i < 64; i++)
    kept += Find(t2, i) == DRAY_REASON_OK;
  EXPECT_EQ(kept, 48);
}

TEST_F(QuotaTest, AReserveSetLateIsTakenBackFromWhoHasMoreThanItsOwn)
{
  One(4 * kMiB);
  unsigned why = 0;
  ASSERT_EQ(PutAll(Alice(), 0, 64 * kKiB, 64, &why), 64);
  Quota(t2, 3 * kMiB, UINT64_MAX);
  for (int i = 0; i < 48; i++)
    ASSERT_OK(PutHard(0, Bob(), i, 64 * kKiB)) << i;
  EXPECT_EQ(Usage(t2).charged, 3 * kMiB) << "more than half of the pool: its reserve, not its fair share";
}

TEST_F(QuotaTest, ATenantAtItsLimitGivesOfItsOwnAlone)
{
  One(4 * kMiB);
  Quota(t1, 0, kMiB);
  unsigned why = 0;
  ASSERT_EQ(PutAll(Bob(), 0, 64 * kKiB, 48, &why), 48);
  for (int i = 0; i < 60; i++)
    ASSERT_OK(PutHard(0, Alice(), i, (64 + i % 3 * 16) * kKiB)) << i;
  EXPECT_LE(Usage(t1).peak, kMiB);
  for (int i = 0; i < 48; i++)
    EXPECT_WHY(Find(t2, i), DRAY_REASON_OK) << i;
}

TEST_F(QuotaTest, WhatIsAboveTheReservesIsDividedByWeight)
{
  One(4 * kMiB);
  Quota(t1, 0, UINT64_MAX, 3);
  Quota(t2, 0, UINT64_MAX, 1);
  for (int i = 0; i < 400; i++) {
    ASSERT_OK(PutHard(0, Alice(), i, 64 * kKiB));
    ASSERT_OK(PutHard(0, Bob(), 1000 + i, 64 * kKiB));
  }
  EXPECT_NEAR((double)Usage(t1).charged, 3.0 * kMiB, 0.3 * kMiB);
}

TEST_F(QuotaTest, WhatIsSetAsideIsChargedAndBecomesTheSlab)
{
  One(4 * kMiB);
  Quota(t1, 0, 128 * kKiB);
  ASSERT_OK(store_reserve(s, 0, t1, 128 * kKiB));
  EXPECT_WHY(store_reserve(s, 0, t1, 4096), DRAY_QUOTA_EXCEEDED);
  EXPECT_WHY(Put(0, Alice(), 1, 100), DRAY_QUOTA_EXCEEDED);
  Quota(t1, 0, 4096); /* what was granted is not refused now */
  slab_mem m{};
  m.bytes = 128 * kKiB;
  m.fd = memfd_create("fill", 0);
  ASSERT_EQ(ftruncate(m.fd, (off_t)m.bytes), 0);
  m.base = mmap(nullptr, m.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m.fd, 0);
  store_who w = Alice();
  slot_ref r{};
  ASSERT_OK(store_adopt(s, 0, &w, &m, m.bytes, true, &r));
  EXPECT_EQ(Usage(t1).charged, 128 * kKiB);
  Audit();
  store_discard(s, r);
  store_unpin(s, r);
  EXPECT_EQ(Usage(t1).charged, 0u);
}

TEST_F(QuotaTest, EightThreadsOnOneQuotaNeverPassItAndTheReserveIsServed)
{
  One(16 * kMiB, 512 * kKiB);
  Quota(t1, kMiB, 3 * kMiB);
  Quota(t2, 4 * kMiB, 4 * kMiB);
  uint32_t t3 = store_tenant(s, "three"), c1 = store_agent(s, t3, "carl");
  std::atomic<uint64_t> refused{0}, served{0}, over{0};
  std::vector<std::thread> threads;
  for (int id = 0; id < 8; id++)
    threads.emplace_back([&, id] {
      std::mt19937_64 rng(id);
      for (int i = 0; i < 600; i++) {
        uint64_t len = (16 + rng() % 4 * 8) * kKiB;
        unsigned why = Put(0, Alice(), id * 100000 + i, len);
        (why == DRAY_REASON_OK ? served : refused)++;
        EXPECT_TRUE(why == DRAY_REASON_OK || why == DRAY_QUOTA_EXCEEDED || why == DRAY_NO_ROOM) << why; /* above its reserve */
        if (Usage(t1).charged > 3 * kMiB)
          over++;
        cell_facts f{};
        if (rng() % 3 == 0 && Find(t1, id * 100000 + rng() % (i + 1), &f) == DRAY_REASON_OK)
          (void)store_drop(s, &f);
        (void)Put(0, Who(t3, c1), id * 100000 + i, len); /* takes all there is */
      }
    });
  std::thread owed([&] {
    for (int i = 0; i < 64; i++)
      EXPECT_OK(Put(0, Bob(), i, 64 * kKiB)) << i;
  });
  owed.join();
  for (auto &t : threads)
    t.join();
  EXPECT_EQ(over, 0u);
  EXPECT_GT(refused, 0u);
  EXPECT_GT(served, 0u);
  EXPECT_LE(Usage(t1).peak, 3 * kMiB);
  EXPECT_EQ(Usage(t2).charged, 4 * kMiB);
}

/* QUOTA_STEPS=1000000 for the whole. */
TEST_F(QuotaTest, BooksEqualTheStoreAfterRandomOperations)
{
  AddPool(DRAY_TIER_DRAM, 4 * kMiB);
  AddPool(DRAY_TIER_CXL, 4 * kMiB);
  cfg.pool[0].slab_bytes_max = cfg.pool[1].slab_bytes_max = 256 * kKiB;
  Open();
  const char *more = getenv("QUOTA_STEPS");
  int steps = more ? atoi(more) : 20000;
  std::mt19937_64 rng(7);
  store_who who[4] = {Alice(), Who(t1, a2, DRAY_SCOPE_TENANT), Bob(), Bob(DRAY_SCOPE_TENANT)};
  std::vector<std::pair<uint32_t, uint64_t>> aside;
  for (int i = 0; i < steps; i++) {
    store_who w = who[rng() % 4];
    uint32_t pool = rng() % 2;
    uint64_t n = rng() % 200, len = 1000 + n * 300;
    cell_facts f{};
    switch (rng() % 8) {
    case 0:
      Quota(w.tenant, rng() % 3 * kMiB / 2, rng() % 3 ? UINT64_MAX : (2 + rng() % 3) * kMiB, 1 + rng() % 4, pool);
      break;
    case 1:
      if (aside.size() < 8 && store_reserve(s, 0, w.tenant, len) == DRAY_REASON_OK)
        aside.emplace_back(w.tenant, len);
      break;
    case 2:
      if (!aside.empty()) {
        store_unreserve(s, 0, aside.back().first, aside.back().second);
        aside.pop_back();
      }
      break;
    case 3:
      if (Find(w.tenant, n, &f) == DRAY_REASON_OK)
        (void)store_drop(s, &f);
      break;
    default:
      (void)PutHard(pool, w, n, len);
    }
    if (i % (steps / 20) == 0)
      Audit();
  }
}
