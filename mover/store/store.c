/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/store/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "mover/store/inside.h"
#include "mover/store/rebuild.h"

#define CELLS_DEFAULT (16u << 20)
#define CELLS_MAX (1u << 31)
#define LEASES_DEFAULT (1u << 20)

static const char *const arena_names[ARENA_COUNT] = {"cells", "buckets", "slabs", "slots", "leases", "names", "bad"};

static uint32_t cells_max(const struct store_config *cfg)
{
  return cfg->cells_max ? cfg->cells_max : CELLS_DEFAULT;
}
static uint32_t slabs_max(const struct store_config *cfg)
{
  return cfg->slabs_max ? cfg->slabs_max : STORE_SLABS_MAX;
}
static uint32_t leases_max(const struct store_config *cfg)
{
  return cfg->leases_max ? cfg->leases_max : LEASES_DEFAULT;
}

void store_arena_bytes(const struct store_config *cfg, uint64_t ret_bytes[ARENA_COUNT])
{
  ret_bytes[ARENA_CELLS] = align_up(cells_bytes(cells_max(cfg)), PAGE_BYTES);
  ret_bytes[ARENA_BUCKETS] = align_up(directory_bytes(cells_max(cfg)), PAGE_BYTES);
  ret_bytes[ARENA_SLABS] = align_up(slabs_bytes(slabs_max(cfg)), PAGE_BYTES);
  ret_bytes[ARENA_SLOTS] = align_up(slabs_row_bytes(slabs_max(cfg)), PAGE_BYTES);
  ret_bytes[ARENA_LEASES] = align_up(leases_bytes(leases_max(cfg)), PAGE_BYTES);
  ret_bytes[ARENA_NAMES] = align_up(names_bytes(), PAGE_BYTES);
  ret_bytes[ARENA_BAD] = align_up(bars_bytes(), PAGE_BYTES);
}

static int config_check(const struct store_config *cfg, struct err *e)
{
  if (!cfg->pools || cfg->pools > STORE_POOLS_MAX)
    return err_set(e, -EINVAL, "store: %u pools; 1 to %u are possible", cfg->pools, STORE_POOLS_MAX);
  if (cfg->cells_max > CELLS_MAX || cfg->slabs_max > STORE_SLABS_MAX)
    return err_set(e, -EINVAL, "store: %u cells and %u slabs; at most %u and %u are possible", cfg->cells_max,
                   cfg->slabs_max, CELLS_MAX, STORE_SLABS_MAX);
  for (uint32_t i = 0; i < cfg->pools; i++)
    if (!cfg->pool[i].dev)
      return err_set(e, -EINVAL, "store: pool %s has no device", cfg->pool[i].name);
  return 0;
}

static int arenas_map(struct store *s, const struct store_config *cfg, const int fd[ARENA_COUNT], struct err *e)
{
  uint64_t bytes[ARENA_COUNT];
  store_arena_bytes(cfg, bytes);
  for (int i = 0; i < ARENA_COUNT; i++) {
    int rc = i == ARENA_BAD
                 ? arena_map_kept(&s->arena[i], fd[i], bytes[i], arena_names[i], e)
                 : arena_map(&s->arena[i], fd[i], bytes[i], i == ARENA_CELLS || i == ARENA_SLOTS, arena_names[i], e);
    if (rc < 0)
      return rc;
  }
  return 0;
}

/* Everything that store_free may undo is set up, also when this fails. */
static int tables_init(struct store *s, const struct store_config *cfg)
{
  cells_init(&s->cells, s->arena[ARENA_CELLS].base, cells_max(cfg));
  bars_init(&s->bars, s->arena[ARENA_BAD].base);
  accounts_init(&s->accounts);
  int rc = names_init(&s->names, s->arena[ARENA_NAMES].base);
  int rc2 = directory_init(&s->directory, s->arena[ARENA_BUCKETS].base, &s->cells, cfg->seed);
  int rc3 = slabs_init(&s->slabs, s->arena[ARENA_SLABS].base, s->arena[ARENA_SLOTS].base, slabs_max(cfg));
  int rc4 = leases_init(&s->leases, s->arena[ARENA_LEASES].base, leases_max(cfg));
  int rc5 = 0;
  for (; s->pools < cfg->pools && rc5 == 0; s->pools++)
    rc5 = pool_init(&s->pool[s->pools], &cfg->pool[s->pools], (uint8_t)s->pools);
  return rc ? rc : rc2 ? rc2 : rc3 ? rc3 : rc4 ? rc4 : rc5;
}

