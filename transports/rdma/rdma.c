/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rdma transport: a pool in memory that a peer lends. Slabs are extents of it; nothing here waits for the peer. The
 * bytes go straight from and to engines' memory where that is registered (region.h), which the other side has no
 * key to, and otherwise through bounce memory of ours.
 */
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <dray/types.h>

#include "base/crc.h"
#include "base/guard.h"
#include "include/priv/cleanup.h"
#include "include/priv/order.h"
#include "transports/rdma/rdma_internal.h"
#include "transports/rdma/remote.h"
#include "transports/stub.h"

#define ADD_WAIT_MS 500u /* for what is being wiped */

static void rdma_close(struct dev *dev)
{
  struct rdma_dev *d = rdma_of(dev);
  while (!list_empty(&d->wipes))
    free(LIST_OF(list_pop_front(&d->wipes), struct wipe, link));
  regions_deinit(&d->regions);
  extent_map_deinit(&d->map);
  pthread_mutex_destroy(&d->lock);
  pthread_cond_destroy(&d->freed);
  explicit_bzero(&d->key, sizeof d->key);
  free(d);
}

static int rdma_check(const struct dev_config *cfg, struct err *e)
{
  if (!cfg->path || !*cfg->path)
    return err_set(e, -EINVAL, "pool %s: set the peer's address", cfg->name);
  if (cfg->lanes < 1 || cfg->lanes > DEV_LANES_MAX || cfg->depth < 1 || cfg->depth > 1024)
    return err_set(e, -EINVAL, "pool %s: %u lanes of depth %u: need 1..65 and 1..1024", cfg->name, cfg->lanes,
                   cfg->depth);
  if (cfg->capacity > WIRE_CELL_MAX)
    return err_set(e, -EINVAL, "pool %s: capacity %llu is more than %llu", cfg->name, (unsigned long long)cfg->capacity,
                   (unsigned long long)WIRE_CELL_MAX);
  return 0;
}

static int keys_and_paths(struct rdma_dev *d, const struct dev_config *cfg, struct err *e)
{
  int rc = address_paths(cfg->path, d->path, &d->paths, e);
  if (!rc)
    rc = auth_key_read(cfg->key_file, &d->key, e);
  for (uint32_t i = 0; !rc && i < d->paths && !d->key.bytes; i++)
    if (!auth_own_address((struct sockaddr *)&d->path[i].dst))
      rc = err_set(e, -EACCES, "pool %s: %s is another host and there is no key_file: set one, the same on both sides",
                   cfg->name, d->path[i].text);
  return rc;
}

/* Who we are to peers: node, tier, and which peer we mean, as two tiers or two names may lead to one mover. Long names
   that share their first bytes are not the same. */
void remote_name(char to[WIRE_NAME_MAX], const char *node, const char *tier, const char *peer)
{
  char all[512];
  int k = snprintf(all, sizeof all, "%s/%s%s%s", node, tier, peer ? ":" : "", peer ? peer : "");
  size_t n = k < 0 ? 0 : MIN_OF((size_t)k, sizeof all - 1);
  if (n < WIRE_NAME_MAX)
    memcpy(to, all, n + 1);
  else
    snprintf(to, WIRE_NAME_MAX, "%.22s-%08x/%.31s", node, crc32c(0, all, n), tier);
}

static int rdma_open(const struct dev_config *cfg, struct err *e, struct dev **ret_dev)
{
  int rc = rdma_check(cfg, e);
  struct rdma_dev *d = rc ? NULL : calloc(1, sizeof *d);
  if (!d)
    return rc ? rc : err_set(e, -ENOMEM, "pool %s: out of memory", cfg->name);
  snprintf(d->name, sizeof d->name, "%s", cfg->name);
  remote_name(d->node, cfg->node ? cfg->node : "dray", cfg->name, cfg->peer);
  d->lanes = cfg->lanes;
  d->depth = cfg->depth;
  d->bounces = cfg->bounces;
  d->timeout_ms = cfg->timeout_ms ? cfg->timeout_ms : RDMA_TIMEOUT_MS;
  d->lane_bounce = align_up(MAX_OF(cfg->bounce_bytes, 2 * RDMA_PART_BYTES), RDMA_PART_BYTES);
  d->piece_max = cfg->piece_max;
  d->gen = 1;
  regions_init(&d->regions);
  list_init(&d->wipes);
  pthread_mutex_init(&d->lock, NULL);
  pthread_condattr_t clock;
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&d->freed, &clock);
  pthread_condattr_destroy(&clock);
  struct dev *dev = &d->dev;
  dev->cold = transport_rdma.cold;
  dev->hot = &hot_dummy;
  dev->caps = (struct dev_caps){.capacity = cfg->capacity & ~(uint64_t)(RDMA_UNIT - 1),
                                .unit = RDMA_UNIT,
                                .align = 1,
                                .asynchronous = true,
                                .isolation = DEV_HIDDEN};
  rc = keys_and_paths(d, cfg, e);
  if (!rc && dev->caps.capacity) {
    rc = extent_map_init(&d->map, dev->caps.capacity / RDMA_UNIT, 0);
    if (rc)
      err_set(e, rc, "pool %s: %s", cfg->name, strerror(-rc));
  }
  if (rc) {
    rdma_close(dev);
    return rc;
  }
  *ret_dev = dev;
  return 0;
}

