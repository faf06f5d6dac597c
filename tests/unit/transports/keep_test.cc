/* SPDX-License-Identifier: Apache-2.0 */
// The directory that a mapped device keeps, on a file that stands in; and the lines by which another host reads it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

extern "C" {
#include <dray/types.h>

#include "base/crc.h"
#include "tests/unit/transports/keep_bad.h"
#include "transports/cxl/keep.h"
#include "transports/cxl/keep_format.h"
#include "transports/cxl/share.h"
#include "transports/fault/inject.h"
#include "transports/transport.h"
}

namespace {
constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kSlot = 64 << 10;

class Keep : public ::testing::Test {
protected:
  void SetUp() override
  {
    char t[] = "/dev/shm/dray-keep-XXXXXX";
    int fd = mkstemp(t);
    ASSERT_GE(fd, 0);
    path_ = t;
    ASSERT_EQ(0, ftruncate(fd, kBytes));
    raw_ = static_cast<uint8_t *>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    ASSERT_NE(MAP_FAILED, static_cast<void *>(raw_));
    close(fd);
    cfg_.name = "test";
    cfg_.path = path_.c_str();
    cfg_.lanes = 1;
    cfg_.numa_node = -1;
    cfg_.owner = "red";
    cfg_.keep = DEV_KEEP_YES;
  }
  void TearDown() override
  {
    Close();
    munmap(raw_, kBytes);
    unlink(path_.c_str());
  }
  int Open()
  {
    Close();
    int r = transport_cxl.cold->open(&cfg_, &err_, &dev_);
    return r ? r : dev_->cold->start(dev_, &err_);
  }
  void Close()
  {
    if (!dev_)
      return;
    dev_->cold->stop(dev_);
    dev_->cold->close(dev_);
    dev_ = nullptr;
  }
  std::string Text() const { return err_.text; }
  struct Seen {
    std::vector<struct slab_mem> slabs;
    std::vector<struct index_entry> cells;
    std::vector<std::pair<uint64_t, uint64_t>> bad;
  };
  Seen Scan()
  {
    Seen s;
    struct index_visitor v = {};
    v.ctx = &s;
    v.slab = [](void *c, const struct slab_mem *m, uint64_t, uint32_t, const char *, const char *, uint8_t) {
      static_cast<Seen *>(c)->slabs.push_back(*m);
      return 0;
    };
    v.cell = [](void *c, const struct slab_mem *, uint32_t, const struct index_entry *e) {
      static_cast<Seen *>(c)->cells.push_back(*e);
      return 0;
    };
    v.bad = [](void *c, uint64_t off, uint64_t len, bool) {
      static_cast<Seen *>(c)->bad.emplace_back(off, len);
      return 0;
    };
    EXPECT_EQ(0, dev_->cold->index_scan(dev_, &v, &skipped_));
    return s;
  }
  static struct index_entry Entry(uint8_t key, uint64_t len, uint32_t generation, uint32_t crc)
  {
    struct index_entry e = {};
    memset(e.key, key, sizeof e.key);
    strcpy(e.tenant, "red");
    strcpy(e.agent, "a");
    e.len = len;
    e.generation = generation;
    e.crc = crc;
    e.has_crc = 1;
    e.scope = DRAY_SCOPE_TENANT;
    return e;
  }
  struct slab_mem Slab(uint64_t bytes = 2 * kMiB)
  {
    struct slab_mem m = {};
    EXPECT_EQ(0, dev_->cold->slab_add(dev_, bytes, &err_, &m)) << Text();
    EXPECT_EQ(0, dev_->cold->index_slab(dev_, &m, kSlot, 32, "red", "a", DRAY_SCOPE_TENANT));
    return m;
  }
  void Put(const struct slab_mem &m, uint32_t slot, uint8_t key, const void *p, uint64_t len, uint32_t generation)
  {
    struct xfer_vec v = {const_cast<void *>(p), len};
    struct xfer x = {};
    x.op = XFER_WRITE;
    x.slab = &m;
    x.slab_off = slot * kSlot;
    x.vec = &v;
    x.nvec = 1;
    x.bytes = len;
    struct xfer_done done;
    ASSERT_EQ(0, dev_->hot->submit(dev_, 0, &x));
    ASSERT_EQ(1u, dev_->hot->poll(dev_, 0, &done, 1));
    ASSERT_EQ(XFER_OK, done.status);
    struct index_entry e = Entry(key, len, generation, crc32c(0, p, len));
    ASSERT_EQ(0, dev_->cold->index_put(dev_, &m, slot, &e));
  }
  struct keep_super *Super(unsigned i) const { return reinterpret_cast<struct keep_super *>(raw_ + i * KEEP_SUPER_STEP); }

