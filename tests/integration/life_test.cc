/* SPDX-License-Identifier: Apache-2.0 */
/* Birth and death: engines killed, stopped, silent; the mover drained, its worker killed; restarts. */
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "tests/kit/mover.h"

using kit::Engine;
using kit::Key;
using kit::Mover;
using kit::MoverOptions;
using kit::say;

namespace {
/* Runs fn in a child that never returns on its own; reports through the pipe. */
struct Child {
  pid_t pid = -1;
  int out = -1;
  explicit Child(std::function<void(int)> fn)
  {
    int p[2];
    if (pipe(p) < 0)
      return;
    pid = fork();
    if (pid == 0) {
      close(p[0]);
      fn(p[1]);
      _exit(0);
    }
    close(p[1]);
    out = p[0];
  }
  bool ready() /* it wrote a byte */
  {
    char c;
    struct pollfd f = {out, POLLIN, 0};
    return poll(&f, 1, 20000) == 1 && read(out, &c, 1) == 1;
  }
  void reap()
  {
    if (pid > 0)
      waitpid(pid, nullptr, 0);
    pid = -1;
  }
  ~Child()
  {
    if (pid > 0) {
      kill(pid, SIGKILL);
      reap();
    }
    if (out >= 0)
      close(out);
  }
};

TEST(Life, DrainEndsSessionsAndExitsCleanly)
{
  Mover m;
  ASSERT_TRUE(m.up());
  Engine e(m);
  ASSERT_EQ(e.error(), 0);
  ASSERT_EQ(e.put("k", 0, 1 << 20).status, DRAY_OK);
  EXPECT_EQ(m.stop(), 0) << m.log();
  int r = dray_wait(e.d, 1, 5000);
  ASSERT_GE(r, 1);
  EXPECT_EQ(dray_peek(e.d)->type, DRAY_FATAL);
  dray_seen(e.d);
  EXPECT_EQ(dray_wait(e.d, 1, 1000), -ECONNRESET);
  EXPECT_EQ(dray_submit(e.d), -ECONNRESET);
}

TEST(Life, DrainAnswersWhatIsUnderWay)
{
  Mover m;
  ASSERT_TRUE(m.up());
  Engine e(m, {.region = 64u << 20});
  for (int i = 0; i < 16; i++)
    dray_prep_put(e.sqe(), Key("d" + std::to_string(i)).b, e.region.id, 0, 32u << 20, DRAY_TIER_DISK);
  dray_submit(e.d);
  ASSERT_GE(dray_wait(e.d, 1, 10000), 1);
  EXPECT_EQ(m.stop(), 0) << m.log();
  size_t done = 0;
  while (dray_wait(e.d, 1, 1000) >= 1) {
    const struct dray_cqe *c = dray_peek(e.d);
    done += c->type == DRAY_DONE;
    dray_seen(e.d);
  }
  EXPECT_EQ(done, 16u);
}

TEST(Life, DeadWorkerIsReplacedAndItsSessionsAreToldFatal)
{
  Mover m;
  ASSERT_TRUE(m.up());
  Engine e(m);
  ASSERT_EQ(e.put("k", 0, 4096).status, DRAY_OK);
  pid_t old = m.worker();
  int64_t epoch = m.status("epoch");
  kill(old, SIGKILL);
  int r = dray_wait(e.d, 1, 10000);
  ASSERT_GE(r, 1) << "an engine must not wait for a dead mover";
  EXPECT_EQ(dray_peek(e.d)->type, DRAY_FATAL);
  dray_seen(e.d);
  for (int i = 0; i < 2000 && (m.worker() == old || m.worker() < 0); i++)
    poll(nullptr, 0, 5);
  EXPECT_NE(m.worker(), old);
  EXPECT_EQ(m.status("epoch"), epoch + 1);
  Engine again(m);
  ASSERT_EQ(again.error(), 0) << m.log();
  EXPECT_EQ(again.put("k", 0, 4096).status, DRAY_OK);
}

TEST(Life, CellsOnDiskSurviveARestartOfTheMover)
{
  char dir[] = "/tmp/dray-keep-XXXXXX";
  ASSERT_NE(mkdtemp(dir), nullptr);
  {
    Mover m({.dir = dir});
    ASSERT_TRUE(m.up()) << m.log();
    Engine e(m);
    for (int i = 0; i < 20; i++) {
      e.fill(0, 50000, i);
      ASSERT_EQ(e.put("keep" + std::to_string(i), 0, 50000, DRAY_TIER_DISK).status, DRAY_OK);
    }
    ASSERT_EQ(e.drop("keep7").status, DRAY_OK);
    dray_prep_fence(e.sqe());
    ASSERT_EQ(e.one().status, DRAY_OK);
    e.close();
    ASSERT_EQ(m.stop(), 0) << m.log();
  }
  {
    Mover m({.dir = dir});
    ASSERT_TRUE(m.up()) << m.log();
    EXPECT_EQ(m.status("found_on_disk"), 19);
    Engine e(m);
    for (int i = 0; i < 20; i++) {
      auto c = e.get("keep" + std::to_string(i), 0, 50000);
      if (i == 7) {
        EXPECT_EQ(c.reason, DRAY_ABSENT);
        continue;
      }
      ASSERT_EQ(c.status, DRAY_OK) << i << say(c);
      EXPECT_TRUE(e.holds(0, 50000, i)) << i;
    }
    Engine other(m, {.agent = "other"});
    EXPECT_EQ(other.get("keep1", 0, 50000).reason, DRAY_SCOPE_DENIED) << "who owns it survived, too";
    /* and after a killed worker as well */
    kill(m.worker(), SIGKILL);
    for (int i = 0; i < 2000 && m.status("found_on_disk") != 19; i++)
      poll(nullptr, 0, 5);
    Engine third(m);
    ASSERT_EQ(third.error(), 0) << m.log();
    EXPECT_EQ(third.get("keep3", 0, 50000).status, DRAY_OK);
    EXPECT_TRUE(third.holds(0, 50000, 3));
  }
  std::string cmd = std::string("rm -rf ") + dir;
  EXPECT_EQ(system(cmd.c_str()), 0);
}

TEST(Life, SecondMoverOnTheSameSocketSaysSo)
{
  Mover m;
  ASSERT_TRUE(m.up());
  Mover second({.dir = m.dir()});
  EXPECT_FALSE(second.up());
  EXPECT_NE(m.log().find("mover"), std::string::npos);
  Engine e(m);
  EXPECT_EQ(e.error(), 0) << "the first one still serves";
}

TEST(Life, KilledEngineLeavesNothingBehind)
{
  Mover m;
  ASSERT_TRUE(m.up());
  Engine survivor(m);
  ASSERT_EQ(survivor.put("mine", 0, 4096).status, DRAY_OK);
  auto killed = [&](int i) {
    Child c([&](int out) {
      Engine e(m, {.agent = "victim", .region = 32u << 20});
      e.put("v", 0, 1 << 20, DRAY_TIER_DRAM);
      e.map("v");
      dray_prep_alloc(e.sqe(), Key("fill").b, 1 << 20, 0);
      e.one();
      for (int k = 0; k < 20; k++)
        dray_prep_put(e.sqe(), Key("v").b, e.region.id, 0, 16u << 20, k % 2 ? DRAY_TIER_DISK : DRAY_TIER_DRAM);
      dray_submit(e.d);
      ssize_t n = write(out, "x", 1);
      (void)n;
      for (;;)
        pause();
    });
    EXPECT_TRUE(c.ready()) << i;
    kill(c.pid, SIGKILL);
    c.reap();
    EXPECT_TRUE(m.wait_status("sessions", 1)) << i;
  };
  for (int i = 0; i < 3; i++) /* what is made once and kept */
    killed(i);
  pid_t w = m.worker();
  int fds = kit::fd_count(w), keeper_fds = kit::fd_count(m.keeper()), maps = kit::map_count(w);
  for (int i = 0; i < 20; i++)
    killed(i);
  EXPECT_LE(kit::fd_count(w), fds + 2);
  for (int i = 0; i < 2000 && kit::fd_count(m.keeper()) > keeper_fds + 2; i++) /* the worker tells it in its own time */
    poll(nullptr, 0, 5);
  EXPECT_LE(kit::fd_count(m.keeper()), keeper_fds + 2);
  EXPECT_LE(kit::map_count(w), maps + 4);
  EXPECT_EQ(m.status("leases"), 0);
  EXPECT_EQ(survivor.get("mine", 0, 4096).status, DRAY_OK);
  EXPECT_TRUE(m.audit_clean());
}

TEST(Life, DeathIsSeenThoughAGrandchildHoldsTheSocket)
{
  Mover m;
  ASSERT_TRUE(m.up());
  int p[2];
  ASSERT_EQ(pipe(p), 0);
  Child c([&](int out) {
    Engine e(m);
    if (fork() == 0) { /* inherits the session's socket and outlives its parent */
      close(out);
      close(p[1]); /* or it would wait for itself */
      char b;
      ssize_t n = read(p[0], &b, 1);
      _exit((int)n);
    }
    ssize_t n = write(out, "x", 1);
    (void)n;
    for (;;)
      pause();
  });
  ASSERT_TRUE(c.ready());
  EXPECT_EQ(m.status("sessions"), 1);
  kill(c.pid, SIGKILL);
  c.reap();
  EXPECT_TRUE(m.wait_status("sessions", 0));
  close(p[1]);
  close(p[0]);
}

TEST(Life, DeathIsSeenThoughNobodyReapsTheZombie)
{
  Mover m;
  ASSERT_TRUE(m.up());
  Child c([&](int out) {
    Engine e(m);
    ssize_t n = write(out, "x", 1);
    (void)n;
    for (;;)
      pause();
  });
  ASSERT_TRUE(c.ready());
  kill(c.pid, SIGKILL); /* and no waitpid */
  EXPECT_TRUE(m.wait_status("sessions", 0));
}

TEST(Life, StoppedEngineHindersNobodyAndGoesOnAfterwards)
{
  Mover m;
  ASSERT_TRUE(m.up());
  Child c([&](int out) {
    Engine e(m);
    for (uint64_t n = 0;; n++) {
      dray_prep_nop(e.sqe());
      if (e.one().status != DRAY_OK)
        _exit(1);
      ssize_t k = n % 64 == 0 ? write(out, "x", 1) : 0;
      (void)k;
    }
  });
  ASSERT_TRUE(c.ready());
  kill(c.pid, SIGSTOP);
  Engine e(m);
  ASSERT_EQ(e.error(), 0);
  for (int i = 0; i < 200; i++)
    ASSERT_EQ(e.put("s", 0, 65536).status, DRAY_OK);
  EXPECT_EQ(m.status("sessions"), 2);
  kill(c.pid, SIGCONT);
  char buf[4096];
  while (poll(nullptr, 0, 0) == 0) {
    struct pollfd f = {c.out, POLLIN, 0};
    if (poll(&f, 1, 0) <= 0)
      break;
    ASSERT_GT(read(c.out, buf, sizeof buf), 0);
  }
  EXPECT_TRUE(c.ready()) << "it did not go on";
}

TEST(Life, MalformedHandshakesCostNothing)
{
  Mover m;
  ASSERT_TRUE(m.up());
  pid_t w = m.worker();
  { Engine e(m); }
  ASSERT_TRUE(m.wait_status("sessions", 0));
  int fds = kit::fd_count(w);
  int64_t rss = m.status("rss_kib");
  unsigned seed = 7;
  const char *env = getenv("DRAY_STRESS_HANDSHAKES");
  int many = env ? atoi(env) : 3000;
  for (int i = 0; i < many; i++) {
    int s = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct sockaddr_un a = {};
    a.sun_family = AF_UNIX;
    strcpy(a.sun_path, m.socket().c_str());
    ASSERT_EQ(connect(s, (struct sockaddr *)&a, sizeof a), 0);
    uint8_t junk[600];
    for (auto &b : junk)
      b = (uint8_t)rand_r(&seed);
    size_t n = i % 5 == 0 ? 0 : i % 5 == 1 ? 1 : i % 5 == 2 ? sizeof(struct dray_msg_hello) : (size_t)rand_r(&seed) % sizeof junk;
    if (i % 5 == 2) {
      uint32_t type = DRAY_MSG_HELLO;
      memcpy(junk, &type, 4);
    }
    if (n)
      send(s, junk, n, MSG_NOSIGNAL);
    close(s);
  }
  Engine e(m);
  EXPECT_EQ(e.error(), 0) << "an honest engine is still served";
  for (int i = 0; i < 400 && kit::fd_count(w) > fds + 8; i++)
    poll(nullptr, 0, 5);
  EXPECT_LE(kit::fd_count(w), fds + 8);
  EXPECT_LT(m.status("rss_kib"), rss + 8192);
}

/* The doorbell is rung before the lane has heard of the session. */
TEST(Life, DirectivesRightAfterTheWelcomeAreNotLost)
{
  Mover m;
  ASSERT_TRUE(m.up());
  for (int i = 0; i < 300; i++) {
    Engine e(m, {.region = 1 << 16});
    ASSERT_EQ(e.error(), 0) << i;
    dray_prep_nop(e.sqe());
    auto c = e.one();
    ASSERT_EQ(c.status, DRAY_OK) << i << ": " << say(c);
  }
}

TEST(Life, IdleSessionIsServedAsBefore)
{
  Mover m;
  ASSERT_TRUE(m.up());
  Engine e(m);
  ASSERT_EQ(e.put("k", 0, 4096).status, DRAY_OK);
  auto lease = e.map("k");
  ASSERT_EQ(lease.status, DRAY_OK);
  poll(nullptr, 0, 1500); /* idleness is the subject; longer than any timer of the mover's */
  EXPECT_EQ(e.get("k", 1 << 20, 4096).status, DRAY_OK);
  EXPECT_EQ(e.unmap(lease.object).status, DRAY_OK) << "the lease has no end of its own";
}

/* A volume that outlives its container, with room for one mover's files. DRAY_STRESS_RESTARTS (8). */
TEST(Life, KilledMoversLeaveNothingThatBlocksTheNext)
{
  char dir[] = "/tmp/dray-keep-XXXXXX";
  ASSERT_TRUE(mkdtemp(dir));
  const char *env = getenv("DRAY_STRESS_RESTARTS");
  auto blocks = [&] { /* of everything in the tier's directory */
    uint64_t n = 0;
    for (auto &f : std::filesystem::directory_iterator(std::string(dir) + "/disk")) {
      struct stat st;
      n += stat(f.path().c_str(), &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
    }
    return n;
  };
  uint64_t first = 0;
  for (int i = 0; i < (env ? atoi(env) : 8); i++) {
    Mover m({.sets = {"tier.disk.capacity=64MiB"}, .dir = dir});
    ASSERT_TRUE(m.up()) << i << ": " << m.log();
    Engine e(m);
    ASSERT_EQ(e.error(), 0);
    for (int k = 0; k < 32; k++)
      ASSERT_EQ(e.put("k" + std::to_string(k), 0, 1 << 20, DRAY_TIER_DISK).status, DRAY_OK) << i;
    kill(m.keeper(), SIGKILL);
    if (i == 0)
      first = blocks();
  }
  EXPECT_LE(blocks(), first + (8u << 20)) << "files of the dead pile up";
  ASSERT_EQ(system((std::string("rm -rf -- ") + dir).c_str()), 0);
}

/* A pod's engine: process, IPC, network and mount namespaces of its own; only the socket's path is shared. */
/* Each failure is of a later step than the one before; what the earlier ones made must be gone, and the next start not mind. */
TEST(Life, AFailureAtAnyStepOfTheStartLeavesNothingBehind)
{
  namespace fs = std::filesystem;
  char tmpl[] = "/tmp/dray-steps-XXXXXX";
  ASSERT_NE(mkdtemp(tmpl), nullptr);
  const std::string dir = tmpl;
  auto names = [&](const std::string &sub) {
    std::set<std::string> n;
    std::error_code ec;
    for (auto &f : fs::directory_iterator(sub, ec))
      n.insert(f.path().filename());
    n.erase("drayd.log");
    n.erase("drayd.yaml");
    return n;
  };
  /* something listens where /metrics would */
  int busy = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in a = {};
  socklen_t len = sizeof a;
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(busy, (struct sockaddr *)&a, sizeof a), 0);
  ASSERT_EQ(listen(busy, 1), 0);
  ASSERT_EQ(getsockname(busy, (struct sockaddr *)&a, &len), 0);
  std::ofstream(dir + "/file") << "x";
  const std::string tiers = "tiers:\n  - {name: dram, transport: memory, capacity: 16MiB}\n";
  const struct {
    const char *step;
    std::string config;
    const char *says;
  } steps[] = {
      {"the configuration", "lanes: none\n" + tiers, "lanes"},
      {"the calibration", "calibration: /nonexistent/c.json\n" + tiers, "/nonexistent/c.json"},
      {"the first device", "tiers:\n  - {name: cxl, transport: cxl, path: /nonexistent/d, capacity: 16MiB}\n", "/nonexistent"},
      {"the last device", tiers + "  - {name: disk, transport: file, path: " + dir + "/file/disk, capacity: 16MiB}\n", "/file/disk"},
      {"the socket", tiers + "socket: " + dir + "/file/dray.sock\n", "/file/dray.sock"},
      {"the admin socket", tiers + "admin: " + dir + "/file/admin.sock\n", "/file/admin.sock"},
      {"/metrics, by the worker", tiers + "metrics: 127.0.0.1:" + std::to_string(ntohs(a.sin_port)) + "\n", "metrics"},
  };
  const auto before = names(dir);
  for (auto &s : steps) {
    if (std::string(s.config).find("metrics:") != std::string::npos && !WITH_METRICS) /* built without */
      continue;
    MoverOptions o;
    o.dir = dir;
    o.config = s.config;
    {
      Mover m(o);
      EXPECT_FALSE(m.up()) << s.step;
      EXPECT_NE(m.log().find(s.says), std::string::npos) << s.step << ": " << m.log();
    }
    EXPECT_EQ(names(dir), before) << s.step;
    unlink((dir + "/drayd.log").c_str());
    o.config = tiers;
    Mover next(o);
    EXPECT_TRUE(next.up()) << "after a failure at " << s.step << ": " << next.log();
    EXPECT_EQ(next.stop(), 0);
    unlink((dir + "/drayd.log").c_str());
  }
  close(busy);
  fs::remove_all(dir);
}

TEST(Life, EngineInNamespacesOfItsOwnIsServed)
{
  Mover m;
  ASSERT_TRUE(m.up());
  pid_t pid = fork();
  if (pid == 0) {
    if (unshare(CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS) < 0)
      _exit(77);
    pid_t inner = fork(); /* the first of the new pid namespace */
    if (inner == 0) {
      Engine e(m);
      if (e.error())
        _exit(1);
      e.fill(0, 100000, 3);
      bool ok = e.put("k", 0, 100000).status == DRAY_OK && e.get("k", 1 << 20, 100000).status == DRAY_OK &&
                e.holds(1 << 20, 100000, 3);
      auto c = e.map("k");
      const void *p = c.status == DRAY_OK ? dray_map_address(e.d, c.slab, c.off) : nullptr;
      _exit(ok && p && kit::pattern_holds(p, 100000, 3) ? 0 : 2);
    }
    int status = 0;
    waitpid(inner, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77)
    GTEST_SKIP() << "no right to make namespaces";
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(m.wait_status("sessions", 0)) << "its death is seen from outside";
}

TEST(Life, SessionCapIsSaidAndPlacesComeBack)
{
  Mover m({.sets = {"limits.sessions=4"}});
  ASSERT_TRUE(m.up());
  std::vector<std::unique_ptr<Engine>> v;
  for (int i = 0; i < 4; i++) {
    v.push_back(std::make_unique<Engine>(m));
    ASSERT_EQ(v.back()->error(), 0);
  }
  Engine fifth(m);
  EXPECT_EQ(fifth.error(), -EMFILE);
  v.pop_back();
  ASSERT_TRUE(m.wait_status("sessions", 3));
  Engine sixth(m);
  EXPECT_EQ(sixth.error(), 0);
}

TEST(Life, ForgedRingIndexEndsThatSessionAlone)
{
  Mover m;
  ASSERT_TRUE(m.up());
  Engine good(m);
  for (uint32_t lie : {1000u, 0x80000000u, UINT32_MAX}) {
    Engine bad(m);
    ASSERT_EQ(bad.error(), 0);
    /* U starts a page before the arena's rows: the first word is sq_prod */
    struct dray_geometry g;
    (void)g;
    uint32_t *sq_prod = reinterpret_cast<uint32_t *>(reinterpret_cast<char *>(dray_items(bad.d)) - (4096 + 128 * 64));
    *sq_prod = lie;
    dray_prep_nop(bad.sqe());
    ASSERT_GE(dray_wait(bad.d, 1, 10000), 1) << lie;
    EXPECT_EQ(dray_peek(bad.d)->type, DRAY_FATAL);
    ASSERT_EQ(good.put("g", 0, 4096).status, DRAY_OK);
  }
  EXPECT_TRUE(m.wait_status("counters.protocol_errors", 3));
  EXPECT_TRUE(m.wait_status("sessions", 1));
}

TEST(Life, ReadOnlyDiskPathIsOneClearLine)
{
  Mover m({.sets = {"tier.disk.path=/proc/dray"}});
  EXPECT_FALSE(m.up());
  EXPECT_NE(m.log().find("tier disk"), std::string::npos) << m.log();
  EXPECT_NE(m.log().find("/proc/dray"), std::string::npos) << m.log();
}

TEST(Life, StrictMoverDoesNotStartOnAFallback)
{
  Mover m({.sets = {"strict=yes"}, .config = "tiers:\n  - {name: dram, transport: memory, capacity: 64MiB, huge_pages: true}\n"});
  if (atol(kit::read_file("/proc/sys/vm/nr_hugepages").c_str()))
    GTEST_SKIP() << "this machine has huge pages: nothing falls back";
  EXPECT_FALSE(m.up());
  EXPECT_NE(m.log().find("strict: tier dram is less than asked: no free 2 MiB huge pages"), std::string::npos) << m.log();
}

TEST(Life, TiersLargerThanTheMachineAreALineOrWhenStrictTheEnd)
{
  Mover m({.sets = {"tier.dram.capacity=900TiB"}});
  EXPECT_TRUE(m.up());
  EXPECT_NE(m.log().find("warn drayd: memory: the tiers that live in it may take 900"), std::string::npos) << m.log();
  Mover strict({.sets = {"tier.dram.capacity=900TiB", "strict=yes"}});
  EXPECT_FALSE(strict.up());
  EXPECT_NE(strict.log().find("strict: memory:"), std::string::npos) << strict.log();
}

TEST(Life, WithoutIoUringTheDiskTierStillServesAndSaysHow)
{
  kit::MoverOptions o;
  char dir[] = "/tmp/dray-nouring-XXXXXX";
  ASSERT_NE(mkdtemp(dir), nullptr);
  o.config = std::string("tiers:\n  - {name: dram, transport: memory, capacity: 64MiB}\n  - {name: disk, transport: file, path: ") + dir +
             "/d, capacity: 64MiB, no_uring: true}\n";
  {
    Mover m(o);
    ASSERT_TRUE(m.up()) << m.log();
    Engine e(m);
    e.fill(0, 1 << 20, 3);
    auto c = e.put("n", 0, 1 << 20, DRAY_TIER_DISK);
    EXPECT_EQ(c.status, DRAY_OK) << say(c);
    EXPECT_EQ(c.path, DRAY_PATH_PREAD) << say(c);
    e.get("n", 2 << 20, 1 << 20);
    EXPECT_TRUE(e.holds(2 << 20, 1 << 20, 3));
  }
  std::string cmd = std::string("rm -rf ") + dir;
  EXPECT_EQ(system(cmd.c_str()), 0);
}
}  // namespace
