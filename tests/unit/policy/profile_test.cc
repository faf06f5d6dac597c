/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles: what follows from them, and what a calibration may say. */
#include <gtest/gtest.h>

#include <cstring>
#include <string>

extern "C" {
#include "policy/profile.h"
}

namespace {
struct Parsed {
  profile_set set{}, before{};
  err e{};
  int rc;
  explicit Parsed(const std::string &json)
  {
    profile_defaults(&set);
    before = set;
    rc = profile_parse(&set, json.data(), json.size(), &e);
  }
  bool Untouched() const { return memcmp(&set, &before, sizeof set) == 0; }
};
} // namespace

TEST(Profile, DefaultsDescribeEveryTier)
{
  profile_set s;
  profile_defaults(&s);
  for (unsigned t = 1; t < DRAY_TIER_COUNT; t++) {
    EXPECT_TRUE(s.tier[t].present);
    EXPECT_TRUE(s.pool[t].present);
    EXPECT_GT(s.tier[t].read_latency_ns, 0u);
    EXPECT_GT(s.tier[t].bandwidth_mbps, 0u);
    EXPECT_GT(s.tier[t].share, 0);
  }
  EXPECT_FALSE(s.tier[0].present);
}

TEST(Profile, DefaultCxlIsFabricShareableRdmaIsCopyOnlyDramIsPrivate)
{
  profile_set s;
  profile_defaults(&s);
  EXPECT_TRUE(profile_fabric_shareable(&s, DRAY_TIER_CXL));
  EXPECT_TRUE(profile_attendable(&s, DRAY_TIER_CXL));
  for (unsigned t : {DRAY_TIER_REMOTE, DRAY_TIER_REMOTE_DRAM}) {
    EXPECT_TRUE(profile_reachable(&s, t));
    EXPECT_FALSE(profile_fabric_shareable(&s, t));
    EXPECT_FALSE(profile_attendable(&s, t));
  }
  EXPECT_FALSE(profile_reachable(&s, DRAY_TIER_DRAM));
  EXPECT_FALSE(profile_fabric_shareable(&s, DRAY_TIER_DRAM));
  EXPECT_TRUE(profile_attendable(&s, DRAY_TIER_DRAM));
  EXPECT_FALSE(profile_attendable(&s, DRAY_TIER_DISK));
  EXPECT_FALSE(profile_attendable(&s, DRAY_TIER_COUNT));
  EXPECT_FALSE(profile_reachable(&s, 255));
}

TEST(Profile, EachDerivedFactNeedsEachOfItsParts)
{
  profile_set s;
  profile_defaults(&s);
  s.pool[DRAY_TIER_CXL].hosts = 1;
  EXPECT_FALSE(profile_fabric_shareable(&s, DRAY_TIER_CXL));
  profile_defaults(&s);
  s.pool[DRAY_TIER_CXL].coherent = false;
  EXPECT_FALSE(profile_fabric_shareable(&s, DRAY_TIER_CXL));
  profile_defaults(&s);
  s.pool[DRAY_TIER_CXL].share = SHARE_COPY;
  EXPECT_FALSE(profile_fabric_shareable(&s, DRAY_TIER_CXL));
  s.pool[DRAY_TIER_CXL].share = 0;
  EXPECT_FALSE(profile_fabric_shareable(&s, DRAY_TIER_CXL));
  s.tier[DRAY_TIER_CXL].coherent = false;
  EXPECT_FALSE(profile_attendable(&s, DRAY_TIER_CXL));
}

