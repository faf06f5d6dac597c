/* SPDX-License-Identifier: Apache-2.0 */
#include "transports/file/op.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include <dray/types.h>

#include "base/crc.h"
#include "include/priv/bits.h"
#include "transports/addressable.h"
#include "transports/file/status.h"

/* xfer_vec goes to the kernel as iovec, without a copy */
static_assert(sizeof(struct xfer_vec) == sizeof(struct iovec), "xfer_vec is an iovec");
static_assert(offsetof(struct xfer_vec, len) == offsetof(struct iovec, iov_len), "xfer_vec is an iovec");

#define IO_MAX ((uint64_t)1 << 30)

static bool all_aligned(const struct xfer *x)
{
  uint64_t bits = x->slab_off;
  for (uint32_t i = 0; i < x->nvec; i++)
    bits |= (uintptr_t)x->vec[i].base | x->vec[i].len;
  return is_aligned(bits, OP_ALIGN);
}

int file_op_begin(struct file_op *op, const struct xfer *x, bool direct_io, uint8_t path, uint8_t bounce_path)
{
  if (x->op == XFER_WRITE && !is_aligned(x->slab_off, OP_ALIGN))
    return -EINVAL;
  bool crc = x->flags & XFER_CRC;
  bool bounce = (direct_io && !all_aligned(x)) || (crc && x->op == XFER_WRITE && !(x->flags & XFER_FRAGILE));
  *op = (struct file_op){.x = *x,
                         .at = vec_begin(x->vec),
                         .slot = OP_NO_SLOT,
                         .bounce = bounce,
                         .has_crc = crc && bounce,
                         .direct_io = direct_io,
                         .path = bounce ? bounce_path : path};
  return 0;
}

static void next_direct(struct file_op *op, struct file_io *io)
{
  uint32_t left = (uint32_t)(op->x.vec + op->x.nvec - op->at.v);
  if (op->at.off || left == 1) {
    io->buf = vec_ptr(&op->at);
    io->len = MIN_OF(vec_left(&op->at), IO_MAX);
  } else {
    io->iov = (const struct iovec *)(const void *)op->at.v;
    io->niov = left;
    io->len = op->x.bytes - op->pos;
  }
}

/* False when the source of a write could not be read. */
static bool next_bounce(struct file_op *op, void *buf, uint64_t buf_bytes, struct file_io *io)
{
  op->head = (uint32_t)(io->off & (OP_ALIGN - 1));
  op->part = MIN_OF(op->x.bytes - op->pos, buf_bytes - op->head);
  uint64_t end = op->head + op->part, cover = align_up(end, OP_ALIGN);
  io->off -= op->head;
  io->buf = buf;
  io->len = cover;
  if (op->x.op == XFER_READ)
    return true;
  struct xfer_vec to = {(char *)buf + op->head, op->part};
  struct xfer_done d;
  addr_copy(&(struct addr_how){.plan = &copy_plan_default, .flags = XFER_READ_SOON}, vec_begin(&to), op->at, op->part,
            &d);
  if (d.status != XFER_OK) {
    d.cookie = op->x.cookie;
    d.path = op->path;
    d.bytes = op->pos; /* what came to the buffer is not in place */
    op->end = d;
    return false;
  }
  memset((char *)buf + end, 0, cover - end); /* the slot's rest: never an older tenant's bytes */
  return true;
}

bool file_op_next(struct file_op *op, const struct segments *s, void *buf, uint64_t buf_bytes, struct file_io *ret_io)
{
  uint64_t off = op->x.slab->dev_off + op->x.slab_off + op->pos;
  struct file_io io = {.seg = segment_of(s, off), .off = segment_off(s, off)};
  if (!op->bounce)
    next_direct(op, &io);
  else if (!next_bounce(op, buf, buf_bytes, &io))
    return false;
  *ret_io = io;
  return true;
}

static bool op_fail(struct file_op *op, int err)
{
  op->end = status_failed(op->x.cookie, op->path, err, op->pos);
  return true;
}

/* n useful bytes more are in place. */
static bool op_progress(struct file_op *op, uint64_t n)
{
  vec_advance(&op->at, n);
  op->pos += n;
  op->tries = 0;
  if (op->pos < op->x.bytes)
    return false;
  op->end = status_ok(op->x.cookie, op->path, op->x.bytes);
  op->end.crc = op->crc;
  op->end.has_crc = op->has_crc;
  return true;
}

static bool result_bounce(struct file_op *op, uint64_t res, const void *buf)
{
  uint64_t n = res > op->head ? MIN_OF(res - op->head, op->part) : 0;
  if (op->x.op == XFER_WRITE && n < op->part)
    n &= ~(uint64_t)(OP_ALIGN - 1); /* go on at an aligned offset */
  if (!n) {
    op->end = status_short(op->x.cookie, op->path, op->pos);
    return true;
  }
  if (op->has_crc)
    op->crc = crc32c(op->crc, (const char *)buf + op->head, n);
  if (op->x.op == XFER_READ) {
    struct xfer_vec from = {(char *)(uintptr_t)buf + op->head, n};
    struct xfer_done d;
    addr_copy(&(struct addr_how){.plan = &copy_plan_default, .flags = op->x.flags & XFER_READ_SOON}, op->at,
              vec_begin(&from), n, &d);
    if (d.status != XFER_OK) {
      d.cookie = op->x.cookie;
      d.path = op->path;
      d.bytes += op->pos;
      op->end = d;
      return true;
    }
  }
  return op_progress(op, n);
}

bool file_op_result(struct file_op *op, int64_t res, const void *buf)
{
  if (res < 0) {
    bool again = res == -EAGAIN || res == -EINTR;
    return again && ++op->tries < OP_TRIES ? false : op_fail(op, (int)-res);
  }
  if (op->bounce)
    return result_bounce(op, (uint64_t)res, buf);
  uint64_t n = MIN_OF((uint64_t)res, op->x.bytes - op->pos);
  if (op->direct_io && n < op->x.bytes - op->pos)
    n &= ~(uint64_t)(OP_ALIGN - 1);
  if (!n) {
    op->end = status_short(op->x.cookie, op->path, op->pos);
    return true;
  }
  return op_progress(op, n);
}
