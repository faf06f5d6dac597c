/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "include/priv/cleanup.h"
#include "mover/daemon.h"
#include "mover/loop.h"
#include "ring/handshake.h"

#define HELLO_MS 5000
#define CALLERS_MAX 256u
#define UID_NOBODY 65534u /* what an unmapped uid of another user namespace looks like: never a tenant */

static void caller_free(struct daemon *d, struct caller *c)
{
  (void)d;
  list_remove(&c->link);
  close_fd(&c->sock); /* epoll forgets it with its last reference */
  free(c);
}

void listener_accept(struct daemon *d, uint32_t i)
{
  for (int n = 0; n < 16; n++) { /* a burst of callers must not starve the sessions */
    CLEAN_FD s = accept4(d->seed->listen_fd[i], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (s < 0)
      return;
    uint32_t waiting = 0;
    LIST_EACH (&d->hello, node) {
      waiting++;
    }
    struct caller *c = d->draining || waiting >= CALLERS_MAX ? NULL : calloc(1, sizeof *c);
    if (!c)
      continue;
    c->sock = s;
    c->tenant = d->seed->listen_tenant[i];
    c->until_ms = daemon_now_ns() / 1000000u + HELLO_MS;
    list_push_back(&d->hello, &c->link);
    if (loop_add(d, s, LOOP_CALLER, c, EPOLLIN) < 0) {
      list_remove(&c->link);
      free(c);
      continue;
    }
    take_fd(&s);
  }
}

/* Tenant by the socket it came by, else by its token, else by its uid. NULL: none. */
static const char *caller_tenant(struct daemon *d, const struct caller *c, const struct dray_msg_hello *h, uid_t uid,
                                 char buf[32])
{
  const struct config *cfg = d->cfg;
  if (uid == UID_NOBODY)
    return NULL;
  if (c->tenant >= 0)
    return cfg->tenant[c->tenant].name;
  if (h->token[0]) {
    for (uint32_t i = 0; i < cfg->tenants_n; i++) {
      const char *t = cfg->tenant[i].token;
      /* every byte is compared: the time taken must not spell the token */
      char mine[DRAY_TOKEN_MAX] = {0};
      unsigned diff = !t;
      if (t)
        memcpy(mine, t, strlen(t));
      for (size_t k = 0; k < sizeof mine; k++)
        diff |= (unsigned char)(mine[k] ^ (k < strlen(h->token) ? h->token[k] : 0));
      if (!diff && (cfg->tenant[i].uid < 0 || cfg->tenant[i].uid == (int64_t)uid))
        return cfg->tenant[i].name;
    }
    return NULL; /* a wrong token is not an anonymous caller */
  }
  for (uint32_t i = 0; i < cfg->tenants_n; i++)
    if (!cfg->tenant[i].token && cfg->tenant[i].uid == (int64_t)uid)
      return cfg->tenant[i].name;
  if (!cfg->auto_tenants)
    return NULL;
  snprintf(buf, 32, "uid%u", (unsigned)uid);
  return buf;
}

static int admit_caller(struct daemon *d, struct caller *c, const struct dray_msg_hello *h, int own_pidfd,
                        const char **ret_why)
{
  struct session_who who = {.sock = c->sock};
  char name[32];
  gid_t gid;
  int r = handshake_hello_check(h, ret_why);
  if (r < 0)
    return r;
  r = handshake_peer(c->sock, &who.pid, &who.uid, &gid);
  *ret_why = "no credentials";
  if (r < 0)
    return r;
  who.tenant_name = caller_tenant(d, c, h, who.uid, name);
  *ret_why = "no tenant for this uid, socket and token";
  if (!who.tenant_name)
    return -EACCES;
  CLEAN_FD pidfd = handshake_pidfd(c->sock);
  if (pidfd < 0) { /* before Linux 6.5: its own, if it is its own */
    if (own_pidfd < 0 || !handshake_pidfd_is(own_pidfd, who.pid)) {
      *ret_why = "no pidfd of the peer";
      return -EACCES;
    }
    pidfd = fcntl(own_pidfd, F_DUPFD_CLOEXEC, 0);
  }
  who.pidfd = pidfd;
  who.tenant = store_tenant(d->store, who.tenant_name);
  *ret_why = "the tenant table is full";
  if (!who.tenant)
    return -ENOSPC;
  struct session *s;
  *ret_why = "the session could not be made";
  r = session_new(d, &who, h, &s);
  if (r < 0) {
    if (r == -EMFILE)
      *ret_why = "LIMIT: the session cap is reached (limits.sessions, limits.sessions_per_tenant)";
    return r;
  }
  take_fd(&pidfd);
  epoll_ctl(d->epoll, EPOLL_CTL_DEL, c->sock, NULL); /* watched as a session from here on */
  c->sock = -1;
  loop_session(d, s);
  return 0;
}

void listener_hello(struct daemon *d, struct caller *c)
{
  union handshake_msg msg;
  int fds[HANDSHAKE_FDS_MAX];
  const char *why = "malformed HELLO";
  int r = handshake_recv(c->sock, &msg, fds);
  if (r == -EAGAIN)
    return;
  if (r > 0) {
    r = msg.h.type == DRAY_MSG_HELLO ? admit_caller(d, c, &msg.hello, fds[0], &why) : -EPROTO;
    for (int i = 0; i < HANDSHAKE_FDS_MAX; i++)
      if (fds[i] >= 0)
        close(fds[i]);
    if (r < 0) {
      struct dray_msg_welcome w;
      memset(&w, 0, sizeof w);
      w.h.type = DRAY_MSG_WELCOME;
      w.h.seq = msg.h.seq;
      w.error = r;
      w.reason = r == -EACCES ? DRAY_SCOPE_DENIED : DRAY_LIMIT;
      w.major = DRAY_RING_MAJOR;
      w.minor = DRAY_RING_MINOR;
      handshake_send(c->sock, &w, sizeof w, NULL, 0);
    }
  }
  if (r < 0 && stat_add_shared(&d->refused_hellos, 1) <= 100) /* a flood of them is a number, not a flood of lines */
    log_line(&d->log, LOG_WARN, "caller refused: %s (%s)", why, strerror(-r));
  caller_free(d, c);
}

void listener_expire(struct daemon *d, uint64_t now_ms)
{
  LIST_EACH (&d->hello, n) {
    struct caller *c = LIST_OF(n, struct caller, link);
    if (now_ms >= c->until_ms)
      caller_free(d, c);
  }
}
