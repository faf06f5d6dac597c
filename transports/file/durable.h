/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which files have writes that no fdatasync has covered. Two counters per file rather than a dirty bit: a bit
 * cleared by one lane's sync would tell another lane, whose sync starts meanwhile, that nothing is to be done.
 */
#ifndef TRANSPORTS_FILE_DURABLE_H
#define TRANSPORTS_FILE_DURABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "include/priv/order.h"

struct durable {
  uint64_t written; /* [STAT] writes that have ended */
  uint64_t synced;  /* [STAT] how many of them a successful fdatasync covered; may lag */
  uint64_t broken;  /* [STAT] errno of a failed fdatasync. For good: the kernel forgets the pages it lost */
};

static inline void durable_wrote(struct durable *d)
{
  stat_add_shared(&d->written, 1);
}
/* A sync is due; ret_seen goes to durable_synced when it has succeeded. */
static inline bool durable_due(const struct durable *d, uint64_t *ret_seen)
{
  uint64_t seen = stat_read(&d->written);
  if (seen == stat_read(&d->synced) && !stat_read(&d->broken))
    return false;
  *ret_seen = seen;
  return true;
}
/* A later store of an older count makes one sync too many, never one too few. */
static inline void durable_synced(struct durable *d, uint64_t seen)
{
  stat_set(&d->synced, seen);
}
/* The end of an fdatasync: 0 or the errno that the caller reports. */
static inline int durable_end(struct durable *d, uint64_t seen, int err)
{
  uint64_t old = stat_read(&d->broken);
  if (old)
    return (int)old;
  if (err)
    stat_set(&d->broken, (uint64_t)err);
  else
    durable_synced(d, seen);
  return err;
}
#endif
