/* SPDX-License-Identifier: Apache-2.0 */
/* How bytes are copied: CRCs that stay with their bytes on every way, and one step over several lanes. */
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/kit/mover.h"

using kit::Engine;
using kit::Key;
using kit::Mover;
using kit::say;

namespace {
/* Turns one bit of the needle, wherever in these bytes it is. False: it is nowhere. */
bool flip_in(int fd, uint64_t from, uint64_t to, const std::string &needle)
{
  std::string part(4 << 20, 0);
  for (uint64_t at = from; at < to; at += part.size() - needle.size()) {
    ssize_t n = pread(fd, part.data(), std::min<uint64_t>(part.size(), to - at), static_cast<off_t>(at));
    if (n <= 0)
      continue;
    size_t hit = std::string_view(part.data(), static_cast<size_t>(n)).find(needle);
    if (hit == std::string_view::npos)
      continue;
    char c = static_cast<char>(part[hit] ^ 4);
    return pwrite(fd, &c, 1, static_cast<off_t>(at + hit)) == 1;
  }
  return false;
}
/* A bit of a cell goes bad behind the mover's back: in a slab that the worker has mapped, or in a segment on disk. */
bool flip_bit(const Mover &m, uint8_t tier, const std::string &needle)
{
  if (tier == DRAY_TIER_DISK) {
    for (auto &f : std::filesystem::recursive_directory_iterator(m.dir() + "/disk")) {
      int fd = f.is_regular_file() ? open(f.path().c_str(), O_RDWR | O_CLOEXEC) : -1;
      bool done = fd >= 0 && flip_in(fd, 0, f.file_size(), needle) && fsync(fd) == 0;
      if (fd >= 0)
        close(fd);
      if (done)
        return true;
    }
    return false;
  }
  const std::string proc = "/proc/" + std::to_string(m.worker()), where = tier == DRAY_TIER_CXL ? "/cxl/" : "memfd:dray-dram";
  int fd = open((proc + "/mem").c_str(), O_RDWR | O_CLOEXEC);
  std::ifstream maps(proc + "/maps");
  bool done = false;
  for (std::string line; !done && fd >= 0 && std::getline(maps, line);) {
    uint64_t a, b;
    if (line.find(where) != std::string::npos && sscanf(line.c_str(), "%lx-%lx rw", &a, &b) == 2)
      done = flip_in(fd, a, b, needle);
  }
  if (fd >= 0)
    close(fd);
  return done;
}

struct Setup {
  std::vector<std::string> sets;
  uint64_t region = 16u << 20;
};
struct Stage {
  explicit Stage(Setup s = {}) : m(options(s)), e(m, engine(s)) {}
  static kit::MoverOptions options(const Setup &s)
  {
    kit::MoverOptions o;
    o.sets = s.sets;
    return o;
  }
  static kit::EngineOptions engine(const Setup &s)
  {
    kit::EngineOptions o;
    o.region = s.region;
    return o;
  }
  /* The first bytes of the pattern at off. */
  std::string needle(uint64_t off) const { return std::string(e.mem() + off, 64); }
  Mover m;
  Engine e;
};
}  // namespace

TEST(Crc, AWrongBitIsAMismatchOnEveryTierAndEveryWay)
{
  Stage s;
  ASSERT_EQ(s.e.error(), 0) << s.m.log();
  for (uint8_t tier : {DRAY_TIER_DRAM, DRAY_TIER_CXL, DRAY_TIER_DISK})
    for (uint64_t len : {100u, 16384u, 1000001u}) {
      const std::string name = "c" + std::to_string(tier) + "." + std::to_string(len);
      s.e.fill(0, len, len * 7 + tier);
      auto c = s.e.put(name, 0, len, tier, DRAY_VERIFY_CRC);
      ASSERT_EQ(c.status, DRAY_OK) << say(c);
      EXPECT_TRUE(c.flags & DRAY_CRC_CHECKED);
      c = s.e.get(name, 4u << 20, len, tier, DRAY_VERIFY_CRC);
      ASSERT_EQ(c.status, DRAY_OK) << say(c) << " " << name;
      EXPECT_TRUE(c.flags & DRAY_CRC_CHECKED);
      ASSERT_TRUE(flip_bit(s.m, tier, s.needle(0))) << name << ": no access to the slab";
      c = s.e.get(name, 4u << 20, len, tier, DRAY_VERIFY_CRC);
      EXPECT_EQ(c.status, DRAY_FAULT) << name;
      EXPECT_EQ(c.reason, DRAY_CRC_MISMATCH) << say(c) << " " << name;
      EXPECT_EQ(s.e.get(name, 4u << 20, len, tier).status, DRAY_OK) << "nobody asked";
      for (uint8_t to : {DRAY_TIER_DRAM, DRAY_TIER_CXL, DRAY_TIER_DISK})
        if (to != tier) {
          c = s.e.move(name, to);
          EXPECT_EQ(c.reason, DRAY_CRC_MISMATCH) << say(c) << " " << name << " to " << int(to);
          EXPECT_EQ(s.e.stat(name).tier, tier) << "a bad copy was made";
        }
    }
  EXPECT_TRUE(s.m.audit_clean()) << s.m.ask("{\"verb\":\"audit\"}");
}

