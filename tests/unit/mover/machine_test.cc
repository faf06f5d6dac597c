// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

extern "C" {
#include "mover/config.h"
#include "mover/machine.h"
}

/* A /proc and /sys of its own. */
class Machine : public ::testing::Test {
 protected:
  void SetUp() override
  {
    char t[] = "/tmp/dray-machine-XXXXXX";
    root = mkdtemp(t);
    write("/proc/meminfo", "MemTotal:  16777216 kB\nMemFree: 1 kB\nMemAvailable:    8388608 kB\n");
    write("/proc/self/cgroup", "1:name=systemd:/x\n0::/kube/pod\n");
  }
  void TearDown() override { std::filesystem::remove_all(root); }
  void write(const std::string &path, const std::string &text)
  {
    std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
    std::ofstream(root + path) << text;
  }
  uint64_t Left()
  {
    uint64_t n = 0;
    EXPECT_EQ(machine_memory_left(root.c_str(), &n), 0);
    return n;
  }
  std::string root;
};

TEST_F(Machine, WithoutLimitsItIsWhatTheKernelSays) { EXPECT_EQ(Left(), 8ull << 30); }

TEST_F(Machine, ALimitOfOurGroupOrOfOneAboveCounts)
{
  write("/sys/fs/cgroup/kube/pod/memory.max", "max\n");
  EXPECT_EQ(Left(), 8ull << 30);
  write("/sys/fs/cgroup/kube/memory.max", "4294967296\n");
  write("/sys/fs/cgroup/kube/memory.current", "1073741824\n");
  EXPECT_EQ(Left(), 3ull << 30);
  write("/sys/fs/cgroup/kube/pod/memory.max", "2147483648\n");
  write("/sys/fs/cgroup/kube/pod/memory.current", "3000000000\n");
  EXPECT_EQ(Left(), 0u) << "over its limit already";
}

TEST_F(Machine, WithoutMeminfoThereIsNoAnswerAndNoComplaint)
{
  std::filesystem::remove(root + "/proc/meminfo");
  uint64_t n = 7;
  EXPECT_EQ(machine_memory_left(root.c_str(), &n), -ENODATA);
  EXPECT_EQ(n, 7u);
}

TEST_F(Machine, TiersThatDoNotFitAreSaidWithBothNumbers)
{
  config c{};
  err e{};
  c.tiers_n = 2;
  c.tier[0] = {.name = "dram", .transport = "memory", .capacity = 6ull << 30};
  c.tier[1] = {.name = "disk", .transport = "file", .path = "/", .capacity = 1ull << 40};
  EXPECT_EQ(machine_fits(&c, root.c_str(), &e), 0) << e.text;
  c.tier[0].capacity = 9ull << 30;
  EXPECT_EQ(machine_fits(&c, root.c_str(), &e), -ENOMEM);
  EXPECT_NE(std::string(e.text).find("9.0 GiB"), std::string::npos) << e.text;
  EXPECT_NE(std::string(e.text).find("8.0 GiB"), std::string::npos) << e.text;
  c.tier[0].capacity = UINT64_MAX;
  c.tier[1] = {.name = "cxl", .transport = "cxl", .path = "/dev/shm", .capacity = 5};
  EXPECT_EQ(machine_fits(&c, root.c_str(), &e), -ENOMEM) << "the sum does not wrap";
}
