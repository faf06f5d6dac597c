/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hot ops over one io_uring per lane. submit prepares entries, flush sends them in one system call, poll reads
 * completions from shared memory. An xfer has at most one entry outstanding, a SYNC up to SYNC_WIDTH, and one SYNC
 * runs at a time in a lane (the next sees what it made durable), so the rings have room by construction.
 */
#include <string.h>
#include <time.h>

#include <dray/types.h>

#include "transports/file/bounce.h"
#include "transports/file/file_internal.h"
#include "transports/file/op.h"
#include "transports/file/ring.h"
#include "transports/file/status.h"
#include "transports/stub.h"

#define SYNC_WIDTH 8u

struct sync_run {
  uint32_t *queue; /* ops, a ring of depth (a power of two) */
  uint32_t head, tail;
  uint32_t next, outstanding; /* next file to look at; fsyncs not yet answered */
  int err;
  uint64_t *seen; /* per file: durable_due */
};

struct lane {
  struct ring ring;
  struct bounce bounce;
  struct file_op *op;
  uint32_t *idle, n_idle;
  struct sync_run sync;
};

struct uring {
  uint32_t lanes, depth, queue_mask;
  struct lane lane[];
};

/* user_data: the op, and for an fsync which file (plus one). */
static uint64_t tag(uint32_t op, uint32_t file1)
{
  return op | (uint64_t)file1 << 32;
}

static int lane_open(struct file_dev *d, struct uring *u, struct lane *l, const int *fds, uint64_t bounce_bytes)
{
  int rc = ring_open(&l->ring, pow2_at_least(u->depth + SYNC_WIDTH), fds, file_count(d), bounce_bytes);
  if (rc)
    return rc;
  rc = bounce_init(&l->bounce, l->ring.bounce, l->ring.bounce_bytes, u->depth);
  l->op = calloc(u->depth, sizeof *l->op);
  l->idle = calloc(u->depth, sizeof *l->idle);
  l->sync.queue = calloc(u->queue_mask + 1, sizeof *l->sync.queue);
  l->sync.seen = calloc(file_count(d), sizeof *l->sync.seen);
  return rc || !l->op || !l->idle || !l->sync.queue || !l->sync.seen ? -ENOMEM : 0;
}

static void lane_close(struct lane *l)
{
  if (l->ring.bounce)
    ring_close(&l->ring);
  free(l->bounce.idle);
  free(l->op);
  free(l->idle);
  free(l->sync.queue);
  free(l->sync.seen);
}

void uring_close(struct file_dev *d)
{
  for (uint32_t i = 0; d->uring && i < d->uring->lanes; i++)
    lane_close(&d->uring->lane[i]);
  free(d->uring);
  d->uring = NULL;
}

static void note_bounce(struct file_dev *d, uint64_t want)
{
  const struct uring *u = d->uring;
  uint64_t have = 0;
  for (uint32_t i = 0; i < u->lanes; i++)
    have += u->lane[i].ring.registered ? u->lane[i].ring.bounce_bytes : 0;
  if (have < want * u->lanes)
    status_note(&d->addr.dev.caps, "bounce: need %llu KiB locked, have %llu: raise LimitMEMLOCK",
                (unsigned long long)(want * u->lanes >> 10), (unsigned long long)have >> 10);
}

int uring_open(struct file_dev *d, const struct dev_config *cfg)
{
  struct uring *u = calloc(1, sizeof *u + cfg->lanes * sizeof u->lane[0]);
  CLEAN_PTR int *fds = malloc(file_count(d) * sizeof *fds);
  if (!u || !fds) {
    free(u);
    return -ENOMEM;
  }
  d->uring = u;
  u->lanes = cfg->lanes;
  u->depth = cfg->depth;
  u->queue_mask = pow2_at_least(cfg->depth) - 1;
  for (uint32_t i = 0; i < file_count(d); i++)
    fds[i] = file_fd(d, i);
  uint64_t bounce = align_up(MAX_OF(cfg->bounce_bytes, MIB(1)), PAGE_BYTES);
  for (uint32_t i = 0; i < u->lanes; i++) {
    int rc = lane_open(d, u, &u->lane[i], fds, bounce);
    if (rc) {
      uring_close(d);
      return rc;
    }
  }
  note_bounce(d, bounce);
  return 0;
}

int uring_start(struct file_dev *d)
{
  struct uring *u = d->uring;
  for (uint32_t i = 0; i < u->lanes; i++) {
    struct lane *l = &u->lane[i];
    ring_resync(&l->ring);
    bounce_reset(&l->bounce);
    for (l->n_idle = 0; l->n_idle < u->depth; l->n_idle++)
      l->idle[l->n_idle] = u->depth - 1 - l->n_idle;
    l->sync.head = l->sync.tail = 0;
  }
  d->addr.dev.hot = &hot_uring;
  return 0;
}

