/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <liburing.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "tests/unit/transports/scratch.h"

extern "C" {
#include "transports/file/ring.h"
}

class File : public ::testing::Test {
 protected:
  ~File() override { Close(); }
  int Open() { return transport_file.cold->open(&cfg, &e, &d); }
  void Close()
  {
    if (d)
      d->cold->close(d);
    d = nullptr;
  }
  Scratch dir;
  std::string path = dir.path + "/pool";
  struct dev_config cfg = GoodConfig(path.c_str());
  struct err e = {};
  struct dev *d = nullptr;
};

TEST_F(File, MissingKnobsAreNamed)
{
  cfg.path = nullptr;
  EXPECT_EQ(-EINVAL, Open());
  EXPECT_NE(nullptr, strstr(e.text, "set path"));
  cfg.path = path.c_str();
  cfg.capacity = 0;
  EXPECT_EQ(-EINVAL, Open());
  EXPECT_NE(nullptr, strstr(e.text, "set capacity"));
  cfg.capacity = 16 << 20;
  cfg.depth = 2000;
  EXPECT_EQ(-EINVAL, Open());
  EXPECT_NE(nullptr, strstr(e.text, "depth"));
}
TEST_F(File, APathThatIsNoDirectoryIsRefused)
{
  int fd = open(path.c_str(), O_CREAT | O_RDWR, 0600);
  close(fd);
  EXPECT_EQ(-ENOTDIR, Open());
  EXPECT_NE(nullptr, strstr(e.text, path.c_str()));
}
TEST_F(File, FilesAreOursAlone)
{
  ASSERT_EQ(0, Open()) << e.text;
  struct stat st;
  for (const char *n : {"/dray.index", "/dray.seg.0000"}) {
    ASSERT_EQ(0, stat((path + n).c_str(), &st));
    EXPECT_EQ(0600u, st.st_mode & 07777);
  }
}
TEST_F(File, CapacityIsCutIntoSegmentsOfOneGiB)
{
  cfg.capacity = (2ull << 30) + (5 << 20);
  ASSERT_EQ(0, Open()) << e.text;
  struct stat st;
  ASSERT_EQ(0, stat((path + "/dray.seg.0002").c_str(), &st));
  EXPECT_EQ(5 << 20, st.st_size);
  struct slab_mem m;
  ASSERT_EQ(0, d->cold->slab_add(d, 6 << 20, &e, &m)) << e.text;
  EXPECT_EQ(-EINVAL, d->cold->slab_add(d, (1ull << 30) + (1 << 20), &e, &m));
  d->cold->slab_del(d, &m, false);
}
TEST_F(File, AnotherCapacityIsRefusedUntilTheFilesAreRemoved)
{
  ASSERT_EQ(0, Open());
  Close();
  cfg.capacity = 32 << 20;
  EXPECT_EQ(-EINVAL, Open());
  EXPECT_NE(nullptr, strstr(e.text, "set capacity back"));
  std::filesystem::remove_all(path);
  EXPECT_EQ(0, Open()) << e.text;
}
TEST_F(File, FallbacksAreNoted)
{
  cfg.no_uring = true;
  ASSERT_EQ(0, Open());
  EXPECT_NE(nullptr, strstr(d->caps.note, "pread/pwrite pool"));
  Close();
  cfg.no_uring = false;
  ASSERT_EQ(0, Open());
  EXPECT_STREQ("", d->caps.note);
}
TEST_F(File, SlabSpaceIsReallyReservedAndReallyGivenBack)
{
  ASSERT_EQ(0, Open());
  struct stat st;
  auto blocks = [&] {
    EXPECT_EQ(0, stat((path + "/dray.seg.0000").c_str(), &st));
    return static_cast<uint64_t>(st.st_blocks) * 512;
  };
  EXPECT_EQ(0u, blocks());
  struct slab_mem m;
  ASSERT_EQ(0, d->cold->slab_add(d, 8 << 20, &e, &m));
  EXPECT_GE(blocks(), 8u << 20);
  d->cold->slab_del(d, &m, false);
  EXPECT_LT(blocks(), 1u << 20);
}
TEST_F(File, RingTakesOnlyFileIoOnRegisteredFiles)
{
  int fd = open((dir.path + "/f").c_str(), O_CREAT | O_RDWR, 0600);
  struct ring r;
  ASSERT_EQ(0, ring_open(&r, 8, &fd, 1, 1 << 20));
  char c = 0;
  struct io_uring_cqe *cqe;
  struct io_uring_sqe *sqe = io_uring_get_sqe(&r.io);
  io_uring_prep_write(sqe, fd, "x", 1, 0);  // a plain fd
  io_uring_submit(&r.io);
  ASSERT_EQ(0, io_uring_wait_cqe(&r.io, &cqe));
  EXPECT_EQ(-EACCES, cqe->res);
  io_uring_cqe_seen(&r.io, cqe);
  sqe = io_uring_get_sqe(&r.io);
  io_uring_prep_openat(sqe, AT_FDCWD, "/etc/passwd", O_RDONLY, 0);
  sqe->flags |= IOSQE_FIXED_FILE;
  io_uring_submit(&r.io);
  ASSERT_EQ(0, io_uring_wait_cqe(&r.io, &cqe));
  EXPECT_EQ(-EACCES, cqe->res);
  io_uring_cqe_seen(&r.io, cqe);
  EXPECT_LT(io_uring_unregister_files(&r.io), 0);
  EXPECT_EQ(0, pread(fd, &c, 1, 0));
  ring_close(&r);
  close(fd);
}
TEST_F(File, QuiesceGivesUpAtItsDeadline)
{
  // a read from an empty pipe stays outstanding
  int p[2];
  ASSERT_EQ(0, pipe(p));
  struct ring r;
  ASSERT_EQ(0, ring_open(&r, 8, p, 1, 1 << 20));
  char c;
  struct io_uring_sqe *sqe = io_uring_get_sqe(&r.io);
  io_uring_prep_read(sqe, 0, &c, 1, 0);
  sqe->flags |= IOSQE_FIXED_FILE;
  ASSERT_EQ(1, io_uring_submit(&r.io));
  auto now = std::chrono::steady_clock::now().time_since_epoch();
  uint64_t ns = static_cast<uint64_t>(std::chrono::nanoseconds(now).count());
  EXPECT_EQ(-ETIMEDOUT, ring_quiesce(&r, ns + 20000000));
  ASSERT_EQ(1, write(p[1], "x", 1));
  EXPECT_EQ(0, ring_quiesce(&r, ns + 5000000000ull)) << "and holds once it has ended";
  ring_close(&r);
  close(p[0]);
  close(p[1]);
}
TEST_F(File, WhatADeadWorkerQueuedAndNeverSentIsDropped)
{
  int fd = open((dir.path + "/f").c_str(), O_CREAT | O_RDWR, 0600);
  struct ring r;
  ASSERT_EQ(0, ring_open(&r, 8, &fd, 1, 1 << 20));
  // killed between the store of the tail and the system call
  struct io_uring_sqe *sqe = io_uring_get_sqe(&r.io);
  io_uring_prep_write(sqe, 0, "x", 1, 0);
  sqe->flags |= IOSQE_FIXED_FILE;
  io_uring_smp_store_release(r.io.sq.ktail, r.io.sq.sqe_tail);
  EXPECT_EQ(0, ring_quiesce(&r, 0));
  // the next worker
  ring_resync(&r);
  sqe = io_uring_get_sqe(&r.io);
  io_uring_prep_nop(sqe);
  sqe->flags |= IOSQE_FIXED_FILE;
  io_uring_sqe_set_data64(sqe, 7);
  ASSERT_EQ(1, io_uring_submit(&r.io));
  struct io_uring_cqe *cqe;
  ASSERT_EQ(0, io_uring_wait_cqe(&r.io, &cqe));
  EXPECT_EQ(7u, cqe->user_data);
  io_uring_cqe_seen(&r.io, cqe);
  EXPECT_EQ(0u, io_uring_cq_ready(&r.io));
  struct stat st;
  ASSERT_EQ(0, fstat(fd, &st));
  EXPECT_EQ(0, st.st_size) << "the old write landed";
  ring_close(&r);
  close(fd);
}
TEST_F(File, MemlockShortageIsNotedWithTheKnob)
{
  if (geteuid())
    GTEST_SKIP() << "needs root, to give CAP_IPC_LOCK up in a child";
  cfg.bounce_bytes = 64 << 20;
  pid_t pid = fork();
  if (!pid) {
    struct rlimit rl = {4 << 20, 4 << 20};
    if (setrlimit(RLIMIT_MEMLOCK, &rl))
      _exit(10);
    struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct c[2] = {};
    if (syscall(SYS_capget, &h, c))
      _exit(11);
    c[0].effective &= ~(1u << CAP_IPC_LOCK);
    if (syscall(SYS_capset, &h, c))
      _exit(12);
    if (Open())
      _exit(1);
    fprintf(stderr, "%s\n", d->caps.note);
    _exit(strstr(d->caps.note, "LimitMEMLOCK") && strstr(d->caps.note, "65536 KiB") ? 0 : 2);
  }
  int st;
  waitpid(pid, &st, 0);
  EXPECT_EQ(0, WIFEXITED(st) ? WEXITSTATUS(st) : -1);
}

