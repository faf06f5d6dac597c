/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Poison that the kernel itself makes: MADV_HWPOISON in the process that touches it, hwpoison-inject from outside. Lines
 * that begin with MATRIX are what docs/POISON.md's table is filled in from.
 */
#include <liburing.h>
#include <poll.h>
#include <sys/prctl.h>

#include <chrono>

#include "tests/guest/guest.h"

extern "C" {
#include "base/copy.h"
#include "base/guard.h"
}

using guest::kCell;
using guest::kMiB;
using guest::mover;
using guest::Raw;
using kit::Engine;
using kit::say;

namespace {
constexpr uint64_t kUnit = 2 * kMiB;
std::string Name(int i) { return "c" + std::to_string(i); }

/* As a machine check on another CPU would: by a process that does not map it. */
int PoisonFromOutside(const volatile void *p)
{
  char line[96];
  snprintf(line, sizeof line, "echo 0x%llx > /sys/kernel/debug/hwpoison/corrupt-pfn", (unsigned long long)guest::frame(p));
  return guest::shell(line);
}
/* In this process: the kernel sends SIGBUS at once to who does it. Done under a guard. */
struct Inject {
  void *at;
  int rc;
};
int InjectRun(void *ctx)
{
  auto *i = static_cast<Inject *>(ctx);
  i->rc = madvise(i->at, 4096, MADV_HWPOISON) ? -errno : 0;
  (void)*static_cast<volatile char *>(i->at); /* where the injection alone does not signal, the touch does */
  return 0;
}
bool PoisonHere(void *at, struct guard_hit *hit, const void *base, uint64_t len)
{
  Inject i = {at, -1};
  const struct guard_range r = {base, len};
  return guard_run(InjectRun, &i, &r, 1, hit) == -EFAULT;
}
int Memfd(uint64_t bytes, char **base)
{
  int fd = memfd_create("poison", MFD_CLOEXEC);
  if (ftruncate(fd, (off_t)bytes))
    return -1;
  *base = static_cast<char *>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  memset(*base, 'G', bytes);
  return fd;
}
/* One O_DIRECT write by io_uring; its result. */
int UringWrite(const void *from)
{
  struct io_uring ring;
  struct io_uring_cqe *c;
  int fd = open((guest::env("GUEST_DISK") + "/probe").c_str(), O_RDWR | O_CREAT | O_DIRECT, 0600);
  if (fd < 0 || io_uring_queue_init(4, &ring, 0))
    return -EBADF;
  io_uring_prep_write(io_uring_get_sqe(&ring), fd, from, 4096, 0);
  io_uring_submit(&ring);
  io_uring_wait_cqe(&ring, &c);
  int r = c->res;
  io_uring_queue_exit(&ring);
  close(fd);
  return r;
}
using guest::Done;
using guest::Get;
using guest::WaitPoisoned;
} // namespace

/* ---- the mover's copy: its guard, as transports use it ---- */

TEST(GuestPoison, TheMoversCopyFromAMemfdMeetsItAtEachTouchAndKnowsThePage)
{
  ASSERT_EQ(guard_install(), 0);
  char *base;
  int fd = Memfd(kUnit, &base);
  ASSERT_EQ(PoisonFromOutside(base + 0x5000), 0);
  std::vector<char> to(kUnit);
  for (int round = 0; round < 2; round++) {
    struct guard_hit hit;
    uint8_t path;
    ASSERT_EQ(guard_copy(&copy_plan_default, to.data(), base, kUnit, 0, &hit, &path), -EFAULT);
    EXPECT_EQ(hit.kind, GUARD_POISON);
    EXPECT_EQ(hit.addr & ~4095ull, (uintptr_t)base + 0x5000);
    EXPECT_EQ(hit.unit, 4096u);
    EXPECT_LE(hit.good, 0x5000u);
    if (round == 0)
      printf("MATRIX memfd mover: SIGBUS BUS_MCEERR_AR in the copy, each time; unit %llu\n", (unsigned long long)hit.unit);
  }
  munmap(base, kUnit);
  close(fd);
}

