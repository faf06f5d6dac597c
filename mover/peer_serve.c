/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/peer_serve.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "base/guard.h"
#include "include/priv/bits.h"
#include "mover/daemon.h"
#include "mover/ops.h"
#include "mover/poison.h"
#include "policy/gate.h"
#include "transports/rdma/serve.h"

/* A peer's hold on one slot. */
struct held {
  struct slot_ref slot;
  struct cell_new cell; /* reservations */
};

static uint32_t now_ms(void)
{
  return (uint32_t)(daemon_now_ns() / 1000000u);
}

/* Who a peer speaks for: only tenants that could be here, too. 0: none. */
static uint32_t tenant_of(struct daemon *d, const char *name)
{
  bool known = d->cfg->auto_tenants && strncmp(name, "uid", 3) == 0;
  for (uint32_t i = 0; i < d->cfg->tenants_n; i++)
    known |= strcmp(d->cfg->tenant[i].name, name) == 0;
  return known ? store_tenant(d->store, name) : 0;
}

static const struct dray_key *mkey_of(const struct dray_key *k)
{
  static const struct dray_key none;
  return memcmp(k, &none, sizeof none) ? k : NULL;
}

static void ask_fill(struct daemon *d, const struct wire_resolve *q, const struct cell_facts *f, struct policy_ask *a)
{
  memset(a, 0, sizeof *a);
  a->op = q->move ? DRAY_MOVE : DRAY_GET;
  a->tenant = tenant_of(d, q->who.tenant);
  a->agent = *q->who.agent ? store_agent(d->store, a->tenant, q->who.agent) : 0;
  a->mkey = mkey_of(&q->mkey);
  a->exists = true;
  a->quarantined = f->state == CELL_QUARANTINED;
  a->poisoned = a->quarantined && ops_bad_reason(d->store, f) == DRAY_POISONED;
  a->cell_tenant = f->tenant;
  a->cell_agent = f->agent;
  a->cell_scope = f->scope;
  a->cell_taint = f->taint;
  a->cell_mkey = store_mkey_get(d->store, f->mkey);
}

static void cell_mem(struct daemon *d, struct slot_ref slot, uint64_t len, struct serve_cell *ret_cell)
{
  struct slot_mem m;
  store_slot_mem(d->store, slot, &m);
  ret_cell->slab = slot.slab;
  ret_cell->base = m.mem->base;
  ret_cell->slab_bytes = m.mem->bytes;
  ret_cell->off = m.off;
  ret_cell->len = len;
  ret_cell->tier = m.tier;
}

/* Pins a copy that the fabric can reach: one the CPU can, too, and that may be shown. */
static unsigned pin_reachable(struct daemon *d, uint32_t tenant, const uint8_t key[16], struct cell_facts *f,
                              struct slot_ref *slot)
{
  for (uint32_t p = 0; p < store_pools(d->store); p++) {
    struct slot_mem m;
    if (d->cfg->tier[p].local_only || !d->dev[p]->caps.addressable)
      continue;
    slot->slab = 0;
    unsigned r = store_find(d->store, tenant, key, store_pool(d->store, p)->tier, now_ms(), f, slot);
    if (r != DRAY_REASON_OK)
      return r;
    if (!slot->slab)
      continue;
    store_slot_mem(d->store, *slot, &m);
    if (m.mem->base)
      return DRAY_REASON_OK;
    store_unpin(d->store, *slot);
  }
  return DRAY_ABSENT; /* it may be here, but not for peers */
}

static unsigned on_find(void *ctx, const struct wire_resolve *q, bool pin, struct serve_cell *ret_cell)
{
  struct daemon *d = ctx;
  struct cell_facts f;
  struct slot_ref slot = {0};
  struct policy_ask a;
  uint32_t tenant = tenant_of(d, q->who.tenant);
  if (!tenant)
    return DRAY_ABSENT;
  unsigned r = pin_reachable(d, tenant, q->key, &f, &slot);
  if (r != DRAY_REASON_OK)
    return r;
  ask_fill(d, q, &f, &a);
  r = !pin ? gate_sight(&a) : q->move ? gate_change(&a) : gate_check(&a);
  struct serve_cell c = {.scope = f.scope, .taint = f.taint, .has_crc = f.has_crc, .crc = f.crc};
  cell_mem(d, slot, f.len, &c);
  if (r == DRAY_REASON_OK && pin && !c.has_crc) {
    r = poison_sum(d, c.base + c.off, c.len, &c.crc); /* what arrives there can be proven then */
    c.has_crc = 1;
  }
  struct held *h = r == DRAY_REASON_OK && pin ? calloc(1, sizeof *h) : NULL;
  if (r == DRAY_REASON_OK && pin && !h)
    r = DRAY_LIMIT;
  if (!h)
    store_unpin(d->store, slot);
  if (r != DRAY_REASON_OK)
    return r;
  if (h)
    h->slot = slot;
  c.own = h;
  if (store_mkey_get(d->store, f.mkey))
    c.mkey = *store_mkey_get(d->store, f.mkey);
  *ret_cell = c;
  return DRAY_REASON_OK;
}

