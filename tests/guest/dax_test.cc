/* SPDX-License-Identifier: Apache-2.0 */
/* A mover and engines on a real device-dax device. */
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/guest/guest.h"

extern "C" {
#include "transports/check.h"
#include "transports/cxl/dax.h"
#include "transports/transport.h"
}

using guest::kCell;
using guest::kMiB;
using guest::mover;
using guest::Raw;
using guest::Tier;
using kit::Engine;
using kit::say;

namespace {
uint64_t SysNumber(const std::string &dax, const std::string &file)
{
  return strtoull(kit::read_file("/sys/bus/dax/devices/" + dax + "/" + file).c_str(), nullptr, 0);
}
/* The transport alone. */
struct Opened {
  struct dev *dev = nullptr;
  struct err e = {};
  int rc;
  explicit Opened(const std::string &path, uint64_t capacity = 0, uint8_t keep = DEV_KEEP_NO)
  {
    struct dev_config c = {};
    c.name = "test";
    c.path = path.c_str();
    c.capacity = capacity;
    c.lanes = 1;
    c.numa_node = -1;
    c.owner = "red";
    c.keep = keep;
    rc = transport_cxl.cold->open(&c, &e, &dev);
  }
  ~Opened()
  {
    if (dev)
      dev->cold->close(dev);
  }
};
} // namespace

class GuestDax : public ::testing::TestWithParam<const char *> {};
INSTANTIATE_TEST_SUITE_P(Devices, GuestDax, ::testing::Values("GUEST_DAX", "GUEST_DAX_DYN", "GUEST_DAX_4K"),
                         [](const auto &i) { return std::string(i.param).substr(6); });

TEST_P(GuestDax, SizeAlignAndModeAreTheDevicesOwn)
{
  NEEDS(GetParam());
  std::string dax = guest::dax(GetParam());
  Opened o("/dev/" + dax);
  ASSERT_EQ(o.rc, 0) << o.e.text;
  EXPECT_EQ(o.dev->caps.capacity, SysNumber(dax, "size"));
  EXPECT_EQ(o.dev->caps.unit, SysNumber(dax, "align"));
  EXPECT_FALSE(o.dev->caps.emulated);
  EXPECT_EQ(o.dev->caps.isolation, DEV_PRIVATE);
  struct stat st;
  struct dax_info info;
  ASSERT_EQ(stat(("/dev/" + dax).c_str(), &st), 0);
  ASSERT_EQ(dax_lookup(&st, &o.e, &info), 0) << o.e.text;
  EXPECT_STREQ(info.driver, "device_dax");
  EXPECT_EQ(info.size, SysNumber(dax, "size"));
}

TEST_P(GuestDax, TwoEnginesOfATenantMapAndAnotherTenantIsRefused)
{
  NEEDS(GetParam());
  auto m = mover({.dax = guest::dax(GetParam()), .capacity = "16MiB"});
  ASSERT_TRUE(m->up()) << m->log();
  Engine a(*m, guest::as("red")), b(*m, guest::as("red")), agent(*m, guest::as("red", "z")), other(*m, guest::as("blue"));
  a.fill(0, kCell, 1);
  auto c = a.put("cell", 0, kCell, DRAY_TIER_CXL);
  ASSERT_EQ(c.status, DRAY_OK) << say(c);
  uint64_t align = SysNumber(guest::dax(GetParam()), "align");
  for (Engine *e : {&a, &b}) {
    c = e->map("cell", DRAY_TIER_CXL);
    ASSERT_EQ(c.status, DRAY_OK) << say(c);
    EXPECT_EQ(c.tier, DRAY_TIER_CXL);
    const void *p = dray_map_address(e->d, c.slab, c.off);
    ASSERT_NE(p, nullptr);
    EXPECT_TRUE(kit::pattern_holds(p, kCell, 1));
    /* the fd was opened read-only: no mprotect widens it */
    EXPECT_NE(mprotect((void *)((uintptr_t)p & ~(align - 1)), align, PROT_READ | PROT_WRITE), 0);
    EXPECT_EQ(errno, EACCES);
  }
  std::string maps;
  guest::shell("grep -h /dev/dax /proc/" + std::to_string(getpid()) + "/maps", &maps);
  EXPECT_NE(maps.find("r--s"), std::string::npos) << maps;
  EXPECT_EQ(maps.find("rw-s"), std::string::npos) << maps;
  printf("fd mode: %s", maps.substr(0, maps.find('\n') + 1).c_str());
  c = agent.map("cell", DRAY_TIER_CXL);
  EXPECT_EQ(c.reason, DRAY_SCOPE_DENIED) << say(c);
  c = other.map("cell", DRAY_TIER_CXL);
  EXPECT_EQ(c.status, DRAY_MISSED);
  EXPECT_EQ(c.reason, DRAY_ABSENT) << "what is another tenant's is not even there";
  c = other.put("mine", 0, kCell, DRAY_TIER_CXL);
  EXPECT_EQ(c.reason, DRAY_SCOPE_DENIED) << say(c);
  printf("another tenant: PUT %s, MAP %s\n", say(c).c_str(), say(other.map("cell", DRAY_TIER_CXL)).c_str());
}

