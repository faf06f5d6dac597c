/* SPDX-License-Identifier: Apache-2.0 */
/* The wrapper's life and cold ops: those of the device inside, and what the script adds. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <dray/types.h>

#include "include/priv/cleanup.h"
#include "transports/fault/fault_internal.h"
#include "transports/stub.h"

static void lane_stop(struct fault_lane *l)
{
  close_fd(&l->timer);
  close_fd(&l->epoll);
}

/* Ends that are held back have to wake whoever sleeps on the inner device's fd. */
static int lane_wakeable(struct fault_dev *f, uint32_t i)
{
  struct fault_lane *l = &f->lane[i];
  struct epoll_event e = {.events = EPOLLIN};
  l->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  l->epoll = epoll_create1(EPOLL_CLOEXEC);
  if (l->timer < 0 || l->epoll < 0 || epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->timer, &e))
    return -errno;
  int fd = f->inner->hot->poll_fd(f->inner, i);
  return fd >= 0 && epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

static void lane_reset(struct fault_dev *f, uint32_t i)
{
  struct fault_lane *l = &f->lane[i];
  list_init(&l->unused);
  list_init(&l->held);
  for (uint32_t k = 0; k < FAULT_OPS; k++) {
    l->op[k].flies = false;
    list_init(&l->op[k].link);
    list_push_back(&l->unused, &l->op[k].link);
  }
  l->open = l->held_n = 0;
  l->polls = l->ended = 0;
  l->armed = false;
  l->timer = l->epoll = -1;
  l->random = (f->script.seed * 0x9e3779b97f4a7c15ull) ^ ((uint64_t)(i + 1) << 32);
  l->random = l->random ? l->random : 1;
}

static int fault_start(struct dev *dev, struct err *e)
{
  struct fault_dev *f = fault_of(dev);
  int r = f->inner->cold->start(f->inner, e);
  if (r < 0)
    return r;
  for (uint32_t i = 0; i < f->lanes; i++)
    lane_reset(f, i);
  for (uint32_t i = 0; r == 0 && i < f->lanes && script_holds(&f->script); i++)
    r = lane_wakeable(f, i);
  if (r < 0) {
    for (uint32_t i = 0; i < f->lanes; i++)
      lane_stop(&f->lane[i]);
    f->inner->cold->stop(f->inner);
    return err_set(e, r, "fault: timers: %s", strerror(-r));
  }
  dev->hot = &hot_fault;
  return 0;
}

static void fault_stop(struct dev *dev)
{
  struct fault_dev *f = fault_of(dev);
  for (uint32_t i = 0; i < f->lanes; i++)
    lane_stop(&f->lane[i]);
  f->inner->cold->stop(f->inner);
  dev->hot = &hot_dummy;
}

static int fault_quiesce(struct dev *dev, uint32_t deadline_ms)
{
  struct dev *inner = fault_of(dev)->inner;
  return inner->cold->quiesce(inner, deadline_ms);
}

static void fault_free(struct fault_dev *f)
{
  for (uint32_t i = 0; f->lane && i < f->lanes; i++)
    for (uint32_t k = 0; k < FAULT_OPS; k++) {
      free(f->lane[i].op[k].vec);
      free(f->lane[i].op[k].src);
    }
  free(f->lane);
  free(f->bad);
  pthread_mutex_destroy(&f->lock);
  free(f);
}

static void fault_close(struct dev *dev)
{
  struct fault_dev *f = fault_of(dev);
  fault_forget_all(f); /* before the mappings go, and others come there */
  f->inner->cold->close(f->inner);
  fault_free(f);
}

static int fault_slab_add(struct dev *dev, uint64_t bytes, struct err *e, struct slab_mem *ret_mem)
{
  struct fault_dev *f = fault_of(dev);
  struct slab_mem mem;
  int r = f->inner->cold->slab_add(f->inner, bytes, e, &mem);
  if (r < 0)
    return r;
  fault_slab_made(f, &mem);
  *ret_mem = mem;
  return 0;
}

static void fault_slab_del(struct dev *dev, struct slab_mem *mem, bool lent)
{
  struct fault_dev *f = fault_of(dev);
  fault_slab_gone(f, mem);
  f->inner->cold->slab_del(f->inner, mem, lent);
}

