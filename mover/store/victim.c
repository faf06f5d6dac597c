/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/store/victim.h"

#include <time.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "mover/store/inside.h"
#include "mover/store/quota.h"

#define SAMPLE_TRIES 24
#define PIN_TRIES 64
#define TOKEN_BYTES KIB(16) /* of KV cache for each token, where nobody said */
#define DYING_WAIT_NS 2000000

static uint32_t random_below(struct pool *p, uint32_t n)
{
  p->random ^= p->random << 13;
  p->random ^= p->random >> 7;
  p->random ^= p->random << 17;
  return (uint32_t)(((p->random >> 32) * n) >> 32);
}

/* The next idle slot of a slab that has one, from `from` on. Its cell's identity may be read: see cell.h. */
static struct victim_pick pick_in(struct store *s, uint32_t idx, uint32_t from)
{
  const struct slab_rec *r = &s->slabs.rec[idx];
  uint32_t slot = from;
  while (slab_row(&s->slabs, idx, slot)->bits != SLOT_HELD) /* held, no pins */
    slot = slot + 1 < r->fresh ? slot + 1 : 0;
  uint32_t cell = slab_row(&s->slabs, idx, slot)->link;
  const struct cell_rec *c = &s->cells.rec[cell];
  return (struct victim_pick){.slot = {.slab = r->id, .slot = slot},
                              .cell = cell,
                              .gen = c->gen,
                              .slot_bytes = r->slot_bytes,
                              .hash = directory_hash(&s->directory, cell_domain(c), c->key)};
}

static uint32_t picks_of_class(struct store *s, struct pool *p, const struct slot_class *c,
                               struct victim_pick pick[VICTIM_SAMPLE])
{
  uint32_t n = 0;
  for (uint32_t i = 0; c && c->slabs && i < SAMPLE_TRIES && n < VICTIM_SAMPLE; i++) {
    uint32_t idx = c->slab[random_below(p, c->slabs)];
    if (s->slabs.rec[idx].idle)
      pick[n++] = pick_in(s, idx, random_below(p, s->slabs.rec[idx].fresh));
  }
  for (uint32_t i = 0; c && i < c->slabs && !n; i++) /* luck is no proof that there is none */
    if (s->slabs.rec[c->slab[i]].idle)
      pick[n++] = pick_in(s, c->slab[i], 0);
  return n;
}

/* The slab of at most `most` bytes that the tenant gives: the one being emptied, else the least recently used that is
   wholly idle. */
static int64_t slab_to_give(struct store *s, struct pool *p, const struct share *sh, uint64_t most)
{
  if (sh->reclaim && s->slabs.rec[sh->reclaim - 1].idle && s->slabs.rec[sh->reclaim - 1].bytes <= most)
    return sh->reclaim - 1;
  int64_t best = -1;
  uint64_t best_age = 0;
  LIST_EACH (&sh->slabs, n) {
    uint32_t idx = (uint32_t)(LIST_OF(n, struct slab, peer) - s->slabs.own);
    const struct slab_rec *r = &s->slabs.rec[idx];
    /* one that was begun before goes first */
    uint64_t age = (uint64_t)(r->state == SLAB_RECLAIMING) << 32 | (uint32_t)(p->now_ms - r->stamp);
    /* barred slots stay behind; only a slab whose memory is its own goes with them */
    bool whole = r->idle == r->used || (UNLIKELY(r->bad) && r->idle && p->cfg.dev->caps.isolation == DEV_PER_SLAB &&
                                        r->idle + bar_resting(s, idx) == r->used);
    if (r->used && whole && r->bytes <= most && (best < 0 || age > best_age)) {
      best = idx;
      best_age = age;
    }
  }
  return best;
}

static uint32_t picks_of_slab(struct store *s, struct share *sh, int64_t idx, struct victim_pick *pick)
{
  if (idx < 0)
    return 0;
  s->slabs.rec[idx].state = SLAB_RECLAIMING;
  list_remove(&s->slabs.own[idx].avail);
  sh->reclaim = (uint32_t)idx + 1;
  *pick = pick_in(s, (uint32_t)idx, 0);
  return 1;
}

/* Of the tenants that stand above that level and have more than their reserve, the highest gives: none is pushed below
   what it was promised. */
static uint32_t picks_of_others(struct store *s, struct pool *p, uint32_t asker, uint64_t above,
                                struct victim_pick *pick)
{
  struct share *best = NULL;
  int64_t give = -1;
  LIST_EACH (&p->shares, n) {
    struct share *sh = LIST_OF(n, struct share, active);
    if (sh->tenant == asker || quota_level(sh) <= above ||
        (best && quota_spare(sh) / sh->weight <= quota_spare(best) / best->weight))
      continue;
    int64_t idx = slab_to_give(s, p, sh, quota_spare(sh));
    if (idx >= 0) {
      best = sh;
      give = idx;
    }
  }
  return best ? picks_of_slab(s, best, give, pick) : 0;
}

uint32_t victim_picks(struct store *s, struct pool *p, const struct class_key *k,
                      struct victim_pick pick[VICTIM_SAMPLE])
{
  struct share *own = &p->share[k->tenant];
  uint64_t weights = own->bytes == 0 ? own->weight : 0; /* the asker counts also before its first slab */
  uint32_t tenants = own->bytes == 0;
  LIST_EACH (&p->shares, i) {
    weights += LIST_OF(i, struct share, active)->weight;
    tenants++;
  }
  uint64_t need = align_up(k->slot_bytes, p->unit), fair = p->cfg.capacity / weights;
  bool owed = own->charged < own->reserve, capped = quota_capped(p, k->tenant, need);
  bool over = capped || tenants == 1 || (!owed && quota_level(own) >= fair);
  uint32_t n = over ? 0 : picks_of_others(s, p, k->tenant, owed ? 0 : fair, pick);
  if (!n)
    n = picks_of_class(s, p, class_find(&p->classes, k), pick);
  if (!n && own->bytes)
    n = picks_of_slab(s, own, slab_to_give(s, p, own, UINT64_MAX), pick);
  if (!n && !over)
    n = picks_of_others(s, p, k->tenant, quota_level(own), pick);
  return n;
}

