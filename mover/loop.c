/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/peer.h"
#include "mover/loop.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "include/priv/bits.h"
#include "mover/admin.h"
#include "mover/control.h"
#include "mover/daemon.h"
#include "mover/listener.h"
#include "mover/poison.h"
#include "mover/revoke.h"

/* The kind travels in the low bits of an aligned pointer, or below an index. */
#define KIND_BITS 4u
#define KIND_MASK ((1u << KIND_BITS) - 1)

int loop_add(struct daemon *d, int fd, unsigned kind, void *owner, uint32_t events)
{
  struct epoll_event e = {.events = events, .data.u64 = (uint64_t)(uintptr_t)owner << KIND_BITS | kind};
  return epoll_ctl(d->epoll, EPOLL_CTL_ADD, fd, &e) < 0 ? -errno : 0;
}

static void lane_tell(struct session *s, unsigned kind, uint32_t value)
{
  struct lane_msg *m = calloc(1, sizeof *m);
  if (!m)
    return; /* said again at the next event or tick */
  m->kind = (uint8_t)kind;
  m->s = s;
  m->value = value;
  lane_send(s->lane, m);
}

static void session_leave(struct daemon *d, struct session *s, unsigned reason, const char *why)
{
  if (s->leaving)
    return;
  s->leaving = true;
  epoll_ctl(d->epoll, EPOLL_CTL_DEL, s->sock, NULL);
  epoll_ctl(d->epoll, EPOLL_CTL_DEL, s->pidfd, NULL);
  log_line(&d->log, LOG_INFO, "session %llu tenant %s agent %s pid %d: ends: %s: %s", (unsigned long long)s->number,
           s->tenant_name, s->agent_name, (int)s->pid, dray_reason_name(reason), why);
  lane_tell(s, LANE_END, reason);
}

void loop_session(struct daemon *d, struct session *s)
{
  struct lane *best = &d->lanes[0];
  for (uint32_t i = 1; i < d->lanes_n; i++)
    if (stat_read(&d->lanes[i].sessions_n) <
        stat_read(&best->sessions_n)) /* a hint: a stale number only balances worse */
      best = &d->lanes[i];
  s->lane = best;
  log_line(&d->log, LOG_INFO, "session %llu tenant %s agent %s pid %d uid %u: lane %u, %u entries",
           (unsigned long long)s->number, s->tenant_name, s->agent_name, (int)s->pid, (unsigned)s->uid, best->idx,
           s->geo.entries);
  lane_tell(s, LANE_ADD, 0);
  /* alive while its socket is open and its pidfd is silent: an inherited socket hides a death */
  if (loop_add(d, s->sock, LOOP_SESSION, s, EPOLLIN | EPOLLRDHUP) < 0 ||
      loop_add(d, s->pidfd, LOOP_PID, s, EPOLLIN) < 0)
    session_leave(d, s, DRAY_ABORTED, "cannot watch it");
}

static void on_session(struct daemon *d, struct session *s, uint32_t events)
{
  if (s->leaving)
    return;
  int r = 0;
  for (int i = 0; i < 32 && r == 0 && (events & EPOLLIN); i++) {
    r = control_message(d, s);
    if (r == 0)
      break;
  }
  if (r == -ECONNRESET || (events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)))
    session_leave(d, s, DRAY_REASON_CANCELED, "hung up");
  else if (r < 0)
    session_leave(d, s, DRAY_ABORTED, r == -EPROTO ? "protocol error" : strerror(-r));
}

static void begin_drain(struct daemon *d)
{
  if (d->draining)
    return;
  d->draining = true;
  stat_set(&d->unready, 1);
  log_line(&d->log, LOG_INFO, "SHUTTING_DOWN: draining %u sessions", d->sessions_n);
  for (uint32_t i = 0; i < DAEMON_SESSIONS; i++)
    if (d->session[i])
      session_leave(d, d->session[i], DRAY_SHUTTING_DOWN, "the mover stops");
}