TEST(Profile, PlanesCalibrationIsRead)
{
  Parsed p(R"json({
  "label": "CXL switch-pool calibration (measured-style numbers, not a hardware run of the plane)",
  "_comment": ["a remark"],
  "tiers": {
    "cxl": {
      "ReadLatencyNanos": 596,
      "BandwidthMBPerSec": 60000,
      "CapacityBytes": 2199023255552,
      "ByteAddressable": true,
      "Coherent": true,
      "Persistent": false,
      "Share": "cxl_hdm"
    },
    "disk": { "Share": "" }
  },
  "pools": { "cxl": { "Hosts": 16, "Coherent": true, "Share": "cxl_hdm" } },
  "dray": { "nt_min_bytes": 131072, "chunk_bytes": 262144, "others": { "own": [1.5, null] } },
  "unknown": 1.5
})json");
  ASSERT_EQ(p.rc, 0) << p.e.text;
  EXPECT_EQ(p.set.tier[DRAY_TIER_CXL].read_latency_ns, 596u);
  EXPECT_EQ(p.set.tier[DRAY_TIER_CXL].bandwidth_mbps, 60000u);
  EXPECT_EQ(p.set.tier[DRAY_TIER_CXL].capacity, 2199023255552u);
  EXPECT_EQ(p.set.pool[DRAY_TIER_CXL].hosts, 16u);
  EXPECT_EQ(p.set.tier[DRAY_TIER_DISK].share, SHARE_COPY);
  EXPECT_EQ(p.set.tuning.nt_min_bytes, 131072u);
  EXPECT_EQ(p.set.tuning.chunk_bytes, 262144u);
  EXPECT_EQ(strncmp(p.set.label, "CXL switch-pool", 15), 0);
  EXPECT_LT(strlen(p.set.label), sizeof p.set.label);
  EXPECT_EQ(p.set.tier[DRAY_TIER_DRAM].read_latency_ns, p.before.tier[DRAY_TIER_DRAM].read_latency_ns)
    << "what is not stated stays";
}

TEST(Profile, LongLabelIsNotCutInsideACharacter)
{
  Parsed p("{\"label\": \"" + std::string(62, 'x') + "\xc3\xa9\xc3\xa9\"}");
  ASSERT_EQ(p.rc, 0) << p.e.text;
  EXPECT_EQ(std::string(p.set.label), std::string(62, 'x'));
}

TEST(Profile, EmptyObjectChangesNothing)
{
  Parsed p("{}");
  EXPECT_EQ(p.rc, 0);
  EXPECT_TRUE(p.Untouched());
}

TEST(Profile, NumbersUpToInt64AreRead)
{
  Parsed p(R"({"tiers":{"dram":{"CapacityBytes":9223372036854775807,"ReadLatencyNanos":0}}})");
  ASSERT_EQ(p.rc, 0) << p.e.text;
  EXPECT_EQ(p.set.tier[DRAY_TIER_DRAM].capacity, (uint64_t)INT64_MAX);
}

struct Bad {
  const char *name, *json, *says;
};

class ProfileBad : public ::testing::TestWithParam<Bad> {};

TEST_P(ProfileBad, IsRefusedWithLineAndKeyAndChangesNothing)
{
  Parsed p(GetParam().json);
  EXPECT_EQ(p.rc, -EINVAL);
  EXPECT_TRUE(p.Untouched());
  EXPECT_NE(std::string(p.e.text).find(GetParam().says), std::string::npos) << p.e.text;
  EXPECT_NE(std::string(p.e.text).find("line"), std::string::npos) << p.e.text;
}

