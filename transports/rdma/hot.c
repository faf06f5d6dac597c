/* SPDX-License-Identifier: Apache-2.0 */
/* A lane's own queues: taking xfers, looking at completions, sleeping until there are some. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <dray/types.h>

#include "include/priv/cleanup.h"
#include "include/priv/order.h"
#include "transports/rdma/rdma_internal.h"
#include "transports/rdma/status.h"

static int cq_make(struct rdma_lane *l, uint32_t dev)
{
  const struct verbs_dev *v = &l->d->verbs.dev[dev];
  struct lane_cq *c = &l->cq[dev];
  uint32_t want = MIN_OF(l->parts_n * l->d->paths + 16, v->max_cqe);
  c->channel = ibv_create_comp_channel(v->ctx);
  if (!c->channel || fcntl(c->channel->fd, F_SETFL, O_NONBLOCK) < 0)
    return -errno;
  c->cq = ibv_create_cq(v->ctx, (int)want, NULL, c->channel, 0);
  struct epoll_event w = {.events = EPOLLIN};
  return !c->cq || epoll_ctl(l->epoll, EPOLL_CTL_ADD, c->channel->fd, &w) ? -ENOMEM : 0;
}

int lane_make(struct rdma_dev *d, struct rdma_lane *l, uint32_t idx)
{
  l->d = d;
  l->parts_n = (uint32_t)(d->lane_bounce / RDMA_PART_BYTES);
  for (uint32_t i = 0; i < d->verbs.n; i++) /* what is out has room in the completion queue, whatever becomes of it */
    l->parts_n = MIN_OF(l->parts_n, MAX_OF(d->verbs.dev[i].max_cqe, 2u) - 1);
  l->bounce_off = idx * d->lane_bounce;
  l->x = calloc(d->depth, sizeof *l->x);
  l->part = calloc(l->parts_n, sizeof *l->part);
  l->done = calloc(d->depth, sizeof *l->done);
  l->epoll = epoll_create1(EPOLL_CLOEXEC);
  l->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  l->cut_head = l->cut_tail = l->again_head = l->again_tail = RDMA_NONE;
  stat_set(&l->next_ns, UINT64_MAX);
  struct epoll_event w = {.events = EPOLLIN};
  if (!l->x || !l->part || !l->done || l->epoll < 0 || l->bell < 0 || epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->bell, &w))
    return -ENOMEM;
  for (uint32_t i = 0; i < d->depth; i++)
    l->x[i].next = i + 1 < d->depth ? i + 1 : RDMA_NONE;
  for (uint32_t i = 0; i < l->parts_n; i++)
    l->part[i] = (struct part){.x = RDMA_NONE, .next = i + 1 < l->parts_n ? i + 1 : RDMA_NONE};
  int rc = 0;
  uint32_t room = l->parts_n;
  l->sges = l->sges_rd = REGION_SGES;
  for (uint32_t i = 0; !rc && i < d->verbs.n; i++) {
    room = MIN_OF(room, d->verbs.dev[i].max_wr);
    l->sges = MIN_OF(l->sges, d->verbs.dev[i].max_sge);
    l->sges_rd = MIN_OF(l->sges_rd, d->verbs.dev[i].max_sge_rd);
    rc = cq_make(l, i);
  }
  for (uint32_t i = 0; i < d->paths; i++)
    l->path[i].room = room;
  return rc;
}

void lane_unmake(struct rdma_lane *l)
{
  for (uint32_t i = 0; i < WIRE_DEVS; i++) {
    if (l->cq[i].cq)
      ibv_destroy_cq(l->cq[i].cq);
    if (l->cq[i].channel)
      ibv_destroy_comp_channel(l->cq[i].channel);
  }
  if (l->d) {
    close_fd(&l->epoll);
    close_fd(&l->bell);
  }
  free(l->x);
  free(l->part);
  free(l->done);
}

void lane_ring(struct rdma_lane *l)
{
  uint64_t one = 1;
  (void)!write(l->bell, &one, sizeof one);
  link_set(&l->rung, 1); /* after it: who sees this finds it there */
}

static void bell_take(struct rdma_lane *l)
{
  uint64_t v;
  if (!link_see(&l->rung))
    return;
  link_set(&l->rung, 0);
  (void)!read(l->bell, &v, sizeof v);
}

struct xfer_done *lane_done(struct rdma_lane *l)
{
  return &l->done[l->done_head++ % l->d->depth];
}

static uint32_t hot_in_flight(struct dev *dev, uint32_t lane)
{
  const struct rdma_lane *l = &rdma_of(dev)->lane[lane];
  return l->xs + (l->done_head - l->done_tail);
}

