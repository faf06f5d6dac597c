/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other movers. Asking (peer.c, peer_ask.c): a directive for the tier `remote`, or one whose cell is not here, asks the
 * peer; its step waits in STEP_ASK without being in anybody's way, and then moves bytes as any other. Answering
 * (peer_serve.c): what peers ask passes our own gate. Where the build has no RDMA, peer_none.c says no to all of it.
 */
#ifndef MOVER_PEER_H
#define MOVER_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "include/priv/err.h"
#include "mover/ops.h"

struct config;
struct daemon;
struct lane;
struct lane_msg;
struct peer_ask;
struct span;
struct step;

/* ---- life; control thread ---- */
/* Loads and reads what cannot be any more when the sandbox has closed. 0 or -errno with a text. */
int peers_prepare(struct daemon *d, struct err *e);
/* The store is there: peers are answered. */
int peers_start(struct daemon *d, struct err *e);
/* Nobody is answered any more; before the store goes. */
void peers_stop(struct daemon *d);
/* A few times a second: engines hear of links that came or went (LINK_STATE), and what was lost with a lease is
   forgotten. False: there is nothing to look after. */
bool peers_tick(struct daemon *d);
/* Peers do not reach that slab any more when this returns. Any thread. */
void peers_slab_gone(struct daemon *d, uint32_t slab);
/* Those who ask us. */
struct peers_served {
  uint64_t peers, connections, lent_bytes, cells, registered_slabs; /* now; cells: that they read or write */
  uint64_t refused;                                                 /* connections, since the start */
};
/* False: nobody may. */
bool peers_served(struct daemon *d, struct peers_served *ret_served);
/* A lane tells its sessions. */
void peers_tell(struct lane *l, const struct lane_msg *m);

/* ---- asking; the lane's thread ---- */
/* Is there a peer whose cells can be asked for. */
bool peer_any(const struct lane *l);
/* Each makes a step that will answer, or, when it cannot, fills the outcome and returns true. `tier` is where the cell
   is to be (MOVE). */
bool peer_get(const struct call *c, const struct span *mem, uint32_t mkey, struct outcome *o);
bool peer_put(const struct call *c, const struct span *mem, uint32_t mkey, struct outcome *o);
/* A copy of the peer's cell is leased (DRAY_MAP_OR_STAGE), or it is said that it is not attendable. */
bool peer_map(const struct call *c, uint32_t mkey, struct outcome *o);
/* Its copy has come, and a cell of that key is listed here: the step gives way to a MAP of that. */
void peer_map_here(struct lane *l, struct step *t);
bool peer_stat(const struct call *c, struct outcome *o);
bool peer_bring(const struct call *c, struct outcome *o);
/* A local copy, pinned in slot, goes to the peer, and then from here. */
bool peer_send(const struct call *c, const struct cell_facts *f, struct slot_ref slot, struct outcome *o);
/* LANE_PEER: an answer is here. */
void peer_answered(struct lane *l, struct peer_ask *a);
/* The step's bytes have arrived there, whole: true: the peer is asked to list them, and the step waits for that. */
bool peer_commits(struct lane *l, struct step *t);
/* It failed: true: another peer is asked for the same. */
bool peer_again(struct lane *l, struct step *t);
/* The step has its slot here: what it reads is the peer's cell. */
void peer_source(struct lane *l, struct step *t, void *to);
/* The step ends: lets go of what the peer keeps for it. */
void peer_step_end(struct lane *l, struct step *t);
#endif