INSTANTIATE_TEST_SUITE_P(
  Inputs, ProfileBad,
  ::testing::Values(
    Bad{"Empty", "", "line"}, Bad{"NotJson", "{\n\n nonsense", "line 3"}, Bad{"Array", "[]", "object"},
    Bad{"Trailing", "{} x", "line 1"},
    Bad{"Negative", "{\"tiers\":{\n\"cxl\":{\n\"ReadLatencyNanos\":-1}}}", "line 3: tiers.cxl.ReadLatencyNanos: must not be negative"},
    Bad{"NegativeCapacity", "{\"tiers\":{\"cxl\":{\"CapacityBytes\":-9223372036854775808}}}", "tiers.cxl.CapacityBytes"},
    Bad{"Fraction", "{\"tiers\":{\"cxl\":{\"BandwidthMBPerSec\":1.5}}}", "tiers.cxl.BandwidthMBPerSec: must be a whole number"},
    Bad{"Exponent", "{\"tiers\":{\"cxl\":{\"BandwidthMBPerSec\":1e3}}}", "whole number"},
    Bad{"Overflow", "{\"tiers\":{\"cxl\":\n{\"CapacityBytes\":9223372036854775808}}}", "line 2"},
    Bad{"RealOverflow", "{\"tiers\":{\"cxl\":{\"CapacityBytes\":1e999}}}", "line 1"},
    Bad{"NaN", "{\"tiers\":{\"cxl\":{\"ReadLatencyNanos\":NaN}}}", "line 1"},
    Bad{"StringForNumber", "{\"tiers\":{\"cxl\":{\"ReadLatencyNanos\":\"300\"}}}", "must be a number"},
    Bad{"BoolForNumber", "{\"tiers\":{\"cxl\":{\"ReadLatencyNanos\":true}}}", "must be a number"},
    Bad{"NullForNumber", "{\"tiers\":{\"cxl\":{\"ReadLatencyNanos\":null}}}", "must be a number"},
    Bad{"NumberForBool", "{\"tiers\":{\"dram\":{\"Coherent\":true},\n\"cxl\":{\n\"Coherent\":1}}}", "line 3: tiers.cxl.Coherent: must be true or false"},
    Bad{"StringForBool", "{\"tiers\":{\"cxl\":{\"Persistent\":\"false\"}}}", "tiers.cxl.Persistent"},
    Bad{"ByteAddressable", "{\"tiers\":{\"cxl\":{\"ByteAddressable\":null}}}", "tiers.cxl.ByteAddressable"},
    Bad{"ShareWord", "{\"tiers\":{\"cxl\":{\"Share\":\"telepathy\"}}}", "tiers.cxl.Share"},
    Bad{"ShareNumber", "{\"pools\":{\"cxl\":{\"Share\":3}}}", "pools.cxl.Share"},
    Bad{"Tier", "{\"tiers\":{\n\"tape\":{}}}", "line 2: tiers.tape: is no tier"},
    Bad{"PoolTier", "{\"pools\":{\"any\":{}}}", "pools.any: is no tier"},
    Bad{"Key", "{\"tiers\":{\"cxl\":{\"ReadLatency\":1}}}", "tiers.cxl.ReadLatency: is no key"},
    Bad{"PoolKey", "{\"pools\":{\"cxl\":{\"ReadLatencyNanos\":1}}}", "is no key"},
    Bad{"Hosts", "{\"pools\":{\"cxl\":{\"Hosts\":-1}}}", "pools.cxl.Hosts: must not be negative"},
    Bad{"HostsTooMany", "{\"pools\":{\"cxl\":{\"Hosts\":4294967296}}}", "pools.cxl.Hosts: is too large"},
    Bad{"TiersArray", "{\"tiers\":[]}", "tiers: must be an object"},
    Bad{"TierNumber", "{\"tiers\":{\"cxl\":3}}", "tiers.cxl: must be an object"},
    Bad{"Label", "{\"label\":7}", "label: must be a string"},
    Bad{"Duplicate", "{\"tiers\":{\"cxl\":{\"Coherent\":true,\n\"Coherent\":false}}}", "line 2"},
    Bad{"DuplicateTier", "{\"tiers\":{\"cxl\":{},\n\"cxl\":{}}}", "line 2"},
    Bad{"DrayArray", "{\"dray\":[]}", "dray: must be an object"},
    Bad{"NtNegative", "{\"dray\":{\"nt_min_bytes\":-5}}", "dray.nt_min_bytes"},
    Bad{"ChunkSmall", "{\"dray\":{\"chunk_bytes\":65535}}", "dray.chunk_bytes: must be from"},
    Bad{"ChunkLarge", "{\"dray\":{\"chunk_bytes\":16777217}}", "dray.chunk_bytes: must be from"},
    Bad{"CopyNumber", "{\"dray\":{\"copy\":3}}", "dray.copy: must be an object"},
    Bad{"CopyNegative", "{\"dray\":{\n\"copy\":{\n\"stream_min_bytes\":-1}}}", "line 3: dray.copy.stream_min_bytes: must not be negative"},
    Bad{"CopyNaN", "{\"dray\":{\"copy\":{\"stream_min_bytes\":NaN}}}", "line 1"},
    Bad{"CopyFraction", "{\"dray\":{\"copy\":{\"stream_min_bytes\":1.5}}}", "dray.copy.stream_min_bytes: must be a whole number"},
    Bad{"CopyMissing", "{\"dray\":{\"copy\":{\"stream_min_bytes\":4096}}}", "dray.copy: hot_stream_min_bytes is missing"},
    Bad{"CopyTooLarge", "{\"dray\":{\"copy\":{\"stream_min_bytes\":1099511627777}}}", "dray.copy.stream_min_bytes: must be at most"},
    Bad{"CopyUnknown", "{\"dray\":{\"copy\":{\"stream_max\":4096}}}", "dray.copy.stream_max: is no key of a copy plan"},
    Bad{"CopySmallMissing", "{\"dray\":{\"copy\":{\"stream_min_bytes\":4096,\"hot_stream_min_bytes\":4096,\"movsb_min_bytes\":1,\"soon_max_bytes\":1,\"hot_bytes\":1}}}", "dray.copy: small must be memcpy or vector"},
    Bad{"CopySmallWord", "{\"dray\":{\"copy\":{\"stream_min_bytes\":4096,\"hot_stream_min_bytes\":4096,\"movsb_min_bytes\":1,\"soon_max_bytes\":1,\"hot_bytes\":1,\"small\":\"movsb\"}}}", "dray.copy: small must be"},
    Bad{"CopyHotTooLarge", "{\"dray\":{\"copy\":{\"stream_min_bytes\":4096,\"hot_stream_min_bytes\":4096,\"movsb_min_bytes\":1,\"soon_max_bytes\":1,\"hot_bytes\":2000000000,\"small\":\"vector\"}}}", "dray.copy: hot_bytes must be"},
    Bad{"GoodThenBad", "{\"tiers\":{\"dram\":{\"ReadLatencyNanos\":1},\"cxl\":{\"ReadLatencyNanos\":-1}}}", "tiers.cxl"}),
  [](const ::testing::TestParamInfo<Bad> &i) { return std::string(i.param.name); });

