/* SPDX-License-Identifier: Apache-2.0 */
/* What the session shares: regions, layouts, keys, slabs lent by the mover, rows of the arena. */
#include "ring/client_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "include/priv/cleanup.h"
#include "ring/region.h"

static void slab_forget(struct client_slab *s)
{
  if (s->base)
    munmap(s->base, s->size);
  if (s->id && s->fd >= 0)
    close(s->fd);
  memset(s, 0, sizeof *s);
  s->fd = -1;
}

void client_slabs_free(struct dray *d)
{
  for (uint32_t i = 0; i < d->nslabs; i++)
    slab_forget(&d->slabs[i]);
  free(d->slabs);
  d->slabs = NULL;
  d->nslabs = 0;
}

static struct client_slab *slab_place(struct dray *d, uint32_t id)
{
  uint32_t i = id & 0xffffu;
  if (i >= d->nslabs) {
    uint32_t n = pow2_at_least(i + 1);
    n = n < 64 ? 64 : n;
    struct client_slab *p = realloc(d->slabs, n * sizeof *p);
    if (!p)
      return NULL;
    for (uint32_t k = d->nslabs; k < n; k++) {
      memset(&p[k], 0, sizeof p[k]);
      p[k].fd = -1;
    }
    d->slabs = p;
    d->nslabs = n;
  }
  return &d->slabs[i];
}

int client_take_message(struct dray *d, const union handshake_msg *msg, int fd)
{
  if (msg->h.type == DRAY_MSG_SLAB) {
    struct client_slab *s = msg->slab.size ? slab_place(d, msg->slab.slab) : NULL;
    if (!s) {
      close(fd);
      return msg->slab.size ? -ENOMEM : -EPROTO;
    }
    slab_forget(s);
    s->id = msg->slab.slab;
    s->fd = fd;
    s->writable = msg->slab.writable != 0;
    s->size = msg->slab.size;
    s->offset = msg->slab.offset;
    return 0;
  }
  if (msg->h.type == DRAY_MSG_SLAB_GONE) {
    struct client_slab *s = slab_place(d, msg->id.id);
    if (s && s->id == msg->id.id)
      slab_forget(s);
    return 0;
  }
  if (fd >= 0)
    close(fd);
  return -EPROTO;
}

int client_drain(struct dray *d)
{
  for (;;) {
    union handshake_msg msg;
    int fds[HANDSHAKE_FDS_MAX];
    int r = handshake_recv(d->sock, &msg, fds);
    if (r == -EAGAIN)
      return 0;
    if (r <= 0)
      return r < 0 ? r : -ECONNRESET;
    if (msg.h.type == DRAY_MSG_REPLY)
      continue; /* of a call that timed out */
    r = client_take_message(d, &msg, fds[0]);
    if (r < 0)
      return r;
  }
}

int client_call(struct dray *d, void *msg, size_t n, int fd, struct dray_msg_reply *ret_reply)
{
  struct dray_msg_head *h = msg;
  if (d->dead)
    return -ECONNRESET;
  h->seq = ++d->seq;
  int r = handshake_send(d->sock, msg, n, &fd, fd >= 0 ? 1 : 0);
  if (r < 0)
    return r == -EPIPE ? -ECONNRESET : r;
  uint64_t end = client_now_ns() + (uint64_t)d->timeout_ms * 1000000u;
  for (;;) {
    uint64_t now = client_now_ns();
    if (now >= end)
      return -ETIMEDOUT;
    r = handshake_wait(d->sock, (int)((end - now + 999999u) / 1000000u));
    if (r < 0)
      return r;
    union handshake_msg in;
    int fds[HANDSHAKE_FDS_MAX];
    r = handshake_recv(d->sock, &in, fds);
    if (r == 0)
      return -ECONNRESET;
    if (r == -EAGAIN)
      continue;
    if (r < 0)
      return r;
    if (in.h.type != DRAY_MSG_REPLY) {
      r = client_take_message(d, &in, fds[0]);
      if (r < 0)
        return r;
      continue;
    }
    if (in.h.seq != d->seq)
      continue;
    d->last = in.reply;
    if (in.reply.error)
      return in.reply.error < 0 ? in.reply.error : -EPROTO;
    *ret_reply = in.reply;
    return 0;
  }
}

void dray_last_error(const struct dray *d, struct dray_msg_reply *ret_reply)
{
  *ret_reply = d->last;
}

int dray_region_alloc(uint64_t size, bool huge, struct dray_region *ret_region)
{
  CLEAN_FD fd = region_make("dray-region", size, huge);
  if (fd < 0)
    return fd;
  int r = region_seal(fd, false);
  if (r < 0)
    return r;
  void *base = region_map(fd, 0, size, true, false);
  if (!base)
    return -errno;
  *ret_region = (struct dray_region){.base = base, .size = size, .fd = take_fd(&fd)};
  return 0;
}

void dray_region_free(struct dray_region *r)
{
  if (r->base)
    munmap(r->base, r->size);
  if (r->fd >= 0)
    close(r->fd);
  *r = (struct dray_region){.fd = -1};
}

int dray_region_register(struct dray *d, struct dray_region *region)
{
  struct dray_msg_region m = {.h = {.type = DRAY_MSG_REGION_ADD}, .size = region->size};
  struct dray_msg_reply reply;
  int r = client_call(d, &m, sizeof m, region->fd, &reply);
  if (r < 0)
    return r;
  region->id = (uint16_t)reply.id;
  return 0;
}

