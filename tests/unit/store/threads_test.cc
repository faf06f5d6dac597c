/* SPDX-License-Identifier: Apache-2.0 */
/* Four threads do everything at once to a small store; then the books must balance. */
#include <atomic>
#include <random>
#include <thread>

#include "tests/unit/store/store_kit.h"

class ThreadsTest : public StoreTest {
 protected:
  static constexpr uint64_t kKeys = 300;
  std::atomic<uint64_t> gave_up{0}; /* room was promised and did not come */

  /* Room, like a mover makes it: demote one rung, or evict at the end of the ladder. */
  unsigned AllocHard(uint32_t pool, const store_who &who, uint64_t len, slot_ref *r)
  {
    for (int i = 0; i < 200; i++) {
      unsigned why = store_alloc(s, pool, &who, len, r);
      if (why != DRAY_NO_ROOM)
        return why;
      cell_facts f{};
      slot_ref v{}, to{};
      why = store_victim(s, pool, &who, len, &f, &v);
      if (why == DRAY_ABSENT)
        continue;
      if (why != DRAY_REASON_OK)
        return why;
      store_who owner = {f.tenant, f.agent, f.scope};
      bool moved = false;
      if (pool == 0 && AllocHard(1, owner, f.len, &to) == DRAY_REASON_OK) {
        memcpy(Bytes(to), Bytes(v), f.len);
        moved = store_move_copy(s, &f, 0, to) == DRAY_REASON_OK;
        if (!moved)
          store_discard(s, to);
        store_unpin(s, to);
      }
      if (!moved)
        (void)store_evict(s, &f, (uint8_t)pool);
      store_unpin(s, v);
    }
    gave_up++;
    return DRAY_NO_ROOM;
  }

  static void Stamp(uint8_t *p, uint64_t n, uint64_t len)
  {
    memcpy(p, &n, 8);
    memcpy(p + len - 8, &n, 8);
  }

  void Run(uint32_t id, int steps)
  {
    std::mt19937_64 rng(id * 7919 + 1);
    store_who mine[3] = {Alice(), Who(t1, a2, DRAY_SCOPE_TENANT), Bob()};
    for (int i = 0; i < steps; i++) {
      store_who who = mine[rng() % 3];
      uint64_t n = rng() % kKeys, len = 1000 + (n * 37) % 9000;
      cell_facts f{}, g{};
      slot_ref r{};
      switch (rng() % 10) {
      case 0:
      case 1:
      case 2: { /* put */
        if (AllocHard(rng() % 2, who, len, &r) != DRAY_REASON_OK)
          break;
        Stamp(Bytes(r), n, len);
        if (Commit(who, n, len, r) != DRAY_REASON_OK)
          store_discard(s, r);
        store_unpin(s, r);
        break;
      }
      case 3:
      case 4:
      case 5: { /* map, look, unmap */
        Key k = K(n);
        store_hint hint{k.b};
        store_expect(s, who.tenant, &hint, 1, true);
        if (Pin(who.tenant, n, &r, &f) != DRAY_REASON_OK || !r.slab)
          break;
        lease_info l{};
        l.session = id;
        l.slot = r;
        uint64_t lease = 0;
        if (store_lease_add(s, &l, &lease) != DRAY_REASON_OK) {
          store_unpin(s, r);
          break;
        }
        for (int look = 0; look < 3; look++) {
          uint64_t head, tail;
          memcpy(&head, Bytes(r), 8);
          memcpy(&tail, Bytes(r) + f.len - 8, 8);
          ASSERT_EQ(head, n);
          ASSERT_EQ(tail, n);
          std::this_thread::yield();
        }
        ASSERT_OK(store_lease_end(s, id, lease, false, &l));
        break;
      }
      case 6: /* drop */
        if (Find(who.tenant, n, &f) == DRAY_REASON_OK)
          (void)store_drop(s, &f);
        break;
      case 7: { /* promote */
        if (Pin(who.tenant, n, &r, &f, DRAY_TIER_CXL) != DRAY_REASON_OK || !r.slab)
          break;
        slot_ref to{};
        if (AllocHard(0, {f.tenant, f.agent, f.scope}, f.len, &to) == DRAY_REASON_OK) {
          memcpy(Bytes(to), Bytes(r), f.len);
          if (store_add_copy(s, &f, to) != DRAY_REASON_OK)
            store_discard(s, to);
          store_unpin(s, to);
        }
        store_unpin(s, r);
        break;
      }
      case 8: { /* publish */
        if (Pin(who.tenant, n, &r, &f) != DRAY_REASON_OK || !r.slab)
          break;
        slot_ref to{};
        uint8_t scope = DRAY_SCOPE_TENANT + rng() % 2;
        scope = std::max(scope, f.scope);
        if (AllocHard(0, {f.tenant, f.agent, scope}, f.len, &to) == DRAY_REASON_OK) {
          memcpy(Bytes(to), Bytes(r), f.len);
          if (store_publish(s, &f, scope, DRAY_TAINTED, 0, to, &g) != DRAY_REASON_OK)
            store_discard(s, to);
          store_unpin(s, to);
        }
        store_unpin(s, r);
        break;
      }
      default: {
        StoreStats st{};
        store_stats_get(&st);
        cell_facts some[8];
        uint32_t cursor = (uint32_t)(rng() % 64) << 26;
        (void)store_walk(s, &cursor, some, 8);
        if (Find(who.tenant, n, &f) == DRAY_REASON_OK && rng() % 4 == 0)
          (void)store_quarantine(s, &f);
        (void)store_mkey_get(s, 1);
        break;
      }
      }
    }
  }
};

TEST_F(ThreadsTest, FourThreadsOfRandomWorkLeaveTheBooksBalanced)
{
  AddPool(DRAY_TIER_DRAM, 1 << 20);
  AddPool(DRAY_TIER_CXL, 2 << 20);
  cfg.pool[0].slab_bytes_max = 128 << 10;
  cfg.pool[1].slab_bytes_max = 256 << 10;
  Open();
  const char *more = getenv("STORE_STEPS");
  int steps = more ? atoi(more) : 20000;
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < 4; i++)
    threads.emplace_back([this, i, steps] { Run(i, steps); });
  for (auto &t : threads)
    t.join();
  Audit();
  StoreStats st{};
  store_stats_get(&st);
  EXPECT_GT(st.cells, 0u);
  EXPECT_GT(st.evicted, 0u);
  EXPECT_EQ(st.leases, 0u);
  EXPECT_LE(gave_up, (uint64_t)steps / 100) << "room that was promised did not come";
  EXPECT_EQ(st.slabs, hooks.live.size());
}