TEST(Profile, ACopyPlanIsTakenWhole)
{
  Parsed p("{\"dray\":{\"copy\":{\"stream_min_bytes\":8192,\"hot_stream_min_bytes\":1099511627776,\"movsb_min_bytes\":2048,"
           "\"soon_max_bytes\":2097152,\"hot_bytes\":524288,\"small\":\"memcpy\",\"cold_mbps\":6000,\"_by\":\"hand\"}}}");
  ASSERT_EQ(p.rc, 0) << p.e.text;
  ASSERT_TRUE(p.set.tuning.has_copy);
  EXPECT_EQ(p.set.tuning.copy.stream_min, 8192u);
  EXPECT_EQ(p.set.tuning.copy.hot_stream_min, COPY_NEVER);
  EXPECT_EQ(p.set.tuning.copy.movsb_min, 2048u);
  EXPECT_EQ(p.set.tuning.copy.soon_max, 2097152u);
  EXPECT_EQ(p.set.tuning.copy.hot_bytes, 524288u);
  EXPECT_EQ(p.set.tuning.copy.cold_mbps, 6000u);
  EXPECT_EQ(p.set.tuning.copy.small, COPY_BY_MEMCPY);
}

TEST(Profile, NothingIsReadBehindTheText)
{
  std::string json = "{}garbage";
  profile_set s;
  profile_defaults(&s);
  EXPECT_EQ(profile_parse(&s, json.data(), 2, nullptr), 0);
  EXPECT_EQ(profile_parse(&s, json.data(), 1, nullptr), -EINVAL);
}

TEST(Profile, ShareNamesAreTheWordsOfTheFile)
{
  EXPECT_STREQ(profile_share_name(SHARE_CXL_HDM), "cxl_hdm");
  EXPECT_STREQ(profile_share_name(SHARE_COPY), "copy");
  EXPECT_STREQ(profile_share_name(0), "?");
  EXPECT_STREQ(profile_share_name(6), "?");
}