/* Slots that a slab has free while it waits for leases to end are better than none at all. */
static bool class_revive(struct store *s, struct slot_class *c)
{
  bool revived = false;
  for (uint32_t i = 0; c && i < c->slabs; i++) {
    struct slab_rec *r = &s->slabs.rec[c->slab[i]];
    if (r->state == SLAB_RECLAIMING && !r->sealed && slab_has_room(r)) {
      r->state = SLAB_LIVE;
      list_push_back(&c->avail, &s->slabs.own[c->slab[i]].avail);
      revived = true;
    }
  }
  return revived;
}

/* Idle cost against replay cost: how long the picked cell lay idle, for each token that computing it again would take.
   Without a hint it costs what its class is taken for, so that among such cells the least recently used goes. False
   when it is not what it was. */
static bool pick_score(struct store *s, const struct victim_pick *v, uint32_t now_ms, int64_t *ret_score)
{
  LOCKED(&directory_shard(&s->directory, v->hash)->lock);
  const struct cell_rec *c = &s->cells.rec[v->cell];
  if (!directory_lists(&s->directory, v->hash, v->cell) || c->gen != v->gen)
    return false;
  int32_t idle = (int32_t)(now_ms - c->stamp);
  uint64_t tokens = MAX_OF(c->replay ? c->replay * 16ull : v->slot_bytes / TOKEN_BYTES, 1u);
  /* the lanes' clocks are read apart, and the pool's may be behind all of them: then only the order counts */
  *ret_score = idle > 0 ? (int64_t)idle * (1 << 20) / (int64_t)tokens : idle;
  return true;
}

static bool pick_pin(struct store *s, struct pool *p, const struct victim_pick *v, struct cell_facts *ret_facts)
{
  LOCKED(&directory_shard(&s->directory, v->hash)->lock);
  const struct cell_rec *c = &s->cells.rec[v->cell];
  if (!directory_lists(&s->directory, v->hash, v->cell) || c->gen != v->gen)
    return false;
  int at = cell_copy_in(c, p->nr);
  if (at < 0 || c->slab[at] != v->slot.slab || cell_copy(c, (unsigned)at).slot != v->slot.slot)
    return false;
  pthread_mutex_lock(&p->lock);
  bool idle = slab_row(&s->slabs, slab_index(v->slot.slab), v->slot.slot)->bits == SLOT_HELD;
  if (idle) /* moving it out is no use of it: the slab's stamp stays */
    slab_slot_pin(&s->slabs, slab_index(v->slot.slab), v->slot.slot);
  pthread_mutex_unlock(&p->lock);
  if (idle)
    cell_facts_get(c, v->cell, ret_facts);
  return idle;
}

/* Another thread is giving a slab back: its bytes are worth a moment's wait. The lock is released meanwhile. */
static bool slab_dies(struct pool *p)
{
  struct timespec until;
  if (!p->dying)
    return false;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += DYING_WAIT_NS;
  if (until.tv_nsec >= 1000000000) {
    until.tv_nsec -= 1000000000;
    until.tv_sec++;
  }
  pthread_cond_timedwait(&p->made, &p->lock, &until);
  return true;
}

unsigned store_victim(struct store *s, uint32_t pool, const struct store_who *who, uint64_t len,
                      struct cell_facts *ret_facts, struct slot_ref *ret_slot)
{
  struct pool *p = &s->pool[pool];
  struct class_key k;
  if (!pool_class_key(p, who, len, &k))
    return DRAY_NO_ROOM;
  for (unsigned tries = 0; tries < PIN_TRIES; tries++) {
    struct victim_pick pick[VICTIM_SAMPLE];
    struct doomed d = {0};
    uint32_t n = 0;
    pthread_mutex_lock(&p->lock);
    struct slot_class *c = class_find(&p->classes, &k);
    bool capped = quota_capped(p, k.tenant, align_up(k.slot_bytes, p->unit));
    bool freed =
        (c && !list_empty(&c->avail)) || pool_kept_drop(s, p, capped ? k.tenant : 0, &d) || (!capped && slab_dies(p));
    if (!freed) {
      n = victim_picks(s, p, &k, pick);
      freed = !n && class_revive(s, c);
    }
    uint32_t now_ms = p->now_ms;
    pthread_mutex_unlock(&p->lock);
    pool_bury(s, &d);
    if (freed)
      return DRAY_ABSENT;
    if (!n)
      return DRAY_NO_ROOM;
    uint32_t best = UINT32_MAX;
    int64_t best_score = 0;
    for (uint32_t i = 0; i < n; i++) {
      int64_t score;
      if (pick_score(s, &pick[i], now_ms, &score) && (best == UINT32_MAX || score > best_score)) {
        best = i;
        best_score = score;
      }
    }
    if (best != UINT32_MAX && pick_pin(s, p, &pick[best], ret_facts)) {
      *ret_slot = pick[best].slot;
      return DRAY_REASON_OK;
    }
  }
  return DRAY_NO_ROOM;
}
