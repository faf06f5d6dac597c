/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/backends.h"
#include "mover/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "mover/admit.h"
#include "mover/daemon.h"
#include "mover/keeper.h"
#include "mover/lane.h"
#include "mover/grant.h"
#include "mover/revoke.h"
#include "ring/doorbell.h"
#include "ring/handshake.h"
#include "ring/layout.h"
#include "ring/region.h"
#include "ring/take.h"

static int session_map(struct session *s, int u, int m)
{
  s->u = region_map(u, 0, s->geo.u_size, false, false);
  s->m = region_map(m, 0, s->geo.m_size, true, false);
  if (!s->u || !s->m)
    return -ENOMEM;
  s->m->magic = DRAY_RING_MAGIC;
  s->m->major = DRAY_RING_MAJOR;
  s->m->minor = DRAY_RING_MINOR;
  s->m->epoch = s->d->epoch;
  s->m->geo = s->geo;
  s->arena = (const struct dray_item *)(const void *)((const char *)s->u + s->geo.arena_off);
  s->results = (struct dray_item_result *)(void *)((char *)s->m + s->geo.results_off);
  s->objects = (struct dray_object_state *)(void *)((char *)s->m + s->geo.objects_off);
  int r = wire_map(&s->sq.w, u, s->geo.sq_off, s->geo.sq_slots, 0, 0);
  if (r == 0)
    r = wire_map(&s->post.cq.w, m, s->geo.cq_off, s->geo.cq_slots, 1, 0);
  if (r < 0)
    return r;
  s->sq.theirs = &s->u->sq_prod;
  s->sq.mine = &s->m->sq_cons;
  s->post.cq.mine = &s->m->cq_prod;
  s->post.cq.theirs = &s->u->cq_cons;
  s->post.credits = s->geo.entries;
  s->post.epoch = (uint16_t)s->d->epoch;
  flag_raise(&s->m->need_wakeup, 1); /* until its lane looks at it, only the doorbell tells [BELL] */
  state_publish(&s->m->state, DRAY_M_LIVE);
  /* our writable map of M exists: nobody makes another */
  r = region_seal(u, false);
  return r < 0 ? r : region_seal(m, true);
}

static int session_jobs(struct session *s)
{
  s->jobs_n = s->geo.entries + DRAY_CANCEL_RESERVE;
  s->jobs = calloc(s->jobs_n, sizeof *s->jobs);
  s->free_jobs = calloc(s->jobs_n, sizeof *s->free_jobs);
  s->lent = calloc(STORE_SLABS_MAX / 64, sizeof *s->lent);
  if (!s->jobs || !s->free_jobs || !s->lent)
    return -ENOMEM;
  for (uint32_t i = 0; i < s->jobs_n; i++) {
    s->jobs[i].index = (uint16_t)i;
    s->jobs[i].state = JOB_FREE;
    s->free_jobs[i] = (uint16_t)(s->jobs_n - 1 - i);
  }
  s->free_n = s->jobs_n;
  list_init(&s->link);
  list_init(&s->active);
  list_init(&s->dirty);
  list_init(&s->open);
  list_init(&s->backlog);
  list_init(&s->pending);
  for (unsigned i = 0; i < SESSION_CLASSES; i++)
    list_init(&s->run[i]);
  for (uint32_t i = 0; i < SESSION_REGIONS; i++)
    s->regions[i].state = REGION_FREE;
  s->state = SESSION_LIVE;
  return 0;
}

static int session_welcome(struct session *s, const struct dray_msg_hello *hello, int u, int m, int poke_theirs)
{
  struct dray_msg_welcome w;
  memset(&w, 0, sizeof w);
  w.h.type = DRAY_MSG_WELCOME;
  w.h.seq = hello->h.seq;
  w.reason = DRAY_REASON_OK;
  w.major = DRAY_RING_MAJOR;
  w.minor = DRAY_RING_MINOR;
  w.epoch = s->d->epoch;
  w.session = s->number;
  w.geo = s->geo;
  memcpy(w.tenant, s->tenant_name, sizeof w.tenant);
  int fds[4] = {u, m, s->bell, poke_theirs};
  return handshake_send(s->sock, &w, sizeof w, fds, 4);
}

