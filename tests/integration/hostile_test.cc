/* SPDX-License-Identifier: Apache-2.0 */
/* Engines that attack the mover, or each other, with what they were given: fds, memory, signals to sleep by, another uid. */
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>

#include "tests/kit/mover.h"

using kit::Engine;
using kit::Key;
using kit::Mover;
using kit::say;

/* The library closes an fd once it is mapped; an engine of its own making would not. */
static bool keep_fds;
extern "C" int close(int fd) { return keep_fds ? 0 : (int)syscall(SYS_close, fd); }

namespace {
constexpr uid_t kStranger = 61234;

/* fn in a process of its own, as another uid when one is given; what it returns (0: as it should be) with its words. */
struct Verdict {
  int code = -1;
  std::string words;
};
Verdict As(uid_t uid, const std::function<int(std::string &)> &fn)
{
  int p[2];
  Verdict v;
  if (pipe(p) < 0)
    return v;
  pid_t pid = fork();
  if (pid == 0) {
    close(p[0]);
    if (uid && (setgid(uid) < 0 || setuid(uid) < 0))
      _exit(99);
    std::string words;
    int r = fn(words);
    ssize_t n = write(p[1], words.data(), words.size());
    (void)n;
    _exit(r);
  }
  close(p[1]);
  char buf[4096];
  for (ssize_t n; (n = read(p[0], buf, sizeof buf)) > 0;)
    v.words.append(buf, (size_t)n);
  close(p[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  v.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return v;
}

std::vector<int> MyFds(const char *kind)
{
  std::vector<int> v;
  DIR *d = opendir("/proc/self/fd");
  for (struct dirent *e; d && (e = readdir(d));) {
    char link[256] = {};
    if (readlinkat(dirfd(d), e->d_name, link, sizeof link - 1) > 0 && strstr(link, kind))
      v.push_back(atoi(e->d_name));
  }
  if (d)
    closedir(d);
  return v;
}

void OpenToAll(const Mover &m) { chmod(m.dir().c_str(), 0755); }
kit::MoverOptions ForAll() { return {.sets = {"socket_mode=0666"}}; }

/* Everything of a process that another could read it by. Returns the ways that were open. */
std::string WaysInto(pid_t pid)
{
  std::string open_ways, proc = "/proc/" + std::to_string(pid) + "/";
  for (const char *name : {"mem", "maps", "smaps", "environ", "pagemap", "auxv", "personality", "syscall"}) {
    int fd = open((proc + name).c_str(), O_RDONLY);
    char c[64];
    if (fd >= 0 && pread(fd, c, sizeof c, 0) > 0)
      open_ways += std::string(name) + " ";
  }
  for (int i = 0; i < 64; i++)
    for (int how : {O_RDONLY, O_RDWR})
      if (open((proc + "fd/" + std::to_string(i)).c_str(), how) >= 0)
        open_ways += "fd/" + std::to_string(i) + " ";
  if (DIR *d = opendir((proc + "fd").c_str())) {
    open_ways += "fd/ ";
    closedir(d);
  }
  char buf[16];
  struct iovec mine = {buf, sizeof buf}, theirs = {(void *)&buf, sizeof buf};
  if (process_vm_readv(pid, &mine, 1, &theirs, 1, 0) >= 0 || errno != EPERM)
    open_ways += "process_vm_readv ";
  if (syscall(SYS_ptrace, 16 /* PTRACE_ATTACH */, pid, 0, 0) >= 0)
    open_ways += "ptrace ";
  int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
  for (int i = 0; i < 64 && pidfd >= 0; i++)
    if (syscall(SYS_pidfd_getfd, pidfd, i, 0) >= 0)
      open_ways += "pidfd_getfd ";
  return open_ways;
}

TEST(Hostile, AnotherUidReadsNothingOfTheMover)
{
  if (geteuid() != 0)
    GTEST_SKIP() << "needs root to become another uid";
  Mover m(ForAll());
  ASSERT_TRUE(m.up());
  OpenToAll(m);
  Engine e(m);
  ASSERT_EQ(e.put("secret", 0, 1 << 20).status, DRAY_OK);
  for (pid_t pid : {m.worker(), m.keeper()}) {
    auto v = As(kStranger, [&](std::string &w) {
      w = WaysInto(pid);
      return w.empty() ? 0 : 1;
    });
    EXPECT_EQ(v.code, 0) << "open: " << v.words;
  }
}

TEST(Hostile, NotEvenItsOwnUidLooksIntoTheMover)
{
  if (geteuid() != 0)
    GTEST_SKIP() << "needs root to become another uid";
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's mover as an ordinary user cannot look for leaks when it is not dumpable";
#endif
  auto v = As(kStranger, [](std::string &w) {
    Mover m;
    if (!m.up()) {
      w = m.log();
      return 2;
    }
    w = WaysInto(m.worker());
    return w.empty() ? 0 : 1;
  });
  EXPECT_EQ(v.code, 0) << v.words;
}

TEST(Hostile, WhatIsLentCannotBeWidened)
{
  if (geteuid() != 0)
    GTEST_SKIP() << "needs root to become another uid";
  Mover m(ForAll());
  ASSERT_TRUE(m.up());
  OpenToAll(m);
  auto v = As(kStranger, [&](std::string &w) {
    keep_fds = true;
    Engine e(m);
    if (e.error() || e.put("k", 0, 1 << 20).status != DRAY_OK)
      return 2;
    auto c = e.map("k");
    char *p = (char *)dray_map_address(e.d, c.slab, c.off);
    if (!p)
      return 3;
    if (mprotect((void *)((uintptr_t)p & ~4095ul), 4096, PROT_READ | PROT_WRITE) == 0)
      w += "mprotect ";
    int lent = 0;
    for (int fd : MyFds("memfd:dray")) {
      struct stat st;
      if (fstat(fd, &st) < 0 || st.st_uid == kStranger) /* ours: U and the region */
        continue;
      lent++;
      bool fixed = (st.st_mode & 0777) == 0400;
      std::string name = "fd " + std::to_string(fd) + ": ";
      if (fixed && mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED)
        w += name + "mapped writable ";
      if (fixed && pwrite(fd, "x", 1, 0) >= 0)
        w += name + "written ";
      if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0 && fixed)
        w += name + "punched ";
      if (ftruncate(fd, 0) == 0)
        w += name + "cut ";
      if (fchmod(fd, 0777) == 0)
        w += name + "chmod ";
      if (open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDWR) >= 0 && fixed)
        w += name + "reopened writable ";
    }
    if (lent < 2)
      w += "found no slab and no M to try";
    return w.empty() ? 0 : 1;
  });
  EXPECT_EQ(v.code, 0) << v.words;
  EXPECT_TRUE(m.audit_clean());
}

/* A session's eventfd is an open file of both: the engine fills it up and makes it blocking. Its poke socket likewise. */
TEST(Hostile, BlockingDoorbellsHoldNobodyUp)
{
  Mover m({.sets = {"lanes=1"}});
  ASSERT_TRUE(m.up());
  Engine honest(m);
  ASSERT_EQ(honest.error(), 0);
  auto v = As(0, [&](std::string &) {
    alarm(2); /* it blocks itself, sooner or later */
    auto inherited = MyFds("");
    Engine bad(m);
    if (bad.error())
      return 2;
    auto own = [&](const char *kind) {
      std::vector<int> v;
      for (int fd : MyFds(kind))
        if (std::find(inherited.begin(), inherited.end(), fd) == inherited.end())
          v.push_back(fd);
      return v;
    };
    auto bells = own("eventfd");
    if (bells.empty())
      return 3;
    for (int fd : bells) {
      uint64_t most = UINT64_MAX - 1;
      ssize_t n = write(fd, &most, sizeof most);
      (void)n;
      fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    }
    for (int fd : own("socket:"))
      fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    /* its directives, and notices that nobody fetches */
    for (int i = 0; i < 200; i++) {
      struct dray_sqe *q = dray_get_sqe(bad.d);
      if (!q)
        break;
      dray_prep_nop(q);
      dray_submit(bad.d);
      const struct dray_cqe *c;
      while ((c = dray_peek(bad.d)))
        dray_seen(bad.d);
    }
    return 0;
  });
  ASSERT_TRUE(v.code == 0 || v.code == 128 + SIGALRM) << v.code;
  for (int i = 0; i < 50; i++)
    ASSERT_EQ(honest.put("h", 0, 4096).status, DRAY_OK);
  Engine later(m);
  EXPECT_EQ(later.put("l", 0, 4096).status, DRAY_OK);
}

TEST(Hostile, GrandchildThatGoesOnWritingHarmsNobody)
{
  Mover m({.sets = {"lanes=1"}});
  ASSERT_TRUE(m.up());
  Engine honest(m);
  int stop[2];
  ASSERT_EQ(pipe(stop), 0);
  int maps = kit::map_count(m.worker()), fds = kit::fd_count(m.worker());
  auto v = As(0, [&](std::string &) {
    Engine e(m);
    if (e.error())
      return 2;
    volatile char *u = (volatile char *)dray_items(e.d) - 4096;
    if (fork() == 0) { /* has U, the region and the socket of a session whose engine is dead */
      for (int fd : MyFds("pipe:")) /* or the test would wait for it */
        if (fd != stop[0])
          close(fd);
      struct pollfd p = {stop[0], POLLIN, 0};
      for (unsigned i = 0; poll(&p, 1, 0) == 0; i++) {
        u[i % 65536] = (char)i;
        e.mem()[i % (1 << 20)] = (char)i;
      }
      _exit(0);
    }
    _exit(0); /* no goodbye */
  });
  ASSERT_EQ(v.code, 0);
  EXPECT_TRUE(m.wait_status("sessions", 1));
  for (uint64_t i = 0; i < 100; i++) {
    honest.fill(0, 50000, i);
    ASSERT_EQ(honest.put("h", 0, 50000).status, DRAY_OK);
    ASSERT_EQ(honest.get("h", 1 << 20, 50000).status, DRAY_OK);
    ASSERT_TRUE(honest.holds(1 << 20, 50000, i));
  }
  EXPECT_LE(kit::map_count(m.worker()), maps + 3) << "its memory is not kept";
  EXPECT_LE(kit::fd_count(m.worker()), fds + 2);
  close(stop[1]);
  close(stop[0]);
}

TEST(Hostile, HugePagesTakenAwayFromARegionAreALostPage)
{
  const char *knob = "/proc/sys/vm/nr_hugepages";
  std::string before = kit::read_file(knob);
  if (before.empty() || access(knob, W_OK) != 0)
    GTEST_SKIP() << "cannot set " << knob;
  long had = atol(before.c_str());
  { std::ofstream(knob) << had + 2; }
  struct Restore {
    const char *knob;
    long had;
    ~Restore() { std::ofstream(knob) << had; }
  } restore{knob, had};
  if (atol(kit::read_file(knob).c_str()) < had + 2)
    GTEST_SKIP() << "the kernel gives no two huge pages";
  Mover m;
  ASSERT_TRUE(m.up());
  Engine e(m), other(m);
  struct dray_region r = {};
  ASSERT_EQ(dray_region_alloc(4 << 20, true, &r), 0);
  memset(r.base, 1, 4 << 20);
  ASSERT_EQ(dray_region_register(e.d, &r), 0);
  /* gives its pages back, and somebody else takes them: now a touch of it has no page to get */
  ASSERT_EQ(fallocate(r.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4 << 20), 0);
  int thief = memfd_create("thief", MFD_HUGETLB);
  ASSERT_EQ(ftruncate(thief, 4 << 20), 0);
  if (fallocate(thief, 0, 0, 4 << 20) < 0)
    GTEST_SKIP() << "the freed huge pages stay reserved for the region here";
  dray_prep_put(e.sqe(), Key("k").b, r.id, 0, 1 << 20, DRAY_TIER_DRAM);
  auto c = e.one();
  EXPECT_EQ(c.status, DRAY_FAULT) << say(c);
  EXPECT_EQ(c.reason, DRAY_PAGE_LOST) << say(c);
  EXPECT_EQ(other.put("o", 0, 1 << 20).status, DRAY_OK) << "nobody else notices";
  close(thief);
  dray_region_unregister(e.d, &r);
  dray_region_free(&r);
}

TEST(Hostile, WhenFdsRunOutCallersAreRefusedAndPlacesComeBack)
{
  Mover m;
  ASSERT_TRUE(m.up());
  struct rlimit lim, small;
  ASSERT_EQ(prlimit(m.worker(), RLIMIT_NOFILE, nullptr, &lim), 0);
  small = {(rlim_t)kit::fd_count(m.worker()) + 24, lim.rlim_max};
  ASSERT_EQ(prlimit(m.worker(), RLIMIT_NOFILE, &small, nullptr), 0);
  std::vector<std::unique_ptr<Engine>> v;
  int error = 0;
  for (int i = 0; i < 64 && !error; i++) {
    auto e = std::make_unique<Engine>(m);
    error = e->error();
    if (!error)
      v.push_back(std::move(e));
  }
  EXPECT_NE(error, 0) << "the limit was never met";
  ASSERT_GE(v.size(), 1u);
  EXPECT_EQ(v[0]->put("k", 0, 4096).status, DRAY_OK) << "who is in goes on";
  v.resize(1);
  ASSERT_TRUE(m.wait_status("sessions", 1));
  Engine again(m);
  EXPECT_EQ(again.error(), 0);
  ASSERT_EQ(prlimit(m.worker(), RLIMIT_NOFILE, &lim, nullptr), 0);
}

TEST(Hostile, TwoEnginesWithOneTokenAreTwoSessions)
{
  Mover m({.tenants = {"acme:s3cret"}});
  ASSERT_TRUE(m.up());
  Engine a(m, {.agent = "one", .token = "s3cret"}), b(m, {.agent = "two", .token = "s3cret"});
  ASSERT_EQ(a.error(), 0);
  ASSERT_EQ(b.error(), 0);
  EXPECT_EQ(m.status("sessions"), 2);
  ASSERT_EQ(a.put("k", 0, 4096).status, DRAY_OK);
  auto lease = a.map("k");
  ASSERT_EQ(lease.status, DRAY_OK);
  auto c = b.unmap(lease.object);
  EXPECT_EQ(c.reason, DRAY_BAD_LEASE) << say(c);
  a.close();
  EXPECT_TRUE(m.wait_status("sessions", 1));
  EXPECT_EQ(b.put("mine", 0, 4096).status, DRAY_OK) << "the end of one is not the end of the other";
  EXPECT_EQ(m.status("leases"), 0);
}
} // namespace
