/* SPDX-License-Identifier: Apache-2.0 */
/* Hot ops: what the script does to each xfer on its way in, and to its end on the way out. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <dray/types.h>

#include "include/priv/order.h"
#include "transports/fault/fault_internal.h"

#define REORDER_POLLS 64u /* two that wait for each other wait no longer than this */

static bool roll(struct fault_lane *l, struct chance c)
{
  if (!c.a)
    return false;
  l->random ^= l->random << 13;
  l->random ^= l->random >> 7;
  l->random ^= l->random << 17;
  return (l->random >> 20) % c.b < c.a;
}

static uint64_t now_ms(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

/* A list of pieces of exactly n bytes, in the op's own array. */
static uint16_t vec_cut(struct xfer_vec **own, const struct xfer_vec *from, uint16_t nvec, uint64_t n)
{
  if (!*own)
    *own = malloc(XFER_VECS_MAX * sizeof **own);
  if (!*own)
    return 0;
  uint16_t k = 0;
  for (; k < nvec && n; k++) {
    (*own)[k] = (struct xfer_vec){from[k].base, MIN_OF(from[k].len, n)};
    n -= (*own)[k].len;
  }
  return k;
}

/* The xfer is given to the inner device as its first n bytes. False: it cannot be. */
static bool op_cut(struct fault_op *op, struct xfer *x, uint64_t n)
{
  uint16_t k = vec_cut(&op->vec, x->vec, x->nvec, n), m = x->nsrc ? vec_cut(&op->src, x->src, x->nsrc, n) : 0;
  if (!k || (x->nsrc && !m))
    return false;
  x->vec = op->vec;
  x->nvec = k;
  if (x->nsrc) {
    x->src = op->src;
    x->nsrc = m;
  }
  x->bytes = op->cut_to = n;
  return true;
}

/* How long its end is held back is settled when it is taken. */
static void op_hold(struct fault_dev *f, struct fault_lane *l, struct fault_op *op)
{
  const struct script *s = &f->script;
  op->due_poll = op->due_ms = 0;
  op->ended_at = UINT64_MAX;
  if (roll(l, s->drop)) {
    op->due_ms = now_ms() + s->drop_ms;
  } else if (roll(l, s->delay)) {
    op->due_ms = s->delay_ms ? now_ms() + s->delay_ms : 0;
    op->due_poll = l->polls + s->delay_polls;
  }
  if (roll(l, s->reorder)) {
    op->ended_at = l->ended;
    op->due_poll = MAX_OF(op->due_poll, l->polls + REORDER_POLLS);
  }
}

static void timer_set(struct fault_lane *l, bool on)
{
  if (l->timer < 0 || l->armed == on)
    return;
  struct itimerspec t = {.it_interval.tv_nsec = on ? 1000000 : 0, .it_value.tv_nsec = on ? 1000000 : 0};
  timerfd_settime(l->timer, 0, &t, NULL);
  l->armed = on;
}

static void op_ended(struct fault_lane *l, struct fault_op *op)
{
  op->flies = false;
  list_push_back(&l->held, &op->link);
  l->held_n++;
  timer_set(l, true);
}

static struct xfer_done failed(const struct fault_op *op, uint16_t reason, int32_t err, uint64_t bytes)
{
  return (struct xfer_done){.cookie = op->cookie,
                            .status = XFER_FAILED,
                            .path = DRAY_PATH_NONE,
                            .reason = reason,
                            .err = err,
                            .bytes = bytes};
}

static void done_poisoned(struct fault_op *op, uint8_t path, uint64_t bytes)
{
  op->done = failed(op, DRAY_POISONED, EHWPOISON, bytes);
  op->done.path = path;
  op->done.bad_unit = op->bad_unit;
  op->done.bad_addr = op->bad_addr;
}

/* What the script does to it before it starts. True: it has ended. */
static bool op_spoil(struct fault_dev *f, struct fault_lane *l, struct fault_op *op, struct xfer *x)
{
  const struct script *s = &f->script;
  bool slab = x->op == XFER_READ || x->op == XFER_WRITE;
  if (roll(l, s->fail)) {
    op->done = failed(op, s->fail_err == ENOSPC ? DRAY_NO_SPACE : DRAY_IO_ERROR, s->fail_err, 0);
    return true;
  }
  if (x->op == XFER_READ && roll(l, s->poison))
    fault_poison(f, x->slab, x->slab_off);
  if (x->op == XFER_WRITE && roll(l, s->source))
    fault_poison_source(f, x->vec[0].base);
  uint64_t good = slab ? fault_good(f, x->slab, x->slab_off, x->bytes) : x->bytes;
  if (good < x->bytes) {
    op->bad_unit = s->unit;
    op->bad_addr = x->slab->base ? (uintptr_t)x->slab->base + x->slab_off + good : 0;
    good = x->op == XFER_WRITE ? good & ~(uint64_t)(f->dev.caps.align - 1) : good;
    if (!good || !op_cut(op, x, good)) {
      done_poisoned(op, DRAY_PATH_NONE, 0);
      return true;
    }
    return false;
  }
  if (x->op != XFER_SYNC && roll(l, s->cut)) {
    uint64_t n = x->bytes / 2;
    if (x->op == XFER_WRITE)
      n &= ~(uint64_t)(f->dev.caps.align - 1);
    if (n)
      op_cut(op, x, n); /* out of memory: then it stays whole */
  }
  return false;
}

static int fault_submit(struct dev *dev, uint32_t lane, const struct xfer *x)
{
  struct fault_dev *f = fault_of(dev);
  struct fault_lane *l = &f->lane[lane];
  if (list_empty(&l->unused))
    return -EAGAIN;
  struct fault_op *op = LIST_OF(l->unused.next, struct fault_op, link);
  struct xfer mine = *x;
  uint64_t taken = stat_add_shared(&f->taken, 1);
  if (f->script.places)
    fault_places(f, taken);
  op->cookie = x->cookie;
  op->bytes = x->bytes;
  op->cut_to = UINT64_MAX;
  op->bad_unit = 0;
  op->bad_addr = 0;
  mine.cookie = (uint64_t)(op - l->op);
  if (op_spoil(f, l, op, &mine)) {
    list_remove(&op->link);
    l->open++;
    op_hold(f, l, op);
    op_ended(l, op);
    return 0;
  }
  int r = f->inner->hot->submit(f->inner, lane, &mine);
  if (r < 0)
    return r;
  list_remove(&op->link);
  l->open++;
  op->flies = true;
  op_hold(f, l, op);
  return 0;
}

static void fault_flush(struct dev *dev, uint32_t lane)
{
  struct fault_dev *f = fault_of(dev);
  f->inner->hot->flush(f->inner, lane);
}

/* The inner device is done with it: what was cut is said. */
static void op_return(struct fault_lane *l, const struct xfer_done *d)
{
  struct fault_op *op = d->cookie < FAULT_OPS ? &l->op[d->cookie] : NULL;
  if (!op || !op->flies)
    return; /* an inner device that answers twice answers nobody */
  op->done = *d;
  op->done.cookie = op->cookie;
  if (d->status == XFER_OK && op->cut_to != UINT64_MAX) {
    if (op->bad_unit) {
      done_poisoned(op, d->path, op->cut_to);
    } else {
      op->done = failed(op, DRAY_SHORT_IO, EIO, op->cut_to);
      op->done.path = d->path;
    }
  }
  op_ended(l, op);
}

static bool op_due(const struct fault_lane *l, const struct fault_op *op, uint64_t ms)
{
  if (op->due_ms && ms < op->due_ms)
    return false;
  if (op->ended_at != UINT64_MAX && (l->ended != op->ended_at || l->open == 1))
    return true;
  return l->polls >= op->due_poll;
}

static uint32_t release(struct fault_lane *l, struct xfer_done *done, uint32_t n, uint64_t ms)
{
  uint32_t k = 0;
  LIST_EACH (&l->held, node) {
    struct fault_op *op = LIST_OF(node, struct fault_op, link);
    if (k == n)
      break;
    if (!op_due(l, op, ms))
      continue;
    done[k++] = op->done;
    list_remove(&op->link);
    list_push_back(&l->unused, &op->link);
    l->held_n--;
    l->open--;
    l->ended++;
  }
  return k;
}

static uint32_t fault_poll(struct dev *dev, uint32_t lane, struct xfer_done *done, uint32_t n)
{
  struct fault_dev *f = fault_of(dev);
  struct fault_lane *l = &f->lane[lane];
  struct xfer_done got[16];
  uint32_t k;
  l->polls++;
  while ((k = f->inner->hot->poll(f->inner, lane, got, ARRAY_LEN(got))) > 0)
    for (uint32_t i = 0; i < k; i++)
      op_return(l, &got[i]);
  if (!l->held_n)
    return 0;
  uint64_t ms = script_holds(&f->script) ? now_ms() : 0;
  k = release(l, done, n, ms);
  if (k < n && l->held_n) /* those that only waited for another */
    k += release(l, done + k, n - k, ms);
  if (l->armed) {
    uint64_t ticks;
    ssize_t r = read(l->timer, &ticks, sizeof ticks);
    (void)r;
    timer_set(l, l->held_n != 0);
  }
  return k;
}

static int fault_poll_fd(struct dev *dev, uint32_t lane)
{
  struct fault_dev *f = fault_of(dev);
  int fd = f->lane[lane].epoll;
  return fd >= 0 ? fd : f->inner->hot->poll_fd(f->inner, lane);
}

static void fault_doze(struct dev *dev, uint32_t lane)
{
  struct fault_dev *f = fault_of(dev);
  f->inner->hot->doze(f->inner, lane);
}

static uint32_t fault_in_flight(struct dev *dev, uint32_t lane)
{
  return fault_of(dev)->lane[lane].open;
}

const struct transport_hot hot_fault = {
    .size = sizeof(struct transport_hot),
    .submit = fault_submit,
    .flush = fault_flush,
    .poll = fault_poll,
    .poll_fd = fault_poll_fd,
    .doze = fault_doze,
    .in_flight = fault_in_flight,
};
