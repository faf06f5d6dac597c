/* SPDX-License-Identifier: Apache-2.0 */
/* Looking in from outside: sums for the CLI and the metrics, and questions about pools. */
#include <string.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "mover/store/inside.h"

/* Rows that were ever touched, which is what they cost. Returns slabs' rows of the pool. */
static uint64_t pool_stats_get(struct store *s, struct pool *p, struct pool_stats *ret_stats)
{
  const struct dev_caps *caps = &p->cfg.dev->caps;
  struct pool_stats *st = ret_stats;
  uint64_t rows = 0;
  memcpy(st->name, p->cfg.name, sizeof st->name);
  memcpy(st->note, caps->note, sizeof st->note);
  st->tier = p->cfg.tier;
  st->attendable = p->cfg.attendable;
  st->emulated = caps->emulated;
  st->persistent = caps->persistent;
  st->capacity = p->cfg.capacity;
  LOCKED(&p->lock);
  st->slab_bytes = p->slab_bytes + p->reserved;
  st->cell_bytes = p->cell_bytes;
  st->slabs = p->slabs;
  st->cells = p->cells;
  LIST_EACH (&p->shares, n) {
    const struct share *sh = LIST_OF(n, struct share, active);
    LIST_EACH (&sh->slabs, m)
      rows += s->slabs.rec[LIST_OF(m, struct slab, peer) - s->slabs.own].fresh;
  }
  return rows;
}

void store_stats(struct store *s, struct store_stats *ret_stats)
{
  struct store_stats st = {.pools = s->pools, .found_on_disk = s->found, .skipped_on_disk = s->skipped};
  uint64_t rows = 0, buckets, records;
  for (uint32_t i = 0; i < s->pools; i++)
    rows += pool_stats_get(s, &s->pool[i], &st.pool[i]);
  st.cells = directory_count(&s->directory, &buckets, &st.evicted);
  st.leases = leases_count(&s->leases);
  st.slabs = slabs_count(&s->slabs);
  pthread_mutex_lock(&s->cells.lock);
  records = s->cells.bump;
  pthread_mutex_unlock(&s->cells.lock);
  st.directory_bytes =
      records * sizeof(struct cell_rec) + buckets * sizeof(struct bucket) + rows * sizeof(struct slot_row);
  *ret_stats = st;
}

uint32_t store_walk(struct store *s, uint32_t *cursor, struct cell_facts *ret_facts, uint32_t n)
{
  return n ? directory_walk(&s->directory, cursor, ret_facts, n) : 0;
}

int store_pool_of_tier(struct store *s, uint8_t tier)
{
  for (uint32_t i = 0; i < s->pools; i++)
    if (s->pool[i].cfg.tier == tier)
      return (int)i;
  return -1;
}

uint32_t store_pools(const struct store *s)
{
  return s->pools;
}

const struct store_pool_config *store_pool(const struct store *s, uint32_t pool)
{
  return pool < s->pools ? &s->pool[pool].cfg : NULL;
}

uint64_t store_pool_free(struct store *s, uint32_t pool)
{
  struct pool *p = &s->pool[pool];
  LOCKED(&p->lock);
  return MIN_OF(pool_left(p) + p->kept_bytes, p->cfg.capacity);
}