int dray_region_unregister(struct dray *d, struct dray_region *region)
{
  struct dray_msg_id m = {.h = {.type = DRAY_MSG_REGION_DEL}, .id = region->id};
  struct dray_msg_reply reply;
  int r = client_call(d, &m, sizeof m, -1, &reply);
  if (r < 0)
    return r;
  region->id = 0;
  return 0;
}

int dray_layout_define(struct dray *d, const struct dray_layout *layout, uint16_t *ret_id)
{
  struct dray_msg_layout m = {.h = {.type = DRAY_MSG_LAYOUT_DEFINE}, .layout = *layout};
  struct dray_msg_reply reply;
  int r = client_call(d, &m, sizeof m, -1, &reply);
  if (r < 0)
    return r;
  *ret_id = (uint16_t)reply.id;
  return 0;
}

int dray_key_define(struct dray *d, const struct dray_key *key, uint32_t *ret_id)
{
  struct dray_msg_key m = {.h = {.type = DRAY_MSG_KEY_DEFINE}, .key = *key};
  struct dray_msg_reply reply;
  int r = client_call(d, &m, sizeof m, -1, &reply);
  if (r < 0)
    return r;
  *ret_id = reply.id;
  return 0;
}

void dray_digest(const void *bytes, size_t n, uint8_t ret_key[16])
{
  XXH128_canonical_t c;
  XXH128_canonicalFromHash(&c, XXH3_128bits(bytes, n));
  memcpy(ret_key, c.digest, 16);
}

/* The slab, mapped. Its fd was sent before the completion that names it was posted, so when it is ours it is known, or
   in the socket already: nothing is waited for. */
static struct client_slab *slab_mapped(struct dray *d, uint32_t id)
{
  uint32_t i = id & 0xffffu;
  for (bool drained = false;; drained = true) {
    struct client_slab *s = id && i < d->nslabs ? &d->slabs[i] : NULL;
    if (LIKELY(s && s->id == id)) {
      if (LIKELY(s->base != NULL))
        return s;
      s->base = region_map(s->fd, s->offset, s->size, s->writable, false);
      if (!s->base)
        return NULL;
      close_fd(&s->fd);
      return s;
    }
    if (!id || drained) {
      errno = ENOENT;
      return NULL;
    }
    (void)client_drain(d); /* what came before a hang-up counts, too */
  }
}

const void *dray_map_address(struct dray *d, uint32_t slab, uint64_t off)
{
  struct client_slab *s = slab_mapped(d, slab);
  if (!s)
    return NULL;
  if (off >= s->size) {
    errno = ENOENT;
    return NULL;
  }
  return (const char *)s->base + off;
}

void *dray_fill_address(struct dray *d, uint32_t slab)
{
  struct client_slab *s = slab_mapped(d, slab);
  if (s && !s->writable) {
    errno = EACCES;
    return NULL;
  }
  return s ? s->base : NULL;
}

void dray_fill_release(struct dray *d, uint32_t slab)
{
  uint32_t i = slab & 0xffffu;
  if (i < d->nslabs && d->slabs[i].id == slab && d->slabs[i].writable)
    slab_forget(&d->slabs[i]);
}

enum dray_lease_state dray_lease_state(const struct dray *d, uint64_t lease)
{
  const struct dray_object_state *o = (const void *)((const char *)d->m + d->geo.objects_off);
  /* its row is the first free one from its index on (mover/session.c) */
  uint32_t row = (uint32_t)lease % d->geo.objects;
  for (uint32_t i = 0; i < d->geo.objects; i++, row = (row + 1) % d->geo.objects)
    if (o[row].object == lease)
      return (enum dray_lease_state)state_see(&o[row].state);
  return DRAY_LEASE_NONE;
}

/* ---- arena rows ---- */

struct dray_item *dray_items(struct dray *d)
{
  d->arena = true;
  return (struct dray_item *)(void *)((char *)d->u + d->geo.arena_off);
}
const struct dray_item_result *dray_results(const struct dray *d)
{
  return (const struct dray_item_result *)(const void *)((const char *)d->m + d->geo.results_off);
}

int dray_items_get(struct dray *d, uint32_t n, uint32_t *ret_first)
{
  uint32_t need = (n + CLIENT_ROW_GROUP - 1) / CLIENT_ROW_GROUP, run = 0;
  if (n == 0 || n > d->geo.items)
    return -ENOSPC;
  for (uint32_t g = 0; g < d->row_groups; g++) {
    run = d->rows[g / 64] >> (g % 64) & 1 ? 0 : run + 1;
    uint32_t first = (g + 1 - run) * CLIENT_ROW_GROUP;
    if (run < need || first + n > d->geo.items)
      continue;
    for (uint32_t k = g + 1 - run; k <= g; k++)
      d->rows[k / 64] |= 1ull << (k % 64);
    *ret_first = first;
    return 0;
  }
  return -ENOSPC;
}

void dray_items_put(struct dray *d, uint32_t first, uint32_t n)
{
  uint32_t g = first / CLIENT_ROW_GROUP, end = (first + n + CLIENT_ROW_GROUP - 1) / CLIENT_ROW_GROUP;
  for (; g < end && g < d->row_groups; g++)
    d->rows[g / 64] &= ~(1ull << (g % 64));
}
