/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/daemon.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/guard.h"
#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "mover/backends.h"
#include "mover/keeper.h"
#include "mover/loop.h"
#include "mover/metrics.h"
#include "mover/peer.h"
#include "mover/poison.h"
#include "mover/sandbox.h"
#include "ring/handshake.h"

uint64_t daemon_now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void daemon_send(struct daemon *d, struct control_msg *m)
{
  pthread_mutex_lock(&d->inbox_lock);
  list_push_back(&d->inbox, &m->link);
  pthread_mutex_unlock(&d->inbox_lock);
  uint64_t one = 1;
  ssize_t n = write(d->wake, &one, sizeof one);
  (void)n;
}

/* ---- what the store tells us ---- */

static int on_slab_made(void *ctx, uint32_t slab, const struct slab_mem *mem)
{
  if (mem->fd >= 0)
    keeper_hold(ctx, KEEP_SLAB, slab, mem->fd);
  return 0;
}

static bool on_slab_lent(void *ctx, uint32_t slab)
{
  struct daemon *d = ctx;
  uint32_t i = slab & 0xffffu;
  LOCKED(&d->lend_lock);
  return d->ever_lent[i / 64] >> (i % 64) & 1;
}

/* Said once, at whatever thread met it first. */
static void on_index_lost(void *ctx, uint32_t pool)
{
  struct daemon *d = ctx;
  if (stat_read(&d->unkept[pool]) || stat_add_shared(&d->unkept[pool], 1) > 1)
    return;
  log_line(&d->log, LOG_ERROR,
           "POISONED: tier %s: the memory of its directory is bad: its cells are served on, but none of them outlives "
           "this mover; drain it (`dray tier drain %s`) and use another device",
           d->cfg->tier[pool].name, d->cfg->tier[pool].name);
}

bool daemon_index_met(struct daemon *d, uintptr_t addr, uint64_t unit)
{
  bool met = false;
  for (uint32_t i = 0; i < d->devs_n; i++)
    if (d->dev[i]->cold->index_met(d->dev[i], addr, unit) == -EHWPOISON) {
      on_index_lost(d, i);
      met = true;
    }
  return met;
}

/* The engines that were lent it unmap it; no lease of theirs is in it. */
static void on_slab_gone(void *ctx, uint32_t slab)
{
  struct daemon *d = ctx;
  uint32_t i = slab & 0xffffu;
  struct dray_msg_id gone = {.h = {.type = DRAY_MSG_SLAB_GONE}, .id = slab};
  pthread_mutex_lock(&d->lend_lock);
  for (uint32_t k = 0; k < DAEMON_SESSIONS; k++) {
    struct session *s = d->session[k];
    if (!s || !(s->lent[i / 64] >> (i % 64) & 1))
      continue;
    stat_set(&s->lent[i / 64], s->lent[i / 64] & ~(1ull << (i % 64)));
    /* an engine that does not read its socket keeps its own dead mapping until it does; the slab is gone for everyone
     * else */
    handshake_send(s->sock, &gone, sizeof gone, NULL, 0);
  }
  d->ever_lent[i / 64] &= ~(1ull << (i % 64));
  pthread_mutex_unlock(&d->lend_lock);
  peers_slab_gone(d, slab);
  keeper_drop(d, KEEP_SLAB, slab);
}

/* ---- start and stop ---- */

static int daemon_store(struct daemon *d, struct err *e)
{
  struct store_config sc;
  const struct store_hooks hooks = {.ctx = d,
                                    .slab_made = on_slab_made,
                                    .slab_gone = on_slab_gone,
                                    .slab_lent = on_slab_lent,
                                    .index_lost = on_index_lost};
  backends_store_config(d->cfg, d->dev, d->devs_n, &sc);
  /* engines choose keys: they must not be able to choose where they collide */
  if (getrandom(&sc.seed, sizeof sc.seed, 0) != sizeof sc.seed)
    return err_set(e, -EIO, "store: no random seed");
  for (uint32_t i = 0; i < DRAY_TIER_COUNT; i++)
    d->pool_of_tier[i] = -1;
  for (uint32_t i = 0; i < sc.pools; i++) {
    d->pool_of_tier[sc.pool[i].tier] = (int32_t)i;
    d->usable_tiers |= (uint8_t)(1u << sc.pool[i].tier);
    if (!d->copy_dev && d->dev[i]->caps.addressable)
      d->copy_dev = d->dev[i];
  }
  return store_new(&sc, d->seed->arena_fd, &hooks, e, &d->store);
}

static int daemon_watch(struct daemon *d)
{
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  sigprocmask(SIG_BLOCK, &set, NULL);
  d->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  d->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  d->epoll = epoll_create1(EPOLL_CLOEXEC);
  if (d->signals < 0 || d->wake < 0 || d->epoll < 0)
    return -errno;
  int r = loop_add(d, d->signals, LOOP_SIGNAL, NULL, EPOLLIN);
  r = r ? r : loop_add(d, d->wake, LOOP_WAKE, NULL, EPOLLIN);
  r = r ? r : loop_add(d, d->keeper, LOOP_KEEPER, NULL, EPOLLRDHUP);
  r = r ? r : loop_add(d, d->admin_fd, LOOP_ADMIN_LISTEN, NULL, EPOLLIN);
  for (uint32_t i = 0; r == 0 && i < d->seed->listen_n; i++)
    r = loop_add(d, d->seed->listen_fd[i], LOOP_LISTEN, (void *)(uintptr_t)i, EPOLLIN);
  return r;
}

