/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/transports/rdma_fake.h"

#include <dray/types.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "include/priv/order.h"
#include "tests/unit/transports/rdma_fake_dev.h"
#include "transports/rdma/link_internal.h"
#include "transports/rdma/remote.h"
#include "transports/rdma/serve_internal.h"

/* ---- a device in memory ---- */

#define WCS 64u

static struct {
  struct ibv_context ctx;
  struct ibv_cq cq;
  struct ibv_qp qp;
  struct ibv_mr mr;
  struct ibv_comp_channel channel;
  struct rdma_cm_id id;
  struct ibv_wc wc[WCS];
  uint32_t head, tail;
  struct ibv_pd *mr_pd, *qp_pd;
  struct pipe *pipe;
  /* what comes next; called when the queue is empty */
  bool (*next)(void *arg, union wire_msg *m);
  void *arg;
  union wire_msg sent; /* the last */
  uint32_t sends, slot;
} fake;

static int fake_poll(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
  union wire_msg m;
  (void)cq, (void)n;
  if (fake.head == fake.tail && fake.next && fake.next(fake.arg, &m)) {
    uint32_t slot = fake.slot++ % PIPE_SLOTS;
    memcpy(fake.pipe->buf + (uint64_t)(PIPE_SLOTS + slot) * WIRE_BYTES_MAX, &m, m.h.bytes);
    *wc = (struct ibv_wc){.status = IBV_WC_SUCCESS, .wr_id = 0x100u | slot, .byte_len = m.h.bytes};
    return 1;
  }
  if (fake.head == fake.tail)
    return 0;
  *wc = fake.wc[fake.tail++ % WCS];
  return 1;
}
static int fake_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
  (void)qp, (void)bad;
  memcpy(&fake.sent, (void *)(uintptr_t)wr->sg_list->addr, wr->sg_list->length);
  fake.sends++;
  fake.wc[fake.head++ % WCS] = (struct ibv_wc){.status = IBV_WC_SUCCESS, .wr_id = wr->wr_id};
  return 0;
}
static int fake_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
  (void)qp, (void)wr, (void)bad;
  return 0;
}
static int fake_notify(struct ibv_cq *cq, int solicited)
{
  (void)cq, (void)solicited;
  return 0;
}

/* what the transport calls by name */
#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
  (void)addr, (void)length, (void)access;
  fake.mr_pd = pd;
  return &fake.mr;
}
int ibv_dereg_mr(struct ibv_mr *mr)
{
  (void)mr;
  return 0;
}
struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
  (void)ctx;
  return &fake.channel;
}
int ibv_destroy_comp_channel(struct ibv_comp_channel *c)
{
  (void)c;
  return 0;
}
struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int cqe, void *arg, struct ibv_comp_channel *c, int vector)
{
  (void)ctx, (void)cqe, (void)arg, (void)c, (void)vector;
  return &fake.cq;
}
int ibv_destroy_cq(struct ibv_cq *cq)
{
  (void)cq;
  return 0;
}
int ibv_get_cq_event(struct ibv_comp_channel *c, struct ibv_cq **cq, void **ctx)
{
  (void)c, (void)cq, (void)ctx;
  return -1;
}
void ibv_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
  (void)cq, (void)n;
}
int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *a)
{
  (void)a;
  fake.qp_pd = pd;
  id->qp = &fake.qp;
  return 0;
}
void rdma_destroy_qp(struct rdma_cm_id *id)
{
  id->qp = NULL;
}
int rdma_destroy_id(struct rdma_cm_id *id)
{
  (void)id;
  return 0;
}

static void fake_reset(bool (*next)(void *arg, union wire_msg *m), void *arg)
{
  memset(&fake, 0, sizeof fake);
  fake.ctx.ops.poll_cq = fake_poll;
  fake.ctx.ops.post_send = fake_send;
  fake.ctx.ops.post_recv = fake_recv;
  fake.ctx.ops.req_notify_cq = fake_notify;
  fake.cq.context = fake.qp.context = &fake.ctx;
  fake.channel.fd = eventfd(0, EFD_CLOEXEC);
  fake.id.verbs = &fake.ctx;
  fake.next = next;
  fake.arg = arg;
}

