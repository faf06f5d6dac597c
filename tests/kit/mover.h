/* SPDX-License-Identifier: Apache-2.0 */
/* A real drayd in a directory of its own, and an engine's session with it, for tests. */
#ifndef TESTS_KIT_MOVER_H
#define TESTS_KIT_MOVER_H

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include <dray/dray.h>

namespace kit {

struct MoverOptions {
  std::vector<std::string> sets;    /* --set */
  std::vector<std::string> tenants; /* --tenant NAME:TOKEN */
  std::string config;               /* YAML text; empty: none */
  std::string dir;                  /* empty: a fresh one, removed at the end */
};

class Mover {
public:
  explicit Mover(MoverOptions options = {});
  ~Mover();
  Mover(const Mover &) = delete;
  Mover &operator=(const Mover &) = delete;

  /* Serves? (false: it ended; log() says why) */
  bool up() const { return up_; }
  /* SIGTERM and the exit code. */
  int stop();
  std::string socket() const { return dir_ + "/dray.sock"; }
  std::string admin() const { return dir_ + "/admin.sock"; }
  const std::string &dir() const { return dir_; }
  std::string log() const;
  pid_t keeper() const { return pid_; }
  pid_t worker() const;
  /* A number of `status`, by dotted path: "counters.taken", "sessions", "peers.0.dials". -1 when there is none. */
  int64_t status(const std::string &path) const;
  /* Waits at most 10 s for status(path) == value. */
  bool wait_status(const std::string &path, int64_t value) const;
  std::string ask(const std::string &request) const;
  bool audit_clean() const;

private:
  void start(const MoverOptions &options);
  std::string dir_;
  bool own_dir_ = false, up_ = false;
  pid_t pid_ = -1;
};

struct EngineOptions {
  std::string agent = "test", token;
  uint32_t entries = 64, items = 8192;
  uint64_t region = 16u << 20;
};

/* One session with one region. */
class Engine {
public:
  explicit Engine(const Mover &m, EngineOptions o = {});
  ~Engine();
  Engine(const Engine &) = delete;
  Engine &operator=(const Engine &) = delete;

  int error() const { return error_; } /* of dray_open() */
  struct dray *d = nullptr;
  struct dray_region region = {};
  char *mem() const { return static_cast<char *>(region.base); }
  struct dray_sqe *sqe();
  /* Submits and waits for one completion (10 s at most; status 0 when none came). */
  struct dray_cqe one();
  struct dray_cqe put(const std::string &name, uint64_t off, uint64_t len, uint8_t tier = 0, uint16_t flags = 0);
  struct dray_cqe get(const std::string &name, uint64_t off, uint64_t len, uint8_t tier = 0, uint16_t flags = 0);
  struct dray_cqe map(const std::string &name, uint8_t tier = 0, uint16_t flags = 0);
  struct dray_cqe unmap(uint64_t lease);
  struct dray_cqe stat(const std::string &name);
  struct dray_cqe drop(const std::string &name, uint8_t tier = 0);
  struct dray_cqe move(const std::string &name, uint8_t to, uint8_t from = 0);
  /* All completions until n DONE came (or 10 s passed), in order. */
  std::vector<struct dray_cqe> wait(size_t n);
  /* A pattern by seed at [off, off+len), and whether it is there. */
  void fill(uint64_t off, uint64_t len, uint64_t seed);
  bool holds(uint64_t off, uint64_t len, uint64_t seed) const;
  void close();

private:
  int error_ = 0;
};

struct Key {
  uint8_t b[16];
  explicit Key(const std::string &name) { dray_digest(name.data(), name.size(), b); }
};
void pattern_fill(void *p, uint64_t len, uint64_t seed);
bool pattern_holds(const void *p, uint64_t len, uint64_t seed);
/* "ok OK" for a message. */
std::string say(const struct dray_cqe &c);
std::string read_file(const std::string &path);
/* Open fds of a process. */
int fd_count(pid_t pid);
/* Mappings of memfds in a process: rings, regions, slabs, arenas. */
int map_count(pid_t pid);
} // namespace kit
#endif