TEST(Crc, StagingABadCellIsAMismatch)
{
  Stage s;
  ASSERT_EQ(s.e.error(), 0) << s.m.log();
  s.e.fill(0, 70000, 3);
  ASSERT_EQ(s.e.put("s", 0, 70000, DRAY_TIER_DISK, DRAY_VERIFY_CRC).status, DRAY_OK);
  ASSERT_TRUE(flip_bit(s.m, DRAY_TIER_DISK, s.needle(0)));
  auto c = s.e.map("s", 0, DRAY_MAP_OR_STAGE);
  EXPECT_EQ(c.status, DRAY_FAULT);
  EXPECT_EQ(c.reason, DRAY_CRC_MISMATCH) << say(c);
  EXPECT_TRUE(s.m.audit_clean()) << s.m.ask("{\"verb\":\"audit\"}");
}

TEST(Crc, ABadCellIsNotPublished)
{
  Stage s;
  ASSERT_EQ(s.e.error(), 0) << s.m.log();
  s.e.fill(0, 70000, 3);
  ASSERT_EQ(s.e.put("p", 0, 70000, DRAY_TIER_DRAM, DRAY_VERIFY_CRC).status, DRAY_OK);
  ASSERT_TRUE(flip_bit(s.m, DRAY_TIER_DRAM, s.needle(0)));
  struct dray_publish p;
  memset(&p, 0, sizeof p);
  p.scope = DRAY_SCOPE_TENANT;
  p.taint = DRAY_TRUSTED;
  memcpy(dray_items(s.e.d) + 3, &p, sizeof p);
  dray_prep_publish(s.e.sqe(), Key("p").b, 3);
  auto c = s.e.one();
  EXPECT_EQ(c.reason, DRAY_CRC_MISMATCH) << say(c);
  EXPECT_TRUE(s.m.audit_clean()) << s.m.ask("{\"verb\":\"audit\"}");
}

TEST(Crc, ABadCellIsDroppedOnItsWayDownAndAGoodOneArrives)
{
  Stage s({{"tier.dram.capacity=8MiB", "tier.dram.slab_size=1MiB"}});
  ASSERT_EQ(s.e.error(), 0) << s.m.log();
  const uint64_t len = 1u << 20;
  for (int i = 0; i < 2; i++) {
    s.e.fill(0, len, 100 + i);
    ASSERT_EQ(s.e.put("d" + std::to_string(i), 0, len, DRAY_TIER_DRAM, DRAY_VERIFY_CRC).status, DRAY_OK);
  }
  s.e.fill(0, len, 100);
  ASSERT_TRUE(flip_bit(s.m, DRAY_TIER_DRAM, s.needle(0)));
  for (int i = 2; i < 20; i++) {
    s.e.fill(0, len, 100 + i);
    ASSERT_EQ(s.e.put("d" + std::to_string(i), 0, len, DRAY_TIER_DRAM).status, DRAY_OK) << i;
  }
  EXPECT_EQ(s.e.get("d0", 0, len).status, DRAY_MISSED) << "the corrupted cell lives on";
  EXPECT_NE(s.m.log().find("failed its CRC"), std::string::npos);
  auto c = s.e.get("d1", 0, len, 0, DRAY_VERIFY_CRC);
  EXPECT_EQ(c.status, DRAY_OK) << say(c);
  EXPECT_NE(c.tier, DRAY_TIER_DRAM);
  EXPECT_TRUE(s.e.holds(0, len, 101));
  EXPECT_TRUE(s.m.audit_clean()) << s.m.ask("{\"verb\":\"audit\"}");
}

