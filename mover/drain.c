/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/drain.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "base/guard.h"
#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "include/priv/order.h"
#include "mover/daemon.h"
#include "mover/keeper.h"
#include "mover/poison.h"
#include "mover/sandbox.h"
#include "transports/check.h"

#define WALK 32u
#define REST_MS 20     /* between two looks at what is still leased */
#define XFER_MS 10000u /* how long a device may take for one piece */

static bool stopped(const struct drain *r)
{
  return stop_see(&r->stop);
}

/* Engines hear of it: at the start so that they end their leases, at the end so that they look at their socket, where
   it says which slabs are gone, and unmap them. */
static void tell_all(struct drain *r, unsigned reason)
{
  struct daemon *d = r->d;
  for (uint32_t i = 0; i < d->lanes_n; i++) {
    struct lane_msg *m = calloc(1, sizeof *m);
    if (!m) {
      log_line(&d->log, LOG_ERROR, "tier %s: out of memory: lane %u's engines are not told", d->cfg->tier[r->pool].name,
               i);
      continue;
    }
    m->kind = LANE_TIER;
    m->id = store_pool(d->store, r->pool)->tier;
    m->value = reason;
    lane_send(&d->lanes[i], m);
  }
}

void drain_tell(struct lane *l, const struct lane_msg *m)
{
  LIST_EACH (&l->sessions, n) {
    struct session *s = LIST_OF(n, struct session, link);
    struct dray_cqe c = {
        .status = DRAY_OK, .reason = (uint16_t)m->value, .path = DRAY_PATH_NONE, .tier = (uint8_t)m->id};
    post_notice(&s->post, DRAY_TIER_STATE, &c);
    if (s->dirty.next == &s->dirty)
      list_push_back(&l->dirty, &s->dirty);
  }
}

/* ---- one cell ---- */

/* Is the cell what it was. OK, CRC_MISMATCH, POISONED (and then it is known), PAGE_LOST. */
static unsigned look(struct daemon *d, const struct slot_mem *a, const struct cell_facts *f)
{
  uint32_t crc;
  unsigned r = poison_sum(d, (char *)a->mem->base + a->off, f->len, &crc);
  return r == DRAY_REASON_OK && f->has_crc && crc != f->crc ? DRAY_CRC_MISMATCH : r;
}

/* One piece, from submit to done. The queue is one, and a drain and a rule may be at work at once. */
static unsigned piece(struct daemon *d, struct dev *dev, struct xfer *x, const uint32_t *stop)
{
  LOCKED(&d->drain_queue);
  uint32_t lane = d->lanes_n;
  uint64_t until = daemon_now_ns() + XFER_MS * 1000000ull;
  struct xfer_done done;
  if (xfer_check(dev, x) < 0)
    return DRAY_IO_ERROR;
  int rc;
  while ((rc = dev->hot->submit(dev, lane, x)) == -EAGAIN && daemon_now_ns() < until)
    poll(NULL, 0, 1);
  if (rc < 0)
    return DRAY_IO_ERROR;
  /* to the end, also past the deadline: the bytes are still being read */
  for (bool late = false;; late = daemon_now_ns() > until) {
    dev->hot->flush(dev, lane); /* each time: what the kernel would not take just then stays for the next */
    dev->hot->doze(dev, lane);
    if (dev->hot->poll(dev, lane, &done, 1) != 0)
      break;
    struct pollfd p = {.fd = dev->hot->poll_fd(dev, lane), .events = POLLIN};
    poll(&p, p.fd >= 0, 5);
    if (late && stop_see(stop))
      return DRAY_SHUTTING_DOWN;
  }
  /* once more: now the device sees that nothing flies, and rings for no deadline of what is over */
  struct xfer_done none;
  (void)dev->hot->poll(dev, lane, &none, 1);
  return done.status == XFER_OK ? DRAY_REASON_OK : done.reason;
}

