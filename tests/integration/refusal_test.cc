/* SPDX-License-Identifier: Apache-2.0 */
/* Every field at its edges: one clear reason, only that directive ends. */
#include <gtest/gtest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "tests/kit/mover.h"

using kit::Engine;
using kit::Key;
using kit::Mover;
using kit::say;

namespace {
class Refusal : public ::testing::Test {
 protected:
  Mover mover;
  Engine e{mover};
  void SetUp() override
  {
    ASSERT_TRUE(mover.up()) << mover.log();
    ASSERT_EQ(e.error(), 0);
  }
  /* Afterwards the session still works. */
  void TearDown() override
  {
    dray_prep_nop(e.sqe());
    EXPECT_EQ(e.one().status, DRAY_OK);
    EXPECT_EQ(mover.status("counters.protocol_errors"), 0);
    EXPECT_TRUE(mover.audit_clean());
  }
};

TEST_F(Refusal, RegionsThatAreNotOurs)
{
  for (unsigned id : {0u, 1u, 2u, 1023u, 1024u, 65535u, (unsigned)e.region.id + 1024, (unsigned)e.region.id ^ 0x8000}) {
    if (id == e.region.id || id > 65535)
      continue;
    dray_prep_put(e.sqe(), Key("k").b, (uint16_t)id, 0, 4096, 0);
    auto c = e.one();
    EXPECT_EQ(c.status, DRAY_REFUSED) << id;
    EXPECT_EQ(c.reason, DRAY_BAD_REGION) << id << " " << say(c);
  }
}

TEST_F(Refusal, UnregisteredRegionIdIsNotReusedAtOnce)
{
  struct dray_region r;
  ASSERT_EQ(dray_region_alloc(1 << 20, false, &r), 0);
  ASSERT_EQ(dray_region_register(e.d, &r), 0);
  uint16_t old = r.id;
  ASSERT_EQ(dray_region_unregister(e.d, &r), 0);
  EXPECT_EQ(dray_region_unregister(e.d, &r), -ENOENT) << "a second time is said, not done";
  ASSERT_EQ(dray_region_register(e.d, &r), 0);
  EXPECT_NE(r.id, old);
  dray_prep_put(e.sqe(), Key("k").b, old, 0, 4096, 0);
  EXPECT_EQ(e.one().reason, DRAY_BAD_REGION) << "a stale id must not reach the new region";
  ASSERT_EQ(dray_region_unregister(e.d, &r), 0);
  dray_region_free(&r);
}

TEST_F(Refusal, RegionRangesAtTheirEdges)
{
  uint64_t size = e.region.size;
  const struct {
    uint64_t off, len;
    unsigned reason;
  } rows[] = {{0, size, DRAY_REASON_OK},       {size - 1, 1, DRAY_REASON_OK},     {size, 1, DRAY_OUT_OF_RANGE},
              {0, size + 1, DRAY_OUT_OF_RANGE}, {1, size, DRAY_OUT_OF_RANGE},      {UINT64_MAX, 1, DRAY_OUT_OF_RANGE},
              {1, UINT64_MAX, DRAY_OUT_OF_RANGE}, {UINT64_MAX, UINT64_MAX, DRAY_OUT_OF_RANGE}, {0, 0, DRAY_ZERO_LENGTH}};
  for (auto &r : rows) {
    auto c = e.put("edge", r.off, r.len);
    EXPECT_EQ(c.reason, r.reason) << r.off << "+" << r.len << " " << say(c);
  }
}

TEST_F(Refusal, LayoutsThatAreNotDefined)
{
  for (uint16_t id : {1, 2, 255, 256, 65535}) {
    struct dray_sqe *s = e.sqe();
    dray_prep_put(s, Key("k").b, e.region.id, 0, 4096, 0);
    s->layout = id;
    EXPECT_EQ(e.one().reason, DRAY_BAD_LAYOUT) << id;
  }
  struct dray_layout l = {};
  uint16_t id = 99;
  EXPECT_EQ(dray_layout_define(e.d, &l, &id), -EINVAL);
  EXPECT_EQ(id, 99) << "written on failure";
  struct dray_msg_reply why;
  dray_last_error(e.d, &why);
  EXPECT_EQ(why.reason, (uint32_t)DRAY_BAD_LAYOUT);
}

TEST_F(Refusal, LayoutTableIsBounded)
{
  struct dray_layout l = {0, 4096, 4096, 4096, 1};
  uint16_t id;
  int n = 0, r;
  while ((r = dray_layout_define(e.d, &l, &id)) == 0 && n < 1000)
    n++;
  EXPECT_EQ(r, -ENOSPC);
  EXPECT_EQ(n, 255);
}

TEST_F(Refusal, TiersThatAreNotThere)
{
  for (int t : {(int)DRAY_TIER_HBM, (int)DRAY_TIER_NUMA_FAR, (int)DRAY_TIER_REMOTE, 8, 255}) {
    auto c = e.put("k", 0, 100, (uint8_t)t);
    EXPECT_EQ(c.reason, DRAY_BAD_TIER) << int(t) << " " << say(c);
  }
}

TEST_F(Refusal, LeasesThatAreNotOurs)
{
  for (uint64_t id : {0ull, 1ull, 1ull << 32, (1ull << 32) + 5, ~0ull}) {
    auto c = e.unmap(id);
    EXPECT_EQ(c.reason, DRAY_BAD_LEASE) << id;
    dray_prep_commit(e.sqe(), id);
    EXPECT_EQ(e.one().reason, DRAY_BAD_LEASE) << id;
    dray_prep_account(e.sqe(), id, 1, 1);
    EXPECT_EQ(e.one().reason, DRAY_BAD_LEASE) << id;
  }
  e.put("k", 0, 100);
  auto lease = e.map("k");
  ASSERT_EQ(lease.status, DRAY_OK);
  Engine other(mover);
  EXPECT_EQ(other.unmap(lease.object).reason, DRAY_BAD_LEASE) << "another session's lease";
  dray_prep_commit(e.sqe(), lease.object);
  EXPECT_EQ(e.one().reason, DRAY_BAD_LEASE) << "a read lease is nothing to commit";
  dray_prep_account(e.sqe(), lease.object, 100, 7);
  EXPECT_EQ(e.one().status, DRAY_OK);
  EXPECT_EQ(mover.status("counters.accounted_bytes"), 100);
  e.unmap(lease.object);
}

TEST_F(Refusal, CopyOntoItselfIsOverlap)
{
  const struct {
    uint64_t src, dst, len;
    unsigned reason;
  } rows[] = {{0, 0, 1, DRAY_OVERLAP},          {0, 4095, 4096, DRAY_OVERLAP},     {4095, 0, 4096, DRAY_OVERLAP},
              {0, 4096, 4096, DRAY_REASON_OK}, {4096, 0, 4096, DRAY_REASON_OK}};
  for (auto &r : rows) {
    dray_prep_copy(e.sqe(), e.region.id, r.src, e.region.id, r.dst, r.len);
    EXPECT_EQ(e.one().reason, r.reason) << r.src << "->" << r.dst;
  }
  dray_prep_copy(e.sqe(), e.region.id, 0, 1000, 0, 1);
  EXPECT_EQ(e.one().reason, DRAY_BAD_REGION);
  dray_prep_copy(e.sqe(), e.region.id, 0, e.region.id, e.region.size, 1);
  EXPECT_EQ(e.one().reason, DRAY_OUT_OF_RANGE);
}

TEST_F(Refusal, BatchTablesOutsideTheArena)
{
  const struct {
    uint64_t row, n;
    unsigned reason;
  } rows[] = {{0, 8193, DRAY_OUT_OF_RANGE},  {8192, 1, DRAY_OUT_OF_RANGE}, {8191, 2, DRAY_OUT_OF_RANGE},
              {UINT64_MAX / 32, 1, DRAY_OUT_OF_RANGE}, {0, 65536, DRAY_TOO_LARGE},   {0, UINT64_MAX, DRAY_TOO_LARGE}};
  for (auto &r : rows) {
    struct dray_sqe *s = e.sqe();
    s->op = DRAY_STAT;
    s->flags = DRAY_BATCH;
    s->off = r.row * 32;
    s->len = r.n;
    auto c = e.one();
    EXPECT_EQ(c.reason, r.reason) << r.row << " " << r.n << " " << say(c);
  }
}

TEST_F(Refusal, EveryByteOfADirectiveAtItsExtremes)
{
  /* whatever is in a directive, it is answered once and the session goes on */
  for (uint8_t op = 0; op < DRAY_OP_COUNT + 2; op++)
    for (size_t at = 0; at < sizeof(struct dray_sqe); at++)
      for (int v : {1, 0x7f, 0x80, 0xff}) {
        struct dray_sqe *s = e.sqe();
        ASSERT_NE(s, nullptr);
        s->op = op;
        if (op == DRAY_PUT || op == DRAY_GET || op == DRAY_COPY) {
          s->region = e.region.id;
          s->len = 64;
        }
        reinterpret_cast<uint8_t *>(s)[at] = (uint8_t)v;
        s->deadline_us = at >= 52 && at < 56 ? s->deadline_us : 0;
        bool linked = s->flags & DRAY_LINK;
        auto c = e.one();
        ASSERT_EQ(c.type, DRAY_DONE) << int(op) << " byte " << at << " = " << v;
        ASSERT_NE(c.status, 0);
        ASSERT_NE(c.reason, 0);
        if (linked) { /* close the chain */
          dray_prep_nop(e.sqe());
          e.one();
        }
        if (c.status == DRAY_OK && (op == DRAY_ALLOC || op == DRAY_MAP))
          e.unmap(c.object);
      }
}

TEST_F(Refusal, UnsealedAndForeignMemoryIsRefusedWithWhatIsMissing)
{
  struct dray_region r = {};
  r.size = 1 << 20;
  r.fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(r.fd, r.size), 0);
  EXPECT_EQ(dray_region_register(e.d, &r), -EPERM);
  ASSERT_EQ(fcntl(r.fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  r.size = (1 << 20) + 1;
  EXPECT_EQ(dray_region_register(e.d, &r), -EMSGSIZE);
  r.size = 0;
  EXPECT_EQ(dray_region_register(e.d, &r), -EMSGSIZE);
  r.size = 1 << 20;
  EXPECT_EQ(dray_region_register(e.d, &r), 0);
  EXPECT_EQ(dray_region_unregister(e.d, &r), 0);
  close(r.fd);
  r.fd = open("/proc/self/exe", O_RDONLY);
  EXPECT_EQ(dray_region_register(e.d, &r), -EINVAL);
  close(r.fd);
}

TEST_F(Refusal, PunchedRegionReadsAsZeroAndHurtsNobody)
{
  e.fill(0, 1 << 20, 5);
  ASSERT_EQ(fallocate(e.region.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1 << 20), 0);
  auto c = e.put("hole", 0, 1 << 20);
  EXPECT_EQ(c.status, DRAY_OK) << say(c);
}

TEST_F(Refusal, QuarantinedCellIsNeverServedAgain)
{
  e.put("bad", 0, 4096);
  dray_prep_quarantine(e.sqe(), Key("bad").b, 0, 64);
  EXPECT_EQ(e.one().status, DRAY_OK);
  auto c = e.get("bad", 0, 4096);
  EXPECT_EQ(c.status, DRAY_REFUSED);
  EXPECT_EQ(c.reason, DRAY_QUARANTINED);
  EXPECT_EQ(e.map("bad").reason, DRAY_QUARANTINED);
  dray_prep_quarantine(e.sqe(), Key("bad").b, 4096, 1);
  EXPECT_EQ(e.one().reason, DRAY_OUT_OF_RANGE);
}

TEST_F(Refusal, TheThousandthRegistrationLeavesWhatTheFirstDid)
{
  auto once = [&] {
    struct dray_region r = {};
    ASSERT_EQ(dray_region_alloc(64 << 10, false, &r), 0);
    ASSERT_EQ(dray_region_register(e.d, &r), 0);
    ASSERT_EQ(dray_region_unregister(e.d, &r), 0);
    dray_region_free(&r);
  };
  for (int i = 0; i < 50; i++)
    once();
  int maps = kit::map_count(mover.worker()), fds = kit::fd_count(mover.worker()), keeper = kit::fd_count(mover.keeper());
  int64_t rss = mover.status("rss_kib");
  for (int i = 0; i < 1000; i++)
    once();
  EXPECT_LE(kit::map_count(mover.worker()), maps + 1);
  EXPECT_LE(kit::fd_count(mover.worker()), fds + 1);
  EXPECT_LE(kit::fd_count(mover.keeper()), keeper + 1);
  EXPECT_LE(mover.status("rss_kib"), rss + 2048);
}

/* Half a terabyte that is mostly holes: a region is mapped, not pinned, so nothing of its size is paid at registration. */
TEST(RefusalLarge, VeryLargeRegionIsMappedAndServedAtBothEnds)
{
  Mover m({.sets = {"limits.pinned=1TiB"}});
  ASSERT_TRUE(m.up());
  Engine e(m);
  struct dray_region r = {};
  const uint64_t size = 512ull << 30;
  if (dray_region_alloc(size, false, &r) < 0)
    GTEST_SKIP() << "no half terabyte of address space";
  int64_t rss = m.status("rss_kib");
  ASSERT_EQ(dray_region_register(e.d, &r), 0);
  char *last = (char *)r.base + size - 65536;
  kit::pattern_fill(last, 65536, 9);
  dray_prep_put(e.sqe(), Key("k").b, r.id, size - 65536, 65536, 0);
  EXPECT_EQ(e.one().status, DRAY_OK);
  dray_prep_get(e.sqe(), Key("k").b, r.id, 0, 65536, 0);
  EXPECT_EQ(e.one().status, DRAY_OK);
  EXPECT_TRUE(kit::pattern_holds(r.base, 65536, 9));
  EXPECT_LE(m.status("rss_kib"), rss + 8192);
  EXPECT_EQ(dray_region_unregister(e.d, &r), 0);
  dray_region_free(&r);
}

TEST_F(Refusal, PinnedBytesAndRegionsAreCapped)
{
  kit::MoverOptions o;
  o.sets = {"limits.pinned=32MiB", "limits.regions=3"};
  Mover small(o);
  ASSERT_TRUE(small.up());
  Engine x(small, {.region = 16u << 20});
  ASSERT_EQ(x.error(), 0);
  struct dray_region r[3];
  ASSERT_EQ(dray_region_alloc(17u << 20, false, &r[0]), 0);
  EXPECT_EQ(dray_region_register(x.d, &r[0]), -ENOSPC);
  struct dray_msg_reply why;
  dray_last_error(x.d, &why);
  EXPECT_EQ(why.reason, (uint32_t)DRAY_LIMIT);
  EXPECT_EQ(why.need, 17u << 20);
  EXPECT_EQ(why.have, 16u << 20);
  for (int i = 1; i < 3; i++) {
    ASSERT_EQ(dray_region_alloc(1 << 20, false, &r[i]), 0);
    EXPECT_EQ(dray_region_register(x.d, &r[i]), 0);
  }
  struct dray_region more;
  ASSERT_EQ(dray_region_alloc(4096, false, &more), 0);
  EXPECT_EQ(dray_region_register(x.d, &more), -ENOSPC);
  x.close();
  for (auto &g : r)
    dray_region_free(&g);
  dray_region_free(&more);
}
}  // namespace