TEST(Crc, AlwaysMeansWithoutAsking)
{
  Stage s({{"crc=always"}});
  ASSERT_EQ(s.e.error(), 0) << s.m.log();
  s.e.fill(0, 50000, 11);
  EXPECT_TRUE(s.e.put("a", 0, 50000, DRAY_TIER_DRAM).flags & DRAY_CRC_CHECKED);
  EXPECT_TRUE(s.e.get("a", 1u << 20, 50000).flags & DRAY_CRC_CHECKED);
  EXPECT_FALSE(s.e.get("a", 1u << 20, 49999).flags & DRAY_CRC_CHECKED) << "a part has no CRC";
  ASSERT_TRUE(flip_bit(s.m, DRAY_TIER_DRAM, s.needle(0)));
  EXPECT_EQ(s.e.get("a", 1u << 20, 50000).reason, DRAY_CRC_MISMATCH);
}

TEST(Crc, ASourceRewrittenMeanwhileStillVerifies)
{
  Stage s;
  ASSERT_EQ(s.e.error(), 0) << s.m.log();
  const uint64_t len = 1000003;
  std::atomic<bool> stop{false};
  std::thread hostile([&] {
    for (uint64_t v = 1; !stop; v++)
      for (uint64_t i = 0; i + 8 <= len; i += 8)
        memcpy(s.e.mem() + i, &v, 8);
  });
  int mixed = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (int i = 0; i < 60 || (mixed < 3 && std::chrono::steady_clock::now() < end); i++) {
    const uint8_t tier = i % 3 == 0 ? DRAY_TIER_DRAM : i % 3 == 1 ? DRAY_TIER_CXL : DRAY_TIER_DISK;
    auto c = s.e.put("r", 0, len, tier, DRAY_VERIFY_CRC);
    EXPECT_EQ(c.status, DRAY_OK) << say(c);
    c = s.e.get("r", 4u << 20, len, 0, DRAY_VERIFY_CRC);
    EXPECT_EQ(c.status, DRAY_OK) << say(c) << " round " << i;
    mixed += memcmp(s.e.mem() + (4u << 20), s.e.mem() + (4u << 20) + len / 16 * 8, 8) != 0;
  }
  stop = true;
  hostile.join();
  if (!mixed)
    GTEST_SKIP() << "the source never changed under a PUT in 10 s: nothing was shown";
}

TEST(Split, BytesAreRightOverTwoAndThreeLanes)
{
  for (int lanes : {2, 3}) {
    Stage s({{"lanes=" + std::to_string(lanes), "split_bytes=1MiB"}, 64u << 20});
    ASSERT_EQ(s.e.error(), 0) << s.m.log();
    for (uint8_t tier : {DRAY_TIER_DRAM, DRAY_TIER_CXL})
      for (uint64_t len : {20u << 20, (20u << 20) + 4097, 1u << 20, 3000001u}) {
        const std::string name = "x" + std::to_string(tier) + "." + std::to_string(len);
        s.e.fill(0, len, len + tier);
        auto c = s.e.put(name, 0, len, tier, DRAY_VERIFY_CRC);
        ASSERT_EQ(c.status, DRAY_OK) << say(c);
        EXPECT_EQ(c.bytes, len);
        memset(s.e.mem() + (32u << 20), 0, len);
        c = s.e.get(name, 32u << 20, len, tier, DRAY_VERIFY_CRC);
        ASSERT_EQ(c.status, DRAY_OK) << say(c) << " " << name;
        ASSERT_TRUE(s.e.holds(32u << 20, len, len + tier)) << name;
        s.e.drop(name);
      }
    s.e.fill(0, 20u << 20, 77);
    dray_prep_copy(s.e.sqe(), s.e.region.id, 0, s.e.region.id, (32u << 20) + 64, 20u << 20);
    auto c = s.e.one();
    EXPECT_EQ(c.status, DRAY_OK) << say(c);
    EXPECT_TRUE(s.e.holds((32u << 20) + 64, 20u << 20, 77));
    EXPECT_GT(s.m.status("counters.helped"), 0) << "no lane helped: " << lanes;
    EXPECT_TRUE(s.m.audit_clean()) << s.m.ask("{\"verb\":\"audit\"}");
  }
}

