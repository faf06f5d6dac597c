/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One READ or WRITE on its way, in parts: what to ask of the device next, and what its answer means. Knows
 * nothing of how the I/O is made, so io_uring and the pread pool share it.
 *
 * direct: from and to the caller's memory. bounce: through a buffer, with the aligned cover of the bytes. A write with
 * XFER_CRC from an engine's memory bounces whatever its alignment: the engine may rewrite it between the device's
 * reading and ours, and then the CRC would be of other bytes than the file's.
 */
#ifndef TRANSPORTS_FILE_OP_H
#define TRANSPORTS_FILE_OP_H

#include <stdbool.h>
#include <sys/uio.h>

#include "transports/file/segment.h"
#include "transports/vec.h"

#define OP_ALIGN 4096u
#define OP_TRIES 16u

struct file_op {
  struct xfer x;
  struct vec_at at; /* memory side of pos */
  uint64_t pos;     /* bytes in place */
  uint64_t part;    /* bounce: useful bytes of the running part */
  uint32_t head;    /* bounce: where they start in the cover */
  uint32_t slot;    /* bounce: the lane's buffer, OP_NO_SLOT none */
  uint8_t tries;    /* EAGAIN, EINTR */
  bool bounce, direct_io;
  bool has_crc; /* bounced with XFER_CRC: taken of the buffer, which nobody else can write */
  uint32_t crc; /* of [0, pos) */
  uint8_t path; /* enum dray_path for the done record */
  struct xfer_done end;
};
#define OP_NO_SLOT UINT32_MAX

/* What to do next: either pieces or one buffer. */
struct file_io {
  uint32_t seg;
  uint64_t off;
  const struct iovec *iov;
  uint32_t niov; /* 0: buf */
  void *buf;
  uint64_t len;
};

/* x is checked; direct_io: the file wants aligned I/O. 0, or -EINVAL: a write at an offset that is no multiple of
   OP_ALIGN (the core promises that there are none: it would need read-modify-write). */
int file_op_begin(struct file_op *op, const struct xfer *x, bool direct_io, uint8_t path, uint8_t bounce_path);

/* The next part; a bounced write is copied to buf (buf_bytes: a multiple of OP_ALIGN, at least two).
   true: do ret_io. false: the op has failed, op->end says how. */
bool file_op_next(struct file_op *op, const struct segments *s, void *buf, uint64_t buf_bytes, struct file_io *ret_io);

/* The device answered res (bytes or -errno). true: finished, op->end is complete. false: file_op_next again. */
bool file_op_result(struct file_op *op, int64_t res, const void *buf);
#endif
