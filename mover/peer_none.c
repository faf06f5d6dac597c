/* SPDX-License-Identifier: Apache-2.0 */
/* Built without RDMA: config.c refuses every peer, so there are none. */
#include "mover/peer.h"

int peers_prepare(struct daemon *d, struct err *e)
{
  (void)d, (void)e;
  return 0;
}
int peers_start(struct daemon *d, struct err *e)
{
  (void)d, (void)e;
  return 0;
}
void peers_stop(struct daemon *d)
{
  (void)d;
}
bool peers_tick(struct daemon *d)
{
  (void)d;
  return false;
}
void peers_slab_gone(struct daemon *d, uint32_t slab)
{
  (void)d, (void)slab;
}
bool peers_served(struct daemon *d, struct peers_served *ret_served)
{
  (void)d, (void)ret_served;
  return false;
}
void peers_tell(struct lane *l, const struct lane_msg *m)
{
  (void)l, (void)m;
}
bool peer_any(const struct lane *l)
{
  (void)l;
  return false;
}
static bool none(struct outcome *o)
{
  *o = outcome_refused(DRAY_UNSUPPORTED);
  return true;
}
bool peer_get(const struct call *c, const struct span *mem, uint32_t mkey, struct outcome *o)
{
  (void)c, (void)mem, (void)mkey;
  return none(o);
}
bool peer_put(const struct call *c, const struct span *mem, uint32_t mkey, struct outcome *o)
{
  (void)c, (void)mem, (void)mkey;
  return none(o);
}
bool peer_map(const struct call *c, uint32_t mkey, struct outcome *o)
{
  (void)c, (void)mkey;
  return none(o);
}
bool peer_stat(const struct call *c, struct outcome *o)
{
  (void)c;
  return none(o);
}
bool peer_bring(const struct call *c, struct outcome *o)
{
  (void)c;
  return none(o);
}
bool peer_send(const struct call *c, const struct cell_facts *f, struct slot_ref slot, struct outcome *o)
{
  (void)c, (void)f, (void)slot;
  return none(o);
}
void peer_answered(struct lane *l, struct peer_ask *a)
{
  (void)l, (void)a;
}
bool peer_commits(struct lane *l, struct step *t)
{
  (void)l, (void)t;
  return false;
}
bool peer_again(struct lane *l, struct step *t)
{
  (void)l, (void)t;
  return false;
}
void peer_source(struct lane *l, struct step *t, void *to)
{
  (void)l, (void)t, (void)to;
}
void peer_step_end(struct lane *l, struct step *t)
{
  (void)l, (void)t;
}
void peer_map_here(struct lane *l, struct step *t)
{
  (void)l, (void)t;
}