  static constexpr uint64_t kBytes = 24 * kMiB;
  std::string path_;
  struct dev_config cfg_ = {};
  struct err err_ = {};
  struct dev *dev_ = nullptr;
  uint8_t *raw_ = nullptr;
  uint64_t skipped_ = 0;
};

std::vector<uint8_t> Bytes(uint32_t generation, size_t n)
{
  std::vector<uint8_t> v(n);
  uint32_t x = generation * 2654435761u + 1;
  for (auto &b : v) {
    x = x * 1664525u + 1013904223u;
    b = static_cast<uint8_t>(x >> 24);
  }
  return v;
}
} // namespace

TEST_F(Keep, ATornSuperblockLeavesTheOneBefore)
{
  for (int i = 0; i < 5; i++)
    ASSERT_EQ(0, Open()) << Text();
  Close();
  unsigned newest = Super(0)->generation > Super(1)->generation ? 0 : 1;
  EXPECT_EQ(Super(newest)->generation, Super(1 - newest)->generation + 1);
  Super(newest)->owner[0] = 'x';
  ASSERT_EQ(0, Open()) << Text();
  Close();
  Super(0)->owner[0] = Super(1)->owner[0] = 'x';
  EXPECT_EQ(-EINVAL, Open());
  EXPECT_NE(std::string::npos, Text().find("damaged")) << Text();
  EXPECT_NE(std::string::npos, Text().find("keep: fresh")) << Text();
  cfg_.keep = DEV_KEEP_FRESH;
  EXPECT_EQ(0, Open()) << Text();
}

TEST_F(Keep, AnotherVersionSizeOrOwnerIsNamed)
{
  ASSERT_EQ(0, Open());
  Close();
  cfg_.owner = "blue";
  EXPECT_EQ(-EINVAL, Open());
  EXPECT_NE(std::string::npos, Text().find("tenant red, not to blue")) << Text();
  cfg_.owner = "red";
  cfg_.capacity = 20 * kMiB;
  EXPECT_EQ(-EINVAL, Open());
  EXPECT_NE(std::string::npos, Text().find("made for 25165824 bytes")) << Text();
  cfg_.capacity = 0;
  cfg_.coherence = DEV_SOFTWARE;
  EXPECT_EQ(-EINVAL, Open());
  cfg_.coherence = DEV_COHERENT;
  for (unsigned i = 0; i < 2; i++) {
    Super(i)->version++;
    Super(i)->crc = crc32c(0, Super(i), offsetof(struct keep_super, crc));
  }
  EXPECT_EQ(-EINVAL, Open());
  EXPECT_NE(std::string::npos, Text().find("version 2, this mover writes 1")) << Text();
}

