/* SPDX-License-Identifier: Apache-2.0 */
/* link.c: connections; call.c: questions on the control connection, and the memory that was lent. */
#ifndef TRANSPORTS_RDMA_LINK_INTERNAL_H
#define TRANSPORTS_RDMA_LINK_INTERNAL_H

#include "transports/rdma/rdma_internal.h"

enum link_phase { PHASE_NONE = 0, PHASE_HELLO = 1, PHASE_AUTH = 2, PHASE_LEND = 3, PHASE_SEGS = 4, PHASE_IN = 5 };

struct link {
  struct rdma_dev *d;
  struct rdma_event_channel *channel;
  int epoll, wake;
  pthread_t thread;
  bool started;
  uint32_t stop;       /* [STOP] */
  uint32_t status;     /* [LINK] enum link_status */
  uint32_t paths_open; /* [HINT] */
  uint64_t now_ns;
  /* [STAT] for whoever looks */
  uint64_t why; /* static text: what the control connection was last dropped for */
  uint64_t dials, lost, epoch, retry_ns, answered, answer_ns;

  struct dial control;
  struct pipe pipe;
  struct hail hail;
  uint8_t phase; /* enum link_phase */
  uint64_t instance, next_id, heard_ns, asked_ns;
  uint32_t serial;
  bool known; /* the peer has been spoken to, and this was its epoch */
  uint32_t known_epoch;
  struct dial *data; /* [lane * paths + path] */

  pthread_mutex_t lock; /* calls */
  struct list calls;    /* to be asked */
  struct list asked;    /* by the link thread alone */
  bool closed;
  uint32_t open_n; /* questions without an answer yet, with those nobody waits for any more */
  uint64_t ping_id, wipe_id;
  struct wipe *wipe;   /* asked for */
  uint64_t lease;      /* of what is lent */
  struct lent *coming; /* being filled */
};

void link_drop(struct link *k, const char *why);
void link_is_in(struct link *k);
void link_void(struct link *k); /* what the peer told us is not so any more */

/* call.c */
void calls_heard(struct link *k);
void calls_tick(struct link *k);
void calls_ping(struct link *k);
void calls_lost(struct link *k); /* the connection is gone */
void calls_stop(struct link *k); /* nothing will be asked any more */
#endif
