/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/store/directory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "include/priv/hash.h"

#define BUCKETS_FIRST_LEVEL 4
#define WALK_BUCKET_BITS 26
/* Two buckets per cell: a stranger in a chain costs a cache miss, a bucket four bytes. */
#define GROW_PER_INSERT 2

/* Two buckets per cell of an even spread; a shard with more has longer chains, nothing worse. */
static uint32_t slice_of(uint32_t cells_max)
{
  uint64_t n = (uint64_t)cells_max * 2 / DIRECTORY_SHARDS;
  n = MAX_OF(n, 1u << BUCKETS_FIRST_LEVEL);
  return pow2_at_least((uint32_t)MIN_OF(n, 1u << WALK_BUCKET_BITS));
}

uint64_t directory_bytes(uint32_t cells_max)
{
  return align_up(DIRECTORY_SHARDS * sizeof(struct shard_rec), PAGE_BYTES) +
         (uint64_t)DIRECTORY_SHARDS * slice_of(cells_max) * sizeof(uint32_t);
}

int directory_init(struct directory *d, void *arena, struct cells *cells, uint64_t seed)
{
  d->cells = cells;
  d->seed = seed;
  d->slice = slice_of(cells->max);
  struct shard_rec *table = arena;
  uint32_t *bucket = (uint32_t *)(void *)((char *)arena + align_up(DIRECTORY_SHARDS * sizeof *table, PAGE_BYTES));
  for (unsigned i = 0; i < DIRECTORY_SHARDS; i++) {
    struct shard *sh = &d->shard[i];
    pthread_mutex_init(&sh->lock, NULL);
    sh->table = &table[i];
    sh->table->level = BUCKETS_FIRST_LEVEL;
    sh->bucket = bucket + (size_t)i * d->slice;
    sh->evicted = 0;
  }
  d->fingerprint = calloc(1u << DIRECTORY_EVICTED_BITS, sizeof(uint32_t));
  return d->fingerprint ? 0 : -ENOMEM;
}

void directory_deinit(struct directory *d)
{
  for (unsigned i = 0; i < DIRECTORY_SHARDS; i++)
    pthread_mutex_destroy(&d->shard[i].lock);
  free(d->fingerprint);
}

uint64_t directory_hash(const struct directory *d, uint32_t domain, const uint8_t key[16])
{
  return hash_key(key, domain, d->seed);
}

uint32_t shard_bucket_of(const struct shard *sh, uint64_t hash)
{
  uint32_t h = (uint32_t)hash, b = h & ((1u << sh->table->level) - 1);
  return b < sh->table->split ? h & ((2u << sh->table->level) - 1) : b;
}

uint32_t directory_find(struct directory *d, uint64_t hash, uint32_t domain, const uint8_t key[16])
{
  const struct shard *sh = directory_shard(d, hash);
  const struct cell_rec *rec = d->cells->rec;
  for (uint32_t i = sh->bucket[shard_bucket_of(sh, hash)]; i; i = rec[i].next) {
    const struct cell_rec *c = &rec[i];
    __builtin_prefetch((const char *)c + 64); /* the copies, wanted next, are on the second line */
    if (c->tag == (uint32_t)hash && !memcmp(c->key, key, 16) && cell_domain(c) == domain)
      return i;
  }
  return 0;
}

bool directory_lists(struct directory *d, uint64_t hash, uint32_t idx)
{
  const struct shard *sh = directory_shard(d, hash);
  uint32_t i = sh->bucket[shard_bucket_of(sh, hash)];
  while (i && i != idx)
    i = d->cells->rec[i].next;
  return i != 0;
}

