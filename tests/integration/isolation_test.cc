/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every way to another tenant's private bytes that the memory, the keys and the leases offer, each with its reason. What /proc,
 * ptrace, mprotect and reopened fds offer is in hostile_test.cc; published slabs and names are in tenant_test.cc, too.
 */
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "tests/kit/mover.h"

using kit::Engine;
using kit::Key;
using kit::Mover;
using kit::say;

namespace {
constexpr uint64_t kLen = 60000;
const char kMark[] = "RED-SECRET-RED-SECRET-RED-SECRET";

/* Is a secret anywhere in [p, p + n)? */
bool Leaks(const void *p, uint64_t n) { return memmem(p, n, kMark, sizeof kMark - 1) != nullptr; }

/* A small tier of memfds, and one over a directory as far memory has it. */
class Isolation : public ::testing::TestWithParam<const char *> {
 protected:
  std::unique_ptr<Mover> m;
  std::unique_ptr<Engine> red, blue;
  void SetUp() override
  {
    kit::MoverOptions o;
    std::string transport = GetParam();
    o.config = "tenants: [{name: red, token: r}, {name: blue, token: b}]\ntiers:\n  - {name: dram, transport: " + transport +
               ", capacity: 4MiB" + (transport == "cxl" ? ", path: /dev/shm/dray-isolation-" + std::to_string(getpid()) : "") + "}\n";
    m = std::make_unique<Mover>(o);
    ASSERT_TRUE(m->up()) << m->log();
    red = std::make_unique<Engine>(*m, kit::EngineOptions{.token = "r"});
    blue = std::make_unique<Engine>(*m, kit::EngineOptions{.token = "b"});
    ASSERT_EQ(red->error(), 0);
    ASSERT_EQ(blue->error(), 0);
    for (uint64_t i = 0; i + sizeof kMark <= kLen; i += sizeof kMark)
      memcpy(red->mem() + i, kMark, sizeof kMark);
  }
  void TearDown() override
  {
    red.reset();
    blue.reset();
    m.reset();
    if (system(("rm -rf /dev/shm/dray-isolation-" + std::to_string(getpid())).c_str()) != 0) {
    }
  }
  struct dray_cqe secret(const std::string &name) { return red->put(name, 0, kLen, DRAY_TIER_DRAM); }
};

TEST_P(Isolation, SlabsThatWereNotGivenCannotBeMapped)
{
  ASSERT_EQ(secret("s").status, DRAY_OK);
  auto mine = red->map("s");
  ASSERT_EQ(mine.status, DRAY_OK) << say(mine);
  ASSERT_NE(dray_map_address(red->d, mine.slab, mine.off), nullptr);
  EXPECT_EQ(dray_map_address(blue->d, mine.slab, mine.off), nullptr) << "the very id";
  for (uint32_t gen = 0; gen < 2; gen++)
    for (uint32_t i = 0; i < 2; i++)
      EXPECT_EQ(dray_map_address(blue->d, gen << 16 | i, 0), nullptr) << "a guess";
  auto c = blue->map("s");
  EXPECT_EQ(c.reason, DRAY_ABSENT) << say(c);
}

TEST_P(Isolation, FreedAndReusedSpaceShowsNothing)
{
  for (int round = 0; round < 4; round++) {
    int n = 0;
    while (n < 40 && secret("s" + std::to_string(n)).status == DRAY_OK)
      n++;
    for (int i = 0; i < n; i++)
      red->drop("s" + std::to_string(i));
    for (int i = 0; i < 40; i++) { /* a byte of its own in each slot; the rest is what was there */
      std::string name = "b" + std::to_string(i);
      blue->mem()[0] = 'b';
      auto c = blue->put(name, 0, 1, DRAY_TIER_DRAM);
      ASSERT_EQ(c.status, DRAY_OK) << say(c);
      auto lease = blue->map(name);
      if (lease.status != DRAY_OK)
        continue; /* pushed out meanwhile */
      const char *p = (const char *)dray_map_address(blue->d, lease.slab, 0);
      ASSERT_NE(p, nullptr);
      EXPECT_FALSE(Leaks(p, lease.off + 4096)) << "round " << round;
      blue->unmap(lease.object);
    }
    dray_prep_alloc(blue->sqe(), Key("fill").b, kLen, DRAY_TIER_DRAM);
    auto fill = blue->one();
    ASSERT_EQ(fill.status, DRAY_OK) << say(fill);
    const char *p = (const char *)dray_fill_address(blue->d, fill.slab);
    ASSERT_NE(p, nullptr);
    for (uint64_t i = 0; i < kLen; i++)
      ASSERT_EQ(p[i], 0) << "memory to fill is fresh, byte " << i;
    blue->unmap(fill.object);
    for (int i = 0; i < 40; i++)
      blue->drop("b" + std::to_string(i));
  }
  EXPECT_TRUE(m->audit_clean());
}

/* A child of blue's keeps blue's map when blue is long dead. */
TEST_P(Isolation, AForkedChildsOldMapShowsNothingNew)
{
  int ready[2], look[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(look), 0);
  pid_t pid = fork();
  if (pid == 0) {
    alarm(120);
    Engine e(*m, {.agent = "parent", .token = "b"});
    if (e.error() || e.put("mine", 0, kLen, DRAY_TIER_DRAM).status != DRAY_OK)
      _exit(1);
    auto lease = e.map("mine");
    const char *p = lease.status == DRAY_OK ? (const char *)dray_map_address(e.d, lease.slab, 0) : nullptr;
    uint64_t whole = lease.off + kLen;
    if (!p)
      _exit(2);
    if (fork() == 0) {
      char c = 'r';
      ssize_t k = write(ready[1], &c, 1);
      if (k != 1 || read(look[0], &c, 1) != 1)
        _exit(3);
      c = Leaks(p, whole) ? 'L' : 'n';
      k = write(ready[1], &c, 1);
      _exit(k == 1 ? 0 : 4);
    }
    _exit(0); /* without a goodbye */
  }
  char c = '?';
  struct pollfd p = {ready[0], POLLIN, 0};
  ASSERT_EQ(poll(&p, 1, 60000), 1);
  ASSERT_EQ(read(ready[0], &c, 1), 1);
  ASSERT_EQ(c, 'r');
  int status;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  ASSERT_EQ(status, 0);
  ASSERT_TRUE(m->wait_status("sessions", 2)) << m->log();
  ASSERT_TRUE(m->wait_status("leases", 0));
  for (int i = 0; i < 200; i++)
    ASSERT_EQ(secret("s" + std::to_string(i)).status, DRAY_OK) << "more than the tier has: all of it is used anew";
  ASSERT_EQ(write(look[1], "?", 1), 1);
  p = {ready[0], POLLIN, 0};
  ASSERT_EQ(poll(&p, 1, 60000), 1);
  ASSERT_EQ(read(ready[0], &c, 1), 1);
  EXPECT_EQ(c, 'n') << "red's bytes are under a map that blue's child has";
  for (int fd : {ready[0], ready[1], look[0], look[1]})
    close(fd);
}

TEST_P(Isolation, ARecycledKeyIsTheNewOwnersAndNobodyElses)
{
  ASSERT_EQ(secret("k").status, DRAY_OK);
  ASSERT_EQ(red->drop("k").status, DRAY_OK);
  memset(blue->mem(), 'b', kLen);
  ASSERT_EQ(blue->put("k", 0, kLen, DRAY_TIER_DRAM).status, DRAY_OK);
  EXPECT_EQ(red->get("k", 1 << 20, kLen).reason, DRAY_ABSENT) << "it was red's once, and is not now";
  EXPECT_EQ(red->map("k").reason, DRAY_ABSENT);
  EXPECT_EQ(red->drop("k").reason, DRAY_ABSENT);
  ASSERT_EQ(secret("k").status, DRAY_OK) << "and again, beside blue's";
  ASSERT_EQ(blue->get("k", 1 << 20, kLen).status, DRAY_OK);
  EXPECT_FALSE(Leaks(blue->mem() + (1 << 20), kLen));
  EXPECT_EQ(blue->mem()[(1 << 20) + 7], 'b');
}

TEST_P(Isolation, StaleAndForeignLeasesAreBadWhateverIsAskedOfThem)
{
  ASSERT_EQ(secret("s").status, DRAY_OK);
  auto theirs = red->map("s");
  ASSERT_EQ(theirs.status, DRAY_OK);
  ASSERT_EQ(blue->put("b", 0, kLen, DRAY_TIER_DRAM).status, DRAY_OK);
  auto stale = blue->map("b");
  ASSERT_EQ(blue->unmap(stale.object).status, DRAY_OK);
  for (uint64_t id : {theirs.object, stale.object, stale.object + 1, (uint64_t)0, UINT64_MAX}) {
    EXPECT_EQ(blue->unmap(id).reason, DRAY_BAD_LEASE) << id;
    dray_prep_account(blue->sqe(), id, 1, 0);
    EXPECT_EQ(blue->one().reason, DRAY_BAD_LEASE) << id;
    dray_prep_commit(blue->sqe(), id);
    EXPECT_EQ(blue->one().reason, DRAY_BAD_LEASE) << id;
    EXPECT_EQ(dray_lease_state(blue->d, id == 0 ? 1 : id), DRAY_LEASE_NONE);
  }
  EXPECT_EQ(dray_lease_state(red->d, theirs.object), DRAY_LEASE_LIVE) << "nobody ended red's";
  EXPECT_EQ(red->unmap(theirs.object).status, DRAY_OK);
}

/* Whatever is asked about another's private cell is answered as if it had never been: in every field. */
TEST_P(Isolation, ProbingTellsNoNameFromNone)
{
  ASSERT_EQ(secret("there").status, DRAY_OK);
  auto same = [&](const char *what, const std::function<void(struct dray_sqe *, const uint8_t *)> &prep) {
    struct dray_cqe c[2];
    int i = 0;
    for (const char *name : {"there", "never"}) {
      prep(blue->sqe(), Key(name).b);
      c[i] = blue->one();
      c[i].sq_pos = c[i].queue_ns = c[i].exec_ns = 0;
      c[i++].cookie = 0;
    }
    EXPECT_EQ(c[0].reason, DRAY_ABSENT) << what << " " << say(c[0]);
    EXPECT_EQ(memcmp(&c[0], &c[1], sizeof c[0]), 0) << what << ": " << say(c[0]) << " against " << say(c[1]);
  };
  uint16_t r = blue->region.id;
  same("GET", [&](struct dray_sqe *q, const uint8_t *k) { dray_prep_get(q, k, r, 0, 100, 0); });
  same("GET too long", [&](struct dray_sqe *q, const uint8_t *k) { dray_prep_get(q, k, r, 0, 1 << 20, 0); });
  same("GET of a tier", [&](struct dray_sqe *q, const uint8_t *k) { dray_prep_get(q, k, r, 0, 100, DRAY_TIER_DRAM); });
  same("MAP", [&](struct dray_sqe *q, const uint8_t *k) { dray_prep_map(q, k, 0); });
  same("STAT", [&](struct dray_sqe *q, const uint8_t *k) { dray_prep_stat(q, k, 0); });
  same("DROP", [&](struct dray_sqe *q, const uint8_t *k) { dray_prep_drop(q, k, 0); });
  same("MOVE", [&](struct dray_sqe *q, const uint8_t *k) { dray_prep_move(q, k, DRAY_TIER_DRAM, 0); });
  same("QUARANTINE", [&](struct dray_sqe *q, const uint8_t *k) {
    q->op = DRAY_QUARANTINE;
    memcpy(q->key, k, 16);
  });
  struct dray_publish p = {};
  p.scope = DRAY_SCOPE_FLEET;
  p.taint = DRAY_TRUSTED;
  memcpy(dray_items(blue->d) + 3, &p, sizeof p);
  same("PUBLISH", [&](struct dray_sqe *q, const uint8_t *k) { dray_prep_publish(q, k, 3); });
  auto c = blue->put("there", 0, 100, DRAY_TIER_DRAM, DRAY_NO_REPLACE);
  EXPECT_EQ(c.status, DRAY_OK) << "a key that another has is free: " << say(c);
  EXPECT_EQ(red->get("there", 1 << 20, kLen).status, DRAY_OK) << "and red's is untouched";
  EXPECT_TRUE(Leaks(red->mem() + (1 << 20), kLen));
}

INSTANTIATE_TEST_SUITE_P(Tiers, Isolation, ::testing::Values("memory", "cxl"), [](auto &i) { return std::string(i.param); });
} // namespace