TEST_P(GuestDax, BytesComeBackFromEachTierTheyWereMovedTo)
{
  NEEDS(GetParam());
  auto m = mover({.dax = guest::dax(GetParam()), .capacity = "16MiB"}, guest::env("GUEST_DISK"));
  ASSERT_TRUE(m->up()) << m->log();
  Engine e(*m, guest::as("red"));
  std::vector<uint8_t> way = {DRAY_TIER_DRAM, DRAY_TIER_CXL};
  if (!guest::env("GUEST_DISK").empty())
    way.insert(way.end(), {DRAY_TIER_DISK, DRAY_TIER_CXL, DRAY_TIER_DRAM});
  for (uint64_t len : {kCell, kCell - 13, uint64_t{100}}) {
    std::string name = "cell" + std::to_string(len);
    e.fill(0, len, len);
    ASSERT_EQ(e.put(name, 0, len, DRAY_TIER_CXL, DRAY_VERIFY_CRC).status, DRAY_OK);
    for (uint8_t tier : way) {
      auto c = e.move(name, tier);
      ASSERT_EQ(c.status, DRAY_OK) << say(c);
      memset(e.mem() + kMiB, 0, len);
      c = e.get(name, kMiB, len, tier, DRAY_VERIFY_CRC);
      ASSERT_EQ(c.status, DRAY_OK) << say(c);
      EXPECT_TRUE(e.holds(kMiB, len, len)) << "tier " << +tier << " length " << len;
    }
  }
  EXPECT_TRUE(m->audit_clean());
}

TEST_P(GuestDax, DirectoryIsFoundAgainAfterAnOrderlyEndAndAfterAKill)
{
  NEEDS(GetParam());
  Tier t = {.dax = guest::dax(GetParam()), .keep = "fresh", .capacity = "16MiB"};
  for (int round = 0; round < 3; round++) {
    auto m = mover(t);
    ASSERT_TRUE(m->up()) << m->log();
    t.keep = "yes";
    Engine e(*m, guest::as("red"));
    EXPECT_EQ(m->status("found_on_disk"), round * 4) << m->log();
    EXPECT_EQ(m->status("skipped_on_disk"), 0);
    for (int i = 0; i < 4 * round; i++) {
      auto c = e.get("c" + std::to_string(i), 0, kCell, DRAY_TIER_CXL, DRAY_VERIFY_CRC);
      ASSERT_EQ(c.status, DRAY_OK) << i << say(c);
      EXPECT_TRUE(e.holds(0, kCell, i));
    }
    for (int i = 4 * round; i < 4 * round + 4; i++) {
      e.fill(0, kCell, i);
      ASSERT_EQ(e.put("c" + std::to_string(i), 0, kCell, DRAY_TIER_CXL, DRAY_VERIFY_CRC).status, DRAY_OK);
    }
    EXPECT_TRUE(m->audit_clean());
    if (round == 1) {
      kill(m->keeper(), SIGKILL); /* and the worker with it */
    } else {
      e.close();
      EXPECT_EQ(m->stop(), 0) << m->log();
    }
  }
}