static int rdma_prepare(struct dev *dev, struct err *e)
{
  (void)dev, (void)e;
  verbs_load();
  return 0;
}

static int devices_open(struct rdma_dev *d, struct err *e)
{
  int rc = verbs_open(&d->verbs, d->piece_max, e);
  if (rc)
    return rc;
  d->opened = true;
  rc = link_open(d, &d->link);
  return rc ? err_set(e, rc, "/dev/infiniband/rdma_cm: %s: load rdma_ucm", strerror(-rc)) : 0;
}

static void rdma_unstart(struct rdma_dev *d)
{
  link_close(d->link); /* queue pairs before the queues that they complete to */
  d->link = NULL;
  for (uint32_t i = 0; d->lane && i < d->lanes; i++)
    lane_unmake(&d->lane[i]);
  free(d->lane);
  d->lane = NULL;
  regions_deregister(&d->regions);
  verbs_mem_dereg(&d->bounce_mem);
  if (d->bounce)
    munmap(d->bounce, d->lanes * d->lane_bounce);
  d->bounce = NULL;
  for (struct lent *l = (struct lent *)(uintptr_t)d->lent, *older; l; l = older) {
    older = l->older;
    free(l);
  }
  d->lent = 0;
  if (d->opened)
    verbs_close(&d->verbs);
  d->opened = false;
  d->dev.hot = &hot_dummy;
}

