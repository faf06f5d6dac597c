/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include <dray/types.h>

#include "include/priv/cleanup.h"
#include "include/priv/order.h"
#include "transports/rdma/link_internal.h"

/* Sends a question of the link's own. */
static bool ask(struct link *k, union wire_msg *q)
{
  if (pipe_send(&k->pipe, q))
    return false;
  if (!k->open_n++)
    k->heard_ns = k->now_ns; /* silence is counted from the first question */
  k->asked_ns = k->now_ns;
  return true;
}

void link_ask(struct link *k, struct link_call *c)
{
  bool closed;
  {
    LOCKED(&k->lock);
    closed = k->closed;
    if (!closed)
      list_push_back(&k->calls, &c->link);
  }
  if (closed)
    c->done(c, NULL, DRAY_SHUTTING_DOWN);
  else
    link_ring(k);
}

/* ---- what is lent ---- */

static void ask_lend(struct link *k)
{
  union wire_msg q;
  k->phase = PHASE_LEND;
  wire_begin(&q, WIRE_LEND, k->hail.epoch, ++k->next_id);
  q.lend.lease = k->lease;
  q.lend.bytes = k->d->dev.caps.capacity;
  if (!ask(k, &q))
    link_drop(k, "LEND cannot be sent");
}

static void ask_segs(struct link *k)
{
  union wire_msg q;
  k->phase = PHASE_SEGS;
  wire_begin(&q, WIRE_SEGS, k->hail.epoch, ++k->next_id);
  q.segs.lease = k->lease;
  q.segs.first = k->coming->n;
  if (!ask(k, &q))
    link_drop(k, "SEGS cannot be sent");
}

static void wipes_forget(struct rdma_dev *d)
{
  while (!list_empty(&d->wipes)) {
    struct wipe *w = LIST_OF(list_pop_front(&d->wipes), struct wipe, link);
    extent_free(&d->map, w->off / RDMA_UNIT, w->bytes / RDMA_UNIT);
    free(w);
    d->wiping--;
  }
  pthread_cond_broadcast(&d->freed);
}

/* What we had there is gone, with what was to be wiped: all of the new is zero, and of slabs before it none is. */
static void lease_forget(struct link *k)
{
  link_void(k);
  k->lease = 0;
  LOCKED(&k->d->lock);
  wipes_forget(k->d);
}

/* Everything is known of it: lanes may use it. */
static void lent_publish(struct link *k)
{
  struct rdma_dev *d = k->d;
  struct lent *l = k->coming;
  k->coming = NULL;
  l->older = (struct lent *)(uintptr_t)d->lent;
  word_publish(&d->lent, (uintptr_t)l);
  link_is_in(k);
}

static void heard_lent(struct link *k, const struct wire_lent *a)
{
  struct rdma_dev *d = k->d;
  if (a->reason != DRAY_REASON_OK || a->bytes != d->dev.caps.capacity || a->segs > 1u << 20) {
    link_drop(k, "it lends less than is asked for");
    return;
  }
  bool same = k->lease && a->lease == k->lease;
  if (k->lease && !same)
    lease_forget(k);
  k->lease = a->lease;
  if (same && d->lent) { /* rkeys of the same registration */
    link_is_in(k);
    return;
  }
  free(k->coming);
  k->coming = calloc(1, sizeof *k->coming + a->segs * sizeof(struct lent_seg));
  if (!k->coming) {
    link_drop(k, "out of memory");
    return;
  }
  k->coming->room = a->segs;
  ask_segs(k);
}

static void heard_segments(struct link *k, const struct wire_segments *a)
{
  struct lent *l = k->coming;
  uint64_t all = k->d->dev.caps.capacity;
  if (!l || a->reason != DRAY_REASON_OK) {
    link_drop(k, "it does not say where what it lends is");
    return;
  }
  for (uint32_t i = 0; i < a->n; i++) {
    if (l->n == l->room || !range_inside(l->bytes, a->seg[i].bytes, all)) {
      link_drop(k, "it lends more than is asked for");
      return;
    }
    l->seg[l->n++] = (struct lent_seg){l->bytes, a->seg[i]};
    l->bytes += a->seg[i].bytes;
    if (l->bytes == all)
      break;
  }
  if (l->bytes == all)
    lent_publish(k);
  else if (l->n == l->room)
    link_drop(k, "pieces without an end");
  else
    ask_segs(k);
}