TEST(GuestPoison, OnDevdaxTheWholeAlignIsTheUnitAndTheKernelSaysItOnce)
{
  for (auto &[which, unit] : {std::pair{"GUEST_DAX", kUnit}, {"GUEST_DAX_DYN", kUnit}, {"GUEST_DAX_4K", uint64_t{4096}}}) {
    if (guest::dax(which).empty())
      continue;
    ASSERT_EQ(guard_install(), 0);
    Raw raw(guest::dax(which), 2 * kUnit, 4 * kUnit, true);
    ASSERT_TRUE(raw.ok());
    memset(raw.at(), 'G', 2 * kUnit);
    struct guard_hit hit = {};
    ASSERT_TRUE(PoisonHere(raw.at(kUnit + 0x7000), &hit, raw.at(), 2 * kUnit)) << which;
    EXPECT_EQ(hit.kind, GUARD_POISON);
    EXPECT_EQ(hit.unit, unit) << which;
    EXPECT_EQ(hit.addr & ~(unit - 1), ((uintptr_t)raw.at(kUnit + 0x7000)) & ~(unit - 1));
    std::vector<char> to(kUnit);
    struct guard_hit again;
    uint8_t path;
    int r = guard_copy(&copy_plan_default, to.data(), raw.at(kUnit), kUnit, COPY_FRAGILE, &again, &path);
    printf("MATRIX devdax mover (align %llu): SIGBUS BUS_MCEERR_AR once, unit %llu; the next copy %s\n",
           (unsigned long long)unit, (unsigned long long)hit.unit, r ? "meets it again" : "succeeds: only the quarantine remembers");
  }
}

/* ---- io_uring ---- */

TEST(GuestPoison, IoUringFromPoisonedMemory)
{
  if (guest::env("GUEST_DISK").empty())
    GTEST_SKIP() << "no disk in this variant";
  char *base;
  int fd = Memfd(kUnit, &base);
  ASSERT_EQ(UringWrite(base), 4096);
  ASSERT_EQ(PoisonFromOutside(base + 0x5000), 0);
  int r = UringWrite(base + 0x5000);
  EXPECT_EQ(r, -EFAULT);
  printf("MATRIX memfd io_uring O_DIRECT write: %s\n", r < 0 ? strerror(-r) : "success");
  munmap(base, kUnit);
  close(fd);
  if (guest::dax().empty())
    return;
  ASSERT_EQ(guard_install(), 0);
  Raw raw(guest::dax(), kUnit, 10 * kUnit, true);
  ASSERT_TRUE(raw.ok());
  memset(raw.at(), 'G', kUnit);
  int before = UringWrite(raw.at(0x7000));
  struct guard_hit hit;
  ASSERT_TRUE(PoisonHere(raw.at(0x7000), &hit, raw.at(), kUnit));
  r = UringWrite(raw.at(0x7000));
  printf("MATRIX devdax io_uring O_DIRECT write: before %s, after %s\n", before < 0 ? strerror(-before) : "success",
         r < 0 ? strerror(-r) : "success with the old data: the provider does not know");
  EXPECT_EQ(before, r) << "software poison does not touch the kernel's own map";
}

/* ---- a mover and engines ---- */

class GuestPoisonMover : public ::testing::TestWithParam<const char *> {};
INSTANTIATE_TEST_SUITE_P(Devices, GuestPoisonMover, ::testing::Values("GUEST_DAX", "GUEST_DAX_DYN", "GUEST_DAX_4K"),
                         [](const auto &i) { return std::string(i.param).substr(6); });

