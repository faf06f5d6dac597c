/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mover thread with its own sessions and its own queues into every transport. It takes, admits, moves, completes; it
 * never waits for a device, a peer or another thread but in its one epoll.
 */
#ifndef MOVER_LANE_H
#define MOVER_LANE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "include/priv/list.h"
#include "mover/help.h"
#include "mover/meter.h"
#include "mover/stats.h"
#include "mover/step.h"
#include "transports/transport.h"

#define LANE_QUANTUM ((int64_t)256 << 10) /* bytes a session is served per visit */
#define LANE_STEPS 1024u
#define LANE_CHUNKS 256u
#define LANE_VECS 128u
#define LANE_UNPINS 32u
#define LANE_SESSION_STEPS 64u /* steps one session has under way at a time */

/* An xfer under way. cookie = generation << 32 | index. */
struct chunk {
  struct step *step; /* NULL: free */
  uint32_t gen;
  uint32_t next_free;
  uint64_t start;
  struct xfer_vec vec[LANE_VECS];
  struct xfer_vec src[LANE_VECS];
};

/* Messages into a lane, from the control thread. */
enum lane_msg_kind {
  LANE_ADD = 1,    /* a new session */
  LANE_END = 2,    /* end it; value: reason */
  LANE_REGION = 3, /* region slot is mapped */
  LANE_UNREGION = 4,
  LANE_LAYOUT = 5,
  LANE_KEY = 6,
  LANE_FORGET = 8,  /* the last message about a quiet session: answered with CONTROL_GONE */
  LANE_POISON = 9,  /* bad memory: id slab, off, size; every lane tells its own sessions */
  LANE_TIER = 10,   /* state of a tier: id, value: reason; every lane tells its own sessions */
  LANE_PEER = 11,   /* a peer has answered: base is what was asked */
  LANE_LINK = 12,   /* a link came or went: id tier, value: reason, seq: paths open << 16 | paths */
  LANE_REVOKE = 13, /* whose; every lane asks its own sessions */
  LANE_STOP = 7,    /* all sessions end; the thread returns when the last is quiet */
};
struct lane_msg {
  struct list link;
  uint8_t kind;
  struct session *s;
  uint32_t seq, id, value;
  void *base;
  uint64_t size, off;
  struct dray_layout layout;
  struct store_whose whose;
};

struct lane {
  struct daemon *d;
  uint32_t idx;
  pthread_t thread;
  bool started;

  /* inbox: any thread writes under the lock */
  pthread_mutex_t inbox_lock;
  struct list inbox;
  uint64_t inbox_n; /* [STAT] cheap look without the lock */
  int wake;         /* eventfd */

  /* the lane's own */
  int epoll;
  uint64_t now_ns;
  struct list sessions, active, dirty, waiters, revokes;
  uint32_t active_n;
  uint64_t sessions_n; /* [STAT] the main thread reads it to balance */
  uint64_t next_deadline;
  bool stopping;
  uint64_t spin_ns;
  bool peers; /* a tier is a peer's */
  struct step *steps;
  uint32_t *free_steps, free_steps_n;
  struct chunk *chunks;
  struct rows *rows; /* free windows: rows.h */
  uint32_t rows_made;
  uint32_t free_chunk; /* UINT32_MAX: none */
  uint32_t flying;     /* chunks in flight, all transports */
  uint32_t polls;
  /* pins of ended leases: given back after the completions are out, many under one lock */
  struct slot_ref unpin[LANE_UNPINS];
  uint32_t unpin_n;
  struct help help;
  struct lane_stats stats;
  uint64_t moved[DRAY_TIER_COUNT];                                    /* [STAT] bytes, by tier */
  struct meter_row *meter;                                            /* by tenant */
  struct meter_ring *meter_ring;                                      /* NULL: no ledger is kept */
  uint64_t exemplar[DRAY_REASON_COUNT], exemplar_share[METER_SHARES]; /* [STAT] meter_exemplar() */
};

int lane_new(struct daemon *d, uint32_t idx, struct lane *l);
int lane_start(struct lane *l);
/* Hands a message over; takes ownership. */
void lane_send(struct lane *l, struct lane_msg *m);
/* Waits for the thread. */
void lane_join(struct lane *l);
void lane_free(struct lane *l);

/* For the lane's own thread */
void lane_refresh(struct lane *l); /* now_ns */
/* The store's clock. */
static inline uint32_t lane_ms(const struct lane *l)
{
  return (uint32_t)(l->now_ns / 1000000u);
}
/* Ends that pin before the sweep is over. */
void lane_unpin(struct lane *l, struct slot_ref slot);
void lane_poll(struct lane *l); /* done records of every transport */
/* dispatch.c: cuts and submits the step's next chunk: bytes, 0 when blocked (no chunk, EAGAIN). */
int64_t dispatch_chunk(struct lane *l, struct step *t);
/* SYNC on one device, as a chunk of the step. 0, -EAGAIN. */
int dispatch_sync(struct lane *l, struct step *t, struct dev *dev);
#endif
