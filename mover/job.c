/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exactly-once rule: job_accept() opens a job for each directive that was taken, and job_finish() is the only place
 * that posts DONE and the only way back to FREE. A job is FREE, HELD, LINKED or RUNNING; nobody outside this file
 * writes its state.
 *
 *            accept                      order allows
 *    FREE ------------> HELD | LINKED -----------------> RUNNING ---> finish (posts DONE) ---> FREE
 *      \------------------------------------------------^   ^
 *                                                            `- stop: no new chunk is cut; finish once nothing flies
 *
 * A credit was set aside before the take (ring/post.h), so finish always has a slot. Between stop and finish chunks in
 * flight land; after finish no byte of the directive lands anywhere, since finish is only called with no step left.
 *
 * Order within a ring. `open` lists all unfinished jobs in the order taken. A job with DRAIN or FENCED (and FENCE) may
 * start once it is the first of `open`; while it waits at the head of `backlog`, all later ones queue behind it. A job
 * behind LINK hangs on its predecessor and starts after that one's success; a failure cancels the rest of the chain.
 */
#include "mover/job.h"

#include <string.h>

#include "include/priv/bits.h"
#include "mover/admit.h"
#include "mover/lane.h"
#include "mover/rows.h"
#include "mover/session.h"

static bool job_ordered(const struct job *j)
{
  return (j->req.sqe.flags & (DRAY_DRAIN | DRAY_FENCED)) || j->req.sqe.op == DRAY_FENCE;
}

static void job_start(struct lane *l, struct session *s, struct job *j)
{
  j->state = JOB_RUNNING;
  j->start_ns = l->now_ns;
  stat_add(&l->stats.admitted, 1);
  admit_start(l, s, j);
}

/* Starts it, or lets it wait behind a DRAIN. */
static void job_order(struct lane *l, struct session *s, struct job *j)
{
  if (UNLIKELY(!list_empty(&s->backlog) || (job_ordered(j) && s->open.next != &j->open))) {
    j->state = JOB_HELD;
    list_push_back(&s->backlog, &j->wait);
    return;
  }
  job_start(l, s, j);
}

/* Something finished: the head of the backlog may be first in order now. */
static void job_advance(struct lane *l, struct session *s)
{
  while (!list_empty(&s->backlog)) {
    struct job *j = LIST_OF(s->backlog.next, struct job, wait);
    if (job_ordered(j) && s->open.next != &j->open)
      return;
    list_remove(&j->wait);
    job_start(l, s, j);
  }
}

void job_accept(struct lane *l, struct session *s, const struct dray_req *req)
{
  struct job *j = &s->jobs[s->free_jobs[--s->free_n]];
  stat_add(&l->stats.jobs, 1);
  s->post.open++;
  j->req = *req;
  j->taken_ns = l->now_ns;
  j->others_served = l->stats.quanta - s->visits;
  j->others = l->active_n;
  j->follower = NULL;
  j->stop = 0;
  j->waited = false;
  j->region = j->dst_region = 0;
  j->items = 0;
  j->rows = NULL;
  j->steps_n = 0;
  j->failed = 0;
  memset(&j->out, 0, sizeof j->out);
  j->note = (struct meter_note){0};
  j->meter_bytes[0] = j->meter_bytes[1] = 0;
  j->metered = false;
  j->out.path = DRAY_PATH_NONE;
  j->deadline_ns = 0;
  list_init(&j->wait);

  if (UNLIKELY(req->sqe.op == DRAY_CANCEL)) {
    /* passes DRAIN and LINK: not part of the order at all */
    list_init(&j->open);
    job_start(l, s, j);
    return;
  }
  list_push_back(&s->open, &j->open);
  if (UNLIKELY(req->sqe.deadline_us)) {
    j->deadline_ns = l->now_ns + (uint64_t)req->sqe.deadline_us * 1000u;
    l->next_deadline = MIN_OF(l->next_deadline, j->deadline_ns);
  }

  bool linked = s->link_open;
  struct job *before = s->link_job;
  s->link_len = linked ? s->link_len + 1 : 1;
  s->link_open = req->sqe.flags & DRAY_LINK;
  s->link_job = s->link_open ? j : NULL;
  if (UNLIKELY(s->link_len > DRAY_LINK_MAX))
    j->req.reason = DRAY_LIMIT;
  if (UNLIKELY(linked)) {
    if (before) {
      before->follower = j;
      j->state = JOB_LINKED;
      return;
    }
    if (!s->link_ok) {
      j->state = JOB_RUNNING;
      j->start_ns = l->now_ns;
      job_end(l, s, j, DRAY_CANCELED, DRAY_LINK_BROKEN);
      return;
    }
  }
  job_order(l, s, j);
}

/* Fairness, counted and not timed: how many quanta each busy session was served while a small copy of ours waited. */
static void job_turns(struct lane *l, const struct session *s, const struct job *j)
{
  unsigned op = j->req.sqe.op, path = j->out.path;
  if ((op != DRAY_PUT && op != DRAY_GET) || j->items || j->out.status != DRAY_OK || j->out.bytes > LANE_QUANTUM ||
      (path != DRAY_PATH_CPU && path != DRAY_PATH_CPU_NT) || j->req.sqe.flags & (DRAY_LINK | DRAY_DRAIN | DRAY_FENCED))
    return;
  uint64_t served = l->stats.quanta - s->visits - j->others_served;
  uint64_t others = MAX_OF(MAX_OF(j->others, l->active_n), 2u) - 1; /* it is active itself */
  uint64_t turns = (served + others - 1) / others;
  stat_add(&l->stats.turns[MIN_OF(turns, (uint64_t)STATS_TURNS - 1)], 1);
}

static void job_post(struct lane *l, struct session *s, struct job *j)
{
  struct dray_cqe *c = post_slot(&s->post);
  s->post.open--;
  if (LIKELY(c != NULL)) {
    uint64_t queued = j->start_ns - j->taken_ns, worked = l->now_ns - j->start_ns;
    c->cookie = j->req.sqe.cookie;
    c->type = DRAY_DONE;
    c->status = j->out.status;
    c->reason = j->out.reason;
    c->path = j->out.path;
    c->tier = j->out.tier;
    c->flags = j->out.flags;
    c->bytes = j->out.bytes;
    c->object = j->out.object;
    c->off = j->out.off;
    c->slab = j->out.slab;
    c->detail = j->out.detail;
    c->queue_ns = saturate_u32(queued);
    c->exec_ns = saturate_u32(worked);
    c->sq_pos = j->req.sq_pos;
    c->epoch = s->post.epoch;
    c->failed = (uint16_t)MIN_OF(j->failed, (uint32_t)UINT16_MAX);
  }
  if (s->dirty.next == &s->dirty)
    list_push_back(&l->dirty, &s->dirty);
  struct lane_stats *st = &l->stats;
  stat_add(&st->completed, 1);
  stat_add(&st->by_op[j->req.sqe.op < DRAY_OP_COUNT ? j->req.sqe.op : 0], 1);
  stat_add(&st->by_reason[j->out.reason < DRAY_REASON_COUNT ? j->out.reason : 0], 1);
  stat_add(&s->done, 1);
  if (j->out.bytes)
    stat_add(&s->bytes, j->out.bytes);
  if (UNLIKELY(j->out.status == DRAY_REFUSED))
    stat_add(&s->refused, 1);
}

/* One job's end without its consequences for others. Returns its follower. */
static struct job *job_close(struct lane *l, struct session *s, struct job *j)
{
  job_post(l, s, j);
  meter_close(l, s, j);
  if (UNLIKELY(j->region)) {
    job_turns(l, s, j);
    admit_region_put(l, s, j->region);
  }
  if (UNLIKELY(j->dst_region))
    admit_region_put(l, s, j->dst_region);
  s->items_open -= j->items;
  rows_end(l, j);
  list_remove(&j->wait);
  list_remove(&j->open);
  j->state = JOB_FREE;
  s->free_jobs[s->free_n++] = j->index;
  if (UNLIKELY(s->link_job == j)) {
    s->link_job = NULL;
    s->link_ok = j->out.status == DRAY_OK;
  }
  return j->follower;
}

void job_finish(struct lane *l, struct session *s, struct job *j)
{
  bool ok = j->out.status == DRAY_OK;
  struct job *f = job_close(l, s, j);
  /* a failure cancels the rest of the chain, one by one, without recursion */
  while (UNLIKELY(f != NULL)) {
    struct job *next = f;
    if (ok && !next->stop) {
      job_order(l, s, next);
      break;
    }
    next->start_ns = l->now_ns;
    next->out.status = DRAY_CANCELED;
    next->out.reason = next->stop ? next->stop : DRAY_LINK_BROKEN;
    ok = false;
    f = job_close(l, s, next);
  }
  if (UNLIKELY(!list_empty(&s->backlog)))
    job_advance(l, s);
}

void job_end(struct lane *l, struct session *s, struct job *j, unsigned status, unsigned reason)
{
  j->out.status = (uint8_t)status;
  j->out.reason = (uint16_t)reason;
  job_finish(l, s, j);
}

/* How a job that was stopped before anything moved is answered. */
unsigned job_stop_status(unsigned reason)
{
  return reason == DRAY_DEADLINE ? DRAY_REFUSED : DRAY_CANCELED;
}

void job_stop(struct lane *l, struct session *s, struct job *j, unsigned reason)
{
  if (j->stop)
    return;
  j->stop = (uint16_t)reason;
  switch (j->state) {
  case JOB_HELD:
    list_remove(&j->wait);
    j->start_ns = l->now_ns;
    job_end(l, s, j, job_stop_status(reason), reason);
    return;
  case JOB_LINKED:
    return; /* its predecessor's end takes it along; a deadline below does not wait for that */
  case JOB_RUNNING:
    admit_stop(l, s, j);
    return;
  default:
    return;
  }
}

struct job *job_at(struct session *s, uint32_t sq_pos)
{
  LIST_EACH (&s->open, n) {
    struct job *j = LIST_OF(n, struct job, open);
    if (j->req.sq_pos == sq_pos)
      return j;
  }
  return NULL;
}

/* A LINKED job ends before its predecessor: it is cut out of the chain, and what follows it breaks. */
static void job_unlink(struct lane *l, struct session *s, struct job *j)
{
  LIST_EACH (&s->open, n) {
    struct job *before = LIST_OF(n, struct job, open);
    if (before->follower == j)
      before->follower = NULL;
  }
  j->start_ns = l->now_ns;
  job_end(l, s, j, job_stop_status(j->stop), j->stop);
}

uint64_t job_expire(struct lane *l, uint64_t now_ns)
{
  uint64_t next = UINT64_MAX;
  LIST_EACH (&l->sessions, sn) {
    struct session *s = LIST_OF(sn, struct session, link);
    bool again = true;
    while (again) { /* finishing one may finish others: start over after each */
      again = false;
      LIST_EACH (&s->open, n) {
        struct job *j = LIST_OF(n, struct job, open);
        if (!j->deadline_ns || j->stop)
          continue;
        if (j->deadline_ns > now_ns) {
          next = MIN_OF(next, j->deadline_ns);
          continue;
        }
        job_stop(l, s, j, DRAY_DEADLINE);
        if (j->state == JOB_LINKED)
          job_unlink(l, s, j);
        again = true;
        break;
      }
    }
  }
  return next;
}

void job_stop_all(struct lane *l, struct session *s, unsigned reason)
{
  /* from the back: a DRAIN at the head must not let the others start */
  while (!list_empty(&s->backlog)) {
    struct job *j = LIST_OF(s->backlog.prev, struct job, wait);
    job_stop(l, s, j, reason);
  }
  bool again = true;
  while (again) {
    again = false;
    LIST_EACH (&s->open, n) {
      struct job *j = LIST_OF(n, struct job, open);
      if (j->stop)
        continue;
      job_stop(l, s, j, reason);
      again = true;
      break;
    }
  }
}
