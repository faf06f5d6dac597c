/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Poison on its way from a transport, a CRC, an engine's report or an early signal: to the store, which bars the memory
 * for good; to the completion of the one request that met it; to every session that has a lease there; to the log.
 */
#ifndef MOVER_POISON_H
#define MOVER_POISON_H

#include <stdbool.h>
#include <stdint.h>

struct daemon;
struct lane;
struct lane_msg;
struct outcome;
struct step;
struct xfer_done;

/* Where a step met bad memory. */
struct badness {
  uint64_t unit;  /* 0: not known */
  uintptr_t addr; /* in the mover's memory; 0: on the device, at slab_off of the slab that the step's transfer names */
  uint64_t slab_off;
};

/* A chunk of the step came back POISONED: keeps where. */
void poison_seen(struct lane *l, struct step *t, uint64_t start, const struct xfer_done *d);
/* A step ends with POISONED, or with a fault that may be it (then it is looked for by reading under the guard): tells
   the store and everybody concerned, and completes the outcome's reason, off, slab and detail. The step's pins are
   still there. */
void poison_settle(struct lane *l, struct step *t, struct outcome *o);
/* A demotion failed: true when bad memory was the reason, which is settled then; the victim is not to be evicted. */
bool poison_demotion(struct lane *l, struct step *t);
/* LANE_POISON: tells the lane's own sessions that have a lease there. */
void poison_tell(struct lane *l, const struct lane_msg *m);

/* The control thread asks for early news of poison (BUS_MCEERR_AO) and gets it as LOOP_EARLY. 0 or -errno. */
int poison_watch(struct daemon *d);
void poison_unwatch(struct daemon *d);
void poison_early(struct daemon *d);
/* A thread of the mover's own met poison there: it is barred, and everybody is told. */
void poison_met(struct daemon *d, uintptr_t addr, uint64_t unit);
/* CRC32C of memory that may be bad. OK; POISONED, and then it is known; PAGE_LOST. */
unsigned poison_sum(struct daemon *d, const void *p, uint64_t n, uint32_t *ret_crc);
#endif
