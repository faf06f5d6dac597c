/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rte_ring through a private header. Each side keeps the whole struct rte_ring in a private page that is mapped
 * right in front of the shared slots, so that &r[1] is the first slot:
 *
 *   [guard][private page ... struct rte_ring][slots, MAP_SHARED][guard]
 *
 * Only one u32 per direction crosses the border. It is imported when the private ring runs empty (consumer) or full
 * (producer), range-checked, and exported after the work is safe. No field of DPDK's struct is ever shared, so the two
 * sides may use different DPDK versions and a peer can corrupt nothing but its own slots (facts: ring.md 1.6, 1.7).
 *
 * One thread per half.
 */
#ifndef RING_WIRE_H
#define RING_WIRE_H

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include <rte_ring.h>
#include <rte_ring_elem.h>
#include <rte_ring_peek.h>
#include <rte_ring_peek_zc.h>

#include "include/priv/bits.h"
#include "include/priv/order.h"

#define WIRE_ELEM 64u /* both directions carry 64-byte entries: one size, one code path */

static_assert(sizeof(struct rte_ring) % 64 == 0, "slots follow the header on a line of their own");
static_assert(sizeof(struct rte_ring) <= PAGE_BYTES, "the header fits its private page");

/* The mapping behind one half. */
struct wire {
  struct rte_ring *r;
  void *map;
  uint64_t map_bytes;
};

/* Maps the private page and the slots at [off, off + slots*64) of fd. start is the index both sides begin at.
   0 or -errno. */
int wire_map(struct wire *w, int fd, uint64_t off, uint32_t slots, int writable, uint32_t start);
void wire_unmap(struct wire *w);

/* ---- producing half ---- */
struct wire_out {
  struct wire w;
  uint32_t *mine;         /* the index we publish */
  const uint32_t *theirs; /* how far the peer has consumed */
  struct rte_ring_zc_data zc;
  uint32_t room;   /* slots reserved by the open zero-copy enqueue, 0: none open */
  uint32_t staged; /* of these, handed out */
  uint32_t hidden; /* filled by closed enqueues and not yet published */
};

/* Imports the peer's index. -EPROTO when it is impossible. */
static inline int wire_out_import(struct wire_out *o)
{
  struct rte_ring *r = o->w.r;
  uint32_t c = index_see(o->theirs); /* [SQC] or [CQC] */
  if (c == r->cons.tail)
    return 0;
  if ((uint32_t)(r->prod.tail - c) > r->capacity || (uint32_t)(c - r->cons.tail) > r->capacity)
    return -EPROTO;
  r->cons.head = r->cons.tail = c;
  return 0;
}

/* Closes the open zero-copy enqueue in the private ring; the peer sees nothing of it yet. */
static inline void wire_out_settle(struct wire_out *o)
{
  if (o->room) {
    rte_ring_enqueue_zc_elem_finish(o->w.r, o->staged);
    o->hidden += o->staged;
    o->room = o->staged = 0;
  }
}

/* The next free slot to write, or NULL when the ring is full (after importing once). ret_err is set to -EPROTO on a
   lying peer. Nothing is visible to the peer until wire_out_commit(). */
static inline void *wire_out_slot(struct wire_out *o, int *ret_err)
{
  struct rte_ring *r = o->w.r;
  if (UNLIKELY(o->staged == o->room)) {
    wire_out_settle(o);
    o->room = rte_ring_enqueue_zc_burst_elem_start(r, WIRE_ELEM, r->capacity, &o->zc, NULL);
    if (o->room == 0) {
      int e = wire_out_import(o);
      if (e < 0) {
        *ret_err = e;
        return NULL;
      }
      o->room = rte_ring_enqueue_zc_burst_elem_start(r, WIRE_ELEM, r->capacity, &o->zc, NULL);
      if (o->room == 0)
        return NULL;
    }
  }
  uint32_t i = o->staged++;
  return i < o->zc.n1 ? (char *)o->zc.ptr1 + (size_t)i * WIRE_ELEM
                      : (char *)o->zc.ptr2 + (size_t)(i - o->zc.n1) * WIRE_ELEM;
}