TEST(Split, SmallStepsAndSplitOffStayOnTheirLane)
{
  Stage small({{"lanes=2", "split_bytes=1MiB"}});
  ASSERT_EQ(small.e.error(), 0);
  Engine awake{small.m}; /* keeps the other lane polling: it would be asked */
  ASSERT_EQ(awake.error(), 0);
  small.e.fill(0, 1u << 20, 1);
  for (int i = 0; i < 100; i++) {
    for (int k = 0; k < 8; k++)
      dray_prep_put(small.e.sqe(), Key("s").b, small.e.region.id, 0, (1u << 20) - 1, DRAY_TIER_DRAM);
    dray_prep_nop(awake.sqe());
    ASSERT_GE(dray_submit(small.e.d), 0);
    ASSERT_EQ(awake.one().status, DRAY_OK);
    ASSERT_EQ(small.e.wait(8).size(), 8u);
  }
  EXPECT_EQ(small.m.status("counters.helped"), 0);
  Stage off({{"lanes=2", "split_bytes=off"}});
  ASSERT_EQ(off.e.error(), 0);
  ASSERT_EQ(off.e.put("s", 0, 8u << 20, DRAY_TIER_DRAM).status, DRAY_OK);
  EXPECT_EQ(off.m.status("counters.helped"), 0);
}

TEST(Split, CancelInTheMiddleEndsOnceAndLeavesNothing)
{
  Stage s({{"lanes=3", "split_bytes=512KiB"}, 64u << 20});
  ASSERT_EQ(s.e.error(), 0) << s.m.log();
  int canceled = 0;
  for (int i = 0; i < 60; i++) {
    struct dray_sqe *q = s.e.sqe();
    dray_prep_put(q, Key("big").b, s.e.region.id, 0, 60u << 20, DRAY_TIER_DRAM);
    q->cookie = 1;
    if (i % 3 == 2)
      q->deadline_us = 500 + 37 * i;
    const uint32_t pos = dray_sq_pos(s.e.d);
    ASSERT_GE(dray_submit(s.e.d), 0);
    if (i % 3 != 2) {
      if (i % 3 == 1)
        usleep(100 * i); /* anywhere in it: the answer is right either way */
      q = dray_get_sqe_cancel(s.e.d);
      dray_prep_cancel(q, pos);
      q->cookie = 2;
    }
    int big = 0;
    for (auto &c : s.e.wait(i % 3 == 2 ? 1 : 2)) {
      if (c.cookie != 1)
        continue;
      big++;
      canceled += c.status != DRAY_OK;
      EXPECT_TRUE(c.status == DRAY_OK || c.reason == DRAY_REASON_CANCELED || c.reason == DRAY_DEADLINE) << say(c);
    }
    EXPECT_EQ(big, 1) << i;
  }
  EXPECT_GT(canceled, 0);
  s.e.fill(0, 20u << 20, 5);
  ASSERT_EQ(s.e.put("after", 0, 20u << 20, DRAY_TIER_DRAM).status, DRAY_OK);
  ASSERT_EQ(s.e.get("after", 32u << 20, 20u << 20).status, DRAY_OK);
  EXPECT_TRUE(s.e.holds(32u << 20, 20u << 20, 5));
  EXPECT_TRUE(s.m.audit_clean()) << s.m.ask("{\"verb\":\"audit\"}");
}

