/* SPDX-License-Identifier: Apache-2.0 */
#include "transports/rdma/region.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "include/priv/cleanup.h"

void regions_init(struct regions *g)
{
  *g = (struct regions){.n = 0};
  pthread_mutex_init(&g->lock, NULL);
}

static void region_free(struct region_mem *r)
{
  verbs_mem_dereg(&r->mem);
  free(r);
}

void regions_deregister(struct regions *g)
{
  if (g->busy && g->busy->gone)
    region_free(g->busy);
  g->busy = NULL;
  for (uint32_t i = 0; i < g->n; i++) {
    verbs_mem_dereg(&g->v[i]->mem);
    g->v[i]->state = REGMEM_KNOWN;
  }
  g->wanted = 0;
}

void regions_deinit(struct regions *g)
{
  for (uint32_t i = 0; i < g->n; i++)
    region_free(g->v[i]);
  free(g->v);
  pthread_mutex_destroy(&g->lock);
}

/* Index of the first that ends behind p. */
static uint32_t place_of(const struct regions *g, const char *p)
{
  uint32_t lo = 0, hi = g->n;
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (g->v[mid]->base + g->v[mid]->bytes <= p)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

int regions_add(struct regions *g, void *base, uint64_t bytes)
{
  struct region_mem *r = calloc(1, sizeof *r);
  LOCKED(&g->lock);
  uint32_t at = place_of(g, base);
  int rc = !r ? -ENOMEM : at < g->n && g->v[at]->base < (char *)base + bytes ? -EEXIST : 0;
  if (!rc && g->n == g->room) {
    uint32_t room = g->room ? 2 * g->room : 16;
    struct region_mem **v = realloc(g->v, room * sizeof *v);
    rc = v ? 0 : -ENOMEM;
    g->v = v ? v : g->v;
    g->room = v ? room : g->room;
  }
  if (rc) {
    free(r);
    return rc;
  }
  *r = (struct region_mem){.base = base, .bytes = bytes, .state = REGMEM_KNOWN};
  memmove(&g->v[at + 1], &g->v[at], (g->n - at) * sizeof(struct region_mem *));
  g->v[at] = r;
  g->n++;
  return 0;
}

void regions_del(struct regions *g, void *base)
{
  struct region_mem *r = NULL;
  pthread_mutex_lock(&g->lock);
  uint32_t at = place_of(g, base);
  if (at < g->n && g->v[at]->base == base) {
    r = g->v[at];
    g->n--;
    memmove(&g->v[at], &g->v[at + 1], (g->n - at) * sizeof(struct region_mem *));
    g->wanted -= r->state == REGMEM_WANTED;
    if (r->state == REGMEM_BUSY) {
      r->gone = true;
      r = NULL;
    }
  }
  pthread_mutex_unlock(&g->lock);
  if (r)
    region_free(r);
}

const struct region_mem *regions_find(struct regions *g, struct vec_at at, uint64_t bytes, bool *ret_wanted)
{
  struct region_mem *r = NULL;
  const char *lo = vec_ptr(&at), *hi = lo;
  for (uint64_t have = 0; have < bytes; have += vec_left(&at), at.v++, at.off = 0) {
    const char *p = vec_ptr(&at);
    lo = p < lo ? p : lo;
    hi = p + vec_left(&at) > hi ? p + vec_left(&at) : hi;
  }
  LOCKED(&g->lock);
  uint32_t i = place_of(g, lo);
  if (i < g->n && g->v[i]->base <= lo && hi <= g->v[i]->base + g->v[i]->bytes)
    r = g->v[i];
  if (r && r->state == REGMEM_KNOWN) {
    r->state = REGMEM_WANTED;
    g->wanted++;
    *ret_wanted = true;
  }
  return r && r->state == REGMEM_READY ? r : NULL;
}

/* The one that is being registered, or the next that is wanted; NULL: none. */
static struct region_mem *regions_next(struct regions *g, bool *ret_fresh)
{
  LOCKED(&g->lock);
  *ret_fresh = !g->busy;
  for (uint32_t i = 0; g->wanted && i < g->n && !g->busy; i++)
    if (g->v[i]->state == REGMEM_WANTED) {
      g->busy = g->v[i];
      g->busy->state = REGMEM_BUSY;
      g->wanted--;
    }
  return g->busy;
}

bool regions_tick(struct regions *g, const struct verbs *v)
{
  struct err e = {{0}};
  bool fresh;
  struct region_mem *r = regions_next(g, &fresh);
  if (!r)
    return false;
  int rc = fresh ? verbs_mem_begin(v, r->base, r->bytes, REGION_STEP_BYTES, &r->mem, &e) : 0;
  if (!rc)
    rc = verbs_mem_step(v, &r->mem, IBV_ACCESS_LOCAL_WRITE, &e);
  pthread_mutex_lock(&g->lock);
  bool gone = r->gone;
  if (rc <= 0 || gone) {
    g->busy = NULL;
    r->state = rc < 0 ? REGMEM_REFUSED : REGMEM_READY;
  }
  pthread_mutex_unlock(&g->lock);
  if (gone)
    region_free(r);
  return true;
}

uint32_t region_sges(const struct region_mem *r, struct vec_at at, uint64_t bytes, uint32_t dev,
                     struct ibv_sge *ret_sge, uint32_t max, uint64_t *ret_bytes)
{
  uint32_t n = 0;
  uint64_t have = 0;
  while (n < max && have < bytes) {
    uint64_t off = (uint64_t)((char *)vec_ptr(&at) - r->base);
    uint64_t k = MIN_OF(MIN_OF(vec_left(&at), bytes - have), r->mem.piece - off % r->mem.piece);
    ret_sge[n++] = verbs_mem_sge(&r->mem, off, (uint32_t)k, dev);
    have += k;
    vec_advance(&at, k);
  }
  *ret_bytes = have;
  return n;
}