int session_new(struct daemon *d, const struct session_who *who, const struct dray_msg_hello *hello,
                struct session **ret_session)
{
  uint32_t idx = 0;
  while (idx < d->cfg->sessions_max && d->session[idx])
    idx++;
  uint32_t same = 0;
  for (uint32_t i = 0; i < DAEMON_SESSIONS; i++)
    same += d->session[i] && d->session[i]->tenant == who->tenant;
  if (idx >= d->cfg->sessions_max || same >= d->cfg->sessions_per_tenant)
    return -EMFILE;
  struct session *s = calloc(1, sizeof *s);
  if (!s)
    return -ENOMEM;
  s->d = d;
  s->idx = idx;
  s->sock = s->pidfd = s->bell = s->poke = -1;
  s->tenant = who->tenant;
  s->pid = who->pid;
  s->uid = who->uid;
  memcpy(s->tenant_name, who->tenant_name, strnlen(who->tenant_name, sizeof s->tenant_name - 1));
  memcpy(s->agent_name, hello->agent, sizeof s->agent_name);
  s->agent = store_agent(d->store, s->tenant, s->agent_name);
  s->since_ms = daemon_now_ns() / 1000000u;
  int pair[2] = {-1, -1};
  CLEAN_FD u = -1, m = -1, theirs = -1;
  int r = s->agent ? layout_compute(hello->entries, hello->items, &s->geo) : -ENOSPC;
  if (r == 0)
    r = session_jobs(s);
  if (r == 0)
    r = keeper_session(d, idx, &s->geo, &u, &m);
  if (r == 0)
    r = session_map(s, u, m);
  if (r == 0) {
    s->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->bell < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
      r = -errno;
    s->poke = pair[0];
    theirs = pair[1];
  }
  s->sock = who->sock;
  s->number = ++d->session_numbers;
  if (r == 0)
    r = session_welcome(s, hello, u, m, theirs);
  if (r < 0) {
    s->sock = -1; /* stays the caller's */
    session_free(s);
    return r;
  }
  s->pidfd = who->pidfd;
  pthread_mutex_lock(&d->lend_lock);
  d->session[idx] = s;
  d->sessions_n++;
  pthread_mutex_unlock(&d->lend_lock);
  *ret_session = s;
  return 0;
}

struct session *session_free(struct session *s)
{
  if (!s)
    return NULL;
  struct daemon *d = s->d;
  if (d->session[s->idx] == s) {
    if (!revoke_hold(d, s))
      grant_end_all(s);
    pthread_mutex_lock(&d->lend_lock);
    d->session[s->idx] = NULL;
    d->sessions_n--;
    pthread_mutex_unlock(&d->lend_lock);
  }
  for (uint32_t i = 0; i < SESSION_REGIONS; i++)
    if (s->regions[i].base) {
      backends_memory_del(d->dev, d->devs_n, s->regions[i].base);
      munmap(s->regions[i].base, s->regions[i].size);
    }
  wire_unmap(&s->sq.w);
  wire_unmap(&s->post.cq.w);
  if (s->u)
    munmap((void *)(uintptr_t)s->u, s->geo.u_size);
  if (s->m)
    munmap(s->m, s->geo.m_size);
  keeper_drop(d, KEEP_SESSION, s->idx);
  close_fd(&s->sock);
  close_fd(&s->pidfd);
  close_fd(&s->bell);
  close_fd(&s->poke);
  free(s->jobs);
  free(s->free_jobs);
  free(s->lent);
  free(s);
  return NULL;
}

/* ---- lane side ---- */

/* What a burst will look up is fetched side by side. */
static void session_expect(struct lane *l, const struct session *s, const struct dray_req *req, uint32_t n)
{
  struct store_hint hint[TAKE_BURST];
  uint32_t k = 0;
  for (uint32_t i = 0; i < n; i++) {
    unsigned op = req[i].sqe.op;
    if ((op == DRAY_MAP || op == DRAY_GET || op == DRAY_STAT || op == DRAY_DROP || op == DRAY_MOVE) &&
        !(req[i].sqe.flags & DRAY_BATCH) && req[i].reason == DRAY_REASON_OK)
      hint[k++].key = req[i].sqe.key;
  }
  if (k > 1)
    store_expect(l->d->store, s->tenant, hint, k, true);
}

int session_take(struct lane *l, struct session *s)
{
  struct dray_req req[TAKE_BURST];
  if (LIKELY(!wire_in_pending(&s->sq)))
    return 0;
  /* CANCEL has credits of its own, and the SQ is in order: what is behind the reserve waits in the engine's memory */
  int room = post_room(&s->post, TAKE_BURST, DRAY_CANCEL_RESERVE);
  if (UNLIKELY(room <= 0))
    return room;
  if ((uint32_t)room > s->free_n)
    room = (int)s->free_n;
  int n = take_burst(&s->sq, req, (uint32_t)room);
  if (n <= 0)
    return n;
  lane_refresh(l);
  stat_add(&l->stats.taken, (uint64_t)n);
  wire_out_ahead(&s->post.cq, 0, (uint32_t)n); /* where the answers go */
  if (n > 1)
    session_expect(l, s, req, (uint32_t)n);
  for (int i = 0; i < n; i++)
    job_accept(l, s, &req[i]);
  return n;
}

void session_activate(struct lane *l, struct session *s)
{
  if (s->active.next != &s->active)
    return;
  list_push_back(&l->active, &s->active);
  l->active_n++;
}

void session_rest(struct lane *l, struct session *s)
{
  if (s->active.next == &s->active)
    return;
  list_remove(&s->active);
  l->active_n--;
}

static struct step *next_step(struct session *s)
{
  for (unsigned i = 0; i < SESSION_CLASSES; i++)
    if (!list_empty(&s->run[i]))
      return LIST_OF(s->run[i].next, struct step, run);
  return NULL;
}