static int rdma_start(struct dev *dev, struct err *e)
{
  struct rdma_dev *d = rdma_of(dev);
  struct err why = {{0}};
  d->lane = aligned_alloc(_Alignof(struct rdma_lane), d->lanes * sizeof *d->lane);
  void *bounce = mmap(NULL, d->lanes * d->lane_bounce, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  d->bounce = bounce == MAP_FAILED ? NULL : bounce;
  if (d->lane)
    memset((void *)d->lane, 0, d->lanes * sizeof *d->lane);
  int rc = d->lane && d->bounce ? guard_install() : -ENOMEM; /* the memory side may be punched, or bad */
  if (!rc)
    rc = devices_open(d, &why);
  if (!rc)
    rc = verbs_mem_reg(&d->verbs, d->bounce, d->lanes * d->lane_bounce, IBV_ACCESS_LOCAL_WRITE, &d->bounce_mem, &why);
  for (uint32_t i = 0; !rc && i < d->lanes; i++)
    rc = lane_make(d, &d->lane[i], i);
  if (!rc)
    rc = link_start(d->link);
  if (rc) {
    rdma_unstart(d);
    return err_set(e, rc, "pool %s: %.400s", d->name, why.text[0] ? why.text : strerror(-rc));
  }
  dev->hot = transport_rdma.hot;
  return 0;
}

static void rdma_stop(struct dev *dev)
{
  rdma_unstart(rdma_of(dev));
}

static int rdma_slab_add(struct dev *dev, uint64_t bytes, struct err *e, struct slab_mem *ret_mem)
{
  struct rdma_dev *d = rdma_of(dev);
  struct timespec until;
  if (!bytes || !is_aligned(bytes, RDMA_UNIT))
    return err_set(e, -EINVAL, "pool %s: slab of %llu bytes: not a multiple of %u", d->name, (unsigned long long)bytes,
                   RDMA_UNIT);
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += ADD_WAIT_MS * 1000000L;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  uint64_t at;
  LOCKED(&d->lock);
  int rc;
  while ((rc = extent_alloc(&d->map, bytes / RDMA_UNIT, &at)) == -ENOSPC && d->wiping && d->link &&
         link_status(d->link) == LINK_OPEN) { /* a peer that is not there is not waited for */
    link_ring(d->link);
    if (pthread_cond_timedwait(&d->freed, &d->lock, &until))
      break;
  }
  if (rc)
    return err_set(e, rc, "pool %s: no free range of %llu bytes (%llu of capacity %llu in use)", d->name,
                   (unsigned long long)bytes, (unsigned long long)(d->map.used * RDMA_UNIT),
                   (unsigned long long)dev->caps.capacity);
  *ret_mem = (struct slab_mem){.bytes = bytes, .dev_off = at * RDMA_UNIT, .fd = -1, .unit = link_see(&d->gen)};
  return 0;
}

/* It may have been written to: it is free once the peer has wiped it. */
static void rdma_slab_del(struct dev *dev, struct slab_mem *mem, bool lent)
{
  struct rdma_dev *d = rdma_of(dev);
  (void)lent; /* never: no fd of it leaves */
  struct wipe *w = calloc(1, sizeof *w);
  LOCKED(&d->lock);
  if (w && d->link && word_see(&d->lent) && mem->unit == link_see(&d->gen)) {
    w->off = mem->dev_off;
    w->bytes = mem->bytes;
    list_push_back(&d->wipes, &w->link);
    d->wiping++;
    link_ring(d->link);
    return;
  }
  /* of a lease that is over, or of before the first: it holds nothing of ours. Out of memory: the range is lost rather
     than shown to another */
  if (w)
    extent_free(&d->map, mem->dev_off / RDMA_UNIT, mem->bytes / RDMA_UNIT);
  free(w);
}

static int rdma_paths(struct dev *dev, struct dev_paths *ret_paths)
{
  struct rdma_dev *d = rdma_of(dev);
  struct dev_paths p = {.all = d->paths, .gen = link_see(&d->gen), .reach = DEV_DOWN};
  uint32_t means = 0;
  if (d->link)
    link_tell(d->link, &p);
  for (uint32_t i = 0; d->link && i < d->lanes; i++) {
    const struct tally *t = &d->lane[i].tally;
    uint64_t mean = stat_read(&t->latency_ns);
    for (unsigned k = 0; k < 2; k++) {
      p.ops[k] += stat_read(&t->ops[k]);
      p.bytes[k] += stat_read(&t->bytes[k]);
    }
    p.failed += stat_read(&t->failed);
    p.bytes_per_s = MAX_OF(p.bytes_per_s, stat_read(&t->bytes_per_s));
    p.latency_ns += mean;
    means += mean != 0;
  }
  p.latency_ns /= MAX_OF(means, 1u);
  *ret_paths = p;
  return 0;
}

/* The queue pairs were the worker's: the kernel took them down with it. */
static int rdma_quiesce(struct dev *dev, uint32_t deadline_ms)
{
  (void)deadline_ms;
  (void)dev;
  return 0;
}

struct link *remote_link(struct dev *dev)
{
  return rdma_of(dev)->link;
}

int remote_slab(struct dev *dev, const struct wire_seg *seg, uint32_t n, uint64_t len, struct slab_mem *ret_mem)
{
  struct lent *l = calloc(1, sizeof *l + n * sizeof(struct lent_seg));
  if (!l)
    return -ENOMEM;
  for (uint32_t i = 0; i < n; i++) {
    l->seg[i] = (struct lent_seg){l->bytes, seg[i]};
    l->bytes += seg[i].bytes;
  }
  l->n = n;
  *ret_mem = (struct slab_mem){.bytes = len, .fd = -1, .unit = link_see(&rdma_of(dev)->gen), .far = l};
  return 0;
}

void remote_free(struct slab_mem *mem)
{
  free((void *)(uintptr_t)mem->far);
  mem->far = NULL;
}

static int rdma_memory_add(struct dev *dev, void *base, uint64_t bytes)
{
  struct rdma_dev *d = rdma_of(dev);
  return d->bounces ? 0 : regions_add(&d->regions, base, bytes);
}

static void rdma_memory_del(struct dev *dev, void *base)
{
  regions_del(&rdma_of(dev)->regions, base);
}

static const struct transport_cold rdma_cold = {
    .size = sizeof(struct transport_cold),
    .name = "rdma",
    .tier_default = DRAY_TIER_REMOTE_DRAM,
    .open = rdma_open,
    .prepare = rdma_prepare,
    .start = rdma_start,
    .stop = rdma_stop,
    .quiesce = rdma_quiesce,
    .close = rdma_close,
    .slab_add = rdma_slab_add,
    .slab_del = rdma_slab_del,
    .index_slab = stub_index_slab,
    .index_put = stub_index_put,
    .index_del = stub_index_del,
    .index_expect = stub_index_expect,
    .index_scan = stub_index_scan,
    .index_bad = stub_index_bad,
    .index_met = stub_index_met,
    .detach = stub_detach,
    .paths = rdma_paths,
    .memory_add = rdma_memory_add,
    .memory_del = rdma_memory_del,
};
const struct transport transport_rdma = {&rdma_cold, &hot_rdma};
