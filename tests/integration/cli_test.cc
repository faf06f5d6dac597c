/* SPDX-License-Identifier: Apache-2.0 */
/* The dray command: what it says, and how it exits. */
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/integration/run_dray.h"

using kit::Engine;
using kit::Mover;
using run::dray;
using run::Json;
using run::Scratch;

namespace {
const char *const commands[] = {"status", "top",   "tiers",  "cells",   "put", "get",
                                "replay", "bench", "doctor", "version", "demo"};

std::string bytes_of(size_t n, uint64_t seed)
{
  std::string s(n, 0);
  kit::pattern_fill(s.data(), n, seed);
  return s;
}
void write_file(const std::string &path, const std::string &bytes)
{
  std::ofstream(path, std::ios::binary) << bytes;
}
bool exists(const std::string &path)
{
  return access(path.c_str(), F_OK) == 0;
}

class Cli : public ::testing::Test {
protected:
  Mover mover{{.tenants = {"red:r-token", "blue:b-token"}}};
  Scratch s;
  void SetUp() override { ASSERT_TRUE(mover.up()) << mover.log(); }
  void TearDown() override { EXPECT_TRUE(mover.audit_clean()) << mover.ask("{\"verb\":\"audit\"}"); }
  void round_trip(size_t n, std::vector<std::string> put, std::vector<std::string> get = {})
  {
    std::string bytes = bytes_of(n, n);
    write_file(s.path("in"), bytes);
    put.insert(put.begin(), {"put", s.path("in"), "--key", "k"});
    get.insert(get.begin(), {"get", "--key", "k", "-o", s.path("out")});
    auto r = dray(put, &mover);
    ASSERT_EQ(r.code, 0) << r.err;
    r = dray(get, &mover);
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_TRUE(kit::read_file(s.path("out")) == bytes) << n << " bytes: not what was put";
  }
};

TEST(CliUsage, HelpIsOnStdoutAndExitsZero)
{
  for (const char *c : commands) {
    auto r = dray({c, "--help"});
    EXPECT_EQ(r.code, 0) << c;
    EXPECT_EQ(r.out.find("usage: dray " + std::string(c)), 0u) << c << ": " << r.out;
    EXPECT_EQ(r.err, "") << c;
  }
  EXPECT_EQ(dray({"--help"}).code, 0);
  EXPECT_EQ(dray({"help"}).code, 0);
}

TEST(CliUsage, MisuseExitsTwo)
{
  EXPECT_EQ(dray({}).code, 2);
  EXPECT_EQ(dray({"nonsense"}).code, 2);
  for (const char *c : commands)
    EXPECT_EQ(dray({c, "--no-such-option"}).code, 2) << c;
  for (const char *c : {"status", "top", "tiers", "cells", "doctor", "version"})
    EXPECT_EQ(dray({c, "surplus"}).code, 2) << c;
  const std::vector<std::vector<std::string>> wrong = {{"put"},
                                                       {"put", "f"},
                                                       {"put", "f", "--key", "a", "--key-hex", "00"},
                                                       {"put", "f", "--key-hex", "xyz"},
                                                       {"put", "f", "--key-hex", "0123456789abcdef0123456789abcdeg"},
                                                       {"put", "f", "--key", "a", "--tier", "warm"},
                                                       {"put", "f", "--key", "a", "--cell", "-1"},
                                                       {"put", "f", "--key", "a", "--cell", "1"},
                                                       {"put", "f", "--key", "a", "--cell", ""},
                                                       {"put", "f", "g", "--key", "a"},
                                                       {"put", "f", "--key", "a", "--cell", "99999999999999999999"},
                                                       {"get"},
                                                       {"get", "--key", "a"},
                                                       {"get", "-o", "f"},
                                                       {"get", "f", "--key", "a", "-o", "g"},
                                                       {"cells", "--tier", "warm"},
                                                       {"cells", "--limit", "-1"},
                                                       {"cells", "--limit", "1.5"},
                                                       {"top", "--count", "0"},
                                                       {"top", "--interval", "1ns"},
                                                       {"demo", "--tenant", "a"}};
  for (auto &args : wrong) {
    auto r = dray(args);
    std::string said;
    for (auto &a : args)
      said += a + " ";
    EXPECT_EQ(r.code, 2) << said << r.err;
    EXPECT_NE(r.err, "") << said;
  }
}

TEST(CliUsage, VersionNeedsNoMover)
{
  auto r = dray({"version", "--json"});
  ASSERT_EQ(r.code, 0);
  Json j(r.out);
  EXPECT_EQ(j.number("schema_version"), 1);
  EXPECT_NE(j.text("version"), "");
  EXPECT_EQ(dray({"--version"}).code, 0);
}

TEST(CliUsage, WithoutAMoverTheErrorSaysWhereAndWhatToDo)
{
  Scratch s;
  for (const char *c : {"status", "tiers", "cells", "top"}) {
    auto r = dray({c, "--admin", s.path("none.sock")});
    EXPECT_EQ(r.code, 1) << c;
    EXPECT_NE(r.err.find(s.path("none.sock")), std::string::npos) << r.err;
    EXPECT_NE(r.err.find("drayd"), std::string::npos) << r.err;
  }
  write_file(s.path("f"), "x");
  auto r = dray({"put", s.path("f"), "--key", "a", "--socket", s.path("none.sock")});
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find(s.path("none.sock")), std::string::npos) << r.err;
}

