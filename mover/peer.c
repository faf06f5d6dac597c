/* SPDX-License-Identifier: Apache-2.0 */
/* Peers as the worker sees them: devices that lead to them, and what becomes of a tier whose lease is lost. */
#include "mover/peer.h"

#include <stdlib.h>
#include <string.h>

#include "include/priv/bits.h"
#include "mover/daemon.h"
#include "mover/lane.h"
#include "mover/peer_serve.h"
#include "mover/session.h"

int peers_prepare(struct daemon *d, struct err *e)
{
  int r = 0;
  for (uint32_t i = 0; r == 0 && i < d->devs_n; i++)
    r = d->dev[i]->cold->prepare(d->dev[i], e);
  if (r == 0 && d->cfg->listen.address)
    r = peer_serve_open(d, e);
  if (d->devs_n > d->cfg->pools_n)
    d->remote = d->dev[d->cfg->pools_n];
  return r;
}

int peers_start(struct daemon *d, struct err *e)
{
  return d->serve ? peer_serve_start(d, e) : 0;
}

void peers_stop(struct daemon *d)
{
  if (d->serve)
    peer_serve_close(d);
}

void peers_slab_gone(struct daemon *d, uint32_t slab)
{
  if (d->serve)
    peer_serve_slab_gone(d, slab);
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
    post_notice(&s->post, DRAY_LINK_STATE, &c);
    if (s->dirty.next == &s->dirty)
      list_push_back(&l->dirty, &s->dirty);
  }
}

static void tell(struct daemon *d, uint32_t i, uint32_t open, uint32_t all)
{
  const char *name = d->cfg->tier[i].name;
  log_line(&d->log, open == all ? LOG_INFO : LOG_WARN, "LINK_STATE: tier %s, peer %s: %u of %u paths are up", name,
           d->cfg->tier[i].peer, open, all);
  for (uint32_t k = 0; k < d->lanes_n; k++) {
    struct lane_msg *m = calloc(1, sizeof *m);
    if (!m)
      continue;
    m->kind = LANE_LINK;
    m->id = dray_tier_by_name(name);
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
    uint32_t open, all, gen;
    struct peer_watch *w = &d->peer_watch[i];
    if (d->dev[i]->cold->paths(d->dev[i], &open, &all, &gen) < 0)
      continue;
    any = true;
    if (open != w->open)
      tell(d, i, open, all);
    w->open = open;
    if (i < d->cfg->pools_n && w->gen && gen != w->gen) {
      log_line(&d->log, LOG_WARN, "tier %s: peer %s has taken back what it lent: its cells are forgotten",
               d->cfg->tier[i].name, d->cfg->tier[i].peer);
      w->lost = true;
    }
    w->gen = gen;
    if (w->lost)
      pool_lost(d, i);
    if (w->lost && store_pool_idle(d->store, i)) {
      store_pool_reopen(d->store, i);
      w->lost = false;
    }
  }
  return any;
}
