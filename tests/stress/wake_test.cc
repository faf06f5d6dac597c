/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lost wake-ups. dray_wait() sleeps in slices of 100 ms, so a lost wake-up shows as a wait of a whole slice (or, when the
 * mover's was lost, as several) that no thread spent waiting for a CPU; a poll that timed out is judged by whether the bell still rings. DRAY_STRESS_WAKES (20,000), DRAY_STRESS_ROUNDS (1,000,000) within
 * DRAY_STRESS_LITMUS_SECONDS (10) each.
 */
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

extern "C" {
#include "ring/doorbell.h"
}
#include "tests/kit/mover.h"

using kit::Engine;
using kit::Mover;
using Clock = std::chrono::steady_clock;

namespace {
uint64_t number(const char *name, uint64_t otherwise)
{
  const char *env = getenv(name);
  return env ? strtoull(env, nullptr, 10) : otherwise;
}
struct Xorshift {
  uint64_t x;
  uint64_t operator()()
  {
    x ^= x << 13;
    x ^= x >> 7;
    return x ^= x << 17;
  }
};
void busy(uint64_t ns)
{
  for (auto end = Clock::now() + std::chrono::nanoseconds(ns); Clock::now() < end;)
    spin_relax();
}

/* A session that goes to sleep at once, and memory for a directive that takes longer than falling asleep. */
struct Sleeper {
  struct dray *d = nullptr;
  struct dray_region region = {};
  explicit Sleeper(const Mover &m)
  {
    struct dray_params p = {};
    p.size = sizeof p;
    std::string socket = m.socket();
    p.socket = socket.c_str();
    p.spin_us = 1;
    if (dray_open(&p, &d) == 0 && dray_region_alloc(1 << 20, false, &region) == 0)
      dray_region_register(d, &region);
  }
  ~Sleeper()
  {
    dray_close(d);
    if (region.base)
      dray_region_free(&region);
  }
};

/* How long threads were ready to run and had no CPU, as the kernel counts it: what a late wake-up is made of, and a lost one
   is not. */
class Delays {
public:
  explicit Delays(pid_t worker)
  {
    std::error_code ec;
    for (auto &t : std::filesystem::directory_iterator("/proc/" + std::to_string(worker) + "/task", ec))
      if (kit::read_file(t.path() / "comm").rfind("dray-lane", 0) == 0)
        files_.push_back(t.path() / "schedstat");
    files_.push_back("/proc/thread-self/schedstat");
    look();
  }
  /* Remembers where the counters are. */
  void look() { at_ = sum(); }
  /* ms since. */
  double since() const { return (double)(sum() - at_) / 1e6; }

private:
  uint64_t sum() const
  {
    uint64_t all = 0;
    for (auto &f : files_) {
      unsigned long long ran = 0, waited = 0;
      if (sscanf(kit::read_file(f).c_str(), "%llu %llu", &ran, &waited) == 2)
        all += waited;
    }
    return all;
  }
  std::vector<std::string> files_;
  uint64_t at_ = 0;
};

/* After a poll that timed out. A bell that was only late (somebody waited for a CPU) rings by itself, a lost one never: when
   the completion is there, the mover had nothing left to do but ring; when it is not, a mover that was not woken comes
   by its own timeout of a second and not before. */
bool rings_late(struct dray *d)
{
  struct pollfd f = {dray_fd(d), POLLIN, 0};
  return poll(&f, 1, dray_peek(d) ? 500 : 800) > 0;
}

struct Waits {
  uint64_t lost = 0, late = 0, n = 0;
  Delays delays;
  explicit Waits(pid_t worker) : delays(worker) {}
  double worst_ms = 0;
  void add(Clock::duration t, bool judged)
  {
    double ms = std::chrono::duration<double, std::milli>(t).count();
    lost += ms >= 95 && !judged && delays.since() < ms - 40;
    late += ms >= 95;
    if (++n % 64 == 0 || ms >= 95)
      delays.look();
    worst_ms = ms > worst_ms ? ms : worst_ms;
  }
};

void ping(bool in_poll)
{
  uint64_t n = number("DRAY_STRESS_WAKES", 20000);
  Mover m;
  ASSERT_TRUE(m.up());
  Sleeper e(m);
  ASSERT_NE(e.d, nullptr);
  ASSERT_NE(e.region.id, 0);
  memset(e.region.base, 1, e.region.size);
  Xorshift rng = {88172645463325252ull};
  int64_t slept = m.status("counters.sleeps"), woke = m.status("counters.wakes_sent");
  Waits w(m.worker());
  for (uint64_t i = 0; i < n; i++) {
    /* around the moment when the lane gives up polling (2 to 50 us), and now and then long after */
    busy(rng() % (i % 16 ? 80000 : 400000));
    struct dray_sqe *s = dray_get_sqe(e.d);
    ASSERT_NE(s, nullptr);
    if (i % 8 == 7)
      dray_prep_put(s, kit::Key("w").b, e.region.id, 0, 1 << 20, DRAY_TIER_DRAM);
    else
      dray_prep_nop(s);
    s->cookie = i;
    bool early = in_poll && rng() % 2, armed = early && dray_arm(e.d) == 0;
    ASSERT_EQ(dray_submit(e.d), 1);
    busy(i % 8 == 7 ? 0 : rng() % 4000); /* so that the completion falls before, into and after the falling asleep */
    auto t = Clock::now();
    if (in_poll) {
      if (early ? armed : dray_arm(e.d) == 0) {
        struct pollfd f = {dray_fd(e.d), POLLIN, 0};
        if (poll(&f, 1, 100) == 0 && !rings_late(e.d))
          w.lost++;
      }
    } else {
      ASSERT_GE(dray_wait(e.d, 1, 10000), 1) << i;
    }
    w.add(Clock::now() - t, in_poll);
    const struct dray_cqe *c = dray_peek(e.d);
    while (!c && Clock::now() - t < std::chrono::seconds(10))
      c = dray_peek(e.d);
    ASSERT_NE(c, nullptr) << i;
    ASSERT_EQ(c->cookie, i);
    dray_seen(e.d);
    ASSERT_EQ(dray_peek(e.d), nullptr);
  }
  slept = m.status("counters.sleeps") - slept;
  woke = m.status("counters.wakes_sent") - woke;
  printf("waits %llu, lost %llu, over 95 ms %llu, the longest %.2f ms; the lane slept %lld times and woke the engine %lld times\n", (unsigned long long)n,
         (unsigned long long)w.lost, (unsigned long long)w.late, w.worst_ms, (long long)slept, (long long)woke);
  EXPECT_EQ(w.lost, 0u) << "the longest wait took " << w.worst_ms << " ms";
  EXPECT_GT(slept, (int64_t)n / 500) << "the lane hardly slept: this proved nothing";
  EXPECT_GT(woke, (int64_t)n / 500) << "the engine hardly slept: this proved nothing";
}

TEST(Wake, NoWaitOnTheFutexSleepsThroughItsCompletion) { ping(false); }
TEST(Wake, NoEventLoopSleepsThroughItsCompletion) { ping(true); }

/* Both threads come here and leave together. */
struct Gate {
  alignas(128) uint32_t at[2] = {0, 0};
  void pass(int me, uint32_t round)
  {
    __atomic_store_n(&at[me], round, __ATOMIC_RELEASE);
    for (int i = 0; (int32_t)(__atomic_load_n(&at[!me], __ATOMIC_ACQUIRE) - round) < 0; i++)
      if (i % 1024 == 1023)
        sched_yield();
      else
        spin_relax();
  }
};

/* Store buffering on the doorbell's two words. A round is lost when the waker saw nobody asleep and the sleeper nothing new.
   On a busy machine it ends before *rounds, which then says how many there were. */
template <typename Waker, typename Asleep>
uint64_t litmus(uint64_t *rounds, Waker waker, Asleep asleep)
{
  struct Line {
    alignas(128) uint32_t v = 0;
  };
  Line word, flag;
  Gate before, after;
  uint32_t seen_flag = 0, seen_word = 0;
  uint64_t lost = 0;
  bool last = false;
  auto end = Clock::now() + std::chrono::seconds(number("DRAY_STRESS_LITMUS_SECONDS", 10));
  std::thread t([&] {
    Xorshift rng = {7};
    for (uint32_t i = 1, over = 0; !over; i++) {
      before.pass(1, i);
      over = last;
      for (uint64_t k = rng() % 8; k; k--)
        spin_relax();
      seen_word = asleep(&flag.v, &word.v);
      after.pass(1, i);
    }
  });
  Xorshift rng = {11};
  for (uint32_t i = 1; !last; i++) {
    flag.v = 0;
    word.v = 0;
    last = i == *rounds || (i % 1024 == 0 && Clock::now() > end);
    before.pass(0, i);
    for (uint64_t k = rng() % 8; k; k--)
      spin_relax();
    seen_flag = waker(&word.v, &flag.v);
    after.pass(0, i);
    lost += !seen_flag && !seen_word;
    if (last)
      *rounds = i;
  }
  t.join();
  return lost;
}
uint32_t falls_asleep(uint32_t *flag, uint32_t *word)
{
  flag_raise(flag, DRAY_SLEEP_FUTEX);
  sleep_fence();
  return index_see(word);
}

TEST(Wake, LitmusOfTheProtocolLosesNothing)
{
  uint64_t rounds = number("DRAY_STRESS_ROUNDS", 1000000);
  uint64_t rounds2 = rounds, rounds3 = rounds, rounds4 = rounds;
  uint64_t mover = litmus(
      &rounds,
      [](uint32_t *word, uint32_t *flag) {
        index_publish(word, 1);
        return doorbell_sleeper(flag);
      },
      falls_asleep);
  uint64_t engine = litmus(
      &rounds2,
      [](uint32_t *word, uint32_t *flag) -> uint32_t {
        index_publish(word, 1);
        return doorbell_needed(flag);
      },
      falls_asleep);
  /* the same with either fence taken out: does this machine reorder at all? Told, not asserted. */
  uint64_t naked = litmus(
      &rounds3,
      [](uint32_t *word, uint32_t *flag) {
        index_publish(word, 1);
        return flag_read(flag);
      },
      falls_asleep);
  uint64_t careless = litmus(
      &rounds4,
      [](uint32_t *word, uint32_t *flag) {
        index_publish(word, 1);
        return doorbell_sleeper(flag);
      },
      [](uint32_t *flag, uint32_t *word) {
        flag_raise(flag, DRAY_SLEEP_FUTEX);
        return index_see(word);
      });
  printf("lost mover->engine %llu of %llu rounds, engine->mover %llu of %llu; without the waker's fence %llu of %llu, without the "
         "sleeper's %llu of %llu\n",
         (unsigned long long)mover, (unsigned long long)rounds, (unsigned long long)engine, (unsigned long long)rounds2,
         (unsigned long long)naked, (unsigned long long)rounds3, (unsigned long long)careless, (unsigned long long)rounds4);
  EXPECT_EQ(mover, 0u);
  EXPECT_EQ(engine, 0u);
}
}  // namespace
