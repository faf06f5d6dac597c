/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

extern "C" {
#include "transports/check.h"
#include "transports/stub.h"
}

class Check : public ::testing::Test {
 protected:
  Check()
  {
    d.caps.addressable = true;
    m.bytes = 1 << 20;
    m.base = buf;
    x.op = XFER_READ;
    x.slab = &m;
    x.vec = v;
    x.nvec = 2;
    x.bytes = 100;
  }
  int Rc() { return xfer_check(&d, &x); }
  struct dev d = {};
  struct slab_mem m = {};
  char buf[256];
  struct xfer_vec v[2] = {{buf, 60}, {buf + 60, 40}};
  struct xfer x = {};
};

TEST_F(Check, GoodXfersPass)
{
  EXPECT_EQ(0, Rc());
  x.op = XFER_WRITE;
  x.flags = XFER_READ_SOON;
  EXPECT_EQ(0, Rc());
  x.slab_off = m.bytes - 100;
  EXPECT_EQ(0, Rc());
}
TEST_F(Check, ZeroLengthIsRefused)
{
  x.bytes = 0;
  EXPECT_EQ(-EINVAL, Rc());
  x.bytes = 60;
  v[1].len = 0;
  EXPECT_EQ(-EINVAL, Rc());
}
TEST_F(Check, UnknownOpsAndFlagsAreRefused)
{
  for (int op : {0, 5, 255}) {
    x.op = static_cast<uint8_t>(op);
    EXPECT_EQ(-EINVAL, Rc()) << op;
  }
  x.op = XFER_READ;
  x.flags = 8;
  EXPECT_EQ(-EINVAL, Rc());
}
TEST_F(Check, TheSumMustBeBytesWithoutOverflow)
{
  x.bytes = 99;
  EXPECT_EQ(-EINVAL, Rc());
  x.bytes = 101;
  EXPECT_EQ(-EINVAL, Rc());
  x.bytes = 100;
  v[0].len = UINT64_MAX;
  EXPECT_EQ(-EINVAL, Rc());
  v[0].len = 1ull << 63;  // the sum wraps to 100
  v[1].len = (1ull << 63) + 100;
  EXPECT_EQ(-EINVAL, Rc());
}
TEST_F(Check, CountsAndPointersAreChecked)
{
  x.nvec = 0;
  EXPECT_EQ(-EINVAL, Rc());
  x.nvec = XFER_VECS_MAX + 1;
  EXPECT_EQ(-EINVAL, Rc());
  x.nvec = 2;
  x.vec = nullptr;
  EXPECT_EQ(-EINVAL, Rc());
  x.vec = v;
  v[1].base = nullptr;
  EXPECT_EQ(-EINVAL, Rc());
  v[1].base = buf;
  x.slab = nullptr;
  EXPECT_EQ(-EINVAL, Rc());
  x.slab = &m;
  x.nsrc = 1;
  EXPECT_EQ(-EINVAL, Rc());
}
TEST_F(Check, OutsideTheSlabIsOutOfRange)
{
  x.slab_off = m.bytes - 99;
  EXPECT_EQ(-ERANGE, Rc());
  x.slab_off = UINT64_MAX - 50;
  EXPECT_EQ(-ERANGE, Rc());
}
TEST_F(Check, CopyNeedsAnAddressableDeviceAndBothSides)
{
  x.op = XFER_COPY;
  EXPECT_EQ(-EINVAL, Rc());
  struct xfer_vec s = {buf, 100};
  x.src = &s;
  x.nsrc = 1;
  EXPECT_EQ(0, Rc());
  s.len = 99;
  EXPECT_EQ(-EINVAL, Rc());
  s.len = 100;
  d.caps.addressable = false;
  EXPECT_EQ(-ENOTSUP, Rc());
}
TEST_F(Check, SyncHasNoMemorySide)
{
  x = {};
  x.op = XFER_SYNC;
  EXPECT_EQ(0, Rc());
  x.bytes = 1;
  EXPECT_EQ(-EINVAL, Rc());
  x.bytes = 0;
  x.nvec = 1;
  EXPECT_EQ(-EINVAL, Rc());
}
TEST(Stub, EveryOpSaysNotSupported)
{
  struct dev_config cfg = {};
  cfg.name = "x";
  struct err e = {};
  struct dev *d = nullptr;
  struct slab_mem m = {};
  struct index_visitor v = {};
  struct index_entry ie = {};
  uint64_t n = 0;
  EXPECT_EQ(-ENOTSUP, stub_open(&cfg, &e, &d));
  EXPECT_EQ(-ENOTSUP, stub_slab_add(d, 1, &e, &m));
  EXPECT_EQ(-ENOTSUP, stub_index_slab(d, &m, 1, 1, "", "", 1));
  EXPECT_EQ(-ENOTSUP, stub_index_put(d, &m, 0, &ie));
  EXPECT_EQ(-ENOTSUP, stub_index_scan(d, &v, &n));
  struct xfer x = {};
  EXPECT_EQ(-ESHUTDOWN, hot_dummy.submit(d, 0, &x));
  EXPECT_EQ(-1, hot_dummy.poll_fd(d, 0));
}