int uring_quiesce(struct file_dev *d, uint32_t deadline_ms)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  uint64_t deadline = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec + deadline_ms * 1000000ull;
  int rc = 0;
  for (uint32_t i = 0; i < d->uring->lanes; i++) {
    int one = ring_quiesce(&d->uring->lane[i].ring, deadline);
    rc = one ? one : rc;
  }
  return rc;
}

/* There is room: see the top. */
static struct io_uring_sqe *lane_sqe(struct lane *l)
{
  return io_uring_get_sqe(&l->ring.io);
}

/* An end that needs no I/O still comes as a completion, so that poll_fd tells of it. */
static void lane_nop(struct lane *l, uint32_t i)
{
  struct io_uring_sqe *sqe = lane_sqe(l);
  io_uring_prep_nop(sqe);
  sqe->flags |= IOSQE_FIXED_FILE; /* required of every entry by the ring's restrictions */
  io_uring_sqe_set_data64(sqe, tag(i, 0));
}

static void prep_io(const struct lane *l, struct io_uring_sqe *sqe, const struct file_op *op, const struct file_io *io)
{
  bool read = op->x.op == XFER_READ;
  int f = (int)io->seg;
  unsigned len = (unsigned)io->len;
  if (io->niov && read)
    io_uring_prep_readv(sqe, f, io->iov, io->niov, io->off);
  else if (io->niov)
    io_uring_prep_writev(sqe, f, io->iov, io->niov, io->off);
  else if (op->bounce && l->ring.registered && read)
    io_uring_prep_read_fixed(sqe, f, io->buf, len, io->off, 0);
  else if (op->bounce && l->ring.registered)
    io_uring_prep_write_fixed(sqe, f, io->buf, len, io->off, 0);
  else if (read)
    io_uring_prep_read(sqe, f, io->buf, len, io->off);
  else
    io_uring_prep_write(sqe, f, io->buf, len, io->off);
  sqe->flags |= IOSQE_FIXED_FILE;
}

/* Issues the next part of op i; a part that cannot be made ends the op by a NOP. */
static void lane_issue(struct file_dev *d, struct lane *l, uint32_t i)
{
  struct file_op *op = &l->op[i];
  struct file_io io;
  if (!file_op_next(op, &d->seg, bounce_at(&l->bounce, op->slot), l->bounce.slot_bytes, &io)) {
    lane_nop(l, i);
    return;
  }
  struct io_uring_sqe *sqe = lane_sqe(l);
  prep_io(l, sqe, op, &io);
  io_uring_sqe_set_data64(sqe, tag(i, 0));
}

/* Keeps up to SYNC_WIDTH fsyncs of the running sync going. */
static void sync_push(struct file_dev *d, struct lane *l)
{
  struct sync_run *s = &l->sync;
  uint32_t i = s->queue[s->head & d->uring->queue_mask];
  for (; s->next < file_count(d) && s->outstanding < SYNC_WIDTH; s->next++) {
    if (!durable_due(file_durable(d, s->next), &s->seen[s->next]))
      continue;
    struct io_uring_sqe *sqe = lane_sqe(l);
    io_uring_prep_fsync(sqe, (int)s->next, IORING_FSYNC_DATASYNC);
    sqe->flags |= IOSQE_FIXED_FILE;
    io_uring_sqe_set_data64(sqe, tag(i, s->next + 1));
    s->outstanding++;
  }
}

/* The oldest sync of the lane; one with nothing to do ends by a NOP. */
static void sync_begin(struct file_dev *d, struct lane *l)
{
  l->sync.next = 0;
  l->sync.outstanding = 0;
  l->sync.err = 0;
  sync_push(d, l);
  if (!l->sync.outstanding)
    lane_nop(l, l->sync.queue[l->sync.head & d->uring->queue_mask]);
}

