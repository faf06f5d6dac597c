/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of the answering side: who may come in, and whose questions are answered. */
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "include/priv/order.h"
#include "transports/rdma/address.h"
#include "transports/rdma/serve_internal.h"

static void conn_end(struct serve_conn *c)
{
  struct serve *s = c->s;
  if (c->pipe.channel)
    epoll_ctl(s->epoll, EPOLL_CTL_DEL, c->pipe.channel->fd, NULL);
  if (c->control) {
    pipe_close(&c->pipe);
  } else if (c->id) {
    rdma_destroy_qp(c->id);
    rdma_destroy_id(c->id);
  }
  list_remove(&c->link);
  s->conns_n--;
  stat_set(&s->stats.connections, s->conns_n);
  free(c);
}

static struct serve_conn *conn_new(struct serve *s, bool control)
{
  struct serve_conn *c = s->conns_n < SERVE_CONNS ? calloc(1, sizeof *c) : NULL;
  if (!c)
    return NULL;
  c->s = s;
  c->control = control;
  c->since_ns = s->now_ns;
  list_push_back(&s->conns, &c->link);
  s->conns_n++;
  stat_set(&s->stats.connections, s->conns_n);
  return c;
}

static void refuse(struct serve *s, struct rdma_cm_id *id, const char *why)
{
  stat_add(&s->stats.refused, 1);
  serve_say(s, "a connection is refused: %s", why);
  rdma_reject(id, NULL, 0);
  rdma_destroy_id(id);
}

/* The connection is as the other side asked, with our device's number in the answer. */
static int accept_it(struct serve *s, struct rdma_cm_id *id, const struct rdma_conn_param *asked)
{
  int dev = verbs_index(&s->verbs, id->verbs);
  struct wire_joined a = {.magic = WIRE_MAGIC, .version = WIRE_VERSION, .dev = (uint8_t)dev};
  uint8_t most = s->verbs.dev[dev].max_read;
  struct rdma_conn_param p = {
      .private_data = &a,
      .private_data_len = sizeof a,
      .responder_resources = asked->responder_resources < most ? asked->responder_resources : most,
      .initiator_depth = 0,
      .rnr_retry_count = 7,
  };
  return rdma_accept(id, &p) ? -errno : 0;
}

static void control_come(struct serve *s, struct rdma_cm_id *id, const struct rdma_conn_param *asked)
{
  struct err e = {{0}};
  bool own = auth_own_address(rdma_get_peer_addr(id));
  if (!own && !s->host.key.bytes) {
    refuse(s, id, "no key_file, and it is not from this host");
    return;
  }
  struct serve_conn *c = conn_new(s, true);
  if (!c) {
    refuse(s, id, "too many connections");
    return;
  }
  if (pipe_open(&c->pipe, &s->verbs, id, &e)) {
    conn_end(c);
    refuse(s, id, e.text);
    return;
  }
  id->context = c;
  talk_open(&c->talk, &s->host, own);
  struct epoll_event w = {.events = EPOLLIN, .data.ptr = c};
  if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, c->pipe.channel->fd, &w) || accept_it(s, id, asked))
    c->closing = true;
}

/* The session that a data connection says it belongs to. */
static struct serve_conn *session_of(struct serve *s, const void *join, size_t n, struct wire_join *ret_join)
{
  LIST_EACH (&s->conns, at) {
    struct serve_conn *c = LIST_OF(at, struct serve_conn, link);
    if (c->control && !c->closing && c->peer && talk_join(&c->talk, join, n, ret_join) == 0)
      return c;
  }
  return NULL;
}

static void data_come(struct serve *s, struct rdma_cm_id *id, const struct rdma_conn_param *asked)
{
  struct wire_join j;
  struct serve_conn *whose = session_of(s, asked->private_data, asked->private_data_len, &j);
  int dev = id->verbs ? verbs_index(&s->verbs, id->verbs) : -1;
  if (!whose || dev < 0) {
    refuse(s, id, whose ? "no device for it" : "it carries data for no session of ours");
    return;
  }
  struct serve_conn *c = conn_new(s, false);
  struct ibv_qp_init_attr a = {.send_cq = s->verbs.dev[dev].idle,
                               .recv_cq = s->verbs.dev[dev].idle,
                               .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
                               .qp_type = IBV_QPT_RC};
  if (!c || rdma_create_qp(id, s->verbs.dev[dev].pd, &a)) {
    if (c)
      conn_end(c);
    refuse(s, id, "no queue pair for it");
    return;
  }
  c->id = id;
  c->session = whose->talk.session;
  id->context = c;
  if (accept_it(s, id, asked))
    c->closing = true;
}

