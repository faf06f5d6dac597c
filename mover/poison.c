/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/poison.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/guard.h"
#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "mover/daemon.h"
#include "mover/grant.h"
#include "mover/lane.h"
#include "mover/loop.h"
#include "mover/ops.h"
#include "mover/session.h"
#include "mover/step.h"

#define SLABS_HIT_MAX 8u
#define PROBE_MAX KIB(256) /* read in one go on a lane, a quantum; what is behind it is found by who touches it */

static uint64_t now_unix_ms(void)
{
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

/* ---- telling ---- */

static void log_bad(struct daemon *d, const struct store_bad *b)
{
  char key[33] = "-";
  for (int i = 0; b->cells && i < 16; i++)
    snprintf(key + 2 * i, 3, "%02x", b->key[i]);
  const char *tenant = store_tenant_name(d->store, b->tenant);
  log_line(
      &d->log, LOG_WARN,
      "POISONED: tier %s slab %#x offset %llu unit %llu (%s): %u slots barred, %u cells hit; tenant %s, first cell "
      "%s at %llu",
      dray_tier_name(store_pool(d->store, b->pool)->tier), b->slab, (unsigned long long)b->off,
      (unsigned long long)b->unit, b->proven ? "seen" : "an engine's word", b->slots, b->cells, tenant ? tenant : "?",
      key, (unsigned long long)b->cell_off);
}

/* Every lane looks among its own sessions: no session is touched from outside. */
static void broadcast(struct daemon *d, const struct store_bad *b)
{
  for (uint32_t i = 0; i < d->lanes_n; i++) {
    struct lane_msg *m = calloc(1, sizeof *m);
    if (!m) {
      log_line(&d->log, LOG_ERROR, "POISON of slab %#x: out of memory: lane %u's engines are not told", b->slab, i);
      continue;
    }
    m->kind = LANE_POISON;
    m->id = b->slab;
    m->off = b->off;
    m->size = b->len;
    m->value = saturate_u32(b->unit);
    m->seq = store_pool(d->store, b->pool)->tier;
    lane_send(&d->lanes[i], m);
  }
}

static void spread(struct daemon *d, const struct store_bad *b, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) {
    if (!b[i].fresh)
      continue;
    stat_add_shared(&d->poison_hits, 1);
    log_bad(d, &b[i]);
    broadcast(d, &b[i]);
  }
}

void poison_tell(struct lane *l, const struct lane_msg *m)
{
  LIST_EACH (&l->sessions, n) {
    struct session *s = LIST_OF(n, struct session, link);
    struct lease_info lease[16];
    uint32_t cursor = 0, told = 0;
    do {
      uint32_t k = store_lease_in(l->d->store, s->idx, m->id, m->off, m->size, &cursor, lease, ARRAY_LEN(lease));
      for (uint32_t i = 0; i < k; i++) {
        grant_row_poison(s, lease[i].id); /* the truth first: the hint may have to wait for a slot, or be one of many */
        struct dray_cqe c = {.status = DRAY_FAULT,
                             .reason = DRAY_POISONED,
                             .path = DRAY_PATH_NONE,
                             .tier = (uint8_t)m->seq,
                             .object = lease[i].id,
                             .off = m->off > lease[i].off ? m->off - lease[i].off : 0,
                             .slab = m->id,
                             .detail = m->value};
        post_notice(&s->post, DRAY_POISON, &c);
      }
      told += k;
    } while (cursor);
    if (!told)
      continue;
    stat_add_shared(&l->d->poison_notices, told);
    if (s->dirty.next == &s->dirty)
      list_push_back(&l->dirty, &s->dirty);
  }
}

/* ---- probing ---- */

struct probe {
  const volatile char *base;
  uint64_t len;
};
static int probe_run(void *ctx)
{
  const struct probe *p = ctx;
  uint64_t sink = 0;
  for (uint64_t i = 0; i < p->len; i += CACHE_LINE)
    sink += (uint64_t)p->base[i];
  sink += p->len ? (uint64_t)p->base[p->len - 1] : 0;
  (void)sink;
  return 0;
}
/* Reads a byte of every line under the guard. True: it met poison, *ret_hit. */
static bool probe(const void *base, uint64_t len, struct guard_hit *ret_hit)
{
  struct probe p = {base, len};
  const struct guard_range range = {base, len};
  return guard_run(probe_run, &p, &range, 1, ret_hit) == -EFAULT && ret_hit->kind == GUARD_POISON;
}

/* A device could not read or write our memory: was it poison? */
static void suspect(struct step *t)
{
  for (uint64_t at = 0, n = 0; at < t->bytes && t->mem.len; at += n) {
    struct xfer_vec v;
    struct guard_hit hit;
    if (!span_cut(&t->mem, at, t->bytes - at, &v, 1, &n) || !n)
      return;
    if (!probe(v.base, v.len, &hit))
      continue;
    t->bad = (struct badness){.unit = hit.unit, .addr = hit.addr};
    t->bad_at = MIN_OF(t->bad_at, at);
    return;
  }
}