/* Makes the filled slots visible; returns how many. */
static inline uint32_t wire_out_commit(struct wire_out *o)
{
  wire_out_settle(o);
  uint32_t n = o->hidden;
  if (n) {
    o->hidden = 0;
    index_publish(o->mine, o->w.r->prod.tail); /* [SQ] or [CQ] */
  }
  return n;
}

/* Fetches the slots [from, from + n) after those handed out, to be written: each was last read by the other side, and a
   store to one at a time waits for each of them. Only a hint. */
static inline void wire_out_ahead(const struct wire_out *o, uint32_t from, uint32_t n)
{
  const struct rte_ring *r = o->w.r;
  const char *slots = (const char *)&r[1];
  uint32_t at = r->prod.tail + o->staged + from;
  for (uint32_t i = 0; i < n; i++)
    prefetch_write(slots + (size_t)((at + i) & r->mask) * WIRE_ELEM);
}

/* Position that the next slot handed out will have. */
static inline uint32_t wire_out_pos(const struct wire_out *o)
{
  return o->w.r->prod.tail + o->staged;
}

/* ---- consuming half ---- */
struct wire_in {
  struct wire w;
  const uint32_t *theirs; /* how far the peer has produced */
  uint32_t *mine;         /* the index we publish */
};

/* Imports the peer's index when the private ring is empty. 1: there is something now; 0; -EPROTO. */
static inline int wire_in_import(struct wire_in *c)
{
  struct rte_ring *r = c->w.r;
  uint32_t p = index_see(c->theirs); /* [SQ] or [CQ] */
  if (p == r->prod.tail)
    return 0;
  /* the private ring is empty here, so the new index may be at most a capacity ahead, and never behind */
  if ((uint32_t)(p - r->cons.head) > r->capacity)
    return -EPROTO;
  r->prod.head = r->prod.tail = p;
  return 1;
}

/* Up to n entries copied out into buf: the one and only fetch of peer memory. Returns the count, or -EPROTO. The slots
   are released by wire_in_release(). */
static inline int wire_in_take(struct wire_in *c, void *buf, uint32_t n)
{
  struct rte_ring *r = c->w.r;
  uint32_t k = rte_ring_sc_dequeue_burst_elem(r, buf, WIRE_ELEM, n, NULL);
  if (k == 0) {
    int e = wire_in_import(c);
    if (e <= 0)
      return e;
    k = rte_ring_sc_dequeue_burst_elem(r, buf, WIRE_ELEM, n, NULL);
  }
  copied_once();
  return (int)k;
}
/* The same, each entry `stride` bytes behind the one before: where it stays. */
static inline int wire_in_take_apart(struct wire_in *c, void *buf, size_t stride, uint32_t n)
{
  struct rte_ring *r = c->w.r;
  struct rte_ring_zc_data zc;
  uint32_t k = rte_ring_dequeue_zc_burst_elem_start(r, WIRE_ELEM, n, &zc, NULL);
  if (k == 0) {
    int e = wire_in_import(c);
    if (e <= 0)
      return e;
    k = rte_ring_dequeue_zc_burst_elem_start(r, WIRE_ELEM, n, &zc, NULL);
  }
  for (uint32_t i = 0; i < k; i++) {
    const void *from = i < zc.n1 ? (const char *)zc.ptr1 + (size_t)i * WIRE_ELEM
                                 : (const char *)zc.ptr2 + (size_t)(i - zc.n1) * WIRE_ELEM;
    memcpy((char *)buf + i * stride, from, WIRE_ELEM);
  }
  rte_ring_dequeue_zc_elem_finish(r, k);
  copied_once();
  return (int)k;
}
/* True when the peer has published something that was not taken. */
static inline int wire_in_pending(const struct wire_in *c)
{
  const struct rte_ring *r = c->w.r;
  return r->cons.head != r->prod.tail || index_see(c->theirs) != r->prod.tail;
}
/* Gives the slots of everything taken so far back to the peer, save the last `keep` entries. */
static inline void wire_in_release(struct wire_in *c, uint32_t keep)
{
  index_publish(c->mine, c->w.r->cons.tail - keep); /* [SQC] or [CQC] */
}
/* Position of the next entry to be taken. */
static inline uint32_t wire_in_pos(const struct wire_in *c)
{
  return c->w.r->cons.tail;
}
#endif
