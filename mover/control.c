/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/backends.h"
#include "mover/control.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "mover/daemon.h"
#include "mover/keeper.h"
#include "mover/span.h"
#include "ring/handshake.h"
#include "ring/region.h"

void control_reply(struct session *s, uint32_t seq, int error, unsigned reason, uint64_t need, uint64_t have,
                   uint32_t id)
{
  struct dray_msg_reply r = {.h = {.type = DRAY_MSG_REPLY, .seq = seq},
                             .error = error,
                             .reason = reason,
                             .need = need,
                             .have = have,
                             .id = id};
  handshake_send(s->sock, &r, sizeof r, NULL,
                 0); /* an engine that does not read its answers waits for its own deadline */
}

static int to_lane(struct session *s, struct lane_msg m)
{
  struct lane_msg *p = malloc(sizeof *p);
  if (!p)
    return -ENOMEM;
  *p = m;
  p->s = s;
  lane_send(s->lane, p);
  return 0;
}

/* Bytes that all sessions of the tenant have registered. */
static uint64_t tenant_pinned(struct daemon *d, uint32_t tenant)
{
  uint64_t sum = 0;
  LOCKED(&d->lend_lock);
  for (uint32_t i = 0; i < DAEMON_SESSIONS; i++)
    if (d->session[i] && d->session[i]->tenant == tenant)
      sum += d->session[i]->pinned;
  return sum;
}

static void region_add(struct daemon *d, struct session *s, const struct dray_msg_region *m, int fd)
{
  struct err e = {{0}};
  uint64_t pinned = tenant_pinned(d, s->tenant), total;
  int r = region_check(fd, m->size, &e);
  if (r < 0) {
    control_reply(s, m->h.seq, r, DRAY_BAD_REGION, m->size, 0, 0);
    log_line(&d->log, LOG_INFO, "session %llu: BAD_REGION: %s", (unsigned long long)s->number, e.text);
    return;
  }
  if (s->regions_n >= d->cfg->regions_max) {
    control_reply(s, m->h.seq, -ENOSPC, DRAY_LIMIT, s->regions_n + 1, d->cfg->regions_max, 0);
    return;
  }
  if (!add_u64(pinned, m->size, &total) || total > d->cfg->pinned_max) {
    control_reply(s, m->h.seq, -ENOSPC, DRAY_LIMIT, m->size, d->cfg->pinned_max - MIN_OF(pinned, d->cfg->pinned_max),
                  0);
    return;
  }
  uint32_t slot = 1; /* slot 0 is never given: id 0 is "none" */
  while (s->region_taken[slot])
    slot++;
  void *base = region_map(fd, 0, m->size, true, false);
  if (!base) {
    control_reply(s, m->h.seq, -ENOMEM, DRAY_LIMIT, m->size, 0, 0);
    return;
  }
  uint8_t gen = (uint8_t)(s->region_gen[slot] % 63 + 1);
  struct lane_msg msg = {.kind = LANE_REGION, .seq = m->h.seq, .id = slot, .value = gen, .base = base, .size = m->size};
  backends_memory_add(d->dev, d->devs_n, base, m->size);
  if (to_lane(s, msg) < 0) {
    backends_memory_del(d->dev, d->devs_n, base);
    munmap(base, m->size);
    control_reply(s, m->h.seq, -ENOMEM, DRAY_LIMIT, m->size, 0, 0);
    return;
  }
  keeper_hold(d, KEEP_REGION, s->idx << 10 | slot, fd);
  s->region_gen[slot] = gen;
  s->region_taken[slot] = true;
  s->region_bytes[slot] = m->size;
  s->regions_n++;
  s->pinned += m->size;
}

static void region_del(struct session *s, const struct dray_msg_id *m)
{
  uint32_t slot = m->id & (SESSION_REGIONS - 1);
  if (m->id > UINT16_MAX || slot == 0 || !s->region_taken[slot] || s->region_gen[slot] != m->id >> 10) {
    control_reply(s, m->h.seq, -ENOENT, DRAY_BAD_REGION, 0, 0, 0);
    return;
  }
  if (to_lane(s, (struct lane_msg){.kind = LANE_UNREGION, .seq = m->h.seq, .id = slot}) < 0)
    control_reply(s, m->h.seq, -ENOMEM, DRAY_LIMIT, 0, 0, 0);
}

