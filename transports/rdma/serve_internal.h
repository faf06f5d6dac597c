/* SPDX-License-Identifier: Apache-2.0 */
/* The answering side's parts: serve.c (life, listening), serve_conn.c (connections), serve_mem.c (what peers reach). */
#ifndef TRANSPORTS_RDMA_SERVE_INTERNAL_H
#define TRANSPORTS_RDMA_SERVE_INTERNAL_H

#include <pthread.h>

#include "include/priv/list.h"
#include "transports/rdma/pipe.h"
#include "transports/rdma/serve.h"
#include "transports/rdma/talk.h"

#define SERVE_PEERS 256u
#define SERVE_CONNS 4096u
#define SERVE_HANDLES 4096u
#define SERVE_SLABS 4096u
#define SERVE_STRANGER_MS 5000u /* how long a connection may take to say who it is */

/* Who has said who it is: by name and instance. Outlives its connections by a lease. */
struct serve_peer {
  bool used;
  char name[WIRE_NAME_MAX];
  uint64_t instance;
  uint64_t last_ns; /* of its last question */
  uint64_t lease;   /* what it was lent, 0: nothing */
  struct verbs_mem lent;
};

struct serve_conn {
  struct list link;
  struct serve *s;
  bool control, closing;
  bool more;             /* its turn was over before its questions were */
  struct rdma_cm_id *id; /* data connections; a control connection's is its pipe's */
  struct pipe pipe;
  struct talk talk;
  struct serve_peer *peer; /* control, once in */
  uint64_t session;        /* data: whose */
  uint64_t since_ns;
};

/* A cell that a peer reads or writes. id = gen << 32 | index + 1. */
struct serve_handle {
  bool used, writes;
  uint32_t gen;
  struct serve_peer *peer;
  uint64_t until_ns;
  struct serve_cell cell;
  struct verbs_mem mem; /* writes: of the reservation alone */
};
struct serve_slab {
  uint64_t slab; /* 0: free */
  uint64_t used_ns;
  uint32_t readers;
  struct verbs_mem mem;
};

struct serve {
  struct serve_config cfg;
  struct verbs verbs;
  struct talk_host host;
  struct rdma_event_channel *events;
  struct rdma_cm_id *listener[SERVE_LISTEN_MAX];
  int epoll, wake;
  pthread_t thread;
  bool started, more; /* more: of some connection */
  uint32_t stop;      /* [STOP] */
  uint64_t now_ns;
  struct list conns;
  uint32_t conns_n;
  struct serve_peer peer[SERVE_PEERS];
  uint64_t lent_bytes, next_lease;
  struct serve_handle *handle;
  uint32_t handles_n;
  pthread_mutex_t slabs_lock; /* slabs are taken away by other threads */
  struct serve_slab *slab;
  struct serve_stats stats; /* [STAT] */
};

extern const struct talk_ops serve_ops;

void serve_say(struct serve *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* serve_conn.c */
void serve_event(struct serve *s, struct rdma_cm_event *ev); /* takes and acknowledges it */
void serve_conn_readable(struct serve_conn *c);              /* at most a window of questions */
void serve_conn_more(struct serve *s);                       /* those that were left */
void serve_conn_tick(struct serve *s);
void serve_conn_close_all(struct serve *s);

/* serve_mem.c */
struct serve_peer *serve_peer_in(struct serve *s, const struct talk *t); /* NULL: too many */
void serve_mem_tick(struct serve *s);
void serve_peer_forget(struct serve *s, struct serve_peer *p);
void serve_mem_close(struct serve *s);
#endif
