/* SPDX-License-Identifier: Apache-2.0 */
#include "transports/addressable.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <dray/types.h>

#include "base/copy.h"
#include "base/copy_crc.h"
#include "base/crc.h"
#include "base/guard.h"
#include "include/priv/bits.h"
#include "include/priv/order.h"
#include "transports/stub.h"

int addr_dev_init(struct addr_dev *d, uint32_t lanes, const struct copy_plan *plan)
{
  if (lanes < 1 || lanes > DEV_LANES_MAX)
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
  d->plan = plan ? *plan : copy_plan_default;
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

/* the handler reads lists of pieces as they are */
static_assert(sizeof(struct xfer_vec) == sizeof(struct guard_range), "xfer_vec is a guard_range");
static_assert(offsetof(struct xfer_vec, len) == offsetof(struct guard_range, len), "xfer_vec is a guard_range");

/* The pieces in which the next `bytes` lie. */
static struct guard_list list_of(const struct vec_at *at, uint64_t bytes)
{
  struct guard_list l = {(const struct guard_range *)(const void *)at->v, 1};
  for (uint64_t have = vec_left(at); have < bytes; l.n++)
    have += at->v[l.n].len;
  return l;
}

struct walk {
  const struct addr_how *how;
  struct vec_at dst, src;
  uint64_t bytes;
  unsigned flags;         /* enum copy_flag */
  volatile uint64_t good; /* these three are read after the jump */
  volatile uint32_t crc;
  volatile bool streamed;
};

/* Runs under the guard: may be left at any load or store. */
static int walk_pieces(void *ctx)
{
  struct walk *w = ctx;
  const struct addr_how *how = w->how;
  struct vec_at dst = w->dst, src = w->src;
  bool crc = how->flags & XFER_CRC;
  for (uint64_t at = 0; at < w->bytes;) {
    uint64_t n = MIN_OF(MIN_OF(vec_left(&dst), vec_left(&src)), w->bytes - at);
    n = MIN_OF(n, GUARD_PIECE);
    void *to = vec_ptr(&dst);
    const void *from = vec_ptr(&src);
    at += n;
    vec_advance(&dst, n);
    vec_advance(&src, n);
    const void *next = at < w->bytes ? vec_ptr(&src) : how->next;
    enum copy_method m = copy_choose(how->plan, n, w->flags);
    if (crc)
      w->crc = copy_crc(to, from, n, w->crc, m == COPY_BY_STREAM, next);
    else
      copy_by(m, to, from, n, next);
    copied_once();
    w->streamed |= m == COPY_BY_STREAM;
    w->good = at;
  }
  return 0;
}

void addr_copy(const struct addr_how *how, struct vec_at dst, struct vec_at src, uint64_t bytes,
               struct xfer_done *ret_done)
{
  struct walk w = {.how = how, .dst = dst, .src = src, .bytes = bytes, .flags = how->copy_flags};
  if (how->flags & XFER_READ_SOON)
    w.flags |= COPY_READ_SOON;
  if (how->flags & XFER_FRAGILE)
    w.flags |= COPY_FRAGILE;
  if (how->heat && copy_heat_note(how->heat, vec_ptr(&dst), vec_ptr(&src), bytes, how->plan->hot_bytes))
    w.flags |= COPY_HOT;
  const struct guard_list lists[] = {list_of(&dst, bytes), list_of(&src, bytes)};
  struct guard_hit hit;
  int r = guard_run_lists(walk_pieces, &w, lists, ARRAY_LEN(lists), &hit);
  if (r < 0 || (w.streamed && !(how->copy_flags & COPY_UNFENCED)))
    stream_fence(); /* also the good prefix is really there */
  struct xfer_done done = {.status = XFER_OK,
                           .path = w.streamed ? DRAY_PATH_CPU_NT : DRAY_PATH_CPU,
                           .reason = DRAY_REASON_OK,
                           .bytes = bytes};
  if (r < 0) {
    done_fault(&done, &hit, w.good);
  } else if (how->flags & XFER_CRC) {
    done.crc = w.crc;
    done.has_crc = 1;
  }
  *ret_done = done;
}

struct sum {
  struct vec_at at;
  uint64_t bytes;
  uint32_t crc;
  volatile uint64_t good;
};

static int sum_pieces(void *ctx)
{
  struct sum *w = ctx;
  struct vec_at at = w->at;
  uint32_t crc = 0;
  for (uint64_t done = 0, n; done < w->bytes; done += n) {
    n = MIN_OF(MIN_OF(vec_left(&at), w->bytes - done), GUARD_PIECE);
    crc = crc32c(crc, vec_ptr(&at), n);
    vec_advance(&at, n);
    w->good = done + n;
  }
  w->crc = crc;
  return 0;
}

void addr_crc(struct vec_at at, uint64_t bytes, struct xfer_done *ret_done)
{
  struct sum w = {.at = at, .bytes = bytes};
  const struct guard_list list = list_of(&at, bytes);
  struct guard_hit hit;
  int r = guard_run_lists(sum_pieces, &w, &list, 1, &hit);
  *ret_done = (struct xfer_done){.status = XFER_OK, .bytes = bytes, .crc = w.crc, .has_crc = 1};
  if (r < 0) {
    *ret_done = (struct xfer_done){.status = XFER_FAILED};
    done_fault(ret_done, &hit, w.good);
  }
}

static int addr_submit(struct dev *dev, uint32_t lane, const struct xfer *x)
{
  struct addr_dev *d = CONTAINER_OF(dev, struct addr_dev, dev);
  struct addr_lane *l = &d->lane[lane];
  if (l->tail - l->head == ADDR_RING)
    return -EAGAIN;
  const struct addr_how how = {.plan = &d->plan,
                               .heat = &l->heat,
                               .next = x->next,
                               .flags = x->flags,
                               .copy_flags = d->copy_flags | COPY_UNFENCED};
  struct xfer_done *done = &l->done[l->tail & (ADDR_RING - 1)];
  struct xfer_vec slab = {NULL, x->bytes};
  if (x->op == XFER_READ || x->op == XFER_WRITE)
    slab.base = (char *)x->slab->base + x->slab_off;
  switch (x->op) {
  case XFER_READ:
    addr_copy(&how, vec_begin(x->vec), vec_begin(&slab), x->bytes, done);
    break;
  case XFER_WRITE:
    addr_copy(&how, vec_begin(&slab), vec_begin(x->vec), x->bytes, done);
    break;
  case XFER_COPY:
    addr_copy(&how, vec_begin(x->vec), vec_begin(x->src), x->bytes, done);
    break;
  default: /* SYNC: what was written is where it stays */
    *done = (struct xfer_done){.status = XFER_OK, .path = DRAY_PATH_NONE, .reason = DRAY_REASON_OK};
  }
  l->unfenced |= done->path == DRAY_PATH_CPU_NT;
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
  if (l->unfenced) {
    stream_fence();
    l->unfenced = false;
  }
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
    .doze = stub_doze,
    .in_flight = addr_in_flight,
};
