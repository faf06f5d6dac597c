/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/backends.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "include/priv/bits.h"
#include "mover/drain.h"
#include "mover/fill.h"
#include "transports/transport.h"

#define BUSY_MS 2000u
#define BUSY_STEP_MS 20

/* An explicit list, no constructors: adding a transport is adding a line. */
static const struct transport *const transports[] = {
    &transport_memory,
    &transport_cxl,
    &transport_file,
#ifdef HAVE_RDMA
    &transport_rdma,
#endif
};

static const struct transport *backend_by_name(const char *name)
{
  for (size_t i = 0; i < ARRAY_LEN(transports); i++)
    if (strcmp(transports[i]->cold->name, name) == 0)
      return transports[i];
  return NULL;
}

/* A mover that was killed a moment ago may not be gone yet: its successor gives it that moment. */
static int backend_open(const struct transport *tr, const struct dev_config *dc, const struct log *log, struct err *e,
                        struct dev **ret_dev)
{
  int r = tr->cold->open(dc, e, ret_dev);
  for (uint32_t waited = 0; r == -EBUSY && waited < BUSY_MS; waited += BUSY_STEP_MS) {
    if (!waited)
      log_line(log, LOG_INFO, "tier %s is another mover's: waiting at most %u ms for its end", dc->name, BUSY_MS);
    poll(NULL, 0, BUSY_STEP_MS);
    e->text[0] = 0;
    r = tr->cold->open(dc, e, ret_dev);
  }
  return r;
}

/* Device i of the configuration, wrapped where it is to be faulty. */
static int dev_open(const struct config *cfg, uint32_t i, const struct log *log, struct err *e, struct dev **ret_dev)
{
  const struct config_tier *t = config_dev_tier(cfg, i);
  const struct config_peer *p = config_dev_peer(cfg, i);
  const struct transport *tr = backend_by_name(t->transport);
  struct dev_config dc = {.name = t->name,
                          .path = p ? p->address : t->path,
                          .capacity = t->capacity,
                          .lanes = cfg->lanes + 1, /* one more: drain.h */
                          .depth = t->depth ? t->depth : 128,
                          .bounce_bytes = t->bounce_bytes ? t->bounce_bytes : MIB(4),
                          .numa_node = t->numa_node,
                          .huge_pages = t->huge_pages,
                          .buffered = t->buffered,
                          .bounces = t->bounce_only,
                          .no_uring = t->no_uring,
                          .copy = &cfg->copy,
                          .owner = t->owner,
                          .keep = t->keep,
                          .coherence = t->coherence,
                          .strict = cfg->strict,
                          .node = cfg->node,
                          .peer = p ? p->name : NULL,
                          .key_file = p ? p->key_file : NULL,
                          .timeout_ms = p ? p->timeout_ms : 0};
  struct dev *dev = NULL;
  int r = tr ? backend_open(tr, &dc, log, e, &dev) : -EINVAL;
  if (r == 0 && t->fault) {
    struct dev *plain = dev;
    r = fault_wrap(plain, t->fault, dc.lanes, e, &dev);
    if (r < 0)
      plain->cold->close(plain);
    else
      log_line(log, LOG_WARN, "tier %s is faulty on purpose: %s", t->name, t->fault);
  }
  if (r < 0)
    return r;
  const struct dev_caps *c = &dev->caps;
  log_line(log, c->note[0] && !c->emulated ? LOG_WARN : LOG_INFO,
           "tier %s: transport %s%s%s%s, %llu MiB, unit %llu, %s%s%s", t->name, tr->cold->name,
           c->emulated ? " (emulated)" : "", p ? ", peer " : "", p ? p->name : "",
           (unsigned long long)(c->capacity >> 20), (unsigned long long)c->unit,
           c->addressable ? "addressable" : "staged", c->note[0] ? ", " : "", c->note);
  *ret_dev = dev;
  return 0;
}

int backends_open(const struct config *cfg, const struct log *log, struct dev *ret_dev[CONFIG_DEVS_MAX],
                  uint32_t *ret_n, struct err *e)
{
  uint32_t n = 0, all = config_devs(cfg);
  int r = 0;
  while (r == 0 && n < all) {
    struct err inner = {{0}};
    r = dev_open(cfg, n, log, &inner, &ret_dev[n]);
    if (r < 0)
      err_set(e, r, "tier %s: %.400s", config_dev_tier(cfg, n)->name, inner.text[0] ? inner.text : strerror(-r));
    else
      n++;
  }
  if (r < 0) {
    while (n) {
      n--;
      ret_dev[n]->cold->close(ret_dev[n]);
    }
    return r;
  }
  *ret_n = n;
  return 0;
}

void backends_store_config(const struct config *cfg, struct dev *const dev[CONFIG_DEVS_MAX], uint32_t n,
                           struct store_config *ret_sc)
{
  memset(ret_sc, 0, sizeof *ret_sc);
  ret_sc->pools = MIN_OF(n, cfg->pools_n);
  for (uint32_t i = 0; i < ret_sc->pools; i++) {
    struct store_pool_config *p = &ret_sc->pool[i];
    const struct config_tier *t = &cfg->tier[i];
    snprintf(p->name, sizeof p->name, "%s", t->name);
    p->tier = (uint8_t)dray_tier_by_name(t->name);
    p->attendable = dev[i]->caps.addressable && !dev[i]->caps.incoherent && dev[i]->caps.isolation != DEV_HIDDEN &&
                    profile_attendable(&cfg->policy.profiles, p->tier);
    p->dev = dev[i];
    p->capacity = t->capacity && t->capacity < dev[i]->caps.capacity ? t->capacity : dev[i]->caps.capacity;
    p->slab_bytes_max = t->slab_bytes ? t->slab_bytes : MIB(64);
  }
  ret_sc->cells_max = cfg->cells_max;
  ret_sc->leases_max = cfg->leases_max;
  ret_sc->slabs_max = FILL_INDEX_BASE;
  ret_sc->seed = 0x9e3779b97f4a7c15ull;
}

void backends_memory_add(struct dev *const *dev, uint32_t n, void *base, uint64_t bytes)
{
  for (uint32_t i = 0; i < n; i++)
    (void)dev[i]->cold->memory_add(dev[i], base, bytes);
}

void backends_memory_del(struct dev *const *dev, uint32_t n, void *base)
{
  for (uint32_t i = 0; i < n; i++)
    dev[i]->cold->memory_del(dev[i], base);
}
