/* SPDX-License-Identifier: Apache-2.0 */
/* The two shapes of the cxl transport: one mapped device (or a file that stands in), and a directory. */
#ifndef TRANSPORTS_CXL_CXL_INTERNAL_H
#define TRANSPORTS_CXL_CXL_INTERNAL_H

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "base/guard.h"
#include "transports/addressable.h"
#include "transports/cxl/bad.h"
#include "transports/cxl/keep.h"
#include "transports/extent.h"
#include "transports/transport.h"

struct cxl_dev {
  struct addr_dev addr; /* first */
  pthread_mutex_t lock; /* map, used, next_unit */
  char *path;
  int fd; /* O_RDWR, holds the lock; a directory: the directory */
  /* device or file */
  int ro_fd; /* what engines get */
  void *base;
  uint64_t mapped;
  struct extent_map map;
  struct keep keep;              /* base NULL: it remembers nothing */
  struct transport_hot software; /* in use with software coherence */
  bool scanned;                  /* slabs may be made: what is there is known */
  bool detached;                 /* let go of, for good */
  struct dax_bad *bad;           /* DAX_BAD_MAX of them, until it is open */
  uint32_t bad_n;
  /* directory */
  uint64_t used;
  uint32_t next_unit;
};

static inline struct cxl_dev *cxl_of(struct dev *d)
{
  return CONTAINER_OF(CONTAINER_OF(d, struct addr_dev, dev), struct cxl_dev, addr);
}

/* cxl.c: flock that says whom it lost to. 0, -EBUSY, -errno. */
int cxl_lock(int fd, const char *path, struct err *e);

/* device.c: fills fd, ro_fd, base, map and caps. On failure cxl_device_close undoes what there is. */
int cxl_device_open(struct cxl_dev *d, const struct dev_config *cfg, struct err *e);
void cxl_device_close(struct cxl_dev *d);
int cxl_device_slab_add(struct cxl_dev *d, uint64_t bytes, struct err *e, struct slab_mem *ret_mem);
void cxl_device_slab_del(struct cxl_dev *d, struct slab_mem *mem);

/* device_keep.c. Zeroes under the guard: 0, or -EFAULT and where. */
int cxl_zero(void *base, uint64_t bytes, struct guard_hit *ret_hit);
/* Zeroes the whole device; what cannot be is added to d->bad. 0, -errno with a text. */
int cxl_device_wipe(struct cxl_dev *d, uint64_t size, uint64_t align, struct err *e);
/* Finds or makes the directory on the mapped device. */
int cxl_keep_open(struct cxl_dev *d, const struct dev_config *cfg, uint64_t size, uint64_t align, struct err *e);
/* hot_addressable, but that writes are flushed and reads begin with forgetting. */
void cxl_hot_software(const struct dev *dev, struct transport_hot *ret_hot);
int cxl_index_slab(struct dev *dev, const struct slab_mem *mem, uint64_t slot_bytes, uint32_t slots, const char *tenant,
                   const char *agent, uint8_t scope);
int cxl_index_put(struct dev *dev, const struct slab_mem *mem, uint32_t slot, const struct index_entry *e);
void cxl_index_del(struct dev *dev, const struct slab_mem *mem, uint32_t slot);
int cxl_index_met(struct dev *dev, uintptr_t addr, uint64_t unit);
int cxl_index_bad(struct dev *dev, uint64_t dev_off, uint64_t len, bool proven);
int cxl_index_scan(struct dev *dev, const struct index_visitor *v, uint64_t *ret_skipped);

/* directory.c */
int cxl_directory_open(struct cxl_dev *d, const struct dev_config *cfg, struct err *e);
int cxl_directory_slab_add(struct cxl_dev *d, uint64_t bytes, struct err *e, struct slab_mem *ret_mem);
void cxl_directory_slab_del(struct cxl_dev *d, struct slab_mem *mem);
#endif
