/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Poison round after round, and a mover whose tiers all go wrong under load.
 * DRAY_STRESS_POISON (60): rounds; 1,000 by hand. DRAY_STRESS_FAULT (1,500): directives of each engine under faults.
 */
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <thread>

#include "tests/kit/mover.h"
#include "tests/kit/poison.h"

using kit::Engine;
using kit::Key;
using kit::Mover;
using kit::say;

namespace {
#if defined(__SANITIZE_ADDRESS__)
constexpr int64_t kRssSlack = 320 << 10; /* KiB; its quarantine of freed memory alone grows to 256 MiB */
#else
constexpr int64_t kRssSlack = 8 << 10;
#endif
constexpr uint64_t kCell = 64 << 10;

int Number(const char *env, int otherwise)
{
  const char *v = getenv(env);
  return v && atoi(v) > 0 ? atoi(v) : otherwise;
}
bool CanPoison()
{
  void *p = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int r = kit::poison_mapping(p, 4096);
  munmap(p, 4096);
  return r == 0;
}
struct dray_cqe Next(Engine &e, bool notice)
{
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::chrono::steady_clock::now() < end) {
    if (dray_wait(e.d, 1, 200) < 0)
      continue;
    struct dray_cqe c = *dray_peek(e.d);
    dray_seen(e.d);
    if ((c.type == DRAY_POISON) == notice)
      return c;
  }
  return {};
}
struct Level {
  int64_t rss, slabs, leases, cells;
  int fds, maps;
};
Level Look(const Mover &m)
{
  return {m.status("rss_kib"), m.status("slabs"), m.status("leases"), m.status("cells"), kit::fd_count(m.worker()),
          kit::map_count(m.worker())};
}
} // namespace

TEST(StressPoison, RoundsLeakNothing)
{
  if (!CanPoison())
    GTEST_SKIP() << "this kernel has no UFFDIO_POISON (6.6)";
  int rounds = Number("DRAY_STRESS_POISON", 60);
  kit::MoverOptions o;
  o.sets = {"tier.dram.capacity=64MiB", "tier.dram.fault=poison=1/1", "lanes=2", "log=error"};
  Mover m(o);
  ASSERT_TRUE(m.up()) << m.log();
  Engine a(m), b(m);
  a.fill(0, kCell, 1);
  auto round = [&](int i) {
    std::string name = "round" + std::to_string(i);
    ASSERT_EQ(a.put(name, 0, kCell, DRAY_TIER_DRAM).status, DRAY_OK) << i;
    auto la = a.map(name), lb = b.map(name);
    ASSERT_EQ(la.status, DRAY_OK) << i << say(la);
    ASSERT_EQ(lb.status, DRAY_OK) << i << say(lb);
    dray_prep_get(a.sqe(), Key(name).b, a.region.id, kCell, kCell, 0);
    ASSERT_EQ(dray_submit(a.d), 1);
    auto c = Next(a, false);
    ASSERT_EQ(c.status, DRAY_FAULT) << i << say(c);
    ASSERT_EQ(c.reason, DRAY_POISONED) << i;
    ASSERT_EQ(c.off, 0u);
    ASSERT_EQ(c.detail, 4096u);
    auto na = Next(a, true), nb = Next(b, true);
    ASSERT_EQ(na.object, la.object) << i;
    ASSERT_EQ(nb.object, lb.object) << i;
    ASSERT_EQ(a.unmap(la.object).status, DRAY_OK);
    ASSERT_EQ(b.unmap(lb.object).status, DRAY_OK);
    ASSERT_EQ(a.get(name, 0, kCell).reason, DRAY_POISONED);
    ASSERT_EQ(a.drop(name).status, DRAY_OK);
  };
  for (int i = 0; i < 16 && !HasFatalFailure(); i++)
    round(i);
  Level before = Look(m);
  for (int i = 16; i < 16 + rounds && !HasFatalFailure(); i++)
    round(i);
  ASSERT_FALSE(HasFatalFailure());
  Level after = Look(m);
  EXPECT_EQ(m.status("poison.units"), 16 + rounds);
  EXPECT_EQ(m.status("poison.notices"), 2 * (16 + rounds));
  EXPECT_EQ(after.leases, 0);
  EXPECT_EQ(after.cells, 0);
  EXPECT_LE(after.slabs, before.slabs + 1) << "one class, its size growing: at most two slabs are under way";
  EXPECT_LE(after.fds, before.fds + 2);
  EXPECT_LE(after.maps, before.maps + 2);
  EXPECT_LE(after.rss, before.rss + kRssSlack);
  EXPECT_TRUE(m.audit_clean());
  printf("%d rounds: rss %ld -> %ld KiB, fds %d -> %d, mappings %d -> %d, slabs %ld -> %ld, leases %ld, barred now %ld "
         "units\n",
         rounds, (long)before.rss, (long)after.rss, before.fds, after.fds, before.maps, after.maps, (long)before.slabs,
         (long)after.slabs, (long)after.leases, (long)m.status("poison.barred_units"));
  EXPECT_EQ(m.stop(), 0);
}

