/* SPDX-License-Identifier: Apache-2.0 */
/* The file transport's device and its three ways to move bytes. */
#ifndef TRANSPORTS_FILE_FILE_INTERNAL_H
#define TRANSPORTS_FILE_FILE_INTERNAL_H

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "transports/addressable.h"
#include "transports/extent.h"
#include "transports/file/index.h"
#include "transports/file/segment.h"

struct uring; /* io_uring, one ring per lane */
struct pool;  /* pread and pwrite in threads */

enum file_mode {
  FILE_URING = 1,
  FILE_POOL = 2,
  FILE_MAPPED = 3, /* tmpfs: addressable */
};

struct file_dev {
  struct addr_dev addr; /* first; lanes of it are used in FILE_MAPPED only */
  pthread_mutex_t lock; /* map, scanned */
  char *path;
  int dir;
  enum file_mode mode;
  struct index index;
  struct segments seg;
  struct durable *durable; /* one per segment; the index has its own */
  struct extent_map map;
  bool scanned; /* map knows what is on disk: slabs may be added */
  struct uring *uring;
  struct pool *pool;
};

static inline struct file_dev *file_of(struct dev *d)
{
  return CONTAINER_OF(CONTAINER_OF(d, struct addr_dev, dev), struct file_dev, addr);
}
/* Files that a SYNC covers: the segments, then the index. */
static inline uint32_t file_count(const struct file_dev *d)
{
  return d->seg.n + 1;
}
static inline int file_fd(const struct file_dev *d, uint32_t i)
{
  return i < d->seg.n ? d->seg.fd[i] : d->index.fd;
}
static inline struct durable *file_durable(struct file_dev *d, uint32_t i)
{
  return i < d->seg.n ? &d->durable[i] : &d->index.durable;
}

/* uring.c. 0; -EPERM, -ENOSYS, -ENOMEM...: no io_uring here, use the pool. Notes what is less than asked. */
int uring_open(struct file_dev *d, const struct dev_config *cfg);
int uring_start(struct file_dev *d);
int uring_quiesce(struct file_dev *d, uint32_t deadline_ms);
void uring_close(struct file_dev *d);
extern const struct transport_hot hot_uring;

/* pool.c */
int pool_open(struct file_dev *d, const struct dev_config *cfg);
int pool_start(struct file_dev *d); /* makes the threads */
void pool_stop(struct file_dev *d); /* joins them */
int pool_quiesce(struct file_dev *d);
void pool_close(struct file_dev *d);
extern const struct transport_hot hot_pool;
#endif