static int fault_index_slab(struct dev *dev, const struct slab_mem *mem, uint64_t slot_bytes, uint32_t slots,
                            const char *tenant, const char *agent, uint8_t scope)
{
  struct dev *inner = fault_of(dev)->inner;
  return inner->cold->index_slab(inner, mem, slot_bytes, slots, tenant, agent, scope);
}
static int fault_index_put(struct dev *dev, const struct slab_mem *mem, uint32_t slot, const struct index_entry *e)
{
  struct dev *inner = fault_of(dev)->inner;
  return inner->cold->index_put(inner, mem, slot, e);
}
static void fault_index_del(struct dev *dev, const struct slab_mem *mem, uint32_t slot)
{
  struct dev *inner = fault_of(dev)->inner;
  inner->cold->index_del(inner, mem, slot);
}
static void fault_index_expect(struct dev *dev, const struct slab_mem *mem, uint32_t slot)
{
  struct dev *inner = fault_of(dev)->inner;
  inner->cold->index_expect(inner, mem, slot);
}
static int fault_index_scan(struct dev *dev, const struct index_visitor *v, uint64_t *ret_skipped)
{
  struct dev *inner = fault_of(dev)->inner;
  return inner->cold->index_scan(inner, v, ret_skipped);
}

static int fault_index_bad(struct dev *dev, uint64_t dev_off, uint64_t len, bool proven)
{
  struct dev *inner = fault_of(dev)->inner;
  return inner->cold->index_bad(inner, dev_off, len, proven);
}
static int fault_index_met(struct dev *dev, uintptr_t addr, uint64_t unit)
{
  struct dev *inner = fault_of(dev)->inner;
  return inner->cold->index_met(inner, addr, unit);
}
static int fault_detach(struct dev *dev)
{
  struct fault_dev *f = fault_of(dev);
  fault_forget_all(f);
  return f->inner->cold->detach(f->inner);
}

static int fault_prepare(struct dev *dev, struct err *e)
{
  struct fault_dev *f = fault_of(dev);
  return f->inner->cold->prepare(f->inner, e);
}
static int fault_paths(struct dev *dev, struct dev_paths *ret_paths)
{
  struct fault_dev *f = fault_of(dev);
  return f->inner->cold->paths(f->inner, ret_paths);
}

static int fault_memory_add(struct dev *dev, void *base, uint64_t bytes)
{
  struct fault_dev *f = fault_of(dev);
  return f->inner->cold->memory_add(f->inner, base, bytes);
}
static void fault_memory_del(struct dev *dev, void *base)
{
  struct fault_dev *f = fault_of(dev);
  f->inner->cold->memory_del(f->inner, base);
}

static const struct transport_cold fault_cold = {
    .size = sizeof(struct transport_cold),
    .name = "fault",
    .tier_default = 0,
    .open = stub_open, /* fault_wrap() makes one */
    .prepare = fault_prepare,
    .start = fault_start,
    .stop = fault_stop,
    .quiesce = fault_quiesce,
    .close = fault_close,
    .slab_add = fault_slab_add,
    .slab_del = fault_slab_del,
    .index_slab = fault_index_slab,
    .index_put = fault_index_put,
    .index_del = fault_index_del,
    .index_expect = fault_index_expect,
    .index_scan = fault_index_scan,
    .index_bad = fault_index_bad,
    .index_met = fault_index_met,
    .detach = fault_detach,
    .paths = fault_paths,
    .memory_add = fault_memory_add,
    .memory_del = fault_memory_del,
};

int fault_check(const char *script, struct err *e)
{
  struct script s;
  return script_parse(script, strlen(script), e, &s);
}

int fault_wrap(struct dev *inner, const char *script, uint32_t lanes, struct err *e, struct dev **ret_dev)
{
  struct script s;
  int r = script_parse(script, strlen(script), e, &s);
  if (r < 0)
    return r;
  struct fault_dev *f = calloc(1, sizeof *f);
  if (!f)
    return err_set(e, -ENOMEM, "fault: out of memory");
  pthread_mutex_init(&f->lock, NULL);
  f->inner = inner;
  f->script = s;
  f->lanes = lanes;
  f->lane = calloc(lanes, sizeof *f->lane);
  f->bad = calloc(FAULT_BAD_MAX, sizeof *f->bad);
  if (!f->lane || !f->bad) {
    fault_free(f);
    return err_set(e, -ENOMEM, "fault: out of memory for %u lanes", lanes);
  }
  for (uint32_t i = 0; i < lanes; i++)
    lane_reset(f, i);
  f->dev.cold = &fault_cold;
  f->dev.hot = &hot_dummy;
  f->dev.caps = inner->caps;
  f->dev.caps.asynchronous = inner->caps.asynchronous || script_holds(&s);
  snprintf(f->dev.caps.note, sizeof f->dev.caps.note, "%.90s%sfaulty on purpose: %.40s", inner->caps.note,
           inner->caps.note[0] ? "; " : "", script[0] ? script : "(nothing)");
  *ret_dev = &f->dev;
  return 0;
}
