/* SPDX-License-Identifier: Apache-2.0 */
/* One question, one verdict: the tables of TIERS.md. */
#include <gtest/gtest.h>

#include <cstring>

extern "C" {
#include "policy/verdict.h"
}

namespace {
constexpr uint8_t Bit(unsigned tier) { return (uint8_t)(1u << tier); }
constexpr unsigned DRAM = DRAY_TIER_DRAM, CXL = DRAY_TIER_CXL, DISK = DRAY_TIER_DISK;

/* A node with dram, cxl and disk; the asker owns the cell, which has copies where a test says. */
class Decide : public ::testing::Test {
 protected:
  policy_snapshot s{};
  policy_ask a{};
  policy_verdict v{};

  void SetUp() override
  {
    profile_defaults(&s.profiles);
    s.ladder[0] = DRAM;
    s.ladder[1] = CXL;
    s.ladder[2] = DISK;
    a.exists = true;
    a.tenant = a.cell_tenant = 1;
    a.agent = a.cell_agent = 10;
    a.cell_scope = DRAY_SCOPE_AGENT;
    a.cell_taint = DRAY_TAINTED;
    a.usable = a.room = Bit(DRAM) | Bit(CXL) | Bit(DISK);
  }
  void Ask(unsigned op, uint8_t copies = 0, unsigned tier = 0, unsigned flags = 0)
  {
    a.op = (uint8_t)op;
    a.copies = copies;
    a.tier = (uint8_t)tier;
    a.flags = (uint16_t)flags;
    memset(&v, 0xee, sizeof v);
    policy_decide(&s, &a, &v);
  }
  void Says(unsigned decision, unsigned route, unsigned from, unsigned to, unsigned reason)
  {
    EXPECT_EQ(v.decision, decision);
    EXPECT_EQ(v.route, route);
    EXPECT_EQ(v.from, from);
    EXPECT_EQ(v.to, to);
    EXPECT_EQ(v.reason, reason);
  }
  void Admits(unsigned route, unsigned from, unsigned to) { Says(POLICY_ADMIT, route, from, to, DRAY_REASON_OK); }
  void Refuses(unsigned reason) { Says(POLICY_REFUSE, ROUTE_NONE, 0, 0, reason); }
  void Misses() { Says(POLICY_MISS, ROUTE_NONE, 0, 0, DRAY_ABSENT); }
};
} // namespace

TEST_F(Decide, MapLeasesTheHottestAttendableCopy)
{
  Ask(DRAY_MAP, Bit(DRAM) | Bit(CXL) | Bit(DISK));
  Admits(ROUTE_MAP, DRAM, 0);
  Ask(DRAY_MAP, Bit(CXL) | Bit(DISK));
  Admits(ROUTE_MAP, CXL, 0);
  s.profiles.tier[DRAM].coherent = false;
  Ask(DRAY_MAP, Bit(DRAM) | Bit(CXL));
  Admits(ROUTE_MAP, CXL, 0);
}

TEST_F(Decide, MapOfACopyThatCannotBeAttendedIsRefusedOrStaged)
{
  Ask(DRAY_MAP, Bit(DISK));
  Refuses(DRAY_NOT_ATTENDABLE);
  Ask(DRAY_MAP, Bit(DISK), 0, DRAY_MAP_OR_STAGE);
  Admits(ROUTE_STAGE, DISK, DRAM);
  a.room = Bit(CXL) | Bit(DISK);
  Ask(DRAY_MAP, Bit(DISK), 0, DRAY_MAP_OR_STAGE);
  Admits(ROUTE_STAGE, DISK, CXL);
  a.room = 0;
  Ask(DRAY_MAP, Bit(DISK), 0, DRAY_MAP_OR_STAGE);
  Admits(ROUTE_STAGE, DISK, DRAM);
  a.usable = Bit(DISK);
  Ask(DRAY_MAP, Bit(DISK), 0, DRAY_MAP_OR_STAGE);
  Refuses(DRAY_NOT_ATTENDABLE);
}

