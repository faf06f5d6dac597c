/* SPDX-License-Identifier: Apache-2.0 */
/* Both ends of the channel: the worker's calls, and the messages themselves. */
#include "mover/keeper_wire.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "include/priv/cleanup.h"
#include "mover/config_diff.h"
#include "mover/daemon.h"
#include "mover/keeper.h"

#define CALL_MS 5000

static int wait_for(int sock, short events, int timeout_ms)
{
  struct pollfd p = {.fd = sock, .events = events};
  int n;
  do
    n = poll(&p, 1, timeout_ms);
  while (n < 0 && errno == EINTR);
  return n < 0 ? -errno : n == 0 ? -ETIMEDOUT : 0;
}

int keeper_msg_send(int sock, const struct keeper_msg *m, const int *fds, int n, int timeout_ms)
{
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(2 * sizeof(int))];
  } control;
  struct iovec io = {.iov_base = (void *)(uintptr_t)m, .iov_len = sizeof *m};
  struct msghdr h = {.msg_iov = &io, .msg_iovlen = 1};
  if (n) {
    memset(&control, 0, sizeof control);
    h.msg_control = control.bytes;
    h.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)n);
    struct cmsghdr *c = CMSG_FIRSTHDR(&h);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)n);
    memcpy(CMSG_DATA(c), fds, sizeof(int) * (size_t)n);
  }
  for (;;) {
    if (sendmsg(sock, &h, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
      return 0;
    if (errno == EINTR)
      continue;
    if (errno != EAGAIN)
      return -errno;
    int r = wait_for(sock, POLLOUT, timeout_ms);
    if (r < 0)
      return r;
  }
}

int keeper_msg_recv(int sock, struct keeper_msg *ret_msg, int ret_fds[2], int timeout_ms)
{
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(2 * sizeof(int))];
  } control;
  struct keeper_msg m;
  struct iovec io = {.iov_base = &m, .iov_len = sizeof m};
  struct msghdr h = {
      .msg_iov = &io, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
  int r = wait_for(sock, POLLIN, timeout_ms);
  if (r < 0)
    return r;
  ssize_t k;
  do
    k = recvmsg(sock, &h, MSG_CMSG_CLOEXEC);
  while (k < 0 && errno == EINTR);
  if (k <= 0)
    return k < 0 ? -errno : 0;
  ret_fds[0] = ret_fds[1] = -1;
  struct cmsghdr *c = CMSG_FIRSTHDR(&h);
  if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
    size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(ret_fds, CMSG_DATA(c), (n > 2 ? 2 : n) * sizeof(int));
  }
  if (k != sizeof m)
    return -EPROTO;
  *ret_msg = m;
  return 1;
}

int keeper_session(struct daemon *d, uint32_t session, const struct dray_geometry *geo, int *ret_u, int *ret_m)
{
  struct keeper_msg m = {.op = KEEPER_SESSION, .kind = KEEP_SESSION, .id = session, .geo = *geo}, answer;
  int fds[2];
  LOCKED(&d->keeper_lock);
  int r = keeper_msg_send(d->keeper, &m, NULL, 0, CALL_MS);
  if (r == 0)
    r = keeper_msg_recv(d->keeper, &answer, fds, CALL_MS);
  if (r <= 0)
    return r < 0 ? r : -EPIPE;
  if (answer.error < 0 || fds[0] < 0 || fds[1] < 0)
    return answer.error < 0 ? answer.error : -EPROTO;
  *ret_u = fds[0];
  *ret_m = fds[1];
  return 0;
}

void keeper_hold(struct daemon *d, unsigned kind, uint32_t id, int fd)
{
  struct keeper_msg m = {.op = KEEPER_HOLD, .kind = kind, .id = id};
  LOCKED(&d->keeper_lock);
  int r = keeper_msg_send(d->keeper, &m, &fd, 1, CALL_MS);
  if (r < 0)
    log_line(&d->log, LOG_WARN, "keeper does not hold fd %u/%u: %s", kind, id, strerror(-r));
}

void keeper_drop(struct daemon *d, unsigned kind, uint32_t id)
{
  struct keeper_msg m = {.op = KEEPER_DROP, .kind = kind, .id = id};
  LOCKED(&d->keeper_lock);
  keeper_msg_send(d->keeper, &m, NULL, 0, CALL_MS);
}

void keeper_drains(struct daemon *d, uint32_t tier)
{
  struct keeper_msg m = {.op = KEEPER_DRAINS, .id = tier};
  LOCKED(&d->keeper_lock);
  int r = keeper_msg_send(d->keeper, &m, NULL, 0, CALL_MS);
  if (r < 0)
    log_line(&d->log, LOG_WARN, "keeper does not remember the drain of tier %s: %s", d->cfg->tier[tier].name,
             strerror(-r));
}

int keeper_detach(struct daemon *d, uint32_t tier)
{
  struct keeper_msg m = {.op = KEEPER_DETACH, .id = tier}, answer;
  int fds[2];
  LOCKED(&d->keeper_lock);
  int r = keeper_msg_send(d->keeper, &m, NULL, 0, CALL_MS);
  if (r == 0)
    r = keeper_msg_recv(d->keeper, &answer, fds, CALL_MS);
  return r <= 0 ? (r < 0 ? r : -EPIPE) : answer.error;
}

int keeper_read(struct daemon *d, struct quota_plan *ret_plan, struct config_diff *ret_diff, struct err *e)
{
  struct keeper_msg m = {.op = KEEPER_READ}, answer = {0};
  int fds[2] = {-1, -1};
  LOCKED(&d->keeper_lock);
  int r = keeper_msg_send(d->keeper, &m, NULL, 0, CALL_MS);
  if (r == 0)
    r = keeper_msg_recv(d->keeper, &answer, fds, CALL_MS);
  if (r <= 0)
    return r < 0 ? r : -EPIPE;
  CLEAN_FD fd = fds[0];
  if (fds[1] >= 0)
    close(fds[1]);
  if (answer.error < 0) {
    ssize_t n = fd < 0 ? 0 : pread(fd, e->text, sizeof e->text - 1, 0);
    e->text[n > 0 ? n : 0] = 0;
    return answer.error;
  }
  bool whole = fd >= 0 && pread(fd, ret_plan, sizeof *ret_plan, 0) == sizeof *ret_plan;
  if (whole && ret_diff)
    whole = pread(fd, ret_diff, sizeof *ret_diff, sizeof *ret_plan) == sizeof *ret_diff;
  return whole ? 0 : -EPROTO;
}

void keeper_stands(struct daemon *d)
{
  struct keeper_msg m = {.op = KEEPER_STANDS};
  LOCKED(&d->keeper_lock);
  keeper_msg_send(d->keeper, &m, NULL, 0, CALL_MS);
}

void keeper_ready(struct daemon *d)
{
  struct keeper_msg m = {.op = KEEPER_READY};
  LOCKED(&d->keeper_lock);
  keeper_msg_send(d->keeper, &m, NULL, 0, CALL_MS);
}
