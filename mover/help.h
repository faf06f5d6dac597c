/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One large step over several lanes. Its owner hands single chunks to lanes that have nothing of their own to do; such
 * a lane carries the chunk out on its own queue of the (synchronous) device and gives the done record back. For the
 * owner a chunk at a helper is simply still flying: the step, the job, its exactly-once rule, cancel, deadline and the
 * end of a session never know. A helper looks at one order a sweep, so its own sessions' quanta still alternate with
 * it.
 */
#ifndef MOVER_HELP_H
#define MOVER_HELP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "transports/transport.h"

struct lane;

#define HELP_ORDERS 2u /* one under way, one to go on with: more would queue behind the helper's own work */
#define HELP_BACK 256u /* as many as a lane has chunks */

/* What a lane is at, as others see it. 0: its thread does not run. */
enum help_mood { HELP_BUSY = 1, HELP_IDLE = 2, HELP_HELPING = 3, HELP_ASLEEP = 4 };

struct help_order {
  struct lane *owner;
  struct dev *dev;
  struct xfer x; /* its pieces are in the owner's chunk, which lives until the done record */
};

struct help {
  pthread_mutex_t lock; /* held for a copy of one record */
  struct help_order order[HELP_ORDERS];
  struct xfer_done back[HELP_BACK];
  bool closed;               /* its thread is ending: nobody would carry an order out */
  uint64_t orders_n, back_n; /* [STAT] written under the lock, looked at without */
  uint32_t mood;             /* [BELL] with ASLEEP */
};

void help_init(struct help *h);
void help_deinit(struct help *h);

/* The owner's side: hands x to an idle lane if there is one. A lane that sleeps is woken only while at least
   split_bytes are left. True: a done record follows by help_take_back(). */
bool help_ask(struct lane *l, struct dev *dev, const struct xfer *x, uint64_t left);
/* Up to n done records of chunks that others carried out. */
uint32_t help_take_back(struct lane *l, struct xfer_done *ret_done, uint32_t n);

/* The helper's side: carries one order out. False when there was none. */
bool help_work(struct lane *l);
/* The thread ends: takes no more orders, carries out what is there. */
void help_close(struct lane *l);

/* Says what this lane is at. */
void help_mood(struct lane *l, enum help_mood mood);
/* Orders or done records wait: a cheap look. */
bool help_called(const struct lane *l);
#endif
