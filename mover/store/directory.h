/* SPDX-License-Identifier: Apache-2.0 */
/*
 * (domain, key) -> cell, by linear hashing: a table grows by splitting one bucket at an insert, so no insert ever pays
 * for a whole rehash. Cut into shards by the high bits of the hash; each has its own lock, its own state and its own
 * slice of the bucket arena. Buckets are chosen by the low bits.
 *
 * A bucket is one cache line of index and tag, so a find touches that line and the record it wants, nothing else; what
 * does not fit is chained through the records.
 *
 * Evicted keys are remembered as fingerprints in a small direct-mapped table: a later key may overwrite an older one,
 * then the older is merely ABSENT. Its index is made of the high bits, so a shard's lock covers the shard's part of it.
 */
#ifndef MOVER_STORE_DIRECTORY_H
#define MOVER_STORE_DIRECTORY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "mover/store/cell.h"

#define DIRECTORY_SHARD_BITS 6
#define DIRECTORY_SHARDS (1u << DIRECTORY_SHARD_BITS)
#define DIRECTORY_EVICTED_BITS 16

#define BUCKET_CELLS 10u
struct bucket {
  uint16_t tag[BUCKET_CELLS]; /* of the hash, bits that choose neither shard nor bucket */
  uint32_t more;              /* chain of those that did not fit, by cell_rec.next */
  uint32_t idx[BUCKET_CELLS]; /* 0: empty */
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct bucket) == 64, "a bucket is one cache line");

/* State of a shard's table, in the arena: buckets are 2^level + split. */
struct shard_rec {
  uint32_t level, split, count, zero[13];
};

struct shard {
  pthread_mutex_t lock;
  struct shard_rec *table;
  struct bucket *bucket;
  uint64_t evicted; /* how often */
} __attribute__((aligned(128)));

struct directory {
  struct shard shard[DIRECTORY_SHARDS];
  struct cells *cells;
  uint32_t slice; /* buckets that a shard can have at most */
  uint32_t *fingerprint;
  uint64_t seed;
};

uint64_t directory_bytes(uint32_t cells_max);
int directory_init(struct directory *d, void *arena, struct cells *cells, uint64_t seed);
void directory_deinit(struct directory *d);

uint64_t directory_hash(const struct directory *d, uint32_t domain, const uint8_t key[16]);
static inline struct shard *directory_shard(struct directory *d, uint64_t hash)
{
  return &d->shard[hash >> (64 - DIRECTORY_SHARD_BITS)];
}
static inline uint32_t shard_buckets(const struct shard *sh)
{
  return (1u << sh->table->level) + sh->table->split;
}
uint32_t shard_bucket_of(const struct shard *sh, uint64_t hash);

/* A find of that hash follows soon: fetches its bucket; then, once that is near, the record that it seems to name (0:
   none). They take no lock and believe nothing [HINT]. */
void directory_expect_bucket(struct directory *d, uint64_t hash);
uint32_t directory_expect_cell(struct directory *d, uint64_t hash);
/* The shard's lock is held. 0 when there is none. */
uint32_t directory_find(struct directory *d, uint64_t hash, uint32_t domain, const uint8_t key[16]);
/* Is that record listed under that hash: only then may it be read under this lock. */
bool directory_lists(struct directory *d, uint64_t hash, uint32_t idx);
/* The tag that a listed record has in its bucket. */
uint16_t directory_tag(const struct directory *d, uint32_t idx);
void directory_insert(struct directory *d, uint64_t hash, uint32_t idx);
void directory_remove(struct directory *d, uint64_t hash, uint32_t idx);

/* The shard's lock is held. */
void directory_evicted_mark(struct directory *d, uint64_t hash);
void directory_evicted_clear(struct directory *d, uint64_t hash);
bool directory_evicted(const struct directory *d, uint64_t hash);

/* Takes the locks. A cell that is there all the time is seen at least once; *cursor is 0 again at the end. */
uint32_t directory_walk(struct directory *d, uint32_t *cursor, struct cell_facts *ret_facts, uint32_t n);
uint64_t directory_count(struct directory *d, uint64_t *ret_buckets, uint64_t *ret_evicted);
#endif
