/* SPDX-License-Identifier: Apache-2.0 */
/* The calibration decides the route, not the code. */
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "tests/kit/mover.h"

using kit::Engine;
using kit::Mover;
using kit::say;

namespace {
/* A mover whose cxl tier is said to be so. */
struct Calibrated {
  std::string path;
  explicit Calibrated(const std::string &cxl)
      : path("/tmp/dray-calibration." + std::to_string(getpid()) + ".json"),
        mover((write(cxl), kit::MoverOptions{{"calibration=" + path}, {}, "", ""}))
  {
  }
  ~Calibrated() { unlink(path.c_str()); }
  void write(const std::string &cxl) { std::ofstream(path) << "{\"label\":\"test\",\"tiers\":{\"cxl\":{" << cxl << "}}}"; }
  Mover mover;
};

TEST(Route, CoherentFarMemoryIsMappedInPlace)
{
  Calibrated c("\"Coherent\":true,\"ByteAddressable\":true");
  ASSERT_TRUE(c.mover.up()) << c.mover.log();
  Engine e(c.mover);
  e.fill(0, 10000, 1);
  ASSERT_EQ(e.put("k", 0, 10000, DRAY_TIER_CXL).status, DRAY_OK);
  auto m = e.map("k");
  EXPECT_EQ(m.path, DRAY_PATH_MAP) << say(m);
  EXPECT_EQ(m.tier, DRAY_TIER_CXL);
}

TEST(Route, FarMemoryThatIsNotCoherentIsStagedFirst)
{
  for (const char *cxl : {"\"Coherent\":false", "\"ByteAddressable\":false"}) {
    Calibrated c(cxl);
    ASSERT_TRUE(c.mover.up()) << c.mover.log();
    Engine e(c.mover);
    e.fill(0, 10000, 1);
    ASSERT_EQ(e.put("k", 0, 10000, DRAY_TIER_CXL).status, DRAY_OK) << cxl;
    EXPECT_EQ(e.map("k").reason, DRAY_NOT_ATTENDABLE) << cxl;
    auto m = e.map("k", 0, DRAY_MAP_OR_STAGE);
    ASSERT_EQ(m.status, DRAY_OK) << cxl << " " << say(m);
    EXPECT_TRUE(m.flags & DRAY_STAGED_FIRST);
    EXPECT_EQ(e.stat("k").tier, DRAY_TIER_DRAM) << "its hottest copy is the staged one";
    EXPECT_TRUE(kit::pattern_holds(dray_map_address(e.d, m.slab, m.off), 10000, 1));
    EXPECT_EQ(e.get("k", 20000, 10000, DRAY_TIER_CXL).status, DRAY_OK) << "bytes still come out of it by copy";
    EXPECT_TRUE(e.holds(20000, 10000, 1));
  }
}

TEST(Route, BadCalibrationIsOneClearLineBeforeAnythingStarts)
{
  Calibrated c("\"ReadLatencyNanos\":-1");
  EXPECT_FALSE(c.mover.up());
  EXPECT_NE(c.mover.log().find("ReadLatencyNanos"), std::string::npos) << c.mover.log();
}

TEST(Route, OneSessionsBulkDoesNotPostponeAnothersSmallCells)
{
  Mover m({.sets = {"lanes=1"}});
  ASSERT_TRUE(m.up());
  Engine bulk(m, {.region = 64u << 20}), small(m);
  /* 8 x 32 MiB are 1,024 quanta of one lane; all are taken before the small cell is asked for */
  for (int i = 0; i < 8; i++)
    dray_prep_put(bulk.sqe(), kit::Key("b" + std::to_string(i)).b, bulk.region.id, 0, 32u << 20, DRAY_TIER_DRAM);
  dray_submit(bulk.d);
  auto c = small.put("s", 0, 4096, DRAY_TIER_DRAM);
  ASSERT_EQ(c.status, DRAY_OK) << say(c);
  /* by the mover's own clock, so that it does not matter when this thread is scheduled */
  uint64_t mine = (uint64_t)c.queue_ns + c.exec_ns, theirs = 0;
  auto done = bulk.wait(8);
  ASSERT_EQ(done.size(), 8u);
  for (auto &b : done)
    theirs = std::max(theirs, (uint64_t)b.queue_ns + b.exec_ns);
  EXPECT_LT(mine, theirs / 4);
}
}  // namespace
