/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

extern "C" {
#include "base/guard.h"
#include "bench/stage.h"
#include "bench/touch.h"
}

namespace {
constexpr uint64_t kBytes = 4 << 20;
struct Area {
  std::unique_ptr<struct touch> t{new struct touch()};
  int fd = memfd_create("touch", MFD_CLOEXEC);
  Area(enum touch_rw rw, uint32_t threads)
  {
    EXPECT_EQ(ftruncate(fd, kBytes), 0);
    t->base = (char *)mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    t->bytes = kBytes;
    t->block = 65536;
    t->threads = threads;
    t->rw = rw;
    t->ms = 5;
    stage_fill(t->base, kBytes, 11);
    EXPECT_EQ(guard_install(), 0);
  }
  ~Area()
  {
    munmap(t->base, kBytes);
    close(fd);
  }
};
} // namespace

TEST(Touch, ReadsAddUpAndAChangedByteIsSeen)
{
  Area a(TOUCH_READ, 2);
  struct guard_hit hit;
  struct touch_result r = {};
  ASSERT_EQ(touch_sums(a.t.get(), &hit), 0);
  ASSERT_EQ(touch_run(a.t.get(), &r), 0);
  EXPECT_GT(r.gbps, 0);
  EXPECT_EQ(r.wrong, 0u);
  a.t->base[kBytes - 1] ^= 1;
  ASSERT_EQ(touch_run(a.t.get(), &r), 0);
  EXPECT_GT(r.wrong, 0u);
}

TEST(Touch, WhatItWroteAndCopiedIsLookedAt)
{
  for (auto rw : {TOUCH_WRITE, TOUCH_COPY}) {
    Area a(rw, 2);
    struct touch_result r = {};
    ASSERT_EQ(touch_run(a.t.get(), &r), 0);
    EXPECT_EQ(touch_check(a.t.get()), 0);
    a.t->base[kBytes - 1] ^= 1; /* a part's second half, the last of a pattern */
    EXPECT_EQ(touch_check(a.t.get()), -EBADMSG);
  }
}

TEST(Touch, LoadsOfAChaseChangeNothing)
{
  Area a(TOUCH_READ, 1);
  struct hist *h = (struct hist *)calloc(1, sizeof *h);
  struct guard_hit hit;
  EXPECT_EQ(touch_chase(a.t->base, kBytes, 8000, 5, h, &hit), 0);
  EXPECT_EQ(h->n, 1000u);
  EXPECT_TRUE(stage_check(a.t->base, kBytes, 11));
  free(h);
}

TEST(Touch, MemoryThatIsGoneIsSaidWithItsPlace)
{
  Area a(TOUCH_READ, 2);
  struct touch_result r = {};
  struct guard_hit hit = {};
  ASSERT_EQ(ftruncate(a.fd, kBytes / 2), 0);
  EXPECT_EQ(touch_run(a.t.get(), &r), -EFAULT);
  EXPECT_EQ(r.hit.kind, GUARD_LOST);
  EXPECT_EQ(r.hit.addr, (uintptr_t)a.t->base + kBytes / 2);
  EXPECT_EQ(touch_sums(a.t.get(), &hit), -EFAULT);
  struct hist *h = (struct hist *)calloc(1, sizeof *h);
  EXPECT_EQ(touch_chase(a.t->base, kBytes, 8000, 5, h, &hit), -EFAULT);
  free(h);
}
