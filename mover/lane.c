/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sweep: inbox, take from every ring, one quantum for every session with something to move, done records,
 * completions out. When a sweep found nothing the lane polls a little longer, then raises every need_wakeup, fences,
 * looks again at every ring and sleeps in epoll [BELL].
 */
#include "mover/lane.h"
#include "mover/machine.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/guard.h"
#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "mover/admit.h"
#include "mover/control.h"
#include "mover/daemon.h"
#include "mover/peer.h"
#include "mover/poison.h"
#include "mover/revoke.h"
#include "mover/rows.h"
#include "mover/sandbox.h"
#include "mover/session.h"
#include "mover/usage.h"

#define SPIN_MIN_NS 2000u
#define SPIN_MAX_NS 50000u
#define SPIN_PEER_NS 200000u /* a few transfers of a page over a fabric: sleeping would double each of them */
#define SPIN_DEVICE_NS 6000u /* about what going to sleep and being woken costs */

void lane_refresh(struct lane *l)
{
  l->now_ns = daemon_now_ns();
}

int lane_new(struct daemon *d, uint32_t idx, struct lane *l)
{
  memset(l, 0, sizeof *l);
  l->d = d;
  l->idx = idx;
  l->wake = l->epoll = -1;
  pthread_mutex_init(&l->inbox_lock, NULL);
  list_init(&l->inbox);
  list_init(&l->sessions);
  list_init(&l->active);
  list_init(&l->dirty);
  list_init(&l->waiters);
  list_init(&l->revokes);
  help_init(&l->help);
  l->next_deadline = UINT64_MAX;
  /* spinning on the only CPU would keep the engine from ever submitting */
  l->spin_ns = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 20000 : 0;
  l->steps = calloc(LANE_STEPS, sizeof *l->steps);
  l->free_steps = calloc(LANE_STEPS, sizeof *l->free_steps);
  l->chunks = calloc(LANE_CHUNKS, sizeof *l->chunks);
  l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  l->epoll = epoll_create1(EPOLL_CLOEXEC);
  l->meter = calloc(QUOTA_TENANTS, sizeof *l->meter);
  l->meter_ring = usage_kept(d->cfg) ? calloc(1, sizeof *l->meter_ring) : NULL;
  if (!l->meter || (usage_kept(d->cfg) && !l->meter_ring))
    return -ENOMEM;
  if (!l->steps || !l->free_steps || !l->chunks || l->wake < 0 || l->epoll < 0)
    return -ENOMEM;
  for (uint32_t i = 0; i < LANE_STEPS; i++) {
    l->free_steps[i] = LANE_STEPS - 1 - i;
  }
  l->free_steps_n = LANE_STEPS;
  for (uint32_t i = 0; i < LANE_CHUNKS; i++)
    l->chunks[i].next_free = i + 1 < LANE_CHUNKS ? i + 1 : UINT32_MAX;
  struct epoll_event e = {.events = EPOLLIN | EPOLLET};
  if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->wake, &e) < 0)
    return -errno;
  for (uint32_t i = 0; i < d->devs_n; i++) {
    int fd = d->dev[i]->hot->poll_fd(d->dev[i], idx);
    struct epoll_event pe = {.events = EPOLLIN};
    if (fd >= 0 && epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &pe) < 0)
      return -errno;
  }
  return 0;
}

void lane_free(struct lane *l)
{
  free(l->steps);
  free(l->free_steps);
  free(l->chunks);
  rows_free_all(l);
  free(l->meter);
  free(l->meter_ring);
  close_fd(&l->wake);
  close_fd(&l->epoll);
  pthread_mutex_destroy(&l->inbox_lock);
  help_deinit(&l->help);
}

void lane_send(struct lane *l, struct lane_msg *m)
{
  pthread_mutex_lock(&l->inbox_lock);
  list_push_back(&l->inbox, &m->link);
  stat_set(&l->inbox_n, l->inbox_n + 1);
  pthread_mutex_unlock(&l->inbox_lock);
  uint64_t one = 1;
  ssize_t n = write(l->wake, &one, sizeof one);
  (void)n;
}

