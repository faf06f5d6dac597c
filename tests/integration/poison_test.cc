/* SPDX-License-Identifier: Apache-2.0 */
/* Bad memory, from where it is met to everybody whom it concerns, with a real drayd. */
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <set>

#include "tests/integration/run_dray.h"
#include "tests/kit/poison.h"

using kit::Engine;
using kit::Key;
using kit::Mover;
using kit::say;

namespace {
constexpr uint64_t kCell = 64 << 10;

#define NEEDS_POISON()                                                                                                 \
  do {                                                                                                                 \
    static char *page_ = static_cast<char *>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE,                               \
                                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0));                                 \
    int r_ = kit::poison_mapping(page_, 4096);                                                                         \
    if (r_ == -ENOTSUP)                                                                                                \
      GTEST_SKIP() << "this kernel has no UFFDIO_POISON (6.6)";                                                        \
  } while (0)

/* One slab of 4 cells of 64 KiB is the first thing made in DRAM: 256 KiB. */
Mover *Start(const std::string &dram, std::vector<std::string> more = {})
{
  kit::MoverOptions o;
  o.sets = {"tier.dram.capacity=8MiB", "tier.dram.fault=" + dram, "lanes=2"};
  o.sets.insert(o.sets.end(), more.begin(), more.end());
  o.tenants = {"red:r-token", "blue:b-token"};
  return new Mover(o);
}
kit::EngineOptions As(const std::string &token, const std::string &agent = "test")
{
  kit::EngineOptions o;
  o.token = token;
  o.agent = agent;
  return o;
}
std::string Name(int i) { return "cell" + std::to_string(i); }

/* The next POISON notice, other completions passed over; type 0 when none comes in 10 s. */
struct dray_cqe Notice(Engine &e)
{
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::chrono::steady_clock::now() < end) {
    if (dray_wait(e.d, 1, 200) < 0)
      continue;
    struct dray_cqe c = *dray_peek(e.d);
    dray_seen(e.d);
    if (c.type == DRAY_POISON)
      return c;
  }
  return {};
}
bool WaitPoisoned(Engine &e, uint64_t lease)
{
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::chrono::steady_clock::now() < end)
    if (dray_lease_state(e.d, lease) == DRAY_LEASE_POISONED)
      return true;
  return false;
}
/* The DONE with that cookie-less answer: notices are passed over. */
struct dray_cqe Done(Engine &e)
{
  for (;;) {
    struct dray_cqe c = e.one();
    if (c.type != DRAY_POISON)
      return c;
  }
}
} // namespace

