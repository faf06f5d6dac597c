/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/admin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "mover/daemon.h"
#include "mover/loop.h"

#define ADMIN_MS 10000
#define ADMINS_MAX 32u
#define PACKET 65536u

struct admin {
  struct list link;
  int sock;
  uint64_t until_ms;
  char *answer;
  size_t len, sent;
};

static void admin_free(struct admin *a)
{
  list_remove(&a->link);
  close_fd(&a->sock);
  free(a->answer);
  free(a);
}

void admin_accept(struct daemon *d)
{
  CLEAN_FD s = accept4(d->admin_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  uint32_t n = 0;
  if (s < 0)
    return;
  LIST_EACH (&d->admins, node) {
    n++;
  }
  struct admin *a = n < ADMINS_MAX ? calloc(1, sizeof *a) : NULL;
  if (!a)
    return;
  a->sock = s;
  a->until_ms = daemon_now_ns() / 1000000u + ADMIN_MS;
  list_push_back(&d->admins, &a->link);
  if (loop_add(d, s, LOOP_ADMIN, a, EPOLLIN) < 0) {
    list_remove(&a->link);
    free(a);
    return;
  }
  take_fd(&s);
}

void admin_serve(struct daemon *d, struct admin *a)
{
  if (!a->answer) {
    char request[4096];
    ssize_t n = recv(a->sock, request, sizeof request, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
      return;
    a->answer = n > 0 ? admin_answer(d, request, (size_t)n) : NULL;
    if (!a->answer) {
      admin_free(a);
      return;
    }
    a->len = strlen(a->answer);
  }
  while (a->sent < a->len) {
    size_t n = MIN_OF(a->len - a->sent, (size_t)PACKET);
    ssize_t k = send(a->sock, a->answer + a->sent, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (k < 0 && errno == EAGAIN) {
      struct epoll_event e = {.events = EPOLLOUT, .data.u64 = (uint64_t)(uintptr_t)a << 4 | LOOP_ADMIN};
      epoll_ctl(d->epoll, EPOLL_CTL_MOD, a->sock, &e);
      return;
    }
    if (k < 0)
      break;
    a->sent += (size_t)k;
  }
  admin_free(a);
}

void admin_expire(struct daemon *d, uint64_t now_ms)
{
  LIST_EACH (&d->admins, n) {
    struct admin *a = LIST_OF(n, struct admin, link);
    if (now_ms >= a->until_ms)
      admin_free(a);
  }
}