static int uring_submit(struct dev *dev, uint32_t lane, const struct xfer *x)
{
  struct file_dev *d = file_of(dev);
  struct lane *l = &d->uring->lane[lane];
  if (!l->n_idle)
    return -EAGAIN;
  uint32_t i = l->idle[l->n_idle - 1];
  struct file_op *op = &l->op[i];
  if (x->op == XFER_SYNC) {
    *op = (struct file_op){.x = *x, .slot = OP_NO_SLOT};
    l->n_idle--;
    bool first = l->sync.head == l->sync.tail;
    l->sync.queue[l->sync.tail++ & d->uring->queue_mask] = i;
    if (first)
      sync_begin(d, l);
    return 0;
  }
  bool direct = d->seg.direct;
  int rc =
      file_op_begin(op, x, direct, direct ? DRAY_PATH_IO_URING_DIRECT : DRAY_PATH_IO_URING_BUFFERED, DRAY_PATH_BOUNCE);
  if (rc)
    return rc;
  if (op->bounce) {
    op->slot = bounce_take(&l->bounce);
    if (op->slot == BOUNCE_NONE)
      return -EAGAIN;
  }
  l->n_idle--;
  lane_issue(d, l, i);
  return 0;
}

static void uring_flush(struct dev *dev, uint32_t lane)
{
  struct lane *l = &file_of(dev)->uring->lane[lane];
  /* One call sends, and writes the completions that are due. It stops at an entry that the kernel refuses; on a
     passing failure (EINTR, EAGAIN) the entries stay and go with the next flush. */
  while (io_uring_sq_ready(&l->ring.io))
    if (io_uring_submit_and_get_events(&l->ring.io) <= 0)
      break;
}

/* An fsync or the NOP of an empty sync has ended; true when the running sync has. */
static bool sync_result(struct file_dev *d, struct lane *l, uint32_t file1, int res)
{
  struct sync_run *s = &l->sync;
  if (file1) {
    int err = durable_end(file_durable(d, file1 - 1), s->seen[file1 - 1], res < 0 ? -res : 0);
    s->err = s->err ? s->err : err;
    s->outstanding--;
    if (!s->err)
      sync_push(d, l);
    if (s->outstanding)
      return false;
  }
  struct file_op *op = &l->op[s->queue[s->head & d->uring->queue_mask]];
  op->end =
      s->err ? status_failed(op->x.cookie, DRAY_PATH_NONE, s->err, 0) : status_ok(op->x.cookie, DRAY_PATH_NONE, 0);
  s->head++;
  if (s->head != s->tail)
    sync_begin(d, l);
  return true;
}

/* True when the completion ended op i. */
static bool lane_result(struct file_dev *d, struct lane *l, uint32_t i, uint32_t file1, int res)
{
  struct file_op *op = &l->op[i];
  if (op->x.op == XFER_SYNC)
    return sync_result(d, l, file1, res);
  if (op->end.status) /* the NOP of an op that failed when its part was made */
    return true;
  if (!file_op_result(op, res, bounce_at(&l->bounce, op->slot))) {
    lane_issue(d, l, i);
    return false;
  }
  if (op->x.op == XFER_WRITE && op->end.bytes)
    durable_wrote(&d->durable[segment_of(&d->seg, op->x.slab->dev_off)]);
  return true;
}

static uint32_t uring_poll(struct dev *dev, uint32_t lane, struct xfer_done *done, uint32_t n)
{
  struct file_dev *d = file_of(dev);
  struct lane *l = &d->uring->lane[lane];
  unsigned head, seen = 0;
  struct io_uring_cqe *cqe;
  uint32_t k = 0;
  if (ring_pending(&l->ring))
    (void)io_uring_get_events(&l->ring.io);
  io_uring_for_each_cqe(&l->ring.io, head, cqe)
  {
    if (k == n)
      break;
    seen++;
    uint64_t t = cqe->user_data;
    uint32_t i = (uint32_t)t;
    if (!lane_result(d, l, i, (uint32_t)(t >> 32), cqe->res))
      continue;
    done[k++] = l->op[i].end;
    if (l->op[i].slot != OP_NO_SLOT)
      bounce_give(&l->bounce, l->op[i].slot);
    l->idle[l->n_idle++] = i;
  }
  if (!seen)
    return 0;
  io_uring_cq_advance(&l->ring.io, seen);
  /* a continued part or the next sync must not wait for a sweep that may sleep first */
  if (io_uring_sq_ready(&l->ring.io))
    uring_flush(dev, lane);
  return k;
}

static int uring_poll_fd(struct dev *dev, uint32_t lane)
{
  return file_of(dev)->uring->lane[lane].ring.io.ring_fd;
}

static uint32_t uring_in_flight(struct dev *dev, uint32_t lane)
{
  const struct uring *u = file_of(dev)->uring;
  return u->depth - u->lane[lane].n_idle;
}

const struct transport_hot hot_uring = {
    .size = sizeof(struct transport_hot),
    .submit = uring_submit,
    .flush = uring_flush,
    .poll = uring_poll,
    .poll_fd = uring_poll_fd,
    .doze = stub_doze,
    .in_flight = uring_in_flight,
};