/* 24 cells of 256 KiB: several slabs of 2 MiB and more; the one in the middle is hit. */
TEST_P(GuestPoisonMover, AnEnginesMappedReadEndsAloneTheUnitIsBarredAndARestartKnowsIt)
{
  NEEDS(GetParam());
  std::string dax = guest::dax(GetParam());
  uint64_t unit = strtoull(kit::read_file("/sys/bus/dax/devices/" + dax + "/align").c_str(), nullptr, 0);
  guest::Tier t = {.dax = dax, .keep = "fresh", .capacity = "32MiB"};
  std::string victim = Name(10);
  uint64_t barred = 0;
  std::vector<bool> lost(24);
  {
    auto m = mover(t);
    ASSERT_TRUE(m->up()) << m->log();
    Engine e(*m, guest::as("red")), other(*m, guest::as("red", "z"));
    for (int i = 0; i < 24; i++) {
      e.fill(0, kCell, i);
      ASSERT_EQ(e.put(Name(i), 0, kCell, DRAY_TIER_CXL).status, DRAY_OK) << i;
    }
    ASSERT_EQ(other.put("mine", 0, kCell, DRAY_TIER_CXL).status, DRAY_OK);
    auto lease = e.map(victim, DRAY_TIER_CXL);
    ASSERT_EQ(lease.status, DRAY_OK) << say(lease);
    char *p = (char *)(uintptr_t)dray_map_address(e.d, lease.slab, lease.off);
    ASSERT_NE(p, nullptr);
    ASSERT_TRUE(kit::pattern_holds(p, kCell, 10));
    struct dray_guard g;
    volatile int r = dray_guard_begin(&g, e.d, lease.object, p, kCell);
    if (r == 0) {
      madvise((void *)((uintptr_t)(p + 0x3000) & ~4095ull), 4096, MADV_HWPOISON);
      (void)*(volatile char *)(p + 0x3000);
      dray_guard_end(&g);
    }
    EXPECT_EQ(r, -EHWPOISON);
    EXPECT_EQ(g.hit.unit, unit);
    printf("MATRIX devdax engine (align %llu): SIGBUS BUS_MCEERR_AR in the mapped read: %s, unit %llu, off %llu\n",
           (unsigned long long)unit, strerror(-r), (unsigned long long)g.hit.unit, (unsigned long long)g.hit.off);
    EXPECT_TRUE(WaitPoisoned(e, lease.object)) << m->log();
    auto c = Get(e, victim, DRAY_TIER_CXL);
    EXPECT_EQ(c.status, DRAY_REFUSED);
    EXPECT_EQ(c.reason, DRAY_POISONED) << say(c) << m->log();
    barred = (uint64_t)m->status("poison.barred_bytes");
    EXPECT_EQ(barred, unit);
    int good = 0;
    for (int i = 0; i < 24; i++) {
      c = Get(e, Name(i), DRAY_TIER_CXL);
      lost[i] = c.status != DRAY_OK;
      if (lost[i]) {
        EXPECT_EQ(c.reason, DRAY_POISONED) << i << say(c);
      } else {
        EXPECT_TRUE(e.holds(8 * kMiB, kCell, i)) << i;
        good++;
      }
    }
    EXPECT_GE(good, 15) << "at most the 8 cells of 2 MiB, and one more that crosses into it";
    EXPECT_TRUE(lost[10]);
    EXPECT_EQ(Get(other, "mine", DRAY_TIER_CXL).status, DRAY_OK) << "the other session has not noticed";
    EXPECT_EQ(dray_wait(other.d, 1, 100), -ETIMEDOUT) << "nor was it told";
    auto cells = run::dray({"cells", "--poisoned"}, m.get());
    EXPECT_NE(cells.out.find("cxl"), std::string::npos) << cells.out;
    EXPECT_TRUE(m->audit_clean());
    e.close();
    other.close();
    EXPECT_EQ(m->stop(), 0) << m->log();
  }
  t.keep = "yes";
  auto m = mover(t);
  ASSERT_TRUE(m->up()) << m->log();
  Engine e(*m, guest::as("red"));
  EXPECT_EQ(m->status("poison.barred_bytes"), (int64_t)barred) << "a new keeper, too: the device remembers";
  for (int i = 0; i < 24; i++) {
    auto c = Get(e, Name(i), DRAY_TIER_CXL);
    EXPECT_EQ(c.status == DRAY_OK, !lost[i]) << i << say(c);
  }
  /* all of the tier, filled anew: nothing comes to lie on the unit */
  for (int i = 0; i < 24; i++)
    e.drop(Name(i));
  for (int i = 0; i < 200; i++) {
    auto c = e.put("n" + std::to_string(i), 0, kCell, DRAY_TIER_CXL);
    ASSERT_EQ(c.status, DRAY_OK) << say(c);
  }
  EXPECT_EQ(m->status("poison.barred_bytes"), (int64_t)barred);
  EXPECT_TRUE(m->audit_clean());
  printf("MATRIX devdax restart (align %llu): still barred, never handed out again\n", (unsigned long long)unit);
}