TEST(CliUsage, DoctorLooksAtTheMachine)
{
  Scratch s;
  auto r = dray({"doctor", "--json", "--socket", s.path("none"), "--admin", s.path("none")});
  EXPECT_TRUE(r.code == 3 || r.code == 1) << "no mover is at least a warning; exit " << r.code;
  Json j(r.out);
  EXPECT_EQ(j.number("schema_version"), 1);
  json_t *rows = json_object_get(j.o, "rows"), *row;
  size_t i;
  std::string all;
  json_array_foreach (rows, i, row) {
    all += std::string(json_string_value(json_object_get(row, "what"))) + ";";
    std::string level = json_string_value(json_object_get(row, "level"));
    EXPECT_TRUE(level == "ok" || level == "warn" || level == "fail") << level;
    EXPECT_TRUE(level == "ok" || *json_string_value(json_object_get(row, "fix"))) << "no fix: " << all;
  }
  for (const char *what : {"memlock", "open files", "/dev/shm", "vm.max_map_count", "io_uring", "huge pages",
                           "shmem THP", "dax devices", "CXL memory", "NUMA nodes", "memfd", "kernel", "mover"})
    EXPECT_NE(all.find(std::string(what) + ";"), std::string::npos) << what << " is not in " << all;
}

TEST_F(Cli, JsonParsesAndHasASchemaVersion)
{
  write_file(s.path("f"), "hello");
  const std::vector<std::vector<std::string>> all = {{"status"},
                                                     {"tiers"},
                                                     {"cells"},
                                                     {"version"},
                                                     {"doctor"},
                                                     {"top", "--once", "--interval", "50ms"},
                                                     {"put", s.path("f"), "--key", "j"},
                                                     {"get", "--key", "j", "-o", s.path("g")}};
  for (auto args : all) {
    args.push_back("--json");
    auto r = dray(args, &mover);
    Json j(r.out);
    EXPECT_TRUE(j.o) << args[0] << ": " << r.out << r.err;
    EXPECT_EQ(j.number("schema_version"), 1) << args[0];
  }
}

TEST_F(Cli, TablesForPeople)
{
  auto r = dray({"tiers"}, &mover);
  EXPECT_EQ(r.code, 0);
  EXPECT_NE(r.out.find("EMULATED"), std::string::npos) << r.out;
  EXPECT_EQ(r.out.find('\033'), std::string::npos) << "colours, though nobody looks";
  r = dray({"status"}, &mover);
  EXPECT_EQ(r.code, 0);
  EXPECT_NE(r.out.find("serving"), std::string::npos) << r.out;
  r = dray({"top", "--count", "2", "--interval", "50ms"}, &mover);
  EXPECT_EQ(r.code, 0);
  EXPECT_NE(r.out.find("directives/s"), std::string::npos) << r.out;
}

TEST_F(Cli, DoctorFindsTheMover)
{
  auto r = dray({"doctor", "--json"}, &mover);
  EXPECT_NE(r.out.find("serves"), std::string::npos) << r.out;
}

