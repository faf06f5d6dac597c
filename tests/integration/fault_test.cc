/* SPDX-License-Identifier: Apache-2.0 */
/* A mover whose tiers go wrong on purpose: said at start, and nothing but the requests that were hit is the worse. */
#include <gtest/gtest.h>

#include "tests/integration/run_dray.h"

using kit::Engine;
using kit::Mover;
using kit::say;

TEST(Fault, IsSaidAtStartAndInTheListOfTiers)
{
  kit::MoverOptions o;
  o.sets = {"tier.dram.fault=seed=7 fail=EIO:1/1"};
  Mover m(o);
  ASSERT_TRUE(m.up()) << m.log();
  EXPECT_NE(m.log().find("tier dram is faulty on purpose: seed=7 fail=EIO:1/1"), std::string::npos) << m.log();
  auto r = run::dray({"tiers"}, &m);
  EXPECT_NE(r.out.find("dram: FAULTY ON PURPOSE: seed=7 fail=EIO:1/1"), std::string::npos) << r.out;
  Engine e(m);
  auto c = e.put("a", 0, 4096, DRAY_TIER_DRAM);
  EXPECT_EQ(c.status, DRAY_FAULT) << say(c);
  EXPECT_EQ(c.reason, DRAY_IO_ERROR);
  EXPECT_EQ(c.detail, static_cast<uint32_t>(EIO));
  EXPECT_TRUE(m.audit_clean());
}

TEST(Fault, AScriptThatIsNoneIsRefusedWithAText)
{
  kit::MoverOptions o;
  o.sets = {"tier.dram.fault=short=5/4"};
  Mover m(o);
  EXPECT_FALSE(m.up());
  EXPECT_NE(m.log().find("tier dram: fault: fault script: 'short=5/4': need short=A/B"), std::string::npos) << m.log();
}

TEST(Fault, AScriptMayComeFromTheFile)
{
  kit::MoverOptions o;
  o.config = "tiers:\n  - name: dram\n    transport: memory\n    capacity: 16MiB\n    fault: \"short=1/1\"\n";
  Mover m(o);
  ASSERT_TRUE(m.up()) << m.log();
  Engine e(m);
  auto c = e.put("a", 0, 65536, DRAY_TIER_DRAM);
  EXPECT_EQ(c.reason, DRAY_SHORT_IO) << say(c);
}

TEST(Fault, HeldBackEndsWakeASleepingMover)
{
  kit::MoverOptions o;
  o.sets = {"tier.dram.fault=delay=1/1:30ms", "tier.cxl.fault=delay=1/1:5", "tier.disk.fault=drop=1/1:50ms reorder=1/2"};
  Mover m(o);
  ASSERT_TRUE(m.up()) << m.log();
  Engine e(m);
  for (uint8_t tier : {DRAY_TIER_DRAM, DRAY_TIER_CXL, DRAY_TIER_DISK}) {
    e.fill(0, 65536, tier);
    auto c = e.put("a" + std::to_string(tier), 0, 65536, tier);
    ASSERT_EQ(c.status, DRAY_OK) << say(c);
    c = e.get("a" + std::to_string(tier), 65536, 65536, tier);
    ASSERT_EQ(c.status, DRAY_OK) << say(c);
    EXPECT_LT(c.exec_ns, 900000000u) << "the lane slept its whole second";
    EXPECT_TRUE(e.holds(65536, 65536, tier));
  }
}