/* Nothing of it is under way any more. Messages to its lane may be: it is freed once the lane has read past them. */
static void session_quiet(struct daemon *d, struct session *s)
{
  if (!s->leaving) { /* its lane ended it by itself */
    s->leaving = true;
    epoll_ctl(d->epoll, EPOLL_CTL_DEL, s->sock, NULL);
    epoll_ctl(d->epoll, EPOLL_CTL_DEL, s->pidfd, NULL);
    log_line(&d->log, LOG_INFO, "session %llu tenant %s: ends: %s: %s", (unsigned long long)s->number, s->tenant_name,
             dray_reason_name(s->end_reason),
             s->end_reason == DRAY_LEASE_REVOKED ? "it kept a lease" : "protocol error on the ring");
  }
  lane_tell(s, LANE_FORGET, 0);
}

static void on_inbox(struct daemon *d)
{
  uint64_t n;
  ssize_t k = read(d->wake, &n, sizeof n);
  (void)k;
  struct list got;
  list_init(&got);
  pthread_mutex_lock(&d->inbox_lock);
  while (!list_empty(&d->inbox))
    list_push_back(&got, list_pop_front(&d->inbox));
  pthread_mutex_unlock(&d->inbox_lock);
  while (!list_empty(&got)) {
    struct control_msg *m = LIST_OF(list_pop_front(&got), struct control_msg, link);
    if (m->kind == CONTROL_REGION_IDLE)
      control_region_unmap(d, m->s, m->slot, m->seq);
    else if (m->kind == CONTROL_QUIET)
      session_quiet(d, m->s);
    else if (m->kind == CONTROL_GONE)
      session_free(m->s);
    else if (m->kind == CONTROL_DRAINED)
      drain_next(d);
    free(m);
  }
}

static void on_signal(struct daemon *d)
{
  struct signalfd_siginfo si;
  while (read(d->signals, &si, sizeof si) == sizeof si) {
    struct err e = {{0}};
    if (si.ssi_signo == SIGHUP)
      quotas_reload(d, &e); /* which says in the log how it went */
    else
      begin_drain(d);
  }
}

static void on_event(struct daemon *d, const struct epoll_event *e)
{
  void *owner = (void *)(uintptr_t)(e->data.u64 >> KIND_BITS);
  switch (e->data.u64 & KIND_MASK) {
  case LOOP_SIGNAL:
    on_signal(d);
    break;
  case LOOP_WAKE:
    break; /* after the batch: freeing a session must not leave its events behind in this one */
  case LOOP_KEEPER:
    begin_drain(d); /* the keeper is gone */
    epoll_ctl(d->epoll, EPOLL_CTL_DEL, d->keeper, NULL);
    break;
  case LOOP_LISTEN:
    listener_accept(d, (uint32_t)(uintptr_t)owner);
    break;
  case LOOP_CALLER:
    listener_hello(d, owner);
    break;
  case LOOP_SESSION:
    on_session(d, owner, e->events);
    break;
  case LOOP_PID: {
    struct session *s = owner;
    session_leave(d, s, DRAY_ABORTED, "its process died");
    break;
  }
  case LOOP_HELD:
    revoke_release(d, owner);
    break;
  case LOOP_EARLY:
    poison_early(d);
    break;
  case LOOP_ADMIN_LISTEN:
    admin_accept(d);
    break;
  case LOOP_ADMIN:
    admin_serve(d, owner);
    break;
  default:
    break;
  }
}

int loop_run(struct daemon *d)
{
  uint64_t drain_until = 0;
  for (;;) {
    struct epoll_event e[64];
    bool busy = peers_tick(d) || d->draining || !list_empty(&d->hello) || !list_empty(&d->admins);
    int n = epoll_wait(d->epoll, e, ARRAY_LEN(e), busy ? 200 : -1);
    if (n < 0 && errno != EINTR)
      return -errno;
    for (int i = 0; i < n; i++)
      on_event(d, &e[i]);
    on_inbox(d);
    uint64_t now = daemon_now_ns() / 1000000u;
    listener_expire(d, now);
    admin_expire(d, now);
    if (d->draining) {
      if (!drain_until)
        drain_until = now + d->cfg->drain_ms;
      if (d->sessions_n == 0)
        return 0;
      if (now >= drain_until)
        return -ETIMEDOUT;
    }
  }
}
