/* SPDX-License-Identifier: Apache-2.0 */
// What of the configuration comes down to the devices.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

/* In C a struct and a function may share a name; C++ remarks on it. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
extern "C" {
#include "base/guard.h"
#include "mover/backends.h"

/* The linker puts this before the guard (--wrap). */
int __real_guard_run(int (*fn)(void *ctx), void *ctx, const struct guard_range *ranges, size_t n, struct guard_hit *hit);
int __wrap_guard_run(int (*fn)(void *ctx), void *ctx, const struct guard_range *ranges, size_t n, struct guard_hit *hit);
}
#pragma GCC diagnostic pop

static bool next_is_bad;
int __wrap_guard_run(int (*fn)(void *ctx), void *ctx, const struct guard_range *ranges, size_t n, struct guard_hit *hit)
{
  if (!next_is_bad)
    return __real_guard_run(fn, ctx, ranges, n, hit);
  next_is_bad = false;
  *hit = {};
  hit->addr = reinterpret_cast<uintptr_t>(ranges->base);
  hit->unit = 4096;
  hit->kind = GUARD_POISON;
  return -EFAULT;
}

namespace {
class Backends : public ::testing::Test {
protected:
  void SetUp() override
  {
    std::ofstream(device_).put(0);
    ASSERT_EQ(0, truncate(device_.c_str(), kBytes));
    ASSERT_EQ(0, config_default(&c_, "/tmp/x", &e_));
    std::ofstream(file_) << "tiers:\n  - {name: dram, transport: memory, capacity: 1MiB}\n  - {name: cxl, transport: cxl, path: "
                         << device_ << ", owner: red, keep: 'yes'}\ntenants:\n  - {name: red, token: t}\n";
    ASSERT_EQ(0, config_load(&c_, file_.c_str(), &e_)) << e_.text;
    ASSERT_EQ(0, config_finish(&c_, &e_)) << e_.text;
  }
  void TearDown() override
  {
    config_free(&c_);
    unlink(file_.c_str());
    unlink(device_.c_str());
  }
  int Open()
  {
    struct dev *dev[CONFIG_DEVS_MAX];
    uint32_t n = 0;
    const struct log silent = {};
    e_.text[0] = 0;
    int r = backends_open(&c_, &silent, dev, &n, &e_);
    for (uint32_t i = 0; r == 0 && i < n; i++)
      dev[i]->cold->close(dev[i]);
    return r;
  }
  char Byte()
  {
    std::ifstream f(device_);
    f.seekg(kAt);
    return static_cast<char>(f.get());
  }
  static constexpr off_t kBytes = 16 << 20, kAt = 5 << 20;
  std::string device_ = "/dev/shm/dray-backends-test." + std::to_string(getpid());
  std::string file_ = "/tmp/dray-backends-test." + std::to_string(getpid()) + ".yaml";
  struct config c_;
  struct err e_ = {};
};
} // namespace

TEST_F(Backends, StrictComesDownToADeviceBeforeItIsWiped)
{
  ASSERT_EQ(0, Open()) << e_.text;
  {
    std::fstream f(device_, std::ios::in | std::ios::out);
    f.seekp(kAt);
    f.put('x');
  }
  c_.strict = true;
  next_is_bad = true;
  EXPECT_EQ(-EHWPOISON, Open());
  EXPECT_NE(nullptr, strstr(e_.text, "tier cxl")) << e_.text;
  EXPECT_NE(nullptr, strstr(e_.text, "nothing wiped")) << e_.text;
  EXPECT_EQ('x', Byte());
  c_.strict = false;
  next_is_bad = true;
  EXPECT_EQ(0, Open()) << e_.text;
  EXPECT_EQ(0, Byte());
}