/* Chunks under way before a visit looks for done records: each look costs every device's poll and a store fence, which
   waits until the last non-temporal stores are out. */
#define VISIT_POLL 8u
/* Items of BATCHes begun together, if they are small: their slots are found first and then their bytes are copied one
   after the other. Every lock of the store drains the non-temporal stores before it, so the fewer alternations the
   better. */
#define VISIT_AHEAD 8u
#define VISIT_AHEAD_BYTES ((uint64_t)128 << 10)

/* Begins items (or the one step) of what is pending. What to charge; 0: blocked, nothing was begun. */
static int64_t visit_begin(struct lane *l, struct session *s)
{
  int64_t charge = 0;
  for (uint32_t n = 0; n < VISIT_AHEAD && !list_empty(&s->pending); n++) {
    struct job *j = LIST_OF(s->pending.next, struct job, wait);
    if (n && !j->items)
      break;
    int64_t k = admit_next(l, s, j);
    charge += k;
    uint64_t bytes = 0;
    for (unsigned i = 0; i < SESSION_CLASSES; i++)
      LIST_EACH (&s->run[i], r)
        bytes += LIST_OF(r, struct step, run)->len;
    if (k == 0 || bytes >= VISIT_AHEAD_BYTES)
      break;
  }
  for (unsigned i = 0; i < SESSION_CLASSES; i++)
    LIST_EACH (&s->run[i], r)
      room_try(l, LIST_OF(r, struct step, run));
  return charge;
}

bool session_visit(struct lane *l, struct session *s)
{
  s->deficit += LANE_QUANTUM;
  stat_add(&l->stats.quanta, 1);
  s->visits++;
  s->blocked = false;
  while (s->deficit > 0) {
    struct step *t = next_step(s);
    if (t) {
      int64_t n = step_advance(l, t);
      if (n == 0) {
        s->blocked = true;
        break;
      }
      s->deficit -= n < 0 ? (int64_t)STEP_MIN_CHARGE : n;
      if (l->flying >= VISIT_POLL)
        lane_poll(l);
      continue;
    }
    if (list_empty(&s->pending))
      break;
    int64_t n = visit_begin(l, s);
    if (n == 0) {
      s->blocked = true;
      break;
    }
    s->deficit -= n;
  }
  if (l->flying)
    lane_poll(l);
  if (s->blocked && s->deficit > LANE_QUANTUM)
    s->deficit = LANE_QUANTUM; /* credit is not saved up while a device is full */
  bool more = next_step(s) || !list_empty(&s->pending);
  if (!more)
    s->deficit = 0;
  return more;
}

void session_flush(struct lane *l, struct session *s)
{
  if (!post_flush(&s->post)) /* [CQ] */
    return;
  uint32_t sleeper = doorbell_sleeper(&s->u->sleep); /* [BELL] */
  if (sleeper == DRAY_AWAKE)
    return;
  /* one that waits for several is not woken for each: a lie here only oversleeps the liar. FATAL wakes in any case */
  if ((int32_t)(s->m->cq_prod - flag_read(&s->u->wake_at)) < 0 && s->state == SESSION_LIVE)
    return;
  stat_add(&l->stats.wakes_sent, 1);
  if (sleeper == DRAY_SLEEP_POLL)
    doorbell_poke(s->poke);
  else
    doorbell_wake(&s->m->cq_prod);
}

void session_end(struct lane *l, struct session *s, unsigned reason)
{
  if (s->state != SESSION_LIVE)
    return;
  s->state = SESSION_ENDING;
  s->end_reason = (uint16_t)reason;
  struct dray_cqe fatal = {
      .type = DRAY_FATAL, .status = DRAY_FAULT, .reason = (uint16_t)reason, .path = DRAY_PATH_NONE};
  post_notice(&s->post, DRAY_FATAL, &fatal);
  job_stop_all(l, s, reason);
  if (s->dirty.next == &s->dirty)
    list_push_back(&l->dirty, &s->dirty);
}

struct region *session_region(struct session *s, uint16_t id)
{
  struct region *r = &s->regions[id & (SESSION_REGIONS - 1)];
  return id && r->state == REGION_LIVE && r->gen == id >> 10 ? r : NULL;
}

int session_lend(struct session *s, uint32_t slab, int fd, uint64_t size, uint64_t offset, bool writable)
{
  uint32_t i = slab & 0xffffu;
  if (LIKELY(stat_read(&s->lent[i / 64]) >> (i % 64) & 1))
    return 0;
  struct dray_msg_slab m = {
      .h = {.type = DRAY_MSG_SLAB}, .slab = slab, .writable = writable, .size = size, .offset = offset};
  LOCKED(&s->d->lend_lock);
  int r = handshake_send(s->sock, &m, sizeof m, &fd, 1);
  if (r < 0)
    return r;
  stat_set(&s->lent[i / 64], s->lent[i / 64] | 1ull << (i % 64));
  s->d->ever_lent[i / 64] |= 1ull << (i % 64);
  return 0;
}
