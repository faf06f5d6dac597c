/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directive on its way: from accepted to its one DONE. See job.c for the states and the exactly-once rule.
 */
#ifndef MOVER_JOB_H
#define MOVER_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "include/priv/list.h"
#include "include/priv/req.h"
#include "mover/meter.h"

struct lane;
struct session;

/* 0 is no state. */
enum job_state {
  JOB_FREE = 1,
  JOB_HELD = 2,    /* waits behind a DRAIN, in the session's backlog */
  JOB_LINKED = 3,  /* waits for the success of its predecessor */
  JOB_RUNNING = 4, /* admitted; steps may be in flight */
};

/* What came of a directive, or of one item of a BATCH. */
struct outcome {
  uint8_t status; /* enum dray_status; 0: not known yet */
  uint8_t path, tier;
  uint16_t reason, flags;
  uint32_t detail; /* the provider's own code */
  uint64_t bytes, object, off;
  uint32_t slab;
};

struct job {
  struct list open; /* session's unfinished jobs, in the order taken */
  struct list wait; /* backlog, or the session's pending list */
  struct list steps;
  struct job *follower; /* LINKED to this one */
  uint64_t taken_ns, start_ns, deadline_ns;
  uint64_t others_served; /* visits of the lane's other sessions before it was taken */
  uint32_t others;        /* of them with something to move then */
  uint16_t index;         /* in the session's job table */
  uint8_t state;
  bool waited;                 /* a rate has held it back */
  bool fence_due;              /* FENCED: a sync comes before it */
  uint16_t stop;               /* enum dray_reason once it is being canceled, else 0 */
  uint16_t region, dst_region; /* slots in use, 0: none */
  struct dray_req req;
  struct outcome out;
  struct meter_note note;  /* meter.h */
  uint64_t meter_bytes[2]; /* local, remote */
  bool metered;            /* the ledger has a record of it */
  /* BATCH */
  uint32_t first_item, items, next_item, items_done, failed, first_failed;
  uint32_t steps_n;  /* steps not ended */
  struct rows *rows; /* rows.h; NULL: none, or not a BATCH */
};

/* Takes a directive in: opens its job and starts it as soon as order allows. Exactly one job_finish() will follow. */
void job_accept(struct lane *l, struct session *s, const struct dray_req *req);
/* The one end of a job: posts DONE, releases what it holds, starts whom it held back. */
void job_finish(struct lane *l, struct session *s, struct job *j);
/* Shorthand: finish with this outcome and nothing else. */
void job_end(struct lane *l, struct session *s, struct job *j, unsigned status, unsigned reason);
/* Begins to cancel: what has not started never will; DONE follows when the devices are quiet. Idempotent. */
void job_stop(struct lane *l, struct session *s, struct job *j, unsigned reason);
/* How a job that was stopped before anything of it moved is answered: enum dray_status. */
unsigned job_stop_status(unsigned reason);
/* CANCEL's target by position, or NULL. */
struct job *job_at(struct session *s, uint32_t sq_pos);
/* Expires deadlines; returns the next one (UINT64_MAX: none). */
uint64_t job_expire(struct lane *l, uint64_t now_ns);
/* The session ends: everything is stopped with reason. */
void job_stop_all(struct lane *l, struct session *s, unsigned reason);
#endif
