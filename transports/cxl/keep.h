/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory that a persistent mapped device keeps in its own first units (keep_format.h): whose slabs are where,
 * and which cells are in them. Written by stores under the guard, line by line out to the device; read as if an enemy
 * had written it.
 */
#ifndef TRANSPORTS_CXL_KEEP_H
#define TRANSPORTS_CXL_KEEP_H

#include <pthread.h>

#include "base/flush.h"
#include "transports/cxl/keep_format.h"
#include "transports/transport.h"

/* The smallest unit of a device that keeps a directory: small slabs would need more of it than they hold. */
#define KEEP_UNIT_MIN MIB(2)

struct keep {
  uint8_t *base; /* of the device; NULL: it keeps none */
  uint64_t unit, units;
  uint64_t own; /* units of the directory itself, from 0 on */
  uint64_t generation;
  bool lines;           /* software coherence: each entry has a line that other hosts read it by */
  enum flush_by flush;  /* FLUSH_NONE: a stand-in, whose pages the kernel keeps */
  pthread_mutex_t lock; /* bad rows */
  pthread_mutex_t fate; /* lost, while it is being decided */
  uint32_t lost;        /* [STATE] its own memory is bad: nothing on the device outlives this mover */
};

/* How many units the directory of such a device takes. */
uint64_t keep_units(uint64_t unit, uint64_t units, bool lines);

/* Looks whether the device's directory is there and ours. owner "": published cells only. 0: it is, and is open with a
   generation one higher. -ENOENT: there is none, keep_format() makes one. -EINVAL with a text: another version, size or
   owner, or damaged; said before all else, by whichever superblock is whole. -EHWPOISON: the memory under it is bad;
   -EIO: there is none. */
int keep_open(struct keep *k, void *base, uint64_t unit, uint64_t units, const char *owner, enum flush_by flush,
              bool lines, const char *path, struct err *e);
/* The same answers, but nothing is opened and nothing changed. */
int keep_look(void *base, uint64_t unit, uint64_t units, const char *owner, bool lines, const char *path,
              struct err *e);
/* Begins anew on zeroed memory. 0, -EHWPOISON, -EIO. */
int keep_format(struct keep *k, void *base, uint64_t unit, uint64_t units, const char *owner, enum flush_by flush,
                bool lines);

/* Its own memory is bad: superblocks are wiped, so that no later start believes what cannot be kept true any more. What
   is on the device is served on. Any thread, any number of times. */
void keep_give_up(struct keep *k);
/* Is it still what was opened: 0; -EHWPOISON: it was given up, now or before. */
int keep_holds(struct keep *k);

/* As the ops of the same names in transport.h; -EHWPOISON, too. index_put brings the cell's own bytes out to the device
 * first. */
int keep_index_slab(struct keep *k, const struct slab_mem *mem, uint64_t slot_bytes, uint32_t slots, const char *tenant,
                    const char *agent, uint8_t scope);
int keep_index_put(struct keep *k, const struct slab_mem *mem, uint32_t slot, const struct index_entry *e);
void keep_index_del(struct keep *k, const struct slab_mem *mem, uint32_t slot);
int keep_index_bad(struct keep *k, uint64_t dev_off, uint64_t len, bool proven);
/* Forgets the slab, and whatever is noted for its units. 0, -EHWPOISON, -EIO. */
int keep_forget(struct keep *k, const struct slab_mem *mem);

/* flush_back or flush_drop under the guard. 0 or -EIO: the memory is bad, or not there. */
int keep_flush(enum flush_by by, const void *p, size_t n, bool drop);

/* keep_read.c. Visits what verifies and whose place make accepts (-EBUSY, -EINVAL: skipped). */
struct keep_place {
  void *ctx;
  int (*make)(void *ctx, struct slab_mem *mem);
};
/* 0; -EHWPOISON: what could be read was visited, and the directory is given up; what a visitor said. */
int keep_scan(struct keep *k, const struct keep_place *place, const struct index_visitor *v, uint64_t *ret_skipped);
/* The bad rows only: v->bad for each. */
int keep_scan_bad(struct keep *k, const struct index_visitor *v, uint64_t *skipped);
/* Copies n bytes at off of the directory out, under the guard. 0, -EHWPOISON or -EIO. */
int keep_load(const struct keep *k, uint64_t off, void *to, size_t n);
#endif
