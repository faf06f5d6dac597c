/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "tests/unit/transports/scratch.h"

class Memory : public ::testing::Test {
 protected:
  ~Memory() override
  {
    if (d)
      d->cold->close(d);
  }
  int Open() { return transport_memory.cold->open(&cfg, &e, &d); }
  struct dev_config cfg = GoodConfig(nullptr);
  struct err e = {};
  struct dev *d = nullptr;
};

TEST_F(Memory, ASlabIsSealedAndMode0400)
{
  ASSERT_EQ(0, Open());
  struct slab_mem m;
  ASSERT_EQ(0, d->cold->slab_add(d, 1 << 20, &e, &m));
  int seals = fcntl(m.fd, F_GET_SEALS);
  for (int s : {F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_FUTURE_WRITE, F_SEAL_SEAL})
    EXPECT_TRUE(seals & s) << s;
  struct stat st;
  ASSERT_EQ(0, fstat(m.fd, &st));
  EXPECT_EQ(0400u, st.st_mode & 07777);
  EXPECT_NE(0, fallocate(m.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
  EXPECT_EQ(MAP_FAILED, mmap(nullptr, 4096, PROT_WRITE, MAP_SHARED, m.fd, 0));
  static_cast<char *>(m.base)[5] = 1;  // the mover's own mapping still writes
  d->cold->slab_del(d, &m, true);
  EXPECT_EQ(-1, m.fd);
}
TEST_F(Memory, CapacityMustBeSet)
{
  cfg.capacity = 0;
  EXPECT_EQ(-EINVAL, Open());
  EXPECT_NE(nullptr, strstr(e.text, "set capacity"));
}
TEST_F(Memory, ANodeThatIsNotThereIsNamed)
{
  cfg.numa_node = 900;
  EXPECT_EQ(-ENODEV, Open());
  EXPECT_NE(nullptr, strstr(e.text, "node 900"));
}
TEST_F(Memory, ANodeThatIsThereBinds)
{
  if (access("/sys/devices/system/node/node0", F_OK))
    GTEST_SKIP() << "no NUMA in this kernel";
  cfg.numa_node = 0;
  ASSERT_EQ(0, Open()) << e.text;
  struct slab_mem m;
  ASSERT_EQ(0, d->cold->slab_add(d, 1 << 20, &e, &m)) << e.text;
  d->cold->slab_del(d, &m, false);
}
TEST_F(Memory, HugePagesAreUsedOrTheNoteSaysWhyNot)
{
  cfg.huge_pages = true;
  ASSERT_EQ(0, Open());
  EXPECT_EQ(d->caps.unit == 2 << 20, d->caps.note[0] == 0) << d->caps.note;
  struct slab_mem m;
  ASSERT_EQ(0, d->cold->slab_add(d, 4 << 20, &e, &m)) << e.text;
  memset(m.base, 1, m.bytes);
  d->cold->slab_del(d, &m, false);
}
TEST_F(Memory, LanesOutOfRangeAreRefused)
{
  cfg.lanes = 0;
  EXPECT_EQ(-EINVAL, Open());
  cfg.lanes = DEV_LANES_MAX + 1;
  EXPECT_EQ(-EINVAL, Open());
  EXPECT_EQ(nullptr, d);
}
