/* SPDX-License-Identifier: Apache-2.0 */
// Open, start, die, quiesce, start again.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "tests/conform/transport_conform.h"

class ConformLife : public Conform {};

TEST_F(ConformLife, HotOpsOutsideStartAndStopAreRefused)
{
  struct xfer s = MakeXfer(XFER_SYNC, nullptr, 0, nullptr, 0);
  dev_->cold->stop(dev_);
  started_ = false;
  EXPECT_EQ(-ESHUTDOWN, dev_->hot->submit(dev_, 0, &s));
  struct xfer_done d;
  EXPECT_EQ(0u, dev_->hot->poll(dev_, 0, &d, 1));
  EXPECT_EQ(-1, dev_->hot->poll_fd(dev_, 0));
  ASSERT_EQ(0, dev_->cold->start(dev_, &err_));
  started_ = true;
  EXPECT_EQ(XFER_OK, Run(s).status);
}

TEST_F(ConformLife, CapsSayWhatItIs)
{
  const struct dev_caps &c = dev_->caps;
  EXPECT_EQ(16 * kMiB, c.capacity);
  EXPECT_EQ(0u, c.unit & (c.unit - 1));
  EXPECT_GT(c.unit, 0u);
  EXPECT_GE(c.isolation, DEV_PER_SLAB);
  EXPECT_EQ(c.isolation == DEV_PRIVATE, c.owner[0] != 0);
  EXPECT_EQ(c.asynchronous, !c.addressable);
  EXPECT_EQ(c.emulated, std::string(c.note).find("emulated") != std::string::npos);
  EXPECT_EQ(sizeof(struct transport_cold), dev_->cold->size);
  EXPECT_EQ(sizeof(struct transport_hot), dev_->hot->size);
}

TEST_F(ConformLife, SecondMoverIsBusy)
{
  if (!setup_.lockable)
    GTEST_SKIP() << "nothing to lock";
  struct dev *other = nullptr;
  EXPECT_EQ(-EBUSY, setup_.transport->cold->open(&cfg_, &err_, &other));
  EXPECT_EQ(nullptr, other);
  EXPECT_NE(nullptr, strstr(err_.text, path_.c_str()));
  Close();
  ASSERT_EQ(0, Open()) << err_.text;
}

TEST_F(ConformLife, QuiesceAfterKilledWorkerLeavesNothingLanding)
{
  // back to the keeper's state: open, never started here
  Close();
  ASSERT_EQ(0, Open()) << err_.text;
  Region a(kSlab);
  a.fill(1);
  for (int round = 0; round < 5; round++) {
    pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (!pid) {
      struct index_visitor none = {nullptr,
                                   [](void *, const struct slab_mem *, uint64_t, uint32_t, const char *, const char *,
                                      uint8_t) { return 0; },
                                   [](void *, const struct slab_mem *, uint32_t, const struct index_entry *) {
                                     return 0;
                                   }};
      uint64_t skipped;
      struct slab_mem m;
      if (dev_->cold->start(dev_, &err_))
        _exit(1);
      if (dev_->caps.persistent && dev_->cold->index_scan(dev_, &none, &skipped))
        _exit(2);
      if (dev_->cold->slab_add(dev_, kSlab, &err_, &m))
        _exit(3);
      static struct xfer_vec v[64];
      unsigned taken = 0;
      for (unsigned i = 0; i < 64; i++) {
        v[i] = {a.at((i % 64) * kSlot), i % 2 ? kSlot : kSlot - 3};
        struct xfer x = MakeXfer(i % 3 ? XFER_WRITE : XFER_READ, &m, (i % 64) * kSlot, &v[i], 1, i);
        if (dev_->hot->submit(dev_, i % 2, &x))
          continue;
        taken++;
        if (i == 10)
          dev_->hot->flush(dev_, 0);
      }
      if (round % 2)
        dev_->hot->flush(dev_, 1);
      if (!taken)
        _exit(4);
      kill(getpid(), SIGKILL);  // lane 0 has entries that were never flushed
    }
    int st = 0;
    ASSERT_EQ(pid, waitpid(pid, &st, 0));
    ASSERT_TRUE(WIFSIGNALED(st) && WTERMSIG(st) == SIGKILL) << "status " << st;
    ASSERT_EQ(0, dev_->cold->quiesce(dev_, 5000));
    // nothing changes any more
    std::vector<uint8_t> before(a.at(), a.at() + kSlab);
    usleep(2000);
    EXPECT_EQ(0, memcmp(before.data(), a.at(), kSlab));
    // a new worker sees its own done records only
    pid = fork();
    ASSERT_GE(pid, 0);
    if (!pid) {
      struct xfer s = MakeXfer(XFER_SYNC, nullptr, 0, nullptr, 0, 4711);
      if (dev_->cold->start(dev_, &err_))
        _exit(1);
      for (uint32_t lane = 0; lane < 2; lane++) {
        struct xfer_done d;
        if (dev_->hot->in_flight(dev_, lane) || dev_->hot->poll(dev_, lane, &d, 1))
          _exit(2);
        if (dev_->hot->submit(dev_, lane, &s))
          _exit(3);
        std::vector<struct xfer_done> out;
        if (!Drain(lane, 1, &out) || out.size() != 1 || out[0].cookie != 4711 || out[0].status != XFER_OK)
          _exit(4);
      }
      dev_->cold->stop(dev_);
      _exit(0);
    }
    ASSERT_EQ(pid, waitpid(pid, &st, 0));
    ASSERT_TRUE(WIFEXITED(st) && !WEXITSTATUS(st)) << st;
    // a worker that stopped in order needs no quiesce before the next start
  }
}