void control_region_unmap(struct daemon *d, struct session *s, uint32_t slot, uint32_t seq)
{
  struct region *r = &s->regions[slot]; /* the lane let go of it */
  if (r->base) {
    backends_memory_del(d->dev, d->devs_n, r->base);
    munmap(r->base, r->size);
  }
  r->base = NULL;
  r->state = REGION_FREE;
  keeper_drop(d, KEEP_REGION, s->idx << 10 | slot);
  s->region_taken[slot] = false;
  s->regions_n--;
  s->pinned -= s->region_bytes[slot];
  s->region_bytes[slot] = 0;
  if (seq)
    control_reply(s, seq, 0, DRAY_REASON_OK, 0, 0, 0);
}

void control_region_idle(struct daemon *d, struct session *s, uint32_t slot, uint32_t seq)
{
  struct control_msg *m = calloc(1, sizeof *m);
  if (!m)
    return; /* it stays mapped until the session ends */
  m->kind = CONTROL_REGION_IDLE;
  m->s = s;
  m->slot = slot;
  m->seq = seq;
  daemon_send(d, m);
}

static void layout_define(struct session *s, const struct dray_msg_layout *m)
{
  if (span_layout_check(&m->layout) != DRAY_REASON_OK) {
    control_reply(s, m->h.seq, -EINVAL, DRAY_BAD_LAYOUT, 0, 0, 0);
    return;
  }
  if (s->layouts_n + 1 >= SESSION_LAYOUTS) {
    control_reply(s, m->h.seq, -ENOSPC, DRAY_LIMIT, s->layouts_n + 1, SESSION_LAYOUTS - 1, 0);
    return;
  }
  if (to_lane(
          s, (struct lane_msg){.kind = LANE_LAYOUT, .seq = m->h.seq, .id = s->layouts_n + 1, .layout = m->layout}) == 0)
    s->layouts_n++;
  else
    control_reply(s, m->h.seq, -ENOMEM, DRAY_LIMIT, 0, 0, 0);
}

static void key_define(struct daemon *d, struct session *s, const struct dray_msg_key *m)
{
  struct dray_key key;
  memset(&key, 0, sizeof key);
  const char *const from[6] = {m->key.model,    m->key.tokenizer, m->key.serializer,
                               m->key.position, m->key.policy,    m->key.admitter};
  char *const to[6] = {key.model, key.tokenizer, key.serializer, key.position, key.policy, key.admitter};
  for (int i = 0; i < 6; i++) {
    const char *end = memchr(from[i], 0, DRAY_AXIS_MAX);
    if (!end) {
      control_reply(s, m->h.seq, -EINVAL, DRAY_TOO_LARGE, DRAY_AXIS_MAX + 1, DRAY_AXIS_MAX, 0);
      return;
    }
    memcpy(to[i], from[i], (size_t)(end - from[i])); /* bytes behind the 0 must not make two equal keys differ */
  }
  uint32_t id = s->keys_n < SESSION_KEYS ? store_mkey(d->store, &key) : 0;
  if (!id) {
    control_reply(s, m->h.seq, -ENOSPC, DRAY_LIMIT, s->keys_n + 1, SESSION_KEYS, 0);
    return;
  }
  if (to_lane(s, (struct lane_msg){.kind = LANE_KEY, .seq = m->h.seq, .id = s->keys_n + 1, .value = id}) == 0)
    s->keys_n++;
  else
    control_reply(s, m->h.seq, -ENOMEM, DRAY_LIMIT, 0, 0, 0);
}

int control_message(struct daemon *d, struct session *s)
{
  union handshake_msg msg;
  int fds[HANDSHAKE_FDS_MAX];
  int r = handshake_recv(s->sock, &msg, fds);
  if (r == -EAGAIN)
    return 0;
  if (r <= 0)
    return r < 0 ? r : -ECONNRESET;
  CLEAN_FD fd = fds[0];
  for (int i = 1; i < HANDSHAKE_FDS_MAX; i++)
    if (fds[i] >= 0)
      close(fds[i]);
  switch (msg.h.type) {
  case DRAY_MSG_REGION_ADD:
    region_add(d, s, &msg.region, fd);
    return 0;
  case DRAY_MSG_REGION_DEL:
    region_del(s, &msg.id);
    return 0;
  case DRAY_MSG_LAYOUT_DEFINE:
    layout_define(s, &msg.layout);
    return 0;
  case DRAY_MSG_KEY_DEFINE:
    key_define(d, s, &msg.key);
    return 0;
  default:
    return -EPROTO;
  }
}
