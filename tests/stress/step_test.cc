/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine is killed after each single instruction of submitting, reaping and acknowledging: whatever the ring looks
 * like at that moment, the mover and a survivor go on, and nothing of the dead stays. DRAY_STRESS_STEPS (120): at how
 * many places, evenly spread over all of them.
 */
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "tests/kit/mover.h"

using kit::Engine;
using kit::Key;
using kit::Mover;

namespace {
/* Stops when it is about to begin, and again when it is through. */
void engine(const Mover &m)
{
  Engine e(m, {.region = 1 << 16});
  if (e.error())
    _exit(2);
  for (int round = 0; round < 2; round++) { /* once unwatched: symbols are bound */
    if (round)
      raise(SIGSTOP);
    dray_prep_nop(dray_get_sqe(e.d));
    dray_prep_put(dray_get_sqe(e.d), Key("k").b, e.region.id, 0, 4096, DRAY_TIER_DRAM);
    dray_prep_nop(dray_get_sqe(e.d));
    dray_submit(e.d);
    if (round) { /* what is there is reaped; nothing is waited for, so that the path is the same each time */
      while (dray_peek(e.d))
        dray_seen(e.d);
      raise(SIGSTOP);
    } else {
      e.wait(3);
    }
  }
  _exit(0);
}

bool stopped(pid_t pid, int signal)
{
  int status = 0;
  return waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == signal;
}

/* Runs it for n instructions beyond its first stop and kills it there. How many it made; fewer when it was through. */
long run(const Mover &m, long n)
{
  pid_t pid = fork();
  if (pid == 0) {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    engine(m);
  }
  long made = -1;
  if (stopped(pid, SIGSTOP))
    for (made = 0; made < n; made++) {
      int status = 0;
      if (ptrace(PTRACE_SINGLESTEP, pid, nullptr, nullptr) < 0 || waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status) ||
          WSTOPSIG(status) != SIGTRAP)
        break;
    }
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  return made;
}

TEST(Step, EngineKilledAfterEachInstructionOfSubmittingHarmsNobody)
{
  const char *env = getenv("DRAY_STRESS_STEPS");
  long places = env ? atol(env) : 120;
  Mover m({.sets = {"lanes=1"}});
  ASSERT_TRUE(m.up()) << m.log();
  long all = run(m, 1000000);
  if (all < 0)
    GTEST_SKIP() << "no right to trace a child here";
  ASSERT_GT(all, 50);
  ASSERT_LT(all, 1000000);
  Engine survivor(m);
  ASSERT_EQ(survivor.error(), 0);
  ASSERT_TRUE(m.wait_status("sessions", 1));
  int fds = kit::fd_count(m.worker()), maps = kit::map_count(m.worker());
  pid_t worker = m.worker();
  long tried = 0;
  for (long at = 0; at < all; at += std::max(1l, all / places), tried++) {
    ASSERT_GE(run(m, at), 0);
    survivor.fill(0, 4096, (uint64_t)at);
    ASSERT_EQ(survivor.put("s", 0, 4096).status, DRAY_OK) << "after instruction " << at;
    ASSERT_EQ(survivor.get("s", 8192, 4096).status, DRAY_OK);
    ASSERT_TRUE(survivor.holds(8192, 4096, (uint64_t)at));
  }
  printf("step: killed at %ld of %ld instructions\n", tried, all);
  EXPECT_TRUE(m.wait_status("sessions", 1));
  EXPECT_EQ(m.worker(), worker);
  EXPECT_LE(kit::fd_count(worker), fds + 2);
  EXPECT_LE(kit::map_count(worker), maps + 2);
  EXPECT_EQ(m.status("leases"), 0);
  EXPECT_TRUE(m.audit_clean());
}
} // namespace