TEST_F(Decide, MapOfAGivenTierTakesThatCopyOnly)
{
  Ask(DRAY_MAP, Bit(DRAM) | Bit(CXL), CXL);
  Admits(ROUTE_MAP, CXL, 0);
  Ask(DRAY_MAP, Bit(DRAM), CXL);
  Misses();
  Ask(DRAY_MAP, Bit(DRAM) | Bit(DISK), DISK);
  Refuses(DRAY_NOT_ATTENDABLE);
  Ask(DRAY_MAP, Bit(DRAM) | Bit(DISK), DISK, DRAY_MAP_OR_STAGE);
  Admits(ROUTE_STAGE, DISK, DRAM);
  Ask(DRAY_MAP, Bit(DRAM), 200);
  Misses();
}

TEST_F(Decide, GetCopiesFromAnAttendableTierAndStagesFromOthers)
{
  Ask(DRAY_GET, Bit(CXL) | Bit(DISK));
  Admits(ROUTE_CPU, CXL, 0);
  Ask(DRAY_GET, Bit(DISK));
  Admits(ROUTE_STAGE, DISK, 0);
  Ask(DRAY_GET, Bit(CXL) | Bit(DISK), DISK);
  Admits(ROUTE_STAGE, DISK, 0);
  Ask(DRAY_GET, Bit(CXL), DISK);
  Misses();
}

TEST_F(Decide, PutGoesToTheHottestTierWithRoom)
{
  a.exists = false;
  Ask(DRAY_PUT);
  Admits(ROUTE_CPU, 0, DRAM);
  a.room = Bit(CXL) | Bit(DISK);
  Ask(DRAY_PUT);
  Admits(ROUTE_CPU, 0, CXL);
  a.room = Bit(DISK);
  Ask(DRAY_PUT);
  Admits(ROUTE_STAGE, 0, DISK);
  a.room = 0;
  Ask(DRAY_PUT);
  Admits(ROUTE_CPU, 0, DRAM);
  Ask(DRAY_PUT, 0, CXL);
  Admits(ROUTE_CPU, 0, CXL);
  Ask(DRAY_PUT, 0, DRAY_TIER_HBM);
  Refuses(DRAY_BAD_TIER);
  Ask(DRAY_PUT, 0, 99);
  Refuses(DRAY_BAD_TIER);
  a.usable = 0;
  Ask(DRAY_PUT);
  Refuses(DRAY_NO_ROOM);
}

TEST_F(Decide, AllocNeedsMemoryThatCanBeFilledInPlace)
{
  a.exists = false;
  Ask(DRAY_ALLOC);
  Admits(ROUTE_MAP, 0, DRAM);
  a.room = Bit(DISK);
  Ask(DRAY_ALLOC);
  Admits(ROUTE_MAP, 0, DRAM);
  Ask(DRAY_ALLOC, 0, DISK);
  Refuses(DRAY_NOT_ATTENDABLE);
  Ask(DRAY_ALLOC, 0, DRAY_TIER_HBM);
  Refuses(DRAY_BAD_TIER);
  a.usable = Bit(DISK);
  Ask(DRAY_ALLOC);
  Refuses(DRAY_NOT_ATTENDABLE);
}

TEST_F(Decide, MoveGoesWhereItIsTold)
{
  Ask(DRAY_MOVE, Bit(DRAM), CXL);
  Admits(ROUTE_CPU, DRAM, CXL);
  Ask(DRAY_MOVE, Bit(DRAM), DISK);
  Admits(ROUTE_STAGE, DRAM, DISK);
  Ask(DRAY_MOVE, Bit(DISK), DRAM);
  Admits(ROUTE_STAGE, DISK, DRAM);
  Ask(DRAY_MOVE, Bit(DRAM) | Bit(CXL), CXL);
  Admits(ROUTE_NONE, DRAM, CXL);
  Ask(DRAY_MOVE, Bit(DRAM), 0);
  Refuses(DRAY_BAD_TIER);
  Ask(DRAY_MOVE, Bit(DRAM), DRAY_TIER_REMOTE);
  Refuses(DRAY_BAD_TIER);
  Ask(DRAY_MOVE, 0, CXL);
  Misses();
}

