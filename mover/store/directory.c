/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/store/directory.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "include/priv/hash.h"
#include "include/priv/order.h"

#define BUCKETS_FIRST_LEVEL 4
#define WALK_BUCKET_BITS 26
/* Cells per bucket, on average. Buckets that a round of splits has not come to yet hold up to twice as many: half full
   is what keeps the chains rare, at 13 bytes a cell. */
#define BUCKET_LOAD 5u

/* Room for an even spread; a shard with more has longer chains, nothing worse. */
static uint32_t slice_of(uint32_t cells_max)
{
  uint64_t n = (uint64_t)cells_max / BUCKET_LOAD / DIRECTORY_SHARDS + 1;
  n = MAX_OF(n, 1u << BUCKETS_FIRST_LEVEL);
  return pow2_at_least((uint32_t)MIN_OF(n, 1u << WALK_BUCKET_BITS));
}

uint64_t directory_bytes(uint32_t cells_max)
{
  return align_up(DIRECTORY_SHARDS * sizeof(struct shard_rec), PAGE_BYTES) +
         (uint64_t)DIRECTORY_SHARDS * slice_of(cells_max) * sizeof(struct bucket);
}

int directory_init(struct directory *d, void *arena, struct cells *cells, uint64_t seed)
{
  d->cells = cells;
  d->seed = seed;
  d->slice = slice_of(cells->max);
  struct shard_rec *table = arena;
  struct bucket *bucket =
      (struct bucket *)(void *)((char *)arena + align_up(DIRECTORY_SHARDS * sizeof *table, PAGE_BYTES));
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

static uint16_t tag_of(uint64_t hash)
{
  return (uint16_t)(hash >> 32);
}

/* Without the lock: a table that grows meanwhile makes the hint useless, not wrong. */
static const struct bucket *bucket_hint(const struct shard *sh, uint64_t hash)
{
  uint32_t level = hint_read(&sh->table->level), h = (uint32_t)hash, b = h & ((1u << level) - 1);
  return &sh->bucket[b < hint_read(&sh->table->split) ? h & ((2u << level) - 1) : b];
}

_Static_assert(BUCKET_CELLS == 10 && offsetof(struct bucket, tag) == 0, "tags are compared as 4, 4 and 2");

/* Bit 16 * i + 15 for each 16-bit word i that is zero. A borrow can also mark a word of 1 above a zero one: a
   candidate, as every match is. */
static uint64_t zero_words(uint64_t x)
{
  return (x - 0x0001000100010001ull) & ~x & 0x8000800080008000ull;
}

/* A bit per slot whose tag may be the hash's (see match_slot); empty ones may be among them. */
static uint64_t bucket_match(const struct bucket *b, uint64_t hash)
{
  uint64_t want = tag_of(hash) * 0x0001000100010001ull;
  uint64_t low = zero_words(hint_read64(&b->tag[0]) ^ want), high = zero_words(hint_read64(&b->tag[4]) ^ want);
  return low >> 15 | high >> 14 | (uint64_t)(hint_read16(&b->tag[8]) == tag_of(hash)) << 2 |
         (uint64_t)(hint_read16(&b->tag[9]) == tag_of(hash)) << 18;
}
static unsigned match_slot(uint64_t match)
{
  unsigned bit = (unsigned)__builtin_ctzll(match);
  return bit % 4 * 4 + bit / 16;
}

void directory_expect_bucket(struct directory *d, uint64_t hash)
{
  __builtin_prefetch(bucket_hint(directory_shard(d, hash), hash));
}

uint32_t directory_expect_cell(struct directory *d, uint64_t hash)
{
  const struct bucket *b = bucket_hint(directory_shard(d, hash), hash);
  uint32_t idx = 0;
  for (uint64_t m = bucket_match(b, hash); m; m &= m - 1) {
    uint32_t i = hint_read(&b->idx[match_slot(m)]);
    __builtin_prefetch(&d->cells->rec[i]);
    __builtin_prefetch((const char *)&d->cells->rec[i] + 64);
    idx = i ? i : idx;
  }
  return idx;
}

static bool cell_is(const struct cell_rec *c, uint64_t hash, uint32_t domain, const uint8_t key[16])
{
  __builtin_prefetch((const char *)c + 64); /* the copies, wanted next, are on the second line */
  return c->tag == (uint32_t)hash && !memcmp(c->key, key, 16) && cell_domain(c) == domain;
}

uint32_t directory_find(struct directory *d, uint64_t hash, uint32_t domain, const uint8_t key[16])
{
  const struct shard *sh = directory_shard(d, hash);
  const struct cell_rec *rec = d->cells->rec;
  const struct bucket *b = &sh->bucket[shard_bucket_of(sh, hash)];
  for (uint64_t m = bucket_match(b, hash); m; m &= m - 1) {
    uint32_t i = b->idx[match_slot(m)];
    if (i && cell_is(&rec[i], hash, domain, key))
      return i;
  }
  for (uint32_t i = b->more; UNLIKELY(i); i = rec[i].next)
    if (cell_is(&rec[i], hash, domain, key))
      return i;
  return 0;
}

bool directory_lists(struct directory *d, uint64_t hash, uint32_t idx)
{
  const struct shard *sh = directory_shard(d, hash);
  const struct bucket *b = &sh->bucket[shard_bucket_of(sh, hash)];
  for (unsigned i = 0; i < BUCKET_CELLS; i++)
    if (b->idx[i] == idx)
      return true;
  uint32_t i = b->more;
  while (i && i != idx)
    i = d->cells->rec[i].next;
  return i != 0;
}

static void bucket_set(struct bucket *b, unsigned i, uint32_t idx, uint16_t tag)
{
  hint_set(&b->idx[i], idx);
  hint_set16(&b->tag[i], tag);
}

/* Bits 32 to 47 of the hash are not in the record: whoever has the tag at hand brings it along. */
static void bucket_add(struct directory *d, struct bucket *b, uint32_t idx, uint16_t tag)
{
  for (unsigned i = 0; i < BUCKET_CELLS; i++)
    if (!b->idx[i]) {
      bucket_set(b, i, idx, tag);
      return;
    }
  d->cells->rec[idx].next = b->more;
  b->more = idx;
}

uint16_t directory_tag(const struct directory *d, uint32_t idx)
{
  const struct cell_rec *c = &d->cells->rec[idx];
  return tag_of(directory_hash(d, cell_domain(c), c->key));
}

/* Splits one bucket: its cells are dealt out between itself and a new last bucket by one more bit of the hash. */
static void shard_grow(struct directory *d, struct shard *sh)
{
  struct shard_rec *t = sh->table;
  struct cell_rec *rec = d->cells->rec;
  uint32_t from = t->split, bit = 1u << t->level;
  struct bucket *old = &sh->bucket[from], *new = &sh->bucket[from + bit];
  uint32_t more = old->more;
  for (unsigned i = 0; i < BUCKET_CELLS; i++) {
    uint32_t idx = old->idx[i];
    if (idx && rec[idx].tag & bit) {
      bucket_add(d, new, idx, old->tag[i]);
      bucket_set(old, i, 0, 0);
    }
  }
  old->more = 0;
  for (uint32_t i = more, next; i; i = next) {
    next = rec[i].next;
    bucket_add(d, rec[i].tag & bit ? new : old, i, directory_tag(d, i));
  }
  if (from + 1 < bit) {
    hint_set(&t->split, from + 1);
  } else {
    hint_set(&t->level, t->level + 1);
    hint_set(&t->split, 0);
  }
}

void directory_insert(struct directory *d, uint64_t hash, uint32_t idx)
{
  struct shard *sh = directory_shard(d, hash);
  if (sh->table->count >= shard_buckets(sh) * BUCKET_LOAD && shard_buckets(sh) < d->slice)
    shard_grow(d, sh);
  d->cells->rec[idx].tag = (uint32_t)hash;
  bucket_add(d, &sh->bucket[shard_bucket_of(sh, hash)], idx, tag_of(hash));
  sh->table->count++;
}

void directory_remove(struct directory *d, uint64_t hash, uint32_t idx)
{
  struct shard *sh = directory_shard(d, hash);
  struct cell_rec *rec = d->cells->rec;
  struct bucket *b = &sh->bucket[shard_bucket_of(sh, hash)];
  unsigned i = 0;
  sh->table->count--;
  while (i < BUCKET_CELLS && b->idx[i] != idx)
    i++;
  if (i == BUCKET_CELLS) {
    uint32_t *link = &b->more;
    while (*link != idx)
      link = &rec[*link].next;
    *link = rec[idx].next;
    return;
  }
  bucket_set(b, i, 0, 0);
  if (b->more) { /* one of the chain moves up */
    uint32_t up = b->more;
    b->more = rec[up].next;
    bucket_set(b, i, up, directory_tag(d, up));
  }
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

static uint32_t bucket_facts(const struct directory *d, const struct bucket *b, struct cell_facts *ret_facts,
                             uint32_t n)
{
  const struct cell_rec *rec = d->cells->rec;
  uint32_t got = 0;
  for (unsigned i = 0; i < BUCKET_CELLS; i++)
    if (b->idx[i] && got++ < n)
      cell_facts_get(&rec[b->idx[i]], b->idx[i], &ret_facts[got - 1]);
  for (uint32_t i = b->more; i; i = rec[i].next)
    if (got++ < n)
      cell_facts_get(&rec[i], i, &ret_facts[got - 1]);
  return got;
}

/* Cursor: shard << WALK_BUCKET_BITS | bucket. A split moves cells to a later bucket only, so none is skipped. */
uint32_t directory_walk(struct directory *d, uint32_t *cursor, struct cell_facts *ret_facts, uint32_t n)
{
  uint32_t shard = *cursor >> WALK_BUCKET_BITS, bucket = *cursor & ((1u << WALK_BUCKET_BITS) - 1), got = 0;
  for (; shard < DIRECTORY_SHARDS; shard++, bucket = 0) {
    struct shard *sh = &d->shard[shard];
    LOCKED(&sh->lock);
    for (; bucket < shard_buckets(sh); bucket++) {
      uint32_t there = bucket_facts(d, &sh->bucket[bucket], ret_facts + got, n - got);
      if (there > n - got && got) { /* a bucket is given whole, unless it alone is too much */
        *cursor = shard << WALK_BUCKET_BITS | bucket;
        return got;
      }
      got = MIN_OF(got + there, n);
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
