/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/store/quota.h"

#include <assert.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "mover/store/inside.h"

static uint64_t owed(const struct share *sh)
{
  return sh->reserve > sh->charged ? sh->reserve - sh->charged : 0;
}

static uint64_t under_limit(const struct share *sh)
{
  return sh->limit > sh->charged ? sh->limit - sh->charged : 0;
}

bool quota_capped(const struct pool *p, uint32_t tenant, uint64_t need)
{
  return under_limit(&p->share[tenant]) < need;
}

uint64_t quota_left(const struct pool *p, uint32_t tenant, uint64_t need, unsigned *ret_why)
{
  const struct share *sh = &p->share[tenant];
  uint64_t left = pool_left(p), others = p->owed - owed(sh);
  *ret_why = quota_capped(p, tenant, need) ? DRAY_QUOTA_EXCEEDED : DRAY_NO_ROOM;
  left = left > others ? left - others : 0;
  return MIN_OF(left, under_limit(sh));
}

void quota_charge(struct pool *p, uint32_t tenant, uint64_t bytes)
{
  struct share *sh = &p->share[tenant];
  p->owed -= owed(sh);
  sh->charged += bytes;
  sh->peak = MAX_OF(sh->peak, sh->charged);
  p->owed += owed(sh);
}

void quota_refund(struct pool *p, uint32_t tenant, uint64_t bytes)
{
  struct share *sh = &p->share[tenant];
  assert(bytes <= sh->charged);
  p->owed -= owed(sh);
  sh->charged -= bytes;
  p->owed += owed(sh);
}

uint64_t quota_spare(const struct share *sh)
{
  return sh->charged > sh->reserve ? sh->charged - sh->reserve : 0;
}

void store_quota_set(struct store *s, uint32_t pool, const struct store_quota *list, uint32_t n)
{
  struct pool *p = &s->pool[pool];
  LOCKED(&p->lock);
  for (uint32_t i = 0; i <= NAMES_TENANTS; i++) {
    p->share[i].reserve = 0;
    p->share[i].limit = UINT64_MAX;
    p->share[i].weight = 1;
  }
  p->owed = 0;
  for (uint32_t i = 0; i < n; i++) {
    struct share *sh = &p->share[list[i].tenant];
    p->owed -= owed(sh);
    sh->reserve = list[i].reserve;
    sh->limit = list[i].limit;
    sh->weight = MAX_OF(list[i].weight, 1u);
    p->owed += owed(sh);
  }
}

void store_usage(struct store *s, uint32_t pool, uint32_t tenant, struct store_usage *ret_usage)
{
  struct pool *p = &s->pool[pool];
  const struct share *sh = &p->share[tenant];
  LOCKED(&p->lock);
  *ret_usage = (struct store_usage){
      .quota = {.reserve = sh->reserve, .limit = sh->limit, .tenant = tenant, .weight = sh->weight},
      .charged = sh->charged,
      .peak = sh->peak,
      .cell_bytes = sh->cell_bytes};
}

uint32_t store_pool_fill(struct store *s, uint32_t pool)
{
  struct pool *p = &s->pool[pool];
  LOCKED(&p->lock);
  uint64_t taken = p->slab_bytes + p->reserved - MIN_OF(p->kept_bytes, p->slab_bytes);
  return (uint32_t)(MIN_OF(taken, p->cfg.capacity) / (p->cfg.capacity / 1000 ? p->cfg.capacity / 1000 : 1));
}

uint32_t store_tenants(struct store *s)
{
  return names_tenants(&s->names);
}