TEST_F(Cli, DoctorNamesATierThatIsWrittenAndNeverRead)
{
  kit::Engine e(mover);
  ASSERT_EQ(e.put("k", 0, 1 << 20, DRAY_TIER_DISK).status, DRAY_OK);
  auto r = dray({"doctor", "--json"}, &mover);
  EXPECT_NE(r.out.find("disk: 1.0 MiB written, nothing ever read"), std::string::npos) << r.out;
  ASSERT_EQ(e.get("k", 0, 1 << 20).status, DRAY_OK);
  r = dray({"doctor", "--json"}, &mover);
  EXPECT_EQ(r.out.find("unread tier"), std::string::npos) << r.out;
}

TEST_F(Cli, AFileComesBackAsItWas)
{
  for (size_t n : {1u, 4095u, 4096u, 65537u, 10000000u})
    round_trip(n, {}, {});
}

TEST_F(Cli, AFileLargerThanACellIsSeveral)
{
  for (const char *tier : {"dram", "cxl", "disk"})
    round_trip(1000003, {"--cell", "64KiB", "--tier", tier, "--crc"}, {"--crc"});
  auto r = dray({"put", s.path("in"), "--key", "k", "--cell", "100000", "--json"}, &mover);
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(Json(r.out).number("cells"), 12) << "11 cells and the header";
  EXPECT_EQ(Json(r.out).number("bytes"), 1000003);
}

TEST_F(Cli, WhatAPutReplacesLeavesNothingBehind)
{
  round_trip(500000, {"--cell", "64KiB"});
  EXPECT_EQ(mover.status("cells"), 9) << "8 and the header";
  round_trip(300000, {"--cell", "64KiB"});
  EXPECT_EQ(mover.status("cells"), 6);
  round_trip(1000, {});
  EXPECT_EQ(mover.status("cells"), 1);
}

TEST_F(Cli, AFileThatLooksLikeAHeaderIsStillAFile)
{
  round_trip(200000, {"--cell", "64KiB"});
  auto c = Engine(mover, {.agent = "default"}).stat("k");
  ASSERT_EQ(c.status, DRAY_OK) << kit::say(c);
  ASSERT_EQ(c.bytes, 56u);
  Engine e(mover, {.agent = "default"});
  ASSERT_EQ(e.get("k", 0, 56).status, DRAY_OK);
  std::string header(e.mem(), 56);
  write_file(s.path("h"), header);
  auto r = dray({"put", s.path("h"), "--key", "h"}, &mover);
  ASSERT_EQ(r.code, 0) << r.err;
  r = dray({"get", "--key", "h", "-o", s.path("h2")}, &mover);
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(kit::read_file(s.path("h2")) == header);
}

TEST_F(Cli, GetOfAnEnginesCellByHexKey)
{
  Engine e(mover, {.agent = "default"});
  e.fill(0, 123457, 4);
  ASSERT_EQ(e.put("from an engine", 0, 123457).status, DRAY_OK);
  kit::Key key("from an engine");
  char hex[33];
  for (int i = 0; i < 16; i++)
    snprintf(hex + 2 * i, 3, "%02x", key.b[i]);
  auto r = dray({"get", "--key-hex", hex, "-o", s.path("o")}, &mover);
  ASSERT_EQ(r.code, 0) << r.err;
  std::string got = kit::read_file(s.path("o"));
  ASSERT_EQ(got.size(), 123457u);
  EXPECT_TRUE(kit::pattern_holds(got.data(), got.size(), 4));
  r = dray({"cells", "--json"}, &mover);
  EXPECT_NE(r.out.find(hex), std::string::npos) << r.out;
}

