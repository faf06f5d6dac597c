/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One cell's worth of a job that moves bytes: finds room, cuts chunks for a transport, settles. A plain directive has
 * one step, a BATCH one per item that is under way.
 */
#ifndef MOVER_STEP_H
#define MOVER_STEP_H

#include <stdbool.h>
#include <stdint.h>

#include "include/priv/list.h"
#include "mover/job.h"
#include "mover/poison.h"
#include "mover/span.h"
#include "mover/store/store.h"

/* 0 is no kind. What happens when the bytes have arrived. */
enum step_kind {
  STEP_PUT = 1,     /* commit a new cell */
  STEP_GET = 2,     /* done */
  STEP_STAGE = 3,   /* add the copy, then lease it */
  STEP_MOVE = 4,    /* swap the copy */
  STEP_PUBLISH = 5, /* replace the record by one of wider scope */
  STEP_COPY = 6,    /* region to region */
  STEP_FILL = 7,    /* a fill that could not be frozen: commit a copy of it */
  STEP_SYNC = 8,    /* FENCE */
};
enum step_state { STEP_ROOM = 1, STEP_CUT = 2, STEP_FLY = 3, STEP_ASK = 4 /* a peer: in no queue */ };

struct step {
  struct list link; /* job->steps */
  struct list run;  /* session's run queue, or the lane's waiters */
  struct job *job;
  struct session *s;
  uint32_t item;
  uint8_t kind, state;
  bool demoting; /* the transfer under way makes room; the step's own comes after it */
  bool waiting;  /* in the lane's waiters */

  /* the transfer */
  uint8_t op; /* enum xfer_op */
  bool crc;   /* takes the CRC of its bytes, to keep or to compare */
  struct dev *dev;
  const struct slab_mem *slab;
  uint64_t slab_off;
  struct span mem, src; /* src: COPY only */
  uint64_t bytes, cut;
  uint64_t bad_at; /* bytes before the first that failed; UINT64_MAX: none did */
  uint32_t flying;
  uint16_t reason; /* first failure, else 0 */
  uint32_t detail;
  uint8_t path;
  uint32_t crc_sum;   /* of the chunks that brought a CRC: in any order, see crc32c_shift() */
  uint64_t crc_bytes; /* how many bytes they were */
  const void *next;   /* where the session's next transfer will read: a hint */
  struct badness bad; /* reason POISONED: poison.h */

  /* what it is for */
  struct cell_new cell;
  struct cell_facts facts;
  struct slot_ref from, to; /* pinned when slab is not 0 */
  uint32_t pool;            /* where `to` is or will be */
  uint64_t len;
  uint8_t tier;       /* for the completion */
  uint64_t lease;     /* STEP_FILL */
  uint64_t own_bytes; /* transfer fields of the step itself while it demotes */
  uint64_t room_until;
  /* quota */
  bool asked;            /* policy was asked about growing in `pool` */
  uint8_t make;          /* QUOTA_DEMOTE, QUOTA_EVICT: room is made before it grows */
  uint16_t quota_reason; /* of the first pool that refused it for a quota's sake; 0: none did */
  uint32_t rule, quota_rule;

  /* peer.h */
  struct peer_ask *peer; /* what is asked of it, or held there; NULL: it is all here */
  bool there;            /* the cell is the peer's: nothing is to be committed here */
  bool leases;           /* MAP of a peer's cell: its copy here is leased once it is committed */

  /* demotion */
  struct cell_facts victim;
  struct slot_ref victim_slot, demoted_to;
};

/* Cost that a step without bytes is charged in the round robin. */
#define STEP_MIN_CHARGE 512u

/* A zeroed step of that kind, listed with its job; NULL when the lane has none left (then the item waits). */
struct step *step_new(struct lane *l, struct session *s, struct job *j, uint32_t item, unsigned kind);
/* Off its lists and free again; nothing of it is pinned, and nobody is told. */
void step_drop(struct lane *l, struct step *t);
/* Puts it into the session's run queue. */
void step_start(struct lane *l, struct step *t);
/* One piece of progress: bytes to charge (> 0; the step may have left the run queue, or ended), 0 when it is blocked
   for now, -1 when it left the run queue without moving anything. */
int64_t step_advance(struct lane *l, struct step *t);
/* A transfer of that many bytes begins: nothing of it is cut. crc: the CRC of its bytes is wanted. */
void step_begin(struct step *t, uint64_t bytes, bool crc);
/* The CRC of what the transfer moved, by its chunks or, where a transport could not say, by reading it again. OK or
   PAGE_LOST. */
unsigned step_crc(struct step *t, uint32_t *ret_crc);
/* A chunk of it is done. */
void step_landed(struct lane *l, struct step *t, uint64_t start, const struct xfer_done *d);
/* Gives up: ends now, or when the last chunk lands. */
void step_stop(struct lane *l, struct step *t, unsigned reason);
/* Retries those that wait for room. */
void step_retry_waiters(struct lane *l);

/* room.c: tries to get `to` a slot. 1: it has one; 0: a demotion is under way or was begun, or it waits; -1: it ended
 * (refused). */
int room_find(struct lane *l, struct step *t);
/* Is keeping the cell below cheaper than computing it again? True when nobody said what that costs. */
bool room_worth(const struct daemon *d, const struct cell_facts *f, uint32_t pool);
/* Gives it a slot if one is free as things are; otherwise it stays as it is, and room_find() sees to it in its turn. */
void room_try(struct lane *l, struct step *t);
/* A demotion's bytes have arrived (or failed). */
void room_demoted(struct lane *l, struct step *t);

/* complete.c: the bytes are in place, or it failed; ends the step. */
void complete_step(struct lane *l, struct step *t);
/* Ends the step with this outcome: releases pins, tells the job. */
void complete_step_end(struct lane *l, struct step *t, const struct outcome *o);
/* An item's (or the plain directive's) outcome without a step. */
void complete_item(struct lane *l, struct session *s, struct job *j, uint32_t item, const struct outcome *o);
#endif
