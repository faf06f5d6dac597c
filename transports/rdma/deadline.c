/* SPDX-License-Identifier: Apache-2.0 */
/* Xfers whose time is up, or whose peer is gone: nothing of theirs lands once they have ended. */
#include <errno.h>

#include <dray/types.h>

#include "include/priv/order.h"
#include "transports/rdma/rdma_internal.h"

#define STUCK_NS 1000000000ull /* a part nobody waits for, on a connection that brought nothing since: it is dead */

static bool any_up(const struct rdma_lane *l)
{
  for (uint32_t i = 0; i < l->d->paths; i++)
    if (l->path[i].up)
      return true;
  return false;
}

/* Parts that wait to go out again are dropped; reads that are out into slots go on without it; what else is out is
   brought back with its connection: nothing of the xfer may land once it has ended. */
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
    if (pt->write || pt->direct) {
      lane_cut_path(l, &l->path[pt->path]);
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
