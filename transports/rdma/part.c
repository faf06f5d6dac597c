/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Xfers in parts: each a work request, over one bounce slot or, where the memory is registered, straight over that. A
 * part that went down with its connection goes out again on
 * another; an xfer ends when none of its parts is out, or, reading into slots, without those that are: their slot
 * stays theirs until the device has let go of it.
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

static char *slot_of(const struct rdma_lane *l, uint32_t part)
{
  return l->d->bounce + l->bounce_off + part * RDMA_PART_BYTES;
}

void part_free(struct rdma_lane *l, uint32_t i)
{
  l->part[i].state = PART_FREE;
  l->part[i].x = RDMA_NONE;
  l->part[i].next = l->part_free;
  l->part_free = i;
  l->parts_used--;
}

void xfer_fail(struct xrec *r, uint16_t reason, int err, uint64_t at)
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
  uint8_t path = r->bounced ? DRAY_PATH_BOUNCE : r->x.op == XFER_READ ? DRAY_PATH_RDMA_READ : DRAY_PATH_RDMA_WRITE;
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

/* Pieces of memory that a work request of it may have. */
static uint32_t sges_of(const struct rdma_lane *l, bool write)
{
  return write ? l->sges : l->sges_rd;
}

/* False: not now; it is as it was, or its xfer fails, as no connection took it. */
static bool part_post(struct rdma_lane *l, uint32_t i, uint32_t path)
{
  struct part *pt = &l->part[i];
  const struct xfer *x = &l->x[pt->x].x;
  struct lane_path *p = &l->path[path];
  uint64_t off = x->slab->dev_off + x->slab_off + pt->off, slot = l->bounce_off + i * RDMA_PART_BYTES;
  const struct lent_seg *s = lent_at(lent_of(l, x), off);
  struct ibv_sge sge[REGION_SGES];
  uint32_t sges = 1;
  if (pt->direct) {
    uint64_t all;
    sges = region_sges(l->x[pt->x].region, pt->at, pt->bytes, p->local_dev, sge, sges_of(l, pt->write), &all);
  } else {
    sge[0] = verbs_mem_sge(&l->d->bounce_mem, slot, pt->bytes, p->local_dev);
  }
  struct ibv_send_wr wr = {.wr_id = i,
                           .sg_list = sge,
                           .num_sge = (int)sges,
                           .opcode = pt->write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
                           .send_flags = IBV_SEND_SIGNALED,
                           .wr.rdma = {.remote_addr = s->s.addr + (off - s->off), .rkey = s->s.rkey[p->remote_dev]}},
                     *bad;
  int rc = ibv_post_send(p->qp, &wr, &bad);
  if (rc == ENOMEM || rc == EAGAIN)
    return false; /* the queue is full: back-pressure */
  if (rc) {
    /* the connection's fault, perhaps; after three it is the request's */
    lane_cut_path(l, p);
    if (++pt->tries >= RDMA_TRIES)
      xfer_fail(&l->x[pt->x], DRAY_IO_ERROR, rc, pt->off);
    return false;
  }
  pt->state = PART_OUT;
  pt->path = (uint8_t)path;
  pt->posted_ns = l->now_ns;
  p->open++;
  p->bytes += pt->bytes;
  return true;
}

/* How many of the next n bytes go as one work request from, or to, where they lie; 0: they are better gathered. */
static uint64_t direct_bytes(const struct rdma_lane *l, const struct xrec *r, uint64_t n)
{
  struct ibv_sge sge[REGION_SGES];
  uint64_t all;
  if (!r->region)
    return 0;
  n = MIN_OF(n, l->d->paths > 1 ? RDMA_DIRECT_BYTES / 4 : RDMA_DIRECT_BYTES);
  uint32_t pieces = region_sges(r->region, r->at, n, 0, sge, sges_of(l, r->x.op == XFER_WRITE), &all);
  return all == n || all >= pieces * RDMA_DIRECT_MIN ? all : 0;
}

/* Of the part's bytes in memory, if anybody wants it. */
static void part_sum(struct xrec *r, struct part *pt, struct xfer_done *ret_done)
{
  *ret_done = (struct xfer_done){.status = XFER_OK};
  if (r->x.flags & XFER_CRC)
    addr_crc(pt->at, pt->bytes, ret_done);
}

