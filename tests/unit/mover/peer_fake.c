/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/mover/peer_fake.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mover/daemon.h"
#include "mover/peer.h"
#include "mover/peer_ask.h"
#include "mover/session.h"
#include "mover/step.h"
#include "transports/rdma/link_internal.h"

unsigned fake_read_landed(int64_t late_ns, bool whole)
{
  struct step *t = calloc(1, sizeof *t);
  struct peer_ask *k = calloc(1, sizeof *k);
  t->peer = k;
  t->kind = STEP_GET;
  t->crc = whole;
  k->until_ns = (uint64_t)((int64_t)daemon_now_ns() - late_ns);
  bool waits = peer_commits(NULL, t);
  unsigned r = waits ? UINT16_MAX : t->reason;
  free(k);
  free(t);
  return r;
}

struct fake_answer fake_ask_closed(void)
{
  struct lane *l = aligned_alloc(64, align_up(sizeof *l, 64));
  struct rdma_dev *d = calloc(1, sizeof *d);
  struct link *link = calloc(1, sizeof *link);
  struct peer_ask *k = calloc(1, sizeof *k);
  memset((void *)l, 0, sizeof *l);
  pthread_mutex_init(&l->inbox_lock, NULL);
  pthread_mutex_init(&link->lock, NULL);
  list_init(&l->inbox);
  l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  link->closed = true;
  d->link = link;
  k->l = l;
  k->dev = &d->dev;
  wire_begin(&k->call.q, WIRE_STAT, 0, 1);
  peer_ask_send(k, daemon_now_ns() + 1000000000u);
  struct fake_answer r = {.reason = k->reason, .messages = (uint32_t)l->inbox_n};
  struct lane_msg *m = list_empty(&l->inbox) ? NULL : LIST_OF(l->inbox.next, struct lane_msg, link);
  r.in_question = m == &k->msg && m->kind == LANE_PEER && m->base == k;
  close(l->wake);
  pthread_mutex_destroy(&l->inbox_lock);
  pthread_mutex_destroy(&link->lock);
  free(k);
  free(link);
  free(d);
  free(l);
  return r;
}

struct fake_told fake_tell(const uint8_t *tiers, uint32_t n)
{
  enum { SLOTS = 64 };
  struct fake_told r = {.said = 0};
  struct lane *l = aligned_alloc(64, align_up(sizeof *l, 64));
  struct session *s = calloc(1, sizeof *s);
  struct dray_u_head u = {.sleep = DRAY_SLEEP_POLL};
  struct dray_m_head m = {.state = DRAY_M_LIVE};
  int pair[2], fd = memfd_create("cq", MFD_CLOEXEC);
  char byte;
  memset((void *)l, 0, sizeof *l);
  list_init(&l->sessions);
  list_init(&l->dirty);
  list_init(&s->dirty);
  list_push_back(&l->sessions, &s->link);
  if (ftruncate(fd, SLOTS * WIRE_ELEM) < 0 || wire_map(&s->post.cq.w, fd, 0, SLOTS, 1, 0) < 0 ||
      socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
    abort();
  s->state = SESSION_LIVE;
  s->u = &u;
  s->m = &m;
  s->poke = pair[0];
  s->post.credits = 8;
  s->post.cq.mine = &m.cq_prod;
  s->post.cq.theirs = &u.cq_cons;
  for (uint32_t i = 0; i < n; i++) {
    struct lane_msg msg = {.kind = LANE_LINK, .id = tiers[i], .value = DRAY_REASON_OK, .seq = i + 1};
    peers_tell(l, &msg);
    r.early = m.cq_prod;
  }
  r.woken_early = read(pair[1], &byte, 1) == 1;
  session_flush(l, s);
  const struct dray_cqe *c = (const struct dray_cqe *)(const void *)&s->post.cq.w.r[1];
  for (r.said = 0; r.said < m.cq_prod && r.said < 8; r.said++) {
    r.tier[r.said] = c[r.said].tier;
    r.detail[r.said] = c[r.said].detail;
  }
  r.said = m.cq_prod;
  close(pair[0]);
  close(pair[1]);
  close(fd);
  wire_unmap(&s->post.cq.w);
  free(s);
  free(l);
  return r;
}