TEST(Poison, AGetThatMeetsItFailsAloneAndSaysWhere)
{
  NEEDS_POISON();
  /* the fifth xfer finds page 18 of the first slab bad: in its second slot, at 8 KiB */
  std::unique_ptr<Mover> m(Start("poison=0:73728@5"));
  ASSERT_TRUE(m->up()) << m->log();
  Engine e(*m, As("r-token"));
  for (int i = 0; i < 4; i++) {
    e.fill(i * kCell, kCell, i);
    ASSERT_EQ(e.put(Name(i), i * kCell, kCell, DRAY_TIER_DRAM).status, DRAY_OK);
  }
  for (int i = 0; i < 4; i++) {
    auto c = e.get(Name(i), 8 * kCell, kCell);
    if (i != 1) {
      EXPECT_EQ(c.status, DRAY_OK) << i << say(c);
      EXPECT_TRUE(e.holds(8 * kCell, kCell, i)) << i;
      continue;
    }
    EXPECT_EQ(c.status, DRAY_FAULT) << say(c);
    EXPECT_EQ(c.reason, DRAY_POISONED);
    EXPECT_EQ(c.off, 8192u);
    EXPECT_EQ(c.detail, 4096u);
    EXPECT_NE(c.slab, 0u);
    EXPECT_LE(c.bytes, 8192u);
    EXPECT_EQ(c.tier, DRAY_TIER_DRAM);
  }
  EXPECT_EQ(e.get(Name(1), 0, kCell).reason, DRAY_POISONED);
  EXPECT_EQ(e.get(Name(1), 0, kCell).status, DRAY_REFUSED) << "known from now on: nobody touches it again";
  EXPECT_EQ(e.map(Name(1)).reason, DRAY_POISONED);
  EXPECT_EQ(e.move(Name(1), DRAY_TIER_DISK).reason, DRAY_POISONED);
  EXPECT_EQ(m->status("poison.barred_units"), 1);
  EXPECT_EQ(m->status("poison.cells"), 1);
  EXPECT_NE(m->log().find("POISONED: tier dram slab"), std::string::npos) << m->log();
  EXPECT_TRUE(m->audit_clean());
  auto r = run::dray({"cells", "--poisoned"}, m.get());
  EXPECT_EQ(r.code, 0);
  EXPECT_NE(r.out.find("73728"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("barred"), std::string::npos) << r.out;
  r = run::dray({"status"}, m.get());
  EXPECT_NE(r.out.find("poison: 1 units found"), std::string::npos) << r.out;
}

TEST(Poison, TheUnitIsNeverHandedOutAgain)
{
  NEEDS_POISON();
  std::unique_ptr<Mover> m(Start("poison=0:73728@5"));
  ASSERT_TRUE(m->up()) << m->log();
  Engine e(*m, As("r-token"));
  for (int i = 0; i < 4; i++)
    ASSERT_EQ(e.put(Name(i), 0, kCell, DRAY_TIER_DRAM).status, DRAY_OK);
  auto bad = e.get(Name(1), 0, kCell);
  ASSERT_EQ(bad.reason, DRAY_POISONED);
  ASSERT_EQ(e.drop(Name(1)).status, DRAY_OK) << "the name is free";
  EXPECT_EQ(e.get(Name(1), 0, kCell).reason, DRAY_ABSENT);
  /* all that the pool has, each looked at: cells, and where they are */
  uint64_t there = 0;
  for (int i = 100; i < 260; i++) {
    ASSERT_EQ(e.put(Name(i), 0, kCell, DRAY_TIER_DRAM).status, DRAY_OK) << i;
    auto c = e.map(Name(i));
    ASSERT_EQ(c.status, DRAY_OK) << i << say(c);
    there += c.slab == bad.slab && c.off == kCell;
    ASSERT_EQ(e.unmap(c.object).status, DRAY_OK);
  }
  EXPECT_EQ(there, 0u);
  EXPECT_EQ(m->status("poison.units"), 1) << "nobody met it again";
  EXPECT_TRUE(m->audit_clean());
}

TEST(Poison, APutOverABadSlotFailsAloneAndTheNextGoesElsewhere)
{
  NEEDS_POISON();
  std::unique_ptr<Mover> m(Start("poison=0:8192"));
  ASSERT_TRUE(m->up()) << m->log();
  Engine e(*m, As("r-token"));
  e.fill(0, kCell, 1);
  auto c = e.put("a", 0, kCell, DRAY_TIER_DRAM);
  EXPECT_EQ(c.status, DRAY_FAULT) << say(c);
  EXPECT_EQ(c.reason, DRAY_POISONED);
  EXPECT_EQ(c.off, 8192u);
  EXPECT_EQ(c.detail, 4096u);
  EXPECT_EQ(c.bytes, 0u) << "nothing of it can be read by anybody";
  EXPECT_EQ(e.get("a", 0, kCell).reason, DRAY_ABSENT);
  EXPECT_EQ(e.put("a", 0, kCell, DRAY_TIER_DRAM).status, DRAY_OK);
  EXPECT_EQ(e.get("a", kCell, kCell).status, DRAY_OK);
  EXPECT_TRUE(e.holds(kCell, kCell, 1));
  EXPECT_TRUE(m->audit_clean());
}

TEST(Poison, EveryHolderIsToldAndTheRowInMSaysSoEvenWithAFullQueue)
{
  NEEDS_POISON();
  std::unique_ptr<Mover> m(Start("poison=0:4096@2"));
  ASSERT_TRUE(m->up()) << m->log();
  kit::EngineOptions tiny = As("r-token");
  tiny.entries = 4;
  Engine a(*m, As("r-token")), b(*m, As("r-token")), full(*m, tiny);
  ASSERT_EQ(a.put("x", 0, kCell, DRAY_TIER_DRAM).status, DRAY_OK);
  auto la = a.map("x"), lb = b.map("x"), lf = full.map("x");
  ASSERT_EQ(lf.status, DRAY_OK) << say(lf);
  for (int i = 0; i < 4; i++)
    dray_prep_nop(full.sqe());
  ASSERT_EQ(dray_submit(full.d), 4);
  ASSERT_GE(dray_wait(full.d, 4, 5000), 4); /* its queue is full of answers that it does not take */
  EXPECT_EQ(dray_lease_state(b.d, lb.object), DRAY_LEASE_LIVE);
  auto c = a.get("x", 0, kCell);
  ASSERT_EQ(c.reason, DRAY_POISONED) << say(c);
  EXPECT_EQ(c.off, 4096u);
  for (Engine *e : {&a, &b}) {
    auto n = Notice(*e);
    ASSERT_EQ(n.type, DRAY_POISON);
    EXPECT_EQ(n.reason, DRAY_POISONED);
    EXPECT_EQ(n.object, e == &a ? la.object : lb.object);
    EXPECT_EQ(n.off, 4096u);
    EXPECT_EQ(n.detail, 4096u);
    EXPECT_EQ(n.slab, la.slab);
  }
  EXPECT_TRUE(WaitPoisoned(full, lf.object)) << "a polling engine needs no slot to see it";
  EXPECT_EQ(Notice(full).object, lf.object) << "and the hint comes when there is one";
  EXPECT_EQ(dray_lease_state(a.d, la.object), DRAY_LEASE_POISONED);
  for (Engine *e : {&a, &b, &full}) {
    dray_prep_unmap(e->sqe(), e == &a ? la.object : e == &b ? lb.object : lf.object);
    EXPECT_EQ(Done(*e).status, DRAY_OK);
  }
  EXPECT_EQ(m->status("leases"), 0);
  EXPECT_EQ(m->status("poison.notices"), 3);
  EXPECT_TRUE(m->audit_clean());
}

/* An engine in a process of its own: maps, says so, waits for the notice. Exit 0 when all was right. */
static pid_t Holder(const Mover &m, const char *cell, uint64_t off, int ready)
{
  pid_t pid = fork();
  if (pid)
    return pid;
  Engine e(m, As("r-token"));
  auto l = e.map(cell);
  if (e.error() || l.status != DRAY_OK || write(ready, "x", 1) != 1)
    _exit(1);
  auto n = Notice(e);
  _exit(n.type == DRAY_POISON && n.object == l.object && n.off == off && n.detail == 4096 &&
                dray_lease_state(e.d, l.object) == DRAY_LEASE_POISONED
            ? 0
            : 2);
}

TEST(Poison, AnEngineThatMeetsItReadsOnAndEveryoneIsTold)
{
  NEEDS_POISON();
  std::unique_ptr<Mover> m(Start(""));
  ASSERT_TRUE(m->up()) << m->log();
  Engine e(*m, As("r-token"));
  e.fill(0, kCell, 5);
  e.fill(kCell, kCell, 6);
  ASSERT_EQ(e.put("x", 0, kCell, DRAY_TIER_DRAM).status, DRAY_OK);
  ASSERT_EQ(e.put("y", kCell, kCell, DRAY_TIER_DRAM).status, DRAY_OK);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  pid_t other = Holder(*m, "x", 12288, ready[1]);
  char go;
  ASSERT_EQ(read(ready[0], &go, 1), 1);
  auto lx = e.map("x"), ly = e.map("y");
  const char *x = static_cast<const char *>(dray_map_address(e.d, lx.slab, lx.off)),
             *y = static_cast<const char *>(dray_map_address(e.d, ly.slab, ly.off));
  ASSERT_TRUE(x && y);
  ASSERT_EQ(kit::poison_over(x + 12288, 4096), 0);
  std::vector<char> to(kCell);
  struct dray_hit hit = {};
  int r = dray_copy_guarded(e.d, lx.object, x, 0, to.data(), kCell, &hit);
  EXPECT_TRUE(r == -EHWPOISON || r == -EFAULT) << r;
  EXPECT_EQ(hit.off, 12288u);
  EXPECT_EQ(hit.unit, 4096u);
  EXPECT_EQ(hit.lease, lx.object);
  EXPECT_LE(hit.good, 12288u);
  EXPECT_TRUE(hit.reported);
  EXPECT_TRUE(kit::pattern_holds(to.data(), hit.good & ~7ull, 5));
  EXPECT_EQ(dray_copy_guarded(e.d, ly.object, y, 0, to.data(), kCell, &hit), 0) << "only that read is lost";
  EXPECT_TRUE(kit::pattern_holds(to.data(), kCell, 6));
  auto n = Notice(e);
  EXPECT_EQ(n.object, lx.object);
  EXPECT_EQ(n.off, 12288u);
  EXPECT_EQ(n.detail, 4096u);
  int st = -1;
  ASSERT_EQ(waitpid(other, &st, 0), other);
  EXPECT_TRUE(WIFEXITED(st) && WEXITSTATUS(st) == 0) << st;
  /* its word: quarantined, though the mover's own mapping is good */
  EXPECT_EQ(e.get("x", 0, kCell).reason, DRAY_QUARANTINED);
  EXPECT_EQ(e.get("y", 0, kCell).status, DRAY_OK);
  EXPECT_EQ(m->status("poison.barred_units"), 1);
  EXPECT_TRUE(m->audit_clean());
  close(ready[0]);
  close(ready[1]);
}

TEST(Poison, GuardsNestAndEndAndCarryTheHit)
{
  NEEDS_POISON();
  std::unique_ptr<Mover> m(Start(""));
  ASSERT_TRUE(m->up()) << m->log();
  Engine e(*m, As("r-token"));
  ASSERT_EQ(e.put("x", 0, kCell, DRAY_TIER_DRAM).status, DRAY_OK);
  auto l = e.map("x");
  const volatile char *x = static_cast<const char *>(dray_map_address(e.d, l.slab, l.off));
  struct dray_guard outer, inner;
  volatile int seen = 0;
  int r = dray_guard_begin(&outer, e.d, l.object, const_cast<const char *>(x), kCell);
  ASSERT_EQ(r, 0);
  seen = x[0];
  dray_guard_end(&outer);
  ASSERT_EQ(kit::poison_over(const_cast<const char *>(x) + 4096, 4096), 0);
  volatile int outer_hits = 0, inner_hits = 0;
  for (int i = 0; i < 3; i++) { /* again and again: the handler stays, the mask is whole */
    r = dray_guard_begin(&outer, e.d, l.object, const_cast<const char *>(x), kCell);
    if (r == 0) {
      int k = dray_guard_begin(&inner, e.d, l.object, const_cast<const char *>(x) + 8192, kCell - 8192);
      if (k == 0) {
        seen = x[8192];
        dray_guard_end(&inner);
      } else {
        inner_hits = inner_hits + 1;
      }
      seen = x[4097];
      dray_guard_end(&outer);
    } else {
      outer_hits = outer_hits + 1;
      EXPECT_TRUE(r == -EHWPOISON || r == -EFAULT);
      EXPECT_EQ(outer.hit.off, 4096u);
      EXPECT_EQ(outer.hit.unit, 4096u);
      EXPECT_TRUE(outer.hit.reported);
    }
  }
  (void)seen;
  EXPECT_EQ(outer_hits, 3);
  EXPECT_EQ(inner_hits, 0);
  EXPECT_EQ(Notice(e).object, l.object);
  EXPECT_TRUE(m->audit_clean());
}

TEST(Poison, AReadersWordAboutAnothersCellIsProbedNotBelieved)
{
  NEEDS_POISON();
  /* the fourth xfer: owner's PUTs, PUBLISH, then anybody */
  std::unique_ptr<Mover> m(Start("poison=1:4096@3"));
  ASSERT_TRUE(m->up()) << m->log();
  Engine red(*m, As("r-token")), blue(*m, As("b-token"));
  struct dray_key k = {};
  for (char *axis : {k.model, k.tokenizer, k.serializer, k.position, k.policy, k.admitter})
    strcpy(axis, "one");
  uint32_t rk, bk;
  ASSERT_EQ(dray_key_define(red.d, &k, &rk), 0);
  ASSERT_EQ(dray_key_define(blue.d, &k, &bk), 0);
  ASSERT_EQ(red.put("x", 0, kCell, DRAY_TIER_DRAM).status, DRAY_OK);
  struct dray_publish p = {};
  p.scope = DRAY_SCOPE_FLEET;
  p.taint = DRAY_TRUSTED;
  p.mkey = rk;
  memcpy(&dray_items(red.d)[0], &p, sizeof p);
  dray_prep_publish(red.sqe(), Key("x").b, 0);
  auto c = red.one();
  ASSERT_EQ(c.status, DRAY_OK) << say(c);
  struct dray_sqe *q = blue.sqe();
  dray_prep_map(q, Key("x").b, 0);
  q->arg = bk;
  auto l = blue.one();
  ASSERT_EQ(l.status, DRAY_OK) << say(l);
  /* it says so, and nothing is the matter */
  dray_prep_quarantine_lease(blue.sqe(), l.object, 4096, 1, 4096);
  EXPECT_EQ(blue.one().status, DRAY_OK);
  EXPECT_EQ(m->status("poison.units"), 0);
  /* a third xfer of somebody else makes the page bad in earnest; now its word leads there */
  ASSERT_EQ(red.put("y", 0, kCell, DRAY_TIER_DRAM).status, DRAY_OK);
  EXPECT_EQ(m->status("poison.units"), 0);
  dray_prep_quarantine_lease(blue.sqe(), l.object, 4096, 1, 4096);
  EXPECT_EQ(Done(blue).status, DRAY_OK);
  EXPECT_EQ(m->status("poison.units"), 1);
  EXPECT_TRUE(WaitPoisoned(blue, l.object));
  q = red.sqe();
  dray_prep_get(q, Key("x").b, red.region.id, 0, kCell, 0);
  q->arg = rk;
  EXPECT_EQ(red.one().reason, DRAY_POISONED);
  dray_prep_quarantine_lease(blue.sqe(), l.object + 1, 0, 1, 4096);
  EXPECT_EQ(Done(blue).reason, DRAY_BAD_LEASE);
  dray_prep_quarantine_lease(blue.sqe(), l.object, kCell, 1, 4096);
  EXPECT_EQ(Done(blue).reason, DRAY_OUT_OF_RANGE);
  EXPECT_TRUE(m->audit_clean());
}

TEST(Poison, APoisonedSourceInTheEnginesMemoryCondemnsNothingOfTheStore)
{
  NEEDS_POISON();
  std::unique_ptr<Mover> m(Start("source=1/1x1"));
  ASSERT_TRUE(m->up()) << m->log();
  Engine e(*m, As("r-token"));
  e.fill(0, 4 * kCell, 3);
  auto c = e.put("a", 0, kCell, DRAY_TIER_DRAM);
  EXPECT_EQ(c.status, DRAY_FAULT) << say(c);
  EXPECT_EQ(c.reason, DRAY_POISONED);
  EXPECT_EQ(c.slab, 0u) << "not ours";
  EXPECT_EQ(c.detail, 4096u);
  EXPECT_EQ(m->status("poison.units"), 0);
  EXPECT_EQ(e.put("b", kCell, kCell, DRAY_TIER_DRAM).status, DRAY_OK);
  EXPECT_EQ(e.put("a", 0, kCell, DRAY_TIER_DRAM).reason, DRAY_POISONED) << "and is still bad";
  EXPECT_EQ(m->status("poison.units"), 0);
  EXPECT_TRUE(m->audit_clean());
}

TEST(Poison, AMoveADemotionAndAPublicationMeetItToo)
{
  NEEDS_POISON();
  std::unique_ptr<Mover> m(Start("poison=0:0@3 poison=0:65536@3"));
  ASSERT_TRUE(m->up()) << m->log();
  Engine e(*m, As("r-token"));
  for (int i = 0; i < 3; i++) {
    e.fill(i * kCell, kCell, i);
    ASSERT_EQ(e.put(Name(i), i * kCell, kCell, DRAY_TIER_DRAM).status, DRAY_OK);
  }
  auto c = e.move(Name(0), DRAY_TIER_DISK); /* by O_DIRECT from DRAM: the disk says EFAULT, the probe finds why */
  EXPECT_EQ(c.reason, DRAY_POISONED) << say(c);
  EXPECT_EQ(c.status, DRAY_FAULT);
  EXPECT_EQ(c.off, 0u);
  EXPECT_EQ(c.detail, 4096u);
  struct dray_publish p = {};
  p.scope = DRAY_SCOPE_TENANT;
  p.taint = DRAY_TRUSTED;
  memcpy(&dray_items(e.d)[0], &p, sizeof p);
  dray_prep_publish(e.sqe(), Key(Name(1)).b, 0);
  c = e.one();
  EXPECT_EQ(c.reason, DRAY_POISONED) << say(c);
  EXPECT_EQ(e.move(Name(2), DRAY_TIER_DISK).status, DRAY_OK);
  EXPECT_EQ(e.get(Name(2), 8 * kCell, kCell).status, DRAY_OK);
  EXPECT_TRUE(e.holds(8 * kCell, kCell, 2));
  EXPECT_EQ(m->status("poison.units"), 2);
  EXPECT_TRUE(m->audit_clean());
}

TEST(Poison, ADemotionThatMeetsItCostsNobodyElseAnything)
{
  NEEDS_POISON();
  std::unique_ptr<Mover> m(Start("poison=0:0@120", {"tier.dram.capacity=4MiB"}));
  ASSERT_TRUE(m->up()) << m->log();
  Engine e(*m, As("r-token"));
  int lost = 0;
  for (int i = 0; i < 400; i++) { /* much more than fits: each new one moves an old one down */
    e.fill(0, kCell, i);
    auto c = e.put(Name(i), 0, kCell, DRAY_TIER_DRAM);
    ASSERT_TRUE(c.status == DRAY_OK) << i << say(c) << ": a demotion's poison is not the asker's";
  }
  for (int i = 0; i < 400; i++) {
    auto c = e.get(Name(i), kCell, kCell);
    if (c.status == DRAY_OK) {
      EXPECT_TRUE(e.holds(kCell, kCell, i)) << i;
      continue;
    }
    EXPECT_EQ(c.reason, DRAY_POISONED) << i << say(c) << ": not evicted, not absent: bad, until it is dropped";
    lost++;
  }
  EXPECT_EQ(lost, 1) << "the one cell whose memory it was";
  EXPECT_EQ(m->status("poison.units"), 1);
  EXPECT_TRUE(m->audit_clean());
}

TEST(Poison, ACellWithAGoodCopyElsewhereIsServedFromThere)
{
  NEEDS_POISON();
  std::unique_ptr<Mover> m(Start("poison=0:4096@1"));
  ASSERT_TRUE(m->up()) << m->log();
  Engine e(*m, As("r-token"));
  e.fill(0, kCell, 9);
  ASSERT_EQ(e.put("x", 0, kCell, DRAY_TIER_DISK).status, DRAY_OK);
  /* staged by the disk, so DRAM's own device has not been asked for anything yet */
  auto l = e.map("x", 0, DRAY_MAP_OR_STAGE);
  ASSERT_EQ(l.status, DRAY_OK) << say(l);
  ASSERT_EQ(l.tier, DRAY_TIER_DRAM);
  auto c = e.get("x", kCell, kCell);
  EXPECT_EQ(c.reason, DRAY_POISONED) << say(c);
  EXPECT_EQ(c.off, 4096u);
  EXPECT_TRUE(WaitPoisoned(e, l.object));
  dray_prep_get(e.sqe(), Key("x").b, e.region.id, kCell, kCell, 0);
  c = Done(e);
  EXPECT_EQ(c.status, DRAY_OK) << say(c);
  EXPECT_EQ(c.tier, DRAY_TIER_DISK);
  EXPECT_TRUE(e.holds(kCell, kCell, 9));
  EXPECT_TRUE(m->audit_clean());
}

TEST(Poison, AStagedMapAndACommitMeetItToo)
{
  NEEDS_POISON();
  std::unique_ptr<Mover> m(Start("", {"tier.disk.fault=poison=0:4096@2", "tier.cxl.fault=source=1/1x1"}));
  ASSERT_TRUE(m->up()) << m->log();
  Engine e(*m, As("r-token"));
  ASSERT_EQ(e.put("x", 0, kCell, DRAY_TIER_DISK).status, DRAY_OK);
  auto c = e.map("x", 0, DRAY_MAP_OR_STAGE);
  EXPECT_EQ(c.status, DRAY_FAULT) << say(c);
  EXPECT_EQ(c.reason, DRAY_POISONED);
  EXPECT_EQ(c.off, 4096u);
  EXPECT_NE(c.slab, 0u);
  EXPECT_EQ(e.map("x", 0, DRAY_MAP_OR_STAGE).reason, DRAY_POISONED);
  /* a fill for far memory is copied there at COMMIT; the fill itself turns out bad */
  dray_prep_alloc(e.sqe(), Key("y").b, kCell, DRAY_TIER_CXL);
  auto l = e.one();
  ASSERT_EQ(l.status, DRAY_OK) << say(l);
  kit::pattern_fill(dray_fill_address(e.d, l.slab), kCell, 4);
  dray_fill_release(e.d, l.slab);
  dray_prep_commit(e.sqe(), l.object);
  c = e.one();
  EXPECT_EQ(c.status, DRAY_FAULT) << say(c);
  EXPECT_EQ(c.reason, DRAY_POISONED);
  EXPECT_EQ(c.slab, 0u) << "the engine's own";
  EXPECT_EQ(e.get("y", 0, kCell).reason, DRAY_ABSENT);
  EXPECT_EQ(e.unmap(l.object).status, DRAY_OK) << "and is let go of as ever";
  EXPECT_EQ(m->status("poison.units"), 1) << "the disk's";
  EXPECT_EQ(m->status("leases"), 0);
  EXPECT_TRUE(m->audit_clean());
}

TEST(Poison, ABatchSaysOfEachItemWhere)
{
  NEEDS_POISON();
  std::unique_ptr<Mover> m(Start("poison=0:73728@5"));
  ASSERT_TRUE(m->up()) << m->log();
  Engine e(*m, As("r-token"));
  for (int i = 0; i < 4; i++)
    ASSERT_EQ(e.put(Name(i), 0, kCell, DRAY_TIER_DRAM).status, DRAY_OK);
  for (int i = 0; i < 4; i++) {
    struct dray_item it = {};
    memcpy(it.key, Key(Name(i)).b, 16);
    it.off = i * kCell;
    it.len = kCell;
    dray_items(e.d)[i] = it;
  }
  struct dray_sqe *q = e.sqe();
  q->op = DRAY_GET;
  q->region = e.region.id;
  dray_sqe_batch(q, 0, 4);
  auto c = e.one();
  EXPECT_EQ(c.failed, 1u) << say(c);
  EXPECT_EQ(c.detail, 1u);
  EXPECT_EQ(c.reason, DRAY_POISONED);
  const struct dray_item_result *r = dray_results(e.d);
  EXPECT_EQ(r[1].reason, DRAY_POISONED);
  EXPECT_EQ(r[1].off, 8192u);
  EXPECT_EQ(r[1].detail, 4096u);
  EXPECT_NE(r[1].slab, 0u);
  for (int i : {0, 2, 3})
    EXPECT_EQ(r[i].reason, DRAY_REASON_OK) << i;
}

TEST(Poison, ADiskCellOnABadUnitStaysBadOverARestart)
{
  kit::MoverOptions o;
  o.sets = {"tier.disk.fault=poison=0:69632@5"};
  Mover m(o);
  ASSERT_TRUE(m.up()) << m.log();
  {
    Engine e(m);
    for (int i = 0; i < 4; i++)
      ASSERT_EQ(e.put(Name(i), 0, kCell, DRAY_TIER_DISK).status, DRAY_OK);
    auto c = e.get(Name(1), 0, kCell);
    EXPECT_EQ(c.status, DRAY_FAULT) << say(c);
    EXPECT_EQ(c.reason, DRAY_POISONED);
    EXPECT_EQ(c.off, 4096u);
    EXPECT_EQ(c.bytes, 4096u) << "what is before it is in place";
    EXPECT_EQ(e.get(Name(0), 0, kCell).status, DRAY_OK);
    dray_prep_fence(e.sqe());
    ASSERT_EQ(e.one().status, DRAY_OK);
  }
  int64_t epoch = m.status("epoch");
  ASSERT_EQ(kill(m.worker(), SIGKILL), 0);
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while ((m.status("epoch") == epoch || m.status("epoch") < 0) && std::chrono::steady_clock::now() < end)
    usleep(20000);
  Engine e(m);
  ASSERT_EQ(e.error(), 0);
  EXPECT_EQ(e.get(Name(1), 0, kCell).reason, DRAY_POISONED);
  EXPECT_EQ(e.get(Name(1), 0, kCell).status, DRAY_REFUSED);
  EXPECT_EQ(e.get(Name(0), 0, kCell).status, DRAY_OK);
  EXPECT_EQ(m.status("poison.barred_units"), 1);
  EXPECT_TRUE(m.audit_clean());
}

TEST(Poison, WhatTheKernelTellsEarlyIsToldToHoldersBeforeAnybodyTouchesIt)
{
  NEEDS_POISON();
  std::unique_ptr<Mover> m(Start("early=0:69632@3"));
  ASSERT_TRUE(m->up()) << m->log();
  Engine e(*m, As("r-token"));
  for (int i = 0; i < 2; i++) {
    e.fill(i * kCell, kCell, i);
    ASSERT_EQ(e.put(Name(i), i * kCell, kCell, DRAY_TIER_DRAM).status, DRAY_OK);
  }
  auto l = e.map(Name(1));
  ASSERT_EQ(l.status, DRAY_OK);
  /* the third xfer is of another cell, and ends well */
  dray_prep_get(e.sqe(), Key(Name(0)).b, e.region.id, 8 * kCell, kCell, 0);
  EXPECT_EQ(Done(e).status, DRAY_OK);
  EXPECT_TRUE(e.holds(8 * kCell, kCell, 0));
  EXPECT_TRUE(WaitPoisoned(e, l.object));
  EXPECT_TRUE(m->wait_status("poison.hits", 1));
  dray_prep_get(e.sqe(), Key(Name(1)).b, e.region.id, 8 * kCell, kCell, 0);
  auto c = Done(e);
  EXPECT_EQ(c.status, DRAY_REFUSED) << "nobody had to fail for it: " << say(c);
  EXPECT_EQ(c.reason, DRAY_POISONED);
  EXPECT_EQ(m->status("poison.barred_units"), 1);
  EXPECT_TRUE(m->audit_clean());
}

TEST(Poison, ACxlDeviceIsHitByTheUnitItsAlignSays)
{
  NEEDS_POISON();
  run::Scratch s;
  std::string dev = "/dev/shm/dray-poison-" + std::to_string(getpid());
  int fd = open(dev.c_str(), O_CREAT | O_RDWR | O_TRUNC, 0600);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(ftruncate(fd, 32 << 20), 0);
  close(fd);
  kit::MoverOptions o;
  o.tenants = {"red:r-token"};
  o.sets = {"tier.cxl.path=" + dev, "tier.cxl.owner=red", "tier.cxl.capacity=32MiB",
            "tier.cxl.fault=unit=2M poison=1:1M@17", "tier.cxl.slab_size=8MiB"};
  Mover m(o);
  ASSERT_TRUE(m.up()) << m.log();
  Engine e(m, As("r-token"));
  constexpr uint64_t kHalf = 512 << 10;
  for (int i = 0; i < 8; i++) {
    e.fill(0, kHalf, i);
    ASSERT_EQ(e.put(Name(i), 0, kHalf, DRAY_TIER_CXL).status, DRAY_OK) << i;
  }
  int bad = 0, good = 0;
  uint64_t unit = 0;
  for (int i = 0; i < 8; i++) {
    auto c = e.get(Name(i), 4 << 20, kHalf);
    if (c.status == DRAY_OK) {
      EXPECT_TRUE(e.holds(4 << 20, kHalf, i));
      good++;
    } else {
      EXPECT_EQ(c.reason, DRAY_POISONED) << say(c);
      bad++;
      unit = c.status == DRAY_FAULT ? c.detail : unit;
    }
  }
  EXPECT_EQ(good + bad, 8);
  EXPECT_GT(bad, 0);
  EXPECT_GT(good, 0);
  EXPECT_EQ(unit, 2u << 20);
  EXPECT_TRUE(m.audit_clean());
  unlink(dev.c_str());
}
