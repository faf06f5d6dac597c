/* SPDX-License-Identifier: Apache-2.0 */
/* Engines are killed at random moments beside two that work on. DRAY_STRESS_KILLS (100): how many. */
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <random>

#include "tests/kit/mover.h"

using kit::Engine;
using kit::EngineOptions;
using kit::Key;
using kit::Mover;

namespace {
constexpr int kSurvivors = 2, kVictims = 2, kDepth = 16;
constexpr uint64_t kSlot = 128u << 10;

/* Few lengths: the store keeps one empty slab for each class of length that it has seen, and the test looks for a level. */
constexpr uint64_t kLengths[] = {900, 4000, 14000, 60000, 130000, 2000000};
uint64_t length(uint64_t random, unsigned kinds) { return kLengths[random % kinds] - random / 8 % 100; }

#if defined(__SANITIZE_ADDRESS__)
constexpr int64_t kRssSlack = 320 << 10; /* KiB; its quarantine of freed memory alone grows to 256 MiB */
#else
constexpr int64_t kRssSlack = 24 << 10;
#endif

enum Command : uint32_t { RUN, PAUSE, STOP };
/* In memory that the test and its survivors share. */
struct Report {
  uint32_t paused, gone;
  uint64_t completions, verified, unknown, twice, lost, wrong, odd;
  char text[256]; /* the first odd completion */
};
struct Shared {
  uint32_t command;
  Report of[kSurvivors];
};
uint32_t see(const uint32_t *w) { return __atomic_load_n(w, __ATOMIC_ACQUIRE); }
void set(uint32_t *w, uint32_t v) { __atomic_store_n(w, v, __ATOMIC_RELEASE); }

/* One engine that keeps kDepth directives under way and knows every cookie. */
class Survivor {
 public:
  Survivor(const Mover &m, int id, Shared *sh)
      : e_(m, {.agent = "survivor" + std::to_string(id), .region = kDepth * 2 * kSlot}), id_(id), sh_(sh), r_(&sh->of[id]), rng_(id + 1)
  {
  }
  void run()
  {
    if (e_.error())
      note("open " + std::to_string(e_.error()));
    for (;;) {
      uint32_t c = see(&sh_->command);
      if (c == RUN && !e_.error()) {
        set(&r_->paused, 0);
        for (int i = 0; i < kDepth; i++)
          if (!slot_[i].cookie)
            next(i);
        dray_submit(e_.d);
        reap(10000);
        continue;
      }
      if (!see(&r_->paused)) {
        drain();
        set(&r_->paused, 1);
      }
      if (c == STOP)
        break;
      poll(nullptr, 0, 1);
    }
    e_.close();
    set(&r_->gone, 1);
  }

