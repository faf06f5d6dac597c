/* SPDX-License-Identifier: Apache-2.0 */
/* A calibration's figures, the file that is made of them, links as sysfs has them, presets. */
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

extern "C" {
#include "bench/calibrate.h"
#include "bench/link.h"
#include "bench/preset.h"
#include "policy/profile.h"
}

namespace {
struct figure figure_of(const char *key, const char *unit, std::initializer_list<double> values)
{
  struct figure f = {};
  snprintf(f.key, sizeof f.key, "%s", key);
  f.unit = unit;
  for (double v : values)
    series_add(&f.v, v);
  return f;
}
struct Json {
  json_t *o;
  ~Json() { json_decref(o); }
};
std::string dump(json_t *o)
{
  char *t = json_dumps(o, 0);
  std::string s = t;
  free(t);
  return s;
}
} // namespace

TEST(Calibrate, SpreadIsTheFurthestRepeatFromTheMedian)
{
  struct figure f = figure_of("x", "ns", {100, 110, 90});
  EXPECT_DOUBLE_EQ(figure_median(&f), 100);
  EXPECT_NEAR(figure_spread(&f), 0.10, 1e-9);
  f = figure_of("x", "ns", {100, 100, 140});
  EXPECT_NEAR(figure_spread(&f), 0.40, 1e-9);
}

TEST(Calibrate, WhatItWritesIsWhatTheMoverReads)
{
  struct calibration c = {};
  c.figure[c.n++] = figure_of("tiers.dram.ReadLatencyNanos", "ns", {101, 103, 99});
  c.figure[c.n++] = figure_of("tiers.dram.BandwidthMBPerSec", "MB/s", {20000, 30000, 20000});
  c.figure[c.n++] = figure_of("dray.lanes", "lanes", {2, 2, 2});
  const struct {
    const char *key;
    double v;
  } copy[] = {{"dray.copy.stream_min_bytes", 4096}, {"dray.copy.hot_stream_min_bytes", 65536},
              {"dray.copy.movsb_min_bytes", 2048},  {"dray.copy.soon_max_bytes", 1048576},
              {"dray.copy.hot_bytes", 524288},      {"dray.copy.cold_mbps", 6000}};
  for (auto &k : copy)
    c.figure[c.n++] = figure_of(k.key, "bytes", {k.v});
  c.figure[c.n++] = figure_of("dray.copy.small", "method", {(double)COPY_BY_VECTOR});
  Json file = {calibrate_json(&c)};
  std::string text = dump(file.o);
  struct profile_set set;
  struct err e = {};
  profile_defaults(&set);
  ASSERT_EQ(profile_parse(&set, text.c_str(), text.size(), &e), 0) << e.text;
  EXPECT_EQ(set.tier[DRAY_TIER_DRAM].read_latency_ns, 101u);
  EXPECT_EQ(set.tier[DRAY_TIER_DRAM].bandwidth_mbps, 20000u);
  EXPECT_EQ(set.tuning.lanes, 2u);
  ASSERT_TRUE(set.tuning.has_copy);
  EXPECT_EQ(set.tuning.copy.stream_min, 4096u);
  EXPECT_EQ(set.tuning.copy.small, COPY_BY_VECTOR);
  double v;
  ASSERT_TRUE(calibrate_lookup(file.o, "tiers.dram.ReadLatencyNanos", &v));
  EXPECT_EQ(v, 101);
  ASSERT_TRUE(calibrate_lookup(file.o, "dray.copy.small", &v));
  EXPECT_EQ(v, COPY_BY_VECTOR);
  EXPECT_FALSE(calibrate_lookup(file.o, "tiers.cxl.ReadLatencyNanos", &v));
  json_t *figures = json_object_get(json_object_get(json_object_get(file.o, "dray"), "measured"), "figures");
  EXPECT_FALSE(json_is_true(json_object_get(json_object_get(figures, "tiers.dram.ReadLatencyNanos"), "noisy")));
  EXPECT_TRUE(json_is_true(json_object_get(json_object_get(figures, "tiers.dram.BandwidthMBPerSec"), "noisy")));
}

TEST(Link, IsSpeedTimesLanesLessTheLineCode)
{
  EXPECT_NEAR(link_gbps(32, 16), 63.0, 0.1);
  EXPECT_NEAR(link_gbps(16, 8), 15.75, 0.01);
  EXPECT_NEAR(link_gbps(5, 4), 2.0, 0.001);
  EXPECT_EQ(link_gbps(0, 16), 0);
  EXPECT_EQ(link_gbps(32, 0), 0);
  EXPECT_EQ(link_gbps(-32, 16), 0);
}

TEST(Link, SumsTheMemoryDevicesThatSayWhatTheyHave)
{
  namespace fs = std::filesystem;
  char dir[] = "/tmp/dray-link-XXXXXX";
  ASSERT_NE(mkdtemp(dir), nullptr);
  fs::path root = dir;
  for (const char *pci : {"0000:0d:00.0", "0000:0e:00.0"})
    fs::create_directories(root / pci / (strstr(pci, "0d") ? "mem0" : "mem1"));
  std::ofstream(root / "0000:0d:00.0/current_link_speed") << "32.0 GT/s PCIe\n";
  std::ofstream(root / "0000:0d:00.0/current_link_width") << "8\n";
  std::ofstream(root / "0000:0e:00.0/current_link_speed") << "Unknown\n";
  fs::create_directories(root / "bus");
  fs::create_directory_symlink(root / "0000:0d:00.0/mem0", root / "bus/mem0");
  fs::create_directory_symlink(root / "0000:0e:00.0/mem1", root / "bus/mem1");
  fs::create_directory_symlink(root / "0000:0d:00.0/mem0", root / "bus/decoder0.0");
  uint32_t n = 9;
  EXPECT_NEAR(link_cxl_gbps((root / "bus").c_str(), &n), 31.5, 0.05);
  EXPECT_EQ(n, 1u);
  EXPECT_EQ(link_cxl_gbps((root / "none").c_str(), &n), 0);
  fs::remove_all(root);
}

/* design/USERS.md, the table of work-loads */
TEST(Preset, HasTheBytesOfARequest)
{
  const struct {
    const char *name;
    uint64_t mib;
  } want[] = {{"llama8b", 864}, {"llama70b-tp8", 270}, {"dsv3", 463}, {"lmcache", 864}, {"sglang", 1024}, {"mooncake", 896}};
  for (auto &w : want) {
    const struct preset *p = preset_find(w.name);
    ASSERT_NE(p, nullptr) << w.name;
    EXPECT_EQ(p->blocks * p->segs * p->seg_bytes >> 20, w.mib) << w.name;
  }
  EXPECT_EQ(preset_find("llama8b")->blocks * preset_find("llama8b")->segs, 13824u);
  EXPECT_EQ(preset_find("llama"), nullptr);
}