TEST_F(Keep, GarbageInItIsSkippedAndCounted)
{
  ASSERT_EQ(0, Open());
  struct slab_mem m = Slab(), n = Slab();
  auto b = Bytes(1, kSlot);
  Put(m, 0, 1, b.data(), kSlot, 1);
  Put(m, 1, 2, b.data(), kSlot, 2);
  Put(n, 0, 3, b.data(), kSlot, 3);
  uint64_t unit = m.dev_off / (2 * kMiB), other = n.dev_off / (2 * kMiB);
  Close();
  raw_[keep_cell_off(12, 2 * kMiB, unit, 1) + 8] ^= 1;       // an entry's key: any is a good one, only the CRC knows
  raw_[keep_slab_off(other) + 24] ^= 1;                      // a header
  raw_[keep_slab_off(0)] = 7;                                // in the directory's own unit: never looked at
  memset(raw_ + keep_slab_off(11), 0xff, sizeof(struct keep_slab)); // past all slabs
  memset(raw_ + keep_bad_off(9), 0xff, sizeof(struct keep_bad));
  ASSERT_EQ(0, Open()) << Text();
  Seen s = Scan();
  EXPECT_EQ(1u, s.slabs.size());
  ASSERT_EQ(1u, s.cells.size());
  EXPECT_EQ(1, s.cells[0].key[0]);
  EXPECT_EQ(0u, s.bad.size());
  EXPECT_EQ(4u, skipped_);
}

TEST_F(Keep, BadMemoryIsRememberedAndNotHandedOutAgain)
{
  ASSERT_EQ(0, Open());
  struct slab_mem m = Slab();
  EXPECT_EQ(0, dev_->cold->index_bad(dev_, m.dev_off + 4 * kMiB, 4096, true));
  EXPECT_EQ(0, dev_->cold->index_bad(dev_, m.dev_off + 4 * kMiB, 4096, true)) << "known";
  EXPECT_EQ(-EINVAL, dev_->cold->index_bad(dev_, kBytes, 4096, true));
  EXPECT_EQ(-EINVAL, dev_->cold->index_bad(dev_, 0, 0, true));
  ASSERT_EQ(0, Open()) << Text();
  Seen s = Scan();
  ASSERT_EQ(1u, s.bad.size());
  EXPECT_EQ(m.dev_off + 4 * kMiB, s.bad[0].first);
  EXPECT_EQ(1u, s.slabs.size()) << "a slab elsewhere is found all the same";
  struct slab_mem one;
  int n = 0;
  while (dev_->cold->slab_add(dev_, 2 * kMiB, &err_, &one) == 0) {
    EXPECT_NE(m.dev_off + 4 * kMiB, one.dev_off);
    n++;
  }
  EXPECT_EQ(9, n) << "12 units: the directory's, the slab found, the bad one";
}

TEST_F(Keep, WhatIsNotKeptIsWiped)
{
  memset(raw_, 0x5a, kBytes);
  cfg_.keep = DEV_KEEP_NO;
  cfg_.capacity = 4 * kMiB;
  ASSERT_EQ(0, Open()) << Text();
  for (uint64_t i = 0; i < kBytes; i += 4096)
    ASSERT_EQ(0, raw_[i]) << i << ": the fd shows what is past the capacity, too";
}

TEST_F(Keep, DetachedItHoldsNothingAndSaysSo)
{
  ASSERT_EQ(0, Open());
  EXPECT_EQ(0, dev_->cold->detach(dev_));
  EXPECT_EQ(0, dev_->cold->detach(dev_));
  struct slab_mem m;
  EXPECT_EQ(-ENODEV, dev_->cold->slab_add(dev_, 2 * kMiB, &err_, &m));
  EXPECT_NE(std::string::npos, Text().find("drained")) << Text();
  struct dev *again = nullptr;
  EXPECT_EQ(0, transport_cxl.cold->open(&cfg_, &err_, &again)) << "its lock is free " << Text();
  if (again)
    again->cold->close(again);
}

class Share : public Keep {
protected:
  void SetUp() override
  {
    Keep::SetUp();
    if (flush_probe() == FLUSH_NONE)
      GTEST_SKIP() << "no instruction here that forgets a cache line";
    cfg_.coherence = DEV_SOFTWARE;
    ASSERT_EQ(0, Open()) << Text();
    EXPECT_TRUE(dev_->caps.incoherent);
    ASSERT_EQ(0, share_open(&share_, raw_, kBytes));
    memset(key_, 5, sizeof key_);
  }
  struct share_line *Line(uint64_t i) { return reinterpret_cast<struct share_line *>(raw_ + share_.line_off) + i; }
  struct share share_ = {};
  uint8_t key_[16];
  std::vector<uint8_t> to_ = std::vector<uint8_t>(kSlot);
  uint64_t len_ = 0, line_ = 0;
  uint32_t generation_ = 0;
};