// A small ext4 on a loop device.
class SmallDisk : public File {
 protected:
  void SetUp() override
  {
    if (geteuid())
      GTEST_SKIP() << "needs root to mount";
    std::string img = dir.path + "/img";
    mnt_ = dir.path + "/mnt";
    mkdir(mnt_.c_str(), 0700);
    std::string cmd = "truncate -s 64M " + img + " && mkfs.ext4 -q -m 0 " + img + " && mount -o loop " + img + " " +
                      mnt_ + " 2>" + dir.path + "/log";
    if (system(cmd.c_str())) {
      mnt_.clear();
      GTEST_SKIP() << "no loop device or no mkfs.ext4";
    }
    path = mnt_ + "/pool";
    cfg.path = path.c_str();
    cfg.capacity = 256 << 20;
  }
  void TearDown() override
  {
    Close();
    if (!mnt_.empty()) {
      EXPECT_EQ(0, system(("umount " + mnt_ + " 2>/dev/null || umount -l " + mnt_).c_str()));
    }
  }
  uint64_t Free()
  {
    struct statvfs v;
    EXPECT_EQ(0, statvfs(mnt_.c_str(), &v));
    return v.f_bfree * v.f_frsize;
  }
  std::string mnt_;
};
TEST_F(SmallDisk, DiskFullIsNoSpaceWithoutLeakedExtents)
{
  ASSERT_EQ(0, Open()) << e.text;
  uint64_t before = Free();
  struct slab_mem m, all[16];
  EXPECT_EQ(-ENOSPC, d->cold->slab_add(d, 128 << 20, &e, &m));
  EXPECT_NE(nullptr, strstr(e.text, path.c_str()));
  sync();
  EXPECT_NEAR(static_cast<double>(before), static_cast<double>(Free()), 1 << 20) << "rolled back on disk";
  int n = 0;
  while (n < 16 && !d->cold->slab_add(d, 8 << 20, &e, &all[n]))
    n++;
  EXPECT_GE(n, 3);
  EXPECT_LT(n, 16);
  EXPECT_EQ(0u, all[0].unit) << "and in the map";
  for (int i = 0; i < n; i++)
    d->cold->slab_del(d, &all[i], false);
  ASSERT_EQ(0, d->cold->slab_add(d, 24 << 20, &e, &m)) << "one free piece again: " << e.text;
  EXPECT_EQ(0u, m.unit);
  d->cold->slab_del(d, &m, false);
}
