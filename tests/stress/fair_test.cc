/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that ask for all they can, and one that asks for little: how long it waits is counted in quanta that the mover
   gave to the others, not in time. DRAY_STRESS_SECONDS (3). */
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/kit/mover.h"

using kit::Engine;
using kit::Key;
using kit::Mover;
using Clock = std::chrono::steady_clock;

TEST(Fair, BetweenTakeAndCompletionAtMostTwoQuantaForEachOtherSession)
{
  const char *env = getenv("DRAY_STRESS_SECONDS");
  auto end = Clock::now() + std::chrono::seconds(env ? atoi(env) : 3);
  constexpr int kFlooding = 7;
  Mover m({.sets = {"lanes=1", "tier.dram.capacity=512MiB"}});
  ASSERT_TRUE(m.up()) << m.log();
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> flooded{0};
  std::vector<std::thread> floods;
  for (int i = 0; i < kFlooding; i++)
    floods.emplace_back([&, i] {
      Engine e(m, {.agent = "flood" + std::to_string(i), .region = 8u << 20});
      if (e.error())
        return;
      while (!stop) { /* as many directives as it has credits, each larger than a quantum or in many small pieces */
        struct dray_sqe *q;
        while ((q = dray_get_sqe(e.d)))
          dray_prep_put(q, Key("f" + std::to_string(i)).b, e.region.id, 0, i % 2 ? 4u << 20 : 300u << 10, DRAY_TIER_DRAM);
        dray_submit(e.d);
        if (dray_wait(e.d, 1, 1000) < 0)
          return;
        while (dray_peek(e.d)) {
          dray_seen(e.d);
          flooded++;
        }
      }
    });
  Engine honest(m);
  ASSERT_EQ(honest.error(), 0);
  uint64_t n = 0;
  while (Clock::now() < end) {
    ASSERT_EQ(honest.put("h", 0, 64 << 10, DRAY_TIER_DRAM).status, DRAY_OK);
    ASSERT_EQ(honest.get("h", 1 << 20, 64 << 10).status, DRAY_OK);
    n += 2;
  }
  uint64_t turns[4];
  const char *key[] = {"turns_0", "turns_1", "turns_2", "turns_more"};
  uint64_t sum = 0, seen = 0;
  for (int i = 0; i < 4; i++)
    sum += turns[i] = (uint64_t)m.status(std::string("counters.") + key[i]);
  int p99 = 0;
  while (p99 < 3 && (seen += turns[p99]) * 100 < sum * 99)
    p99++;
  stop = true;
  for (auto &t : floods)
    t.join();
  printf("fair: %llu honest directives among %d flooding sessions (%llu of theirs): quanta for each other session "
         "meanwhile: 0: %llu, 1: %llu, 2: %llu, more: %llu; p99 %d\n",
         (unsigned long long)n, kFlooding, (unsigned long long)flooded, (unsigned long long)turns[0], (unsigned long long)turns[1],
         (unsigned long long)turns[2], (unsigned long long)turns[3], p99);
  EXPECT_GE(sum, n);
  EXPECT_GT(flooded, 0u);
  EXPECT_EQ(turns[3], 0u);
}