static void wipe_next(struct link *k)
{
  struct rdma_dev *d = k->d;
  union wire_msg q;
  if (k->wipe || k->phase != PHASE_IN || k->open_n >= WIRE_WINDOW)
    return;
  LOCKED(&d->lock);
  if (list_empty(&d->wipes))
    return;
  struct wipe *w = LIST_OF(d->wipes.next, struct wipe, link);
  wire_begin(&q, WIRE_WIPE, k->hail.epoch, ++k->next_id);
  q.wipe.lease = k->lease;
  q.wipe.off = w->off;
  q.wipe.bytes = w->bytes;
  if (!ask(k, &q))
    return;
  list_remove(&w->link);
  k->wipe = w;
  k->wipe_id = q.h.id;
}

static void heard_wiped(struct link *k, unsigned reason)
{
  struct rdma_dev *d = k->d;
  struct wipe *w = k->wipe;
  k->wipe = NULL;
  {
    LOCKED(&d->lock);
    if (reason == DRAY_REASON_OK) {
      extent_free(&d->map, w->off / RDMA_UNIT, w->bytes / RDMA_UNIT);
      free(w);
      d->wiping--;
      pthread_cond_broadcast(&d->freed);
      w = NULL;
    } else {
      list_push_back(&d->wipes, &w->link);
    }
  }
  if (w)
    link_drop(k, "it does not wipe what it lends");
}

/* ---- hello ---- */

static void heard_hello(struct link *k, const void *msg, uint32_t n)
{
  union wire_msg q;
  int r = hail_challenged(&k->hail, msg, n, ++k->next_id, &q);
  if (!r)
    r = pipe_send(&k->pipe, &q);
  k->phase = PHASE_AUTH;
  if (r)
    link_drop(k, k->hail.why ? k->hail.why : "AUTH cannot be sent");
}

static void heard_auth(struct link *k, const void *msg, uint32_t n)
{
  if (hail_welcomed(&k->hail, msg, n)) {
    link_drop(k, k->hail.why);
    return;
  }
  if (k->known && k->known_epoch != k->hail.epoch)
    lease_forget(k); /* it was restarted: what its earlier self told us means nothing, whatever the numbers say */
  k->known = true;
  k->known_epoch = k->hail.epoch;
  if (k->d->dev.caps.capacity)
    ask_lend(k);
  else
    link_is_in(k); /* for its cells only */
}

/* ---- questions of others ---- */

static void heard_answer(struct link *k, const union wire_msg *a)
{
  if (!k->open_n) {
    link_drop(k, "an answer to no question");
    return;
  }
  k->open_n--;
  k->heard_ns = k->now_ns;
  if (k->wipe && a->h.id == k->wipe_id) {
    if (a->h.type == WIRE_DONE)
      heard_wiped(k, a->done.reason);
    else
      link_drop(k, "an answer to another question");
    return;
  }
  LIST_EACH (&k->asked, at) {
    struct link_call *c = LIST_OF(at, struct link_call, link);
    if (c->id == a->h.id) {
      list_remove(&c->link);
      stat_add(&k->answered, 1);
      stat_set(&k->answer_ns, tally_mean(k->answer_ns, k->now_ns - c->asked_ns));
      bool stale = a->h.type == WIRE_DONE ? a->done.reason == DRAY_PEER_STALE : false;
      c->done(c, a, stale ? DRAY_PEER_STALE : DRAY_REASON_OK);
      return;
    }
  } /* nobody waits for it any more */
}