static void on_unpin(void *ctx, struct serve_cell *c)
{
  struct daemon *d = ctx;
  struct held *h = c->own;
  store_unpin(d->store, h->slot);
  free(h);
}

static unsigned on_reserve(void *ctx, const struct wire_reserve *q, struct serve_cell *ret_cell)
{
  struct daemon *d = ctx;
  struct store *st = d->store;
  uint32_t tenant = tenant_of(d, q->who.tenant);
  struct store_who who = {.tenant = tenant, .scope = q->scope};
  who.agent = tenant && *q->who.agent ? store_agent(st, tenant, q->who.agent) : 0;
  if (!tenant || (*q->who.agent && !who.agent))
    return DRAY_SCOPE_DENIED;
  struct held *h = calloc(1, sizeof *h);
  unsigned r = h ? DRAY_NO_ROOM : DRAY_LIMIT;
  for (uint32_t p = 0; h && p < store_pools(st) && r != DRAY_REASON_OK; p++) {
    if (d->cfg->tier[p].local_only || !d->dev[p]->caps.addressable)
      continue;
    unsigned why = store_alloc(st, p, &who, q->len, &h->slot);
    r = why == DRAY_REASON_OK || r == DRAY_NO_ROOM ? why : r;
  }
  if (r != DRAY_REASON_OK) {
    free(h);
    return r;
  }
  h->cell = (struct cell_new){.who = who,
                              .mkey = mkey_of(&q->mkey) ? store_mkey(st, &q->mkey) : 0,
                              .len = q->len,
                              .has_crc = 1,
                              .taint = q->taint,
                              .no_replace = q->no_replace != 0};
  memcpy(h->cell.key, q->key, 16);
  cell_mem(d, h->slot, q->len, ret_cell);
  ret_cell->own = h;
  return DRAY_REASON_OK;
}

static void on_abandon(void *ctx, struct serve_cell *c)
{
  struct daemon *d = ctx;
  struct held *h = c->own;
  store_discard(d->store, h->slot);
  store_unpin(d->store, h->slot);
  free(h);
}

static unsigned on_commit(void *ctx, struct serve_cell *c, uint32_t crc)
{
  struct daemon *d = ctx;
  struct held *h = c->own;
  struct cell_facts f;
  uint32_t have;
  unsigned r = poison_sum(d, c->base + c->off, c->len, &have);
  if (r == DRAY_REASON_OK && have != crc)
    r = DRAY_CRC_MISMATCH;
  h->cell.crc = crc;
  if (r == DRAY_REASON_OK)
    r = store_commit(d->store, &h->cell, h->slot, now_ms(), &f);
  if (r != DRAY_REASON_OK) {
    on_abandon(ctx, c);
    return r;
  }
  store_unpin(d->store, h->slot);
  free(h);
  return DRAY_REASON_OK;
}

static void on_say(void *ctx, const char *text)
{
  struct daemon *d = ctx;
  log_line(&d->log, LOG_INFO, "peers: %s", text);
}

int peer_serve_open(struct daemon *d, struct err *e)
{
  const struct config_listen *l = &d->cfg->listen;
  static const struct serve_cells proto = {
      .find = on_find, .unpin = on_unpin, .reserve = on_reserve, .commit = on_commit, .abandon = on_abandon};
  d->serve_cells = calloc(1, sizeof *d->serve_cells);
  char *list = strdup(l->address), *save = NULL;
  struct serve_config c = {.name = d->cfg->node,
                           .key_file = l->key_file,
                           .lend = l->lend,
                           .lease_ms = l->lease_ms,
                           .epoch = d->epoch,
                           .cells = d->serve_cells,
                           .say = on_say,
                           .say_ctx = d};
  int r = list && d->serve_cells ? 0 : -ENOMEM;
  for (char *a = r ? NULL : strtok_r(list, ", ", &save); a; a = strtok_r(NULL, ", ", &save)) {
    if (c.listen_n == SERVE_LISTEN_MAX) {
      r = err_set(e, -EINVAL, "listen: more than %u addresses", SERVE_LISTEN_MAX);
      break;
    }
    c.listen[c.listen_n++] = a;
  }
  if (r == 0) {
    *d->serve_cells = proto;
    d->serve_cells->ctx = d;
    r = serve_open(&c, e, &d->serve);
  }
  d->serve_list = list; /* until the start */
  return r;
}

int peer_serve_start(struct daemon *d, struct err *e)
{
  int r = serve_start(d->serve, e);
  free(d->serve_list);
  d->serve_list = NULL;
  return r;
}

void peer_serve_close(struct daemon *d)
{
  serve_close(d->serve);
  d->serve = NULL;
  free(d->serve_cells);
}

void peer_serve_slab_gone(struct daemon *d, uint32_t slab)
{
  serve_slab_gone(d->serve, slab);
}
