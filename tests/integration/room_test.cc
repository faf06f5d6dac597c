/* SPDX-License-Identifier: Apache-2.0 */
/* Full pools: the ladder demotes, then evicts; leases are never taken; a full disk says so. */
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstring>

#include "tests/kit/mover.h"

using kit::Engine;
using kit::Key;
using kit::Mover;
using kit::say;

namespace {
const uint64_t kCell = 256 << 10;

kit::MoverOptions small(const char *dram, const char *cxl, const char *disk)
{
  kit::MoverOptions o;
  o.sets = {std::string("tier.dram.capacity=") + dram, std::string("tier.cxl.capacity=") + cxl, std::string("tier.disk.capacity=") + disk,
            "tier.dram.slab_size=1MiB", "tier.cxl.slab_size=1MiB", "tier.disk.slab_size=2MiB"};
  return o;
}
std::string name(int i) { return "c" + std::to_string(i); }

TEST(Room, FullPoolDemotesDownTheLadderAndGetsItBack)
{
  Mover m(small("8MiB", "8MiB", "256MiB"));
  ASSERT_TRUE(m.up()) << m.log();
  Engine e(m);
  const int n = 200; /* 50 MiB through 8 + 8 */
  for (int i = 0; i < n; i++) {
    e.fill(0, kCell, i);
    auto c = e.put(name(i), 0, kCell);
    ASSERT_EQ(c.status, DRAY_OK) << i << " " << say(c);
    EXPECT_EQ(c.tier, DRAY_TIER_DRAM) << "new cells go to the hottest tier";
  }
  int by_tier[DRAY_TIER_COUNT] = {};
  for (int i = 0; i < n; i++) {
    auto c = e.get(name(i), 0, kCell);
    ASSERT_EQ(c.status, DRAY_OK) << i << " " << say(c);
    ASSERT_TRUE(e.holds(0, kCell, i)) << i;
    by_tier[c.tier]++;
  }
  EXPECT_GT(by_tier[DRAY_TIER_DRAM], 0);
  EXPECT_GT(by_tier[DRAY_TIER_DISK], 100);
  EXPECT_GT(m.status("counters.demoted"), 100);
  EXPECT_EQ(m.status("counters.evicted"), 0) << "nothing is dropped while the disk has room";
  EXPECT_TRUE(m.audit_clean());
}

TEST(Room, WhenTheLadderEndsTheLeastUsedIsEvictedAndSaidToBe)
{
  Mover m(small("8MiB", "8MiB", "16MiB"));
  ASSERT_TRUE(m.up()) << m.log();
  Engine e(m);
  const int n = 300; /* 75 MiB through 32 */
  for (int i = 0; i < n; i++) {
    e.fill(0, kCell, i);
    auto c = e.put(name(i), 0, kCell);
    ASSERT_EQ(c.status, DRAY_OK) << i << " " << say(c);
  }
  int hit = 0, evicted = 0;
  for (int i = 0; i < n; i++) {
    auto c = e.get(name(i), 0, kCell);
    if (c.status == DRAY_OK) {
      ASSERT_TRUE(e.holds(0, kCell, i)) << i;
      hit++;
    } else {
      ASSERT_EQ(c.status, DRAY_MISSED) << say(c);
      evicted += c.reason == DRAY_EVICTED;
    }
  }
  EXPECT_GT(hit, 60);
  EXPECT_GT(evicted, 0);
  EXPECT_GT(m.status("counters.evicted"), 0);
  EXPECT_TRUE(m.audit_clean());
}

TEST(Room, LeasedCellsAreNeverTaken)
{
  Mover m(small("4MiB", "4MiB", "256MiB"));
  ASSERT_TRUE(m.up());
  Engine e(m);
  const void *at[8];
  uint64_t lease[8];
  for (int i = 0; i < 8; i++) {
    e.fill(0, kCell, i);
    ASSERT_EQ(e.put(name(i), 0, kCell, DRAY_TIER_DRAM).status, DRAY_OK);
    auto c = e.map(name(i));
    ASSERT_EQ(c.status, DRAY_OK);
    at[i] = dray_map_address(e.d, c.slab, c.off);
    lease[i] = c.object;
  }
  for (int i = 100; i < 200; i++) {
    e.fill(0, kCell, i);
    ASSERT_EQ(e.put(name(i), 0, kCell).status, DRAY_OK);
  }
  for (int i = 0; i < 8; i++)
    EXPECT_TRUE(kit::pattern_holds(at[i], kCell, i)) << i;
  for (int i = 0; i < 8; i++)
    EXPECT_EQ(e.unmap(lease[i]).status, DRAY_OK);
  EXPECT_TRUE(m.audit_clean());
}

TEST(Room, WhenAllIsLeasedThereIsNoRoomAndNoHang)
{
  Mover m(small("2MiB", "2MiB", "64MiB"));
  ASSERT_TRUE(m.up());
  Engine e(m);
  int n = 0;
  struct dray_cqe c;
  for (; n < 100; n++) {
    c = e.put(name(n), 0, kCell, DRAY_TIER_DRAM);
    if (c.status != DRAY_OK)
      break;
    ASSERT_EQ(e.map(name(n), DRAY_TIER_DRAM).status, DRAY_OK);
  }
  EXPECT_EQ(c.status, DRAY_REFUSED);
  EXPECT_EQ(c.reason, DRAY_NO_ROOM) << say(c);
  EXPECT_GE(n, 6);
  EXPECT_LE(n, 8);
}

TEST(Room, LargerThanThePoolIsTooLarge)
{
  Mover m(small("4MiB", "4MiB", "64MiB"));
  ASSERT_TRUE(m.up());
  Engine e(m);
  auto c = e.put("x", 0, 8 << 20, DRAY_TIER_DRAM);
  EXPECT_EQ(c.status, DRAY_REFUSED);
  EXPECT_EQ(c.reason, DRAY_TOO_LARGE) << say(c);
}

TEST(Room, StagingForAMapMakesRoom)
{
  Mover m(small("4MiB", "4MiB", "256MiB"));
  ASSERT_TRUE(m.up());
  Engine e(m);
  for (int i = 0; i < 60; i++) {
    e.fill(0, kCell, i);
    ASSERT_EQ(e.put(name(i), 0, kCell).status, DRAY_OK);
  }
  for (int round = 0; round < 2; round++)
    for (int i = 0; i < 60; i++) {
      auto c = e.map(name(i), 0, DRAY_MAP_OR_STAGE);
      ASSERT_EQ(c.status, DRAY_OK) << i << " " << say(c);
      ASSERT_TRUE(kit::pattern_holds(dray_map_address(e.d, c.slab, c.off), kCell, i)) << i;
      ASSERT_EQ(e.unmap(c.object).status, DRAY_OK);
    }
  EXPECT_TRUE(m.audit_clean());
}

TEST(Room, OneTenantCannotPushAllOthersOut)
{
  auto o = small("16MiB", "1MiB", "8MiB");
  o.tenants = {"a:ta", "b:tb"};
  Mover m(o);
  ASSERT_TRUE(m.up());
  Engine a(m, {.token = "ta"}), b(m, {.token = "tb"});
  for (int i = 0; i < 8; i++) { /* 2 MiB: far below its share */
    b.fill(0, kCell, i);
    ASSERT_EQ(b.put(name(i), 0, kCell, DRAY_TIER_DRAM).status, DRAY_OK);
  }
  for (int i = 0; i < 400; i++)
    ASSERT_EQ(a.put(name(i), 0, kCell, DRAY_TIER_DRAM).status, DRAY_OK) << i;
  int kept = 0;
  for (int i = 0; i < 8; i++)
    kept += b.get(name(i), 0, kCell).status == DRAY_OK;
  EXPECT_EQ(kept, 8);
}

TEST(Room, FullDiskIsNoSpaceAndNothingIsLost)
{
  if (geteuid() != 0)
    GTEST_SKIP() << "needs root to mount a small filesystem";
  char dir[] = "/tmp/dray-full-XXXXXX";
  ASSERT_NE(mkdtemp(dir), nullptr);
  std::string img = std::string(dir) + "/img", mnt = std::string(dir) + "/mnt";
  std::string make = "mkdir " + mnt + " && truncate -s 48M " + img + " && mkfs.ext4 -q -F " + img + " && mount -o loop " + img + " " + mnt;
  if (system((make + " 2>/dev/null").c_str()) != 0) {
    if (system((std::string("rm -rf ") + dir).c_str()) != 0) {
    }
    GTEST_SKIP() << "no loop mount here";
  }
  {
    kit::MoverOptions o = small("64MiB", "1MiB", "512MiB"); /* ten times what the filesystem has */
    o.sets.push_back("tier.disk.path=" + mnt + "/d");
    Mover m(o);
    ASSERT_TRUE(m.up()) << m.log();
    Engine e(m);
    e.fill(0, 1 << 20, 1);
    struct dray_cqe c = {};
    int n = 0;
    for (; n < 200; n++) {
      c = e.put(name(n), 0, 1 << 20, DRAY_TIER_DISK);
      if (c.status != DRAY_OK)
        break;
    }
    EXPECT_LT(n, 48);
    EXPECT_EQ(c.reason, DRAY_NO_SPACE) << say(c);
    EXPECT_EQ(c.bytes, 0u);
    for (int i = 0; i < n; i++) {
      ASSERT_EQ(e.get(name(i), 2 << 20, 1 << 20).status, DRAY_OK) << i;
      ASSERT_TRUE(e.holds(2 << 20, 1 << 20, 1));
    }
    EXPECT_EQ(e.put("ram", 0, 1 << 20, DRAY_TIER_DRAM).status, DRAY_OK) << "other tiers do not notice";
    EXPECT_TRUE(m.audit_clean());
  }
  int busy = -1; /* the kernel takes an io_uring apart after its process is gone */
  for (int i = 0; i < 1000 && (busy = umount(mnt.c_str())) != 0; i++)
    poll(nullptr, 0, 10);
  EXPECT_EQ(busy, 0);
  EXPECT_EQ(system((std::string("rm -rf ") + dir).c_str()), 0);
}
}  // namespace
