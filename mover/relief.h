/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a demote or evict rule does between directives: while it is in force its tier gives cells, slab by slab, of who
 * has most above its reserve for its weight, least recently used first, until the fill is below `until`. A thread of
 * its own, with the drain's queue into the transports.
 */
#ifndef MOVER_RELIEF_H
#define MOVER_RELIEF_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct daemon;

struct relief {
  pthread_t thread;
  bool started;
  int wake;                  /* eventfd */
  uint32_t stop;             /* [STOP] */
  uint64_t demoted, evicted; /* [STAT] cells */
};

int relief_start(struct daemon *d);
void relief_stop(struct daemon *d);
/* A demote or evict rule came into force. Any thread. */
void relief_call(struct daemon *d);
#endif
