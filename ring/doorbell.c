/* SPDX-License-Identifier: Apache-2.0 */
#include "ring/doorbell.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void doorbell_ring(int eventfd)
{
  uint64_t one = 1;
  ssize_t n = write(eventfd, &one, sizeof one);
  (void)n; /* EAGAIN: the counter is full, so a notification is already on its way */
}

void doorbell_wake(const uint32_t *cq_prod)
{
  syscall(SYS_futex, cq_prod, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void doorbell_poke(int sock)
{
  char c = 1;
  ssize_t n = send(sock, &c, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  (void)n;
}

int doorbell_sleep(const uint32_t *word, uint32_t seen, uint64_t timeout_ns)
{
  struct timespec ts = {.tv_sec = (time_t)(timeout_ns / 1000000000u), .tv_nsec = (long)(timeout_ns % 1000000000u)};
  if (syscall(SYS_futex, word, FUTEX_WAIT, seen, &ts, NULL, 0) == 0)
    return 0;
  return -errno;
}