static int hot_submit(struct dev *dev, uint32_t lane, const struct xfer *x)
{
  struct rdma_dev *d = rdma_of(dev);
  struct rdma_lane *l = &d->lane[lane];
  if (hot_in_flight(dev, lane) >= d->depth)
    return -EAGAIN;
  if (x->op == XFER_COPY)
    return -EINVAL;
  l->now_ns = address_now_ns();
  if (x->op == XFER_SYNC) {
    *lane_done(l) = status_ok(x->cookie, DRAY_PATH_NONE, 0);
    lane_ring(l);
    return 0;
  }
  bool wanted = false;
  const struct region_mem *region =
      x->flags & XFER_FRAGILE ? NULL : regions_find(&d->regions, vec_begin(x->vec), x->bytes, &wanted);
  if (wanted)
    link_ring(d->link);
  uint32_t at = l->x_free;
  struct xrec *r = &l->x[at];
  l->x_free = r->next;
  uint64_t until = l->now_ns + (uint64_t)d->timeout_ms * 1000000u;
  *r = (struct xrec){.x = *x,
                     .region = region,
                     .at = vec_begin(x->vec),
                     .bad_at = UINT64_MAX,
                     .deadline_ns = x->deadline_ns && x->deadline_ns < until ? x->deadline_ns : until,
                     .begun_ns = l->now_ns,
                     .next = RDMA_NONE,
                     .used = true,
                     .queued = true};
  l->xs++;
  tally_begin(&l->tally, l->now_ns);
  if (l->cut_tail == RDMA_NONE)
    l->cut_head = at;
  else
    l->x[l->cut_tail].next = at;
  l->cut_tail = at;
  if (r->deadline_ns < stat_read(&l->next_ns))
    stat_set(&l->next_ns, r->deadline_ns);
  return 0;
}

/* Whose connection is it now. */
static void path_look(struct rdma_lane *l, struct lane_path *p)
{
  uint32_t word = link_see(&p->dial->word);
  if (word == DIAL_UP && !p->qp) {
    p->qp = p->dial->qp;
    p->local_dev = p->dial->local_dev;
    p->remote_dev = p->dial->remote_dev;
    p->gen = p->dial->gen;
    p->up = true;
    p->dying = false;
    p->ok_ns = l->now_ns;
  } else if (word == DIAL_LOST && !p->dying) { /* perhaps before we ever saw it up */
    p->up = false;
    p->dying = true;
  }
  if (p->dying && !p->open && (word == DIAL_UP || word == DIAL_LOST)) {
    p->dying = false;
    p->qp = NULL;
    link_set(&p->dial->word, DIAL_DRAINED);
    link_ring(l->d->link);
  }
}

/* Takes what is there; when nothing is and the lane means to sleep, sees to it that the channel says when something is.
 */
static void cq_look(struct rdma_lane *l, struct lane_cq *c)
{
  struct ibv_wc wc[16];
  for (;;) {
    int n = ibv_poll_cq(c->cq, 16, wc);
    for (int i = 0; i < n; i++)
      lane_wc(l, &wc[i]);
    c->spent |= n > 0;
    if (n > 0)
      continue;
    if (c->armed && c->spent) {
      struct ibv_cq *cq;
      void *ctx;
      if (ibv_get_cq_event(c->channel, &cq, &ctx))
        return; /* it has not come yet, and will be seen again */
      ibv_ack_cq_events(c->cq, 1);
      c->armed = false;
    }
    if (c->armed || !l->doze)
      return;
    if (ibv_req_notify_cq(c->cq, 0))
      return;
    c->armed = true;
    c->spent = false;
  }
}

static void hot_flush(struct dev *dev, uint32_t lane)
{
  struct rdma_lane *l = &rdma_of(dev)->lane[lane];
  if (l->cut_head != RDMA_NONE || l->again_head != RDMA_NONE)
    lane_pump(l);
}

static uint32_t hot_poll(struct dev *dev, uint32_t lane, struct xfer_done *done, uint32_t n)
{
  struct rdma_dev *d = rdma_of(dev);
  struct rdma_lane *l = &d->lane[lane];
  bool busy = l->xs || l->parts_used;
  if (busy)
    l->now_ns = address_now_ns();
  bell_take(l);
  for (uint32_t i = 0; i < d->paths; i++)
    path_look(l, &l->path[i]);
  for (uint32_t i = 0; i < d->verbs.n; i++)
    if (busy ||
        (l->cq[i].armed && l->cq[i].spent)) /* its event is still to be taken, else the lane never sleeps again */
      cq_look(l, &l->cq[i]);
  if (busy) {
    lane_expire(l);
    lane_pump(l);
    for (uint32_t i = 0; i < d->paths; i++)
      path_look(l, &l->path[i]);
  } else if (stat_read(&l->next_ns) != UINT64_MAX) {
    stat_set(&l->next_ns, UINT64_MAX); /* else the link rings for the deadline of what has long ended */
  }
  l->doze = false;
  uint32_t got = 0;
  while (got < n && l->done_tail != l->done_head)
    done[got++] = l->done[l->done_tail++ % d->depth];
  return got;
}

static void hot_doze(struct dev *dev, uint32_t lane)
{
  rdma_of(dev)->lane[lane].doze = true;
}

static int hot_poll_fd(struct dev *dev, uint32_t lane)
{
  return rdma_of(dev)->lane[lane].epoll;
}

const struct transport_hot hot_rdma = {
    .size = sizeof(struct transport_hot),
    .submit = hot_submit,
    .flush = hot_flush,
    .poll = hot_poll,
    .poll_fd = hot_poll_fd,
    .doze = hot_doze,
    .in_flight = hot_in_flight,
};
