/* SPDX-License-Identifier: Apache-2.0 */
#include "transports/file/ring.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "include/priv/bits.h"

#define BOUNCE_MIN MIB(1)

/* liburing 2.3 declares the calls for restrictions and for enabling, and forgets to export them. */
static int ring_register(const struct io_uring *io, unsigned what, void *arg, unsigned n)
{
  return syscall(SYS_io_uring_register, io->ring_fd, what, arg, n) < 0 ? -errno : 0;
}

static int ring_restrict(struct io_uring *io)
{
  static const uint8_t ops[] = {IORING_OP_READ,       IORING_OP_WRITE,       IORING_OP_READV, IORING_OP_WRITEV,
                                IORING_OP_READ_FIXED, IORING_OP_WRITE_FIXED, IORING_OP_FSYNC, IORING_OP_NOP};
  struct io_uring_restriction res[ARRAY_LEN(ops) + 1];
  memset(res, 0, sizeof res);
  for (unsigned i = 0; i < ARRAY_LEN(ops); i++) {
    res[i].opcode = IORING_RESTRICTION_SQE_OP;
    res[i].sqe_op = ops[i];
  }
  res[ARRAY_LEN(ops)].opcode = IORING_RESTRICTION_SQE_FLAGS_REQUIRED;
  res[ARRAY_LEN(ops)].sqe_flags = IOSQE_FIXED_FILE;
  return ring_register(io, IORING_REGISTER_RESTRICTIONS, res, ARRAY_LEN(res));
}

/* Shared, so that the worker's copies and the pages that the kernel pinned in the keeper are the same. */
static int ring_bounce(struct ring *r, uint64_t want)
{
  void *p = mmap(NULL, want, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED)
    return -ENOMEM;
  r->bounce = p;
  r->bounce_bytes = want;
  uint64_t bytes = want;
  for (;;) {
    struct iovec iov = {p, bytes};
    int rc = io_uring_register_buffers(&r->io, &iov, 1);
    if (!rc)
      break;
    if ((rc != -ENOMEM && rc != -EPERM) || bytes / 2 < BOUNCE_MIN)
      return 0; /* plain reads and writes of the same memory work as well, a little slower */
    bytes = align_up(bytes / 2, PAGE_BYTES);
  }
  if (bytes < want)
    munmap((char *)p + bytes, want - bytes);
  r->bounce_bytes = bytes;
  r->registered = true;
  return 0;
}

static int ring_setup(struct ring *r, uint32_t entries, unsigned flags)
{
  struct io_uring_params p;
  memset(&p, 0, sizeof p);
  p.flags = IORING_SETUP_R_DISABLED | IORING_SETUP_CQSIZE | flags;
  p.cq_entries = entries * 2; /* every entry outstanding and every completion unread: it cannot overflow */
  return io_uring_queue_init_params(entries, &r->io, &p);
}

int ring_open(struct ring *r, uint32_t entries, const int *fds, uint32_t nfds, uint64_t bounce_bytes)
{
  memset(r, 0, sizeof *r);
  /* completions wait for the lane's next look (ring_pending) rather than interrupt the thread for each; 5.19 */
  int rc = ring_setup(r, entries, IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG);
  if (rc == -EINVAL)
    rc = ring_setup(r, entries, 0);
  if (rc)
    return rc;
  rc = io_uring_register_files(&r->io, fds, nfds);
  if (!rc)
    rc = ring_bounce(r, bounce_bytes);
  if (!rc)
    rc = ring_restrict(&r->io);
  if (!rc)
    rc = ring_register(&r->io, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
  if (rc)
    ring_close(r);
  return rc;
}

void ring_close(struct ring *r)
{
  io_uring_queue_exit(&r->io);
  if (r->bounce)
    munmap(r->bounce, r->bounce_bytes);
  r->bounce = NULL;
}

void ring_resync(struct ring *r)
{
  r->io.sq.sqe_head = r->io.sq.sqe_tail = io_uring_smp_load_acquire(r->io.sq.ktail);
}

static uint64_t now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int ring_quiesce(struct ring *r, uint64_t deadline_ns)
{
  struct io_uring *io = &r->io;
  unsigned consumed = io_uring_smp_load_acquire(io->sq.khead);
  /* written to the ring but never submitted: the next submit would send them */
  io_uring_smp_store_release(io->sq.ktail, consumed);
  for (;;) {
    unsigned posted = io_uring_smp_load_acquire(io->cq.ktail);
    io_uring_smp_store_release(io->cq.khead, posted); /* nobody waits for them; and poll() below waits for new ones */
    if (posted == consumed) {
      ring_resync(r);
      return 0;
    }
    uint64_t now = now_ns();
    if (now >= deadline_ns)
      return -ETIMEDOUT;
    struct pollfd p = {.fd = io->ring_fd, .events = POLLIN};
    uint64_t ms = (deadline_ns - now + 999999) / 1000000;
    (void)poll(&p, 1, (int)MIN_OF(ms, 1000u)); /* a completion, or the loop looks again */
  }
}
