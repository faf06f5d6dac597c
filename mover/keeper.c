/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/keeper.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef HAVE_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "include/priv/order.h"
#include "mover/backends.h"
#include "mover/config_diff.h"
#include "mover/daemon.h"
#include "mover/keeper_make.h"
#include "mover/keeper_wire.h"
#include "mover/machine.h"
#include "mover/sandbox.h"
#include "ring/doorbell.h"
#include "ring/region.h"

/* _exit would lose a coverage build's counters. */
#ifdef DRAY_COVERAGE
extern void __gcov_dump(void);
static void coverage_keep(void)
{
  __gcov_dump();
}
#else
static void coverage_keep(void) {}
#endif

#define QUIESCE_MS 10000u
#define RESTART_BURST 5          /* workers that may die */
#define RESTART_WINDOW_MS 30000u /* within this, before the keeper gives up */

struct kept_session {
  int u, m;
  struct dray_m_head *head; /* first page of M, mapped before it was sealed: the keeper's only way to say FATAL */
  int *regions;             /* SESSION_REGIONS fds */
};
struct keeper {
  const struct config *cfg;
  struct log log;
  struct worker_seed seed;
  int channel;
  int signals;
  pid_t worker;
  int pidfd;
  int *slabs; /* by slab index */
  struct kept_session *sessions[DAEMON_SESSIONS];
  struct config_diff *diff;
  struct quota_plan *plan, *read; /* what stands, for the next worker; what was read last */
  bool stopping, ready_told;
};

