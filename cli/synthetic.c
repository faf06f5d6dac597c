/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace like Mooncake's conversation trace, from its published statistics: 3.4 requests a second in ticks of 3 s;
 * input lengths lognormal (ln mean 8.74, sd 1.20), outputs likewise (5.34, 1.36); one first block common to all;
 * conversations that come back after a lognormal gap (median 114 s, 90 % within 519 s) with all they said before as
 * their prefix.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/trace.h"
#include "include/priv/bits.h"
#include "include/priv/cleanup.h"

#define PER_TICK 10.2
#define INPUT_MAX 126195u
#define COMES_BACK 0.385 /* fitted: 20 % of blocks hit in the first 300 s, 37 % in the hour */
#define GAP_LN_MEAN 4.74
#define GAP_LN_SD 1.18
#define TURN_LN_MEAN 6.2 /* tokens a user adds */
#define TURN_LN_SD 1.0

struct rng {
  uint64_t x;
};
static double uniform(struct rng *r)
{
  r->x++;
  return ((double)(trace_mix(r->x) >> 11) + 0.5) / 9007199254740992.0;
}
static double normal(struct rng *r)
{
  double u = uniform(r), v = uniform(r);
  return sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v);
}
static uint64_t lognormal(struct rng *r, double mean, double sd, uint64_t min, uint64_t max)
{
  double v = exp(mean + sd * normal(r));
  return v < (double)min ? min : v > (double)max ? max : (uint64_t)v;
}

/* A conversation that will come back: its latest request, and when. A heap by `due`. */
struct talk {
  uint64_t due_ms;
  uint32_t request;
};
static void swap(struct talk *a, struct talk *b)
{
  struct talk t = *a;
  *a = *b;
  *b = t;
}
static void heap_push(struct talk *h, uint32_t *n, struct talk t)
{
  uint32_t i = (*n)++;
  h[i] = t;
  for (; i && h[(i - 1) / 2].due_ms > h[i].due_ms; i = (i - 1) / 2)
    swap(&h[i], &h[(i - 1) / 2]);
}
static struct talk heap_pop(struct talk *h, uint32_t *n)
{
  struct talk top = h[0];
  h[0] = h[--*n];
  for (uint32_t i = 0;;) {
    uint32_t k = i;
    for (uint32_t c = 2 * i + 1; c <= 2 * i + 2; c++)
      if (c < *n && h[c].due_ms < h[k].due_ms)
        k = c;
    if (k == i)
      return top;
    swap(&h[i], &h[k]);
    i = k;
  }
}

/* One request: a new conversation, or the next turn of one. */
static int add_turn(struct trace *t, struct rng *r, uint64_t at_ms, const struct trace_request *before,
                    uint64_t *next_id)
{
  uint64_t shared = 0, first = 0, input = lognormal(r, 8.74, 1.20, 64, INPUT_MAX);
  if (before) {
    uint64_t said = before->input + before->output;
    input = MIN_OF(said + lognormal(r, TURN_LN_MEAN, TURN_LN_SD, 16, INPUT_MAX), (uint64_t)INPUT_MAX);
    shared = MIN_OF(before->input / TRACE_BLOCK_TOKENS, (uint64_t)before->blocks); /* whole blocks only */
    first = before->first;                                                         /* before may move */
  }
  uint64_t blocks = (input + TRACE_BLOCK_TOKENS - 1) / TRACE_BLOCK_TOKENS;
  int e = trace_add(t, at_ms, input, lognormal(r, 5.34, 1.36, 1, 4096));
  for (uint64_t i = 0; e == 0 && i < blocks; i++)
    e = trace_add_id(t, i < shared ? t->id[first + i] : i == 0 ? 0 : (*next_id)++);
  return e;
}

int trace_synthesize(struct trace *t, uint32_t requests, uint64_t seed)
{
  struct rng r = {trace_mix(seed)};
  uint64_t next_id = 1, tick = 0;
  uint32_t talks = 0;
  int e = 0;
  *t = (struct trace){0};
  CLEAN_PTR struct talk *heap = malloc(((size_t)requests + 1) * sizeof *heap);
  if (!heap)
    return -ENOMEM;
  while (t->n < requests && e == 0) {
    double draw = PER_TICK + sqrt(PER_TICK) * normal(&r);
    for (int left = draw < 1 ? 1 : draw > 28 ? 28 : (int)draw; left && t->n < requests && e == 0; left--) {
      struct talk now = {.due_ms = 0};
      bool again = talks && heap[0].due_ms <= tick;
      if (again)
        now = heap_pop(heap, &talks);
      e = add_turn(t, &r, tick, again ? &t->req[now.request] : NULL, &next_id);
      if (e == 0 && uniform(&r) < COMES_BACK)
        heap_push(
            heap, &talks,
            (struct talk){.due_ms = tick + 1000 * lognormal(&r, GAP_LN_MEAN, GAP_LN_SD, 1, 7200), .request = t->n - 1});
    }
    tick += TRACE_TICK_MS;
  }
  if (e < 0)
    trace_free(t);
  else
    trace_spread(t);
  return e;
}
