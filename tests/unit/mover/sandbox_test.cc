// SPDX-License-Identifier: Apache-2.0
/* What the mover can no longer do once it has locked itself in. Each attempt is a child process of its own. */
#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <string>

extern "C" {
#include "mover/sandbox.h"
}

namespace {
/* Exit code of what runs inside, or minus the signal that ended it. 77 and 78 are the sandbox's own failures. */
int Inside(const std::function<int()> &enter, const std::function<int()> &act)
{
  pid_t pid = fork();
  if (pid == 0) {
    int r = sandbox_process();
    r = r ? r : enter();
    if (r == -ENOTSUP)
      _exit(77);
    if (r < 0)
      _exit(78);
    _exit(act());
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}
int Lane() { return sandbox_lane(false, false); }
constexpr int kUnavailable = 77;

#define SKIP_UNLESS_FILTERED()                                                                                         \
  if (Inside(Lane, [] { return 0; }) == kUnavailable)                                                                   \
  GTEST_SKIP() << "no filter in an instrumented build or on this architecture"
} // namespace

TEST(SandboxLane, WhatMovesBytesGoesOn)
{
  SKIP_UNLESS_FILTERED();
  EXPECT_EQ(Inside(Lane,
                   [] {
                     int fd = (int)syscall(SYS_memfd_create, "x", 0);
                     void *p = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
                     bool ok = fd >= 0 && ftruncate(fd, 8192) == 0 && p != MAP_FAILED && munmap(p, 4096) == 0;
                     ok = ok && pwrite(fd, "abcd", 4, 0) == 4 && fallocate(fd, 0, 0, 4096) == 0;
                     ok = ok && fchmod(fd, 0400) == 0 && fcntl(fd, F_GETFL) >= 0 && close(fd) == 0;
                     free(malloc(1 << 20));
                     return ok ? 0 : 1;
                   }),
            0);
}

TEST(SandboxLane, EveryOtherCallEndsTheWorker)
{
  SKIP_UNLESS_FILTERED();
  struct {
    const char *what;
    std::function<int()> act;
  } tries[] = {
      {"execve", [] { return (int)syscall(SYS_execve, "/bin/true", nullptr, nullptr); }},
      {"socket", [] { return socket(AF_INET, SOCK_STREAM, 0); }},
      {"fork", [] { return (int)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }},
      {"ptrace", [] { return (int)syscall(SYS_ptrace, 0, 0, 0, 0); }},
      {"process_vm_readv", [] { return (int)syscall(SYS_process_vm_readv, getppid(), 0, 0, 0, 0, 0); }},
      {"accept4", [] { return (int)syscall(SYS_accept4, 0, 0, 0, 0); }},
      {"ioctl", [] { return (int)syscall(SYS_ioctl, 0, 0, 0); }},
      {"userfaultfd", [] { return (int)syscall(SYS_userfaultfd, 0); }},
      {"kill", [] { return (int)syscall(SYS_kill, getppid(), 0); }},
      {"chmod", [] { return (int)syscall(SYS_fchmodat, AT_FDCWD, "/tmp", 0777); }},
      {"io_uring_setup", [] { return (int)syscall(SYS_io_uring_setup, 1, nullptr); }},
      {"io_uring_register", [] { return (int)syscall(SYS_io_uring_register, -1, 0, 0, 0); }},
  };
  for (auto &t : tries)
    EXPECT_EQ(Inside(Lane, t.act), -SIGSYS) << t.what;
}

TEST(SandboxLane, MemoryNeverBecomesExecutable)
{
  SKIP_UNLESS_FILTERED();
  EXPECT_EQ(Inside(Lane,
                   [] {
                     return mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
                   }),
            -SIGSYS);
  EXPECT_EQ(Inside(Lane,
                   [] {
                     void *p = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                     return mprotect(p, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
                   }),
            -SIGSYS);
}

TEST(SandboxLane, TheFaultTransportsCallsAreThereOnlyWhenAsked)
{
  SKIP_UNLESS_FILTERED();
  EXPECT_EQ(Inside([] { return sandbox_lane(true, false); }, [] { return syscall(SYS_ioctl, -1, 0, 0) < 0 ? 0 : 1; }), 0);
}

TEST(SandboxLane, OfIoctlOnlyTheOneRequestOfVerbsAndOnlyWhenAsked)
{
  SKIP_UNLESS_FILTERED();
  auto verbs = [] { return sandbox_lane(false, true); };
  EXPECT_EQ(Inside(verbs, [] { return syscall(SYS_ioctl, -1, 0xc0181b01u, 0) < 0 ? 0 : 1; }), 0);
  EXPECT_EQ(Inside(verbs, [] { return syscall(SYS_ioctl, -1, 0xc0181b02u, 0) < 0 ? 0 : 1; }), -SIGSYS);
  EXPECT_EQ(Inside(Lane, [] { return syscall(SYS_ioctl, -1, 0xc0181b01u, 0) < 0 ? 0 : 1; }), -SIGSYS);
}

class SandboxWorker : public ::testing::Test {
 protected:
  void SetUp() override
  {
    char t[] = "/tmp/dray-sandbox-XXXXXX";
    dir_ = mkdtemp(t);
    tier_ = dir_ + "/tier";
    mkdir(tier_.c_str(), 0700);
    other_ = dir_ + "/other";
    close(open(other_.c_str(), O_CREAT | O_RDWR, 0600));
    cfg_.tiers_n = 1;
    cfg_.tier[0].path = tier_.c_str();
    if (Inside([this] { return Enter(); }, [] { return 0; }) == kUnavailable)
      GTEST_SKIP() << "no sandbox in an instrumented build, or no Landlock in this kernel";
  }
  void TearDown() override
  {
    unlink((tier_ + "/a").c_str());
    rmdir(tier_.c_str());
    unlink(other_.c_str());
    rmdir(dir_.c_str());
  }
  int Enter()
  {
    char missing[160];
    int r = sandbox_worker(&cfg_, missing, sizeof missing);
    return r < 0 ? r : *missing ? -ENOTSUP : 0;
  }
  int Try(const std::function<int()> &act)
  {
    return Inside([this] { return Enter(); }, act);
  }
  config cfg_{};
  std::string dir_, tier_, other_;
};

TEST_F(SandboxWorker, TheTiersOwnFilesStayOpen)
{
  EXPECT_EQ(Try([this] {
              int fd = open((tier_ + "/a").c_str(), O_CREAT | O_RDWR, 0600);
              return fd >= 0 && write(fd, "x", 1) == 1 && unlink((tier_ + "/a").c_str()) == 0 ? 0 : 1;
            }),
            0);
  EXPECT_EQ(Try([] { return open("/proc/self/status", O_RDONLY) >= 0 ? 0 : 1; }), 0);
}

TEST_F(SandboxWorker, EveryOtherFileIsClosed)
{
  auto denied = [](int fd) { return fd < 0 && errno == EACCES ? 0 : 1; };
  EXPECT_EQ(Try([&] { return denied(open(other_.c_str(), O_RDONLY)); }), 0);
  EXPECT_EQ(Try([&] { return denied(open("/etc/passwd", O_RDONLY)); }), 0);
  EXPECT_EQ(Try([&] { return denied(open((dir_ + "/new").c_str(), O_CREAT | O_WRONLY, 0600)); }), 0);
  EXPECT_EQ(Try([&] { return denied(open(("/proc/" + std::to_string(getppid()) + "/mem").c_str(), O_RDONLY)); }), 0);
}

TEST_F(SandboxWorker, NothingIsExecutedDebuggedOrMounted)
{
  auto refused = [](long r) { return r < 0 && errno == EPERM ? 0 : 1; };
  EXPECT_EQ(Try([&] { return refused(execl("/bin/true", "true", nullptr)); }), 0);
  EXPECT_EQ(Try([&] { return refused(syscall(SYS_ptrace, 16 /* ATTACH */, getppid(), 0, 0)); }), 0);
  EXPECT_EQ(Try([&] { return refused(syscall(SYS_mount, "none", "/mnt", "tmpfs", 0, 0)); }), 0);
  EXPECT_EQ(Try([&] { return refused(syscall(SYS_unshare, 0x10000000)); }), 0);
  EXPECT_EQ(Try([&] { return refused(syscall(SYS_pidfd_getfd, 0, 0, 0)); }), 0);
}

TEST_F(SandboxWorker, TheProcessIsNotForOthersToLookInto)
{
  EXPECT_EQ(Try([] { return prctl(PR_GET_DUMPABLE) == 0 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? 0 : 1; }), 0);
}