TEST_P(GuestPoisonMover, EarlyNewsFromTheKernelBarsItBeforeAnybodyTouchesIt)
{
  NEEDS(GetParam());
  auto m = mover({.dax = guest::dax(GetParam()), .capacity = "16MiB"}, guest::env("GUEST_DISK"));
  ASSERT_TRUE(m->up()) << m->log();
  Engine e(*m, guest::as("red"));
  e.fill(0, kCell, 1);
  ASSERT_EQ(e.put("hit", 0, kCell, DRAY_TIER_CXL).status, DRAY_OK);
  auto lease = e.map("hit", DRAY_TIER_CXL);
  ASSERT_EQ(lease.status, DRAY_OK) << say(lease);
  const char *p = static_cast<const char *>(dray_map_address(e.d, lease.slab, lease.off));
  ASSERT_NE(p, nullptr);
  ASSERT_EQ(PoisonFromOutside(p + 0x3000), 0);
  EXPECT_TRUE(WaitPoisoned(e, lease.object)) << m->log();
  EXPECT_NE(m->log().find("POISONED: tier cxl"), std::string::npos) << m->log();
  EXPECT_EQ(Get(e, "hit").reason, DRAY_POISONED);
  printf("MATRIX devdax early: SIGBUS BUS_MCEERR_AO to the mover's control thread: barred untouched\n");
  dray_prep_move(e.sqe(), kit::Key("hit").b, DRAY_TIER_DISK, 0);
  auto c = Done(e);
  EXPECT_EQ(c.reason, guest::env("GUEST_DISK").empty() ? c.reason : (uint16_t)DRAY_POISONED) << say(c);
  printf("MATRIX devdax io_uring through the mover: MOVE to disk %s\n", say(c).c_str());
  EXPECT_TRUE(m->audit_clean());
}

/* The directory that the device keeps lies in its first units. */
TEST_P(GuestPoisonMover, ThePageOfADirectoryEndsTheKeepingAndNothingElse)
{
  NEEDS(GetParam());
  guest::Tier t = {.dax = guest::dax(GetParam()), .keep = "fresh", .capacity = "16MiB"};
  {
    auto m = mover(t);
    ASSERT_TRUE(m->up()) << m->log();
    pid_t worker = m->worker();
    Engine e(*m, guest::as("red"));
    for (int i = 0; i < 8; i++) {
      e.fill(0, kCell, i);
      ASSERT_EQ(e.put(Name(i), 0, kCell, DRAY_TIER_CXL).status, DRAY_OK);
      ASSERT_EQ(e.put("d" + Name(i), 0, kCell, DRAY_TIER_DRAM).status, DRAY_OK);
    }
    {
      Raw raw(t.dax, 2 * kMiB);
      ASSERT_TRUE(raw.ok());
      ASSERT_EQ(PoisonFromOutside(raw.at()), 0);
    }
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    const char said[] = "the memory of its directory is bad";
    while (m->log().find(said) == std::string::npos && std::chrono::steady_clock::now() < end)
      poll(nullptr, 0, 20);
    ASSERT_NE(m->log().find(said), std::string::npos) << m->log();
    for (int i = 0; i < 8; i++) {
      EXPECT_EQ(Get(e, Name(i), DRAY_TIER_CXL).status, DRAY_OK);
      EXPECT_TRUE(e.holds(8 * kMiB, kCell, i));
      EXPECT_EQ(Get(e, "d" + Name(i), DRAY_TIER_DRAM).status, DRAY_OK);
      EXPECT_EQ(e.put("n" + Name(i), 0, kCell, DRAY_TIER_CXL).status, DRAY_OK) << "written while it is bad";
    }
    EXPECT_EQ(e.drop(Name(0)).status, DRAY_OK);
    EXPECT_EQ(m->worker(), worker) << "nobody died";
    auto r = run::dray({"tiers"}, m.get());
    EXPECT_NE(r.out.find("not kept"), std::string::npos) << r.out;
    EXPECT_TRUE(m->audit_clean());
    e.close();
    EXPECT_EQ(m->stop(), 0) << m->log();
  }
  t.keep = "yes";
  auto m = mover(t);
  ASSERT_TRUE(m->up()) << m->log();
  EXPECT_EQ(m->status("found_on_disk"), 0);
  Engine e(*m, guest::as("red"));
  EXPECT_EQ(e.put("x", 0, kCell, DRAY_TIER_CXL).status, DRAY_OK);
  printf("MATRIX devdax directory: BUS_MCEERR_AO to the control thread: served on, not kept, said once; forgotten at the next start\n");
}

