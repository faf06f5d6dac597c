/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <set>
#include <vector>

#include "tests/unit/transports/scratch.h"

extern "C" {
#include "transports/cxl/bad.h"
#include "transports/cxl/dax.h"
#include "transports/cxl/media.h"
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

// A region with a list of bad sectors, and a device somewhere in it.
class DaxBad : public ::testing::Test {
protected:
  Scratch dir;
  std::string region = dir.path + "/region0", dev = region + "/dax0.0/dax/dax0.0";
  struct err e = {};
  std::vector<struct dax_bad> bad = std::vector<struct dax_bad>(DAX_BAD_MAX);
  void SetUp() override
  {
    std::filesystem::create_directories(dev);
    Set(region + "/resource", "0x100000000");
    Set(dev + "/resource", "0x100200000"); // 2 MiB into the region
  }
  static void Set(const std::string &file, const std::string &text) { std::ofstream(file) << text << "\n"; }
  void List(const std::string &text) { std::ofstream(region + "/badblocks") << text; }
  int Read(uint64_t size = 64 << 20) { return dax_bad_ranges(dev.c_str(), size, &e, bad.data()); }
};

TEST_F(DaxBad, NoListIsNoNews)
{
  EXPECT_EQ(-ENOENT, Read());
  List("");
  EXPECT_EQ(0, Read());
}
TEST_F(DaxBad, SectorsOfTheRegionBecomeBytesOfTheDevice)
{
  List("4096 8\n4104 1\n8192 2048\n");
  ASSERT_EQ(3, Read());
  EXPECT_EQ(0u, bad[0].off);
  EXPECT_EQ(4096u, bad[0].len);
  EXPECT_EQ(4096u, bad[1].off);
  EXPECT_EQ(512u, bad[1].len);
  EXPECT_EQ(2u << 20, bad[2].off);
  EXPECT_EQ(1u << 20, bad[2].len);
}
TEST_F(DaxBad, WhatLiesOutsideTheDeviceIsCutOff)
{
  List("0 1\n4095 2\n135167 8\n200000 4\n"); // before it; across its start; across its end; behind it
  ASSERT_EQ(2, Read());
  EXPECT_EQ(0u, bad[0].off);
  EXPECT_EQ(512u, bad[0].len);
  EXPECT_EQ((64u << 20) - 512, bad[1].off);
  EXPECT_EQ(512u, bad[1].len);
}
TEST_F(DaxBad, ADeviceOfSeveralRangesIsFollowed)
{
  for (int i : {0, 1})
    std::filesystem::create_directories(dev + "/mapping" + std::to_string(i));
  Set(dev + "/mapping0/start", "0x100400000");
  Set(dev + "/mapping0/end", "0x1005fffff");
  Set(dev + "/mapping0/page_offset", "0x200"); // its second half lies first
  Set(dev + "/mapping1/start", "0x100800000");
  Set(dev + "/mapping1/end", "0x1009fffff");
  Set(dev + "/mapping1/page_offset", "0");
  List("8192 1\n16384 1\n12288 1\n");
  ASSERT_EQ(2, Read(4 << 20));
  EXPECT_EQ(2u << 20, bad[0].off);
  EXPECT_EQ(0u, bad[1].off);
}
TEST_F(DaxBad, AListThatIsNoneIsRefusedWithItsLine)
{
  for (const char *t : {"x\n", "1\n", "1 \n", "1 2 3\n", "-1 2\n", "1 -2\n", "1 0\n", "36028797018963968 1\n",
                        "1 36028797018963968\n", "99999999999999999999 1\n", "1 2"}) {
    List(t);
    EXPECT_EQ(-EINVAL, Read()) << t;
    EXPECT_NE(nullptr, strstr(e.text, "need SECTOR COUNT")) << t;
  }
  List("1 2\n");
  std::filesystem::remove(dev + "/resource");
  EXPECT_EQ(-ENOENT, Read());
  Set(dev + "/resource", "soon");
  EXPECT_EQ(-EINVAL, Read());
}
TEST_F(DaxBad, UnitsWithABadByteAreLeftOutOnce)
{
  struct extent_map m;
  ASSERT_EQ(0, extent_map_init(&m, 8, 0));
  const struct dax_bad list[] = {{100, 1}, {4096, 512}, {(2 << 20) - 512, 1024}, {6 << 20, 4 << 20}};
  EXPECT_EQ(4u, dax_bad_leave_out(&m, 2 << 20, list, 4));
  uint64_t at;
  std::set<uint64_t> got;
  while (!extent_alloc(&m, 1, &at))
    got.insert(at);
  EXPECT_EQ((std::set<uint64_t>{2, 5, 6, 7}), got);
  extent_map_deinit(&m);
}

TEST_F(DaxBad, RangesThatOverlapAreOne)
{
  EXPECT_EQ(0u, dax_bad_merge(bad.data(), 0));
  std::vector<struct dax_bad> list = {{8192, 64}, {4096, 512}, {4160, 64}, {4096, 64}, {4608, 64}, {4500, 100}, {0, 4096}};
  ASSERT_EQ(4u, dax_bad_merge(list.data(), 7));
  const struct dax_bad want[] = {{0, 4096}, {4096, 512}, {4608, 64}, {8192, 64}};
  for (int i = 0; i < 4; i++) {
    EXPECT_EQ(want[i].off, list[i].off) << i;
    EXPECT_EQ(want[i].len, list[i].len) << i;
  }
  list = {{100, 10}, {105, 20}, {90, 11}};
  ASSERT_EQ(1u, dax_bad_merge(list.data(), 3));
  EXPECT_EQ(90u, list[0].off);
  EXPECT_EQ(35u, list[0].len);
}

// CXL devices' own lists of bad memory: a bus, a device on it, and what the trace would say.
class Media : public ::testing::Test {
protected:
  Scratch dir;
  std::string bus = dir.path + "/bus", trace = dir.path + "/trace", dev = dir.path + "/platform/region0/dax_region0/dax0.0";
  std::string mine = trace + "/instances/dray-" + std::to_string(getpid());
  struct media_paths paths = {bus.c_str(), trace.c_str()};
  struct err e = {};
  struct media_list list = {};
  std::vector<struct dax_bad> bad = std::vector<struct dax_bad>(8);
  void SetUp() override
  {
    for (auto &d : {bus + "/mem0", bus + "/mem1", bus + "/region0", trace + "/events/cxl/cxl_poison",
                    mine + "/events/cxl/cxl_poison", dev})
      std::filesystem::create_directories(d);
    symlink("../../bus/cxl", (dir.path + "/platform/region0/subsystem").c_str());
    for (auto &f : {bus + "/mem0/trigger_poison_list", bus + "/mem1/trigger_poison_list",
                    mine + "/events/cxl/cxl_poison/enable", mine + "/buffer_size_kb"})
      Set(f, "");
    Set(dev + "/resource", "0x310000000");
    Trace({});
  }
  static void Set(const std::string &file, const std::string &text) { std::ofstream(file) << text << "\n"; }
  static std::string Event(const std::string &hpa, const std::string &len, const std::string &more = "flags=")
  {
    return "     drayd-83  [000] ..... 12.5: cxl_poison: memdev=mem0 host=0000:0d:00.0 serial=0 trace_type=List region=region0 "
           "region_uuid=dead hpa=" + hpa + " dpa=0x400000 dpa_length=" + len + " source=Internal " + more + " overflow_time=0\n";
  }
  void Trace(const std::vector<std::string> &events, const std::string &count = "2/2")
  {
    std::ofstream f(mine + "/trace");
    f << "# tracer: nop\n#\n# entries-in-buffer/entries-written: " << count << "   #P:2\n";
    for (auto &x : events)
      f << x;
  }
  int Read(uint32_t room = 8, uint64_t size = 64 << 20)
  {
    list = {};
    return media_bad_ranges(&paths, dev.c_str(), size, &e, bad.data(), room, &list);
  }
};

TEST_F(Media, AddressesOfTheListsBecomeBytesOfTheDevice)
{
  Trace({Event("0x310400000", "0x40"), Event("0x30fffffc0", "0x80"), Event("0x320000000", "0x40"),
         "x-1 [000] 1.0: cxl_poison: memdev=mem0 trace_type=Inject region=region0 hpa=0x310000000 dpa=0x0 dpa_length=0x40\n",
         "x-1 [000] 1.0: cxl_general_media: memdev=mem0 hpa=310000000\n"});
  ASSERT_EQ(2, Read()) << e.text;
  EXPECT_EQ(4u << 20, bad[0].off);
  EXPECT_EQ(64u, bad[0].len);
  EXPECT_EQ(0u, bad[1].off);
  EXPECT_EQ(64u, bad[1].len) << "the part that lies in the device";
  EXPECT_EQ(2u, list.asked);
  EXPECT_EQ(3u, list.records) << "one of them lies elsewhere, and what was injected is no list";
  EXPECT_EQ(0u, list.homeless);
  EXPECT_FALSE(list.cut);
  std::string said;
  std::ifstream(bus + "/mem1/trigger_poison_list") >> said;
  EXPECT_EQ("1", said) << "each device was asked";
}
TEST_F(Media, AnEmptyListIsAnAnswerAndACutOneSaysSo)
{
  EXPECT_EQ(0, Read()) << e.text;
  EXPECT_EQ(2u, list.asked);
  Trace({Event("0x310400000", "0x40", "flags=Overflow")});
  EXPECT_EQ(1, Read());
  EXPECT_TRUE(list.cut);
  Trace({Event("0x310400000", "0x40")}, "1/9");
  EXPECT_EQ(1, Read());
  EXPECT_TRUE(list.cut) << "the kernel's buffer overran";
  Trace({Event("0x310400000", "0x40"), Event("0x310500000", "0x40")});
  EXPECT_EQ(1, Read(1));
  EXPECT_TRUE(list.cut) << "no room";
  Trace({Event("0xffffffffffffffff", "0x40")});
  EXPECT_EQ(0, Read());
  EXPECT_EQ(1u, list.homeless);
}
TEST_F(Media, ARecordOfInterleavedDevicesReachesAsFarAsItsGranules)
{
  Set(bus + "/region0/interleave_ways", "2");
  Set(bus + "/region0/interleave_granularity", "256");
  Trace({Event("0x310000040", "0x40"), Event("0x310000080", "0x100")});
  ASSERT_EQ(2, Read());
  EXPECT_EQ(64u, bad[0].len) << "within one granule";
  EXPECT_EQ(1024u, bad[1].len) << "two granules of two devices";
}
TEST_F(Media, WhatBothListsNameIsCountedOnce)
{
  std::string region = dir.path + "/platform/region0";
  Set(region + "/resource", "0x310000000");
  std::ofstream(region + "/badblocks") << "8192 8\n16384 1\n"; // at 4 MiB and 8 MiB
  Trace({Event("0x310400000", "0x40"), Event("0x310400fc0", "0x40"), Event("0x310500000", "0x40")});
  struct media_news w;
  bad.resize(DAX_BAD_MAX);
  ASSERT_EQ(3u, media_known_bad(&paths, dev.c_str(), 64 << 20, &w, bad.data())) << w.why_blocks.text << w.why_lists.text;
  EXPECT_EQ(2, w.blocks);
  EXPECT_EQ(3, w.lists);
  EXPECT_EQ(2u, w.list.asked);
  EXPECT_EQ(4u << 20, bad[0].off);
  EXPECT_EQ(4096u, bad[0].len);
  EXPECT_EQ(5u << 20, bad[1].off);
  EXPECT_EQ(64u, bad[1].len);
  EXPECT_EQ(8u << 20, bad[2].off);
  EXPECT_EQ(512u, bad[2].len);
  std::filesystem::remove(region + "/badblocks");
  EXPECT_EQ(3u, media_known_bad(&paths, dev.c_str(), 64 << 20, &w, bad.data())) << "one list is missing";
  EXPECT_EQ(-ENOENT, w.blocks);
  EXPECT_NE(nullptr, strstr(w.why_blocks.text, "no badblocks"));
}
TEST_F(Media, WhatIsAbsentIsNamed)
{
  std::filesystem::remove(bus + "/mem1/trigger_poison_list");
  EXPECT_EQ(-ENOTSUP, Read());
  EXPECT_NE(nullptr, strstr(e.text, "mem1 has no trigger_poison_list: a kernel before 6.4")) << e.text;
  Set(bus + "/mem1/trigger_poison_list", "");
  std::filesystem::remove_all(trace + "/events/cxl");
  EXPECT_EQ(-ENOTSUP, Read());
  EXPECT_NE(nullptr, strstr(e.text, "cxl/cxl_poison")) << e.text;
  std::filesystem::remove_all(trace);
  EXPECT_EQ(-ENOTSUP, Read());
  EXPECT_NE(nullptr, strstr(e.text, "mount -t tracefs")) << e.text;
  std::filesystem::remove_all(bus);
  EXPECT_EQ(-ENOTSUP, Read()) << "a device on CXL memory that nobody shows";
  EXPECT_EQ(-ENOENT, media_offered(&paths, &e));
  std::filesystem::remove(dir.path + "/platform/region0/subsystem");
  EXPECT_EQ(-ENOENT, Read()) << "not on CXL memory: no list to miss";
}
TEST_F(Media, AnEventThatIsNoneIsRefused)
{
  for (auto &x : {Event("0x310400000", "0"), Event("0x310400000", "-1"), Event("0x310400000", "0xffffffffffffffff"),
                  Event("0xfffffffffffffff0", "0x40")}) {
    Trace({x});
    EXPECT_EQ(-EINVAL, Read()) << x;
  }
  Trace({Event("soon", "0x40")});
  EXPECT_EQ(0, Read());
  EXPECT_EQ(1u, list.homeless);
}
