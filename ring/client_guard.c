/* SPDX-License-Identifier: Apache-2.0 */
/* Reads of leased memory that survive what is bad in it, and tell the mover. */
#include <errno.h>

#include "base/copy.h"
#include "base/guard.h"
#include "ring/client_internal.h"

_Static_assert(sizeof(struct guard_room) <= sizeof(((struct dray_guard *)0)->room), "the guard's own part fits");

static struct guard_room *room_of(struct dray_guard *g)
{
  return (struct guard_room *)(void *)g->room;
}

static int hit_error(const struct dray_hit *h)
{
  return h->poison ? -EHWPOISON : -EFAULT;
}

/* Where in the cell: a unit may begin before it. */
static struct dray_hit hit_of(const struct guard_hit *g, uint64_t lease, const void *cell)
{
  uintptr_t start = g->addr & ~(uintptr_t)(g->unit - 1), base = (uintptr_t)cell;
  return (struct dray_hit){.lease = lease,
                           .off = start > base ? start - base : 0,
                           .unit = g->unit,
                           .good = g->good,
                           .poison = g->kind == GUARD_POISON};
}

int dray_report_hit(struct dray *d, struct dray_hit *hit)
{
  if (!hit->lease)
    return -EINVAL;
  struct dray_sqe *s = dray_get_sqe(d);
  if (!s)
    return -EAGAIN;
  dray_prep_quarantine_lease(s, hit->lease, hit->off, 1, hit->unit);
  s->cookie = DRAY_COOKIE_GUARD;
  int r = dray_submit(d);
  if (r < 0)
    return r;
  hit->reported = true;
  return 0;
}

int dray_guard_enter(struct dray_guard *g, struct dray *d, uint64_t lease, const void *cell, uint64_t len)
{
  int r = guard_install();
  if (r < 0)
    return r;
  g->d = d;
  g->cell = cell;
  g->len = len;
  memset(&g->hit, 0, sizeof g->hit);
  g->hit.lease = lease;
  guard_enter(room_of(g), cell, len, &g->back);
  return 0;
}

void dray_guard_end(struct dray_guard *g)
{
  guard_leave(room_of(g));
}

int dray_guard_fault(struct dray_guard *g)
{
  struct guard_hit hit;
  guard_left(room_of(g), &hit);
  hit.good = 0;
  g->hit = hit_of(&hit, g->hit.lease, g->cell);
  (void)dray_report_hit(g->d, &g->hit); /* hit.reported says whether */
  return hit_error(&g->hit);
}

int dray_copy_guarded(struct dray *d, uint64_t lease, const void *cell, uint64_t off, void *dst, size_t n,
                      struct dray_hit *ret_hit)
{
  struct guard_hit hit;
  uint8_t path;
  const char *src = (const char *)cell + off;
  int r = guard_install();
  if (r < 0)
    return r;
  if (!n || guard_copy(&copy_plan_default, dst, src, n, COPY_FRAGILE, &hit, &path) == 0)
    return 0;
  /* the kernel's address names one side; a unit may begin before it */
  bool ours = hit.addr + hit.unit > (uintptr_t)src && hit.addr < (uintptr_t)src + n;
  struct dray_hit h = hit_of(&hit, ours ? lease : 0, ours ? cell : dst);
  if (ours)
    (void)dray_report_hit(d, &h);
  if (ret_hit)
    *ret_hit = h;
  return hit_error(&h);
}