struct ibv_context *fake_device(fake_post post, fake_take take)
{
  fake_reset(NULL, NULL);
  fake.ctx.ops.post_send = post;
  fake.ctx.ops.poll_cq = take;
  return &fake.ctx;
}

void fake_device_close(void)
{
  close(fake.channel.fd);
}

static struct verbs fake_verbs(struct ibv_pd pd[2])
{
  struct verbs v = {.n = 1};
  v.dev[0] = (struct verbs_dev){.ctx = &fake.ctx, .pd = &pd[0], .talk = &pd[1], .max_wr = 64, .max_cqe = 64};
  return v;
}

/* ---- what a peer lends ---- */

struct liar {
  struct link *k;
  uint32_t said, n, times;
  uint64_t each;
  uint32_t asked; /* questions answered */
};

static bool liar_next(void *arg, union wire_msg *m)
{
  struct liar *l = arg;
  if (fake.sends == l->asked || l->asked > l->times)
    return false;
  wire_begin(m, l->asked ? WIRE_SEGMENTS : WIRE_LENT, 7, fake.sent.h.id);
  if (l->asked++ == 0) {
    m->lent.reason = DRAY_REASON_OK;
    m->lent.lease = 3;
    m->lent.bytes = l->k->d->dev.caps.capacity;
    m->lent.segs = l->said;
    return true;
  }
  m->segments.reason = DRAY_REASON_OK;
  m->segments.n = (uint16_t)l->n;
  for (uint32_t i = 0; i < l->n; i++)
    m->segments.seg[i] = (struct wire_seg){.addr = 64 * (i + 1), .bytes = l->each};
  return true;
}

struct fake_lent fake_lend(uint64_t capacity, uint32_t said, uint32_t n, uint64_t each, uint32_t times)
{
  struct fake_lent r = {{0}, false, 0, 0};
  struct ibv_pd pd[2];
  struct err e;
  struct rdma_dev *d = calloc(1, sizeof *d);
  struct link *k = calloc(1, sizeof *k);
  struct liar liar = {.k = k, .said = said, .n = n, .each = each, .times = times};
  fake_reset(liar_next, &liar);
  d->dev.caps.capacity = capacity;
  d->paths = 1;
  d->verbs = fake_verbs(pd);
  d->link = k;
  list_init(&d->wipes);
  pthread_mutex_init(&d->lock, NULL);
  pthread_cond_init(&d->freed, NULL);
  k->d = d;
  k->epoll = -1;
  k->hail.epoch = 7;
  k->control.step = STEP_OPEN;
  k->control.id = &fake.id;
  list_init(&k->calls);
  list_init(&k->asked);
  fake.pipe = &k->pipe;
  pipe_open(&k->pipe, &d->verbs, &fake.id, &e);
  /* as the answer to AUTH leaves it */
  union wire_msg q;
  k->phase = PHASE_LEND;
  wire_begin(&q, WIRE_LEND, 7, ++k->next_id);
  q.lend.bytes = capacity;
  pipe_send(&k->pipe, &q);
  k->open_n = 1;
  calls_heard(k);
  const char *why = (const char *)(uintptr_t)k->why;
  snprintf(r.why, sizeof r.why, "%s", why ? why : "");
  r.in = k->phase == PHASE_IN;
  const struct lent *l = r.in ? (const struct lent *)(uintptr_t)d->lent : k->coming;
  r.pieces = l ? l->n : 0;
  r.questions = fake.sends;
  if (k->pipe.id)
    pipe_close(&k->pipe);
  free((void *)(uintptr_t)d->lent);
  free(k->coming);
  free(k);
  pthread_cond_destroy(&d->freed);
  pthread_mutex_destroy(&d->lock);
  free(d);
  close(fake.channel.fd);
  return r;
}

/* ---- a path ---- */

const uint32_t fake_drained = DIAL_DRAINED;

