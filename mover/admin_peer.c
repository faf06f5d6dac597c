/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/admin_peer.h"

#include "include/priv/bits.h"
#include "mover/daemon.h"
#include "mover/peer.h"

static void set_u64(json_t *o, const char *key, uint64_t v)
{
  json_object_set_new(o, key, json_integer((json_int_t)MIN_OF(v, (uint64_t)INT64_MAX)));
}

const char *admin_peer_state(const struct dev_paths *p)
{
  return p->reach == DEV_DOWN ? "down" : p->reach == DEV_TRYING ? "trying" : p->open < p->all ? "degraded" : "up";
}

static json_t *peer_row(const struct daemon *d, uint32_t i, const struct dev_paths *p)
{
  const struct config_peer *c = config_dev_peer(d->cfg, i);
  json_t *r = json_object();
  json_object_set_new(r, "peer", json_string(c ? c->name : "?"));
  json_object_set_new(r, "tier", json_string(config_dev_tier(d->cfg, i)->name));
  json_object_set_new(r, "address", json_string(c ? c->address : "?"));
  json_object_set_new(r, "state", json_string(admin_peer_state(p)));
  set_u64(r, "paths_open", p->open);
  set_u64(r, "paths", p->all);
  set_u64(r, "epoch", p->epoch);
  json_object_set_new(r, "last_error", p->why ? json_string(p->why) : json_null());
  set_u64(r, "dials", p->dials);
  set_u64(r, "lost", p->lost);
  set_u64(r, "backoff_ms", p->backoff_ms);
  set_u64(r, "questions", p->asked);
  set_u64(r, "answer_ns", p->answer_ns);
  set_u64(r, "reads", p->ops[0]);
  set_u64(r, "read_bytes", p->bytes[0]);
  set_u64(r, "writes", p->ops[1]);
  set_u64(r, "write_bytes", p->bytes[1]);
  set_u64(r, "failed", p->failed);
  set_u64(r, "latency_ns", p->latency_ns);
  set_u64(r, "bytes_per_s", p->bytes_per_s);
  return r;
}

void admin_peers(struct daemon *d, json_t *o)
{
  json_t *list = json_array(), *served = json_null();
  struct peers_served s;
  for (uint32_t i = 0; i < d->devs_n; i++) {
    struct dev_paths p;
    if (d->dev[i]->cold->paths(d->dev[i], &p) == 0)
      json_array_append_new(list, peer_row(d, i, &p));
  }
  if (peers_served(d, &s)) {
    served = json_object();
    set_u64(served, "peers", s.peers);
    set_u64(served, "connections", s.connections);
    set_u64(served, "refused", s.refused);
    set_u64(served, "lent_bytes", s.lent_bytes);
    set_u64(served, "cells", s.cells);
    set_u64(served, "registered_slabs", s.registered_slabs);
  }
  json_object_set_new(o, "peers", list);
  json_object_set_new(o, "served", served);
}

json_t *admin_peer_config(const struct daemon *d)
{
  json_t *list = json_array();
  for (uint32_t i = 0; i < d->cfg->peers_n; i++) {
    const struct config_peer *p = &d->cfg->peer[i];
    /* the key's file, never the key */
    json_array_append_new(list,
                          json_pack("{s:s,s:s,s:s?}", "name", p->name, "address", p->address, "key_file", p->key_file));
  }
  return list;
}