TEST_F(Share, ACellIsReadThroughItsLineUntilItIsRemoved)
{
  struct slab_mem m = Slab();
  auto b = Bytes(7, kSlot - 3);
  Put(m, 3, 5, b.data(), b.size(), 7);
  ASSERT_EQ(0, share_find(&share_, key_, &line_));
  ASSERT_EQ(0, share_read(&share_, line_, key_, to_.data(), to_.size(), &len_, &generation_));
  EXPECT_EQ(b.size(), len_);
  EXPECT_EQ(7u, generation_);
  EXPECT_EQ(0, memcmp(b.data(), to_.data(), b.size()));
  EXPECT_EQ(-EMSGSIZE, share_read(&share_, line_, key_, to_.data(), 100, &len_, &generation_));
  dev_->cold->index_del(dev_, &m, 3);
  EXPECT_EQ(-ENOENT, share_read(&share_, line_, key_, to_.data(), to_.size(), &len_, &generation_));
  EXPECT_EQ(-ENOENT, share_find(&share_, key_, &line_));
  Put(m, 3, 5, b.data(), b.size(), 8);
  dev_->cold->slab_del(dev_, &m, false);
  EXPECT_EQ(-ENOENT, share_find(&share_, key_, &line_)) << "no line outlives its slab";
}

TEST_F(Share, ALineThatCameBeforeItsBytesOrInPiecesIsNotBelieved)
{
  struct slab_mem m = Slab();
  auto b = Bytes(7, kSlot);
  Put(m, 0, 5, b.data(), kSlot, 7);
  ASSERT_EQ(0, share_find(&share_, key_, &line_));
  struct share_line good = *Line(line_);
  raw_[m.dev_off + 100] ^= 1; /* a byte that has not arrived */
  EXPECT_EQ(-EAGAIN, share_read(&share_, line_, key_, to_.data(), to_.size(), &len_, &generation_));
  raw_[m.dev_off + 100] ^= 1;
  EXPECT_EQ(0, share_read(&share_, line_, key_, to_.data(), to_.size(), &len_, &generation_));
  Line(line_)->generation++;
  EXPECT_EQ(-EAGAIN, share_read(&share_, line_, key_, to_.data(), to_.size(), &len_, &generation_));
  share_line_make(Line(line_), key_, kBytes - 10, kSlot, 9, good.data_crc);
  EXPECT_EQ(-EILSEQ, share_read(&share_, line_, key_, to_.data(), to_.size(), &len_, &generation_));
  share_line_make(Line(line_), key_, 0, kSlot, 9, good.data_crc);
  EXPECT_EQ(-EILSEQ, share_read(&share_, line_, key_, to_.data(), to_.size(), &len_, &generation_)) << "the directory";
  share_line_make(Line(line_), key_, UINT64_MAX - 5, kSlot, 9, good.data_crc);
  EXPECT_EQ(-EILSEQ, share_read(&share_, line_, key_, to_.data(), to_.size(), &len_, &generation_));
  EXPECT_EQ(-ENOENT, share_read(&share_, share_.lines, key_, to_.data(), to_.size(), &len_, &generation_));
}

