/* SPDX-License-Identifier: Apache-2.0 */
/* An engine that rewrites everything in U while the mover reads it. DRAY_STRESS_SECONDS (5). */
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <thread>

#include "tests/kit/mover.h"

using kit::Engine;
using kit::Key;
using kit::Mover;
using Clock = std::chrono::steady_clock;

namespace {
constexpr uint32_t kEntries = 64, kItems = 4096, kSlots = 128; /* SQ slots for 64 credits */

/* Writes through its own pointers, over a session that this process owns. */
struct Scribbler {
  char *u;
  uint16_t region;
  std::atomic<bool> stop{false};
  std::thread t;
  Scribbler(const Engine &e, uint64_t seed)
      : u(reinterpret_cast<char *>(dray_items(e.d)) - (4096 + kSlots * sizeof(struct dray_sqe))), region(e.region.id), t([this, seed] { run(seed); })
  {
  }
  ~Scribbler()
  {
    stop = true;
    t.join();
  }
  /* A directive that is nearly right, so that it comes past the first check. */
  void directive(std::mt19937_64 &rng, struct dray_sqe *s)
  {
    struct dray_sqe n = {};
    n.op = (uint8_t)(rng() % (DRAY_OP_COUNT + 1));
    n.ver = 1;
    n.cookie = rng();
    n.region = rng() % 8 ? region : (uint16_t)rng();
    n.off = rng() % 4 ? rng() % (32u << 20) : rng();
    n.len = rng() % 4 ? rng() % (1u << 20) : rng();
    n.tier = (uint8_t)(rng() % 9);
    Key k("k" + std::to_string(rng() % 16));
    memcpy(n.key, k.b, 16);
    if (rng() % 3 == 0) {
      memset(n.key, 0, 16);
      n.flags = DRAY_BATCH;
      n.off = rng() % (kItems + 8) * sizeof(struct dray_item);
      n.len = rng() % 64;
    }
    memcpy(static_cast<void *>(s), &n, sizeof n);
  }
  void run(uint64_t seed)
  {
    std::mt19937_64 rng(seed);
    auto *slot = reinterpret_cast<struct dray_sqe *>(u + 4096);
    auto *row = reinterpret_cast<struct dray_item *>(u + 4096 + kSlots * sizeof(struct dray_sqe));
    auto *head = reinterpret_cast<struct dray_u_head *>(u);
    while (!stop) {
      for (int i = 0; i < 64; i++) {
        uint32_t at = (uint32_t)(rng() % kSlots);
        if (rng() % 4)
          directive(rng, &slot[at]);
        else
          reinterpret_cast<volatile uint64_t *>(&slot[at])[rng() % 8] = rng();
        volatile struct dray_item *it = &row[rng() % 256];
        it->off = rng() % 4 ? rng() % (20u << 20) : rng();
        it->len = (uint32_t)(rng() % 4 ? rng() % 65536 : rng());
        it->key[0] = (uint8_t)rng();
        it->zero = rng() % 16 == 0;
      }
      __atomic_store_n(&head->sleep, (uint32_t)(rng() % 4), __ATOMIC_RELAXED);
      __atomic_store_n(&head->wake_at, (uint32_t)rng(), __ATOMIC_RELAXED);
    }
    /* and at last the indices, each of which ends the session */
    switch (seed % 4) {
    case 0:
      __atomic_store_n(&head->sq_prod, (uint32_t)rng(), __ATOMIC_RELEASE);
      break;
    case 1:
      __atomic_store_n(&head->cq_cons, (uint32_t)rng(), __ATOMIC_RELEASE);
      break;
    case 2: /* as many as the ring has slots, all of them forged */
      for (int i = 0; i < 2000; i++)
        __atomic_store_n(&head->sq_prod, head->sq_prod + 1, __ATOMIC_RELEASE);
      break;
    default: /* or neither: the session ends with whatever is under way */
      break;
    }
  }
};

TEST(Scribble, RewrittenRingHarmsNobodyElse)
{
  const char *env = getenv("DRAY_STRESS_SECONDS");
  auto end = Clock::now() + std::chrono::seconds(env ? atoi(env) : 5);
  Mover m({.sets = {"lanes=1", "tier.dram.capacity=128MiB", "tier.cxl.capacity=128MiB", "tier.disk.capacity=256MiB"}});
  ASSERT_TRUE(m.up()) << m.log();
  pid_t worker = m.worker();
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> right{0}, wrong{0};
  std::string odd;
  std::thread honest([&] {
    Engine e(m, {.agent = "honest"});
    if (e.error()) {
      wrong++;
      odd = "open";
      return;
    }
    for (uint64_t n = 1; !stop; n++) {
      uint64_t len = 1 + n * 7919 % 60000;
      std::string name = "h" + std::to_string(n % 32);
      e.fill(0, len, n);
      auto p = e.put(name, 0, len, n % 3 ? DRAY_TIER_DRAM : DRAY_TIER_DISK);
      auto g = e.get(name, 1 << 20, len);
      bool ok = p.status == DRAY_OK && g.status == DRAY_OK && g.bytes == len && e.holds(1 << 20, len, n);
      (ok ? right : wrong)++;
      if (!ok && odd.empty())
        odd = kit::say(p) + " / " + kit::say(g);
    }
  });
  uint64_t sessions = 0, answers = 0, submitted = 0;
  std::mt19937_64 rng(4711);
  while (Clock::now() < end) {
    Engine bad(m, {.agent = "bad", .entries = kEntries, .items = kItems});
    ASSERT_EQ(bad.error(), 0) << m.log();
    sessions++;
    auto s = std::make_unique<Scribbler>(bad, sessions);
    auto round = Clock::now() + std::chrono::milliseconds(150);
    while (Clock::now() < round) {
      struct dray_sqe *q;
      for (int i = 0; i < 8 && (q = dray_get_sqe(bad.d)); i++) {
        if (i % 2)
          dray_prep_put(q, Key("k" + std::to_string(rng() % 16)).b, bad.region.id, rng() % 4096, 1 + rng() % 65536, 0);
        else
          dray_prep_get(q, Key("k").b, bad.region.id, 0, 0, 0);
        if (i % 2 == 0)
          dray_sqe_batch(q, (uint32_t)(rng() % 128), 1 + (uint32_t)(rng() % 64));
        submitted++;
      }
      if (dray_submit(bad.d) < 0 || dray_wait(bad.d, 1, 5) == -ECONNRESET)
        break;
      while (dray_peek(bad.d)) {
        dray_seen(bad.d);
        answers++;
      }
    }
    s.reset();
    if (sessions % 4 < 3) { /* the lane has to see the forged index before the session goes */
      dray_submit(bad.d);
      for (int i = 0; i < 20 && dray_wait(bad.d, 64, 10) != -ECONNRESET; i++)
        while (dray_peek(bad.d))
          dray_seen(bad.d);
    }
  }
  stop = true;
  honest.join();
  printf("bad sessions %llu, their directives %llu, answers %llu, protocol errors %lld; the honest engine's rounds %llu right, %llu wrong\n",
         (unsigned long long)sessions, (unsigned long long)submitted, (unsigned long long)answers, (long long)m.status("counters.protocol_errors"),
         (unsigned long long)right.load(), (unsigned long long)wrong.load());
  EXPECT_EQ(wrong, 0u) << odd << "\n" << m.log();
  EXPECT_GT(right, 50u);
  EXPECT_GT(answers, 0u);
  EXPECT_EQ(m.worker(), worker) << m.log();
  EXPECT_TRUE(m.wait_status("sessions", 0)) << m.log();
  EXPECT_TRUE(m.wait_status("leases", 0));
  EXPECT_TRUE(m.audit_clean()) << m.ask("{\"verb\":\"audit\"}");
  EXPECT_EQ(m.stop(), 0) << m.log();
  EXPECT_EQ(m.log().find("ERROR: AddressSanitizer"), std::string::npos) << m.log();
  EXPECT_EQ(m.log().find("runtime error"), std::string::npos) << m.log();
}
}  // namespace
