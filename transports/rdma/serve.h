/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answering side of a mover: listens, says who may ask, lends memory, and shows cells. One thread; what it touches
 * of the store it touches through serve_cells. A peer reads and writes what it was told of by itself: we see nothing of
 * that, so whatever ends (a lease, a reservation, a slab) ends by deregistering, and nothing lands afterwards.
 */
#ifndef TRANSPORTS_RDMA_SERVE_H
#define TRANSPORTS_RDMA_SERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "include/priv/err.h"
#include "transports/rdma/wire.h"

#define SERVE_LISTEN_MAX 4u
#define SERVE_LEASE_MS 10000u

/* A cell's bytes, while they are pinned (or reserved) for a peer. */
struct serve_cell {
  uint64_t slab; /* any number that is that slab's alone; 0 is none */
  char *base;    /* of the slab */
  uint64_t slab_bytes;
  uint64_t off, len; /* in the slab */
  uint8_t scope, taint, has_crc, tier;
  uint32_t crc;
  struct dray_key mkey;
  void *own; /* the callee's */
};

/* What the mover does for peers; called by the one thread. Reasons are enum dray_reason. */
struct serve_cells {
  void *ctx;
  /* Asks the gate for that peer. OK: *ret_cell is filled and, with pin, stays where it is until unpin. */
  unsigned (*find)(void *ctx, const struct wire_resolve *q, bool pin, struct serve_cell *ret_cell);
  void (*unpin)(void *ctx, struct serve_cell *c);
  /* Room for a new cell. */
  unsigned (*reserve)(void *ctx, const struct wire_reserve *q, struct serve_cell *ret_cell);
  /* Its bytes are there, as many as were reserved, and nobody writes them any more: checks the CRC, lists it. Ends the
     reservation whatever comes of it. */
  unsigned (*commit)(void *ctx, struct serve_cell *c, uint32_t crc);
  void (*abandon)(void *ctx, struct serve_cell *c);
};

struct serve_config {
  const char *name; /* of this node, as peers see it */
  const char *listen[SERVE_LISTEN_MAX];
  uint32_t listen_n;
  const char *key_file; /* NULL: none */
  uint64_t lend;        /* bytes of memory to lend in all */
  uint32_t lease_ms;    /* 0: SERVE_LEASE_MS */
  uint32_t epoch;
  uint64_t cell_max;                        /* 0: none larger than WIRE_CELL_MAX */
  uint64_t piece_max;                       /* tests: see verbs_open */
  const struct serve_cells *cells;          /* NULL: only lends */
  void (*say)(void *ctx, const char *text); /* a line for the log; any time, by the thread. May be NULL */
  void *say_ctx;
};

struct serve_stats {
  uint64_t peers, connections, refused, lent_bytes, handles, registered_slabs; /* refused: in all, the others now */
};

struct serve;
/* Reads the key and loads what is needed. Before the worker is closed in. 0 or -errno with a text. cfg's strings live
   until serve_start. */
int serve_open(const struct serve_config *cfg, struct err *e, struct serve **ret_serve);
/* Opens devices, listens, makes the thread. 0 or -errno with a text. */
int serve_start(struct serve *s, struct err *e);
/* Ends everything and everybody's access. NULL is fine. */
void serve_close(struct serve *s);
/* The slab is going: peers reach it no more when this returns. Any thread. */
void serve_slab_gone(struct serve *s, uint64_t slab);
void serve_stats(struct serve *s, struct serve_stats *ret_stats);
#endif
