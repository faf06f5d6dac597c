/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One question that goes to one peer after the other until one has the cell (or takes it), and what follows from the
 * answer. peer_ask.c: the directives; peer_turn.c: whose turn it is; peer_map.c: MAP.
 */
#ifndef MOVER_PEER_ASK_H
#define MOVER_PEER_ASK_H

#include "mover/lane.h"
#include "mover/peer_pick.h"
#include "transports/rdma/remote.h"

/* Those whose cells can be asked for: in the order of the configuration. */
struct peers {
  struct dev *dev[CONFIG_PEERS_MAX];
  uint32_t n;
  struct pick_memory memory;
};

struct peer_ask {
  struct link_call call; /* first */
  struct lane *l;
  struct step *t; /* NULL: nobody waits for it any more */
  struct dev *dev;
  uint32_t peer; /* whose dev it is */
  struct pick_set tried;
  uint64_t end_ns;   /* of all of it */
  uint16_t weighed;  /* what those who were asked before said; 0: nobody was */
  bool asking;       /* the answer is still to come */
  bool held, writes; /* the peer keeps a reservation (writes) or a pin for us */
  bool committed;    /* it has listed what we wrote */
  bool leaves;       /* MOVE: the local cell goes once the peer has it */
  bool maps;         /* MAP: a copy here is leased, or (stages: false) it is only said that it is not in reach */
  bool stages;
  uint64_t handle;
  struct slab_mem mem; /* of the peer's cell or reservation */
  uint16_t reason;
  union wire_msg a;
  struct lane_msg msg;         /* that the answer is here: it must not fail for want of memory */
  uint64_t asked_ns, until_ns; /* reading: so long at least the peer keeps the bytes */
};

/* peer_ask.c */
/* A question and the step that waits for it; NULL: out of memory. */
struct peer_ask *peer_ask_new(const struct call *c, unsigned kind, struct step **ret_step);
void peer_ask_about(struct peer_ask *k, const struct call *c, unsigned type, uint32_t mkey, bool move);
/* Sends it, or what follows it, to k->dev. */
void peer_ask_send(struct peer_ask *k, uint64_t deadline_ns);
/* Lets the peer go of what it keeps; nobody waits for the answer. */
void peer_ask_release(struct peer_ask *k);
void peer_ask_end(struct lane *l, struct step *t, unsigned reason);

/* peer_map.c */
/* The cell is there: t->tier is where its copy goes; or why none is made. */
unsigned peer_map_place(struct lane *l, struct step *t, const struct peer_ask *k);

/* peer_turn.c */
/* To the first peer. */
void peer_turn_first(struct peer_ask *k);
/* The peer said no: to the next. False: all have been asked, and the reason is *ret_reason. */
bool peer_turn_next(struct peer_ask *k, unsigned said, unsigned *ret_reason);
/* It is there, or is there now. */
void peer_turn_had(struct peer_ask *k);
#endif