static unsigned copy_down(struct daemon *d, const struct slot_mem *a, const struct slot_mem *b, uint64_t len,
                          const uint32_t *stop)
{
  unsigned why = DRAY_REASON_OK;
  for (uint64_t at = 0; at < len && why == DRAY_REASON_OK;) {
    uint64_t n = MIN_OF(len - at, d->cfg->chunk_bytes);
    struct xfer_vec v = {(char *)a->mem->base + a->off + at, n};
    struct xfer x = {.op = XFER_WRITE,
                     .flags = XFER_FRAGILE,
                     .nvec = 1,
                     .vec = &v,
                     .slab = b->mem,
                     .slab_off = b->off + at,
                     .bytes = n};
    why = piece(d, b->dev, &x, stop);
    at += n;
  }
  return why;
}

bool drain_move_down(struct daemon *d, uint32_t pool, const struct cell_facts *f, struct slot_ref from,
                     const uint32_t *stop)
{
  struct store *st = d->store;
  struct store_who who = {.tenant = f->tenant, .agent = f->agent, .scope = f->scope};
  struct slot_mem a, b;
  store_slot_mem(st, from, &a);
  if (!a.mem->base || look(d, &a, f) != DRAY_REASON_OK)
    return false;
  for (uint32_t p = pool + 1; p < store_pools(st) && !stop_see(stop); p++) {
    struct slot_ref to;
    if (store_alloc(st, p, &who, f->len, &to) != DRAY_REASON_OK)
      continue;
    store_slot_mem(st, to, &b);
    bool ok = copy_down(d, &a, &b, f->len, stop) == DRAY_REASON_OK &&
              store_move_copy(st, f, (uint8_t)pool, to) == DRAY_REASON_OK;
    if (!ok)
      store_discard(st, to);
    store_unpin(st, to);
    if (ok)
      return true;
  }
  return false;
}

static void empty_cell(struct drain *r, const struct cell_facts *seen)
{
  struct store *st = r->d->store;
  uint8_t tier = store_pool(st, r->pool)->tier;
  uint32_t domain = store_domain(seen->scope, seen->tenant);
  struct cell_facts f;
  struct slot_ref slot = {0};
  if (store_find(st, domain, seen->key, tier, (uint32_t)(daemon_now_ns() / 1000000u), &f, &slot) != DRAY_REASON_OK)
    return;
  if (slot.slab && f.idx == seen->idx && f.gen == seen->gen) {
    bool moved =
        f.state == CELL_LIVE && !cell_has_colder(&f, r->pool) && drain_move_down(r->d, r->pool, &f, slot, &r->stop);
    if (moved)
      stat_add(&r->moved, 1);
    else if (!stopped(r) && store_evict(st, &f, (uint8_t)r->pool) == DRAY_REASON_OK)
      stat_add(&r->dropped, !cell_has_colder(&f, r->pool));
  }
  if (slot.slab)
    store_unpin(st, slot);
}

static void empty_once(struct drain *r)
{
  uint32_t cursor = 0;
  do {
    struct cell_facts f[WALK];
    uint32_t n = store_walk(r->d->store, &cursor, f, WALK);
    for (uint32_t i = 0; i < n && !stopped(r); i++)
      for (unsigned k = 0; k < f[i].copies; k++)
        if (f[i].copy[k].pool == r->pool)
          empty_cell(r, &f[i]);
  } while (cursor && !stopped(r));
}

/* ---- the thread ---- */

