/* SPDX-License-Identifier: Apache-2.0 */
/* A store over fake devices, and the few steps that most tests are made of. */
#ifndef TESTS_UNIT_STORE_STORE_KIT_H
#define TESTS_UNIT_STORE_STORE_KIT_H

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <vector>

#include "tests/unit/store/fake_dev.h"

struct Key {
  uint8_t b[16];
};
inline Key K(uint64_t n)
{
  Key k{};
  memcpy(k.b, &n, 8);
  n = ~n;
  memcpy(k.b + 8, &n, 8);
  return k;
}

struct Hooks {
  std::mutex lock;
  std::set<uint32_t> live;
  uint64_t made = 0, gone = 0;
  int made_fails = 0;
  bool lent = false;
};

class StoreTest : public ::testing::Test {
protected:
  store_config cfg{};
  int fd[ARENA_COUNT];
  std::vector<std::unique_ptr<FakeDev>> devs;
  store *s = nullptr;
  Hooks hooks;
  uint32_t t1 = 0, t2 = 0, a1 = 0, a2 = 0, b1 = 0;
  uint32_t now = 1000;

  StoreTest()
  {
    for (int &f : fd)
      f = memfd_create("arena", 0);
    cfg.cells_max = 1 << 16;
    cfg.slabs_max = 1024;
    cfg.leases_max = 1024;
    cfg.seed = 12345;
  }
  ~StoreTest() override
  {
    if (s)
      Audit();
    store_free(s);
    for (int f : fd)
      close(f);
  }
  FakeDev *AddPool(uint8_t tier, uint64_t capacity, bool persistent = false)
  {
    devs.push_back(std::make_unique<FakeDev>(capacity, persistent));
    store_pool_config &p = cfg.pool[cfg.pools++];
    snprintf(p.name, sizeof p.name, "pool%u", cfg.pools - 1);
    p.tier = tier;
    p.attendable = !persistent;
    p.dev = &devs.back()->d;
    p.capacity = capacity;
    return devs.back().get();
  }
  void Open()
  {
    store_hooks h = {&hooks, Made, Gone, Lent};
    err e{};
    ASSERT_EQ(store_new(&cfg, fd, &h, &e, &s), 0) << e.text;
    t1 = store_tenant(s, "one");
    t2 = store_tenant(s, "two");
    a1 = store_agent(s, t1, "alice");
    a2 = store_agent(s, t1, "anna");
    b1 = store_agent(s, t2, "bob");
  }
  void Reopen()
  {
    s = store_free(s);
    hooks.live.clear();
    Open();
  }
  void Audit()
  {
    err e{};
    ASSERT_EQ(store_audit(s, &e), 0) << e.text;
  }
  store_who Who(uint32_t tenant, uint32_t agent, uint8_t scope = DRAY_SCOPE_AGENT) { return {tenant, agent, scope}; }
  store_who Alice(uint8_t scope = DRAY_SCOPE_AGENT) { return Who(t1, a1, scope); }
  store_who Bob(uint8_t scope = DRAY_SCOPE_AGENT) { return Who(t2, b1, scope); }

  /* Writes the key's number all over a new slot. */
  unsigned Fill(uint32_t pool, store_who who, uint64_t n, uint64_t len, slot_ref *r)
  {
    unsigned why = store_alloc(s, pool, &who, len, r);
    if (why == DRAY_REASON_OK)
      memset(Bytes(*r), (int)(n & 0xff), len);
    return why;
  }
  unsigned Put(uint32_t pool, store_who who, uint64_t n, uint64_t len, cell_facts *f = nullptr, bool no_replace = false)
  {
    slot_ref r{};
    unsigned why = Fill(pool, who, n, len, &r);
    if (why != DRAY_REASON_OK)
      return why;
    why = Commit(who, n, len, r, f, no_replace);
    if (why != DRAY_REASON_OK)
      store_discard(s, r);
    store_unpin(s, r);
    return why;
  }
  unsigned Commit(store_who who, uint64_t n, uint64_t len, slot_ref r, cell_facts *f = nullptr, bool no_replace = false)
  {
    cell_facts made{};
    cell_new c{};
    memcpy(c.key, K(n).b, 16);
    c.who = who;
    c.len = len;
    c.crc = (uint32_t)n;
    c.has_crc = 1;
    c.taint = DRAY_TAINTED;
    c.no_replace = no_replace;
    unsigned why = store_commit(s, &c, r, now, &made);
    if (f && why == DRAY_REASON_OK)
      *f = made;
    return why;
  }
  unsigned Find(uint32_t tenant, uint64_t n, cell_facts *f = nullptr)
  {
    cell_facts got{};
    slot_ref r{};
    unsigned why = store_find(s, tenant, K(n).b, PIN_NONE, now, &got, &r);
    if (f && why == DRAY_REASON_OK)
      *f = got;
    return why;
  }
  unsigned Pin(uint32_t tenant, uint64_t n, slot_ref *r, cell_facts *f = nullptr, uint8_t tier = DRAY_TIER_ANY)
  {
    cell_facts got{};
    unsigned why = store_find(s, tenant, K(n).b, tier, now, &got, r);
    if (f && why == DRAY_REASON_OK)
      *f = got;
    return why;
  }
  /* The slab of n's copy in pool 0. */
  uint32_t SlabOf(uint32_t tenant, uint64_t n)
  {
    cell_facts f{};
    return Find(tenant, n, &f) == DRAY_REASON_OK ? f.copy[0].slab : 0;
  }
  uint8_t *Bytes(slot_ref r)
  {
    slot_mem m{};
    store_slot_mem(s, r, &m);
    return (uint8_t *)m.mem->base + m.off;
  }
  uint64_t SlotBytes(slot_ref r)
  {
    slot_mem m{};
    store_slot_mem(s, r, &m);
    return m.slot_bytes;
  }
  pool_stats Stats(uint32_t pool)
  {
    StoreStats st{};
    store_stats_get(&st);
    return st.pool[pool];
  }
  void store_stats_get(StoreStats *st) { ::store_stats(s, st); }

  static int Made(void *ctx, uint32_t slab, const slab_mem *mem)
  {
    Hooks *h = (Hooks *)ctx;
    std::lock_guard<std::mutex> g(h->lock);
    if (h->made_fails)
      return h->made_fails;
    EXPECT_TRUE(slab && mem->bytes && h->live.insert(slab).second);
    h->made++;
    return 0;
  }
  static void Gone(void *ctx, uint32_t slab)
  {
    Hooks *h = (Hooks *)ctx;
    std::lock_guard<std::mutex> g(h->lock);
    EXPECT_EQ(h->live.erase(slab), 1u);
    h->gone++;
  }
  static bool Lent(void *ctx, uint32_t) { return ((Hooks *)ctx)->lent; }
};

#define EXPECT_OK(e) EXPECT_EQ((unsigned)(e), (unsigned)DRAY_REASON_OK)
#define ASSERT_OK(e) ASSERT_EQ((unsigned)(e), (unsigned)DRAY_REASON_OK)
#define EXPECT_WHY(e, why) EXPECT_EQ((unsigned)(e), (unsigned)(why))
#endif
