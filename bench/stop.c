/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/stop.h"

#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <unistd.h>

static sigset_t stop_set(void)
{
  sigset_t s;
  sigemptyset(&s);
  sigaddset(&s, SIGINT);
  sigaddset(&s, SIGTERM);
  sigaddset(&s, SIGHUP);
  return s;
}

void stop_hold(void)
{
  sigset_t s = stop_set();
  sigprocmask(SIG_BLOCK, &s, NULL);
}

bool stop_asked(void)
{
  sigset_t s;
  return sigpending(&s) == 0 &&
         (sigismember(&s, SIGINT) == 1 || sigismember(&s, SIGTERM) == 1 || sigismember(&s, SIGHUP) == 1);
}

void stop_child(void)
{
  sigset_t s = stop_set();
  sigprocmask(SIG_UNBLOCK, &s, NULL);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
}