static void lane_take_message(struct lane *l, struct lane_msg *m)
{
  struct session *s = m->s;
  switch (m->kind) {
  case LANE_ADD: {
    struct epoll_event e = {.events = EPOLLIN | EPOLLET};
    list_push_back(&l->sessions, &s->link);
    stat_add(&l->sessions_n, 1);
    flag_raise(&s->m->need_wakeup, 0);
    if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, s->bell, &e) < 0)
      session_end(l, s, DRAY_ABORTED);
    break;
  }
  case LANE_END:
    session_end(l, s, m->value);
    break;
  case LANE_REGION: {
    struct region *r = &s->regions[m->id];
    *r = (struct region){.base = m->base, .size = m->size, .gen = (uint8_t)m->value, .state = REGION_LIVE};
    control_reply(s, m->seq, 0, DRAY_REASON_OK, 0, 0, m->value << 10 | m->id);
    break;
  }
  case LANE_UNREGION: {
    struct region *r = &s->regions[m->id];
    if (r->state != REGION_LIVE) {
      control_reply(s, m->seq, -ENOENT, DRAY_BAD_REGION, 0, 0, 0);
      break;
    }
    r->state = REGION_LEAVING;
    r->seq = m->seq;
    if (r->users == 0)
      control_region_idle(l->d, s, m->id, m->seq);
    break;
  }
  case LANE_LAYOUT:
    s->layouts[m->id] = m->layout;
    control_reply(s, m->seq, 0, DRAY_REASON_OK, 0, 0, m->id);
    break;
  case LANE_KEY:
    s->keys[m->id] = m->value;
    control_reply(s, m->seq, 0, DRAY_REASON_OK, 0, 0, m->id);
    break;
  case LANE_FORGET: {
    struct control_msg *gone = calloc(1, sizeof *gone);
    if (!gone)
      break; /* the session stays behind, quiet: better than freed under somebody's hands */
    gone->kind = CONTROL_GONE;
    gone->s = s;
    daemon_send(l->d, gone);
    break;
  }
  case LANE_POISON:
    poison_tell(l, m);
    break;
  case LANE_REVOKE:
    revoke_tell(l, m);
    break;
  case LANE_TIER:
    drain_tell(l, m);
    break;
  case LANE_PEER:
    peer_answered(l, m->base);
    break;
  case LANE_LINK:
    peers_tell(l, m);
    break;
  case LANE_STOP:
    l->stopping = true;
    break;
  default:
    break;
  }
}

static bool lane_inbox(struct lane *l)
{
  if (LIKELY(stat_read(&l->inbox_n) == 0))
    return false;
  struct list got;
  list_init(&got);
  pthread_mutex_lock(&l->inbox_lock);
  while (!list_empty(&l->inbox))
    list_push_back(&got, list_pop_front(&l->inbox));
  stat_set(&l->inbox_n, 0);
  pthread_mutex_unlock(&l->inbox_lock);
  lane_refresh(l);
  while (!list_empty(&got)) {
    struct lane_msg *m = LIST_OF(list_pop_front(&got), struct lane_msg, link);
    bool own = m->kind != LANE_PEER; /* that one is a part of its question */
    lane_take_message(l, m);
    if (own)
      free(m);
  }
  return true;
}

/* An ending session whose last directive is answered leaves the lane. */
static void lane_release(struct lane *l, struct session *s)
{
  struct control_msg *m = calloc(1, sizeof *m);
  if (!m)
    return; /* tried again next sweep */
  session_flush(l, s);
  revoke_forget(l, s);
  list_remove(&s->dirty);
  session_rest(l, s);
  list_remove(&s->link);
  stat_set(&l->sessions_n, l->sessions_n - 1);
  epoll_ctl(l->epoll, EPOLL_CTL_DEL, s->bell, NULL);
  s->state = SESSION_QUIET;
  m->kind = CONTROL_QUIET;
  m->s = s;
  daemon_send(l->d, m);
}

static void lane_unpin_all(struct lane *l)
{
  store_unpin_all(l->d->store, l->unpin, l->unpin_n);
  l->unpin_n = 0;
}

void lane_unpin(struct lane *l, struct slot_ref slot)
{
  if (l->unpin_n == LANE_UNPINS)
    lane_unpin_all(l);
  l->unpin[l->unpin_n++] = slot;
}

