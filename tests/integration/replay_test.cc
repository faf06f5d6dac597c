/* SPDX-License-Identifier: Apache-2.0 */
/* dray replay: real engine processes, every byte checked, hits as a cache without bounds would have them. */
#include <gtest/gtest.h>

#include <fstream>

#include "tests/integration/run_dray.h"

using kit::Mover;
using run::dray;
using run::Json;
using run::Scratch;

namespace {
const char *real_trace()
{
  const char *env = getenv("DRAY_TRACE");
  return env ? env : "/work/shared/data/mooncake_conversation_300s.jsonl";
}

void expect_ideal(const run::Result &r, const Json &j)
{
  EXPECT_EQ(r.code, 0) << r.out << r.err;
  EXPECT_EQ(j.number("schema_version"), 1);
  EXPECT_EQ(j.number("hits"), j.number("ideal_hits")) << r.out;
  EXPECT_EQ(j.number("wrong_blocks"), 0);
  EXPECT_EQ(j.number("requests"), j.number("requests_in_trace"));
  EXPECT_EQ(j.number("blocks_wanted"), j.number("hits") + j.number("blocks_put")) << r.out;
  EXPECT_EQ(j.number("bytes_verified"), j.number("bytes_got"));
}

TEST(Replay, SyntheticHitsAreTheIdeal)
{
  auto r = dray({"replay", "--synthetic", "--requests", "200", "--seed", "7", "--json"});
  Json j(r.out);
  expect_ideal(r, j);
  EXPECT_GT(j.number("hits"), 0);
  EXPECT_EQ(j.number("requests"), 200);
  EXPECT_EQ(j.number("engines"), 4);
}

TEST(Replay, SameSeedSameTrace)
{
  auto a = dray({"replay", "--synthetic", "--requests", "60", "--seed", "3", "--json"});
  auto b = dray({"replay", "--synthetic", "--requests", "60", "--seed", "3", "--json", "--engines", "2"});
  auto c = dray({"replay", "--synthetic", "--requests", "60", "--seed", "4", "--json"});
  EXPECT_EQ(Json(a.out).number("hits"), Json(b.out).number("hits")) << "how many engines there are changes nothing";
  EXPECT_EQ(Json(a.out).number("blocks_wanted"), Json(b.out).number("blocks_wanted"));
  EXPECT_NE(Json(a.out).number("blocks_wanted"), Json(c.out).number("blocks_wanted"));
}

TEST(Replay, MapReadsInPlace)
{
  auto r = dray({"replay", "--synthetic", "--requests", "100", "--map", "--json"});
  Json j(r.out);
  expect_ideal(r, j);
  EXPECT_EQ(j.number("hits_by_path", "map"), j.number("hits"));
}

TEST(Replay, EveryPresetScattersAndGathers)
{
  for (const char *preset : {"llama8b", "llama70b-tp8", "dsv3", "lmcache", "sglang", "mooncake"}) {
    auto r = dray({"replay", "--synthetic", "--requests", "40", "--preset", preset, "--crc", "--json"});
    SCOPED_TRACE(preset);
    expect_ideal(r, Json(r.out));
  }
  auto r = dray(
      {"replay", "--synthetic", "--requests", "20", "--preset", "dsv3", "--scale", "64", "--batch", "5", "--json"});
  Json j(r.out);
  expect_ideal(r, j);
  EXPECT_EQ(j.number("block", "segments"), 61);
  EXPECT_EQ(j.number("block", "segment_bytes"), 9216);
}

TEST(Replay, BoundedPoolsDemoteAndComeBack)
{
  auto r = dray({"replay", "--synthetic", "--requests", "300", "--dram", "8MiB", "--cxl", "8MiB", "--json"});
  Json j(r.out);
  expect_ideal(r, j);
  EXPECT_GT(j.number("mover", "demoted"), 0) << r.out;
  EXPECT_EQ(j.number("mover", "evicted"), 0) << r.out;
  EXPECT_GT(j.number("came_back_from_disk"), 0) << r.out;
}

/* Cells of several chunks, whose last one may land before the others. */
TEST(Replay, LargeCellsSurviveTheWayDown)
{
  auto r = dray({"replay", "--synthetic", "--requests", "150", "--preset", "dsv3", "--scale", "32", "--dram", "40MiB",
                 "--cxl", "16MiB", "--batch", "3", "--json"});
  Json j(r.out);
  expect_ideal(r, j);
  EXPECT_EQ(j.number("mover", "evicted"), 0) << r.out;
}

TEST(Replay, ManyTenants)
{
  auto r = dray({"replay", "--synthetic", "--requests", "100", "--tenants", "64", "--engines", "8", "--json"});
  expect_ideal(r, Json(r.out));
}

TEST(Replay, WhenNothingIsLargeEnoughItForgetsButNeverLies)
{
  auto r = dray(
      {"replay", "--synthetic", "--requests", "300", "--dram", "4MiB", "--cxl", "4MiB", "--disk", "8MiB", "--json"});
  Json j(r.out);
  EXPECT_EQ(r.code, 0) << r.out << r.err;
  EXPECT_EQ(j.number("wrong_blocks"), 0);
  EXPECT_LT(j.number("hits"), j.number("ideal_hits"));
  EXPECT_GT(j.number("mover", "evicted"), 0) << r.out;
}

TEST(Replay, TheRealTrace)
{
  if (access(real_trace(), R_OK) != 0)
    GTEST_SKIP() << "no trace at " << real_trace() << " (DRAY_TRACE says where)";
  for (const char *tenants : {"1", "4"}) {
    auto r = dray({"replay", real_trace(), "--tenants", tenants, "--json"});
    Json j(r.out);
    expect_ideal(r, j);
    EXPECT_EQ(j.number("requests"), 918);
    EXPECT_EQ(j.number("blocks_wanted"), 24752);
    EXPECT_NEAR(json_real_value(json_object_get(j.o, "hit_ratio")), 0.203, 0.002);
  }
}

TEST(Replay, AgainstAMoverThatRuns)
{
  Mover mover{{.tenants = {"red:r-token", "blue:b-token"}}};
  ASSERT_TRUE(mover.up()) << mover.log();
  Scratch s;
  std::ofstream(s.path("tokens")) << "# who\nred:r-token\nblue:b-token\n";
  auto r = dray({"replay", "--synthetic", "--requests", "50", "--token-file", s.path("tokens"), "--json"}, &mover);
  Json j(r.out);
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(j.number("tenants"), 2);
  EXPECT_EQ(j.number("hits"), j.number("ideal_hits"));
  r = dray({"replay", "--synthetic", "--requests", "50", "--tenant", "red:wrong"}, &mover);
  EXPECT_EQ(r.code, 1) << r.out;
  EXPECT_TRUE(mover.audit_clean());
}

TEST(Replay, MalformedTracesAreRefusedWithTheLine)
{
  Scratch s;
  const std::string good = R"({"timestamp":0,"input_length":600,"output_length":5,"hash_ids":[0,1],"more":[{}]})";
  const std::vector<std::string> bad = {
      "",
      "nonsense",
      "[]",
      "{}",
      R"({"timestamp":3,"input_length":600,"output_length":5})",
      R"({"timestamp":3,"input_length":600,"hash_ids":[0]})",
      R"({"input_length":600,"output_length":5,"hash_ids":[0]})",
      R"({"timestamp":-1,"input_length":600,"output_length":5,"hash_ids":[0]})",
      R"({"timestamp":3,"input_length":-600,"output_length":5,"hash_ids":[0]})",
      R"({"timestamp":3,"input_length":600,"output_length":5,"hash_ids":[0,-1]})",
      R"({"timestamp":3,"input_length":600,"output_length":5,"hash_ids":[]})",
      R"({"timestamp":3,"input_length":600,"output_length":5,"hash_ids":[1.5]})",
      R"({"timestamp":3,"input_length":600,"output_length":5,"hash_ids":"0"})",
      R"({"timestamp":NaN,"input_length":600,"output_length":5,"hash_ids":[0]})",
      R"({"timestamp":1e300,"input_length":600,"output_length":5,"hash_ids":[0]})",
      R"({"timestamp":3,"input_length":600,"output_length":5,"hash_ids":[99999999999999999999]})",
      R"({"timestamp":9223372036854775807,"input_length":600,"output_length":5,"hash_ids":[0]})",
      R"({"timestamp":3,"input_length":99999999999,"output_length":5,"hash_ids":[0]})",
      R"({"timestamp":3,"timestamp":4,"input_length":600,"output_length":5,"hash_ids":[0]})",
      R"({"timestamp":3,"input_length":600,"output_length":5,"hash_ids":[0,1)",
      std::string("{\"timestamp\":3,\0\"input_length\":600,\"output_length\":5,\"hash_ids\":[0]}", 69)};
  for (auto &line : bad) {
    std::ofstream(s.path("t"), std::ios::binary) << good << "\n" << good << "\n" << line << "\n" << good << "\n";
    auto r = dray({"replay", s.path("t")});
    EXPECT_EQ(r.code, 1) << line;
    EXPECT_NE(r.err.find(s.path("t") + ":3:"), std::string::npos) << line << ": " << r.err;
  }
  std::ofstream(s.path("t")) << R"({"timestamp":9,"input_length":6,"output_length":5,"hash_ids":[0]})"
                             << "\n"
                             << good << "\n";
  auto r = dray({"replay", s.path("t")});
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find(":2:"), std::string::npos) << "time goes back: " << r.err;
  std::ofstream(s.path("t")).close();
  EXPECT_EQ(dray({"replay", s.path("t")}).code, 1) << "an empty trace";
  EXPECT_EQ(dray({"replay", s.path("none")}).code, 1);
  std::ofstream(s.path("t")) << good; /* the last line may lack its newline */
  EXPECT_EQ(dray({"replay", s.path("t"), "--tenants", "1"}).code, 0);
}