TEST(Split, AnEngineKilledInTheMiddleTakesNothingAlong)
{
  Stage s({{"lanes=3", "split_bytes=512KiB"}});
  ASSERT_EQ(s.e.error(), 0) << s.m.log();
  for (int i = 0; i < 8; i++) {
    int p[2];
    ASSERT_EQ(pipe(p), 0);
    pid_t pid = fork();
    if (pid == 0) {
      kit::EngineOptions o;
      o.region = 64u << 20;
      Engine e(s.m, o);
      memset(e.mem(), i, o.region);
      for (int k = 0; k < 8; k++)
        dray_prep_put(e.sqe(), Key("k" + std::to_string(k)).b, e.region.id, 0, 60u << 20, DRAY_TIER_DRAM);
      dray_submit(e.d);
      if (write(p[1], "x", 1) != 1)
        _exit(1);
      pause();
      _exit(0);
    }
    char c;
    close(p[1]);
    ASSERT_EQ(read(p[0], &c, 1), 1);
    close(p[0]);
    usleep(1000 * i); /* anywhere in it */
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    ASSERT_TRUE(s.m.wait_status("sessions", 1)) << i;
  }
  s.e.fill(0, 7u << 20, 6);
  auto c = s.e.put("after", 0, 7u << 20, DRAY_TIER_CXL, DRAY_VERIFY_CRC);
  ASSERT_EQ(c.status, DRAY_OK) << say(c);
  ASSERT_EQ(s.e.get("after", 8u << 20, 7u << 20, 0, DRAY_VERIFY_CRC).status, DRAY_OK);
  EXPECT_TRUE(s.e.holds(8u << 20, 7u << 20, 6));
  EXPECT_TRUE(s.m.audit_clean()) << s.m.ask("{\"verb\":\"audit\"}");
}

TEST(Split, AnotherSessionIsServedMeanwhile)
{
  Stage s({{"lanes=2", "split_bytes=1MiB"}, 64u << 20});
  ASSERT_EQ(s.e.error(), 0) << s.m.log();
  Engine b{s.m};
  ASSERT_EQ(b.error(), 0);
  for (int i = 0; i < 12; i++)
    dray_prep_put(s.e.sqe(), Key("l" + std::to_string(i)).b, s.e.region.id, 0, 60u << 20, DRAY_TIER_DRAM);
  ASSERT_GE(dray_submit(s.e.d), 0);
  b.fill(0, 16384, 9);
  uint64_t done = 0;
  for (int i = 0; i < 50; i++)
    done += b.put("small", 0, 16384, DRAY_TIER_CXL).status == DRAY_OK;
  EXPECT_EQ(done, 50u);
  size_t ok = 0;
  for (auto &c : s.e.wait(12))
    ok += c.status == DRAY_OK;
  EXPECT_EQ(ok, 12u);
}

TEST(Plan, AHotCellGoesThroughTheCacheAndAColdOneDoesNot)
{
  Stage s({{"copy_plan=builtin"}});
  ASSERT_EQ(s.e.error(), 0);
  for (int i = 0; i < 8; i++) {
    s.e.fill(0, 65536, i);
    ASSERT_EQ(s.e.put("h" + std::to_string(i), 0, 65536, DRAY_TIER_DRAM).status, DRAY_OK);
  }
  EXPECT_EQ(s.e.get("h0", 4u << 20, 65536).path, DRAY_PATH_CPU_NT);
  auto c = s.e.get("h0", 4u << 20, 65536);
  EXPECT_EQ(c.path, DRAY_PATH_CPU) << say(c);
  EXPECT_TRUE(s.e.holds(4u << 20, 65536, 0));
  for (int i = 1; i < 8; i++)
    EXPECT_EQ(s.e.get("h" + std::to_string(i), (4u + i) << 20, 65536).path, DRAY_PATH_CPU_NT) << i;
  EXPECT_EQ(s.e.get("h0", 4u << 20, 65536).path, DRAY_PATH_CPU_NT) << "too much was copied since";
}

TEST(Plan, ReadSoonOfALongCellDoesNotFillTheCache)
{
  Stage s({{"copy_plan=builtin"}});
  ASSERT_EQ(s.e.error(), 0);
  EXPECT_EQ(s.e.put("s", 0, 1u << 20, DRAY_TIER_DRAM, DRAY_READ_SOON).path, DRAY_PATH_CPU);
  EXPECT_EQ(s.e.put("l", 0, 5u << 20, DRAY_TIER_DRAM, DRAY_READ_SOON).path, DRAY_PATH_CPU_NT) << "chunk by chunk it fits";
}

TEST(Plan, IsSaidAtStartWithWhereItCameFrom)
{
  Mover built({{"copy_plan=builtin"}, {}, "", ""});
  ASSERT_TRUE(built.up());
  EXPECT_NE(built.log().find("copy plan: "), std::string::npos);
  EXPECT_NE(built.log().find("built-in (copy_plan: builtin)"), std::string::npos) << built.log();
  Mover measured;
  ASSERT_TRUE(measured.up());
  const std::string log = measured.log();
  EXPECT_TRUE(log.find("measured in") != std::string::npos || log.find("not measured") != std::string::npos) << log;
}