namespace {
/* One engine's own cells: what each must hold, or that nobody can say. */
class Worker {
public:
  Worker(const Mover &m, int id) : e_(m, {.agent = "w" + std::to_string(id), .region = 32 * kMax}), id_(id), rng_(id + 1) {}
  uint64_t ok = 0, failed = 0, wrong = 0, lost = 0, twice = 0;
  std::map<unsigned, uint64_t> reasons;

  void Run(int n)
  {
    if (e_.error())
      return;
    int sent = 0;
    while (sent < n || !open_.empty()) {
      while (sent < n && open_.size() < 24 && Send(sent))
        sent++;
      dray_submit(e_.d);
      if (dray_wait(e_.d, 1, 30000) < 0) {
        lost += open_.size();
        return;
      }
      while (const struct dray_cqe *c = dray_peek(e_.d)) {
        if (c->type == DRAY_DONE)
          Ended(*c);
        dray_seen(e_.d);
      }
    }
  }
  /* All its cells away, the poisoned ones, too. */
  void Clear()
  {
    for (int i = 0; i < 40; i++) {
      dray_prep_drop(e_.sqe(), Key("w" + std::to_string(id_) + "-" + std::to_string(i)).b, 0);
      dray_submit(e_.d);
      auto c = Next(e_, false);
      EXPECT_TRUE(c.status == DRAY_OK || c.status == DRAY_MISSED) << say(c);
    }
  }

private:
  static constexpr uint64_t kMax = 512 << 10;
  struct Sent {
    int cell, place;
    uint8_t op;
    uint64_t len, seed;
  };
  struct Cell {
    bool busy = false, known = false;
    uint64_t len = 0, seed = 0;
  };
  bool Send(int nr)
  {
    int cell = static_cast<int>(rng_() % 40), place = 0;
    if (cells_[cell].busy)
      return false;
    while (place < 32 && places_[place])
      place++;
    if (place == 32)
      return false;
    struct dray_sqe *q = dray_get_sqe(e_.d);
    if (!q)
      return false;
    Cell &c = cells_[cell];
    Sent s = {cell, place, static_cast<uint8_t>(DRAY_PUT), 4096 * (1 + rng_() % 128), (uint64_t)id_ << 32 | nr};
    static constexpr uint8_t tiers[] = {0, DRAY_TIER_DRAM, DRAY_TIER_CXL, DRAY_TIER_DISK};
    uint8_t tier = tiers[rng_() % 4];
    Key k("w" + std::to_string(id_) + "-" + std::to_string(cell));
    unsigned what = rng_() % 10;
    if (c.known && what < 5) {
      s.op = DRAY_GET;
      s.len = c.len;
      dray_prep_get(q, k.b, e_.region.id, place * kMax, s.len, 0);
    } else if (c.known && what == 5) {
      s.op = DRAY_MOVE;
      dray_prep_move(q, k.b, tier ? tier : (uint8_t)DRAY_TIER_DISK, 0);
    } else if (c.known && what == 6) {
      s.op = DRAY_DROP;
      dray_prep_drop(q, k.b, 0);
    } else {
      e_.fill(place * kMax, s.len, s.seed);
      dray_prep_put(q, k.b, e_.region.id, place * kMax, s.len, tier);
    }
    q->cookie = nr + 1;
    c.busy = true;
    places_[place] = true;
    open_[q->cookie] = s;
    return true;
  }
  void Ended(const struct dray_cqe &d)
  {
    auto at = open_.find(d.cookie);
    if (at == open_.end()) {
      twice++;
      return;
    }
    Sent s = at->second;
    open_.erase(at);
    places_[s.place] = false;
    Cell &c = cells_[s.cell];
    c.busy = false;
    if (d.status != DRAY_OK) {
      failed++;
      reasons[d.reason]++;
      /* the proven prefix is right also then */
      if (s.op == DRAY_GET && d.bytes && !e_.holds(s.place * kMax, d.bytes & ~7ull, c.seed))
        wrong++;
      if (s.op == DRAY_GET && (d.reason == DRAY_ABSENT || d.reason == DRAY_EVICTED || d.reason == DRAY_POISONED))
        c.known = false;
      return;
    }
    ok++;
    if (s.op == DRAY_GET && (d.bytes != s.len || !e_.holds(s.place * kMax, s.len, c.seed)))
      wrong++;
    if (s.op == DRAY_PUT)
      c = {false, true, s.len, s.seed};
    if (s.op == DRAY_DROP)
      c.known = false;
  }
  Engine e_;
  int id_;
  std::mt19937_64 rng_;
  std::map<uint64_t, Sent> open_;
  Cell cells_[40];
  bool places_[32] = {};
};
} // namespace