static uint64_t lane_expire(struct lane *l)
{
  uint64_t jobs = job_expire(l, l->now_ns), leases = revoke_expire(l);
  return MIN_OF(jobs, leases);
}

/* One pass over everything. True when something was done. */
static bool lane_sweep(struct lane *l)
{
  bool work = lane_inbox(l);
  work |= help_work(l);
  LIST_EACH (&l->sessions, n) {
    struct session *s = LIST_OF(n, struct session, link);
    if (UNLIKELY(s->state != SESSION_LIVE)) {
      if (s->post.open == 0 && s->steps_n == 0) {
        lane_release(l, s);
        work = true;
      }
      continue;
    }
    int k = session_take(l, s);
    if (UNLIKELY(k < 0)) {
      stat_add(&l->stats.protocol_errors, 1);
      log_line(&l->d->log, LOG_WARN, "session %llu tenant %s: ABORTED: impossible ring index",
               (unsigned long long)s->number, s->tenant_name);
      session_end(l, s, DRAY_ABORTED);
    }
    work |= k != 0;
  }
  if (l->unpin_n && !(list_empty(&l->waiters) && list_empty(&l->active)))
    lane_unpin_all(l); /* who looks for room sees them gone */
  if (!list_empty(&l->waiters))
    step_retry_waiters(l);
  LIST_EACH (&l->active, n) {
    struct session *s = LIST_OF(n, struct session, active);
    if (!session_visit(l, s))
      session_rest(l, s);
    /* a visit that only found full devices is no work: then the devices are what to wait for */
    work |= !s->blocked;
  }
  for (uint32_t i = 0; i < l->d->devs_n && l->flying; i++)
    if (l->d->dev[i]->caps.asynchronous)
      l->d->dev[i]->hot->flush(l->d->dev[i], l->idx);
  if (l->flying) {
    uint32_t flew = l->flying;
    lane_poll(l);
    work |= l->flying != flew;
  }
  if (UNLIKELY(l->next_deadline != UINT64_MAX)) {
    lane_refresh(l);
    if (l->next_deadline <= l->now_ns)
      l->next_deadline = lane_expire(l);
  }
  while (!list_empty(&l->dirty)) {
    struct session *s = LIST_OF(list_pop_front(&l->dirty), struct session, dirty);
    session_flush(l, s);
  }
  if (l->unpin_n)
    lane_unpin_all(l);
  return work;
}

static bool lane_engines_awake(const struct lane *l)
{
  LIST_EACH (&l->sessions, n) {
    if (flag_read(&LIST_OF(n, struct session, link)->u->sleep) == DRAY_AWAKE)
      return true;
  }
  return false;
}

/* Devices tell from now on; what they brought meanwhile is taken. True: something was. */
static bool lane_doze(struct lane *l)
{
  uint32_t before = l->flying;
  for (uint32_t i = 0; i < l->d->devs_n; i++)
    l->d->dev[i]->hot->doze(l->d->dev[i], l->idx);
  lane_poll(l);
  return l->flying != before;
}