static void *drain_main(void *arg)
{
  struct drain *r = arg;
  struct daemon *d = r->d;
  const char *name = d->cfg->tier[r->pool].name;
  sigset_t set;
  sigfillset(&set);
  sigdelset(&set, SIGBUS); /* it copies */
  sigdelset(&set, SIGSEGV);
  pthread_sigmask(SIG_SETMASK, &set, NULL);
  pthread_setname_np(pthread_self(), "dray-drain");
  bool told = false;
  store_pool_close(d->store, r->pool);
  log_line(&d->log, LOG_INFO, "tier %s: TIER_DRAINING: nothing new goes there", name);
  tell_all(r, DRAY_TIER_DRAINING);
  for (; !store_pool_idle(d->store, r->pool) && !stopped(r); poll(NULL, 0, REST_MS)) {
    empty_once(r);
    store_pool_close(d->store, r->pool); /* slabs that became empty meanwhile */
    if (!told && !store_pool_idle(d->store, r->pool))
      log_line(&d->log, LOG_INFO, "tier %s: TIER_DRAINING: %llu cells moved, %llu dropped; waiting for leases", name,
               (unsigned long long)stat_read(&r->moved), (unsigned long long)stat_read(&r->dropped));
    told = true;
  }
  if (stopped(r))
    return NULL;
  tell_all(r, DRAY_TIER_DOWN);
  struct dev *dev = d->dev[r->pool];
  int rc = dev->cold->detach(dev);
  rc = rc ? rc : keeper_detach(d, r->pool);
  r->error = rc;
  if (rc < 0)
    log_line(&d->log, LOG_ERROR, "tier %s: drained, but not let go of: %s", name, strerror(-rc));
  else
    log_line(&d->log, LOG_INFO, "tier %s: drained: %llu cells moved, %llu dropped; the device is free to be taken away",
             name, (unsigned long long)stat_read(&r->moved), (unsigned long long)stat_read(&r->dropped));
  state_publish(&r->state, rc < 0 ? DRAIN_FAILED : DRAIN_DONE); /* [STATE] */
  daemon_send(d, take_ptr(&r->over));
  return NULL;
}

int drain_begin(struct daemon *d, uint32_t pool)
{
  struct drain *r = &d->drain;
  if ((r->started && r->pool == pool) || r->due >> pool & 1)
    return 0;
  if (strcmp(d->cfg->tier[pool].transport, "cxl") != 0)
    return -ENOTSUP;
  if (r->started && state_see(&r->state) == DRAIN_RUNS)
    return -EBUSY;
  struct control_msg *over = calloc(1, sizeof *over);
  if (!over)
    return -EAGAIN;
  over->kind = CONTROL_DRAINED;
  drain_stop(d);
  *r = (struct drain){.d = d, .pool = pool, .due = r->due, .over = over, .state = DRAIN_RUNS};
  if (pthread_create(&r->thread, NULL, drain_main, r) != 0) {
    free(over);
    *r = (struct drain){.due = r->due};
    return -EAGAIN;
  }
  r->started = true;
  store_pool_close(d->store, pool); /* whoever is answered may count on it; the thread may not have come to it */
  keeper_drains(d, pool);           /* not before: the next worker would drain what nobody was promised */
  return 0;
}

void drain_next(struct daemon *d)
{
  struct drain *r = &d->drain;
  while (r->due && !(r->started && state_see(&r->state) == DRAIN_RUNS)) {
    uint32_t pool = (uint32_t)__builtin_ctz(r->due);
    r->due &= r->due - 1;
    int rc = drain_begin(d, pool);
    if (rc < 0)
      log_line(&d->log, LOG_ERROR, "tier %s: its drain does not begin again: %s: ask `dray tier drain %s`",
               d->cfg->tier[pool].name, strerror(-rc), d->cfg->tier[pool].name);
  }
}

void drain_again(struct daemon *d)
{
  for (uint32_t i = 0; i < store_pools(d->store); i++) {
    if (!(d->seed->drains.due >> i & 1))
      continue;
    log_line(&d->log, LOG_WARN, "tier %s: TIER_DRAINING: the worker before was at it: begun again",
             d->cfg->tier[i].name);
    store_pool_close(d->store, i); /* also when it is not its turn yet */
    d->drain.due |= 1u << i;
  }
  drain_next(d);
}

enum drain_state drain_state_of(const struct daemon *d, uint32_t pool)
{
  if (d->drain.due >> pool & 1)
    return DRAIN_RUNS;
  return d->drain.pool == pool ? (enum drain_state)state_see(&d->drain.state) : DRAIN_NONE;
}

void drain_stop(struct daemon *d)
{
  stop_raise(&d->drain.stop);
  if (d->drain.started)
    pthread_join(d->drain.thread, NULL);
  d->drain.started = false;
  free(take_ptr(&d->drain.over)); /* it was stopped before its end */
}

const char *drain_state_name(uint32_t state)
{
  static const char *const names[] = {"serving", "draining", "drained", "failed"};
  return names[state < ARRAY_LEN(names) ? state : 0];
}
