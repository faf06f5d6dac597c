/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What leaves a full pool. Two ways: a class gives its least recently used slot, or a tenant gives a whole slab, cell
 * by cell, until it can be destroyed and its bytes belong to anybody.
 *
 * Whose turn: with T tenants in the pool (the asker among them) each has an equal share of capacity / T. An asker at or
 * above its share takes from itself. Below it, whoever is above gives, the largest first. When nobody is above
 * (what is missing is reserved, or cannot be moved), the asker takes from itself if it has anything, and only then from
 * somebody larger.
 *
 * A slab is given whole only when all its slots are held and without pins: emptying around a lease would cost cells and
 * gain nothing.
 */
#ifndef MOVER_STORE_VICTIM_H
#define MOVER_STORE_VICTIM_H

#include "mover/store/pool.h"

/* A slot that could leave, seen under the pool's lock; may no longer hold when that is released. */
struct victim_pick {
  struct slot_ref slot;
  uint32_t cell, gen;
  uint64_t hash, slot_bytes;
};
#define VICTIM_SAMPLE 8

/* The pool's lock is held. How many picks there are; they are of one class, or one of a slab to be emptied. */
uint32_t victim_picks(struct store *s, struct pool *p, const struct class_key *k,
                      struct victim_pick pick[VICTIM_SAMPLE]);
#endif
