/* SPDX-License-Identifier: Apache-2.0 */
/* A device around another one, with a script of what goes wrong. */
#ifndef TRANSPORTS_FAULT_FAULT_INTERNAL_H
#define TRANSPORTS_FAULT_FAULT_INTERNAL_H

#include <pthread.h>

#include "include/priv/bits.h"
#include "include/priv/list.h"
#include "transports/fault/script.h"
#include "transports/transport.h"

#define FAULT_OPS 256u /* xfers that a lane has taken and not returned */
#define FAULT_BAD_MAX 4096u

/* An xfer on its way. Its index is the inner device's cookie. */
struct fault_op {
  struct list link; /* free, or ended and held */
  uint64_t cookie;
  uint64_t cut_to;   /* bytes that the inner device was given; UINT64_MAX: all */
  uint64_t bad_unit; /* what comes after cut_to is poison of that unit; 0: it is only short */
  uintptr_t bad_addr;
  uint64_t bytes;
  struct xfer_done done;
  uint64_t due_poll, due_ms;  /* held until both have come */
  uint64_t ended_at;          /* reorder: until lane->ended moved on; UINT64_MAX: no */
  struct xfer_vec *vec, *src; /* copies of lists that were cut; kept for the next time */
  bool flies;
};

struct fault_lane {
  struct fault_op op[FAULT_OPS];
  struct list unused, held;
  uint32_t open, held_n;
  uint64_t polls, ended, random;
  int timer, epoll; /* only when ends are held back; else -1 */
  bool armed;
};

/* Bad memory of a slab: in the mapping, or (real false) as a tale told at submit. */
struct fault_bad {
  uint32_t unit; /* slab_mem.unit, dev_off: which slab */
  uint64_t dev_off;
  uint64_t off, len;
  uintptr_t base; /* of the slab; 0: no address */
  bool real;
};
/* A slab that a place of the script names. */
struct fault_place {
  bool made, hit;
  struct slab_mem mem;
};

struct fault_dev {
  struct dev dev; /* first */
  struct dev *inner;
  struct script script;
  uint32_t lanes;
  struct fault_lane *lane;
  uint64_t taken;       /* xfers, all lanes [STAT] */
  pthread_mutex_t lock; /* the rest */
  struct fault_place place[SCRIPT_PLACES_MAX];
  uint32_t slabs_made, poisoned, sources;
  struct fault_bad *bad;
  uint32_t bad_n;
  uint64_t tales; /* [STAT] entries that are not real */
};

static inline struct fault_dev *fault_of(struct dev *d)
{
  return CONTAINER_OF(d, struct fault_dev, dev);
}

extern const struct transport_hot hot_fault;

/* poison.c */
/* The unit around off of that slab goes bad. */
void fault_poison(struct fault_dev *f, const struct slab_mem *mem, uint64_t off);
/* The unit around memory that is no slab's. */
void fault_poison_source(struct fault_dev *f, void *at);
/* A slab was made, or goes. */
void fault_slab_made(struct fault_dev *f, const struct slab_mem *mem);
void fault_slab_gone(struct fault_dev *f, const struct slab_mem *mem);
/* Places whose time has come after `taken` xfers. */
void fault_places(struct fault_dev *f, uint64_t taken);
/* Bytes of [off, off+len) before the first that a tale says is bad: len when none. */
uint64_t fault_good(struct fault_dev *f, const struct slab_mem *mem, uint64_t off, uint64_t len);
void fault_forget_all(struct fault_dev *f);
#endif
