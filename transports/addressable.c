/* SPDX-License-Identifier: Apache-2.0 */
#include "transports/addressable.h"

#include <stdlib.h>
#include <string.h>

#include <dray/types.h>

#include "base/copy.h"
#include "base/guard.h"
#include "include/priv/bits.h"
#include "include/priv/order.h"
#include "transports/stub.h"

int addr_dev_init(struct addr_dev *d, uint32_t lanes)
{
  if (lanes < 1 || lanes > 64)
    return -EINVAL;
  int rc = guard_install();
  if (rc)
    return rc;
  size_t n = lanes * sizeof *d->lane;
  d->lane = aligned_alloc(CACHE_LINE, align_up(n, CACHE_LINE));
  if (!d->lane)
    return -ENOMEM;
  memset(d->lane, 0, n);
  d->lanes = lanes;
  return 0;
}

void addr_dev_deinit(struct addr_dev *d)
{
  free(d->lane);
  d->lane = NULL;
}

int addr_dev_start(struct dev *dev, struct err *e)
{
  struct addr_dev *d = CONTAINER_OF(dev, struct addr_dev, dev);
  (void)e;
  for (uint32_t i = 0; i < d->lanes; i++)
    d->lane[i].head = d->lane[i].tail = 0;
  dev->hot = &hot_addressable;
  return 0;
}

void addr_dev_stop(struct dev *dev)
{
  dev->hot = &hot_dummy;
}

static void done_fault(struct xfer_done *done, const struct guard_hit *hit, uint64_t bytes)
{
  bool poison = hit->kind == GUARD_POISON;
  done->status = XFER_FAILED;
  done->reason = poison ? DRAY_POISONED : DRAY_PAGE_LOST;
  done->err = poison ? EHWPOISON : EFAULT;
  done->bytes = bytes;
  if (poison) {
    done->bad_addr = hit->addr;
    done->bad_unit = hit->unit;
  }
}

void addr_copy(struct vec_at dst, struct vec_at src, uint64_t bytes, unsigned xfer_flags, struct xfer_done *ret_done)
{
  unsigned flags = COPY_UNFENCED | (xfer_flags & XFER_READ_SOON ? COPY_READ_SOON : 0u);
  struct xfer_done done = {.status = XFER_OK, .path = DRAY_PATH_CPU, .reason = DRAY_REASON_OK, .bytes = bytes};
  for (uint64_t at = 0; at < bytes;) {
    uint64_t n = MIN_OF(MIN_OF(vec_left(&dst), vec_left(&src)), bytes - at);
    struct guard_hit hit;
    uint8_t path;
    if (guard_copy(vec_ptr(&dst), vec_ptr(&src), n, flags, &hit, &path)) {
      done_fault(&done, &hit, at + hit.good);
      break;
    }
    if (path == DRAY_PATH_CPU_NT)
      done.path = path;
    at += n;
    vec_advance(&dst, n);
    vec_advance(&src, n);
  }
  if (done.path == DRAY_PATH_CPU_NT)
    stream_fence();
  *ret_done = done;
}

static int addr_submit(struct dev *dev, uint32_t lane, const struct xfer *x)
{
  struct addr_lane *l = &CONTAINER_OF(dev, struct addr_dev, dev)->lane[lane];
  if (l->tail - l->head == ADDR_RING)
    return -EAGAIN;
  struct xfer_done *done = &l->done[l->tail & (ADDR_RING - 1)];
  struct xfer_vec slab = {NULL, x->bytes};
  if (x->op == XFER_READ || x->op == XFER_WRITE)
    slab.base = (char *)x->slab->base + x->slab_off;
  switch (x->op) {
  case XFER_READ:
    addr_copy(vec_begin(x->vec), vec_begin(&slab), x->bytes, x->flags, done);
    break;
  case XFER_WRITE:
    addr_copy(vec_begin(&slab), vec_begin(x->vec), x->bytes, x->flags, done);
    break;
  case XFER_COPY:
    addr_copy(vec_begin(x->vec), vec_begin(x->src), x->bytes, x->flags, done);
    break;
  default: /* SYNC: what was written is where it stays */
    *done = (struct xfer_done){.status = XFER_OK, .path = DRAY_PATH_NONE, .reason = DRAY_REASON_OK};
  }
  done->cookie = x->cookie;
  l->tail++;
  return 0;
}

static void addr_flush(struct dev *dev, uint32_t lane)
{
  (void)dev, (void)lane;
}

static uint32_t addr_poll(struct dev *dev, uint32_t lane, struct xfer_done *done, uint32_t n)
{
  struct addr_lane *l = &CONTAINER_OF(dev, struct addr_dev, dev)->lane[lane];
  uint32_t k = 0;
  while (k < n && l->head != l->tail)
    done[k++] = l->done[l->head++ & (ADDR_RING - 1)];
  return k;
}

static int addr_poll_fd(struct dev *dev, uint32_t lane)
{
  (void)dev, (void)lane;
  return -1;
}

static uint32_t addr_in_flight(struct dev *dev, uint32_t lane)
{
  const struct addr_lane *l = &CONTAINER_OF(dev, struct addr_dev, dev)->lane[lane];
  return l->tail - l->head;
}

const struct transport_hot hot_addressable = {
    .size = sizeof(struct transport_hot),
    .submit = addr_submit,
    .flush = addr_flush,
    .poll = addr_poll,
    .poll_fd = addr_poll_fd,
    .in_flight = addr_in_flight,
};