/* Two processes with a mapping each stand in for two hosts: what they cannot show is a cache that is stale. */
TEST_F(Share, AnotherProcessNeverSeesHalfOfACell)
{
  struct slab_mem m = Slab();
  auto first = Bytes(1, kSlot);
  Put(m, 0, 5, first.data(), kSlot, 1);
  int pipe_fd[2];
  ASSERT_EQ(0, pipe(pipe_fd));
  pid_t pid = fork();
  if (pid == 0) {
    int fd = open(path_.c_str(), O_RDONLY);
    void *p = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fd, 0);
    struct share s;
    uint64_t line;
    if (p == MAP_FAILED || share_open(&s, p, kBytes) || share_find(&s, key_, &line))
      _exit(10);
    uint32_t reads = 0, last = 0;
    while (last < 2000) {
      int r = share_read(&s, line, key_, to_.data(), to_.size(), &len_, &generation_);
      if (r == -EAGAIN || r == -ENOENT)
        continue;
      if (r)
        _exit(11);
      if (generation_ < last)
        _exit(12); /* time went backwards */
      auto want = Bytes(generation_, kSlot);
      if (len_ != kSlot || memcmp(want.data(), to_.data(), kSlot))
        _exit(13);
      if (reads++ == 0 && write(pipe_fd[1], "r", 1) != 1)
        _exit(14);
      last = generation_;
    }
    _exit(reads > 1 ? 0 : 15);
  }
  char c;
  ASSERT_EQ(1, read(pipe_fd[0], &c, 1)) << "it reads the first";
  for (uint32_t g = 2; g <= 2000; g++) {
    auto b = Bytes(g, kSlot);
    dev_->cold->index_del(dev_, &m, 0);
    Put(m, 0, 5, b.data(), kSlot, g);
  }
  int status = 0;
  EXPECT_EQ(pid, waitpid(pid, &status, 0));
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(0, WEXITSTATUS(status));
  close(pipe_fd[0]);
  close(pipe_fd[1]);
}

TEST_F(Share, WithoutADirectoryOrLinesItIsRefused)
{
  Close();
  std::vector<uint8_t> none(8192);
  EXPECT_EQ(-EINVAL, share_open(&share_, none.data(), none.size()));
  EXPECT_EQ(-EINVAL, share_open(&share_, raw_, kBytes - 1)) << "a mapping that is too short";
  cfg_.keep = DEV_KEEP_FRESH;
  cfg_.coherence = DEV_COHERENT;
  ASSERT_EQ(0, Open()) << Text();
  EXPECT_EQ(-EINVAL, share_open(&share_, raw_, kBytes)) << "no lines";
  Close();
  cfg_.coherence = DEV_SOFTWARE;
  cfg_.keep = DEV_KEEP_NO;
  EXPECT_EQ(-EINVAL, Open());
  EXPECT_NE(std::string::npos, Text().find("set keep: yes")) << Text();
}

/* ---- its own memory goes bad ---- */

namespace {
/* Poisons a piece of the device's directory in the transport's own mapping. */
#define POISON_DIRECTORY(mem, off, len)                                                                                \
  do {                                                                                                                 \
    char *base_ = static_cast<char *>((mem).base) - (mem).dev_off;                                                     \
    int r_ = inject_poison(base_ + (off), len, 4096);                                                                  \
    if (r_ == -ENOTSUP)                                                                                                \
      GTEST_SKIP() << "this kernel has no UFFDIO_POISON (6.6)";                                                        \
    ASSERT_EQ(0, r_);                                                                                                  \
  } while (0)
} // namespace