 private:
  enum Step { PUT, GET, MAP, UNMAP, BATCH };
  struct Slot {
    uint64_t cookie = 0, seed = 0, len = 0, lease = 0;
    Step step = UNMAP;
    uint32_t row = 0;
  };
  std::string name(int i) const { return "s" + std::to_string(id_) + "." + std::to_string(i); }
  void note(const std::string &s)
  {
    if (r_->odd++ == 0)
      snprintf(r_->text, sizeof r_->text, "%s", s.c_str());
  }
  /* PUT, GET, MAP, UNMAP, and once in a while a BATCH of two GETs; then the next pattern. */
  void next(int i)
  {
    Slot &s = slot_[i];
    struct dray_sqe *q = dray_get_sqe(e_.d);
    if (!q)
      return;
    uint64_t at = 2 * kSlot * i;
    switch (s.step) {
    case UNMAP:
      s.step = PUT;
      s.seed = ++seeds_;
      s.len = length(rng_(), rng_() % 4 ? 2 : 5);
      e_.fill(at, s.len, s.seed);
      dray_prep_put(q, Key(name(i)).b, e_.region.id, at, s.len, rng_() % 3 ? DRAY_TIER_DRAM : DRAY_TIER_DISK);
      break;
    case PUT:
      s.step = GET;
      memset(e_.mem() + at + kSlot, 0, s.len);
      dray_prep_get(q, Key(name(i)).b, e_.region.id, at + kSlot, s.len, 0);
      break;
    case GET:
      if (rng_() % 2 && dray_items_get(e_.d, 2, &s.row) == 0) {
        s.step = BATCH;
        memset(e_.mem() + at + kSlot, 0, s.len);
        for (uint32_t k = 0; k < 2; k++) {
          struct dray_item *it = dray_items(e_.d) + s.row + k;
          memset(it, 0, sizeof *it);
          memcpy(it->key, Key(name(i)).b, 16);
          it->len = (uint32_t)((s.len + 1) / 2);
          it->off = at + kSlot + k * kSlot / 2;
        }
        dray_prep_get(q, Key(name(i)).b, e_.region.id, 0, 0, 0);
        dray_sqe_batch(q, s.row, 2);
        break;
      }
      [[fallthrough]];
    case BATCH:
      s.step = MAP;
      dray_prep_map(q, Key(name(i)).b, 0);
      q->flags |= DRAY_MAP_OR_STAGE;
      break;
    case MAP:
      s.step = UNMAP;
      dray_prep_unmap(q, s.lease);
      break;
    }
    q->cookie = s.cookie = ++cookies_ << 8 | (uint64_t)i;
  }
  void reap(int ms)
  {
    if (dray_wait(e_.d, 1, ms) < 1)
      return;
    for (const struct dray_cqe *c; (c = dray_peek(e_.d)); dray_seen(e_.d))
      take(*c);
  }
  void take(const struct dray_cqe &c)
  {
    if (c.type != DRAY_DONE) {
      note(std::string("notice ") + std::to_string(c.type) + " " + dray_reason_name(c.reason));
      return;
    }
    r_->completions++;
    int i = (int)(c.cookie & 0xff);
    if (i >= kDepth || c.cookie >> 8 > cookies_ || c.cookie == 0) {
      r_->unknown++;
      return;
    }
    Slot &s = slot_[i];
    if (s.cookie != c.cookie) {
      r_->twice++;
      return;
    }
    s.cookie = 0;
    uint64_t at = 2 * kSlot * i + kSlot;
    if (c.status != DRAY_OK) {
      note(std::to_string(s.step) + ": " + kit::say(c));
      if (s.step == BATCH)
        dray_items_put(e_.d, s.row, 2);
      s.step = UNMAP;
      return;
    }
    bool right = true;
    if (s.step == GET) {
      right = e_.holds(at, s.len, s.seed);
    } else if (s.step == BATCH) {
      uint64_t n = (s.len + 1) / 2;
      right = e_.holds(at, n, s.seed) && e_.holds(at + kSlot / 2, n, s.seed);
      dray_items_put(e_.d, s.row, 2);
    } else if (s.step == MAP) {
      s.lease = c.object;
      const void *p = dray_map_address(e_.d, c.slab, c.off);
      right = p && kit::pattern_holds(p, s.len, s.seed);
    } else {
      return;
    }
    r_->verified++;
    r_->wrong += !right;
  }
  /* Everything under way comes in, leases are given back; then nothing more may come. */
  void drain()
  {
    if (e_.error())
      return;
    auto out = [&] {
      int n = 0;
      for (auto &s : slot_)
        n += s.cookie != 0;
      return n;
    };
    auto all = [&] {
      auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (out() && std::chrono::steady_clock::now() < end)
        reap(1000);
    };
    all();
    for (int i = 0; i < kDepth; i++)
      if (!slot_[i].cookie && slot_[i].step == MAP)
        next(i);
    dray_submit(e_.d);
    all();
    r_->lost += (uint64_t)out();
    reap(100);
  }

