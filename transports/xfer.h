/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One piece of work for one transport, and its end. mover/dispatch.c makes an xfer of at most a chunk,
 * a transport's poll makes the done record, mover/complete.c reads it. Both are plain data.
 */
#ifndef TRANSPORTS_XFER_H
#define TRANSPORTS_XFER_H

#include <stdint.h>

/* 0 is no operation. */
enum xfer_op {
  XFER_READ = 1,  /* slab -> memory */
  XFER_WRITE = 2, /* memory -> slab */
  XFER_COPY = 3,  /* memory -> memory; only transports with caps.addressable take it */
  XFER_SYNC = 4,  /* what was written before is durable when done; no memory side */
};

enum xfer_flag {
  XFER_READ_SOON = 1 << 0, /* a CPU reads the destination next: keep it in cache */
  XFER_CRC = 1 << 1,       /* the done record has the CRC32C of the bytes, if that costs no second read */
  XFER_FRAGILE = 1 << 2,   /* the memory side may be poisoned by hardware: no string instruction (base/stream.h) */
};

/* A contiguous piece of the mover's own address space. */
struct xfer_vec {
  void *base;
  uint64_t len;
};

#define XFER_VECS_MAX 256

struct xfer {
  uint64_t cookie;             /* comes back in the done record; any value */
  uint8_t op;                  /* enum xfer_op */
  uint8_t flags;               /* enum xfer_flag */
  uint16_t nvec;               /* pieces of the memory side, 1..XFER_VECS_MAX (SYNC: 0) */
  uint16_t nsrc;               /* COPY: pieces of the source; otherwise 0 */
  uint64_t slab_off;           /* READ, WRITE: byte offset in the slab; the bytes are contiguous there */
  uint64_t bytes;              /* sum over vec (and over src) */
  const struct slab_mem *slab; /* READ, WRITE: from slab_add, alive until the done record */
  const struct xfer_vec *vec;  /* memory side (COPY: destination); array and memory alive until the done record */
  const struct xfer_vec *src;  /* COPY: source */
  uint64_t deadline_ns;        /* CLOCK_MONOTONIC; 0: none. A transport over a network ends it by then, DEADLINE */
  const void *next;            /* where the xfer after this one will read: a hint, any value, never touched */
};

/* How an xfer ended. 0 is no status. */
enum xfer_status {
  XFER_OK = 1,
  XFER_FAILED = 2, /* reason and err say why; bytes is the prefix that is in place */
};

struct xfer_done {
  uint64_t cookie;
  uint8_t status;  /* enum xfer_status */
  uint8_t path;    /* enum dray_path: what was in fact done */
  uint16_t reason; /* enum dray_reason, DRAY_REASON_OK when XFER_OK */
  int32_t err;     /* the provider's own code (errno), 0 when XFER_OK */
  uint64_t bytes;  /* truly in place, a prefix */
  uint32_t crc;    /* CRC32C of the bytes that were stored, when has_crc */
  uint8_t has_crc; /* only for XFER_CRC and XFER_OK; a transport that does not see the bytes leaves it 0, but never for
                      a WRITE without XFER_FRAGILE: an engine may rewrite its memory before anybody reads it again */
  /* POISONED only: */
  uint64_t bad_unit;  /* bytes that are lost together, a power of two; 0: not known */
  uintptr_t bad_addr; /* a byte of the unit in the mover's own memory; 0: it is on the device, at slab_off + bytes */
};
#endif
