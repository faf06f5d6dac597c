/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of several movers on soft RoCE devices share. */
#ifndef TESTS_GUEST_RDMA_H
#define TESTS_GUEST_RDMA_H

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <memory>

#include "tests/guest/guest.h"

extern "C" {
#include "transports/transport.h"
}

using kit::Engine;
using kit::EngineOptions;
using kit::Mover;
using kit::say;

constexpr uint64_t kSmall = 4096, kMid = 64 << 10;
using Clock = std::chrono::steady_clock;
inline std::string Name(int i)
{
  return "c" + std::to_string(i);
}
inline double Since(Clock::time_point t)
{
  return std::chrono::duration<double>(Clock::now() - t).count();
}

class GuestRdma : public ::testing::Test {
protected:
  void SetUp() override
  {
    if (guest::shell("ibv_devinfo | grep -q PORT_ACTIVE") != 0)
      GTEST_SKIP() << "no verbs device with a port that is up";
    key_ = Key("peer.key", "0123456789abcdef0123456789abcdef");
  }
  std::string Key(const std::string &name, const std::string &text)
  {
    std::string path = scratch_.path(name);
    std::ofstream(path) << text << "\n";
    chmod(path.c_str(), 0600);
    return path;
  }
  static std::vector<std::string> Tenants() { return {"red:r-token", "blue:b-token"}; }
  std::unique_ptr<Mover> B(const std::string &more = "", const std::string &dram = "")
  {
    kit::MoverOptions o;
    o.config = "node: b\nlanes: 1\ncopy_plan: builtin\ntiers:\n  - {name: dram, transport: memory, capacity: 64MiB, "
               "slab_size: 4MiB" +
               dram + "}\nlisten: {address: '10.9.0.2', key_file: " + key_ + ", lend: 32MiB, lease_ms: 2000}\n" + more;
    o.tenants = Tenants();
    return std::make_unique<Mover>(o);
  }
  std::unique_ptr<Mover> A(const std::string &address = "10.9.0.1>10.9.0.2", const std::string &key = "",
                           const std::string &dram = "32MiB")
  {
    kit::MoverOptions o;
    o.config = "node: a\nlanes: 1\ncopy_plan: builtin\npeers:\n  - {name: b, address: '" + address +
               "', key_file: " + (key.empty() ? key_ : key) + ", timeout_ms: " + std::to_string(timeout_ms_) +
               "}\ntiers:\n  - {name: dram, transport: memory, capacity: " + dram +
               ", slab_size: 1MiB}\n  - {name: remote_dram, transport: rdma, peer: b, capacity: 8MiB, slab_size: 1MiB" +
               remote_more_ + "}\n  - {name: remote, transport: rdma, peer: b" + remote_more_ + "}\n";
    o.tenants = Tenants();
    return std::make_unique<Mover>(o);
  }
  /* b as seen by what may run with it on another machine: there, GuestPeer does what it is told over TCP. */
  class Peer {
  public:
    explicit Peer(GuestRdma *t)
    {
      if (guest::env("GUEST_PEER").empty())
        own_ = t->B();
      else
        up_ = Ask("start") == 1;
    }
    ~Peer()
    {
      if (!own_)
        Ask("stop");
    }
    Peer(const Peer &) = delete;
    Peer &operator=(const Peer &) = delete;
    bool up() const { return own_ ? own_->up() : up_; }
    std::string log() const { return own_ ? own_->log() : "(the other machine's)"; }
    bool audit_clean() const { return own_ ? own_->audit_clean() : Ask("audit") == 1; }
    int64_t cells() const { return own_ ? own_->status("cells") : Ask("cells"); }
    void kill() { own_ ? (void)::kill(own_->keeper(), SIGKILL) : (void)Ask("kill"); }

  private:
    /* A word there, a number back; -1 within 30 s when nobody answers. */
    static int64_t Ask(const std::string &word)
    {
      auto t = Clock::now();
      struct sockaddr_in to = {};
      to.sin_family = AF_INET;
      to.sin_port = htons(kPort);
      inet_pton(AF_INET, guest::env("GUEST_PEER").c_str(), &to.sin_addr);
      while (Since(t) < 30) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        char answer[32] = "";
        struct pollfd p = {fd, POLLIN, 0};
        bool told = connect(fd, (struct sockaddr *)&to, sizeof to) == 0 &&
                    send(fd, (word + "\n").c_str(), word.size() + 1, MSG_NOSIGNAL) > 0;
        ssize_t n = told && poll(&p, 1, 30000) > 0 ? read(fd, answer, sizeof answer - 1) : -1;
        close(fd);
        if (n > 0)
          return atoll(answer);
        if (told)
          return -1;
        poll(nullptr, 0, 100); // it is not there yet
      }
      return -1;
    }
    std::unique_ptr<Mover> own_;
    bool up_ = false;
  };
  static constexpr uint16_t kPort = 4790;
  // Connected: a STAT is answered by the peer, with whatever it has to say.
  static bool Connected(Engine &e, double seconds = 15)
  {
    auto t = Clock::now();
    while (Since(t) < seconds) {
      auto c = Stat(e, "no-such-cell");
      if (c.reason == DRAY_ABSENT)
        return true;
      poll(nullptr, 0, 50); // between two attempts, not instead of one
    }
    return false;
  }
  static struct dray_cqe Stat(Engine &e, const std::string &name)
  {
    struct dray_sqe *q = e.sqe();
    q->op = DRAY_STAT;
    q->tier = DRAY_TIER_REMOTE;
    memcpy(q->key, kit::Key(name).b, 16);
    return e.one();
  }
  static struct dray_cqe Timed(Engine &e, uint8_t op, const std::string &name, uint64_t off, uint64_t len, uint8_t tier,
                               uint32_t deadline_us)
  {
    struct dray_sqe *q = e.sqe();
    q->op = op;
    q->region = e.region.id;
    q->off = off;
    q->len = len;
    q->tier = tier;
    q->deadline_us = deadline_us;
    memcpy(q->key, kit::Key(name).b, 16);
    return e.one();
  }
  // The engine's memory has been registered with the device: what it puts goes straight from there.
  static bool Direct(Engine &e, const std::string &name, uint8_t tier, double seconds = 10)
  {
    auto t = Clock::now();
    while (Since(t) < seconds) {
      auto c = e.put(name, 0, kSmall, tier);
      if (c.status == DRAY_OK && c.path == DRAY_PATH_RDMA_WRITE)
        return true;
    }
    return false;
  }
  static void Shell(const std::string &command)
  {
    std::string out;
    EXPECT_EQ(0, guest::shell(command, &out)) << command << ": " << out;
  }
  // What the first device's wire (or another's) does to what is sent there; "": nothing any more.
  static void Wire(const std::string &how, const char *which = "GUEST_IF1")
  {
    Shell(std::string("tc qdisc ") + (how.empty() ? "del" : "replace") + " dev " + guest::env(which) + " root" +
          (how.empty() ? "" : " netem " + how));
  }
  // Bytes that a process has pinned.
  static int64_t Pinned(pid_t pid)
  {
    std::ifstream f("/proc/" + std::to_string(pid) + "/status");
    for (std::string line; std::getline(f, line);)
      if (line.rfind("VmPin:", 0) == 0)
        return atoll(line.c_str() + 6) << 10;
    return -1;
  }
  run::Scratch scratch_;
  std::string remote_more_; // in the remote tiers of A
  std::string key_;
  int timeout_ms_ = guest::env("GUEST_REPORTS").empty() ? 2000 : 20000; // an instrumented mover in an emulated machine
};
#endif