static uint64_t now_ms(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

/* ---- what is held ---- */

static void session_drop(struct keeper *k, uint32_t id)
{
  struct kept_session *s = id < DAEMON_SESSIONS ? k->sessions[id] : NULL;
  if (!s)
    return;
  for (uint32_t i = 0; s->regions && i < SESSION_REGIONS; i++)
    close_fd(&s->regions[i]);
  free(s->regions);
  if (s->head)
    munmap(s->head, PAGE_BYTES);
  close_fd(&s->u);
  close_fd(&s->m);
  free(s);
  k->sessions[id] = NULL;
}

static int session_make(struct keeper *k, const struct keeper_msg *m, int ret_fds[2])
{
  if (m->id >= DAEMON_SESSIONS)
    return -EINVAL;
  session_drop(k, m->id);
  struct kept_session *s = calloc(1, sizeof *s);
  if (!s)
    return -ENOMEM;
  k->sessions[m->id] = s;
  s->u = region_make("dray-u", m->geo.u_size, false);
  s->m = region_make("dray-m", m->geo.m_size, false);
  int r = s->u < 0 ? s->u : s->m < 0 ? s->m : 0;
  if (r == 0) {
    s->head = region_map(s->m, 0, PAGE_BYTES, true, false);
    if (!s->head)
      r = -ENOMEM;
  }
  if (r < 0) {
    session_drop(k, m->id);
    return r;
  }
  ret_fds[0] = s->u;
  ret_fds[1] = s->m;
  return 0;
}

static void hold(struct keeper *k, const struct keeper_msg *m, int fd)
{
  int *place = NULL;
  if (m->kind == KEEP_SLAB && (m->id & 0xffff) < STORE_SLABS_MAX) {
    place = &k->slabs[m->id & 0xffff];
  } else if (m->kind == KEEP_REGION) {
    struct kept_session *s = m->id >> 10 < DAEMON_SESSIONS ? k->sessions[m->id >> 10] : NULL;
    if (s && !s->regions) {
      s->regions = malloc(SESSION_REGIONS * sizeof(int));
      for (uint32_t i = 0; s->regions && i < SESSION_REGIONS; i++)
        s->regions[i] = -1;
    }
    if (s && s->regions)
      place = &s->regions[m->id & (SESSION_REGIONS - 1)];
  }
  if (!place) {
    if (fd >= 0)
      close(fd);
    return;
  }
  close_fd(place);
  *place = fd; /* -1: dropped */
}

/* The plan, or the text of what is wrong with it, in a memfd: larger than a message. */
static void plan_read(struct keeper *k, struct keeper_msg *m)
{
  struct err e = {{0}};
  CLEAN_FD fd = (int)syscall(SYS_memfd_create, "dray-plan", MFD_CLOEXEC);
  struct config_diff *diff = k->diff;
  m->error = config_quota_reload(k->cfg, k->read, diff, &e);
  const void *what = m->error < 0 ? (const void *)e.text : (const void *)k->read;
  ssize_t n = (ssize_t)(m->error < 0 ? strlen(e.text) : sizeof *k->read);
  if (fd < 0 || pwrite(fd, what, (size_t)n, 0) != n)
    m->error = m->error < 0 ? m->error : -ENOMEM;
  else if (m->error == 0 && pwrite(fd, diff, sizeof *diff, n) != sizeof *diff)
    m->error = -ENOMEM;
  keeper_msg_send(k->channel, m, &fd, fd >= 0, 1000);
}

/* One message of the worker's. False: the channel is closed. */
static bool serve(struct keeper *k)
{
  struct keeper_msg m;
  int fds[2] = {-1, -1};
  int r = keeper_msg_recv(k->channel, &m, fds, 0);
  if (r <= 0)
    return r == -ETIMEDOUT || r == -EPROTO;
  switch (m.op) {
  case KEEPER_SESSION: {
    int out[2] = {-1, -1};
    m.error = session_make(k, &m, out);
    keeper_msg_send(k->channel, &m, out, m.error == 0 ? 2 : 0, 1000);
    break;
  }
  case KEEPER_READ:
    plan_read(k, &m);
    break;
  case KEEPER_STANDS:
    *k->plan = *k->read;
    break;
  case KEEPER_HOLD:
    hold(k, &m, fds[0]);
    fds[0] = -1;
    break;
  case KEEPER_DROP:
    if (m.kind == KEEP_SESSION)
      session_drop(k, m.id);
    else
      hold(k, &m, -1);
    break;
  case KEEPER_DETACH: {
    struct dev *dev = m.id < k->seed.devs_n ? k->seed.dev[m.id] : NULL;
    m.error = dev ? dev->cold->detach(dev) : -EINVAL;
    if (m.error == 0)
      drain_set_end(&k->seed.drains, m.id);
    keeper_msg_send(k->channel, &m, NULL, 0, 1000);
    break;
  }
  case KEEPER_DRAINS:
    drain_set_begin(&k->seed.drains, m.id);
    break;
  case KEEPER_READY:
#ifdef HAVE_SYSTEMD
    sd_notifyf(0, "READY=1\nMAINPID=%d\nSTATUS=worker %d serves, epoch %u", (int)getpid(), (int)k->worker,
               k->seed.epoch);
#endif
    log_line(&k->log, LOG_INFO, "ready: socket %s, admin %s, %u lanes, epoch %u, worker pid %d", k->cfg->socket,
             k->cfg->admin, k->cfg->lanes, k->seed.epoch, (int)k->worker);
    break;
  default:
    break;
  }
  close_fd(&fds[0]);
  close_fd(&fds[1]);
  return true;
}

/* The worker is gone: its engines must not wait for ever, and nothing of it may land later. */
static int bury(struct keeper *k)
{
  for (uint32_t i = 0; i < DAEMON_SESSIONS; i++) {
    struct kept_session *s = k->sessions[i];
    if (!s)
      continue;
    state_publish(&s->head->state, DRAY_M_FATAL); /* [STATE] */
    doorbell_wake(&s->head->cq_prod);
    session_drop(k, i);
  }
  for (uint32_t i = 0; i < STORE_SLABS_MAX; i++)
    close_fd(&k->slabs[i]);
  for (uint32_t i = 0; i < k->seed.devs_n; i++) {
    struct dev *dev = k->seed.dev[i];
    int r = dev->cold->quiesce(dev, QUIESCE_MS);
    if (r < 0) {
      log_line(&k->log, LOG_ERROR, "tier %s does not come to rest (%s): not starting another worker over its I/O",
               config_dev_tier(k->cfg, i)->name, strerror(-r));
      return r;
    }
  }
  return 0;
}

static int start_worker(struct keeper *k, struct err *e)
{
  int pair[2];
  int r = keeper_arenas(k->cfg, &k->seed, e);
  if (r < 0)
    return r;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
    return err_set(e, -errno, "socketpair: %s", strerror(errno));
  int big = 1 << 20;
  setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &big, sizeof big);
  setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &big, sizeof big);
  k->seed.epoch++;
  k->seed.keeper = pair[1];
  pid_t keeper = getpid(), pid = fork();
  if (pid < 0) {
    close(pair[0]);
    close(pair[1]);
    return err_set(e, -errno, "fork: %s", strerror(errno));
  }
  if (pid == 0) {
    close(pair[0]);
    close(k->signals);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != keeper)
      _exit(1);
    prctl(PR_SET_NAME, "drayd-worker");
    int code = daemon_run(&k->seed);
    coverage_keep();
    _exit(code);
  }
  close(pair[1]);
  k->channel = pair[0];
  k->worker = pid;
  k->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
  return k->pidfd < 0 ? err_set(e, -errno, "pidfd_open: %s", strerror(errno)) : 0;
}

