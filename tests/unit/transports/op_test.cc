/* SPDX-License-Identifier: Apache-2.0 */
// The parts of an op against a device that answers short, or with errors.
#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "tests/unit/transports/scratch.h"

extern "C" {
#include "base/guard.h"
#include "transports/file/op.h"
}

class Op : public ::testing::Test {
 protected:
  Op()
  {
    guard_install();
    mem = static_cast<char *>(aligned_alloc(4096, 1 << 20));
    buf = static_cast<char *>(aligned_alloc(4096, 64 << 10));
    for (int i = 0; i < 1 << 20; i++)
      mem[i] = static_cast<char>(i * 7 + (i >> 8));
    seg.bytes = seg.capacity = 1 << 30;
    seg.n = 1;
    m.bytes = 1 << 30;
  }
  ~Op() override
  {
    free(mem);
    free(buf);
  }
  int Begin(uint8_t kind, uint64_t off, std::vector<struct xfer_vec> v)
  {
    vec = v;
    x = {};
    x.cookie = 5;
    x.op = kind;
    x.slab = &m;
    x.slab_off = off;
    x.vec = vec.data();
    x.nvec = static_cast<uint16_t>(vec.size());
    for (auto &p : vec)
      x.bytes += p.len;
    return file_op_begin(&op, &x, direct, DRAY_PATH_IO_URING_DIRECT, DRAY_PATH_BOUNCE);
  }
  bool Next() { return file_op_next(&op, &seg, buf, 64 << 10, &io); }
  bool Result(int64_t res) { return file_op_result(&op, res, buf); }

  bool direct = true;
  char *mem, *buf;
  struct segments seg = {};
  struct slab_mem m = {};
  std::vector<struct xfer_vec> vec;
  struct xfer x = {};
  struct file_op op = {};
  struct file_io io = {};
};

