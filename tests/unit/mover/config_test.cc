/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>

extern "C" {
#include "mover/config.h"
#include "mover/tune.h"
}

namespace {
/* A mover of so many peers. */
std::string Peers(int n)
{
  std::string peers = "peers:\n", names;
  for (int i = 0; i < n; i++) {
    char name[40];
    snprintf(name, sizeof name, "peer-%03d-with-a-name-of-31-byte", i);
    peers += "  - {name: " + std::string(name) + ", address: 10.0.0.1}\n";
    names += std::string(i ? ", " : "") + name;
  }
  return peers + "tiers:\n  - {name: dram, transport: memory, capacity: 1MiB}\n  - {name: remote, transport: rdma, peers: [" + names + "]}\n";
}

class Config : public ::testing::Test {
 protected:
  struct config c;
  struct err e = {};
  std::string path = "/tmp/dray-config-test." + std::to_string(getpid()) + ".yaml";
  void SetUp() override { ASSERT_EQ(config_default(&c, "/tmp/x", &e), 0); }
  void TearDown() override
  {
    config_free(&c);
    unlink(path.c_str());
  }
  bool HaveRdma()
  {
    struct config one;
    config_default(&one, "/tmp/x", &e);
    std::ofstream(path) << "listen: {address: 10.0.0.1}\n";
    bool have = config_load(&one, path.c_str(), &e) == 0;
    config_free(&one);
    return have;
  }
  int load(const std::string &text)
  {
    std::ofstream(path) << text;
    int r = config_load(&c, path.c_str(), &e);
    return r < 0 ? r : config_finish(&c, &e);
  }
};

TEST_F(Config, DefaultNeedsNoFile)
{
  ASSERT_EQ(config_finish(&c, &e), 0) << e.text;
  EXPECT_EQ(c.tiers_n, 3u);
  EXPECT_STREQ(c.socket, "/tmp/x/dray.sock");
  EXPECT_EQ(c.policy.ladder[0], DRAY_TIER_DRAM);
  EXPECT_EQ(c.policy.ladder[2], DRAY_TIER_DISK);
}

TEST_F(Config, FileReplacesTheLadderAndKeepsTheRest)
{
  ASSERT_EQ(load("lanes: 2\n"
                 "tiers:\n"
                 "  - {name: disk, transport: file, path: /tmp/d, capacity: 2GiB, depth: 64}\n"
                 "  - {name: dram, transport: memory, capacity: 512MiB, huge_pages: true}\n"
                 "tenants:\n"
                 "  - {name: a, uid: 1000}\n"
                 "  - {name: b, token: secret}\n"
                 "limits: {sessions: 7, pinned: 1GiB}\n"
                 "auto_tenants: false\nharden: false\nstrict: true\n"),
            0)
      << e.text;
  EXPECT_EQ(c.lanes, 2u);
  ASSERT_EQ(c.tiers_n, 2u);
  EXPECT_STREQ(c.tier[0].name, "dram") << "hottest first, whatever the file's order";
  EXPECT_TRUE(c.tier[0].huge_pages);
  EXPECT_EQ(c.tier[1].capacity, 2ull << 30);
  EXPECT_EQ(c.tenants_n, 2u);
  EXPECT_EQ(c.tenant[0].uid, 1000);
  EXPECT_STREQ(c.tenant[1].token, "secret");
  EXPECT_EQ(c.sessions_max, 7u);
  EXPECT_FALSE(c.auto_tenants);
  EXPECT_FALSE(c.harden);
  EXPECT_TRUE(c.strict);
  EXPECT_STREQ(c.socket, "/tmp/x/dray.sock");
}

TEST_F(Config, UnknownKeyNamesItAndItsLine)
{
  EXPECT_EQ(load("lanes: 1\nlanse: 2\n"), -EINVAL);
  EXPECT_NE(std::string(e.text).find("lanse"), std::string::npos) << e.text;
  EXPECT_NE(std::string(e.text).find("line: "), std::string::npos) << e.text;
}

TEST_F(Config, EachBadValueIsRefusedWithItsKey)
{
  const std::string too_many = Peers(CONFIG_PEERS_MAX + 1);
  const struct {
    const char *text, *says;
  } bad[] = {
      {"lanes: -1\n", "lanes"},
      {"lanes: 0\n", "lanes"},
      {"lanes: 65\n", "lanes"},
      {"lanes: two\n", "lanes"},
      {"lanes: \"\"\n", "lanes"},
      {"chunk: 99999999999999999999\n", "chunk"},
      {"chunk: 5000\n", "chunk"},
      {"chunk: -1\n", "chunk"},
      {"split_bytes: 0\n", "split_bytes"},
      {"split_bytes: -1\n", "split_bytes"},
      {"split_bytes: 64KiB\n", "split_bytes"},
      {"split_bytes: nan\n", "split_bytes"},
      {"crc: sometimes\n", "crc"},
      {"copy_plan: guess\n", "copy_plan"},
      {"log: loud\n", "log"},
      {"socket_mode: 0999\n", "socket_mode"},
      {"limits: {sessions: -1}\n", "limits.sessions"},
      {"limits: {sessions: 0}\n", "limits.sessions"},
      {"limits: {pinned: lots}\n", "limits.pinned"},
      {"tiers: [{name: dram, transport: memory, capacity: -1}]\n", "capacity"},
      {"tiers: [{name: dram, transport: memory}]\n", "capacity"},
      {"tiers: [{name: dram, transport: memory, capacity: 0}]\n", "capacity"},
      {"tiers: [{name: dram, transport: teleport, capacity: 1GiB}]\n", "transport"},
      {"tiers: [{name: ram, transport: memory, capacity: 1GiB}]\n", "ram"},
      {"tiers: [{transport: memory, capacity: 1GiB}]\n", "tier"},
      {"peers: [{name: b}]\n", "peer"},
      {"peers: [{name: b, address: 10.0.0.1}, {name: b, address: 10.0.0.2}]\n", "peer b"},
      {"peers: [{name: b, address: 10.0.0.1, timeout_ms: 0}]\n", "peer b"},
      {"listen: {lend: 1MiB}\n", "listen"},
      {"listen: {address: 10.0.0.1, lend: lots}\n", "listen"},
      {"listen: {address: 10.0.0.1, lease_ms: 1}\n", "listen"},
      {"tiers: [{name: remote_dram, transport: rdma, peer: nobody, capacity: 1MiB}]\n", "remote_dram"},
      {"peers: [{name: b, address: 10.0.0.1}]\ntiers: [{name: dram, transport: rdma, peer: b, capacity: 1MiB}]\n", "dram"},
      {"peers: [{name: b, address: 10.0.0.1}]\ntiers: [{name: remote, transport: rdma, peer: b}]\n", "remote"},
      {"peers: [{name: b, address: 10.0.0.1}]\ntiers: [{name: remote, transport: memory, capacity: 1MiB}]\n", "remote"},
      {"peers: [{name: 'b c', address: 10.0.0.1}]\n", "peer 'b c'"},
      {"peers: [{name: b, address: 10.0.0.1}]\ntiers: [{name: remote, transport: rdma, peers: [b, nobody]}]\n", "peer 'nobody' is none of"},
      {"peers: [{name: b, address: 10.0.0.1}]\ntiers: [{name: remote, transport: rdma, peers: [b, b]}]\n", "peer b: given twice"},
      {"peers: [{name: b, address: 10.0.0.1}]\ntiers: [{name: remote, transport: rdma, peers: ['b,b']}]\n", "'b,b'"},
      {"peers: [{name: b, address: 10.0.0.1}]\ntiers: [{name: remote, transport: rdma, peer: b, peers: [b]}]\n", "peer and peers"},
      {"peers: [{name: b, address: 10.0.0.1}]\ntiers: [{name: remote, transport: rdma, peers: []}]\n", "peers"},
      {"peers: [{name: b, address: 10.0.0.1}]\ntiers: [{name: remote, transport: rdma}]\n", "remote"},
      {"peers: [{name: b, address: 10.0.0.1}, {name: c, address: 10.0.0.2}]\n"
       "tiers: [{name: remote_dram, transport: rdma, peers: [b, c], capacity: 1MiB}]\n", "only remote may have several"},
      {too_many.c_str(), "peers"},
      {"tiers: [{name: disk, transport: file, capacity: 1GiB}]\n", "path"},
      {"tiers: [{name: dram, transport: memory, capacity: 1GiB}, {name: dram, transport: memory, capacity: 1GiB}]\n", "twice"},
      {"tiers: []\n", "tier"},
      {"tenants: [{name: a}]\n", "a"},
      {"tenants: [{name: a, uid: 65534}]\n", "65534"},
      {"tenants: [{name: a, uid: -1}]\n", "uid"},
      {"tenants: [{name: a, uid: 99999999999}]\n", "uid"},
      {"tenants: [{name: \"a b\", uid: 1}]\n", "a b"},
      {"tenants: [{name: a, uid: 1}, {name: a, uid: 2}]\n", "twice"},
      {"tenants: [{name: a, uid: 1}, {name: b, uid: 1}]\n", "told apart"},
      {"tenants: [{name: a, token: x}, {name: b, token: x}]\n", "told apart"},
      {"calibration: /nonexistent\n", "/nonexistent"},
      {"lanes: [1, 2]\n", "lanes"},
      {"lanes: 1\nlanes: 2\n", "lanes"},
      {"{", ""},
      {"- a\n", ""},
  };
  for (auto &b : bad) {
    config_free(&c);
    ASSERT_EQ(config_default(&c, "/tmp/x", &e), 0);
    e.text[0] = 0;
    EXPECT_LT(load(b.text), 0) << b.text;
    EXPECT_NE(std::string(e.text).find(b.says), std::string::npos) << b.text << " -> " << e.text;
    EXPECT_NE(e.text[0], 0) << b.text;
  }
}

TEST_F(Config, ATierRemoteHasADeviceForEachOfItsPeers)
{
  if (!HaveRdma())
    GTEST_SKIP() << "built without RDMA";
  ASSERT_EQ(load("peers:\n  - {name: c, address: 10.0.0.3}\n  - {name: b, address: 10.0.0.2, key_file: /k}\n  - {name: d, address: 10.0.0.4}\n"
                 "tiers:\n  - {name: remote, transport: rdma, peers: [b, c]}\n  - {name: dram, transport: memory, capacity: 1MiB}\n"
                 "  - {name: remote_dram, transport: rdma, peer: d, capacity: 1MiB}\n"), 0)
      << e.text;
  EXPECT_EQ(2u, c.pools_n);
  ASSERT_EQ(4u, config_devs(&c));
  const char *const tier[] = {"dram", "remote_dram", "remote", "remote"}, *const peer[] = {"", "d", "b", "c"};
  for (uint32_t i = 0; i < 4; i++) {
    EXPECT_STREQ(tier[i], config_dev_tier(&c, i)->name);
    const struct config_peer *p = config_dev_peer(&c, i);
    EXPECT_STREQ(peer[i], p ? p->name : "");
  }
  EXPECT_STREQ("/k", config_dev_peer(&c, 2)->key_file);
}

TEST_F(Config, AsManyPeersAsThereMayBe)
{
  if (!HaveRdma())
    GTEST_SKIP() << "built without RDMA";
  ASSERT_EQ(load(Peers(CONFIG_PEERS_MAX)), 0) << e.text;
  EXPECT_EQ(1u + CONFIG_PEERS_MAX, config_devs(&c));
  EXPECT_STREQ("peer-255-with-a-name-of-31-byte", config_dev_peer(&c, CONFIG_PEERS_MAX)->name);
}

TEST_F(Config, MegabyteOfTextIsNotACrash)
{
  EXPECT_LT(load("node: " + std::string(1 << 20, 'x') + "\n"), 0);
  EXPECT_LT(load("tenants: [{name: " + std::string(1 << 20, 'x') + ", uid: 1}]\n"), 0);
}

TEST_F(Config, FlagsOverrideByDottedName)
{
  ASSERT_EQ(config_set(&c, "tier.dram.capacity", "3GiB", &e), 0);
  EXPECT_EQ(c.tier[0].capacity, 3ull << 30);
  EXPECT_EQ(config_set(&c, "tier.hbm.capacity", "3GiB", &e), -EINVAL);
  EXPECT_EQ(config_set(&c, "tier.dram.colour", "red", &e), -EINVAL);
  EXPECT_EQ(config_set(&c, "nothing", "1", &e), -EINVAL);
  ASSERT_EQ(config_set(&c, "tenant", "t1:tok:en", &e), 0);
  EXPECT_STREQ(c.tenant[0].token, "tok:en");
  EXPECT_EQ(config_set(&c, "tenant", "t1", &e), -EINVAL);
}

TEST_F(Config, CalibrationChangesTheProfile)
{
  std::string cal = path + ".json";
  std::ofstream(cal) << "{\"label\":\"m\",\"tiers\":{\"cxl\":{\"Coherent\":false}}}";
  ASSERT_EQ(config_set(&c, "calibration", cal.c_str(), &e), 0);
  ASSERT_EQ(config_finish(&c, &e), 0) << e.text;
  EXPECT_FALSE(profile_attendable(&c.policy.profiles, DRAY_TIER_CXL));
  EXPECT_TRUE(profile_attendable(&c.policy.profiles, DRAY_TIER_DRAM));
  unlink(cal.c_str());
}

TEST_F(Config, CopyKeysAreOverlaid)
{
  EXPECT_FALSE(c.crc_always);
  EXPECT_TRUE(c.copy_measure);
  EXPECT_EQ(c.split_bytes, 0u) << "auto";
  ASSERT_EQ(load("crc: always\ncopy_plan: builtin\nsplit_bytes: 3MiB\n"), 0) << e.text;
  EXPECT_TRUE(c.crc_always);
  EXPECT_FALSE(c.copy_measure);
  EXPECT_EQ(c.split_bytes, 3ull << 20);
  ASSERT_EQ(config_set(&c, "split_bytes", "off", &e), 0);
  EXPECT_EQ(c.split_bytes, UINT64_MAX);
  ASSERT_EQ(config_set(&c, "split_bytes", "auto", &e), 0);
  EXPECT_EQ(c.split_bytes, 0u);
}

TEST_F(Config, CalibrationsCopyPlanIsTheMovers)
{
  std::string cal = path + ".json";
  std::ofstream(cal) << "{\"dray\":{\"copy\":{\"stream_min_bytes\":8192,\"hot_stream_min_bytes\":9000,\"movsb_min_bytes\":2048,"
                        "\"soon_max_bytes\":2097152,\"hot_bytes\":524288,\"small\":\"memcpy\",\"cold_mbps\":20000}}}";
  ASSERT_EQ(config_set(&c, "calibration", cal.c_str(), &e), 0);
  ASSERT_EQ(config_finish(&c, &e), 0) << e.text;
  EXPECT_EQ(c.copy.stream_min, 8192u);
  EXPECT_EQ(c.copy.small, COPY_BY_MEMCPY);
  struct log quiet = {-1, false};
  tune_copy(&c, &quiet);
  EXPECT_EQ(c.copy.hot_stream_min, 9000u) << "a measurement replaced it";
  EXPECT_EQ(c.split_bytes, 4000000u) << "what 200 us copy at 20 GB/s";
  std::ofstream(cal) << "{\"dray\":{\"copy\":{\"stream_min_bytes\":-8}}}";
  ASSERT_EQ(config_finish(&c, &e), -EINVAL);
  EXPECT_NE(std::string(e.text).find("dray.copy.stream_min_bytes"), std::string::npos) << e.text;
  unlink(cal.c_str());
}

TEST_F(Config, LongDirectoryIsRefusedBeforeASocketIs)
{
  struct config d;
  EXPECT_EQ(config_default(&d, ("/" + std::string(200, 'x')).c_str(), &e), -EINVAL);
  config_free(&d);
}
}  // namespace