/* Serves one worker until it is dead. Its wait status. */
static int watch(struct keeper *k)
{
  bool open = true;
  uint64_t kill_at = 0;
  for (;;) {
    struct pollfd p[3] = {{.fd = k->pidfd, .events = POLLIN},
                          {.fd = k->signals, .events = POLLIN},
                          {.fd = open ? k->channel : -1, .events = POLLIN}};
    uint64_t now = now_ms();
    int wait = !kill_at ? -1 : kill_at > now ? (int)(kill_at - now) : 0;
    int n = poll(p, 3, wait);
    if (n == 0 && kill_at) {
      log_line(&k->log, LOG_ERROR, "worker did not drain in time: killed");
      kill(k->worker, SIGKILL);
      kill_at = 0;
    }
    if (p[1].revents) {
      struct signalfd_siginfo si;
      if (read(k->signals, &si, sizeof si) == sizeof si) {
        kill(k->worker, (int)si.ssi_signo);
        if (si.ssi_signo != SIGHUP) {
          if (!k->stopping)
            kill_at = now_ms() + k->cfg->drain_ms + 5000;
          k->stopping = true;
#ifdef HAVE_SYSTEMD
          sd_notify(0, "STOPPING=1");
#endif
        }
      }
    }
    if (open && p[2].revents)
      open = serve(k);
    if (p[0].revents) {
      while (open && serve(k)) { /* what it still said */
        struct pollfd left = {.fd = k->channel, .events = POLLIN};
        if (poll(&left, 1, 0) <= 0 || !(left.revents & POLLIN))
          break;
      }
      int status = 0;
      waitpid(k->worker, &status, 0);
      close_fd(&k->pidfd);
      close_fd(&k->channel);
      return status;
    }
  }
}

static void keeper_cleanup(struct keeper *k)
{
  for (uint32_t i = 0; i < k->seed.devs_n; i++)
    k->seed.dev[i]->cold->close(k->seed.dev[i]);
  /* only what we bound: another mover may own the rest */
  for (uint32_t i = 0; i < k->seed.listen_n; i++)
    unlink(k->seed.listen_tenant[i] < 0 ? k->cfg->socket : k->cfg->tenant[k->seed.listen_tenant[i]].socket);
  if (k->seed.admin_fd >= 0)
    unlink(k->cfg->admin);
  free(k->slabs);
  free(k->plan);
  free(k->read);
  free(k->diff);
}