static int daemon_harden(struct daemon *d, struct err *e)
{
  char missing[160];
  if (!d->cfg->harden) {
    log_line(&d->log, LOG_WARN, "harden: no: an engine that gets the better of the mover has all that its user has");
    return 0;
  }
  int r = sandbox_worker(d->cfg, missing, sizeof missing);
  if (r < 0)
    return err_set(e, r, "harden: the kernel refuses it: %s (harden: no starts without)", strerror(-r));
  if (*missing)
    log_line(&d->log, LOG_INFO, "harden: %s", missing);
  return 0;
}

static int daemon_start(struct daemon *d, struct err *e)
{
  int r = guard_install();
  for (uint32_t i = 0; r == 0 && i < d->devs_n; i++)
    r = d->dev[i]->cold->start(d->dev[i], e);
  if (r == 0)
    r = daemon_store(d, e);
  if (r == 0)
    r = quotas_init(d);
  if (r == 0)
    r = quotas_apply(d, d->seed->plan, e);
  if (r == 0)
    r = usage_init(d, e);
  if (r == 0)
    r = daemon_watch(d);
  if (r == 0)
    r = poison_watch(d);
  d->lanes = r == 0 ? calloc(d->lanes_n, sizeof *d->lanes) : NULL;
  if (r == 0 && !d->lanes)
    r = -ENOMEM;
  for (uint32_t i = 0; r == 0 && i < d->lanes_n; i++) {
    r = lane_new(d, i, &d->lanes[i]);
    if (r == 0)
      r = lane_start(&d->lanes[i]);
  }
  r = r ? r : peers_start(d, e); /* what peers ask may have something to tell the lanes */
  r = r ? r : usage_start(d, e);
  r = r ? r : relief_start(d);
  r = r ? r : metrics_start(d, e);
  if (r == 0)
    drain_again(d);
  return r;
}

static void daemon_stop(struct daemon *d)
{
  metrics_stop(d);
  for (uint32_t i = 0; d->lanes && i < d->lanes_n; i++) {
    struct lane_msg *m = calloc(1, sizeof *m);
    if (!d->lanes[i].started || !m) {
      free(m);
      continue;
    }
    m->kind = LANE_STOP;
    lane_send(&d->lanes[i], m);
    lane_join(&d->lanes[i]);
  }
  relief_stop(d);
  usage_stop(d); /* after the lanes: what they still said is in their rings */
  drain_stop(d);
  while (!list_empty(&d->inbox)) /* a drain's end that nobody waits for any more */
    free(LIST_OF(list_pop_front(&d->inbox), struct control_msg, link));
  poison_unwatch(d);
  peers_stop(d);
  usage_deinit(d);
  revoke_deinit(d);
  d->store = store_free(d->store);
  quotas_deinit(d);
  for (uint32_t i = 0; i < d->devs_n; i++)
    d->dev[i]->cold->stop(d->dev[i]);
  for (uint32_t i = 0; d->lanes && i < d->lanes_n; i++)
    lane_free(&d->lanes[i]);
  free(d->lanes);
}

int daemon_run(const struct worker_seed *seed)
{
  struct daemon *d = calloc(1, sizeof *d);
  struct err e = {{0}};
  if (!d)
    return 1;
  d->seed = seed;
  d->cfg = seed->cfg;
  d->log = seed->log;
  d->keeper = seed->keeper;
  d->admin_fd = seed->admin_fd;
  d->epoch = seed->epoch;
  d->devs_n = seed->devs_n;
  d->lanes_n = d->cfg->lanes;
  d->started_ms = daemon_now_ns() / 1000000u;
  memcpy(d->dev, seed->dev, sizeof d->dev);
  pthread_mutex_init(&d->lend_lock, NULL);
  pthread_mutex_init(&d->keeper_lock, NULL);
  pthread_mutex_init(&d->inbox_lock, NULL);
  pthread_mutex_init(&d->fills.lock, NULL);
  pthread_mutex_init(&d->drain_queue, NULL);
  list_init(&d->inbox);
  list_init(&d->hello);
  list_init(&d->admins);
  list_init(&d->revokes.held);
  int r = peers_prepare(d, &e);
  r = r ? r : daemon_harden(d, &e);
  r = r ? r : daemon_start(d, &e);
  if (r < 0) {
    log_line(&d->log, LOG_ERROR, "worker does not start: %s", e.text[0] ? e.text : strerror(-r));
    return 78;
  }
  keeper_ready(d);
  r = loop_run(d);
  if (r < 0) {
    log_line(&d->log, LOG_ERROR, "drain: %s: %u sessions left", strerror(-r), d->sessions_n);
    return 1; /* what still flies is the keeper's to bring to rest */
  }
  daemon_stop(d);
  log_line(&d->log, LOG_INFO, "drained");
  free(d);
  return 0;
}