TEST_F(Keep, ABadDirectoryServesOnSaysSoAndIsNotBelievedLater)
{
  ASSERT_EQ(0, Open()) << Text();
  struct slab_mem m = Slab();
  auto b = Bytes(1, kSlot);
  Put(m, 0, 1, b.data(), kSlot, 1);
  /* the page of the entries, not that of the superblocks */
  uint64_t entries = keep_cell_off(kBytes / (2 * kMiB), 2 * kMiB, m.dev_off / (2 * kMiB), 0) & ~4095ull;
  POISON_DIRECTORY(m, entries, 4096);
  struct index_entry e = Entry(2, kSlot, 2, crc32c(0, b.data(), kSlot));
  EXPECT_EQ(-EHWPOISON, dev_->cold->index_put(dev_, &m, 1, &e));
  EXPECT_EQ(-EHWPOISON, dev_->cold->index_put(dev_, &m, 2, &e)) << "from then on";
  dev_->cold->index_del(dev_, &m, 0);
  struct slab_mem n = {};
  EXPECT_EQ(0, dev_->cold->slab_add(dev_, 2 * kMiB, &err_, &n)) << "it serves " << Text();
  EXPECT_EQ(-EHWPOISON, dev_->cold->index_slab(dev_, &n, kSlot, 32, "red", "a", DRAY_SCOPE_TENANT));
  struct xfer_vec v = {b.data(), kSlot};
  struct xfer x = {};
  x.op = XFER_WRITE;
  x.slab = &n;
  x.vec = &v;
  x.nvec = 1;
  x.bytes = kSlot;
  struct xfer_done done;
  ASSERT_EQ(0, dev_->hot->submit(dev_, 0, &x));
  ASSERT_EQ(1u, dev_->hot->poll(dev_, 0, &done, 1));
  EXPECT_EQ(XFER_OK, done.status);
  for (unsigned i = 0; i < 2; i++)
    EXPECT_NE(0, memcmp(Super(i)->magic, KEEP_MAGIC, 7)) << "a later start would believe it";
  /* a worker that comes after it, in the same mover, believes it no more either */
  struct index_visitor none = {};
  EXPECT_EQ(-EHWPOISON, dev_->cold->index_scan(dev_, &none, &skipped_));
  inject_forget(static_cast<char *>(m.base) - m.dev_off, kBytes);
  ASSERT_EQ(0, Open()) << Text();
  EXPECT_TRUE(Scan().cells.empty()) << "a cell that was dropped could have come back";
}

TEST_F(Keep, ABadPageThatIsReadAtStartIsSkippedAndGivesItUp)
{
  ASSERT_EQ(0, Open()) << Text();
  struct slab_mem m = Slab(), n = Slab();
  auto b = Bytes(1, kSlot);
  Put(m, 0, 1, b.data(), kSlot, 1);
  Put(n, 0, 2, b.data(), kSlot, 2);
  ASSERT_EQ(0, Open()) << Text();
  /* the mapping of this opening is where the scan will look: found by the slab that is there */
  Seen s = Scan();
  ASSERT_EQ(2u, s.slabs.size());
  uint64_t entries = keep_cell_off(kBytes / (2 * kMiB), 2 * kMiB, m.dev_off / (2 * kMiB), 0) & ~4095ull;
  POISON_DIRECTORY(s.slabs[0], entries, 4096);
  struct index_visitor v = {};
  std::vector<struct slab_mem> again;
  v.ctx = &again;
  v.slab = [](void *c, const struct slab_mem *at, uint64_t, uint32_t, const char *, const char *, uint8_t) {
    static_cast<std::vector<struct slab_mem> *>(c)->push_back(*at);
    return 0;
  };
  v.cell = [](void *, const struct slab_mem *, uint32_t, const struct index_entry *) { return 0; };
  EXPECT_EQ(-EHWPOISON, dev_->cold->index_scan(dev_, &v, &skipped_));
  EXPECT_EQ(2u, again.size());
  EXPECT_GT(skipped_, 0u);
  inject_forget(static_cast<char *>(s.slabs[0].base) - s.slabs[0].dev_off, kBytes);
}

TEST_F(Keep, EarlyNewsOfItIsKnownByItsAddress)
{
  ASSERT_EQ(0, Open()) << Text();
  struct slab_mem m = Slab();
  uintptr_t base = reinterpret_cast<uintptr_t>(m.base) - m.dev_off;
  EXPECT_EQ(0, dev_->cold->index_met(dev_, reinterpret_cast<uintptr_t>(m.base) + 4096, 4096)) << "a slab's own";
  EXPECT_EQ(0, dev_->cold->index_met(dev_, base - 1, 1));
  EXPECT_EQ(0, dev_->cold->index_met(dev_, base, 3)) << "a unit that is none";
  struct index_entry e = Entry(2, kSlot, 2, 0);
  EXPECT_EQ(0, dev_->cold->index_put(dev_, &m, 1, &e));
  EXPECT_EQ(-EHWPOISON, dev_->cold->index_met(dev_, base + 8192, 4096));
  EXPECT_EQ(-EHWPOISON, dev_->cold->index_put(dev_, &m, 1, &e));
}

