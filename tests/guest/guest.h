/* SPDX-License-Identifier: Apache-2.0 */
/* What the guest's tests share: the devices of GUEST_*, a mover on one of them, and raw looks at it. */
#ifndef TESTS_GUEST_GUEST_H
#define TESTS_GUEST_GUEST_H

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/run_dray.h"
#include "tests/kit/mover.h"

namespace guest {
constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kCell = 256 << 10;

inline std::string env(const char *name)
{
  const char *v = getenv(name);
  return v ? v : "";
}
/* "dax0.0" of GUEST_DAX, GUEST_DAX_DYN, GUEST_DAX_4K; "" where the variant has none. */
inline std::string dax(const char *which = "GUEST_DAX")
{
  return env(which);
}

#define NEEDS(which)                                                                                                   \
  if (guest::dax(which).empty())                                                                                       \
  GTEST_SKIP() << which << ": this variant of the guest has none"

struct Tier {
  std::string dax = guest::dax(), owner = "red", keep = "no", capacity, more;
};

/* dram, the device, and (with GUEST_DISK) a disk below. */
inline std::unique_ptr<kit::Mover> mover(const Tier &t, const std::string &disk = "")
{
  kit::MoverOptions o;
  o.config = "lanes: 2\ntiers:\n  - {name: dram, transport: memory, capacity: 32MiB}\n"
             "  - {name: cxl, transport: cxl, path: /dev/" +
             t.dax + ", owner: " + t.owner + ", keep: '" + t.keep + "'";
  if (!t.capacity.empty())
    o.config += ", capacity: " + t.capacity;
  o.config += t.more + "}\n";
  if (!disk.empty())
    o.config += "  - {name: disk, transport: file, path: " + disk + ", capacity: 32MiB}\n";
  o.tenants = {"red:r-token", "blue:b-token"};
  return std::make_unique<kit::Mover>(o);
}
inline kit::EngineOptions as(const std::string &tenant, const std::string &agent = "a")
{
  kit::EngineOptions o;
  o.token = tenant.substr(0, 1) + "-token";
  o.agent = agent;
  return o;
}

/* The device itself, past the mover. */
class Raw {
public:
  explicit Raw(const std::string &dax, uint64_t bytes, uint64_t off = 0, bool writable = false) : bytes_(bytes)
  {
    int fd = open(("/dev/" + dax).c_str(), writable ? O_RDWR : O_RDONLY);
    if (fd >= 0)
      p_ = mmap(nullptr, bytes, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, (off_t)off);
    close(fd);
  }
  ~Raw()
  {
    if (ok())
      munmap(p_, bytes_);
  }
  Raw(const Raw &) = delete;
  Raw &operator=(const Raw &) = delete;
  bool ok() const { return p_ != MAP_FAILED; }
  char *at(uint64_t off = 0) const { return static_cast<char *>(p_) + off; }

private:
  void *p_ = MAP_FAILED;
  uint64_t bytes_;
};

/* Lines of a process's map that speak of a dax device, and its fds of one. */
inline int holds_dax(pid_t pid)
{
  int n = 0;
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  for (std::string line; std::getline(maps, line);)
    n += line.find("/dev/dax") != std::string::npos;
  for (int fd = 0; fd < 4096; fd++) {
    char to[256];
    ssize_t k = readlink(("/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd)).c_str(), to, sizeof to - 1);
    n += k > 0 && std::string(to, (size_t)k).find("/dev/dax") != std::string::npos;
  }
  return n;
}

/* The page frame behind an address of ours. */
inline uint64_t frame(const volatile void *p)
{
  uint64_t v = 0;
  (void)*static_cast<const volatile char *>(p);
  int fd = open("/proc/self/pagemap", O_RDONLY);
  if (pread(fd, &v, 8, (off_t)((uintptr_t)p / 4096 * 8)) != 8)
    v = 0;
  close(fd);
  return v & ((1ull << 55) - 1);
}

inline bool WaitPoisoned(kit::Engine &e, uint64_t lease)
{
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < end)
    if (dray_lease_state(e.d, lease) == DRAY_LEASE_POISONED)
      return true;
  return false;
}
/* The next DONE: notices are passed over. */
inline struct dray_cqe Done(kit::Engine &e)
{
  for (;;) {
    struct dray_cqe c = e.one();
    if (c.type != DRAY_POISON && c.cookie != DRAY_COOKIE_GUARD)
      return c;
  }
}
inline struct dray_cqe Get(kit::Engine &e, const std::string &name, uint8_t tier = 0)
{
  struct dray_sqe *s = e.sqe();
  dray_prep_get(s, kit::Key(name).b, e.region.id, 8 * kMiB, kCell, tier);
  return Done(e);
}

/* A shell's exit code, and what it said. */
inline int shell(const std::string &command, std::string *out = nullptr)
{
  FILE *f = popen((command + " 2>&1").c_str(), "r");
  char line[512];
  while (f && fgets(line, sizeof line, f))
    if (out)
      *out += line;
  int status = f ? pclose(f) : -1;
  return status < 0 ? -1 : WEXITSTATUS(status);
}
/* Kernel warnings so far. */
inline int kernel_warnings()
{
  std::string out;
  shell("dmesg | grep -cE 'WARNING:|BUG:|Oops|refcount_t|general protection|Call Trace'", &out);
  return atoi(out.c_str());
}
} // namespace guest
#endif
