/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

extern "C" {
#include "bench/rival.h"
}

namespace {
const struct rival_work work = {4096, 16384, 16, 2};
struct Rival {
  struct rival *v;
  explicit Rival(const char *command) : v(rival_open("test", command, &work, -1)) {}
  ~Rival() { rival_close(v); }
};
} // namespace

TEST(Rival, AnswersOnceARound)
{
  Rival r("echo ready; while read go; do echo 5.5 1234 0; done");
  ASSERT_NE(r.v, nullptr);
  uint64_t cpu = 0;
  for (int i = 0; i < 3; i++) {
    EXPECT_DOUBLE_EQ(rival_round(r.v, &cpu), 5.5);
    EXPECT_EQ(cpu, 1234u);
  }
}

TEST(Rival, IsToldWhatWorkToDo)
{
  Rival r("echo ready; read go; echo $BENCH_BLOCKS$BENCH_THREADS.$BENCH_STRIDE $BENCH_BLOCK_BYTES 0");
  uint64_t cpu = 0;
  ASSERT_NE(r.v, nullptr);
  EXPECT_DOUBLE_EQ(rival_round(r.v, &cpu), 40962.16);
  EXPECT_EQ(cpu, 16384u);
}

TEST(Rival, ThatIsWrongDiesOrBabblesIsNoFigure)
{
  for (const char *answer : {"echo 5.5 1234 1", "exit 0", "echo fast", "echo -1 2 0", "echo nan 2 0"}) {
    std::string command = std::string("echo ready; read go; ") + answer;
    Rival r(command.c_str());
    uint64_t cpu = 77;
    ASSERT_NE(r.v, nullptr) << answer;
    EXPECT_LT(rival_round(r.v, &cpu), 0) << answer;
    EXPECT_EQ(cpu, 77u) << answer;
  }
}

TEST(Rival, ThatIsNotReadyIsRefused)
{
  EXPECT_EQ(rival_open("test", "echo no library here", &work, -1), nullptr);
  EXPECT_EQ(rival_open("test", "exit 1", &work, -1), nullptr);
}
