/* SPDX-License-Identifier: Apache-2.0 */
/* Peers as the worker sees them: devices that lead to them, and what becomes of a tier whose lease is lost. */
#include "mover/peer.h"

#include <stdlib.h>
#include <string.h>

#include "include/priv/bits.h"
#include "mover/daemon.h"
#include "mover/lane.h"
#include "mover/peer_ask.h"
#include "mover/peer_serve.h"
#include "mover/session.h"
#include "transports/rdma/serve.h"

int peers_prepare(struct daemon *d, struct err *e)
{
  int r = 0;
  for (uint32_t i = 0; r == 0 && i < d->devs_n; i++)
    r = d->dev[i]->cold->prepare(d->dev[i], e);
  if (r == 0 && d->cfg->listen.address)
    r = peer_serve_open(d, e);
  if (r < 0 || d->devs_n == d->cfg->pools_n)
    return r;
  d->peers = calloc(1, sizeof *d->peers);
  if (!d->peers)
    return -ENOMEM;
  d->peers->n = d->devs_n - d->cfg->pools_n;
  memcpy(d->peers->dev, d->dev + d->cfg->pools_n, d->peers->n * sizeof d->peers->dev[0]);
  return 0;
}

int peers_start(struct daemon *d, struct err *e)
{
  return d->serve ? peer_serve_start(d, e) : 0;
}

void peers_stop(struct daemon *d)
{
  if (d->serve)
    peer_serve_close(d);
  free(d->peers);
  d->peers = NULL;
}

void peers_slab_gone(struct daemon *d, uint32_t slab)
{
  if (d->serve)
    peer_serve_slab_gone(d, slab);
}

bool peers_served(struct daemon *d, struct peers_served *ret_served)
{
  struct serve_stats s;
  if (!d->serve)
    return false;
  serve_stats(d->serve, &s);
  *ret_served = (struct peers_served){.peers = s.peers,
                                      .connections = s.connections,
                                      .refused = s.refused,
                                      .lent_bytes = s.lent_bytes,
                                      .cells = s.handles,
                                      .registered_slabs = s.registered_slabs};
  return true;
}

void peers_tell(struct lane *l, const struct lane_msg *m)
{
  LIST_EACH (&l->sessions, n) {
    struct session *s = LIST_OF(n, struct session, link);
    struct dray_cqe c = {.status = DRAY_OK,
                         .reason = (uint16_t)m->value,
                         .path = DRAY_PATH_NONE,
                         .tier = (uint8_t)m->id,
                         .detail = m->seq};
    /* one waits at a time: the newest of its tier, and another tier's goes first */
    if (s->post.notice_due & 1u << DRAY_LINK_STATE && s->post.notice[DRAY_LINK_STATE].tier != m->id)
      session_flush(l, s);
    post_notice(&s->post, DRAY_LINK_STATE, &c);
    if (s->dirty.next == &s->dirty)
      list_push_back(&l->dirty, &s->dirty);
  }
}

/* A line for the peer, a notice for its tier: paths of all that lead there. */
static void tell(struct daemon *d, uint32_t i, const struct dev_paths *p)
{
  const struct config_tier *t = config_dev_tier(d->cfg, i);
  uint32_t open = 0, all = 0;
  log_line(&d->log, p->open == p->all ? LOG_INFO : LOG_WARN, "LINK_STATE: tier %s, peer %s: %u of %u paths are up%s%s",
           t->name, config_dev_peer(d->cfg, i)->name, p->open, p->all, p->open || !p->why ? "" : ": ",
           p->open || !p->why ? "" : p->why);
  for (uint32_t k = 0; k < d->devs_n; k++) {
    struct dev_paths q;
    if (config_dev_tier(d->cfg, k) != t || d->dev[k]->cold->paths(d->dev[k], &q) < 0)
      continue;
    open += k == i ? p->open : q.open;
    all += q.all;
  }
  for (uint32_t k = 0; k < d->lanes_n; k++) {
    struct lane_msg *m = calloc(1, sizeof *m);
    if (!m)
      continue;
    m->kind = LANE_LINK;
    m->id = dray_tier_by_name(t->name);
    m->value = open ? DRAY_REASON_OK : DRAY_PEER_UNREACHABLE;
    m->seq = open << 16 | all;
    lane_send(&d->lanes[k], m);
  }
}

/* What was lent is gone, and with it every cell that was there: the pool is closed, emptied, and opened again when
   nothing of the old is in use any more. */
static void pool_lost(struct daemon *d, uint32_t pool)
{
  struct store *st = d->store;
  struct cell_facts f[32];
  uint32_t cursor = 0;
  store_pool_close(st, pool);
  do {
    uint32_t n = store_walk(st, &cursor, f, ARRAY_LEN(f));
    for (uint32_t i = 0; i < n; i++)
      for (uint32_t k = 0; k < f[i].copies; k++)
        if (f[i].copy[k].pool == pool)
          store_drop_copy(st, &f[i], (uint8_t)pool);
  } while (cursor);
  store_pool_close(st, pool);
}

bool peers_tick(struct daemon *d)
{
  bool any = false;
  for (uint32_t i = 0; i < d->devs_n; i++) {
    struct dev_paths p;
    struct peer_watch *w = &d->peer_watch[i];
    if (d->dev[i]->cold->paths(d->dev[i], &p) < 0)
      continue;
    any = true;
    if (p.open != w->open)
      tell(d, i, &p);
    w->open = p.open;
    if (i < d->cfg->pools_n && w->gen && p.gen != w->gen) {
      log_line(&d->log, LOG_WARN, "tier %s: peer %s has taken back what it lent: its cells are forgotten",
               d->cfg->tier[i].name, d->cfg->tier[i].peer);
      w->lost = true;
    }
    w->gen = p.gen;
    if (w->lost)
      pool_lost(d, i);
    if (w->lost && store_pool_idle(d->store, i)) {
      store_pool_reopen(d->store, i);
      w->lost = false;
    }
  }
  return any;
}
