/* SPDX-License-Identifier: Apache-2.0 */
#include "base/guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include <dray/types.h>

#include "base/copy.h"
#include "base/crc.h"
#include "base/known.h"
#include "include/priv/bits.h"
#include "include/priv/order.h"

/* What the running thread guards, innermost first. Lives on the stack of guard_run. */
struct guard {
  struct guard *outer;
  const struct guard_list *lists;
  size_t n;
  struct guard_hit hit;
  sigset_t mask; /* the thread's, when it was hit */
  sigjmp_buf *back;
};
_Static_assert(sizeof(struct guard) + sizeof(struct guard_range) <= sizeof(struct guard_room), "guard_enter's room");

/* initial-exec: the handler must not be the first to touch it and allocate. */
static __thread struct guard *volatile current __attribute__((tls_model("initial-exec")));

/* Process state by nature: a signal has one handler. Written once, before the handler can run. */
static struct sigaction before;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int install_err;
static uint32_t early_fd; /* + 1 [STATE] */

static bool guard_covers(const struct guard *g, uintptr_t start, uint64_t len)
{
  for (size_t k = 0; k < g->n; k++)
    for (size_t i = 0; i < g->lists[k].n; i++)
      if (range_overlaps((uintptr_t)g->lists[k].ranges[i].base, g->lists[k].ranges[i].len, start, len))
        return true;
  return false;
}

/* Not ours: to the handler before us, or to the default action, which is to die of it. */
static void pass_on(int sig, siginfo_t *si, void *uc)
{
  if ((before.sa_flags & SA_SIGINFO) && before.sa_sigaction) {
    before.sa_sigaction(sig, si, uc);
    return;
  }
  if (before.sa_handler == SIG_IGN && si->si_code <= 0)
    return;
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(sig);
    return;
  }
  struct sigaction dfl;
  memset(&dfl, 0, sizeof dfl);
  dfl.sa_handler = SIG_DFL;
  sigaction(sig, &dfl, NULL);
  raise(sig);
}

/* Nobody touched it yet: whoever asked for such news gets it. False: nobody did. */
static bool early_report(uintptr_t addr, uint64_t unit)
{
  const struct guard_early e = {.addr = addr, .unit = unit};
  uint32_t fd = state_see(&early_fd);
  return fd && write((int)fd - 1, &e, sizeof e) == sizeof e;
}

void guard_early_fd(int fd)
{
  state_publish(&early_fd, fd < 0 ? 0 : (uint32_t)fd + 1);
}

static void on_sigbus(int sig, siginfo_t *si, void *uc)
{
  int saved = errno;
  bool poison = si->si_code == BUS_MCEERR_AR || si->si_code == BUS_MCEERR_AO;
  uint64_t unit = PAGE_BYTES;
  if (si->si_code == BUS_ADRERR && known_bad_find((uintptr_t)si->si_addr, &unit))
    poison = true;
  if (poison || si->si_code == BUS_ADRERR) {
    if (si->si_code != BUS_ADRERR && si->si_addr_lsb > 0 && si->si_addr_lsb < 48)
      unit = 1ull << si->si_addr_lsb;
    /* a poisoned unit may begin before the range that touched it */
    uintptr_t addr = (uintptr_t)si->si_addr;
    uintptr_t start = poison ? addr & ~(uintptr_t)(unit - 1) : addr;
    for (struct guard *g = current; g; g = g->outer) {
      if (!guard_covers(g, start, poison ? unit : 1))
        continue;
      g->hit = (struct guard_hit){.addr = addr, .unit = unit, .kind = poison ? GUARD_POISON : GUARD_LOST};
      /* the kernel fills in _NSIG / 8 bytes of it */
      sigemptyset(&g->mask);
      memcpy(&g->mask, &((const ucontext_t *)uc)->uc_sigmask, 8);
      current = g->outer;
      errno = saved;
      siglongjmp(*g->back, 1);
    }
    if (si->si_code == BUS_MCEERR_AO && early_report(addr, unit)) {
      errno = saved;
      return;
    }
  }
  pass_on(sig, si, uc);
  errno = saved;
}

static void install(void)
{
  struct sigaction sa;
  memset(&sa, 0, sizeof sa);
  sa.sa_sigaction = on_sigbus;
  /* NODEFER: SIGBUS is never blocked, not even in the handler; a thread that has it blocked is killed. */
  sa.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigemptyset(&sa.sa_mask);
  if (sigaction(SIGBUS, NULL, &before) || sigaction(SIGBUS, &sa, NULL))
    install_err = -errno;
}

