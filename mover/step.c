/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/step.h"

#include <string.h>

#include "base/crc.h"
#include "base/guard.h"
#include "include/priv/bits.h"
#include "mover/daemon.h"
#include "mover/lane.h"
#include "mover/session.h"

struct step *step_new(struct lane *l, struct session *s, struct job *j, uint32_t item, unsigned kind)
{
  struct step *t = &l->steps[l->free_steps[--l->free_steps_n]];
  memset(t, 0, sizeof *t);
  t->job = j;
  t->s = s;
  t->item = item;
  t->kind = (uint8_t)kind;
  t->path = DRAY_PATH_NONE;
  t->bad_at = UINT64_MAX;
  list_init(&t->run);
  list_push_back(&j->steps, &t->link);
  s->steps_n++;
  return t;
}

void step_drop(struct lane *l, struct step *t)
{
  list_remove(&t->run);
  list_remove(&t->link);
  t->s->steps_n--;
  l->free_steps[l->free_steps_n++] = (uint32_t)(t - l->steps);
}

void step_start(struct lane *l, struct step *t)
{
  static const uint8_t order[] = {[DRAY_CLASS_LATENCY] = 0, [DRAY_CLASS_NORMAL] = 1, [DRAY_CLASS_BULK] = 2};
  t->waiting = false;
  list_push_back(&t->s->run[order[t->job->req.sqe.klass]], &t->run);
  session_activate(l, t->s);
}

/* All bytes are cut and none fly, or it failed and none fly. */
static void step_arrive(struct lane *l, struct step *t)
{
  list_remove(&t->run);
  if (t->demoting)
    room_demoted(l, t);
  else
    complete_step(l, t);
}

static int64_t step_sync(struct lane *l, struct step *t)
{
  struct daemon *d = l->d;
  while (t->cut < d->devs_n) {
    struct dev *dev = d->dev[t->cut];
    if (dev->caps.persistent) {
      if (dispatch_sync(l, t, dev) < 0)
        return 0;
    }
    t->cut++;
  }
  list_remove(&t->run);
  t->state = STEP_FLY;
  if (t->flying == 0)
    complete_step(l, t);
  return -1;
}

int64_t step_advance(struct lane *l, struct step *t)
{
  if (t->kind == STEP_SYNC)
    return step_sync(l, t);
  if (t->state == STEP_ROOM) {
    int r = room_find(l, t);
    if (r < 0)
      return -1;
    if (t->state == STEP_ROOM) { /* nothing to take away: it waits until something moves */
      list_remove(&t->run);
      list_push_back(&l->waiters, &t->run);
      t->waiting = true;
      return -1;
    }
  }
  int64_t n = dispatch_chunk(l, t);
  if (n == 0)
    return 0;
  if (t->cut == t->bytes || t->reason) {
    list_remove(&t->run);
    t->state = STEP_FLY;
    if (t->flying == 0)
      step_arrive(l, t);
  }
  return n;
}

void step_begin(struct step *t, uint64_t bytes, bool crc)
{
  t->cut = 0;
  t->bad_at = UINT64_MAX;
  t->bytes = bytes;
  t->crc = crc;
  t->crc_sum = 0;
  t->crc_bytes = 0;
}

unsigned step_crc(struct step *t, uint32_t *ret_crc)
{
  struct guard_hit hit;
  if (t->crc_bytes == t->bytes) {
    *ret_crc = t->crc_sum;
    return DRAY_REASON_OK;
  }
  if (span_crc(&t->mem, t->bytes, ret_crc, &hit) == 0)
    return DRAY_REASON_OK;
  if (hit.kind != GUARD_POISON)
    return DRAY_PAGE_LOST;
  t->bad = (struct badness){.unit = hit.unit, .addr = hit.addr};
  return DRAY_POISONED;
}

void step_landed(struct lane *l, struct step *t, uint64_t start, const struct xfer_done *d)
{
  t->flying--;
  if (d->path > t->path || t->path == DRAY_PATH_NONE)
    t->path = d->path; /* a fallback anywhere is what the step reports */
  if (d->has_crc && d->status == XFER_OK) {
    t->crc_sum ^= crc32c_shift(d->crc, t->bytes - (start + d->bytes));
    t->crc_bytes += d->bytes;
  }
  if (d->status != XFER_OK) {
    t->bad_at = MIN_OF(t->bad_at, start + d->bytes); /* chunks land in any order */
    if (!t->reason || t->reason == t->job->stop) {
      t->reason = d->reason ? d->reason : DRAY_IO_ERROR;
      t->detail = (uint32_t)(d->err < 0 ? -d->err : d->err);
      if (UNLIKELY(t->reason == DRAY_POISONED))
        poison_seen(l, t, start, d);
    }
  }
  if (t->flying == 0 && (t->state == STEP_FLY || t->reason)) {
    if (t->kind == STEP_SYNC) {
      if (t->state == STEP_FLY)
        complete_step(l, t);
    } else {
      step_arrive(l, t);
    }
  }
}

void step_stop(struct lane *l, struct step *t, unsigned reason)
{
  if (!t->reason)
    t->reason = (uint16_t)reason;
  if (t->flying)
    return;
  step_arrive(l, t);
}

void step_retry_waiters(struct lane *l)
{
  struct list again;
  list_init(&again);
  while (!list_empty(&l->waiters))
    list_push_back(&again, list_pop_front(&l->waiters));
  while (!list_empty(&again)) {
    struct step *t = LIST_OF(list_pop_front(&again), struct step, run);
    step_start(l, t);
  }
}