/* Nothing to do: polls a little, then sleeps until a doorbell, a message, a device or a deadline. */
static void lane_idle(struct lane *l)
{
  uint64_t start = daemon_now_ns(), now = start;
  /* with a device at work and every engine asleep only the device can have news, and it may need the CPU more than we
   * do */
  uint64_t spin = l->flying && !lane_engines_awake(l) ? MIN_OF(l->spin_ns, (uint64_t)SPIN_DEVICE_NS) : l->spin_ns;
  if (UNLIKELY(l->peers) && l->flying && l->spin_ns)
    spin = SPIN_PEER_NS;
  while (now - start < spin) {
    for (int i = 0; i < 8; i++) {
      LIST_EACH (&l->sessions, n) {
        if (wire_in_pending(&LIST_OF(n, struct session, link)->sq))
          return;
      }
      if (stat_read(&l->inbox_n) || help_called(l))
        return;
      spin_relax();
    }
    if (l->flying) { /* poll the devices, too */
      uint32_t before = l->flying;
      lane_poll(l);
      if (l->flying != before)
        return;
    }
    now = daemon_now_ns();
  }
  LIST_EACH (&l->sessions, n) {
    flag_raise(&LIST_OF(n, struct session, link)->m->need_wakeup, 1);
  }
  help_mood(l, HELP_ASLEEP);
  sleep_fence(); /* [BELL] */
  bool found = stat_read(&l->inbox_n) != 0 || help_called(l);
  LIST_EACH (&l->sessions, n) {
    struct session *s = LIST_OF(n, struct session, link);
    /* without a credit to take it by, what is published waits for the engine to reap */
    found |= s->state == SESSION_LIVE && wire_in_pending(&s->sq) && post_room(&s->post, 1, DRAY_CANCEL_RESERVE) != 0;
  }
  if (l->flying || l->peers) /* of what flies no more there may be news, too, that keeps poll_fd readable */
    found |= lane_doze(l);
  if (!found) {
    struct epoll_event e[16];
    int timeout = 1000;
    if (!list_empty(&l->waiters) || !list_empty(&l->active))
      timeout = 1;
    if (l->next_deadline != UINT64_MAX) {
      uint64_t ns = l->next_deadline > now ? l->next_deadline - now : 0;
      timeout = (int)MIN_OF((uint64_t)timeout, ns / 1000000u + (ns > 0));
    }
    LIST_EACH (&l->sessions, n) {
      struct session *s = LIST_OF(n, struct session, link);
      if (wire_in_pending(&s->sq) || s->post.notice_due) { /* out of credits: reaping rings no bell */
        timeout = MIN_OF(timeout, 1);
        break;
      }
    }
    stat_add(&l->stats.sleeps, 1);
    uint64_t slept = daemon_now_ns();
    epoll_wait(l->epoll, e, ARRAY_LEN(e), timeout);
    now = daemon_now_ns();
    if (l->spin_ns) {
      /* woken so soon that polling, as long as it may be, would have seen it; slept long: the polling was wasted. With
         a device at work news always comes soon, and a sleep costs it nothing */
      if (now - slept < (l->flying ? l->spin_ns : (uint64_t)SPIN_MAX_NS))
        l->spin_ns = MIN_OF(l->spin_ns * 2, (uint64_t)SPIN_MAX_NS);
      else if (now - slept > 20 * l->spin_ns)
        l->spin_ns = MAX_OF(l->spin_ns / 2, (uint64_t)SPIN_MIN_NS);
    }
  }
  LIST_EACH (&l->sessions, n) {
    flag_raise(&LIST_OF(n, struct session, link)->m->need_wakeup, 0);
  }
}

static void *lane_main(void *arg)
{
  struct lane *l = arg;
  char name[16];
  snprintf(name, sizeof name, "dray-lane-%u", l->idx);
  pthread_setname_np(pthread_self(), name);
  sigset_t set;
  sigfillset(&set);
  sigdelset(&set, SIGBUS); /* a thread that copies must be able to take it */
  sigdelset(&set, SIGSEGV);
  pthread_sigmask(SIG_SETMASK, &set, NULL);
  machine_lane_place(l->idx, l->d->lanes_n);
  bool faulty = false, verbs = false;
  for (uint32_t i = 0; i < l->d->cfg->tiers_n; i++) {
    faulty |= l->d->cfg->tier[i].fault != NULL;
    verbs |= l->d->cfg->tier[i].peer != NULL;
  }
  l->peers = verbs;
  int r = l->d->cfg->harden ? sandbox_lane(faulty, verbs) : 0;
  if (r < 0 && r != -ENOTSUP)
    log_line(&l->d->log, LOG_ERROR, "lane %u: no filter of system calls: %s", l->idx, strerror(-r));
  while (!l->stopping || l->sessions_n) {
    if (lane_sweep(l))
      continue;
    help_mood(l, HELP_IDLE);
    lane_idle(l);
    help_mood(l, HELP_BUSY);
  }
  help_close(l);
  return NULL;
}

int lane_start(struct lane *l)
{
  int r = pthread_create(&l->thread, NULL, lane_main, l);
  l->started = r == 0;
  return -r;
}

void lane_join(struct lane *l)
{
  if (l->started)
    pthread_join(l->thread, NULL);
  l->started = false;
}