/* ---- a step that met it ---- */

void poison_seen(struct lane *l, struct step *t, uint64_t start, const struct xfer_done *d)
{
  (void)l;
  t->bad = (struct badness){.unit = d->bad_unit, .addr = d->bad_addr, .slab_off = t->slab_off + start + d->bytes};
}

/* Which of the step's slots has its bytes in that slab memory. */
static struct slot_ref slot_on_device(struct store *st, const struct step *t)
{
  const struct slot_ref all[] = {t->from, t->to, t->victim_slot, t->demoted_to};
  for (size_t i = 0; i < ARRAY_LEN(all); i++) {
    struct slot_mem m;
    if (!all[i].slab)
      continue;
    store_slot_mem(st, all[i], &m);
    if (m.mem == t->slab && m.off <= t->slab_off && t->slab_off < m.off + m.slot_bytes)
      return all[i];
  }
  return (struct slot_ref){0};
}

/* The bad byte is in that slot: where in its cell. */
static bool in_slot(struct store *st, struct slot_ref r, const struct badness *b, struct outcome *o)
{
  struct slot_mem m;
  if (!r.slab)
    return false;
  store_slot_mem(st, r, &m);
  uint64_t at = b->addr ? (b->addr & ~(uintptr_t)(b->unit - 1)) : b->slab_off;
  uint64_t slot = b->addr ? (uintptr_t)m.mem->base + m.off : m.off;
  if (!range_overlaps(slot, m.slot_bytes, at, b->addr ? b->unit : 1))
    return false;
  o->off = at > slot ? at - slot : 0;
  o->slab = r.slab;
  return true;
}

/* Tells the store, and the outcome where. */
static void settle(struct lane *l, struct step *t, struct outcome *o)
{
  struct store *st = l->d->store;
  struct store_bad bad[SLABS_HIT_MAX];
  struct store_hit hit = {.unit = t->bad.unit, .when_ms = now_unix_ms(), .proven = true};
  uint32_t n = 0;
  o->off = MIN_OF(t->bad_at, t->cut);
  o->slab = 0;
  o->detail = saturate_u32(t->bad.unit);
  if (t->bad.addr) {
    n = store_poison_at(st, t->bad.addr, &hit, bad, ARRAY_LEN(bad));
    if (n && !in_slot(st, t->from, &t->bad, o) && !in_slot(st, t->to, &t->bad, o))
      o->slab = bad[0].slab;
  } else {
    struct slot_ref r = slot_on_device(st, t);
    if (r.slab) {
      n = store_poison_in(st, r.slab, t->bad.slab_off, &hit, bad, ARRAY_LEN(bad));
      in_slot(st, r, &t->bad, o);
    }
  }
  spread(l->d, bad, n);
}

void poison_settle(struct lane *l, struct step *t, struct outcome *o)
{
  /* a device's word is not enough, either way: its reading of our memory may fail for poison and say EFAULT or EIO */
  if (!t->bad.unit && t->dev && t->dev->caps.asynchronous)
    suspect(t);
  if (t->bad.unit && is_pow2_u64(t->bad.unit)) {
    o->reason = DRAY_POISONED;
    settle(l, t, o);
  }
}

bool poison_demotion(struct lane *l, struct step *t)
{
  struct outcome o = {.reason = t->reason};
  if (t->reason != DRAY_POISONED && t->reason != DRAY_PAGE_LOST && t->reason != DRAY_IO_ERROR)
    return false;
  poison_settle(l, t, &o);
  return o.reason == DRAY_POISONED;
}

/* ---- an engine that met it ---- */

/* Reads what the engine says is bad. n: slabs that it was found in. */
static uint32_t look_there(struct store *st, struct slot_ref slot, uint64_t off, uint64_t len, uint64_t unit,
                           struct store_bad bad[SLABS_HIT_MAX])
{
  struct slot_mem m;
  struct guard_hit hit;
  store_slot_mem(st, slot, &m);
  if (!m.mem->base || off >= m.slot_bytes)
    return 0;
  len = MIN_OF(MIN_OF(MAX_OF(len, 1u), m.slot_bytes - off), PROBE_MAX);
  if (!probe((const char *)m.mem->base + m.off + off, len, &hit))
    return 0;
  struct store_hit h = {.unit = MAX_OF(hit.unit, unit), .when_ms = now_unix_ms(), .proven = true};
  return store_poison_at(st, hit.addr, &h, bad, SLABS_HIT_MAX);
}