int store_new(const struct store_config *cfg, const int arena_fd[ARENA_COUNT], const struct store_hooks *hooks,
              struct err *e, struct store **ret_store)
{
  int rc = config_check(cfg, e);
  if (rc < 0)
    return rc;
  struct store *s = aligned_alloc(_Alignof(struct store), sizeof *s);
  if (!s)
    return err_set(e, -ENOMEM, "store: no memory");
  memset(s, 0, sizeof *s);
  if (hooks)
    s->hooks = *hooks;
  rc = arenas_map(s, cfg, arena_fd, e);
  if (rc < 0) {
    for (int i = 0; i < ARENA_COUNT; i++)
      arena_unmap(&s->arena[i]);
    free(s);
    return rc;
  }
  rc = tables_init(s, cfg);
  if (rc < 0)
    err_set(e, rc, "store: cannot set up its tables: %s", strerror(-rc));
  if (rc == 0)
    bars_begin(s);
  for (uint32_t i = 0; rc == 0 && i < s->pools; i++)
    if (s->pool[i].cfg.dev->caps.persistent)
      rc = rebuild_pool(s, &s->pool[i], e);
  if (rc == 0)
    bar_found(s);
  if (rc == 0)
    rebuild_end(s);
  if (rc < 0) {
    store_free(s);
    return rc;
  }
  *ret_store = s;
  return 0;
}

/* A persistent slab with cells is left as it is: the device closes it, and finds it again. */
static void slabs_destroy(struct store *s)
{
  for (uint32_t i = 0; s->slabs.own && i < s->slabs.bump; i++) {
    const struct slab_rec *r = &s->slabs.rec[i];
    struct pool *p = &s->pool[r->pool];
    if (!r->id || (r->indexed && r->held))
      continue;
    bool lent = s->hooks.slab_lent ? s->hooks.slab_lent(s->hooks.ctx, r->id) : true;
    pool_slab_destroy(s, p, i, lent);
  }
}

struct store *store_free(struct store *s)
{
  if (!s)
    return NULL;
  slabs_destroy(s);
  for (uint32_t i = 0; i < s->pools; i++)
    pool_deinit(&s->pool[i]);
  accounts_deinit(&s->accounts);
  bars_deinit(&s->bars);
  leases_deinit(&s->leases);
  slabs_deinit(&s->slabs);
  directory_deinit(&s->directory);
  cells_deinit(&s->cells);
  names_deinit(&s->names);
  for (int i = 0; i < ARENA_COUNT; i++)
    arena_unmap(&s->arena[i]);
  free(s);
  return NULL;
}

uint32_t store_tenant(struct store *s, const char *name)
{
  return names_tenant(&s->names, name);
}
uint32_t store_agent(struct store *s, uint32_t tenant, const char *name)
{
  return names_agent(&s->names, tenant, name);
}
uint32_t store_mkey(struct store *s, const struct dray_key *key)
{
  return names_mkey(&s->names, key);
}
const char *store_tenant_name(struct store *s, uint32_t tenant)
{
  return names_tenant_get(&s->names, tenant);
}
const char *store_agent_name(struct store *s, uint32_t agent)
{
  return names_agent_get(&s->names, agent);
}
const struct dray_key *store_mkey_get(struct store *s, uint32_t mkey)
{
  return mkey ? names_mkey_get(&s->names, mkey) : NULL;
}

void store_slot_mem(struct store *s, struct slot_ref r, struct slot_mem *ret_mem)
{
  const struct slab_rec *rec = store_slab(s, r.slab);
  const struct pool *p = &s->pool[rec->pool];
  *ret_mem = (struct slot_mem){.dev = p->cfg.dev,
                               .mem = &s->slabs.own[slab_index(r.slab)].mem,
                               .off = r.slot * rec->slot_bytes,
                               .slot_bytes = rec->slot_bytes,
                               .tenant = rec->tenant,
                               .pool = rec->pool,
                               .tier = p->cfg.tier,
                               .attendable = p->cfg.attendable};
}

void store_pin(struct store *s, struct slot_ref r)
{
  struct pool *p = store_pool_of(s, r.slab);
  LOCKED(&p->lock);
  pool_slot_pin(s, p, r, p->now_ms);
}

unsigned store_account_charge(struct store *s, uint32_t tenant, uint8_t unit, uint64_t id, uint64_t len, uint64_t limit,
                              uint16_t *ret_account)
{
  return account_charge(&s->accounts, tenant, unit, id, len, limit, ret_account);
}
void store_account_refund(struct store *s, const uint16_t account[2], uint64_t len)
{
  account_refund(&s->accounts, account[0], len);
  account_refund(&s->accounts, account[1], len);
}

