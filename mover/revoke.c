/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/revoke.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "mover/daemon.h"
#include "mover/grant.h"
#include "mover/lane.h"
#include "mover/loop.h"
#include "mover/session.h"

/* ---- asking ---- */

static void broadcast(struct daemon *d, const struct store_whose *w)
{
  for (uint32_t i = 0; i < d->lanes_n; i++) {
    struct lane_msg *msg = calloc(1, sizeof *msg);
    if (!msg) {
      log_line(&d->log, LOG_ERROR, "REVOKE: out of memory: lane %u's engines are not asked", i);
      continue;
    }
    msg->kind = LANE_REVOKE;
    msg->whose = *w;
    lane_send(&d->lanes[i], msg);
  }
}

void revoke_cell(struct daemon *d, const struct cell_facts *f)
{
  struct store_whose w = {.tenant = f->tenant, .serial = f->serial};
  memcpy(w.key, f->key, sizeof w.key);
  broadcast(d, &w);
}

unsigned revoke_by_key(struct daemon *d, const char *tenant, const uint8_t key[16])
{
  struct store *st = d->store;
  struct cell_facts f;
  struct slot_ref slot = {0};
  uint32_t id = 0, now_ms = (uint32_t)(daemon_now_ns() / 1000000u);
  for (uint32_t i = 1, n = store_tenants(st); i <= n && !id; i++)
    if (!strcmp(store_tenant_name(st, i), tenant))
      id = i;
  if (!id)
    return DRAY_ABSENT;
  unsigned r = store_find(st, id, key, PIN_NONE, now_ms, &f, &slot);
  bool there = r == DRAY_REASON_OK && f.tenant == id;
  if (r == DRAY_REASON_OK)
    r = !there ? DRAY_ABSENT : f.state == CELL_QUARANTINED ? DRAY_QUARANTINED : store_quarantine(st, &f);
  /* from here on there are no new leases on it; bytes that it had before are asked back though it be gone itself */
  if (there && r != DRAY_STALE_GENERATION) {
    revoke_cell(d, &f);
  } else {
    struct store_whose w = {.tenant = id, .any = true};
    memcpy(w.key, key, sizeof w.key);
    broadcast(d, &w);
  }
  return r;
}

/* Level-triggered truth first, then the hint. */
static void ask_back(struct lane *l, struct session *s, const struct lease_info *lease, uint8_t tier)
{
  struct revoke *r = calloc(1, sizeof *r);
  uint64_t grace = l->d->cfg->revoke_ns;
  if (!r) { /* without a place to remember its deadline it has none to give */
    session_end(l, s, DRAY_LEASE_REVOKED);
    return;
  }
  *r = (struct revoke){.s = s, .lease = lease->id, .until_ns = l->now_ns + grace};
  list_push_back(&l->revokes, &r->link);
  l->next_deadline = MIN_OF(l->next_deadline, r->until_ns);
  grant_row_revoke(s, lease->id);
  stat_add_shared(&l->d->revokes.asked, 1);
  struct dray_cqe c = {.status = DRAY_OK,
                       .reason = DRAY_LEASE_REVOKED,
                       .path = DRAY_PATH_NONE,
                       .tier = tier,
                       .object = lease->id,
                       .slab = lease->slot.slab,
                       .detail = saturate_u32(grace / 1000000u)};
  post_notice(&s->post, DRAY_REVOKE, &c);
  if (s->dirty.next == &s->dirty)
    list_push_back(&l->dirty, &s->dirty);
}

void revoke_tell(struct lane *l, const struct lane_msg *m)
{
  LIST_EACH (&l->sessions, n) {
    struct session *s = LIST_OF(n, struct session, link);
    struct lease_info lease[16];
    uint32_t cursor = 0;
    if (s->state != SESSION_LIVE)
      continue;
    do {
      uint32_t k = store_lease_of(l->d->store, s->idx, &m->whose, &cursor, lease, ARRAY_LEN(lease));
      for (uint32_t i = 0; i < k && s->state == SESSION_LIVE; i++) {
        struct slot_mem mem;
        if (s->tenant == lease[i].tenant && s->agent == lease[i].agent)
          continue; /* its owner keeps what it has */
        store_slot_mem(l->d->store, lease[i].slot, &mem);
        if (!grant_row_revoking(s, lease[i].id)) /* asked for already */
          ask_back(l, s, &lease[i], mem.tier);
      }
    } while (cursor);
  }
}

