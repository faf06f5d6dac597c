/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cell's scope widens by a new record with bytes of its own, in a slab of its new class.
 *
 * To the fleet it also changes its domain, thus its shard, and no two shards are locked at once: the new record is
 * listed first and the old one forgotten after, so in between both answer, with the same bytes. If the old one was
 * quarantined in between, the new one is too; if it was replaced or dropped, what was published stays published.
 */
#include <string.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "mover/store/commit.h"

static void widened(const struct cell_rec *c, uint8_t scope, uint8_t taint, uint32_t mkey, struct cell_new *ret_new)
{
  *ret_new = (struct cell_new){.who = {.tenant = c->tenant, .agent = c->agent, .scope = MAX_OF(c->scope, scope)},
                               .mkey = mkey ? mkey : c->mkey,
                               .len = c->len,
                               .crc = c->crc,
                               .has_crc = c->has_crc,
                               .taint = MAX_OF(c->taint, taint),
                               .account = {c->account[0], c->account[1]},
                               .replay = c->replay};
  memcpy(ret_new->key, c->key, sizeof ret_new->key);
}

static unsigned publish_in_fleet(struct store *s, const struct cell_new *n, uint8_t state, struct slot_ref slot,
                                 uint32_t now_ms, struct cell_facts *ret_facts, struct doomed *d)
{
  uint64_t hash = directory_hash(&s->directory, STORE_DOMAIN_FLEET, n->key);
  LOCKED(&directory_shard(&s->directory, hash)->lock);
  uint32_t old = directory_find(&s->directory, hash, STORE_DOMAIN_FLEET, n->key);
  if (old && s->cells.rec[old].tenant != n->who.tenant)
    return DRAY_EXISTS;
  return cell_list(s, hash, n, state, slot, now_ms, old, ret_facts, d);
}

unsigned store_publish(struct store *s, const struct cell_facts *f, uint8_t scope, uint8_t taint, uint32_t mkey,
                       struct slot_ref slot, struct cell_facts *ret_facts)
{
  struct doomed d = {0};
  struct cell_new n;
  uint64_t hash = facts_hash(s, f);
  struct shard *sh = directory_shard(&s->directory, hash);
  pthread_mutex_lock(&sh->lock);
  const struct cell_rec *c = cell_of_facts(s, hash, f);
  if (!c) {
    pthread_mutex_unlock(&sh->lock);
    return DRAY_STALE_GENERATION;
  }
  widened(c, scope, taint, mkey, &n);
  account_again(&s->accounts, n.account[0], n.len); /* two cells until the old one is forgotten */
  account_again(&s->accounts, n.account[1], n.len);
  uint8_t state = c->state;
  uint32_t stamp = c->stamp;
  if (f->scope == DRAY_SCOPE_FLEET || n.who.scope != DRAY_SCOPE_FLEET) {
    unsigned why = cell_list(s, hash, &n, state, slot, stamp, f->idx, ret_facts, &d);
    pthread_mutex_unlock(&sh->lock);
    pool_bury(s, &d);
    if (why != DRAY_REASON_OK)
      store_account_refund(s, n.account, n.len);
    return why;
  }
  pthread_mutex_unlock(&sh->lock);

  struct cell_facts made;
  unsigned why = publish_in_fleet(s, &n, state, slot, stamp, &made, &d);
  pool_bury(s, &d);
  if (why != DRAY_REASON_OK) {
    store_account_refund(s, n.account, n.len);
    return why;
  }
  pthread_mutex_lock(&sh->lock);
  c = cell_of_facts(s, hash, f);
  bool quarantined = c && c->state == CELL_QUARANTINED && state != CELL_QUARANTINED;
  if (c)
    cell_forget(s, hash, f->idx, &d);
  pthread_mutex_unlock(&sh->lock);
  pool_bury(s, &d);
  if (quarantined && store_quarantine(s, &made) == DRAY_REASON_OK)
    made.state = CELL_QUARANTINED;
  *ret_facts = made;
  return DRAY_REASON_OK;
}
