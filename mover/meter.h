/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who used what. Each lane counts for each tenant, and keeps a note in each job; when the job ends and a ledger is kept
 * (usage.h), the note goes to it through a ring that never waits. The lane's own thread writes; [STAT] readers.
 */
#ifndef MOVER_METER_H
#define MOVER_METER_H

#include <stdbool.h>
#include <stdint.h>

#include <dray/types.h>

#include "include/priv/order.h"

struct job;
struct lane;
struct outcome;
struct session;

/* "Local" is memory that this node computes from at full speed. What else there is, is remote to somebody who computes.
 */
static inline bool meter_local(unsigned tier)
{
  return tier == DRAY_TIER_HBM || tier == DRAY_TIER_DRAM;
}

#define METER_ACCOUNT_MAX (1ull << 40) /* the most that one ACCOUNT is believed */
#define METER_SHARES 6u                /* share remote of a directive's bytes: 0, <= 25, 50, 75, < 100, 100 % */

/* One tenant on one lane. Only 64-bit counters. */
struct meter_row {
  uint64_t directives;             /* completed, but NOP without a request */
  uint64_t bytes[2];               /* moved, and read through maps as ACCOUNT says: [0] local, [1] remote */
  uint64_t ns[2];                  /* carrying them out took, divided by bytes */
  uint64_t hits[2];                /* GET and MAP that found it, by where it was */
  uint64_t absent, evicted, other; /* GET and MAP that did not, by reason */
  uint64_t refused;                /* directives and items, for whatever reason */
  uint64_t shares[METER_SHARES];   /* directives that moved bytes, by their share remote */
};

/* What a job has done on one tier so far. */
struct meter_note {
  uint64_t read, written;
  uint32_t hits, absent, evicted, other, refused;
  uint8_t tier;
};
/* The same with its owner: an entry of the ledger's ring. */
struct meter_record {
  struct meter_note n;
  uint32_t tenant, request;
  uint64_t ns;
  uint16_t reason; /* of a refusal */
  uint8_t first;   /* counts as a directive: a BATCH over several tiers has one record for each */
};

#define METER_RING 8192u /* a power of two */
struct meter_ring {
  uint32_t head; /* [USAGE] the lane writes */
  uint8_t pad0[60];
  uint32_t tail; /* [USAGE] the ledger's thread writes */
  uint8_t pad1[60];
  uint64_t dropped; /* [STAT] the lane's: the ring was full */
  struct meter_record at[METER_RING];
};

/* A GET or MAP was looked up: tier, or 0 and the reason. */
void meter_lookup(struct lane *l, const struct session *s, struct job *j, unsigned tier, unsigned reason);
/* An item, or a plain directive's one step, has its outcome. */
void meter_item(struct lane *l, const struct session *s, struct job *j, const struct outcome *o);
/* ACCOUNT: the engine read through a map. */
void meter_account(struct lane *l, const struct session *s, struct job *j, unsigned tier, uint64_t bytes);
/* The job is answered. */
void meter_close(struct lane *l, const struct session *s, struct job *j);

/* The ledger's side: takes at most n. */
uint32_t meter_take(struct meter_ring *r, struct meter_record *ret, uint32_t n);
void meter_add(struct meter_row *dst, const struct meter_row *src);
/* The last request that ended for each reason, and how long it took: request << 32 | microseconds; 0: none yet. */
static inline uint64_t meter_exemplar(uint32_t request, uint64_t ns)
{
  uint64_t us = ns / 1000u;
  return request ? (uint64_t)request << 32 | (us > UINT32_MAX ? UINT32_MAX : us) : 0;
}
#endif
