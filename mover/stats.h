/* SPDX-License-Identifier: Apache-2.0 */
/* Counters, one writer each (a lane), any reader: relaxed loads and stores through order.h. Each has its meaning beside
 * it. */
#ifndef MOVER_STATS_H
#define MOVER_STATS_H

#include <stdint.h>

#include <dray/types.h>

#include "include/priv/order.h"

#define STATS_TURNS 4 /* 0, 1, 2, more */

struct lane_stats {
  /* the four stages of every directive: equal once the lane is idle */
  uint64_t taken;     /* copied out of a SQ and validated */
  uint64_t admitted;  /* looked at by admit, after its order (LINK, DRAIN) allowed */
  uint64_t jobs;      /* job records opened */
  uint64_t completed; /* DONE posted */

  uint64_t by_op[DRAY_OP_COUNT];         /* completed, by op */
  uint64_t by_reason[DRAY_REASON_COUNT]; /* completed, by reason (BATCH: its worst) */
  uint64_t bytes_by_path[DRAY_PATH_COUNT];
  uint64_t bytes_by_tier[DRAY_TIER_COUNT];
  uint64_t items;                         /* of BATCHes */
  uint64_t chunks;                        /* xfers submitted */
  uint64_t quanta;                        /* visits in which a session was served */
  uint64_t turns[STATS_TURNS];            /* small copies, by quanta served to each other busy session meanwhile */
  uint64_t helped;                        /* chunks carried out for another lane */
  uint64_t again;                         /* submits that a transport put off */
  uint64_t demoted;                       /* cells moved down the ladder to make room */
  uint64_t evicted;                       /* cells dropped to make room */
  uint64_t sleeps;                        /* times the lane went to sleep */
  uint64_t wakes_sent;                    /* engines woken */
  uint64_t accounted;                     /* bytes reported by ACCOUNT */
  uint64_t quarantined;                   /* QUARANTINE directives recorded */
  uint64_t protocol_errors;               /* sessions ended because of an impossible index */
  uint64_t hits_by_tier[DRAY_TIER_COUNT]; /* GET and MAP, by where the bytes were */
  uint64_t misses;                        /* GET and MAP that found nothing */
};

/* dst += src, reading relaxed. */
void stats_add(struct lane_stats *dst, const struct lane_stats *src);
#endif
