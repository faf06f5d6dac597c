/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Xfers in parts: each a work request over one bounce slot. A part that went down with its connection goes out again on
 * another; an xfer ends when none of its parts is out, or, reading, without those that are: their slot stays theirs
 * until the device has let go of it.
 */
#include <errno.h>
#include <string.h>

#include <dray/types.h>

#include "base/copy.h"
#include "base/crc.h"
#include "include/priv/order.h"
#include "transports/addressable.h"
#include "transports/rdma/rdma_internal.h"
#include "transports/rdma/status.h"

#define STUCK_NS 1000000000ull /* a part nobody waits for, on a connection that brought nothing since: it is dead */

static char *slot_of(const struct rdma_lane *l, uint32_t part)
{
  return l->d->bounce + l->bounce_off + part * RDMA_PART_BYTES;
}

static void part_free(struct rdma_lane *l, uint32_t i)
{
  l->part[i].state = PART_FREE;
  l->part[i].x = RDMA_NONE;
  l->part[i].next = l->part_free;
  l->part_free = i;
  l->parts_used--;
}

static void xfer_fail(struct xrec *r, uint16_t reason, int err, uint64_t at)
{
  if (!r->reason) {
    r->reason = reason;
    r->err = err;
  }
  r->bad_at = MIN_OF(r->bad_at, at);
}

void lane_end(struct rdma_lane *l, uint32_t at)
{
  struct xrec *r = &l->x[at];
  if (r->parts || (!r->reason && r->landed < r->x.bytes))
    return;
  if (r->queued) { /* it has something to cut still: out of the queue first */
    uint32_t *link = &l->cut_head, before = RDMA_NONE;
    while (*link != at) {
      before = *link;
      link = &l->x[*link].next;
    }
    *link = r->next;
    if (l->cut_tail == at)
      l->cut_tail = before;
  }
  uint8_t path = r->x.op == XFER_READ ? DRAY_PATH_RDMA_READ : DRAY_PATH_RDMA_WRITE;
  struct xfer_done d = r->reason ? status_failed(r->x.cookie, path, r->reason, r->err, MIN_OF(r->bad_at, r->cut))
                                 : status_ok(r->x.cookie, path, r->x.bytes);
  if (r->reason) {
    d.bad_unit = r->bad_unit;
    d.bad_addr = r->bad_addr;
  } else if (r->x.flags & XFER_CRC) {
    d.crc = r->crc;
    d.has_crc = 1;
  }
  r->used = r->queued = false;
  r->next = l->x_free;
  l->x_free = at;
  l->xs--;
  tally_end(&l->tally, r->x.op == XFER_WRITE, d.status == XFER_OK, r->x.bytes, r->begun_ns, l->now_ns, !l->xs);
  *lane_done(l) = d;
}

/* ---- out ---- */

/* Only a connection made under the same understanding: a rkey from before the peer's restart, or from a lease that is
   over, is never used on another, where it might mean something else. */
static uint32_t path_choose(struct rdma_lane *l, uint32_t gen)
{
  struct stripe_path s[ADDRESS_PATHS_MAX];
  bool full;
  for (uint32_t i = 0; i < l->d->paths; i++)
    s[i] = (struct stripe_path){l->path[i].up && l->path[i].gen == gen, l->path[i].open, l->path[i].room,
                                l->path[i].bytes};
  return stripe_choose(s, l->d->paths, l->turn++, &full);
}

static void again_push(struct rdma_lane *l, uint32_t i)
{
  l->part[i].state = PART_AGAIN;
  l->part[i].next = RDMA_NONE;
  if (l->again_tail == RDMA_NONE)
    l->again_head = i;
  else
    l->part[l->again_tail].next = i;
  l->again_tail = i;
}

static const struct lent_seg *lent_at(const struct lent *t, uint64_t off)
{
  uint32_t lo = 0, hi = t->n;
  while (hi - lo > 1) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (t->seg[mid].off <= off)
      lo = mid;
    else
      hi = mid;
  }
  return &t->seg[lo];
}

/* Where the slab is: in what the peer lent, or a cell of its own that it has named. */
static const struct lent *lent_of(const struct rdma_lane *l, const struct xfer *x)
{
  return x->slab->far ? x->slab->far : (const struct lent *)(uintptr_t)word_see(&l->d->lent);
}

/* False: not now; it is as it was. */
static bool part_post(struct rdma_lane *l, uint32_t i, uint32_t path)
{
  struct part *pt = &l->part[i];
  const struct xfer *x = &l->x[pt->x].x;
  struct lane_path *p = &l->path[path];
  uint64_t off = x->slab->dev_off + x->slab_off + pt->off, slot = l->bounce_off + i * RDMA_PART_BYTES;
  const struct lent_seg *s = lent_at(lent_of(l, x), off);
  struct ibv_sge sge = verbs_mem_sge(&l->d->bounce_mem, slot, pt->bytes, p->local_dev);
  struct ibv_send_wr wr = {.wr_id = i,
                           .sg_list = &sge,
                           .num_sge = 1,
                           .opcode = pt->write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
                           .send_flags = IBV_SEND_SIGNALED,
                           .wr.rdma = {.remote_addr = s->s.addr + (off - s->off), .rkey = s->s.rkey[p->remote_dev]}},
                     *bad;
  int rc = ibv_post_send(p->qp, &wr, &bad);
  if (rc == ENOMEM || rc == EAGAIN)
    return false; /* the queue is full: back-pressure */
  if (rc) {
    lane_fail_path(l, p);
    return false;
  }
  pt->state = PART_OUT;
  pt->path = (uint8_t)path;
  pt->posted_ns = l->now_ns;
  p->open++;
  p->bytes += pt->bytes;
  return true;
}

