/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of a change to a cell that more than one kind of change is made of. The shard's lock is held for all but
   facts_hash; the doomed are buried by the caller after the lock. */
#ifndef MOVER_STORE_COMMIT_H
#define MOVER_STORE_COMMIT_H

#include "mover/store/inside.h"

uint64_t facts_hash(const struct store *s, const struct cell_facts *f);
/* The record of the very cell that f is of, or NULL. */
struct cell_rec *cell_of_facts(struct store *s, uint64_t hash, const struct cell_facts *f);
/* Makes a record with one copy known; old, when not 0, is the listed cell that it replaces. On refusal (LIMIT,
   NO_SPACE, IO_ERROR) nothing has changed. */
unsigned cell_list(struct store *s, uint64_t hash, const struct cell_new *n, uint8_t state, struct slot_ref slot,
                   uint32_t now_ms, uint32_t old, struct cell_facts *ret_facts, struct doomed *d);
/* The cell's copy there is bad: it loses it, or is quarantined when it has no other. False: the cell is not what it
   was. Takes and releases the shard's lock, buries by itself. */
bool cell_bad_copy(struct store *s, uint64_t hash, uint32_t idx, uint32_t gen, struct store_copy copy,
                   struct cell_facts *ret_facts);
/* Unlists the cell and lets go of all its copies. */
void cell_forget(struct store *s, uint64_t hash, uint32_t idx, struct doomed *d);
#endif
