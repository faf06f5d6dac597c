/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/pace.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "include/priv/bits.h"

struct run {
  const struct pace *p;
  const struct pace_io *io;
  struct pace_result *x;
  uint64_t begun, apart;
  uint64_t next; /* the first that has not begun */
  uint64_t due[PACE_DEPTH_MAX];
  bool under[PACE_DEPTH_MAX];
  uint32_t free_slot[PACE_DEPTH_MAX], free_n;
};

/* From the start, not from the one before: rounding does not add up. */
static uint64_t due_at(const struct run *r, uint64_t i)
{
  return r->begun + (uint64_t)((double)i * 1e9 / r->p->rate);
}

static uint32_t under_way(const struct run *r)
{
  return r->p->depth - r->free_n;
}

/* Begins what is due, as far as there is room. */
static bool begin_due(struct run *r, uint64_t now)
{
  bool any = false;
  for (; r->next < r->x->due && r->free_n && due_at(r, r->next) <= now; r->next++) {
    uint32_t slot = r->free_slot[--r->free_n];
    r->due[slot] = due_at(r, r->next);
    r->under[slot] = true;
    r->x->late += now - r->due[slot] > r->apart / 10;
    if (!r->io->send(r->io->ctx, slot, r->next))
      return false;
    any = true;
  }
  if (any)
    r->io->push(r->io->ctx);
  return true;
}

static bool reap(struct run *r)
{
  uint32_t slot[PACE_DEPTH_MAX];
  int n = r->io->reap(r->io->ctx, slot, PACE_DEPTH_MAX);
  uint64_t now = r->io->now(r->io->ctx);
  for (int k = 0; k < n; k++) {
    hist_add(&r->x->latency, now - r->due[slot[k]]);
    r->under[slot[k]] = false;
    r->free_slot[r->free_n++] = slot[k];
    r->x->done++;
  }
  return n >= 0;
}

/* What is not over by now waited at least until now. */
static void give_up(struct run *r, uint64_t now)
{
  for (uint32_t i = 0; i < r->p->depth; i++)
    if (r->under[i]) {
      hist_add(&r->x->latency, now - r->due[i]);
      r->x->unmade++;
    }
  for (; r->next < r->x->due; r->next++) {
    uint64_t due = due_at(r, r->next);
    hist_add(&r->x->latency, now > due ? now - due : 0);
    r->x->unmade++;
  }
}

int pace_run(const struct pace *p, const struct pace_io *io, struct pace_result *ret_result)
{
  struct run r = {.p = p, .io = io, .x = ret_result, .apart = (uint64_t)(1e9 / p->rate), .free_n = p->depth};
  memset(ret_result, 0, sizeof *ret_result);
  for (uint32_t i = 0; i < p->depth; i++)
    r.free_slot[i] = p->depth - 1 - i;
  r.begun = io->now(io->ctx);
  ret_result->due = MAX_OF((uint64_t)((double)p->ns / 1e9 * p->rate), 1u);
  uint64_t last = due_at(&r, ret_result->due) + p->late_ns, now = r.begun;
  bool good = true;
  while (good && (r.next < ret_result->due || under_way(&r)) && now < last) {
    if (p->stop && p->stop() && r.next < ret_result->due)
      ret_result->due = r.next; /* nothing new; what is under way ends */
    good = begin_due(&r, now) && reap(&r);
    if (!good || (r.next == ret_result->due && !under_way(&r)))
      break;
    bool full = r.next == ret_result->due || !r.free_n;
    uint64_t until = full ? last : due_at(&r, r.next), from = io->now(io->ctx);
    io->rest(io->ctx, until, under_way(&r) > 0);
    uint64_t was = now;
    now = io->now(io->ctx);
    /* between two looks, but for the rest that was meant */
    uint64_t worked = from - was, late = now > MAX_OF(until, from) ? now - MAX_OF(until, from) : 0;
    ret_result->away_ns = MAX_OF(ret_result->away_ns, MAX_OF(worked, late));
  }
  now = io->now(io->ctx);
  ret_result->seconds = (double)(now - r.begun) / 1e9;
  if (good)
    give_up(&r, now);
  return good ? 0 : -1;
}

struct result *pace_row(struct report *r, const char *name, const struct pace *p, const struct pace_result *x,
                        const char *path, bool verified)
{
  struct result *y = report_add(r, name, "op/s", false);
  if (!y)
    return NULL;
  series_add(&y->ours, x->seconds > 0 ? (double)x->done / x->seconds : 0);
  series_add(&y->theirs, p->rate);
  y->versus = "offered by the clock";
  result_latency(y, &x->latency);
  y->path = path;
  y->verified = verified;
  int n = snprintf(y->note, sizeof y->note, "latency from when due, depth %u; %" PRIu64 " of %" PRIu64 " began late",
                   p->depth, x->late, x->due);
  if (x->away_ns > 1000000u && n > 0 && (size_t)n < sizeof y->note)
    n += snprintf(y->note + n, sizeof y->note - (size_t)n, "; this loop itself was away for up to %" PRIu64 " ms",
                  x->away_ns / 1000000u);
  if (x->unmade && n > 0 && (size_t)n < sizeof y->note)
    snprintf(y->note + n, sizeof y->note - (size_t)n, "; %" PRIu64 " were not over at the end", x->unmade);
  return y;
}
