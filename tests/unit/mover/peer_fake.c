/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/mover/peer_fake.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "mover/daemon.h"
#include "mover/peer.h"
#include "mover/peer_ask.h"
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
