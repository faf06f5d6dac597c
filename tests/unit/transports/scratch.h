/* SPDX-License-Identifier: Apache-2.0 */
// A directory that goes with the test, and a configuration that is good until a test spoils it.
#ifndef TESTS_UNIT_TRANSPORTS_SCRATCH_H
#define TESTS_UNIT_TRANSPORTS_SCRATCH_H

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

extern "C" {
#include <dray/types.h>

#include "transports/transport.h"
}

struct Scratch {
  explicit Scratch(const std::string &root = "/tmp") : path(root + "/dray-unit-XXXXXX")
  {
    EXPECT_NE(nullptr, mkdtemp(path.data()));
  }
  ~Scratch()
  {
    std::error_code ec;
    std::filesystem::remove_all(path, ec);
  }
  std::string path;
};

inline struct dev_config GoodConfig(const char *path, uint64_t capacity = 16 << 20)
{
  struct dev_config c = {};
  c.name = "test";
  c.path = path;
  c.capacity = capacity;
  c.lanes = 1;
  c.depth = 8;
  c.bounce_bytes = 1 << 20;
  c.numa_node = -1;
  return c;
}
#endif