int guard_install(void)
{
  int rc = pthread_once(&once, install);
  return rc ? -rc : install_err;
}

int guard_run_lists(int (*fn)(void *ctx), void *ctx, const struct guard_list *lists, size_t n,
                    struct guard_hit *ret_hit)
{
  struct guard g;
  sigjmp_buf back;
  g.outer = current;
  g.lists = lists;
  g.n = n;
  g.back = &back;
  /* no mask saved: that is a system call per guard. It comes from the signal's own frame. */
  if (sigsetjmp(back, 0)) {
    pthread_sigmask(SIG_SETMASK, &g.mask, NULL);
    *ret_hit = g.hit;
    return -EFAULT;
  }
  current = &g;
  copied_once(); /* the guard is up before the first touch, and down after the last */
  int rc = fn(ctx);
  copied_once();
  current = g.outer;
  return rc;
}

int guard_run(int (*fn)(void *ctx), void *ctx, const struct guard_range *ranges, size_t n, struct guard_hit *ret_hit)
{
  const struct guard_list list = {ranges, n};
  return guard_run_lists(fn, ctx, &list, 1, ret_hit);
}

/* What the room of a guard without a function holds: the guard, and the one range that it is about. */
struct room {
  struct guard guard;
  struct guard_range range;
  struct guard_list list;
};
_Static_assert(sizeof(struct room) <= sizeof(struct guard_room), "the room is large enough");

void guard_enter(struct guard_room *room, const void *base, uint64_t len, sigjmp_buf *back)
{
  struct room *r = (struct room *)(void *)room;
  struct guard *g = &r->guard;
  r->range = (struct guard_range){base, len};
  r->list = (struct guard_list){&r->range, 1};
  g->outer = current;
  g->lists = &r->list;
  g->n = 1;
  g->back = back;
  copied_once(); /* all of it is there before the handler can find it */
  current = g;
  copied_once();
}

void guard_leave(struct guard_room *room)
{
  copied_once();
  current = ((struct guard *)(void *)room)->outer;
}

void guard_left(struct guard_room *room, struct guard_hit *ret_hit)
{
  struct guard *g = (struct guard *)(void *)room;
  pthread_sigmask(SIG_SETMASK, &g->mask, NULL);
  *ret_hit = g->hit;
}

struct copy_job {
  const struct copy_plan *plan;
  char *dst;
  const char *src;
  size_t n;
  unsigned flags;
  volatile size_t good; /* read after the jump */
  volatile uint8_t path;
};

static int copy_pieces(void *ctx)
{
  struct copy_job *j = ctx;
  for (size_t at = 0; at < j->n;) {
    size_t len = MIN_OF(j->n - at, GUARD_PIECE);
    if (copy_run(j->plan, j->dst + at, j->src + at, len, NULL, j->flags) == DRAY_PATH_CPU_NT)
      j->path = DRAY_PATH_CPU_NT;
    copied_once();
    at += len;
    j->good = at;
  }
  return 0;
}

int guard_copy(const struct copy_plan *plan, void *dst, const void *src, size_t n, unsigned flags,
               struct guard_hit *ret_hit, uint8_t *ret_path)
{
  struct copy_job j = {.plan = plan, .dst = dst, .src = src, .n = n, .flags = flags, .path = DRAY_PATH_CPU};
  const struct guard_range ranges[] = {{dst, n}, {src, n}};
  struct guard_hit hit;
  int rc = guard_run(copy_pieces, &j, ranges, ARRAY_LEN(ranges), &hit);
  if (rc) {
    hit.good = j.good;
    stream_fence(); /* the good prefix is really there */
    *ret_hit = hit;
    return rc;
  }
  *ret_path = j.path;
  return 0;
}

struct sum {
  const void *p;
  uint64_t n;
  volatile uint32_t crc;
};
static int sum_run(void *ctx)
{
  struct sum *s = ctx;
  s->crc = crc32c(0, s->p, s->n);
  return 0;
}

int guard_crc(const void *p, size_t n, uint32_t *ret_crc, struct guard_hit *ret_hit)
{
  struct sum s = {p, n, 0};
  const struct guard_range range = {p, n};
  int r = guard_run(sum_run, &s, &range, 1, ret_hit);
  if (r == 0)
    *ret_crc = s.crc;
  return r;
}
