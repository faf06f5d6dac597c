/* SPDX-License-Identifier: Apache-2.0 */
// Memory of a peer: another process lends it, over the verbs devices that this machine has. CONFORM_RDMA names the
// address (and the paths) that it listens on; without it, the first address that a verbs device answers for.
#include "tests/conform/transport_conform.h"

#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

extern "C" {
#include "transports/rdma/serve.h"
}

namespace {
bool AnyDevice()
{
  DIR *d = opendir("/sys/class/infiniband");
  bool any = false;
  for (struct dirent *e; d && (e = readdir(d));)
    any |= e->d_name[0] != '.';
  if (d)
    closedir(d);
  return any;
}

// Lends until its parent is gone. Another process: a peer shares nothing with us.
class Lender : public ::testing::Environment {
public:
  void SetUp() override
  {
    const char *env = getenv("CONFORM_RDMA");
    if (!env || !AnyDevice())
      return;
    int ready[2];
    ASSERT_EQ(0, pipe(ready));
    pid_ = fork();
    ASSERT_GE(pid_, 0);
    if (!pid_) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      struct serve_config cfg = {};
      struct serve *s = nullptr;
      struct err e = {};
      std::string addr = env;
      cfg.name = "lender";
      addr = addr.substr(addr.find_last_of(">,") == std::string::npos ? 0 : addr.find_last_of(">,") + 1);
      cfg.listen[0] = addr.c_str();
      cfg.listen_n = 1;
      cfg.lend = 64 << 20;
      cfg.lease_ms = 3000;
      cfg.epoch = 5;
      if (const char *piece = getenv("CONFORM_PIECE"))
        cfg.piece_max = strtoull(piece, nullptr, 0);
      cfg.say = [](void *, const char *text) {
        if (getenv("CONFORM_SAY"))
          fprintf(stderr, "lender: %s\n", text);
      };
      if (serve_open(&cfg, &e, &s) || serve_start(s, &e)) {
        fprintf(stderr, "lender: %s\n", e.text);
        _exit(1);
      }
      (void)!write(ready[1], "", 1);
      for (;;)
        pause();
    }
    char c;
    close(ready[1]);
    ASSERT_EQ(1, read(ready[0], &c, 1)) << "the lender did not start";
    close(ready[0]);
  }
  void TearDown() override
  {
    if (pid_ <= 0)
      return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

private:
  pid_t pid_ = -1;
};
const auto *const lender = ::testing::AddGlobalTestEnvironment(new Lender);
} // namespace

ConformSetup conform_setup()
{
  ConformSetup s;
  const char *env = getenv("CONFORM_RDMA");
  s.transport = &transport_rdma;
  s.lockable = false;
  s.device = env ? env : "";
  s.path_aligned = s.path_unaligned = s.path_read = DRAY_PATH_BOUNCE;
  s.path_added_write = DRAY_PATH_RDMA_WRITE;
  s.path_added_read = DRAY_PATH_RDMA_READ;
  if (const char *piece = getenv("CONFORM_PIECE")) // of ours, too: bounce memory and regions
    s.piece_max = strtoull(piece, nullptr, 0);
  if (!AnyDevice())
    s.skip = "this machine has no verbs device: tests/guest/run.sh rxe has two";
  else if (!env)
    s.skip = "CONFORM_RDMA does not name an address of a verbs device";
  return s;
}