TEST_F(Op, ShortAnswersAreContinuedWhereTheyStopped)
{
  ASSERT_EQ(0, Begin(XFER_READ, 8192, {{mem, 8192}, {mem + 65536, 8192}, {mem + 131072, 4096}}));
  ASSERT_TRUE(Next());
  EXPECT_EQ(3u, io.niov);
  EXPECT_EQ(8192u, io.off);
  EXPECT_FALSE(Result(4096));
  ASSERT_TRUE(Next());
  EXPECT_EQ(0u, io.niov) << "the rest of one piece";
  EXPECT_EQ(mem + 4096, io.buf);
  EXPECT_EQ(4096u, io.len);
  EXPECT_EQ(12288u, io.off);
  EXPECT_FALSE(Result(4096));
  ASSERT_TRUE(Next());
  EXPECT_EQ(2u, io.niov);
  EXPECT_EQ(mem + 65536, io.iov[0].iov_base);
  EXPECT_FALSE(Result(8192 + 100)) << "an odd count goes back to the sector";
  ASSERT_TRUE(Next());
  EXPECT_EQ(mem + 131072, io.buf);
  EXPECT_TRUE(Result(4096));
  EXPECT_EQ(XFER_OK, op.end.status);
  EXPECT_EQ(20480u, op.end.bytes);
  EXPECT_EQ(5u, op.end.cookie);
}
TEST_F(Op, NoProgressIsShortIoWithTheByteCount)
{
  ASSERT_EQ(0, Begin(XFER_READ, 0, {{mem, 16384}}));
  ASSERT_TRUE(Next());
  EXPECT_FALSE(Result(8192));
  ASSERT_TRUE(Next());
  EXPECT_TRUE(Result(0));
  EXPECT_EQ(XFER_FAILED, op.end.status);
  EXPECT_EQ(DRAY_SHORT_IO, op.end.reason);
  EXPECT_EQ(8192u, op.end.bytes);
}
TEST_F(Op, ErrorsKeepTheirErrnoAndPrefix)
{
  const std::pair<int, int> all[] = {{ENOSPC, DRAY_NO_SPACE}, {EDQUOT, DRAY_NO_SPACE}, {EIO, DRAY_IO_ERROR},
                                     {EINVAL, DRAY_IO_ERROR}, {EFAULT, DRAY_PAGE_LOST}, {EHWPOISON, DRAY_POISONED}};
  for (auto &[err, reason] : all) {
    ASSERT_EQ(0, Begin(XFER_WRITE, 0, {{mem, 16384}}));
    ASSERT_TRUE(Next());
    EXPECT_FALSE(Result(4096));
    ASSERT_TRUE(Next());
    EXPECT_TRUE(Result(-err));
    EXPECT_EQ(XFER_FAILED, op.end.status);
    EXPECT_EQ(err, op.end.err);
    EXPECT_EQ(reason, op.end.reason) << err;
    EXPECT_EQ(4096u, op.end.bytes);
  }
}
TEST_F(Op, InterruptedIsTriedAgainButNotForEver)
{
  ASSERT_EQ(0, Begin(XFER_WRITE, 0, {{mem, 4096}}));
  unsigned tries = 0;
  do
    ASSERT_TRUE(Next());
  while (!Result(-EINTR) && ++tries < 1000);
  EXPECT_EQ(OP_TRIES - 1, tries);
  EXPECT_EQ(EINTR, op.end.err);
}
TEST_F(Op, AReadBouncesThroughTheAlignedCover)
{
  ASSERT_EQ(0, Begin(XFER_READ, 4096 + 100, {{mem, 1000}, {mem + 5000, 3000}}));
  memset(mem, 0, 10000);
  ASSERT_TRUE(Next());
  EXPECT_EQ(4096u, io.off);
  EXPECT_EQ(8192u, io.len);
  EXPECT_EQ(buf, io.buf);
  for (int i = 0; i < 8192; i++)
    buf[i] = static_cast<char>(i % 251);
  EXPECT_TRUE(Result(8192));
  EXPECT_EQ(DRAY_PATH_BOUNCE, op.end.path);
  EXPECT_EQ(4000u, op.end.bytes);
  EXPECT_EQ(0, memcmp(mem, buf + 100, 1000));
  EXPECT_EQ(0, memcmp(mem + 5000, buf + 1100, 3000));
  EXPECT_EQ(0, mem[1000]);
}
TEST_F(Op, AShortBouncedReadGoesOnAfterWhatItGot)
{
  ASSERT_EQ(0, Begin(XFER_READ, 0, {{mem, 10001}}));
  ASSERT_TRUE(Next());
  EXPECT_EQ(12288u, io.len);
  EXPECT_FALSE(Result(5000));
  ASSERT_TRUE(Next());
  EXPECT_EQ(4096u, io.off);
  EXPECT_EQ(8192u, io.len);
  EXPECT_TRUE(Result(904)) << "less than what was had before is no progress";
  EXPECT_EQ(DRAY_SHORT_IO, op.end.reason);
  EXPECT_EQ(5000u, op.end.bytes);
}
TEST_F(Op, ABouncedWriteIsPaddedWithZeroesAndSplitByTheBuffer)
{
  memset(buf, 0xee, 64 << 10);
  ASSERT_EQ(0, Begin(XFER_WRITE, 4096, {{mem + 1, 70001}}));
  ASSERT_TRUE(Next());
  EXPECT_EQ(65536u, io.len);
  EXPECT_EQ(0, memcmp(buf, mem + 1, 65536));
  EXPECT_FALSE(Result(65536));
  ASSERT_TRUE(Next());
  EXPECT_EQ(4096u + 65536, io.off);
  EXPECT_EQ(8192u, io.len);
  EXPECT_EQ(0, memcmp(buf, mem + 1 + 65536, 4465));
  for (int i = 4465; i < 8192; i++)
    ASSERT_EQ(0, buf[i]) << i;
  EXPECT_TRUE(Result(8192));
  EXPECT_EQ(70001u, op.end.bytes);
}
TEST_F(Op, AWriteAtAnOddOffsetIsRefused)
{
  EXPECT_EQ(-EINVAL, Begin(XFER_WRITE, 512, {{mem, 4096}}));
  direct = false;
  EXPECT_EQ(-EINVAL, Begin(XFER_WRITE, 512, {{mem, 4096}}));
}
TEST_F(Op, BufferedNeedsNoBounce)
{
  direct = false;
  ASSERT_EQ(0, Begin(XFER_READ, 100, {{mem + 3, 1001}}));
  EXPECT_FALSE(op.bounce);
  ASSERT_TRUE(Next());
  EXPECT_EQ(100u, io.off);
  EXPECT_FALSE(Result(1));
  ASSERT_TRUE(Next());
  EXPECT_EQ(mem + 4, io.buf);
  EXPECT_TRUE(Result(1000));
}
TEST_F(Op, AnOffsetLandsInItsSegment)
{
  seg.bytes = 1 << 20;
  seg.n = 4;
  m.dev_off = 2 << 20;
  ASSERT_EQ(0, Begin(XFER_READ, 8192, {{mem, 4096}}));
  ASSERT_TRUE(Next());
  EXPECT_EQ(2u, io.seg);
  EXPECT_EQ(8192u, io.off);
}
