/* SPDX-License-Identifier: Apache-2.0 */
/* Whose turn it is to be asked, and how long it may take. */
#include "mover/daemon.h"
#include "mover/peer.h"
#include "mover/peer_ask.h"
#include "mover/session.h"
#include "mover/step.h"

#define ASK_MS 5000u /* for a directive without a deadline */

static uint8_t health_of(struct dev *dev)
{
  struct link *k = remote_link(dev);
  uint32_t open, all;
  unsigned status = link_status(k);
  link_paths(k, &open, &all);
  return status == LINK_DOWN ? PICK_DOWN : status != LINK_OPEN ? PICK_TRYING : open < all ? PICK_LESS : PICK_UP;
}

/* The next that was not asked. One that others are left after has its share of the time: a peer that is silent must not
   keep us from one that would answer. */
static bool turn(struct peer_ask *k)
{
  struct peers *p = k->l->d->peers;
  uint8_t health[CONFIG_PEERS_MAX];
  uint32_t waiting;
  uint64_t now = daemon_now_ns();
  if (now >= k->end_ns && k->weighed)
    return false;
  for (uint32_t i = 0; i < p->n; i++)
    health[i] = p->n > 1 ? health_of(p->dev[i]) : PICK_UP;
  uint32_t had = p->n > 1 ? pick_had(&p->memory, k->t->s->tenant, k->t->cell.key) : PICK_NONE;
  uint32_t next = pick_next(health, p->n, &k->tried, had, &waiting);
  if (next == PICK_NONE)
    return false;
  pick_add(&k->tried, next);
  k->peer = next;
  k->dev = p->dev[next];
  peer_ask_send(k, waiting && k->end_ns > now ? now + (k->end_ns - now) / (waiting + 1) : k->end_ns);
  return true;
}

void peer_turn_first(struct peer_ask *k)
{
  uint64_t until = k->t->job->deadline_ns;
  k->end_ns = until ? until : daemon_now_ns() + ASK_MS * 1000000ull;
  turn(k);
}

bool peer_turn_next(struct peer_ask *k, unsigned said, unsigned *ret_reason)
{
  struct peers *p = k->l->d->peers;
  if (said == DRAY_ABSENT)
    pick_forget(&p->memory, k->t->s->tenant, k->t->cell.key, k->peer);
  if (pick_final(said, k->writes)) {
    *ret_reason = said;
    return false;
  }
  k->weighed = (uint16_t)pick_weigh(k->weighed, said, k->writes);
  if (!k->t->job->stop && turn(k))
    return true;
  *ret_reason = k->weighed;
  return false;
}

void peer_turn_had(struct peer_ask *k)
{
  struct peers *p = k->l->d->peers;
  if (p->n > 1)
    pick_remember(&p->memory, k->t->s->tenant, k->t->cell.key, k->peer);
}

bool peer_again(struct lane *l, struct step *t)
{
  struct peer_ask *k = t->peer;
  unsigned reason;
  bool lost = t->reason == DRAY_PEER_UNREACHABLE || t->reason == DRAY_PEER_STALE;
  /* once COMMIT was sent it may be listed there */
  if (!lost || t->job->stop || (k->call.q.h.type != WIRE_RESOLVE && k->call.q.h.type != WIRE_RESERVE))
    return false;
  peer_ask_release(k);
  remote_free(&k->mem);
  if (!peer_turn_next(k, t->reason, &reason))
    return false;
  if (t->to.slab) {
    store_discard(l->d->store, t->to);
    store_unpin(l->d->store, t->to);
    t->to.slab = 0;
  }
  t->reason = 0;
  t->detail = 0;
  t->cut = 0;
  t->path = DRAY_PATH_NONE;
  t->state = STEP_ASK;
  return true;
}
