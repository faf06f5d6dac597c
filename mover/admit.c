/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/admit.h"

#include <string.h>

#include "include/priv/bits.h"
#include "mover/control.h"
#include "mover/daemon.h"
#include "mover/lane.h"
#include "mover/ops.h"
#include "mover/rows.h"
#include "mover/session.h"
#include "mover/step.h"
#include "ring/take.h"

#define INLINE_CHARGE 512 /* what an item that moves no bytes costs in the round robin */
#define ITEMS_AHEAD 8u    /* looked up side by side */

void admit_region_put(struct lane *l, struct session *s, uint16_t slot)
{
  struct region *r = &s->regions[slot];
  if (--r->users == 0 && r->state == REGION_LEAVING)
    control_region_idle(l->d, s, slot, r->seq);
}

static const op_handler carry_out[DRAY_OP_COUNT] = {
    [DRAY_NOP] = ops_nop,   [DRAY_FENCE] = ops_fence,     [DRAY_PUT] = ops_put,
    [DRAY_GET] = ops_get,   [DRAY_ALLOC] = ops_alloc,     [DRAY_COMMIT] = ops_commit,
    [DRAY_MAP] = ops_map,   [DRAY_UNMAP] = ops_unmap,     [DRAY_COPY] = ops_copy,
    [DRAY_MOVE] = ops_move, [DRAY_PUBLISH] = ops_publish, [DRAY_DROP] = ops_drop,
    [DRAY_STAT] = ops_stat, [DRAY_ACCOUNT] = ops_account, [DRAY_QUARANTINE] = ops_quarantine,
};

/* Could this op need a step? Then one must be free before it is begun. */
static bool moves_bytes(unsigned op)
{
  return op == DRAY_PUT || op == DRAY_GET || op == DRAY_MAP || op == DRAY_MOVE || op == DRAY_COPY ||
         op == DRAY_COMMIT || op == DRAY_PUBLISH || op == DRAY_FENCE || op == DRAY_STAT; /* STAT: of a peer */
}
static bool steps_left(const struct lane *l, const struct session *s)
{
  return l->free_steps_n && s->steps_n < LANE_SESSION_STEPS;
}

static void cancel_target(struct lane *l, struct session *s, struct job *j)
{
  struct job *target = job_at(s, j->req.sqe.arg);
  if (!target) {
    job_end(l, s, j, DRAY_MISSED, DRAY_ABSENT);
    return;
  }
  job_stop(l, s, target, DRAY_REASON_CANCELED);
  job_end(l, s, j, DRAY_OK, DRAY_REASON_OK);
}

/* Makes it wait in the session's pending list for a step. */
static void pend(struct lane *l, struct session *s, struct job *j)
{
  list_push_back(&s->pending, &j->wait);
  session_activate(l, s);
}

static void start_batch(struct lane *l, struct session *s, struct job *j)
{
  const struct dray_sqe *q = &j->req.sqe;
  uint64_t first = q->off / sizeof(struct dray_item);
  unsigned r = DRAY_REASON_OK;
  if (!range_inside(first, q->len, s->geo.items))
    r = DRAY_OUT_OF_RANGE;
  else if (s->items_open + q->len > l->d->cfg->items_max)
    r = DRAY_LIMIT;
  if (r != DRAY_REASON_OK) {
    job_end(l, s, j, DRAY_REFUSED, r);
    return;
  }
  j->first_item = (uint32_t)first;
  j->items = (uint32_t)q->len;
  j->next_item = j->items_done = j->first_failed = 0;
  s->items_open += j->items;
  rows_begin(l, s, j);
  memset(s->results + first, 0, q->len * sizeof *s->results);
  pend(l, s, j);
}

/* May it begin now? False: not yet, or it was refused (*ret_refused). */
static bool pace(struct lane *l, struct session *s, struct job *j, uint64_t len, struct outcome *ret_refused)
{
  const struct dray_sqe *q = &j->req.sqe;
  uint32_t rule = 0;
  uint16_t reason = DRAY_RATE_LIMITED;
  bool moves = q->op == DRAY_PUT || q->op == DRAY_GET || q->op == DRAY_COPY || q->op == DRAY_ALLOC;
  unsigned p = quotas_pace(l, s, q->op, q->tier, q->klass, moves ? len : 0, &j->waited, &reason, &rule);
  ret_refused->status = 0;
  if (p == PACE_REFUSE) {
    *ret_refused = outcome_refused(reason);
    ret_refused->detail = rule;
  }
  return p == PACE_GO;
}

static void carry_out_plain(struct lane *l, struct session *s, struct job *j)
{
  const struct dray_sqe *q = &j->req.sqe;
  struct outcome o;
  struct wish w = {.off = q->off, .len = q->len};
  memcpy(w.key, q->key, 16);
  if (carry_out[q->op](&(struct call){l, s, j, 0, &w}, &o))
    complete_item(l, s, j, 0, &o);
}

