/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases that are taken back. The engine is told (REVOKE, and the lease's row says REVOKING); it has the grace of the
 * configuration to end the lease. If it does not, its session ends, and what it had leased is held: pinned, in slabs
 * that take nothing new, until its process is dead. So bytes are never reused under a map, whatever an engine does.
 */
#ifndef MOVER_REVOKE_H
#define MOVER_REVOKE_H

#include <stdbool.h>
#include <stdint.h>

#include "include/priv/list.h"
#include "mover/store/store.h"

struct daemon;
struct lane;
struct lane_msg;
struct session;

/* One lease that an engine was asked for; of a lane. */
struct revoke {
  struct list link; /* oldest first: all have the same grace */
  struct session *s;
  uint64_t lease, until_ns;
};
/* What a session that is over still maps; of the control thread. */
struct revoke_held {
  struct list link;
  int pidfd;
  uint64_t bytes;
  uint32_t n;
  struct slot_ref slot[];
};
struct revokes {
  uint64_t asked;              /* [STAT] shared: leases asked back */
  uint64_t given;              /* [STAT] shared: ended in time */
  uint64_t sessions;           /* [STAT] shared: ended because theirs was not */
  uint64_t held_n, held_bytes; /* [STAT] the control thread's: now */
  struct list held;
};

/* Asks every session but its owner's for its leases on bytes that the cell has or had up to this commit: copies of it,
   and what a PUT, a PUBLISH or a move has replaced since they were leased. The cell itself is out of reach already:
   quarantined, or replaced by what is published now. Any thread. */
void revoke_cell(struct daemon *d, const struct cell_facts *f);
/* The operator takes a cell from everybody: QUARANTINED, and its leases back. OK, QUARANTINED: it was; ABSENT, EVICTED:
   it is gone, but leases on bytes that it had are asked back; STALE_GENERATION: replaced in this moment, the same. */
unsigned revoke_by_key(struct daemon *d, const char *tenant, const uint8_t key[16]);

/* The lane's: LANE_REVOKE; deadlines (the next one, UINT64_MAX: none); a session of the lane is over. */
void revoke_tell(struct lane *l, const struct lane_msg *m);
uint64_t revoke_expire(struct lane *l);
void revoke_forget(struct lane *l, const struct session *s);

/* The control thread's. Before a quiet session is freed: takes its leases over if its process may still map them.
   False: nothing is to be held. */
bool revoke_hold(struct daemon *d, struct session *s);
/* LOOP_HELD: the process is dead. */
void revoke_release(struct daemon *d, struct revoke_held *h);
void revoke_deinit(struct daemon *d);
#endif