TEST_F(Decide, ChangingCoherentOrByteAddressableChangesTheRoute)
{
  const char *incoherent = R"({"tiers":{"cxl":{"Coherent":false}}})";
  const char *blockwise = R"({"tiers":{"cxl":{"ByteAddressable":false}}})";
  for (const char *json : {incoherent, blockwise}) {
    profile_defaults(&s.profiles);
    Ask(DRAY_MAP, Bit(CXL));
    Admits(ROUTE_MAP, CXL, 0);
    Ask(DRAY_GET, Bit(CXL));
    Admits(ROUTE_CPU, CXL, 0);
    Ask(DRAY_PUT, 0, CXL);
    Admits(ROUTE_CPU, 0, CXL);
    Ask(DRAY_MOVE, Bit(DRAM), CXL);
    Admits(ROUTE_CPU, DRAM, CXL);
    ASSERT_EQ(profile_parse(&s.profiles, json, strlen(json), nullptr), 0);
    Ask(DRAY_MAP, Bit(CXL));
    Refuses(DRAY_NOT_ATTENDABLE);
    Ask(DRAY_MAP, Bit(CXL), 0, DRAY_MAP_OR_STAGE);
    Admits(ROUTE_STAGE, CXL, DRAM);
    Ask(DRAY_GET, Bit(CXL));
    Admits(ROUTE_STAGE, CXL, 0);
    Ask(DRAY_PUT, 0, CXL);
    Admits(ROUTE_STAGE, 0, CXL);
    Ask(DRAY_MOVE, Bit(DRAM), CXL);
    Admits(ROUTE_STAGE, DRAM, CXL);
    Ask(DRAY_ALLOC, 0, CXL);
    Refuses(DRAY_NOT_ATTENDABLE);
  }
  const char *attendable = R"({"tiers":{"disk":{"ByteAddressable":true,"Coherent":true}}})";
  profile_defaults(&s.profiles);
  ASSERT_EQ(profile_parse(&s.profiles, attendable, strlen(attendable), nullptr), 0);
  Ask(DRAY_MAP, Bit(DISK));
  Admits(ROUTE_MAP, DISK, 0);
}

TEST_F(Decide, MissingCellIsAMissForWhateverNeedsOne)
{
  a.exists = false;
  for (unsigned op : {DRAY_GET, DRAY_MAP, DRAY_MOVE, DRAY_PUBLISH, DRAY_DROP, DRAY_STAT, DRAY_QUARANTINE}) {
    Ask(op, 0, CXL);
    Misses();
  }
}

TEST_F(Decide, GateComesBeforePlaceAndRoute)
{
  a.agent = 11;
  Ask(DRAY_MAP, Bit(DISK));
  Refuses(DRAY_SCOPE_DENIED);
  a.cell_scope = DRAY_SCOPE_TENANT;
  Ask(DRAY_GET, 0);
  Refuses(DRAY_TAINT_DENIED);
  Ask(DRAY_DROP, Bit(DRAM));
  Refuses(DRAY_SCOPE_DENIED);
  a.tenant = 2;
  for (unsigned op : {DRAY_GET, DRAY_MAP, DRAY_MOVE, DRAY_PUBLISH, DRAY_DROP, DRAY_STAT, DRAY_QUARANTINE}) {
    Ask(op, Bit(DRAM), CXL);
    Misses();
  }
}

TEST_F(Decide, EverythingElseMovesNothing)
{
  for (unsigned op : {DRAY_NOP, DRAY_FENCE, DRAY_COMMIT, DRAY_UNMAP, DRAY_PUBLISH, DRAY_DROP, DRAY_STAT, DRAY_ACCOUNT,
                      DRAY_QUARANTINE, DRAY_CANCEL}) {
    Ask(op, Bit(DRAM));
    Admits(ROUTE_NONE, 0, 0);
  }
  Ask(DRAY_COPY);
  Admits(ROUTE_CPU, 0, 0);
}

TEST_F(Decide, VerdictIsNeverZeroed)
{
  for (unsigned op = 0; op < 40; op++)
    for (unsigned tier = 0; tier < 10; tier++)
      for (unsigned copies = 0; copies < 256; copies++) {
        Ask(op, (uint8_t)copies, tier, copies & 1 ? DRAY_MAP_OR_STAGE : 0);
        ASSERT_TRUE(v.decision >= POLICY_ADMIT && v.decision <= POLICY_MISS);
        ASSERT_TRUE(v.route >= ROUTE_NONE && v.route <= ROUTE_STAGE);
        ASSERT_TRUE(v.reason > 0 && v.reason < DRAY_REASON_COUNT);
        ASSERT_TRUE((v.reason == DRAY_REASON_OK) == (v.decision == POLICY_ADMIT));
      }
}
