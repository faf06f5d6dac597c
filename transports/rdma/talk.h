/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answering half of one connection: takes what came, checks it, answers it. Pure but for the ops, so that anybody's
 * bytes can be fed to it without a device (tests/fuzz/fuzz_peer.c). And the asking half's hello (struct hail).
 */
#ifndef TRANSPORTS_RDMA_TALK_H
#define TRANSPORTS_RDMA_TALK_H

#include <stdbool.h>
#include <stdint.h>

#include "transports/rdma/auth.h"
#include "transports/rdma/wire.h"

struct talk;

/* What a question asks for. Each fills the answer's body (zeroed, its head is there) and sets its reason. Called by one
   thread; may take a lock, never waits for a peer. */
struct talk_ops {
  void (*lend)(void *ctx, struct talk *t, const struct wire_lend *q, struct wire_lent *a);
  void (*segs)(void *ctx, struct talk *t, const struct wire_segs *q, struct wire_segments *a);
  void (*wipe)(void *ctx, struct talk *t, const struct wire_wipe *q, struct wire_done *a);
  void (*resolve)(void *ctx, struct talk *t, const struct wire_resolve *q, struct wire_resolved *a);
  void (*reserve)(void *ctx, struct talk *t, const struct wire_reserve *q, struct wire_reserved *a);
  void (*stat)(void *ctx, struct talk *t, const struct wire_resolve *q, struct wire_facts *a);
  void (*release)(void *ctx, struct talk *t, uint64_t handle, struct wire_done *a);
  void (*commit)(void *ctx, struct talk *t, const struct wire_commit *q, struct wire_done *a);
  void (*abandon)(void *ctx, struct talk *t, uint64_t handle, struct wire_done *a);
};

/* The same for all connections of a mover. */
struct talk_host {
  const struct talk_ops *ops;
  void *ctx;
  struct auth_key key;
  char name[WIRE_NAME_MAX];
  uint32_t epoch;
  uint32_t lease_ms;
  uint64_t cell_max;
};

enum talk_state { TALK_NEW = 1, TALK_CHALLENGED = 2, TALK_IN = 3, TALK_CLOSED = 4 };

struct talk {
  const struct talk_host *host;
  uint8_t state; /* enum talk_state */
  bool own_address;
  struct auth_facts facts;
  uint64_t instance, session;
  uint32_t serial; /* of the last join */
  const char *why; /* it was closed for; static text */
};

/* own_address: the peer's is one of this host. */
void talk_open(struct talk *t, const struct talk_host *host, bool own_address);
/* One message as it came. 0: ret_answer is to be sent. -EPROTO (no message of this protocol, out of order), -EACCES
   (not who it should be): close the connection; t->why says why. Nothing is answered then: a stranger learns nothing.
 */
int talk_feed(struct talk *t, const void *msg, size_t n, union wire_msg *ret_answer);
/* May this connection join the session as one that carries data? 0, -EPROTO, -EACCES. */
int talk_join(struct talk *t, const void *join, size_t n, struct wire_join *ret_join);

/* ---- the asking half's hello ---- */
struct hail {
  const struct auth_key *key;
  bool own_address;
  struct auth_facts facts;
  uint64_t session, cell_max;
  uint32_t lease_ms, epoch;
  const char *why;
};
/* The first question. 0, -EIO. */
int hail_begin(struct hail *h, const struct auth_key *key, const char *name, uint64_t instance, bool own_address,
               uint64_t id, union wire_msg *ret_question);
/* The CHALLENGE is here: 0 and the second question; -EPROTO, -EACCES with h->why. */
int hail_challenged(struct hail *h, const void *msg, size_t n, uint64_t id, union wire_msg *ret_question);
/* The WELCOME is here: 0: we are in; -EPROTO, -EACCES. */
int hail_welcomed(struct hail *h, const void *msg, size_t n);
/* The private data of a further connection. */
void hail_join(const struct hail *h, uint8_t lane, uint8_t path, uint32_t serial, struct wire_join *ret_join);
#endif