TEST(StressFault, ALadderThatGoesWrongLosesNothingAndSaysTheTruth)
{
  int n = Number("DRAY_STRESS_FAULT", 1500);
  kit::MoverOptions o;
  std::string poison = CanPoison() ? " poison=1/300" : "";
  o.sets = {"lanes=2",
            "log=error",
            "tier.dram.capacity=12MiB",
            "tier.cxl.capacity=12MiB",
            "tier.dram.fault=seed=1 fail=EIO:1/100 short=1/80 delay=1/15:3 reorder=1/8 drop=1/400:40ms" + poison,
            "tier.cxl.fault=seed=2 fail=ETIMEDOUT:1/90 short=1/70 delay=1/12:2ms reorder=1/6 drop=1/300:30ms" + poison,
            "tier.disk.fault=seed=3 fail=EIO:1/80 short=1/60 delay=1/10:4ms reorder=1/5 drop=1/200:50ms poison=1/400"};
  Mover m(o);
  ASSERT_TRUE(m.up()) << m.log();
  int fds = kit::fd_count(m.worker());
  uint64_t ok = 0, failed = 0;
  std::map<unsigned, uint64_t> reasons;
  {
    std::vector<std::unique_ptr<Worker>> w;
    std::vector<std::thread> t;
    for (int i = 0; i < 4; i++)
      w.push_back(std::make_unique<Worker>(m, i));
    for (auto &x : w)
      t.emplace_back([&x, n] { x->Run(n); });
    for (auto &x : t)
      x.join();
    for (auto &x : w) {
      x->Clear();
      EXPECT_EQ(x->wrong, 0u);
      EXPECT_EQ(x->lost, 0u);
      EXPECT_EQ(x->twice, 0u);
      ok += x->ok;
      failed += x->failed;
      for (auto &r : x->reasons)
        reasons[r.first] += r.second;
    }
  }
  EXPECT_EQ(ok + failed, 4u * n);
  EXPECT_GT(failed, 0u);
  EXPECT_TRUE(m.wait_status("sessions", 0));
  EXPECT_EQ(m.status("leases"), 0);
  EXPECT_EQ(m.status("cells"), 0);
  EXPECT_TRUE(m.audit_clean()) << m.ask("{\"verb\":\"audit\"}");
  /* slabs are left that are kept empty, one of each class, and on the disk those with barred slots */
  EXPECT_LE(kit::fd_count(m.worker()), fds + m.status("slabs"));
  printf("%llu ok, %llu failed:", (unsigned long long)ok, (unsigned long long)failed);
  for (auto &r : reasons)
    printf(" %s %llu", dray_reason_name(r.first), (unsigned long long)r.second);
  printf("; fds %d -> %d, slabs %ld, poisoned units %ld\n", fds, kit::fd_count(m.worker()), (long)m.status("slabs"),
         (long)m.status("poison.units"));
  EXPECT_EQ(m.stop(), 0);
}