TEST(Replay, BadFlagsExitTwo)
{
  const std::vector<std::vector<std::string>> wrong = {{},
                                                       {"a", "b"},
                                                       {"a", "--synthetic"},
                                                       {"a", "--requests", "5"},
                                                       {"a", "--seed", "5"},
                                                       {"--synthetic", "--requests", "0"},
                                                       {"--synthetic", "--requests", "-5"},
                                                       {"--synthetic", "--requests", "1e3"},
                                                       {"--synthetic", "--seed", "x"},
                                                       {"--synthetic", "--engines", "0"},
                                                       {"--synthetic", "--engines", "65"},
                                                       {"--synthetic", "--engines", "3", "--tenants", "2"},
                                                       {"--synthetic", "--tenants", "0"},
                                                       {"--synthetic", "--tenants", "1000"},
                                                       {"--synthetic", "--tenant", "nocolon"},
                                                       {"--synthetic", "--tenant", ":t"},
                                                       {"--synthetic", "--tenant", "a:"},
                                                       {"--synthetic", "--tenant", "a:b", "--tenants", "2"},
                                                       {"--synthetic", "--token-file", "/no/such/file"},
                                                       {"--synthetic", "--self", "--socket", "s"},
                                                       {"--synthetic", "--dram", "-1"},
                                                       {"--synthetic", "--dram", "1"},
                                                       {"--synthetic", "--dram", ""},
                                                       {"--synthetic", "--cxl", "99999999999TiB"},
                                                       {"--synthetic", "--disk", "lots"},
                                                       {"--synthetic", "--dram", "64MiB", "--socket", "s"},
                                                       {"--synthetic", "--block-bytes", "0"},
                                                       {"--synthetic", "--block-bytes", "1GiB"},
                                                       {"--synthetic", "--preset", "gpt"},
                                                       {"--synthetic", "--scale", "0"},
                                                       {"--synthetic", "--scale", "4", "--block-bytes", "16KiB"},
                                                       {"--synthetic", "--batch", "0"},
                                                       {"--synthetic", "--batch", "65536"},
                                                       {"--synthetic", "--time-scale", "-1"},
                                                       {"--synthetic", "--time-scale", "nan"},
                                                       {"--synthetic", "--time-scale", "1x"},
                                                       {"--synthetic", "--rate", "-1"},
                                                       {"--synthetic", "--rate", "inf"},
                                                       {"--synthetic", "--rate", "5", "--time-scale", "1"},
                                                       {"--synthetic", "--tenants", "2", "--socket", "s"}};
  for (auto args : wrong) {
    args.insert(args.begin(), "replay");
    auto r = dray(args);
    std::string said;
    for (auto &a : args)
      said += a + " ";
    EXPECT_EQ(r.code, 2) << said << r.err;
  }
}

