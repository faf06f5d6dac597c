/* SPDX-License-Identifier: Apache-2.0 */
#include "ring/handshake.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

/* Length of each message and how many fds it may bring (min, max). */
static const struct {
  uint16_t size;
  uint8_t fds_min, fds_max;
} shapes[] = {
    [DRAY_MSG_HELLO] = {sizeof(struct dray_msg_hello), 0, 1},
    [DRAY_MSG_WELCOME] = {sizeof(struct dray_msg_welcome), 0, 4},
    [DRAY_MSG_REGION_ADD] = {sizeof(struct dray_msg_region), 1, 1},
    [DRAY_MSG_REGION_DEL] = {sizeof(struct dray_msg_id), 0, 0},
    [DRAY_MSG_LAYOUT_DEFINE] = {sizeof(struct dray_msg_layout), 0, 0},
    [DRAY_MSG_KEY_DEFINE] = {sizeof(struct dray_msg_key), 0, 0},
    [DRAY_MSG_REPLY] = {sizeof(struct dray_msg_reply), 0, 0},
    [DRAY_MSG_SLAB] = {sizeof(struct dray_msg_slab), 1, 1},
    [DRAY_MSG_SLAB_GONE] = {sizeof(struct dray_msg_id), 0, 0},
};

int handshake_send(int sock, const void *msg, size_t n, const int *fds, int nfds)
{
  char control[CMSG_SPACE(sizeof(int) * HANDSHAKE_FDS_MAX)];
  struct iovec io = {.iov_base = (void *)(uintptr_t)msg, .iov_len = n};
  struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1};
  if (nfds < 0 || nfds > HANDSHAKE_FDS_MAX)
    return -EINVAL;
  if (nfds) {
    memset(control, 0, sizeof control);
    m.msg_control = control;
    m.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)nfds);
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)nfds);
    memcpy(CMSG_DATA(c), fds, sizeof(int) * (size_t)nfds);
  }
  ssize_t k;
  do
    k = sendmsg(sock, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
  while (k < 0 && errno == EINTR);
  return k < 0 ? -errno : 0;
}

int handshake_recv(int sock, union handshake_msg *ret_msg, int ret_fds[HANDSHAKE_FDS_MAX])
{
  /* room for exactly the most that any message takes: the kernel closes what is beyond and says MSG_CTRUNC */
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int) * HANDSHAKE_FDS_MAX)];
  } control;
  union handshake_msg msg;
  struct iovec io = {.iov_base = &msg, .iov_len = sizeof msg};
  struct msghdr m = {
      .msg_iov = &io, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
  int fds[HANDSHAKE_FDS_MAX] = {-1, -1, -1, -1}, nfds = 0;
  bool bad = false;
  ssize_t k;
  do
    k = recvmsg(sock, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  while (k < 0 && errno == EINTR);
  if (k < 0)
    return -errno;
  for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
      continue;
    size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < n; i++) {
      int fd;
      memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      if (nfds < HANDSHAKE_FDS_MAX) {
        fds[nfds++] = fd;
      } else {
        close(fd);
        bad = true;
      }
    }
  }
  if (k == 0 && nfds == 0)
    return 0;
  if ((m.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) || (size_t)k < sizeof msg.h)
    bad = true;
  if (!bad) {
    uint32_t t = msg.h.type;
    if (t == 0 || t >= ARRAY_LEN(shapes) || (size_t)k != shapes[t].size || nfds < shapes[t].fds_min ||
        nfds > shapes[t].fds_max)
      bad = true;
  }
  if (bad) {
    for (int i = 0; i < nfds; i++)
      close(fds[i]);
    return -EPROTO;
  }
  *ret_msg = msg;
  memcpy(ret_fds, fds, sizeof fds);
  return (int)k;
}

int handshake_wait(int sock, int timeout_ms)
{
  struct pollfd p = {.fd = sock, .events = POLLIN};
  int n;
  do
    n = poll(&p, 1, timeout_ms);
  while (n < 0 && errno == EINTR);
  return n < 0 ? -errno : n == 0 ? -ETIMEDOUT : 0;
}

int handshake_peer(int sock, pid_t *ret_pid, uid_t *ret_uid, gid_t *ret_gid)
{
  struct ucred c;
  socklen_t n = sizeof c;
  if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &c, &n) < 0)
    return -errno;
  *ret_pid = c.pid;
  *ret_uid = c.uid;
  *ret_gid = c.gid;
  return 0;
}

int handshake_pidfd(int sock)
{
  int fd = -1;
  socklen_t n = sizeof fd;
  if (getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, &fd, &n) < 0)
    return -errno;
  return fd;
}

bool handshake_pidfd_is(int pidfd, pid_t pid)
{
  char path[64], line[256];
  snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
  CLEAN_FILE *f = fopen(path, "re");
  if (!f)
    return false;
  while (fgets(line, sizeof line, f))
    if (strncmp(line, "Pid:", 4) == 0)
      return strtol(line + 4, NULL, 10) == (long)pid;
  return false;
}

int handshake_hello_check(const struct dray_msg_hello *h, const char **ret_what)
{
  const char *what = NULL;
  if (h->magic != DRAY_RING_MAGIC)
    what = "magic";
  else if (h->major != DRAY_RING_MAJOR)
    what = "major version";
  else if (h->sqe_size != sizeof(struct dray_sqe) || h->cqe_size != sizeof(struct dray_cqe))
    what = "entry sizes";
  else if (h->entries < DRAY_ENTRIES_MIN || h->entries > DRAY_ENTRIES_MAX)
    what = "entries";
  else if (h->items > DRAY_ITEMS_MAX)
    what = "items";
  else if (!memchr(h->agent, 0, sizeof h->agent) || h->agent[0] == 0)
    what = "agent name";
  else if (!memchr(h->token, 0, sizeof h->token))
    what = "token";
  if (!what)
    return 0;
  *ret_what = what;
  return -EPROTO;
}