/* The next piece of the xfer, in a slot; a write's bytes are brought there. False: its memory cannot be read. */
static bool part_cut(struct rdma_lane *l, uint32_t at, uint32_t *ret_part)
{
  struct xrec *r = &l->x[at];
  uint32_t i = l->part_free;
  struct part *pt = &l->part[i];
  uint64_t off = r->x.slab->dev_off + r->x.slab_off + r->cut, in_slot = l->bounce_off + i * RDMA_PART_BYTES;
  const struct lent_seg *s = lent_at(lent_of(l, &r->x), off);
  uint64_t n = MIN_OF(MIN_OF(r->x.bytes - r->cut, RDMA_PART_BYTES), s->off + s->s.bytes - off);
  /* bounce memory may have been registered in pieces, too */
  n = MIN_OF(n, l->d->bounce_mem.piece - in_slot % l->d->bounce_mem.piece);
  *pt = (struct part){.x = at, .next = pt->next, .write = r->x.op == XFER_WRITE, .bytes = (uint32_t)n, .off = r->cut};
  if (pt->write) {
    struct xfer_vec to = {slot_of(l, i), n};
    struct xfer_done d;
    unsigned flags = XFER_READ_SOON | (r->x.flags & (unsigned)(XFER_CRC | XFER_FRAGILE));
    addr_copy(&(struct addr_how){.plan = &copy_plan_default,
                                 .flags = flags,
                                 .copy_flags = r->x.flags & XFER_FRAGILE ? COPY_FRAGILE : 0},
              vec_begin(&to), r->at, n, &d);
    if (d.status != XFER_OK) {
      xfer_fail(r, d.reason, d.err, r->cut);
      r->bad_unit = d.bad_unit;
      r->bad_addr = d.bad_addr;
      pt->x = RDMA_NONE;
      return false;
    }
    pt->crc = d.crc;
  } else {
    pt->at = r->at;
  }
  l->part_free = pt->next;
  l->parts_used++;
  vec_advance(&r->at, n);
  r->cut += n;
  r->parts++;
  *ret_part = i;
  return true;
}

static void cut_pop(struct rdma_lane *l)
{
  struct xrec *r = &l->x[l->cut_head];
  l->cut_head = r->next;
  if (l->cut_head == RDMA_NONE)
    l->cut_tail = RDMA_NONE;
  r->queued = false;
}

void lane_pump(struct rdma_lane *l)
{
  uint32_t gen = link_see(&l->d->gen);
  while (l->again_head != RDMA_NONE) {
    uint32_t i = l->again_head, at = l->part[i].x, next = l->part[i].next, path;
    struct xrec *r = &l->x[at];
    bool stale = r->x.slab->unit != gen;
    if (!stale && ((path = path_choose(l, gen)) == STRIPE_NONE || !part_post(l, i, path)))
      return;
    l->again_head = next;
    if (next == RDMA_NONE)
      l->again_tail = RDMA_NONE;
    if (stale) {
      xfer_fail(r, DRAY_PEER_STALE, ESTALE, l->part[i].off);
      r->parts--;
      part_free(l, i);
      lane_end(l, at);
    }
  }
  while (l->cut_head != RDMA_NONE) {
    uint32_t at = l->cut_head, i, path;
    struct xrec *r = &l->x[at];
    if (r->x.slab->unit != gen) /* what was there went with its lease */
      xfer_fail(r, DRAY_PEER_STALE, ESTALE, r->cut);
    if (r->reason || r->cut == r->x.bytes) {
      cut_pop(l);
      lane_end(l, at);
      continue;
    }
    if (l->part_free == RDMA_NONE || (path = path_choose(l, gen)) == STRIPE_NONE || !lent_of(l, &r->x))
      return;
    if (!part_cut(l, at, &i))
      continue;
    if (!part_post(l, i, path)) {
      again_push(l, i);
      return;
    }
  }
}

void lane_fail_path(struct rdma_lane *l, struct lane_path *p)
{
  struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
  (void)l;
  if (!p->qp || p->dying)
    return;
  p->up = false;
  p->dying = true;
  ibv_modify_qp(p->qp, &a, IBV_QP_STATE); /* what is out comes back flushed */
}

/* ---- in ---- */