TEST_F(Keep, ABadSuperblockIsToldFromMissingMemoryAndFromDamage)
{
  ASSERT_EQ(0, Open()) << Text();
  Close();
  char *p = static_cast<char *>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, open(path_.c_str(), O_RDWR), 0));
  ASSERT_NE(MAP_FAILED, static_cast<void *>(p));
  struct keep k = {};
  int r = inject_poison(p, 4096, 4096);
  if (r == -ENOTSUP)
    GTEST_SKIP() << "this kernel has no UFFDIO_POISON (6.6)";
  ASSERT_EQ(0, r);
  EXPECT_EQ(-EHWPOISON, keep_open(&k, p, 2 * kMiB, kBytes / (2 * kMiB), "red", FLUSH_NONE, false, "here", &err_));
  EXPECT_NE(std::string::npos, Text().find("memory of its directory is bad")) << Text();
  EXPECT_EQ(-EHWPOISON, keep_format(&k, p, 2 * kMiB, kBytes / (2 * kMiB), "red", FLUSH_NONE, false));
  EXPECT_EQ(nullptr, k.base);
  inject_forget(p, kBytes);
  ASSERT_EQ(0, truncate(path_.c_str(), 0));
  EXPECT_EQ(-EIO, keep_open(&k, p, 2 * kMiB, kBytes / (2 * kMiB), "red", FLUSH_NONE, false, "here", &err_));
  EXPECT_NE(std::string::npos, Text().find("no memory behind")) << Text();
  munmap(p, kBytes);
}

TEST_F(Keep, ATierWhoseDirectoryIsKnownToBeBadServesWithoutAndSaysSo)
{
  struct dev_caps caps;
  bool keeps = true;
  raw_[5 * kMiB] = 'x';
  EXPECT_EQ(0, keep_bad_open(&cfg_, kBytes, 2 * kMiB, 4096, false, &err_, &caps, &keeps)) << Text();
  EXPECT_FALSE(keeps);
  EXPECT_FALSE(caps.persistent);
  EXPECT_NE(nullptr, strstr(caps.note, "nothing on it outlives this mover")) << caps.note;
  EXPECT_EQ(0, raw_[5 * kMiB]) << "whose it was cannot be told: wiped";
  EXPECT_EQ(0, keep_bad_open(&cfg_, kBytes, 2 * kMiB, 6 * kMiB, false, &err_, &caps, &keeps)) << Text();
  EXPECT_TRUE(keeps) << "bad memory elsewhere is another matter";
  memset(raw_, 0, 4096); // of a directory without lines it is said first that it is another
  cfg_.coherence = DEV_SOFTWARE;
  EXPECT_EQ(-EHWPOISON, keep_bad_open(&cfg_, kBytes, 2 * kMiB, 4096, false, &err_, &caps, &keeps));
  EXPECT_NE(std::string::npos, Text().find("coherence: software")) << Text();
}

TEST_F(Keep, ABadLineDoesNotMakeAnothersDeviceOurs)
{
  struct dev_caps caps;
  bool keeps;
  ASSERT_EQ(0, Open()) << Text();
  Close();
  raw_[5 * kMiB] = 'x';
  cfg_.owner = "blue";
  EXPECT_EQ(-EINVAL, keep_bad_open(&cfg_, kBytes, 2 * kMiB, 8192, false, &err_, &caps, &keeps)) << Text();
  EXPECT_NE(std::string::npos, Text().find("tenant red, not to blue")) << Text();
  keep_bad_next(1); // the superblock that nobody has written yet; the other is whole
  EXPECT_EQ(-EINVAL, keep_bad_open(&cfg_, kBytes, 2 * kMiB, UINT64_MAX, false, &err_, &caps, &keeps)) << Text();
  EXPECT_NE(std::string::npos, Text().find("tenant red, not to blue")) << Text();
  EXPECT_EQ('x', raw_[5 * kMiB]) << "another tenant's bytes";
  cfg_.owner = "red";
  EXPECT_EQ(0, Open()) << "as if nothing had been " << Text();
  Close();
  Super(0)->owner[0] = Super(1)->owner[0] = 'x';
  EXPECT_EQ(-EINVAL, keep_bad_open(&cfg_, kBytes, 2 * kMiB, 8192, false, &err_, &caps, &keeps));
  EXPECT_NE(std::string::npos, Text().find("damaged")) << Text();
  EXPECT_EQ('x', raw_[5 * kMiB]);
  cfg_.keep = DEV_KEEP_FRESH;
  EXPECT_EQ(0, keep_bad_open(&cfg_, kBytes, 2 * kMiB, 8192, false, &err_, &caps, &keeps)) << Text();
  EXPECT_FALSE(keeps);
  EXPECT_EQ(0, raw_[5 * kMiB]) << "that was asked for";
}