  Engine e_;
  int id_;
  Shared *sh_;
  Report *r_;
  Slot slot_[kDepth];
  uint64_t seeds_ = 0, cookies_ = 0;
  std::mt19937_64 rng_;
};

/* Works without looking at what comes back until it is killed. */
[[noreturn]] void victim(const Mover &m, uint64_t seed)
{
  std::mt19937_64 rng(seed);
  Engine e(m, {.agent = "victim", .region = 4u << 20});
  if (e.error())
    _exit(1);
  auto key = [&] { return Key("v" + std::to_string(rng() % 24)); };
  uint64_t lease = 0;
  for (;;) {
    struct dray_sqe *q = dray_get_sqe(e.d);
    if (!q || rng() % 6 == 0) {
      dray_submit(e.d);
      if (dray_wait(e.d, 1, 100) == -ECONNRESET)
        _exit(2);
      for (const struct dray_cqe *c; (c = dray_peek(e.d)); dray_seen(e.d))
        if (c->object && c->status == DRAY_OK) {
          lease = c->object;
          if (c->slab && rng() % 2 == 0)
            (void)dray_map_address(e.d, c->slab, c->off);
        }
      if (!q)
        continue;
    }
    uint64_t len = length(rng(), rng() % 4 ? 4 : 6);
    uint8_t tier = rng() % 3 == 0 ? DRAY_TIER_DISK : rng() % 2 ? DRAY_TIER_DRAM : DRAY_TIER_CXL;
    uint32_t row;
    switch (rng() % 9) {
    case 0:
    case 1:
      dray_prep_put(q, key().b, e.region.id, rng() % 4096, len, tier);
      break;
    case 2:
      dray_prep_get(q, key().b, e.region.id, rng() % 4096, len, 0);
      break;
    case 3:
      dray_prep_map(q, key().b, 0);
      q->flags |= rng() % 2 ? DRAY_MAP_OR_STAGE : 0;
      break;
    case 4:
      dray_prep_alloc(q, key().b, len, rng() % 2 ? DRAY_TIER_DRAM : 0);
      break;
    case 5:
      if (rng() % 2)
        dray_prep_commit(q, lease);
      else
        dray_prep_unmap(q, lease);
      break;
    case 6:
      dray_prep_move(q, key().b, tier, 0);
      break;
    case 7:
      dray_prep_drop(q, key().b, 0);
      break;
    default:
      if (dray_items_get(e.d, 16, &row) < 0) {
        dray_prep_nop(q);
        break;
      }
      for (uint32_t k = 0; k < 16; k++) {
        struct dray_item *it = dray_items(e.d) + row + k;
        memset(it, 0, sizeof *it);
        memcpy(it->key, key().b, 16);
        it->off = k * 65536;
        it->len = (uint32_t)length(rng(), 4);
      }
      if (rng() % 2)
        dray_prep_put(q, key().b, e.region.id, 0, 0, tier);
      else
        dray_prep_get(q, key().b, e.region.id, 0, 0, 0);
      dray_sqe_batch(q, row, 16);
    }
    q->cookie = rng();
  }
}

/* What the mover holds. A slab costs one fd in the worker and one in the keeper, and the bytes that it has. */
struct Level {
  int fds, keeper_fds, maps;
  int64_t rss, slabs, leases, sessions, memory = 0;
  explicit Level(const Mover &m)
      : fds(kit::fd_count(m.worker())), keeper_fds(kit::fd_count(m.keeper())), maps(kit::map_count(m.worker())), rss(m.status("rss_kib")),
        slabs(m.status("slabs")), leases(m.status("leases")), sessions(m.status("sessions"))
  {
    std::string t = m.ask("{\"verb\":\"tiers\"}");
    size_t at = 0;
    for (int i = 0; i < 2 && (at = t.find("\"slab_bytes\":", at)) != std::string::npos; i++) /* dram, cxl */
      memory += atoll(t.c_str() + (at += 13)) / 1024;
  }
  void print(const char *when) const
  {
    printf("%s: worker fds %d, keeper fds %d, memfd maps %d, slabs %lld, rss %lld KiB of which slabs at most %lld KiB, leases %lld, sessions %lld\n",
           when, fds, keeper_fds, maps, (long long)slabs, (long long)rss, (long long)memory, (long long)leases, (long long)sessions);
  }
};

TEST(Kill, EnginesKilledUnderLoadLoseAndDoubleNothing)
{
  const char *env = getenv("DRAY_STRESS_KILLS");
  int kills = env ? atoi(env) : 100;
  Mover m({.sets = {"tier.dram.capacity=256MiB", "tier.cxl.capacity=256MiB", "tier.disk.capacity=512MiB"}});
  ASSERT_TRUE(m.up()) << m.log();
  auto *sh = static_cast<Shared *>(mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(sh, MAP_FAILED);
  pid_t survivor[kSurvivors];
  for (int i = 0; i < kSurvivors; i++) {
    survivor[i] = fork();
    if (survivor[i] == 0) {
      Survivor(m, i, sh).run();
      _exit(0);
    }
  }
  auto command = [&](uint32_t c) {
    set(&sh->command, c);
    bool all = c == RUN;
    for (int i = 0; i < 30000 && !all; i++) {
      poll(nullptr, 0, 2);
      all = true;
      for (auto &r : sh->of)
        all = all && see(c == STOP ? &r.gone : &r.paused);
    }
    return all;
  };
  std::mt19937_64 rng(20261129);
  uint64_t births = 0;
  auto kill_many = [&](int n) {
    pid_t v[kVictims] = {};
    for (int done = 0; done < n;)
      for (auto &p : v) {
        if (p) {
          poll(nullptr, 0, (int)(rng() % 40));
          kill(p, SIGKILL);
          waitpid(p, nullptr, 0);
          p = 0;
          if (++done == n)
            break;
        }
        p = fork();
        if (p == 0)
          victim(m, ++births * 7919);
        births++;
      }
    for (auto p : v)
      if (p) {
        kill(p, SIGKILL);
        waitpid(p, nullptr, 0);
      }
  };
  auto start = std::chrono::steady_clock::now();
  pid_t worker = m.worker();
  kill_many(kills / 10 + 20); /* what is made once and kept */
  EXPECT_TRUE(command(PAUSE));
  EXPECT_TRUE(m.wait_status("sessions", kSurvivors));
  Level before(m);
  uint64_t seen = 0;
  for (auto &r : sh->of)
    seen += r.completions;
  EXPECT_TRUE(command(RUN));
  kill_many(kills);
  for (int i = 0; i < 5000; i++) { /* survivors must have worked all along, and for a while more */
    uint64_t now = 0;
    for (auto &r : sh->of)
      now += __atomic_load_n(&r.completions, __ATOMIC_RELAXED);
    if (now > seen + 1000)
      break;
    poll(nullptr, 0, 2);
  }
  EXPECT_TRUE(command(PAUSE));
  EXPECT_TRUE(m.wait_status("sessions", kSurvivors));
  Level after(m);
  EXPECT_EQ(m.worker(), worker) << "the worker died: " << m.log();
  EXPECT_TRUE(m.audit_clean()) << m.ask("{\"verb\":\"audit\"}");
  EXPECT_TRUE(command(STOP));
  for (auto p : survivor)
    waitpid(p, nullptr, 0);
  EXPECT_TRUE(m.wait_status("sessions", 0));
  EXPECT_TRUE(m.wait_status("leases", 0));
  EXPECT_TRUE(m.audit_clean());
  double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  before.print("before");
  after.print("after");
  uint64_t completions = 0, verified = 0;
  for (auto &r : sh->of) {
    completions += r.completions;
    verified += r.verified;
    EXPECT_EQ(r.lost, 0u);
    EXPECT_EQ(r.twice, 0u);
    EXPECT_EQ(r.unknown, 0u);
    EXPECT_EQ(r.wrong, 0u);
    EXPECT_EQ(r.odd, 0u) << r.text;
  }
  printf("kills %d, survivors' completions %llu, of them verified byte by byte %llu, %.1f s\n", kills, (unsigned long long)completions,
         (unsigned long long)verified, s);
  EXPECT_GT(completions, seen + 1000) << "the survivors did not get on";
  EXPECT_LE(after.slabs, before.slabs + 16);
  EXPECT_LE(after.fds - after.slabs, before.fds - before.slabs + 2);
  EXPECT_LE(after.keeper_fds - after.slabs, before.keeper_fds - before.slabs + 2);
  EXPECT_LE(after.maps - after.slabs, before.maps - before.slabs + 2);
  EXPECT_LE(after.rss - after.memory, before.rss - before.memory + kRssSlack);
  EXPECT_EQ(after.leases, 0);
  munmap(sh, sizeof *sh);
}
}  // namespace
