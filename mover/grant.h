/* SPDX-License-Identifier: Apache-2.0 */
/* Leases as an engine sees them: granted by MAP and ALLOC, ended by UNMAP, COMMIT or the session's end. */
#ifndef MOVER_GRANT_H
#define MOVER_GRANT_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/job.h"
#include "mover/store/store.h"

/* The caller's pin on slot becomes a read lease: its slab's fd is sent if it was not yet, its row in M is set, the
   outcome is filled. Otherwise the pin is ended and the outcome says why (LIMIT). */
void grant_read(struct lane *l, struct session *s, const struct cell_facts *f, struct slot_ref slot,
                struct outcome *ret_outcome);
/* UNMAP: ends a read lease, abandons a fill. */
void grant_end(struct lane *l, struct session *s, uint64_t id, struct outcome *ret_outcome);
/* All of the session's, when it ends (control thread, lane is quiet). */
void grant_end_all(struct session *s);
/* Row in M: set to live, or cleared. */
int grant_row_set(struct session *s, uint64_t id);
/* The level-triggered truth behind POISON. */
/* The lease is to be given back; is it already said so. */
void grant_row_revoke(struct session *s, uint64_t id);
bool grant_row_revoking(const struct session *s, uint64_t id);
void grant_row_poison(struct session *s, uint64_t id);
void grant_row_clear(struct session *s, uint64_t id);
#endif