static void part_landed(struct rdma_lane *l, uint32_t i)
{
  struct part *pt = &l->part[i];
  struct xrec *r = &l->x[pt->x];
  if (!pt->write && r->reason) { /* it fails already: these bytes are not brought */
    r->bad_at = MIN_OF(r->bad_at, pt->off);
    return;
  }
  if (!pt->write) {
    struct xfer_vec from = {slot_of(l, i), pt->bytes};
    struct xfer_done d;
    addr_copy(&(struct addr_how){.plan = &copy_plan_default,
                                 .flags = r->x.flags & (unsigned)(XFER_READ_SOON | XFER_CRC),
                                 .copy_flags = r->x.flags & XFER_FRAGILE ? COPY_FRAGILE : 0},
              pt->at, vec_begin(&from), pt->bytes, &d);
    if (d.status != XFER_OK) {
      xfer_fail(r, d.reason, d.err, pt->off + d.bytes);
      r->bad_unit = d.bad_unit;
      r->bad_addr = d.bad_addr;
      return;
    }
    pt->crc = d.crc;
  }
  r->landed += pt->bytes;
  if (r->x.flags & XFER_CRC)
    r->crc ^= crc32c_shift(pt->crc, r->x.bytes - (pt->off + pt->bytes));
}

void lane_wc(struct rdma_lane *l, const struct ibv_wc *wc)
{
  uint32_t i = (uint32_t)wc->wr_id;
  struct part *pt = i < l->parts_n ? &l->part[i] : NULL;
  if (!pt || pt->state != PART_OUT)
    return;
  struct lane_path *p = &l->path[pt->path];
  uint32_t at = pt->x;
  p->open--;
  p->bytes -= pt->bytes;
  if (wc->status == IBV_WC_SUCCESS)
    p->ok_ns = l->now_ns;
  else
    lane_fail_path(l, p);
  if (at == RDMA_NONE) {
    part_free(l, i);
    return;
  }
  struct xrec *r = &l->x[at];
  if (wc->status == IBV_WC_SUCCESS) {
    part_landed(l, i);
  } else {
    struct wc_meaning m = status_of(wc->status);
    if (m.path && !r->reason && ++pt->tries < RDMA_TRIES) {
      again_push(l, i);
      return;
    }
    xfer_fail(r, m.reason, m.err, pt->off);
  }
  r->parts--;
  part_free(l, i);
  lane_end(l, at);
}

/* ---- deadlines ---- */

static bool any_up(const struct rdma_lane *l)
{
  for (uint32_t i = 0; i < l->d->paths; i++)
    if (l->path[i].up)
      return true;
  return false;
}

/* Parts that wait to go out again are dropped; reads that are out go on without it; writes that are out are brought
   back with their connection: nothing of the xfer may land once it has ended. */
static void parts_recall(struct rdma_lane *l, uint32_t at)
{
  struct xrec *r = &l->x[at];
  uint32_t *link = &l->again_head, last = RDMA_NONE;
  while (*link != RDMA_NONE) {
    uint32_t i = *link;
    if (l->part[i].x == at) {
      *link = l->part[i].next;
      r->bad_at = MIN_OF(r->bad_at, l->part[i].off);
      r->parts--;
      part_free(l, i);
    } else {
      last = i;
      link = &l->part[i].next;
    }
  }
  l->again_tail = last;
  for (uint32_t i = 0; r->parts && i < l->parts_n; i++) {
    struct part *pt = &l->part[i];
    if (pt->state != PART_OUT || pt->x != at)
      continue;
    r->bad_at = MIN_OF(r->bad_at, pt->off);
    if (pt->write) {
      struct lane_path *p = &l->path[pt->path];
      p->dial->quiet = true;
      lane_fail_path(l, p);
    } else {
      pt->x = RDMA_NONE;
      r->parts--;
    }
  }
}

void lane_expire(struct rdma_lane *l)
{
  bool gone = !any_up(l) && link_status(l->d->link) == LINK_DOWN;
  uint64_t next = UINT64_MAX;
  if (l->now_ns < stat_read(&l->next_ns) && !gone)
    return;
  for (uint32_t at = 0; l->xs && at < l->d->depth; at++) {
    struct xrec *r = &l->x[at];
    if (!r->used)
      continue;
    bool late = l->now_ns >= r->deadline_ns;
    if (late || gone) {
      bool timely = late && any_up(l);
      xfer_fail(r, timely ? DRAY_DEADLINE : DRAY_PEER_UNREACHABLE, timely ? ETIMEDOUT : EHOSTUNREACH, r->cut);
      parts_recall(l, at);
      lane_end(l, at);
      if (r->used)
        next = MIN_OF(next, l->now_ns + 20000000u);
    } else {
      next = MIN_OF(next, r->deadline_ns);
    }
  }
  for (uint32_t i = 0; l->parts_used && i < l->parts_n; i++) {
    struct part *pt = &l->part[i];
    struct lane_path *p = &l->path[pt->path];
    if (pt->state != PART_OUT || pt->x != RDMA_NONE)
      continue;
    next = MIN_OF(next, l->now_ns + STUCK_NS / 4);
    if (l->now_ns - pt->posted_ns > STUCK_NS && p->ok_ns < pt->posted_ns)
      lane_fail_path(l, p);
  }
  stat_set(&l->next_ns, next);
}