TEST(Replay, ARateSpreadsTheRequestsAndTheirLatencyCountsFromWhenTheyWereDue)
{
  auto r = dray({"replay", "--synthetic", "--requests", "21", "--rate", "50", "--tenants", "2", "--json"});
  Json j(r.out);
  expect_ideal(r, j);
  EXPECT_GE(json_real_value(json_object_get(j.o, "seconds")), 0.40) << "the last of 21 is due at 0.4 s";
  json_t *request = json_object_get(json_object_get(j.o, "batch_latency_ns"), "request");
  EXPECT_EQ(json_integer_value(json_object_get(request, "n")), 21);
  EXPECT_GT(json_integer_value(json_object_get(request, "p50")), 0);
  double fair = json_real_value(json_object_get(j.o, "fairness"));
  EXPECT_GT(fair, 0);
  EXPECT_LE(fair, 1.0 + 1e-9);
  int64_t bytes = 0;
  const char *path;
  json_t *v;
  json_object_foreach(json_object_get(j.o, "bytes_by_path"), path, v) bytes += json_integer_value(v);
  EXPECT_EQ(bytes, json_integer_value(json_object_get(j.o, "bytes_put")) +
                       json_integer_value(json_object_get(j.o, "bytes_got")));
}

TEST(Replay, TimeScaleSpreadsTheArrivals)
{
  Scratch s;
  std::ofstream f(s.path("t"));
  for (int i = 0; i < 8; i++)
    f << R"({"timestamp":)" << i / 4 * 3000 << R"(,"input_length":600,"output_length":5,"hash_ids":[0,)" << i + 1
      << "]}\n";
  f.close();
  auto r = dray({"replay", s.path("t"), "--tenants", "1", "--time-scale", "0.1", "--json"});
  Json j(r.out);
  expect_ideal(r, j);
  double seconds = json_real_value(json_object_get(j.o, "seconds"));
  EXPECT_GE(seconds, 0.52) << "the last of 8 arrives at 5.25 s of the trace's clock";
  EXPECT_LT(seconds, 3.0);
}
} // namespace