void store_replay(struct store *s, struct slot_ref slot, uint64_t tokens)
{
  struct pool *p = store_pool_of(s, slot.slab);
  pthread_mutex_lock(&p->lock);
  const struct slot_row *row = slab_row(&s->slabs, slab_index(slot.slab), slot.slot);
  uint32_t idx = row_state(row) == SLOT_HELD ? row->link : 0, gen = idx ? s->cells.rec[idx].gen : 0;
  uint64_t hash = idx ? directory_hash(&s->directory, cell_domain(&s->cells.rec[idx]), s->cells.rec[idx].key) : 0;
  pthread_mutex_unlock(&p->lock);
  if (!idx)
    return;
  LOCKED(&directory_shard(&s->directory, hash)->lock); /* its fields are the shard's: shard before pool */
  if (directory_lists(&s->directory, hash, idx) && s->cells.rec[idx].gen == gen)
    s->cells.rec[idx].replay = (uint16_t)MIN_OF((tokens + 15) / 16, (uint64_t)UINT16_MAX);
}

void store_slab_seal(struct store *s, uint32_t slab)
{
  struct pool *p = store_pool_of(s, slab);
  LOCKED(&p->lock);
  store_slab(s, slab)->state = SLAB_RECLAIMING;
  store_slab(s, slab)->sealed = 1;
  list_remove(&s->slabs.own[slab_index(slab)].avail);
}

void store_unpin(struct store *s, struct slot_ref r)
{
  struct doomed d = {0};
  struct pool *p = store_pool_of(s, r.slab);
  pthread_mutex_lock(&p->lock);
  pool_slot_unpin(s, p, r, &d);
  pthread_mutex_unlock(&p->lock);
  pool_bury(s, &d);
}

void store_unpin_all(struct store *s, const struct slot_ref *refs, uint32_t n)
{
  for (uint32_t i = 0; i < n;) {
    struct doomed d = {0};
    struct pool *p = store_pool_of(s, refs[i].slab);
    pthread_mutex_lock(&p->lock);
    do /* one pool's under one lock, as long as their slabs' ends fit the list */
      pool_slot_unpin(s, p, refs[i++], &d);
    while (i < n && d.n < DOOMED_MAX && store_pool_of(s, refs[i].slab) == p);
    pthread_mutex_unlock(&p->lock);
    pool_bury(s, &d);
  }
}

void store_discard(struct store *s, struct slot_ref r)
{
  struct doomed d = {0};
  struct pool *p = store_pool_of(s, r.slab);
  pthread_mutex_lock(&p->lock);
  pool_slot_detach(s, p, r, 0, &d);
  pthread_mutex_unlock(&p->lock);
  pool_bury(s, &d);
}

unsigned store_lease_add(struct store *s, const struct lease_info *l, uint64_t *ret_id)
{
  return lease_add(&s->leases, l, ret_id);
}
unsigned store_lease_find(struct store *s, uint32_t session, uint64_t id, struct lease_info *ret_lease)
{
  return lease_find(&s->leases, session, id, ret_lease);
}
unsigned store_lease_end(struct store *s, uint32_t session, uint64_t id, bool keep_pin, struct lease_info *ret_lease)
{
  struct lease_info l;
  unsigned why = lease_end(&s->leases, session, id, &l);
  if (why != DRAY_REASON_OK)
    return why;
  if (l.slot.slab && !keep_pin)
    store_unpin(s, l.slot);
  *ret_lease = l;
  return DRAY_REASON_OK;
}
uint32_t store_lease_in(struct store *s, uint32_t session, uint32_t slab, uint64_t off, uint64_t len, uint32_t *cursor,
                        struct lease_info *ret_lease, uint32_t n)
{
  return lease_in(&s->leases, session, slab, off, len, cursor, ret_lease, n);
}
uint32_t store_lease_of(struct store *s, uint32_t session, const struct store_whose *w, uint32_t *cursor,
                        struct lease_info *ret_lease, uint32_t n)
{
  return lease_whose(&s->leases, session, w, cursor, ret_lease, n);
}
unsigned store_lease_first(struct store *s, uint32_t session, struct lease_info *ret_lease)
{
  return lease_first(&s->leases, session, ret_lease);
}
unsigned store_lease_next(struct store *s, uint32_t session, uint64_t id, struct lease_info *ret_lease)
{
  return lease_next(&s->leases, session, id, ret_lease);
}
void store_lease_close(struct store *s, uint32_t session)
{
  lease_close(&s->leases, session);
}