/* An engine met poison under a lease: it knows where and how much. */
static unsigned quarantine_leased(const struct call *c)
{
  struct store *st = c->l->d->store;
  const struct dray_sqe *q = &c->j->req.sqe;
  struct dray_quarantine_at at;
  struct lease_info lease;
  struct store_bad bad[SLABS_HIT_MAX];
  struct slot_mem m;
  uint64_t unit = 1ull << q->arg;
  memcpy(&at, q->key, sizeof at);
  unsigned r = store_lease_find(st, c->s->idx, at.lease, &lease);
  if (r == DRAY_REASON_OK && !lease.slot.slab)
    r = DRAY_BAD_LEASE; /* a fill is the engine's own memory still */
  if (r == DRAY_REASON_OK && !range_inside(q->off, q->len, lease.len))
    r = DRAY_OUT_OF_RANGE;
  if (r != DRAY_REASON_OK)
    return r;
  uint32_t n = look_there(st, lease.slot, q->off, q->len, unit, bad);
  store_slot_mem(st, lease.slot, &m);
  /* not seen from here: its word condemns memory of its own tenant, whose slab it is, and nobody else's */
  if (!n && m.tenant == c->s->tenant) {
    struct store_hit h = {.unit = unit, .when_ms = now_unix_ms()};
    while (h.unit > m.mem->bytes)
      h.unit /= 2;
    n = store_poison_in(st, lease.slot.slab, m.off + q->off, &h, bad, 1);
  }
  spread(c->l->d, bad, n);
  return DRAY_REASON_OK;
}

/* Somebody says that a cell is bad, for whatever reason. */
static unsigned quarantine_cell(const struct call *c)
{
  struct store *st = c->l->d->store;
  const struct dray_sqe *q = &c->j->req.sqe;
  struct cell_facts f;
  struct slot_ref slot = {0};
  struct store_bad bad[SLABS_HIT_MAX];
  uint32_t n = 0;
  unsigned r = store_find(st, c->s->tenant, c->w->key, DRAY_TIER_ANY, lane_ms(c->l), &f, &slot);
  if (r == DRAY_REASON_OK && q->len && !range_inside(q->off, q->len, f.len))
    r = DRAY_OUT_OF_RANGE;
  if (r == DRAY_REASON_OK && slot.slab)
    n = look_there(st, slot, q->off, q->len ? q->len : f.len, 0, bad);
  spread(c->l->d, bad, n);
  /* a reader of a published cell may say it, too: but its word alone condemns only its own tenant's cells */
  if (r == DRAY_REASON_OK && !n && f.tenant == c->s->tenant)
    r = store_quarantine(st, &f);
  if (slot.slab)
    store_unpin(st, slot);
  return r;
}

bool ops_quarantine(const struct call *c, struct outcome *o)
{
  unsigned r = c->j->req.sqe.arg ? quarantine_leased(c) : quarantine_cell(c);
  *o = r == DRAY_REASON_OK ? outcome_ok : outcome_for(r);
  if (r == DRAY_REASON_OK)
    stat_add(&c->l->stats.quarantined, 1);
  return true;
}

/* ---- poison that nobody has touched yet ---- */

int poison_watch(struct daemon *d)
{
  if (pipe2(d->early, O_CLOEXEC | O_NONBLOCK) < 0)
    return -errno;
  guard_early_fd(d->early[1]);
  /* per thread: lanes must not be interrupted for memory that they do not touch */
  if (prctl(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_EARLY, 0, 0) < 0)
    log_line(&d->log, LOG_INFO, "poison is seen when it is touched: this kernel has no early news of it (%s)",
             strerror(errno));
  return loop_add(d, d->early[0], LOOP_EARLY, NULL, EPOLLIN);
}

void poison_unwatch(struct daemon *d)
{
  guard_early_fd(-1);
  close_fd(&d->early[0]);
  close_fd(&d->early[1]);
}

void poison_met(struct daemon *d, uintptr_t addr, uint64_t unit)
{
  struct store_bad bad[SLABS_HIT_MAX];
  struct store_hit h = {.unit = unit, .when_ms = now_unix_ms(), .proven = true};
  spread(d, bad, store_poison_at(d->store, addr, &h, bad, ARRAY_LEN(bad)));
}

void poison_early(struct daemon *d)
{
  struct guard_early e;
  while (read(d->early[0], &e, sizeof e) == sizeof e) {
    struct store_bad bad[SLABS_HIT_MAX];
    struct store_hit h = {.unit = e.unit, .when_ms = now_unix_ms(), .proven = true};
    uint32_t n = store_poison_at(d->store, e.addr, &h, bad, ARRAY_LEN(bad));
    if (!daemon_index_met(d, e.addr, e.unit) && !n)
      log_line(&d->log, LOG_WARN, "POISONED: unit %llu at %#llx: in no slab of this mover", (unsigned long long)e.unit,
               (unsigned long long)e.addr);
    spread(d, bad, n);
  }
}

unsigned poison_sum(struct daemon *d, const void *p, uint64_t n, uint32_t *ret_crc)
{
  struct guard_hit hit;
  if (guard_crc(p, n, ret_crc, &hit) == 0)
    return DRAY_REASON_OK;
  if (hit.kind != GUARD_POISON)
    return DRAY_PAGE_LOST;
  poison_met(d, hit.addr, hit.unit);
  return DRAY_POISONED;
}
