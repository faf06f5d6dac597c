/* SPDX-License-Identifier: Apache-2.0 */
// The open loop, on a clock and a server that the test makes: what a stall costs is in the percentiles.
#include <gtest/gtest.h>

#include <deque>
#include <memory>

extern "C" {
#include "bench/pace.h"
}

namespace {
constexpr uint64_t kUs = 1000, kMs = 1000000;

/* Serves one at a time in serve_ns each, in order, and does nothing at all in [stall, stall + stall_ns). */
struct Server {
  uint64_t now = 5 * kMs, serve = 10 * kUs, stall = 0, stall_ns = 0, begun = 5 * kMs, free_at = 0;
  uint64_t fail_at = UINT64_MAX;
  uint32_t under = 0, most = 0;
  std::deque<std::pair<uint32_t, uint64_t>> over; // slot, when
  static Server *Of(void *c) { return static_cast<Server *>(c); }
  uint64_t End(uint64_t from) const
  {
    uint64_t end = from + serve, a = begun + stall, b = a + stall_ns;
    return stall_ns && end > a && from < b ? std::max(end, b + serve) : end;
  }
  struct pace_io Io()
  {
    struct pace_io io = {};
    io.ctx = this;
    io.now = [](void *c) { return Of(c)->now; };
    io.send = [](void *c, uint32_t slot, uint64_t i) {
      Server *s = Of(c);
      s->free_at = s->End(std::max(s->free_at, s->now));
      s->over.emplace_back(slot, s->free_at);
      s->most = std::max(s->most, ++s->under);
      return i != s->fail_at;
    };
    io.push = [](void *) {};
    io.reap = [](void *c, uint32_t *slot, uint32_t room) {
      Server *s = Of(c);
      uint32_t n = 0;
      for (; n < room && !s->over.empty() && s->over.front().second <= s->now; s->over.pop_front(), s->under--)
        slot[n++] = s->over.front().first;
      return static_cast<int>(n);
    };
    io.rest = [](void *c, uint64_t until, bool under_way) {
      Server *s = Of(c);
      s->now = std::max(s->now, under_way && !s->over.empty() ? std::min(until, s->over.front().second) : until);
    };
    return io;
  }
};
struct Ran {
  int rc;
  std::unique_ptr<struct pace_result> x = std::make_unique<struct pace_result>();
};
Ran Paced(Server &s, double rate, uint64_t ns, uint32_t depth = 4, uint64_t late = 1000 * kMs)
{
  struct pace p = {};
  p.rate = rate;
  p.ns = ns;
  p.late_ns = late;
  p.depth = depth;
  struct pace_io io = s.Io();
  Ran r;
  r.rc = pace_run(&p, &io, r.x.get());
  return r;
}
} // namespace

TEST(Pace, WhatKeepsUpIsAsFastAsTheServer)
{
  Server s;
  auto r = Paced(s, 1000, 1000 * kMs);
  ASSERT_EQ(0, r.rc);
  EXPECT_EQ(1000u, r.x->due);
  EXPECT_EQ(1000u, r.x->done);
  EXPECT_EQ(0u, r.x->late);
  EXPECT_EQ(0u, r.x->unmade);
  EXPECT_NEAR(1.0, r.x->seconds, 0.01);
  EXPECT_NEAR(10e3, hist_quantile(&r.x->latency, 0.999), 400);
}

/* 1000 operations in a second, 200 ms of it stalled. A loop that waits for each before it sends the next would have one
   slow sample in 800, and a p99 of ten microseconds. */
TEST(Pace, AStallIsPaidForByAllThatFellDueInIt)
{
  Server s;
  s.stall = 300 * kMs;
  s.stall_ns = 200 * kMs;
  auto r = Paced(s, 1000, 1000 * kMs);
  ASSERT_EQ(0, r.rc);
  EXPECT_EQ(1000u, r.x->done);
  EXPECT_NEAR(10e3, hist_quantile(&r.x->latency, 0.5), 400);
  EXPECT_GT(hist_quantile(&r.x->latency, 0.9), 90 * kMs) << "a fifth of all waited, half of these 100 ms and more";
  EXPECT_GT(hist_quantile(&r.x->latency, 0.99), 180 * kMs);
  EXPECT_GE(r.x->late, 190u) << "they could not even begin";
  EXPECT_EQ(4u, s.most) << "depth";
}