/* What the configuration asks for and the machine does not give: a line each, or, when strict, the end. */
static int less_than_asked(struct keeper *k, struct err *e)
{
  struct err why;
  for (uint32_t i = 0; k->cfg->strict && i < k->seed.devs_n; i++) {
    const struct dev_caps *c = &k->seed.dev[i]->caps;
    if (c->note[0] && !c->emulated && !c->aside) /* emulated is what the path asked for */
      return err_set(e, -EINVAL, "strict: tier %s is less than asked: %.160s", config_dev_tier(k->cfg, i)->name,
                     c->note);
  }
  if (machine_fits(k->cfg, "", &why) < 0) {
    if (k->cfg->strict)
      return err_set(e, -ENOMEM, "strict: %s", why.text);
    log_line(&k->log, LOG_WARN, "%s", why.text);
  }
  return 0;
}

int keeper_run(const struct config *cfg, const struct log *log)
{
  struct keeper *k = calloc(1, sizeof *k);
  struct err e = {{0}};
  if (!k)
    return 1;
  k->cfg = cfg;
  k->log = *log;
  k->seed.cfg = cfg;
  k->seed.log = *log;
  int hard = cfg->harden ? sandbox_process() : 0;
  if (hard < 0) {
    log_line(log, LOG_ERROR, "harden: %s", strerror(-hard));
    free(k);
    return 1;
  }
  k->seed.admin_fd = -1;
  for (int i = 0; i < ARENA_COUNT; i++)
    k->seed.arena_fd[i] = -1;
  k->slabs = malloc(STORE_SLABS_MAX * sizeof(int));
  k->plan = malloc(sizeof *k->plan);
  k->read = malloc(sizeof *k->read);
  k->diff = malloc(sizeof *k->diff);
  if (!k->slabs || !k->diff || !k->plan || !k->read)
    return 1;
  *k->plan = *k->read = cfg->quota;
  k->seed.plan = k->plan;
  for (uint32_t i = 0; i < STORE_SLABS_MAX; i++)
    k->slabs[i] = -1;
  /* sessions, regions and slabs are fds */
  struct rlimit lim;
  if (getrlimit(RLIMIT_NOFILE, &lim) == 0) {
    lim.rlim_cur = lim.rlim_max;
    setrlimit(RLIMIT_NOFILE, &lim);
  }
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  sigprocmask(SIG_BLOCK, &set, NULL);
  signal(SIGPIPE, SIG_IGN);
  k->signals = signalfd(-1, &set, SFD_CLOEXEC);
  uint32_t boot = 0;
  if (getrandom(&boot, sizeof boot, 0) == sizeof boot)
    k->seed.epoch = boot & 0x7fff; /* so that an epoch tells two boots apart, too */

  int r = k->signals < 0 ? -errno : backends_open(cfg, &k->log, k->seed.dev, &k->seed.devs_n, &e);
  if (r == 0)
    r = less_than_asked(k, &e);
  if (r == 0)
    r = keeper_listen(cfg, &k->seed, &e);
  int code = 1;
  uint64_t deaths[RESTART_BURST] = {0};
  for (uint32_t n = 0; r == 0; n++) {
    r = start_worker(k, &e);
    if (r < 0)
      break;
    int status = watch(k);
    if (k->stopping || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
      code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
      r = 1;
      break;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 78) { /* configuration: another worker would fail alike */
      r = 1;
      break;
    }
    log_line(&k->log, LOG_ERROR, "ABORTED: worker %d died of %s %d; its sessions are told FATAL", (int)k->worker,
             WIFSIGNALED(status) ? "signal" : "exit code",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    r = bury(k);
    uint64_t now = now_ms(), oldest = deaths[n % RESTART_BURST];
    deaths[n % RESTART_BURST] = now;
    if (oldest && now - oldest < RESTART_WINDOW_MS) {
      log_line(&k->log, LOG_ERROR, "%d workers died within %u s: giving up", RESTART_BURST, RESTART_WINDOW_MS / 1000);
      break;
    }
  }
  if (r < 0)
    log_line(&k->log, LOG_ERROR, "%s", e.text[0] ? e.text : strerror(-r));
  keeper_cleanup(k);
  free(k);
  return code;
}