void serve_event(struct serve *s, struct rdma_cm_event *ev)
{
  struct rdma_cm_id *id = ev->id;
  struct rdma_conn_param asked = ev->param.conn;
  uint8_t data[256] = {0};
  if (asked.private_data && (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST))
    memcpy(data, asked.private_data, asked.private_data_len);
  asked.private_data = data;
  enum rdma_cm_event_type what = ev->event;
  struct serve_conn *c = id->context;
  rdma_ack_cm_event(ev);
  switch (what) {
  case RDMA_CM_EVENT_CONNECT_REQUEST: {
    const char *why = wire_join_check(data, asked.private_data_len);
    if (why)
      refuse(s, id, why);
    else if (((struct wire_join *)(void *)data)->lane == WIRE_CONTROL)
      control_come(s, id, &asked);
    else
      data_come(s, id, &asked);
    break;
  }
  case RDMA_CM_EVENT_ESTABLISHED:
    break;
  default: /* disconnected, device removal, errors of any kind */
    if (c)
      c->closing = true;
  }
}

void serve_conn_readable(struct serve_conn *c)
{
  struct serve *s = c->s;
  const void *msg;
  uint32_t n, slot, turn = 0;
  int r = 0;
  c->more = false;
  while (!c->closing && !c->more && (r = pipe_recv(&c->pipe, &msg, &n, &slot)) == 1) {
    union wire_msg q, a;
    s->now_ns = address_now_ns();    /* the question before may have taken long */
    c->more = ++turn == WIRE_WINDOW; /* one that asks without end does not keep the others waiting */
    n = n < sizeof q ? n : sizeof q;
    memcpy(&q, msg, n); /* once: what is judged is what is used */
    if (pipe_done(&c->pipe, slot)) {
      r = -EIO;
      break;
    }
    if (c->peer)
      c->peer->last_ns = s->now_ns;
    r = talk_feed(&c->talk, &q, n, &a);
    if (r) {
      stat_add(&s->stats.refused, 1);
      serve_say(s, "peer %.63s: %s: its connection is closed",
                *c->talk.facts.asker_name ? c->talk.facts.asker_name : "?", c->talk.why);
      break;
    }
    if (c->talk.state == TALK_IN && !c->peer) {
      c->peer = serve_peer_in(s, &c->talk);
      r = c->peer ? 0 : -ENOMEM;
    }
    if (!r)
      r = pipe_send(&c->pipe, &a);
    if (r)
      break;
  }
  if (r < 0)
    c->closing = true;
  s->more |= c->more;
}

void serve_conn_more(struct serve *s)
{
  LIST_EACH (&s->conns, at) {
    struct serve_conn *c = LIST_OF(at, struct serve_conn, link);
    if (c->more)
      serve_conn_readable(c);
  }
}

static bool session_lives(struct serve *s, uint64_t session)
{
  LIST_EACH (&s->conns, at) {
    struct serve_conn *c = LIST_OF(at, struct serve_conn, link);
    if (c->control && !c->closing && c->talk.session == session)
      return true;
  }
  return false;
}

void serve_conn_tick(struct serve *s)
{
  uint64_t lease_ns = (uint64_t)s->host.lease_ms * 1000000u;
  LIST_EACH (&s->conns, at) {
    struct serve_conn *c = LIST_OF(at, struct serve_conn, link);
    if (c->control && !c->peer && s->now_ns - c->since_ns > SERVE_STRANGER_MS * 1000000ull)
      c->closing = true;
    /* one that asks nothing any more is dead: what it has ends with it */
    if (c->peer && s->now_ns - c->peer->last_ns > lease_ns)
      c->closing = true;
  }
  LIST_EACH (&s->conns, at) {
    struct serve_conn *c = LIST_OF(at, struct serve_conn, link);
    if (!c->control && session_lives(s, c->session))
      c->since_ns = s->now_ns; /* of the last time that somebody stood for it */
    if (!c->control && s->now_ns - c->since_ns > lease_ns)
      c->closing = true;
  }
  LIST_EACH (&s->conns, at) {
    struct serve_conn *c = LIST_OF(at, struct serve_conn, link);
    if (c->closing)
      conn_end(c);
  }
}

void serve_conn_close_all(struct serve *s)
{
  LIST_EACH (&s->conns, at)
    conn_end(LIST_OF(at, struct serve_conn, link));
}