TEST(Pace, WhoCannotKeepUpFallsBehindMoreAndMore)
{
  Server s;
  s.serve = 2 * kMs; // 500 a second at most
  auto r = Paced(s, 1000, 1000 * kMs, 4, 5000 * kMs);
  ASSERT_EQ(0, r.rc);
  EXPECT_EQ(1000u, r.x->done);
  EXPECT_NEAR(2.0, r.x->seconds, 0.05) << "achieved is what was served, not what was asked";
  EXPECT_GT(hist_quantile(&r.x->latency, 0.99), 900 * kMs);
  EXPECT_NEAR(500e6, hist_quantile(&r.x->latency, 0.5), 30e6);
}

TEST(Pace, WhatIsNotOverWhenItIsGivenUpCountsWithTheTimeItWaited)
{
  Server s;
  s.stall = 500 * kMs;
  s.stall_ns = 3600000ull * kMs; // for good
  auto r = Paced(s, 1000, 1000 * kMs, 4, 1000 * kMs);
  ASSERT_EQ(0, r.rc);
  EXPECT_NEAR(500, static_cast<double>(r.x->done), 2);
  EXPECT_EQ(r.x->due, r.x->done + r.x->unmade);
  EXPECT_EQ(r.x->due, r.x->latency.n) << "none is left out of the percentiles";
  EXPECT_GT(hist_quantile(&r.x->latency, 0.9), 1000 * kMs);
  struct report rep = {};
  struct pace p = {};
  p.rate = 1000;
  p.depth = 4;
  struct result *row = pace_row(&rep, "x.rate", &p, r.x.get(), "cpu", true);
  ASSERT_NE(nullptr, row);
  EXPECT_NE(nullptr, strstr(row->note, "not over at the end")) << row->note;
  EXPECT_LT(result_ratio(row), 0.5) << "achieved over offered";
  EXPECT_GT(row->pct[3], 1e9);
  report_free(&rep);
}

/* The loop was not on its CPU: that is in the latencies, too, but it is said whose fault it was. */
TEST(Pace, WhenTheLoopItselfWasAwayThatIsSaid)
{
  struct Sleepy : Server {
    struct pace_io Io()
    {
      struct pace_io io = Server::Io();
      io.rest = [](void *c, uint64_t until, bool under_way) {
        Server *s = Of(c);
        bool away = !under_way && s->now >= s->begun + 500 * kMs && s->now < s->begun + 501 * kMs;
        s->now = std::max(s->now, under_way && !s->over.empty() ? std::min(until, s->over.front().second) : until);
        s->now += away ? 70 * kMs : 0;
      };
      return io;
    }
  } s;
  struct pace p = {};
  p.rate = 1000;
  p.ns = 1000 * kMs;
  p.late_ns = 1000 * kMs;
  p.depth = 4;
  struct pace_io io = s.Io();
  auto x = std::make_unique<struct pace_result>();
  ASSERT_EQ(0, pace_run(&p, &io, x.get()));
  EXPECT_NEAR(70e6, static_cast<double>(x->away_ns), 1e6);
  struct report rep = {};
  struct result *row = pace_row(&rep, "x.rate", &p, x.get(), "cpu", true);
  EXPECT_NE(nullptr, strstr(row->note, "away for up to 70 ms")) << row->note;
  report_free(&rep);
  Server t;
  EXPECT_EQ(0u, Paced(t, 1000, 1000 * kMs).x->away_ns);
}

TEST(Pace, AFailureEndsTheRun)
{
  Server s;
  s.fail_at = 7;
  EXPECT_EQ(-1, Paced(s, 1000, 1000 * kMs).rc);
}
