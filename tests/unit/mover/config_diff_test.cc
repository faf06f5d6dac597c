/* SPDX-License-Identifier: Apache-2.0 */
/* Expected against actual: each difference is named, nothing else is. */
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>

extern "C" {
#include "mover/config.h"
#include "mover/config_diff.h"
}

namespace {
struct Diff : ::testing::Test {
  std::string dir;
  std::unique_ptr<config> was = std::make_unique<config>(), now = std::make_unique<config>();
  std::unique_ptr<config_diff> d = std::make_unique<config_diff>();
  err e = {};
  void SetUp() override
  {
    char t[] = "/tmp/dray-diff-XXXXXX";
    ASSERT_NE(mkdtemp(t), nullptr);
    dir = t;
    ASSERT_EQ(config_default(was.get(), dir.c_str(), &e), 0);
    ASSERT_EQ(config_default(now.get(), dir.c_str(), &e), 0);
  }
  void TearDown() override
  {
    config_free(was.get());
    config_free(now.get());
    if (system(("rm -rf " + dir).c_str()) != 0) {
    }
  }
  void load(config *c, const std::string &text)
  {
    std::ofstream(dir + "/f.yaml") << text;
    ASSERT_EQ(config_load(c, (dir + "/f.yaml").c_str(), &e), 0) << e.text;
  }
  void put(const std::string &path, const std::string &text)
  {
    for (size_t at = 1; (at = path.find('/', at)) != std::string::npos; at++)
      mkdir((dir + path.substr(0, at)).c_str(), 0700);
    std::ofstream(dir + path) << text;
  }
  std::string file()
  {
    *d = {};
    config_diff_file(was.get(), now.get(), d.get());
    return d->text;
  }
  std::string kernel()
  {
    *d = {};
    config_diff_kernel(now.get(), dir.c_str(), d.get());
    return d->text;
  }
};

TEST_F(Diff, TheSameFileHasNone)
{
  for (config *c : {was.get(), now.get()})
    load(c, "lanes: 2\ntenants: [{name: a, token: t}]\ntiers: [{name: dram, transport: memory, capacity: 1GiB}]\n");
  EXPECT_EQ(file(), "");
  EXPECT_EQ(d->n, 0u);
}

TEST_F(Diff, WhatChangedIsNamedAndTokensAreNotShown)
{
  load(was.get(), "lanes: 2\ntenants: [{name: a, token: secret1}, {name: b, uid: 5}]\n"
                  "tiers: [{name: dram, transport: memory, capacity: 1GiB}, {name: disk, transport: file, path: /d, capacity: 1GiB}]\n");
  load(now.get(), "lanes: 3\ntenants: [{name: a, token: secret2}, {name: c, uid: 5}]\n"
                  "tiers: [{name: dram, transport: memory, capacity: 2GiB}, {name: cxl, transport: cxl, path: /c}]\n");
  EXPECT_EQ(file(), "~ lanes: file 3, runs 2\n"
                    "~ tier disk: runs, and is not in the file\n"
                    "~ tier dram: capacity: file 2147483648, runs 1073741824\n"
                    "~ tier cxl: in the file, and does not run\n"
                    "~ tenant b: known, and not in the file\n"
                    "~ tenant a: uid, token or socket has changed\n"
                    "~ tenant c: in the file, and not known\n");
  EXPECT_EQ(d->n, 7u);
}

TEST_F(Diff, WhatTheKernelDoesNotShowIsADifferenceAndWhatNobodyUsesIsNot)
{
  load(now.get(), "tiers:\n  - {name: dram, transport: memory, capacity: 1GiB, numa_node: 7}\n"
                  "  - {name: cxl, transport: cxl, path: /dev/dax0.0, capacity: 8GiB}\n"
                  "  - {name: numa_far, transport: cxl, path: /dev/dax9.0}\n"
                  "  - {name: disk, transport: file, path: /nowhere, capacity: 1GiB}\n");
  put("/sys/bus/dax/devices/dax0.0/size", "4294967296\n");
  put("/sys/bus/dax/devices/dax1.0/size", "17179869184\n");
  put("/sys/bus/cxl/devices/mem0/x", "");
  put("/sys/bus/cxl/devices/root0/x", "");
  put("/sys/class/infiniband/mlx5_0/x", "");
  std::string t = kernel();
  EXPECT_NE(t.find("! tier dram: numa_node 7: the kernel shows no such node\n"), std::string::npos) << t;
  EXPECT_NE(t.find("! tier cxl: /dev/dax0.0: expects 8.0 GiB, the kernel shows 4.0 GiB\n"), std::string::npos) << t;
  EXPECT_NE(t.find("! tier numa_far: /dev/dax9.0: the kernel shows no such device"), std::string::npos) << t;
  EXPECT_NE(t.find("! tier disk: /nowhere: is not there\n"), std::string::npos) << t;
  EXPECT_NE(t.find("? dax device dax1.0 of 16.0 GiB: no tier uses it\n"), std::string::npos) << t;
  EXPECT_NE(t.find("? CXL memory device mem0: no tier uses it\n"), std::string::npos) << t;
  EXPECT_NE(t.find("? RDMA device mlx5_0: no tier uses it\n"), std::string::npos) << t;
  EXPECT_EQ(t.find("root0"), std::string::npos) << t;
  EXPECT_EQ(d->n, 4u) << t;
}

TEST_F(Diff, MoreThanThereIsRoomForIsCounted)
{
  std::string many = "tenants:\n";
  for (int i = 0; i < 250; i++)
    many += "  - {name: " + std::string(25, 'x') + std::to_string(i) + ", uid: " + std::to_string(i) + "}\n";
  load(now.get(), many);
  std::string t = file();
  EXPECT_EQ(d->n, 250u);
  EXPECT_LT(t.size(), sizeof d->text);
  EXPECT_EQ(t.back(), '\n') << "whole lines";
}
} // namespace