static void part_gather(struct rdma_lane *l, const struct xrec *r, const struct part *pt, struct xfer_done *ret_done)
{
  struct xfer_vec to = {slot_of(l, (uint32_t)(pt - l->part)), pt->bytes};
  addr_copy(&(struct addr_how){.plan = &copy_plan_default,
                               .flags = XFER_READ_SOON | (r->x.flags & (unsigned)(XFER_CRC | XFER_FRAGILE)),
                               .copy_flags = r->x.flags & XFER_FRAGILE ? COPY_FRAGILE : 0},
            vec_begin(&to), pt->at, pt->bytes, ret_done);
}

static void part_scatter(struct rdma_lane *l, const struct xrec *r, const struct part *pt, struct xfer_done *ret_done)
{
  struct xfer_vec from = {slot_of(l, (uint32_t)(pt - l->part)), pt->bytes};
  addr_copy(&(struct addr_how){.plan = &copy_plan_default,
                               .flags = r->x.flags & (unsigned)(XFER_READ_SOON | XFER_CRC),
                               .copy_flags = r->x.flags & XFER_FRAGILE ? COPY_FRAGILE : 0},
            pt->at, vec_begin(&from), pt->bytes, ret_done);
}

/* The next piece of the xfer. A write's bytes are brought into the slot, or their CRC is taken where they lie: the
   engine may change them before they are sent, and has a cell then that fails its CRC. False: its memory cannot be
   read. */
static bool part_cut(struct rdma_lane *l, uint32_t at, uint32_t *ret_part)
{
  struct xrec *r = &l->x[at];
  uint32_t i = l->part_free;
  struct part *pt = &l->part[i];
  uint64_t off = r->x.slab->dev_off + r->x.slab_off + r->cut, in_slot = l->bounce_off + i * RDMA_PART_BYTES;
  const struct lent_seg *s = lent_at(lent_of(l, &r->x), off);
  uint64_t n = MIN_OF(r->x.bytes - r->cut, s->off + s->s.bytes - off), direct = direct_bytes(l, r, n);
  if (direct)
    n = direct;
  else /* bounce memory may have been registered in pieces, too */
    n = MIN_OF(MIN_OF(n, RDMA_PART_BYTES), l->d->bounce_mem.piece - in_slot % l->d->bounce_mem.piece);
  *pt = (struct part){.x = at,
                      .next = pt->next,
                      .write = r->x.op == XFER_WRITE,
                      .direct = direct != 0,
                      .bytes = (uint32_t)n,
                      .off = r->cut,
                      .at = r->at};
  r->bounced |= !pt->direct;
  if (pt->write) {
    struct xfer_done d;
    if (pt->direct)
      part_sum(r, pt, &d);
    else
      part_gather(l, r, pt, &d);
    if (d.status != XFER_OK) {
      xfer_fail(r, d.reason, d.err, r->cut);
      r->bad_unit = d.bad_unit;
      r->bad_addr = d.bad_addr;
      pt->x = RDMA_NONE;
      return false;
    }
    pt->crc = d.crc;
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
    if (r->x.slab->unit != gen)
      xfer_fail(r, DRAY_PEER_STALE, ESTALE, l->part[i].off);
    if (!r->reason && ((path = path_choose(l, gen)) == STRIPE_NONE || !part_post(l, i, path)) && !r->reason)
      return;
    l->again_head = next;
    if (next == RDMA_NONE)
      l->again_tail = RDMA_NONE;
    if (r->reason) {
      r->bad_at = MIN_OF(r->bad_at, l->part[i].off);
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

void lane_cut_path(struct rdma_lane *l, struct lane_path *p)
{
  if (!p->dying) /* else it broke before */
    p->dial->quiet = true;
  lane_fail_path(l, p);
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
    struct xfer_done d;
    if (pt->direct)
      part_sum(r, pt, &d);
    else
      part_scatter(l, r, pt, &d);
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
    bool ours = p->dial->quiet && wc->status == IBV_WC_WR_FLUSH_ERR; /* another's deadline, or request, did it */
    pt->tries += !ours;
    if (m.path && !r->reason && pt->tries < RDMA_TRIES) {
      again_push(l, i);
      return;
    }
    xfer_fail(r, m.reason, m.err, pt->off);
  }
  r->parts--;
  part_free(l, i);
  lane_end(l, at);
}
