/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's side of a session: shared by the client_*.c files, by nobody else. */
#ifndef RING_CLIENT_INTERNAL_H
#define RING_CLIENT_INTERNAL_H

#include <dray/dray.h>

#include "ring/handshake.h"
#include "ring/wire.h"

#define CLIENT_MAPS 64u /* MAP completions between two looks at the socket */
#define CLIENT_CACHE 64u

/* One slab this session has been lent, by slab index (id & 0xffff). */
struct client_slab {
  uint32_t id; /* 0: none */
  int fd;      /* until it is mapped */
  uint8_t writable;
  void *base;
  uint64_t size, offset;
};

struct dray {
  /* ring */
  struct wire_out sq;
  struct wire_in cq;
  struct dray_u_head *u;               /* all of U, read-write */
  const struct dray_m_head *m;         /* all of M, read-only */
  struct dray_geometry geo;            /* private copy, never read back from M */
  struct dray_cqe cache[CLIENT_CACHE]; /* completions taken from the ring and not yet seen */
  uint32_t cached, at;
  uint32_t out; /* prepared or submitted, DONE not yet seen */
  uint32_t spin_ns;
  /* socket */
  int sock, bell, poll;
  uint32_t timeout_ms;
  uint32_t seq;
  uint16_t epoch;
  uint32_t maps; /* MAP completions seen */
  bool dead, fatal_told;
  struct dray_msg_reply last;
  char tenant[DRAY_NAME_MAX];
  uint64_t session;
  /* leases */
  struct client_slab *slabs;
  uint32_t nslabs; /* places */
  /* arena */
  uint64_t *rows; /* bit per group of CLIENT_ROW_GROUP rows: 1 is taken */
  uint32_t row_groups;
  bool arena; /* rows were ever asked for */
};

#define CLIENT_ROW_GROUP 32u

uint64_t client_now_ns(void);
/* Reads what the mover sent unasked (slabs lent, slabs gone), never blocking. 0, -ECONNRESET, -EPROTO. */
int client_drain(struct dray *d);
/* One request, one reply. 0 or the reply's error, or -ETIMEDOUT, -ECONNRESET, -EPROTO. */
int client_call(struct dray *d, void *msg, size_t n, int fd, struct dray_msg_reply *ret_reply);
/* Takes in an unasked message; closes fds it has no use for. */
int client_take_message(struct dray *d, const union handshake_msg *msg, int fd);
void client_slabs_free(struct dray *d);
#endif