void admit_start(struct lane *l, struct session *s, struct job *j)
{
  const struct dray_sqe *q = &j->req.sqe;
  list_init(&j->steps);
  if (UNLIKELY(j->req.reason != DRAY_REASON_OK)) {
    job_end(l, s, j, DRAY_REFUSED, j->req.reason);
    return;
  }
  if (LIKELY(q->op == DRAY_NOP && !(q->flags & DRAY_FENCED))) {
    job_end(l, s, j, DRAY_OK, DRAY_REASON_OK);
    return;
  }
  if (q->op == DRAY_CANCEL) {
    cancel_target(l, s, j);
    return;
  }
  if (UNLIKELY(s->state != SESSION_LIVE)) {
    job_end(l, s, j, DRAY_REFUSED, DRAY_SHUTTING_DOWN);
    return;
  }
  if (q->op == DRAY_PUT || q->op == DRAY_GET || q->op == DRAY_COPY) {
    if (!ops_region_get(s, q->region, &j->region)) {
      job_end(l, s, j, DRAY_REFUSED, DRAY_BAD_REGION);
      return;
    }
  }
  j->fence_due = (q->flags & DRAY_FENCED) != 0;
  if (q->flags & DRAY_BATCH) {
    start_batch(l, s, j);
    return;
  }
  if (j->fence_due || (moves_bytes(q->op) && !steps_left(l, s))) {
    pend(l, s, j);
    return;
  }
  struct outcome refused;
  if (pace(l, s, j, q->len, &refused))
    carry_out_plain(l, s, j);
  else if (refused.status)
    complete_item(l, s, j, 0, &refused);
  else
    pend(l, s, j);
}

/* Where a PUT's next item will read. Only a hint, so what the engine writes there meanwhile is harmless; but inside its
   own region, so that nobody picks addresses of ours. */
static const void *next_source(const struct session *s, const struct job *j, const struct dray_item *it)
{
  const struct dray_sqe *q = &j->req.sqe;
  const struct region *r = &s->regions[j->region];
  uint64_t at = it->off;
  if (q->op != DRAY_PUT)
    return NULL;
  if (q->layout && q->layout < SESSION_LAYOUTS) {
    const struct dray_layout *l = &s->layouts[q->layout];
    if (!mul_u64(it->off, l->block_stride, &at) || !add_u64(at, l->base, &at))
      return NULL;
  }
  return at < r->size ? (const char *)r->base + at : NULL;
}

/* Begins the next few items: each was copied out of U once. */
static int64_t admit_items(struct lane *l, struct session *s, struct job *j)
{
  const struct dray_sqe *q = &j->req.sqe;
  struct dray_item room[ITEMS_AHEAD + 1]; /* the last only says what comes next */
  struct store_hint hint[ITEMS_AHEAD];
  struct outcome o;
  uint32_t left = j->items - j->next_item, n = MIN_OF(left, ITEMS_AHEAD), done = 0;
  if (moves_bytes(q->op))
    n = MIN_OF(n, MIN_OF(l->free_steps_n, LANE_SESSION_STEPS - s->steps_n));
  uint32_t seen = MIN_OF(left, n + 1);
  const struct dray_item *it = rows_read(s, j, seen, room);
  for (uint32_t k = 0; k < n; k++)
    hint[k].key = it[k].key;
  if (n > 1 && q->op != DRAY_UNMAP && q->op != DRAY_PUT)
    store_expect(l->d->store, s->tenant, hint, n, q->op == DRAY_MAP || q->op == DRAY_GET || q->op == DRAY_MOVE);
  for (; done < n && j->state == JOB_RUNNING && !j->stop; done++) {
    struct outcome refused;
    bool now = pace(l, s, j, it[done].len, &refused);
    if (!now && !refused.status)
      break;
    uint32_t i = j->next_item++;
    if (j->next_item == j->items)
      list_remove(&j->wait);
    unsigned r = take_item_check(q->op, q->layout != 0, &it[done]);
    struct wish w = {
        .off = it[done].off, .len = it[done].len, .next = done + 1 < seen ? next_source(s, j, &it[done + 1]) : NULL};
    memcpy(w.key, it[done].key, 16);
    if (!now) {
      complete_item(l, s, j, i, &refused);
    } else if (r != DRAY_REASON_OK) {
      o = outcome_refused(r);
      complete_item(l, s, j, i, &o);
    } else if (carry_out[q->op](&(struct call){l, s, j, i, &w}, &o)) {
      complete_item(l, s, j, i, &o);
    }
  }
  return (int64_t)done * INLINE_CHARGE;
}

int64_t admit_next(struct lane *l, struct session *s, struct job *j)
{
  const struct dray_sqe *q = &j->req.sqe;
  if ((j->fence_due || moves_bytes(q->op)) && !steps_left(l, s))
    return 0;
  if (UNLIKELY(j->fence_due)) { /* sync first: admit_resume() puts it back here */
    j->fence_due = false;
    list_remove(&j->wait);
    struct step *t = step_new(l, s, j, 0, STEP_SYNC);
    t->state = STEP_CUT;
    step_start(l, t);
    return INLINE_CHARGE;
  }
  if (!j->items) {
    struct outcome refused;
    bool now = pace(l, s, j, q->len, &refused);
    if (!now && !refused.status)
      return 0;
    list_remove(&j->wait);
    if (now)
      carry_out_plain(l, s, j);
    else
      complete_item(l, s, j, 0, &refused);
    return INLINE_CHARGE;
  }
  return admit_items(l, s, j);
}

void admit_stop(struct lane *l, struct session *s, struct job *j)
{
  struct outcome o = outcome_refused(j->stop);
  o.status = (uint8_t)job_stop_status(j->stop);
  list_remove(&j->wait);
  if (!j->items) {
    if (!list_empty(&j->steps))
      step_stop(l, LIST_OF(j->steps.next, struct step, link), j->stop);
    else
      complete_item(l, s, j, 0, &o);
    return;
  }
  /* steps first, then the items not begun: whichever is the very last finishes the job */
  uint32_t left = j->items - j->next_item;
  j->next_item = j->items;
  LIST_EACH (&j->steps, n) {
    step_stop(l, LIST_OF(n, struct step, link), j->stop);
  }
  for (uint32_t i = 0, n = j->items; i < left; i++)
    complete_item(l, s, j, n - left + i, &o);
}

void admit_resume(struct lane *l, struct session *s, struct job *j)
{
  pend(l, s, j);
}
