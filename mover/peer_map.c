/* SPDX-License-Identifier: Apache-2.0 */
/* MAP of a cell that a peer has: no memory of another machine is attended in place, so a copy comes here and is leased.
 */
#include <string.h>

#include "mover/daemon.h"
#include "mover/peer.h"
#include "mover/peer_ask.h"
#include "mover/session.h"
#include "mover/step.h"
#include "policy/place.h"

bool peer_map(const struct call *c, uint32_t mkey, struct outcome *o)
{
  struct step *t;
  struct peer_ask *k = peer_ask_new(c, STEP_PUT, &t);
  if (!k) {
    *o = outcome_refused(DRAY_LIMIT);
    return true;
  }
  k->maps = true;
  k->stages = (c->j->req.sqe.flags & DRAY_MAP_OR_STAGE) != 0;
  t->leases = true;
  t->cell.no_replace = true; /* a read: what is listed here meanwhile, or was all along, is not the peer's to replace */
  peer_ask_about(k, c, WIRE_RESOLVE, mkey, false); /* to read it: who may read may have a copy that is read */
  peer_turn_first(k);
  return false;
}

/* Where the copy goes: the nearest tier that is attended in place. */
unsigned peer_map_place(struct lane *l, struct step *t, const struct peer_ask *k)
{
  struct policy_ask a;
  if (!k->stages)
    return DRAY_NOT_ATTENDABLE;
  ops_ask(l, t->s, t->job, 0, k->a.resolved.len, NULL, &a);
  t->tier = place_new(&l->d->cfg->policy, &a, true);
  return t->tier ? DRAY_REASON_OK : DRAY_NOT_ATTENDABLE;
}

/* It has come, and a cell is listed here under its key: that one is the answer, as if it had been found first. */
void peer_map_here(struct lane *l, struct step *t)
{
  struct session *s = t->s;
  struct job *j = t->job;
  struct wish w = {.off = 0};
  struct call c = {.l = l, .s = s, .j = j, .item = t->item, .w = &w};
  struct outcome o;
  memcpy(w.key, t->cell.key, sizeof w.key);
  store_discard(l->d->store, t->to);
  store_unpin(l->d->store, t->to);
  quotas_spend(l, s->tenant, t->bytes); /* they did travel */
  peer_step_end(l, t);
  step_drop(l, t);
  if (ops_map_here(&c, &o))
    complete_item(l, s, j, c.item, &o);
}
