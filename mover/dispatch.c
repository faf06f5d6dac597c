/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts a step into chunks and hands them to a transport; back-pressure puts the chunk off, never the lane. */
#include "include/priv/bits.h"
#include "mover/daemon.h"
#include "mover/lane.h"
#include "mover/step.h"
#include "transports/check.h"

#define PEERS_APART 16u

static struct chunk *chunk_get(struct lane *l)
{
  if (l->free_chunk == UINT32_MAX)
    return NULL;
  struct chunk *c = &l->chunks[l->free_chunk];
  l->free_chunk = c->next_free;
  return c;
}
static void chunk_put(struct lane *l, struct chunk *c)
{
  c->step = NULL;
  c->gen++;
  c->next_free = l->free_chunk;
  l->free_chunk = (uint32_t)(c - l->chunks);
}

static int chunk_submit(struct lane *l, struct step *t, struct chunk *c, struct dev *dev, struct xfer *x)
{
  x->deadline_ns = t->job->deadline_ns;
  x->cookie = (uint64_t)c->gen << 32 | (uint32_t)(c - l->chunks);
  int r = xfer_check(dev, x);
  bool large = t->bytes >= l->d->cfg->split_bytes && !dev->caps.asynchronous && x->op != XFER_SYNC;
  if (r == 0 && !(large && help_ask(l, dev, x, t->bytes - t->cut)))
    r = dev->hot->submit(dev, l->idx, x);
  if (r < 0) {
    chunk_put(l, c);
    return r;
  }
  c->step = t;
  c->start = t->cut;
  t->flying++;
  l->flying++;
  stat_add(&l->stats.chunks, 1);
  return 0;
}

static uint8_t chunk_flags(const struct lane *l, const struct step *t)
{
  unsigned f = t->crc ? XFER_CRC : 0;
  /* by the whole step: a chunk of a long one would always fit the cache */
  if ((t->job->req.sqe.flags & DRAY_READ_SOON) && t->bytes <= l->d->cfg->copy.soon_max)
    f |= XFER_READ_SOON;
  if (t->demoting || (t->from.slab && t->kind != STEP_GET))
    f |= XFER_FRAGILE; /* its memory side is another tier's slab */
  return (uint8_t)f;
}

/* Where the reading goes on after the next n bytes. */
static const void *chunk_next(const struct step *t, uint64_t n)
{
  uint64_t at = t->cut + n;
  if (at == t->bytes)
    return t->next;
  if (t->op == XFER_READ)
    return t->slab->base ? (char *)t->slab->base + t->slab_off + at : NULL;
  return span_at(t->op == XFER_COPY ? &t->src : &t->mem, at);
}

int64_t dispatch_chunk(struct lane *l, struct step *t)
{
  struct chunk *c = chunk_get(l);
  struct dev *dev = t->dev;
  if (!c)
    return 0;
  uint64_t want =
               MIN_OF(t->bytes - t->cut, dev->caps.asynchronous ? l->d->cfg->chunk_bytes * 4 : l->d->cfg->chunk_bytes),
           n, k;
  struct xfer x = {.op = t->op, .vec = c->vec, .slab = t->slab, .slab_off = t->slab_off + t->cut};
  x.flags = chunk_flags(l, t);
  x.nvec = (uint16_t)span_cut(&t->mem, t->cut, want, c->vec, LANE_VECS, &n);
  if (t->op == XFER_COPY) {
    x.nsrc = (uint16_t)span_cut(&t->src, t->cut, n, c->src, LANE_VECS, &k);
    x.src = c->src;
    if (k < n)
      x.nvec = (uint16_t)span_cut(&t->mem, t->cut, k, c->vec, LANE_VECS, &n);
  } else if (t->op == XFER_WRITE && t->cut + n < t->bytes && !is_aligned(n, dev->caps.align)) {
    /* all but the last piece of a write end on the device's grain */
    x.nvec = (uint16_t)span_cut(&t->mem, t->cut, n & ~(uint64_t)(dev->caps.align - 1), c->vec, LANE_VECS, &n);
  }
  x.bytes = n;
  x.next = chunk_next(t, n);
  int r = chunk_submit(l, t, c, dev, &x);
  if (r == -EAGAIN) {
    stat_add(&l->stats.again, 1);
    return 0;
  }
  if (r < 0) { /* the transport's own check: nothing of it flies */
    if (!t->reason) {
      t->reason = r == -ENOTSUP ? DRAY_UNSUPPORTED : DRAY_IO_ERROR;
      t->detail = (uint32_t)-r;
    }
    return (int64_t)STEP_MIN_CHARGE;
  }
  t->cut += n;
  if (t->cut == t->bytes && t->kind == STEP_PUT && dev->caps.asynchronous)
    store_expect_commit(l->d->store, &t->cell, true);
  return (int64_t)MAX_OF(n, (uint64_t)STEP_MIN_CHARGE);
}

int dispatch_sync(struct lane *l, struct step *t, struct dev *dev)
{
  struct chunk *c = chunk_get(l);
  if (!c)
    return -EAGAIN;
  struct xfer x = {.op = XFER_SYNC};
  return chunk_submit(l, t, c, dev, &x);
}

static void chunk_land(struct lane *l, const struct xfer_done *done)
{
  uint32_t at = (uint32_t)done->cookie;
  struct chunk *c = at < LANE_CHUNKS ? &l->chunks[at] : NULL;
  if (!c || !c->step || c->gen != (uint32_t)(done->cookie >> 32))
    return; /* a transport that answers twice answers nobody */
  struct step *t = c->step;
  uint64_t start = c->start;
  chunk_put(l, c);
  l->flying--;
  step_landed(l, t, start, done);
}

void lane_poll(struct lane *l)
{
  struct xfer_done done[32];
  uint32_t back = help_take_back(l, done, ARRAY_LEN(done));
  for (uint32_t k = 0; k < back; k++)
    chunk_land(l, &done[k]);
  l->polls++;
  for (uint32_t i = 0; i < l->d->devs_n; i++) {
    struct dev *dev = l->d->dev[i];
    uint32_t n;
    /* there may be hundreds of peers; while nothing of ours is out they have only connections to show, which can wait
     */
    if (i >= l->d->cfg->pools_n && !l->flying && (i + l->polls) % PEERS_APART)
      continue;
    while ((n = dev->hot->poll(dev, l->idx, done, ARRAY_LEN(done))) > 0) {
      if (dev->caps.asynchronous)
        lane_refresh(l);
      for (uint32_t k = 0; k < n; k++)
        chunk_land(l, &done[k]);
    }
  }
}