TEST_P(GuestDax, AnotherOwnerIsToldAndOnlyFreshBeginsAnew)
{
  NEEDS(GetParam());
  std::string dax = guest::dax(GetParam());
  {
    auto m = mover({.dax = dax, .keep = "fresh", .capacity = "16MiB"});
    ASSERT_TRUE(m->up()) << m->log();
    Engine e(*m, guest::as("red"));
    memset(e.mem(), 0x5a, kCell);
    ASSERT_EQ(e.put("secret", 0, kCell, DRAY_TIER_CXL).status, DRAY_OK);
  }
  {
    auto m = mover({.dax = dax, .owner = "blue", .keep = "yes", .capacity = "16MiB"});
    EXPECT_FALSE(m->up());
    EXPECT_NE(m->log().find("it belongs to tenant red"), std::string::npos) << m->log();
    EXPECT_NE(m->log().find("keep: fresh"), std::string::npos) << m->log();
  }
  auto bytes_of = [&](char what) {
    Raw raw(dax, 16 * kMiB);
    uint64_t n = 0;
    for (uint64_t i = 0; raw.ok() && i < 16 * kMiB; i += 512)
      n += raw.at()[i] == what;
    return n;
  };
  EXPECT_EQ(bytes_of(0x5a), kCell / 512);
  for (const char *keep : {"fresh", "no"}) {
    {
      Raw raw(dax, 2 * kMiB, 14 * kMiB, true);
      ASSERT_TRUE(raw.ok());
      memset(raw.at(), 0x5a, 2 * kMiB); /* past the capacity, too: the fd shows all of it */
    }
    auto m = mover({.dax = dax, .owner = "blue", .keep = keep, .capacity = "8MiB"});
    ASSERT_TRUE(m->up()) << m->log();
    EXPECT_EQ(bytes_of(0x5a), 0u) << keep << ": what another tenant left can be read";
  }
}

TEST_P(GuestDax, ASlabIsZeroBeforeAnotherAgentGetsIt)
{
  NEEDS(GetParam());
  Opened o("/dev/" + guest::dax(GetParam()), 8 * kMiB);
  ASSERT_EQ(o.rc, 0) << o.e.text;
  struct slab_mem s;
  for (int round = 0; round < 2; round++) {
    ASSERT_EQ(o.dev->cold->slab_add(o.dev, 2 * kMiB, &o.e, &s), 0) << o.e.text;
    for (uint64_t i = 0; i < s.bytes; i += 64)
      ASSERT_EQ(static_cast<char *>(s.base)[i], 0) << i;
    memset(s.base, 0x77, s.bytes);
    o.dev->cold->slab_del(o.dev, &s, true);
  }
}

TEST_P(GuestDax, WhatDoesNotFitIsRefused)
{
  NEEDS(GetParam());
  std::string dax = guest::dax(GetParam()), path = "/dev/" + dax;
  uint64_t align = SysNumber(dax, "align"), size = SysNumber(dax, "size");
  {
    Opened o(path, size + align);
    EXPECT_EQ(o.rc, -ENOSPC);
    EXPECT_NE(strstr(o.e.text, "lower capacity"), nullptr) << o.e.text;
  }
  {
    Opened o(path, align / 2);
    EXPECT_EQ(o.rc, -EINVAL) << "less than one unit";
  }
  Opened o(path, 8 * kMiB);
  ASSERT_EQ(o.rc, 0) << o.e.text;
  struct slab_mem s;
  EXPECT_EQ(o.dev->cold->slab_add(o.dev, align / 2, &o.e, &s), -EINVAL) << "wrong align";
  EXPECT_EQ(o.dev->cold->slab_add(o.dev, 0, &o.e, &s), -EINVAL);
  ASSERT_EQ(o.dev->cold->slab_add(o.dev, 2 * kMiB, &o.e, &s), 0) << o.e.text;
  char page[4096];
  struct xfer_vec v = {page, sizeof page};
  struct xfer x = {};
  x.op = XFER_READ;
  x.slab = &s;
  x.vec = &v;
  x.nvec = 1;
  x.bytes = sizeof page;
  for (uint64_t off : {s.bytes, s.bytes - 4095, UINT64_MAX, UINT64_MAX - 4095}) {
    x.slab_off = off;
    EXPECT_EQ(xfer_check(o.dev, &x), -ERANGE) << "the kernel would map past the end without a word: " << off;
  }
  o.dev->cold->slab_del(o.dev, &s, false);
  Opened second(path);
  EXPECT_EQ(second.rc, -EBUSY);
  EXPECT_NE(strstr(second.e.text, "another mover has it"), nullptr) << second.e.text;
}