TEST(GuestPoisonMemfd, AMemfdSlabsPageIsBarredForAllAndOnlyItsCellIsLost)
{
  NEEDS("GUEST_DAX");
  auto m = mover({.capacity = "16MiB"}, guest::env("GUEST_DISK"));
  ASSERT_TRUE(m->up()) << m->log();
  Engine e(*m, guest::as("red"));
  for (int i = 0; i < 8; i++) {
    e.fill(0, kCell, i);
    ASSERT_EQ(e.put(Name(i), 0, kCell, DRAY_TIER_DRAM).status, DRAY_OK);
  }
  auto lease = e.map(Name(3), DRAY_TIER_DRAM);
  ASSERT_EQ(lease.status, DRAY_OK) << say(lease);
  char *p = (char *)(uintptr_t)dray_map_address(e.d, lease.slab, lease.off);
  ASSERT_NE(p, nullptr);
  ASSERT_EQ(PoisonFromOutside(p + 0x3000), 0);
  struct dray_hit hit;
  std::vector<char> to(kCell);
  int r = dray_copy_guarded(e.d, lease.object, p, 0, to.data(), kCell, &hit);
  EXPECT_EQ(r, -EHWPOISON);
  EXPECT_EQ(hit.off & ~4095ull, 0x3000u);
  EXPECT_EQ(hit.unit, 4096u);
  EXPECT_LE(hit.good, 0x3000u);
  printf("MATRIX memfd engine: SIGBUS BUS_MCEERR_AR in the mapped read: %s, unit %llu, off %llu\n", strerror(-r),
         (unsigned long long)hit.unit, (unsigned long long)hit.off);
  EXPECT_TRUE(WaitPoisoned(e, lease.object)) << m->log();
  for (int i = 0; i < 8; i++) {
    auto c = Get(e, Name(i), DRAY_TIER_DRAM);
    if (i == 3)
      EXPECT_EQ(c.reason, DRAY_POISONED) << say(c);
    else
      EXPECT_TRUE(c.status == DRAY_OK && e.holds(8 * kMiB, kCell, i)) << i << say(c);
  }
  EXPECT_EQ(m->status("poison.barred_bytes"), 4096);
  EXPECT_TRUE(m->audit_clean());
}

TEST(GuestPoisonMemfd, TheEnginesOwnBadMemoryFailsItsPutWhicheverWayTheBytesGo)
{
  NEEDS("GUEST_DAX");
  auto m = mover({.capacity = "16MiB"}, guest::env("GUEST_DISK"));
  ASSERT_TRUE(m->up()) << m->log();
  Engine e(*m, guest::as("red")), other(*m, guest::as("red", "z"));
  e.fill(0, kCell, 1);
  ASSERT_EQ(PoisonFromOutside(e.mem() + 0x9000), 0);
  std::vector<uint8_t> tiers = {DRAY_TIER_DRAM, DRAY_TIER_CXL};
  if (!guest::env("GUEST_DISK").empty())
    tiers.push_back(DRAY_TIER_DISK);
  for (uint8_t tier : tiers) {
    dray_prep_put(e.sqe(), kit::Key("x").b, e.region.id, 0, kCell, tier);
    auto c = Done(e);
    EXPECT_EQ(c.status, DRAY_FAULT) << say(c);
    EXPECT_EQ(c.reason, DRAY_POISONED) << say(c);
    EXPECT_EQ(c.slab, 0u) << "nothing of the store is condemned";
    printf("MATRIX memfd %s: PUT from the engine's bad page to %s: %s\n", tier == DRAY_TIER_DISK ? "io_uring" : "mover",
           dray_tier_name(tier), say(c).c_str());
    EXPECT_EQ(other.put("ok", 0, kCell, tier).status, DRAY_OK) << "others do not notice";
  }
  EXPECT_EQ(m->status("poison.barred_units"), 0);
  EXPECT_TRUE(m->audit_clean());
}
