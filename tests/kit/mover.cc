/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kit/mover.h"

#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <sstream>

#include <dray/admin.h>

namespace kit {
using Clock = std::chrono::steady_clock;

std::string read_file(const std::string &path)
{
  std::ifstream f(path);
  std::stringstream s;
  s << f.rdbuf();
  return s.str();
}

static void remove_tree(const std::string &dir)
{
  pid_t pid = fork();
  if (pid == 0) {
    execlp("rm", "rm", "-rf", "--", dir.c_str(), nullptr);
    _exit(127);
  }
  waitpid(pid, nullptr, 0);
}

Mover::Mover(MoverOptions options)
{
  if (options.dir.empty()) {
    char tmpl[] = "/tmp/dray-test-XXXXXX";
    if (!mkdtemp(tmpl))
      return;
    dir_ = tmpl;
    own_dir_ = true;
  } else {
    dir_ = options.dir;
  }
  start(options);
}

void Mover::start(const MoverOptions &o)
{
  const char *env = getenv("DRAYD");
  std::vector<std::string> args = {env ? env : DRAYD_PATH, "--dir", dir_};
  if (!o.config.empty()) {
    std::ofstream(dir_ + "/drayd.yaml") << o.config;
    args.insert(args.end(), {"--config", dir_ + "/drayd.yaml"});
  }
  for (auto &s : o.sets)
    args.insert(args.end(), {"--set", s});
  for (auto &t : o.tenants)
    args.insert(args.end(), {"--tenant", t});
  std::vector<char *> argv;
  for (auto &a : args)
    argv.push_back(a.data());
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* a test that crashes leaves no mover behind */
    int fd = open((dir_ + "/drayd.log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(fd, 2);
    execv(argv[0], argv.data());
    _exit(127);
  }
  auto end = Clock::now() + std::chrono::seconds(30); /* sanitizers are slow */
  while (Clock::now() < end) {
    char *answer = nullptr;
    if (dray_admin_call(admin().c_str(), "{\"verb\":\"status\"}", 2000, &answer) == 0) {
      free(answer);
      /* a worker of ours, and not another mover that listens there already */
      if (read_file("/proc/" + std::to_string(worker()) + "/status").find("PPid:\t" + std::to_string(pid_) + "\n") != std::string::npos) {
        up_ = true;
        return;
      }
    }
    int status;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      return;
    }
    poll(nullptr, 0, 5);
  }
}

int Mover::stop()
{
  int status = 0;
  if (pid_ < 0)
    return -1;
  kill(pid_, SIGTERM);
  waitpid(pid_, &status, 0);
  pid_ = -1;
  up_ = false;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Mover::~Mover()
{
  stop();
  if (own_dir_)
    remove_tree(dir_);
}

std::string Mover::log() const { return read_file(dir_ + "/drayd.log"); }
pid_t Mover::worker() const { return (pid_t)status("pid"); }

std::string Mover::ask(const std::string &request) const
{
  char *answer = nullptr;
  if (dray_admin_call(admin().c_str(), request.c_str(), 10000, &answer) < 0)
    return "";
  std::string s = answer;
  free(answer);
  return s;
}

int64_t Mover::status(const std::string &path) const
{
  json_t *o = json_loads(ask("{\"verb\":\"status\"}").c_str(), 0, nullptr), *at = o;
  std::stringstream s(path);
  for (std::string part; std::getline(s, part, '.');)
    at = json_is_array(at) ? json_array_get(at, strtoul(part.c_str(), nullptr, 10)) : json_object_get(at, part.c_str());
  int64_t v = json_is_integer(at) ? json_integer_value(at) : -1;
  json_decref(o);
  return v;
}

bool Mover::wait_status(const std::string &path, int64_t value) const
{
  auto end = Clock::now() + std::chrono::seconds(10);
  while (status(path) != value) {
    if (Clock::now() > end)
      return false;
    poll(nullptr, 0, 2);
  }
  return true;
}

bool Mover::audit_clean() const
{
  return ask("{\"verb\":\"audit\"}").find("\"clean\":true") != std::string::npos;
}

Engine::Engine(const Mover &m, EngineOptions o)
{
  struct dray_params p;
  memset(&p, 0, sizeof p);
  p.size = sizeof p;
  std::string socket = m.socket();
  p.socket = socket.c_str();
  p.agent = o.agent.c_str();
  p.token = o.token.c_str();
  p.entries = o.entries;
  p.items = o.items;
  region.fd = -1;
  error_ = dray_open(&p, &d);
  if (error_ < 0) {
    d = nullptr;
    return;
  }
  if (o.region) {
    error_ = dray_region_alloc(o.region, false, &region);
    if (error_ == 0)
      error_ = dray_region_register(d, &region);
  }
}

void Engine::close()
{
  dray_close(d);
  d = nullptr;
  if (region.base)
    dray_region_free(&region);
}
Engine::~Engine() { close(); }

struct dray_sqe *Engine::sqe() { return dray_get_sqe(d); }

struct dray_cqe Engine::one()
{
  struct dray_cqe c;
  memset(&c, 0, sizeof c);
  if (dray_submit(d) < 0)
    return c;
  do { /* a tier's or a link's state is not what was asked */
    if (dray_wait(d, 1, 10000) < 1) {
      memset(&c, 0, sizeof c);
      return c;
    }
    c = *dray_peek(d);
    dray_seen(d);
  } while (c.type == DRAY_TIER_STATE || c.type == DRAY_LINK_STATE);
  return c;
}

std::vector<struct dray_cqe> Engine::wait(size_t n)
{
  std::vector<struct dray_cqe> v;
  dray_submit(d);
  size_t done = 0;
  while (done < n && dray_wait(d, 1, 10000) >= 1)
    for (const struct dray_cqe *c; (c = dray_peek(d)); dray_seen(d)) {
      v.push_back(*c);
      done += c->type == DRAY_DONE;
      if (c->type == DRAY_FATAL)
        done = n;
    }
  return v;
}

struct dray_cqe Engine::put(const std::string &name, uint64_t off, uint64_t len, uint8_t tier, uint16_t flags)
{
  struct dray_sqe *s = sqe();
  dray_prep_put(s, Key(name).b, region.id, off, len, tier);
  s->flags |= flags;
  return one();
}
struct dray_cqe Engine::get(const std::string &name, uint64_t off, uint64_t len, uint8_t tier, uint16_t flags)
{
  struct dray_sqe *s = sqe();
  dray_prep_get(s, Key(name).b, region.id, off, len, tier);
  s->flags |= flags;
  return one();
}
struct dray_cqe Engine::map(const std::string &name, uint8_t tier, uint16_t flags)
{
  struct dray_sqe *s = sqe();
  dray_prep_map(s, Key(name).b, tier);
  s->flags |= flags;
  return one();
}
struct dray_cqe Engine::unmap(uint64_t lease)
{
  dray_prep_unmap(sqe(), lease);
  return one();
}
struct dray_cqe Engine::stat(const std::string &name)
{
  dray_prep_stat(sqe(), Key(name).b, 0);
  return one();
}
struct dray_cqe Engine::drop(const std::string &name, uint8_t tier)
{
  dray_prep_drop(sqe(), Key(name).b, tier);
  return one();
}
struct dray_cqe Engine::move(const std::string &name, uint8_t to, uint8_t from)
{
  dray_prep_move(sqe(), Key(name).b, to, from);
  return one();
}

void pattern_fill(void *p, uint64_t len, uint64_t seed)
{
  uint64_t x = seed * 0x9e3779b97f4a7c15ull + 1;
  for (uint64_t i = 0; i < len; i++) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    static_cast<uint8_t *>(p)[i] = (uint8_t)x;
  }
}
bool pattern_holds(const void *p, uint64_t len, uint64_t seed)
{
  uint64_t x = seed * 0x9e3779b97f4a7c15ull + 1;
  for (uint64_t i = 0; i < len; i++) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    if (static_cast<const uint8_t *>(p)[i] != (uint8_t)x)
      return false;
  }
  return true;
}
void Engine::fill(uint64_t off, uint64_t len, uint64_t seed) { pattern_fill(mem() + off, len, seed); }
bool Engine::holds(uint64_t off, uint64_t len, uint64_t seed) const { return pattern_holds(mem() + off, len, seed); }

std::string say(const struct dray_cqe &c)
{
  return std::string(dray_status_name(c.status)) + " " + dray_reason_name(c.reason) + " path " + dray_path_name(c.path) + " tier " +
         dray_tier_name(c.tier) + " bytes " + std::to_string(c.bytes) + " detail " + std::to_string(c.detail);
}

int fd_count(pid_t pid)
{
  int n = 0;
  DIR *dir = opendir(("/proc/" + std::to_string(pid) + "/fd").c_str());
  for (struct dirent *e; dir && (e = readdir(dir));)
    n += e->d_name[0] != '.';
  if (dir)
    closedir(dir);
  return n;
}

int map_count(pid_t pid)
{
  std::stringstream s(read_file("/proc/" + std::to_string(pid) + "/maps"));
  int n = 0;
  for (std::string line; std::getline(s, line);)
    n += line.find("/memfd:") != std::string::npos;
  return n;
}
}  // namespace kit
