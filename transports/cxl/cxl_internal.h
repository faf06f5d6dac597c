/* SPDX-License-Identifier: Apache-2.0 */
/* The two shapes of the cxl transport: one mapped device (or a file that stands in), and a directory. */
#ifndef TRANSPORTS_CXL_CXL_INTERNAL_H
#define TRANSPORTS_CXL_CXL_INTERNAL_H

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "transports/addressable.h"
#include "transports/cxl/bad.h"
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

/* directory.c */
int cxl_directory_open(struct cxl_dev *d, const struct dev_config *cfg, struct err *e);
int cxl_directory_slab_add(struct cxl_dev *d, uint64_t bytes, struct err *e, struct slab_mem *ret_mem);
void cxl_directory_slab_del(struct cxl_dev *d, struct slab_mem *mem);
#endif