TEST(GuestRefusal, WithoutPermissionTheTextSaysWhatIsNeeded)
{
  NEEDS("GUEST_DAX");
  int fd[2];
  ASSERT_EQ(pipe(fd), 0);
  pid_t pid = fork();
  if (pid == 0) {
    if (setgid(65534) || setuid(65534))
      _exit(9);
    Opened o("/dev/" + guest::dax());
    ssize_t n = write(fd[1], o.e.text, strlen(o.e.text));
    _exit(n > 0 && o.rc == -EACCES ? 0 : 1);
  }
  close(fd[1]);
  char text[512] = "";
  EXPECT_GT(read(fd[0], text, sizeof text - 1), 0);
  close(fd[0]);
  int status;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_NE(strstr(text, "the mover's user needs read and write"), nullptr) << text;
}

TEST(GuestRefusal, AZeroSizedLeftoverIsNamedWithItsFix)
{
  NEEDS("GUEST_DAX_DYN");
  std::string dyn = guest::dax("GUEST_DAX_DYN"), region = dyn.substr(3, dyn.find('.') - 3);
  guest::shell("daxctl create-device -r " + region + " -s 3M"); /* fails, and leaves one behind */
  std::string left;
  guest::shell("cd /sys/bus/dax/devices && for d in dax" + region + ".*; do [ $(cat $d/size) != 0 ] || echo $d; done", &left);
  left = left.substr(0, left.find('\n'));
  ASSERT_FALSE(left.empty());
  struct err e = {};
  struct dax_info i;
  ASSERT_EQ(dax_read_sysfs(("/sys/bus/dax/devices/" + left).c_str(), &e, &i), 0) << e.text;
  EXPECT_EQ(dax_usable(&i, &e), -ENODEV);
  EXPECT_NE(strstr(e.text, "daxctl destroy-device"), nullptr) << e.text;
  printf("%s\n", e.text);
  Opened o("/dev/" + left);
  EXPECT_NE(o.rc, 0);
}

TEST(GuestRefusal, SystemRamModeIsRefusedWithTheCommandThatMendsIt)
{
  NEEDS("GUEST_DAX_DYN");
  std::string dax = guest::dax("GUEST_DAX_DYN"), out;
  ASSERT_EQ(guest::shell("modprobe kmem"), 0);
  if (guest::shell("daxctl reconfigure-device -f --no-online -m system-ram " + dax, &out) ||
      out.find("reconfigured 1") == std::string::npos)
    GTEST_SKIP() << "the guest's kernel takes it for no memory: " << out;
  {
    Opened o("/dev/" + dax);
    EXPECT_TRUE(o.rc == -ENODEV || o.rc == -EINVAL) << o.rc;
    std::string text = o.e.text, command = "daxctl reconfigure-device --mode=devdax " + dax;
    printf("%s\n", text.c_str());
    EXPECT_NE(text.find(command), std::string::npos) << text;
    EXPECT_NE(text.find("system-ram"), std::string::npos);
    out.clear();
    EXPECT_EQ(guest::shell(command, &out), 0) << out;
  }
  Opened again("/dev/" + dax);
  EXPECT_EQ(again.rc, 0) << again.e.text << out;
}