TEST_F(Keep, StrictRefusesABadDirectoryBeforeAnythingIsWiped)
{
  struct dev_caps caps;
  bool keeps;
  ASSERT_EQ(0, Open()) << Text();
  Close();
  raw_[5 * kMiB] = 'x';
  cfg_.strict = true;
  for (uint8_t keep : {DEV_KEEP_YES, DEV_KEEP_FRESH}) {
    cfg_.keep = keep;
    EXPECT_EQ(-EHWPOISON, keep_bad_open(&cfg_, kBytes, 2 * kMiB, 8192, false, &err_, &caps, &keeps));
    EXPECT_NE(std::string::npos, Text().find("strict: yes")) << Text();
    EXPECT_NE(std::string::npos, Text().find("nothing wiped")) << Text();
  }
  cfg_.keep = DEV_KEEP_YES;
  keep_bad_next(2);
  EXPECT_EQ(-EHWPOISON, keep_bad_open(&cfg_, kBytes, 2 * kMiB, UINT64_MAX, false, &err_, &caps, &keeps));
  EXPECT_EQ('x', raw_[5 * kMiB]);
  EXPECT_EQ(1u, Super(1)->generation) << "not even a superblock was written";
  cfg_.strict = false;
  EXPECT_EQ(0, keep_bad_open(&cfg_, kBytes, 2 * kMiB, 8192, false, &err_, &caps, &keeps)) << Text();
  EXPECT_EQ(0, raw_[5 * kMiB]);
}

TEST_F(Keep, NoDirectoryIsMadeWhereTheWipeHasJustMetBadMemory)
{
  struct dev_caps caps;
  bool keeps = true;
  for (bool strict : {false, true}) {
    cfg_.strict = strict;
    cfg_.keep = DEV_KEEP_FRESH;
    keep_bad_next(1); // the wipe's first piece: from then on the kernel lets stores through
    EXPECT_EQ(strict ? -EHWPOISON : 0, keep_bad_open(&cfg_, kBytes, 2 * kMiB, UINT64_MAX, true, &err_, &caps, &keeps));
    EXPECT_FALSE(keeps);
    EXPECT_FALSE(caps.persistent);
    EXPECT_EQ(0u, Super(1)->generation) << "a later start would believe it";
  }
  EXPECT_EQ(std::string::npos, Text().find("nothing wiped")) << "it was, as was asked: " << Text();
}

TEST_F(Keep, ABadRowInTheDirectoryItselfDoesNotKeepALaterWorkerFromStarting)
{
  ASSERT_EQ(0, Open()) << Text();
  struct slab_mem m = Slab();
  EXPECT_EQ(0, dev_->cold->index_bad(dev_, 8192, 4096, true));
  EXPECT_EQ(-EHWPOISON, dev_->cold->index_met(dev_, reinterpret_cast<uintptr_t>(m.base) - m.dev_off + 8192, 4096));
  struct index_visitor none = {};
  for (int worker = 0; worker < 2; worker++)
    EXPECT_EQ(-EHWPOISON, dev_->cold->index_scan(dev_, &none, &skipped_));
  EXPECT_EQ(0, dev_->cold->slab_add(dev_, 2 * kMiB, &err_, &m)) << Text();
  EXPECT_GE(m.dev_off, 2 * kMiB);
}
