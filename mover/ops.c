/* SPDX-License-Identifier: Apache-2.0 */
/* What the handlers share: outcomes, ids of the session, the question to policy. */
#include "mover/ops.h"

#include <string.h>

#include "include/priv/bits.h"
#include "mover/daemon.h"
#include "mover/lane.h"
#include "mover/session.h"
#include "mover/step.h"

const struct outcome outcome_ok = {.status = DRAY_OK, .reason = DRAY_REASON_OK, .path = DRAY_PATH_NONE};

struct outcome outcome_refused(unsigned reason)
{
  return (struct outcome){.status = DRAY_REFUSED, .reason = (uint16_t)reason, .path = DRAY_PATH_NONE};
}
struct outcome outcome_for(unsigned reason)
{
  struct outcome o = outcome_refused(reason);
  if (reason == DRAY_ABSENT || reason == DRAY_EVICTED || reason == DRAY_STALE_GENERATION)
    o.status = DRAY_MISSED;
  return o;
}
struct outcome outcome_of(const struct policy_verdict *v)
{
  struct outcome o = outcome_refused(v->reason);
  if (v->decision == POLICY_MISS)
    o.status = DRAY_MISSED;
  return o;
}

/* Takes the region of an id into use for the job (into *place). NULL: BAD_REGION. */
struct region *ops_region_get(struct session *s, uint16_t id, uint16_t *place)
{
  struct region *r = session_region(s, id);
  if (!r)
    return NULL;
  r->users++;
  *place = id & (SESSION_REGIONS - 1);
  return r;
}

unsigned ops_layout(const struct session *s, uint16_t id, const struct dray_layout **ret_layout)
{
  if (id == 0) {
    *ret_layout = NULL;
    return DRAY_REASON_OK;
  }
  if (id >= SESSION_LAYOUTS || s->layouts[id].segs == 0)
    return DRAY_BAD_LAYOUT;
  *ret_layout = &s->layouts[id];
  return DRAY_REASON_OK;
}

/* The store's id for a session's materialization-key id; 0 is none. */
unsigned ops_mkey(const struct session *s, uint32_t id, uint32_t *ret_mkey)
{
  if (id > SESSION_KEYS || (id && s->keys[id] == 0))
    return DRAY_KEY_INCOMPLETE;
  *ret_mkey = id ? s->keys[id] : 0;
  return DRAY_REASON_OK;
}

unsigned ops_bad_reason(struct store *st, const struct cell_facts *f)
{
  bool proven = false;
  return f->copies && store_slot_bad(st, (struct slot_ref){f->copy[0].slab, f->copy[0].slot}, &proven) && proven
             ? DRAY_POISONED
             : DRAY_QUARANTINED;
}

/* ---- asking policy ---- */

void ops_ask(struct lane *l, struct session *s, const struct job *j, uint32_t mkey, uint64_t bytes,
             const struct cell_facts *f, struct policy_ask *ret_ask)
{
  struct store *st = l->d->store;
  struct policy_ask *a = ret_ask;
  memset(a, 0, sizeof *a);
  a->op = j->req.sqe.op;
  a->flags = j->req.sqe.flags;
  a->tier = j->req.sqe.tier;
  a->bytes = bytes;
  a->now_ns = l->now_ns;
  a->tenant = s->tenant;
  a->agent = s->agent;
  a->mkey = store_mkey_get(st, mkey);
  /* a full tier is as good as one with room: what is least used moves down the ladder to make it */
  a->usable = a->room = l->d->usable_tiers;
  if (f) {
    a->exists = true;
    a->quarantined = f->state == CELL_QUARANTINED;
    a->poisoned = UNLIKELY(a->quarantined) && ops_bad_reason(st, f) == DRAY_POISONED;
    a->cell_tenant = f->tenant;
    a->cell_agent = f->agent;
    a->cell_scope = f->scope;
    a->cell_taint = f->taint;
    a->cell_mkey = store_mkey_get(st, f->mkey);
    for (unsigned i = 0; i < f->copies; i++)
      a->copies |= (uint8_t)(1u << store_pool(st, f->copy[i].pool)->tier);
  }
}

/* A step that reads f's pinned copy `slot`. */
bool ops_crc(const struct call *c)
{
  return (c->j->req.sqe.flags & DRAY_VERIFY_CRC) || c->l->d->cfg->crc_always;
}

struct step *ops_step_reading(const struct call *c, unsigned kind, const struct cell_facts *f, struct slot_ref slot)
{
  struct step *t = step_new(c->l, c->s, c->j, c->item, kind);
  struct slot_mem m;
  store_slot_mem(c->l->d->store, slot, &m);
  t->facts = *f;
  t->from = slot;
  t->tier = m.tier;
  return t;
}
