/* SPDX-License-Identifier: Apache-2.0 */
#include <dray/admin.h>

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"

static int64_t now_ms(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int wait_readable(int fd, int64_t end_ms)
{
  for (;;) {
    int64_t left = end_ms - now_ms();
    if (left <= 0)
      return -ETIMEDOUT;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int n = poll(&p, 1, (int)left);
    if (n > 0)
      return 0;
    if (n < 0 && errno != EINTR)
      return -errno;
  }
}

int dray_admin_call(const char *socket_path, const char *request, int timeout_ms, char **ret_answer)
{
  const char *env = getenv("DRAY_ADMIN");
  const char *path = socket_path ? socket_path : env && *env ? env : DRAY_ADMIN_DEFAULT;
  struct sockaddr_un a = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof a.sun_path || timeout_ms < 0)
    return -EINVAL;
  memcpy(a.sun_path, path, strlen(path));
  CLEAN_FD s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (s < 0 || connect(s, (struct sockaddr *)&a, sizeof a) < 0)
    return -errno;
  if (send(s, request, strlen(request), MSG_NOSIGNAL) < 0)
    return -errno;
  /* the answer comes in packets of up to 64 KiB, ended by the hang-up */
  int64_t end = now_ms() + timeout_ms;
  CLEAN_PTR char *text = NULL;
  size_t have = 0, room = 0;
  for (;;) {
    if (have + 65537 > room) {
      room = room ? room * 2 : 1u << 17;
      if (room > 2u * DRAY_ADMIN_ANSWER_MAX)
        return -EMSGSIZE;
      char *p = realloc(text, room);
      if (!p)
        return -ENOMEM;
      text = p;
    }
    int r = wait_readable(s, end);
    if (r < 0)
      return r;
    ssize_t n = recv(s, text + have, 65536, 0);
    if (n < 0)
      return -errno;
    if (n == 0)
      break;
    have += (size_t)n;
  }
  if (!have)
    return -ECONNRESET;
  text[have] = 0;
  *ret_answer = take_ptr(&text);
  return 0;
}