static void heard(struct link *k, const void *msg, uint32_t n)
{
  union wire_msg a = {.room = {0}};
  if (k->phase == PHASE_HELLO || k->phase == PHASE_AUTH) {
    (k->phase == PHASE_HELLO ? heard_hello : heard_auth)(k, msg, n);
    return;
  }
  const char *what = wire_check(msg, n, false);
  if (what) {
    link_drop(k, what);
    return;
  }
  memcpy(&a, msg, n);
  if (a.h.epoch != k->hail.epoch) {
    link_drop(k, "an epoch that is another");
    return;
  }
  if (k->phase == PHASE_LEND || k->phase == PHASE_SEGS) {
    if (a.h.id != k->next_id || a.h.type != (k->phase == PHASE_LEND ? WIRE_LENT : WIRE_SEGMENTS)) {
      link_drop(k, "an answer to another question");
      return;
    }
    k->open_n--;
    if (k->phase == PHASE_LEND)
      heard_lent(k, &a.lent);
    else
      heard_segments(k, &a.segments);
    return;
  }
  heard_answer(k, &a);
}

void calls_heard(struct link *k)
{
  const void *msg;
  uint32_t n, slot;
  int r = 0;
  while (k->pipe.id && (r = pipe_recv(&k->pipe, &msg, &n, &slot)) == 1) {
    union wire_msg a;
    n = MIN_OF(n, (uint32_t)sizeof a);
    memcpy(&a, msg, n); /* once: what is judged is what is used */
    if (pipe_done(&k->pipe, slot)) {
      r = -EIO;
      break;
    }
    heard(k, &a, n);
  }
  if (r < 0 && k->pipe.id)
    link_drop(k, "its connection is broken");
}

static void fail(struct link_call *c, unsigned reason)
{
  list_remove(&c->link);
  c->done(c, NULL, reason);
}

void calls_tick(struct link *k)
{
  struct list take;
  list_init(&take);
  wipe_next(k);
  bool in = k->phase == PHASE_IN, down = link_see(&k->status) == LINK_DOWN;
  {
    LOCKED(&k->lock);
    LIST_EACH (&k->calls, at) {
      struct link_call *c = LIST_OF(at, struct link_call, link);
      bool late = c->deadline_ns && k->now_ns >= c->deadline_ns;
      if (late || down || in) {
        list_remove(at);
        list_push_back(&take, at);
      }
    }
  }
  while (!list_empty(&take)) {
    struct link_call *c = LIST_OF(take.next, struct link_call, link);
    if (c->deadline_ns && k->now_ns >= c->deadline_ns) {
      fail(c, in ? DRAY_DEADLINE : DRAY_PEER_UNREACHABLE);
      continue;
    }
    if (!in) {
      fail(c, DRAY_PEER_UNREACHABLE);
      continue;
    }
    if (k->open_n >= WIRE_WINDOW)
      break;
    c->q.h.id = c->id = ++k->next_id;
    c->asked_ns = k->now_ns;
    c->q.h.epoch = k->hail.epoch;
    if (!ask(k, &c->q))
      break;
    list_remove(&c->link);
    list_push_back(&k->asked, &c->link);
  }
  LOCKED(&k->lock);
  while (!list_empty(&take)) { /* the window is full: first in line the next time */
    struct list *last = take.prev;
    list_remove(last);
    list_push_front(&k->calls, last);
  }
  LIST_EACH (&k->asked, at) {
    struct link_call *c = LIST_OF(at, struct link_call, link);
    if (c->deadline_ns && k->now_ns >= c->deadline_ns)
      fail(c, DRAY_DEADLINE);
  }
}

void calls_ping(struct link *k)
{
  union wire_msg q;
  if (k->open_n >= WIRE_WINDOW)
    return;
  wire_begin(&q, WIRE_PING, k->hail.epoch, ++k->next_id);
  ask(k, &q);
}

void calls_lost(struct link *k)
{
  k->open_n = 0;
  if (k->wipe) {
    LOCKED(&k->d->lock);
    list_push_front(&k->d->wipes, &k->wipe->link);
    k->wipe = NULL;
  }
  while (!list_empty(&k->asked))
    fail(LIST_OF(k->asked.next, struct link_call, link), DRAY_PEER_UNREACHABLE);
}

void calls_stop(struct link *k)
{
  struct list take;
  list_init(&take);
  {
    LOCKED(&k->lock);
    k->closed = true;
    while (!list_empty(&k->calls))
      list_push_back(&take, list_pop_front(&k->calls));
  }
  while (!list_empty(&take))
    fail(LIST_OF(take.next, struct link_call, link), DRAY_SHUTTING_DOWN);
  free(k->coming);
  k->coming = NULL;
}