uint32_t fake_lost_path(bool seen, bool *ret_rung)
{
  uint64_t v = 0;
  struct link *k = calloc(1, sizeof *k);
  struct rdma_dev *d = calloc(1, sizeof *d);
  struct rdma_lane *l = aligned_alloc(_Alignof(struct rdma_lane), sizeof *l);
  struct dial dial = {.word = DIAL_UP, .qp = &fake.qp, .gen = 1};
  struct xfer_done done[4];
  memset((void *)l, 0, sizeof *l);
  k->d = d;
  k->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  d->link = k;
  d->lane = l;
  d->lanes = d->paths = 1;
  d->depth = 4;
  l->d = d;
  l->path[0].dial = &dial;
  l->cut_head = l->cut_tail = l->again_head = l->again_tail = RDMA_NONE;
  stat_set(&l->next_ns, UINT64_MAX);
  if (seen)
    hot_rdma.poll(&d->dev, 0, done, 4);
  link_set(&dial.word, DIAL_LOST); /* the link's thread heard of it */
  hot_rdma.poll(&d->dev, 0, done, 4);
  *ret_rung = read(k->wake, &v, sizeof v) == (ssize_t)sizeof v;
  uint32_t word = link_see(&dial.word);
  close(k->wake);
  free(l);
  free(d);
  free(k);
  return word;
}

/* ---- a busy peer ---- */

static bool ping_next(void *arg, union wire_msg *m)
{
  uint32_t *left = arg;
  if (!*left)
    return false;
  wire_begin(m, WIRE_PING, 9, (*left)--);
  return true;
}

struct fake_turns fake_busy_peer(uint32_t questions)
{
  struct fake_turns r = {0, 0, false};
  struct ibv_pd pd[2];
  struct err e;
  struct serve *s = calloc(1, sizeof *s);
  struct serve_conn *c = calloc(1, sizeof *c);
  struct serve_peer peer = {.used = true};
  fake_reset(ping_next, &questions);
  struct verbs v = fake_verbs(pd);
  list_init(&s->conns);
  s->host.epoch = 9;
  s->host.ops = &serve_ops;
  s->host.ctx = s;
  c->s = s;
  c->control = true;
  c->peer = &peer;
  c->talk = (struct talk){.host = &s->host, .state = TALK_IN};
  list_push_back(&s->conns, &c->link);
  fake.pipe = &c->pipe;
  pipe_open(&c->pipe, &v, &fake.id, &e);
  serve_conn_readable(c);
  r.first = fake.sends;
  r.more = c->more && s->more;
  if (c->more)
    serve_conn_more(s);
  r.second = fake.sends - r.first;
  pipe_close(&c->pipe);
  free(c);
  free(s);
  close(fake.channel.fd);
  return r;
}

/* ---- protection domains ---- */

struct fake_domains fake_control(void)
{
  struct ibv_pd pd[2];
  struct err e;
  struct pipe p;
  fake_reset(NULL, NULL);
  struct verbs v = fake_verbs(pd);
  struct fake_domains r = {pipe_open(&p, &v, &fake.id, &e) == 0, false, false};
  r.own_qp = fake.qp_pd == &pd[1];
  r.own_mr = fake.mr_pd == &pd[1];
  if (r.opened)
    pipe_close(&p);
  close(fake.channel.fd);
  return r;
}

void fake_name(char ret_name[64], const char *node, const char *tier, const char *peer)
{
  remote_name(ret_name, node, tier, peer);
}

void fake_tally(uint32_t n, uint64_t bytes, uint64_t ns, uint64_t *ret_latency_ns, uint64_t *ret_bytes_per_s)
{
  struct tally t = {{0}, {0}, 0, 0, 0, 0, 0, 0};
  uint64_t now = 1;
  for (uint32_t i = 0; i < n; i++) {
    tally_begin(&t, now);
    tally_end(&t, i % 2, true, bytes, now, now + ns, true);
    now += ns + 5000000; /* idle: counts for nothing */
  }
  *ret_latency_ns = t.latency_ns;
  *ret_bytes_per_s = t.bytes_per_s;
}
