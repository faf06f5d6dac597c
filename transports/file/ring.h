/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One lane's io_uring as the kernel sees it: made and locked down before the fork, used after it.
 *
 * The rings are shared memory, but struct io_uring is each process's own: a new worker, forked from a keeper
 * that never submits, must take the indices from the rings (ring_resync). What an old worker left outstanding
 * is counted from the kernel's own indices: entries consumed less completions posted.
 */
#ifndef TRANSPORTS_FILE_RING_H
#define TRANSPORTS_FILE_RING_H

#include <liburing.h>
#include <stdbool.h>
#include <stdint.h>

struct ring {
  struct io_uring io;
  void *bounce;
  uint64_t bounce_bytes;
  bool registered; /* bounce is fixed buffer 0 */
};

/* entries: submissions at once. Registers the files and the bounce buffer, restricts the ring to file I/O on
   registered files, enables it. bounce_bytes is halved down to 1 MiB where RLIMIT_MEMLOCK is short, then left
   unregistered: r says. 0 or -errno; nothing is left after a failure. */
int ring_open(struct ring *r, uint32_t entries, const int *fds, uint32_t nfds, uint64_t bounce_bytes);
void ring_close(struct ring *r);

/* The kernel has completions that it writes when the thread enters it next: io_uring_get_events. */
static inline bool ring_pending(const struct ring *r)
{
  return IO_URING_READ_ONCE(*r->io.sq.kflags) & IORING_SQ_TASKRUN;
}

/* In a new worker, before its first submit. */
void ring_resync(struct ring *r);
/* In the keeper when the worker is gone: drops what it had not submitted, waits until what it had has ended,
   drops the completions. 0 or -ETIMEDOUT. deadline_ns is CLOCK_MONOTONIC. */
int ring_quiesce(struct ring *r, uint64_t deadline_ns);
#endif
