/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "tests/unit/transports/scratch.h"

extern "C" {
#include "transports/cxl/dax.h"
}

class Cxl : public ::testing::Test {
 protected:
  ~Cxl() override
  {
    if (d)
      d->cold->close(d);
  }
  void File(uint64_t bytes)
  {
    std::ofstream(path).close();
    std::filesystem::resize_file(path, bytes);
  }
  int Open() { return transport_cxl.cold->open(&cfg, &e, &d); }
  Scratch dir{"/dev/shm"};
  std::string path = dir.path + "/dev";
  struct dev_config cfg = GoodConfig(path.c_str());
  struct err e = {};
  struct dev *d = nullptr;
};

TEST_F(Cxl, AFileWithoutAnOwnerNamesTheKnob)
{
  File(16 << 20);
  EXPECT_EQ(-EINVAL, Open());
  EXPECT_NE(nullptr, strstr(e.text, "set owner"));
}
TEST_F(Cxl, OwnerDecidesTheIsolation)
{
  File(16 << 20);
  cfg.owner = "shared";
  ASSERT_EQ(0, Open()) << e.text;
  EXPECT_EQ(DEV_SHARED, d->caps.isolation);
  EXPECT_STREQ("", d->caps.owner);
  d->cold->close(d);
  d = nullptr;
  cfg.owner = "tenant-9";
  ASSERT_EQ(0, Open()) << e.text;
  EXPECT_EQ(DEV_PRIVATE, d->caps.isolation);
  EXPECT_STREQ("tenant-9", d->caps.owner);
}
TEST_F(Cxl, CapacityZeroTakesTheWholeFile)
{
  File((16 << 20) + 4096);
  cfg.owner = "shared";
  cfg.capacity = 0;
  ASSERT_EQ(0, Open()) << e.text;
  EXPECT_EQ(16u << 20, d->caps.capacity);
  EXPECT_TRUE(d->caps.emulated);
}
TEST_F(Cxl, CapacityBeyondTheFileIsRefused)
{
  File(8 << 20);
  cfg.owner = "shared";
  EXPECT_EQ(-ENOSPC, Open());
  EXPECT_NE(nullptr, strstr(e.text, "lower capacity"));
}
TEST_F(Cxl, ADirectoryWithoutCapacityNamesTheKnob)
{
  mkdir(path.c_str(), 0700);
  cfg.capacity = 0;
  EXPECT_EQ(-EINVAL, Open());
  EXPECT_NE(nullptr, strstr(e.text, "set capacity"));
}
TEST_F(Cxl, AMissingDeviceIsNotMadeIntoADirectory)
{
  cfg.path = "/dev/dax77.3";
  cfg.owner = "x";
  EXPECT_EQ(-ENOENT, Open());
  EXPECT_NE(nullptr, strstr(e.text, "/dev/dax77.3"));
}
TEST_F(Cxl, ANodeThatIsNoDaxDeviceIsRefused)
{
  cfg.path = "/dev/null";
  cfg.owner = "x";
  EXPECT_LT(Open(), 0);
  EXPECT_NE('\0', e.text[0]);
  cfg.path = "/proc/self/mem";
  EXPECT_LT(Open(), 0);
}
TEST_F(Cxl, ADirectorysSlabLeavesNoNameAndCannotBeReopenedForWriting)
{
  ASSERT_EQ(0, Open()) << e.text;
  struct slab_mem m;
  ASSERT_EQ(0, d->cold->slab_add(d, 1 << 20, &e, &m)) << e.text;
  EXPECT_TRUE(std::filesystem::is_empty(path));
  struct stat st;
  ASSERT_EQ(0, fstat(m.fd, &st));
  EXPECT_EQ(0400u, st.st_mode & 07777);
  EXPECT_EQ(O_RDONLY, fcntl(m.fd, F_GETFL) & O_ACCMODE);
  d->cold->slab_del(d, &m, true);
}
TEST_F(Cxl, AFileCutUnderUsIsAnErrorNotACrash)
{
  File(16 << 20);
  cfg.owner = "shared";
  ASSERT_EQ(0, Open()) << e.text;
  std::filesystem::resize_file(path, 4096);
  struct slab_mem m;
  EXPECT_EQ(-ENOSPC, d->cold->slab_add(d, 2 << 20, &e, &m));
  std::filesystem::resize_file(path, 16 << 20);
  EXPECT_EQ(0, d->cold->slab_add(d, 16 << 20, &e, &m)) << "and its range was given back: " << e.text;
}

// What sysfs says, without a device.
class Dax : public ::testing::Test {
 protected:
  void Put(const char *name, const std::string &text) { std::ofstream(dir.path + "/" + name) << text << "\n"; }
  Scratch dir;
  struct err e = {};
  struct dax_info i = {};
};

TEST_F(Dax, SizeAndDeviceAlignAreRead)
{
  Put("size", "1073741824");
  Put("align", "2097152");
  Put("target_node", "1");
  symlink("../../drivers/device_dax", (dir.path + "/driver").c_str());
  ASSERT_EQ(0, dax_read_sysfs(dir.path.c_str(), &e, &i));
  EXPECT_EQ(1ull << 30, i.size);
  EXPECT_EQ(2ull << 20, i.align);
  EXPECT_EQ(1, i.target_node);
  EXPECT_EQ(0, dax_usable(&i, &e));
}
TEST_F(Dax, SystemRamIsRefusedWithTheCommandThatMendsIt)
{
  Put("size", "1073741824");
  symlink("../../drivers/kmem", (dir.path + "/driver").c_str());
  ASSERT_EQ(0, dax_read_sysfs(dir.path.c_str(), &e, &i));
  EXPECT_EQ(-EINVAL, dax_usable(&i, &e));
  EXPECT_NE(nullptr, strstr(e.text, "daxctl reconfigure-device --mode=devdax"));
}
TEST_F(Dax, ZeroSizeAndNoDriverAreRefused)
{
  Put("size", "0");
  symlink("../../drivers/device_dax", (dir.path + "/driver").c_str());
  ASSERT_EQ(0, dax_read_sysfs(dir.path.c_str(), &e, &i));
  EXPECT_EQ(-ENODEV, dax_usable(&i, &e));
  unlink((dir.path + "/driver").c_str());
  Put("size", "4194304");
  ASSERT_EQ(0, dax_read_sysfs(dir.path.c_str(), &e, &i));
  EXPECT_EQ(-ENODEV, dax_usable(&i, &e));
  EXPECT_NE(nullptr, strstr(e.text, "enable-device"));
}
TEST_F(Dax, GarbageInSysfsIsNoDevice)
{
  EXPECT_EQ(-ENODEV, dax_read_sysfs(dir.path.c_str(), &e, &i));
  Put("size", "-5");
  EXPECT_EQ(-ENODEV, dax_read_sysfs(dir.path.c_str(), &e, &i));
  EXPECT_EQ(-ENODEV, dax_read_sysfs("/nowhere", &e, &i));
}