uint64_t revoke_expire(struct lane *l)
{
  while (!list_empty(&l->revokes)) {
    struct revoke *r = LIST_OF(l->revokes.next, struct revoke, link);
    struct session *s = r->s;
    struct lease_info lease;
    if (r->until_ns > l->now_ns)
      return r->until_ns;
    bool kept = store_lease_find(l->d->store, s->idx, r->lease, &lease) == DRAY_REASON_OK;
    list_remove(&r->link);
    free(r);
    if (kept && s->state == SESSION_LIVE) {
      log_line(&l->d->log, LOG_WARN,
               "session %llu tenant %s agent %s pid %d: LEASE_REVOKED: it did not give a lease back within %llu ms",
               (unsigned long long)s->number, s->tenant_name, s->agent_name, (int)s->pid,
               (unsigned long long)(l->d->cfg->revoke_ns / 1000000u));
      stat_add_shared(&l->d->revokes.sessions, 1);
      session_end(l, s, DRAY_LEASE_REVOKED);
    }
  }
  return UINT64_MAX;
}

void revoke_forget(struct lane *l, const struct session *s)
{
  LIST_EACH (&l->revokes, n) {
    struct revoke *r = LIST_OF(n, struct revoke, link);
    if (r->s != s)
      continue;
    list_remove(&r->link);
    free(r);
  }
}

/* ---- holding ---- */

static bool alive(const struct session *s)
{
  struct pollfd p = {.fd = s->pidfd, .events = POLLIN};
  return s->pidfd >= 0 && poll(&p, 1, 0) == 0;
}

bool revoke_hold(struct daemon *d, struct session *s)
{
  /* one that went by itself has unmapped what it had; but not one that went instead of giving a lease back */
  bool by_us = s->end_reason == DRAY_LEASE_REVOKED || s->end_reason == DRAY_ABORTED;
  struct lease_info lease;
  uint32_t n = 0;
  if ((!by_us && !s->revoking) || d->draining || !alive(s))
    return false;
  for (unsigned r = store_lease_first(d->store, s->idx, &lease); r == DRAY_REASON_OK;
       r = store_lease_next(d->store, s->idx, lease.id, &lease))
    n += lease.slot.slab != 0;
  if (!n)
    return false;
  struct revoke_held *h = calloc(1, sizeof *h + n * sizeof h->slot[0]);
  while (store_lease_first(d->store, s->idx, &lease) == DRAY_REASON_OK) {
    bool keep = lease.slot.slab != 0;
    if (store_lease_end(d->store, s->idx, lease.id, keep, &lease) != DRAY_REASON_OK)
      break;
    if (lease.ctx)
      fill_free(d, lease.ctx);
    if (!keep)
      continue;
    store_slab_seal(d->store, lease.slot.slab);
    if (h && h->n < n)
      h->slot[h->n++] = lease.slot;
    if (h)
      h->bytes += lease.len;
  }
  store_lease_close(d->store, s->idx);
  if (!h || loop_add(d, s->pidfd, LOOP_HELD, h, EPOLLIN) < 0) {
    log_line(&d->log, LOG_ERROR, "session %llu: cannot watch its process: what it had leased is held for good",
             (unsigned long long)s->number);
    free(h);
    return true;
  }
  log_line(&d->log, LOG_WARN, "session %llu tenant %s pid %d: %u leases of %llu bytes are held until its process ends",
           (unsigned long long)s->number, s->tenant_name, (int)s->pid, h->n, (unsigned long long)h->bytes);
  h->pidfd = take_fd(&s->pidfd);
  list_push_back(&d->revokes.held, &h->link);
  stat_set(&d->revokes.held_n, d->revokes.held_n + 1);
  stat_set(&d->revokes.held_bytes, d->revokes.held_bytes + h->bytes);
  return true;
}

void revoke_release(struct daemon *d, struct revoke_held *h)
{
  epoll_ctl(d->epoll, EPOLL_CTL_DEL, h->pidfd, NULL);
  for (uint32_t i = 0; i < h->n; i++)
    store_unpin(d->store, h->slot[i]);
  stat_set(&d->revokes.held_n, d->revokes.held_n - 1);
  stat_set(&d->revokes.held_bytes, d->revokes.held_bytes - h->bytes);
  close_fd(&h->pidfd);
  list_remove(&h->link);
  free(h);
}

void revoke_deinit(struct daemon *d)
{
  while (!list_empty(&d->revokes.held)) { /* their slabs go with the store */
    struct revoke_held *h = LIST_OF(list_pop_front(&d->revokes.held), struct revoke_held, link);
    close_fd(&h->pidfd);
    free(h);
  }
}