TEST_F(Cli, RefusalsAndMissesHaveTheirExitCodes)
{
  write_file(s.path("f"), "bytes");
  write_file(s.path("empty"), "");
  auto r = dray({"put", s.path("empty"), "--key", "a"}, &mover);
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("ZERO_LENGTH"), std::string::npos) << r.err;
  r = dray({"put", s.path("none"), "--key", "a"}, &mover);
  EXPECT_EQ(r.code, 1);
  r = dray({"put", "/dev/null", "--key", "a"}, &mover);
  EXPECT_EQ(r.code, 1);
  r = dray({"get", "--key", "unknown", "-o", s.path("o")}, &mover);
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("ABSENT"), std::string::npos) << r.err;
  EXPECT_FALSE(exists(s.path("o"))) << "a get that failed left a file";
  ASSERT_EQ(dray({"put", s.path("f"), "--key", "a"}, &mover).code, 0);
  r = dray({"put", s.path("f"), "--key", "a", "--no-replace"}, &mover);
  EXPECT_EQ(r.code, 4);
  EXPECT_NE(r.err.find("EXISTS"), std::string::npos) << r.err;
  r = dray({"put", s.path("f"), "--key", "b", "--tier", "numa_far"}, &mover);
  EXPECT_EQ(r.code, 4);
  EXPECT_NE(r.err.find("BAD_TIER"), std::string::npos) << r.err;
  r = dray({"get", "--key", "a", "-o", s.path("no/such/dir")}, &mover);
  EXPECT_EQ(r.code, 1);
  r = dray({"get", "--key", "a", "-o", s.path("o"), "--token", "wrong"}, &mover);
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("token"), std::string::npos) << r.err;
}

TEST_F(Cli, AnotherAgentIsRefusedAndAnotherTenantFindsNothing)
{
  write_file(s.path("f"), "secret");
  ASSERT_EQ(dray({"put", s.path("f"), "--key", "a", "--token", "r-token"}, &mover).code, 0);
  EXPECT_EQ(dray({"get", "--key", "a", "-o", s.path("o"), "--token", "r-token"}, &mover).code, 0);
  auto r = dray({"get", "--key", "a", "-o", s.path("o2"), "--token", "r-token", "--agent", "other"}, &mover);
  EXPECT_EQ(r.code, 4) << r.err;
  EXPECT_NE(r.err.find("SCOPE_DENIED"), std::string::npos) << r.err;
  r = dray({"get", "--key", "a", "-o", s.path("o3"), "--token", "b-token"}, &mover);
  EXPECT_EQ(r.code, 1) << r.err;
  EXPECT_NE(r.err.find("ABSENT"), std::string::npos) << r.err;
}

TEST_F(Cli, GetToStdoutIsNothingButTheBytes)
{
  std::string bytes = bytes_of(100000, 3);
  write_file(s.path("f"), bytes);
  ASSERT_EQ(dray({"put", s.path("f"), "--key", "a"}, &mover).code, 0);
  auto r = dray({"get", "--key", "a", "-o", "-"}, &mover);
  EXPECT_EQ(r.code, 0);
  EXPECT_TRUE(r.out == bytes);
}

TEST_F(Cli, CellsFilterAndPage)
{
  Engine red(mover, {.token = "r-token"}), blue(mover, {.token = "b-token"});
  for (int i = 0; i < 1500; i++)
    ASSERT_EQ(red.put("r" + std::to_string(i), 0, 100).status, DRAY_OK);
  for (int i = 0; i < 7; i++)
    ASSERT_EQ(blue.put("b" + std::to_string(i), 0, 100, DRAY_TIER_DISK).status, DRAY_OK);
  auto count = [&](std::vector<std::string> args) {
    args.insert(args.begin(), {"cells", "--json"});
    Json j(dray(args, &mover).out);
    return json_array_size(json_object_get(j.o, "cells"));
  };
  EXPECT_EQ(count({"--limit", "0"}), 1507u);
  EXPECT_EQ(count({"--limit", "1200"}), 1200u);
  EXPECT_EQ(count({}), 100u);
  EXPECT_EQ(count({"--tenant", "blue"}), 7u);
  EXPECT_EQ(count({"--tier", "disk"}), 7u);
  EXPECT_EQ(count({"--tenant", "red", "--tier", "disk"}), 0u);
  EXPECT_EQ(count({"--tenant", "red", "--limit", "0"}), 1500u);
}

TEST_F(Cli, DemoEndsAsItMust)
{
  auto r = dray({"demo", "--tenant", "r-token", "--tenant", "b-token"}, &mover);
  EXPECT_EQ(r.code, 0) << r.out << r.err;
  EXPECT_NE(r.out.find("MODEL_MISMATCH"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("QUARANTINED"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("(emulated)"), std::string::npos) << r.out;
  r = dray({"demo", "--tenant", "r-token", "--tenant", "r-token"}, &mover);
  EXPECT_EQ(r.code, 1) << "with one tenant the gate cannot be shown";
}
} // namespace