/* Splits one bucket: its chain is dealt out between itself and a new last bucket by one more bit of the hash. */
static void shard_grow(struct directory *d, struct shard *sh)
{
  struct shard_rec *t = sh->table;
  struct cell_rec *rec = d->cells->rec;
  uint32_t from = t->split, bit = 1u << t->level, stay = 0, go = 0;
  for (uint32_t i = sh->bucket[from], next; i; i = next) {
    next = rec[i].next;
    uint32_t *head = rec[i].tag & bit ? &go : &stay;
    rec[i].next = *head;
    *head = i;
  }
  sh->bucket[from] = stay;
  sh->bucket[from + bit] = go;
  if (++t->split == bit) {
    t->level++;
    t->split = 0;
  }
}

void directory_insert(struct directory *d, uint64_t hash, uint32_t idx)
{
  struct shard *sh = directory_shard(d, hash);
  for (unsigned i = 0; i < GROW_PER_INSERT; i++)
    if (sh->table->count >= shard_buckets(sh) / 2 && shard_buckets(sh) < d->slice)
      shard_grow(d, sh);
  struct cell_rec *c = &d->cells->rec[idx];
  uint32_t *head = &sh->bucket[shard_bucket_of(sh, hash)];
  c->tag = (uint32_t)hash;
  c->next = *head;
  *head = idx;
  sh->table->count++;
}

void directory_remove(struct directory *d, uint64_t hash, uint32_t idx)
{
  struct shard *sh = directory_shard(d, hash);
  struct cell_rec *rec = d->cells->rec;
  uint32_t *link = &sh->bucket[shard_bucket_of(sh, hash)];
  while (*link != idx)
    link = &rec[*link].next;
  *link = rec[idx].next;
  sh->table->count--;
}

static uint32_t *fingerprint_at(const struct directory *d, uint64_t hash)
{
  return &d->fingerprint[hash >> (64 - DIRECTORY_EVICTED_BITS)];
}

void directory_evicted_mark(struct directory *d, uint64_t hash)
{
  *fingerprint_at(d, hash) = (uint32_t)hash | 1;
  directory_shard(d, hash)->evicted++;
}

void directory_evicted_clear(struct directory *d, uint64_t hash)
{
  uint32_t *f = fingerprint_at(d, hash);
  if (*f == ((uint32_t)hash | 1))
    *f = 0;
}

bool directory_evicted(const struct directory *d, uint64_t hash)
{
  return *fingerprint_at(d, hash) == ((uint32_t)hash | 1);
}

/* Cursor: shard << WALK_BUCKET_BITS | bucket. A split moves cells to a later bucket only, so none is skipped. */
uint32_t directory_walk(struct directory *d, uint32_t *cursor, struct cell_facts *ret_facts, uint32_t n)
{
  const struct cell_rec *rec = d->cells->rec;
  uint32_t shard = *cursor >> WALK_BUCKET_BITS, bucket = *cursor & ((1u << WALK_BUCKET_BITS) - 1), got = 0;
  for (; shard < DIRECTORY_SHARDS; shard++, bucket = 0) {
    struct shard *sh = &d->shard[shard];
    LOCKED(&sh->lock);
    for (; bucket < shard_buckets(sh); bucket++) {
      uint32_t before = got;
      for (uint32_t i = sh->bucket[bucket]; i; i = rec[i].next) {
        if (got == n && before) { /* a chain is given whole, unless it alone is too long */
          *cursor = shard << WALK_BUCKET_BITS | bucket;
          return before;
        }
        if (got < n)
          cell_facts_get(&rec[i], i, &ret_facts[got++]);
      }
    }
  }
  *cursor = 0;
  return got;
}

uint64_t directory_count(struct directory *d, uint64_t *ret_buckets, uint64_t *ret_evicted)
{
  uint64_t cells = 0, buckets = 0, evicted = 0;
  for (unsigned i = 0; i < DIRECTORY_SHARDS; i++) {
    struct shard *sh = &d->shard[i];
    LOCKED(&sh->lock);
    cells += sh->table->count;
    buckets += shard_buckets(sh);
    evicted += sh->evicted;
  }
  *ret_buckets = buckets;
  *ret_evicted = evicted;
  return cells;
}
