/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/touch.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/stream.h"
#include "bench/stage.h"
#include "include/priv/bits.h"
#include "include/priv/order.h"

#define PATTERN KIB(64)
#define GROUP 8u /* loads between two looks at the clock, which costs as much as one */

typedef uint64_t word4 __attribute__((vector_size(32), may_alias));

static uint64_t sum_block(const char *p, uint64_t n)
{
  const word4 *v = (const word4 *)(const void *)p;
  word4 a = {0}, b = {0}, c = {0}, d = {0};
  for (uint64_t i = 0; i < n / sizeof *v; i += 4) {
    a += v[i];
    b += v[i + 1];
    c += v[i + 2];
    d += v[i + 3];
  }
  a += b + c + d;
  return a[0] + a[1] + a[2] + a[3];
}

/* Threads wait until all are there, or one could not be made. */
struct gate {
  pthread_mutex_t lock;
  pthread_cond_t moved;
  enum { GATE_SHUT = 1, GATE_OPEN = 2, GATE_HOME = 3 } state;
};

static void gate_move(struct gate *g, int state)
{
  pthread_mutex_lock(&g->lock);
  g->state = state;
  pthread_cond_broadcast(&g->moved);
  pthread_mutex_unlock(&g->lock);
}

static bool gate_pass(struct gate *g)
{
  pthread_mutex_lock(&g->lock);
  while (g->state == GATE_SHUT)
    pthread_cond_wait(&g->moved, &g->lock); /* the maker always moves it */
  bool open = g->state == GATE_OPEN;
  pthread_mutex_unlock(&g->lock);
  return open;
}

/* One thread's part. */
struct part {
  const struct touch *t;
  char *base, *pattern;
  uint64_t bytes, until;
  uint32_t index;
  struct gate *gate;
  /* what it leaves; volatile: a guarded loop may be left anywhere */
  volatile uint64_t done, wrong, began, ended;
  int r;
  struct guard_hit hit;
};

static void pass(struct part *p)
{
  const struct touch *t = p->t;
  uint64_t half = p->bytes / 2, sum = 0;
  switch (t->rw) {
  case TOUCH_READ:
    for (uint64_t at = 0; at < p->bytes; at += t->block)
      sum += sum_block(p->base + at, t->block);
    p->wrong += sum != t->sum[p->index];
    p->done += p->bytes;
    break;
  case TOUCH_WRITE:
    for (uint64_t at = 0; at < p->bytes; at += PATTERN)
      stream_copy(p->base + at, p->pattern, MIN_OF(PATTERN, p->bytes - at), NULL);
    stream_fence();
    p->done += p->bytes;
    break;
  case TOUCH_COPY:
    for (uint64_t at = 0; at < half; at += t->block)
      stream_copy(p->base + half + at, p->base + at, t->block, p->base + at + t->block);
    stream_fence();
    p->done += half;
    break;
  }
}

static int part_loop(void *ctx)
{
  struct part *p = ctx;
  do
    pass(p);
  while (stage_now_ns() < p->until);
  return 0;
}

static void *part_main(void *ctx)
{
  struct part *p = ctx;
  const struct guard_range range = {p->base, p->bytes};
  stage_pin((int)(p->index % (uint32_t)sysconf(_SC_NPROCESSORS_ONLN)));
  if (!gate_pass(p->gate))
    return NULL;
  p->began = stage_now_ns();
  p->until = p->began + (uint64_t)p->t->ms * 1000000u;
  p->r = guard_run(part_loop, p, &range, 1, &p->hit);
  p->ended = stage_now_ns();
  return NULL;
}

int touch_run(const struct touch *t, struct touch_result *ret)
{
  struct part *part = calloc(t->threads, sizeof *part);
  pthread_t *thread = calloc(t->threads, sizeof *thread);
  char *pattern = aligned_alloc(64, PATTERN);
  struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, GATE_SHUT};
  struct touch_result out = {0};
  uint64_t began = UINT64_MAX, ended = 0, done = 0, bytes = t->bytes / t->threads;
  uint32_t n = 0;
  int r = -ENOMEM;
  if (part && thread && pattern) {
    stage_fill(pattern, PATTERN, 1);
    for (r = 0; n < t->threads && r == 0; n += r == 0) {
      part[n] = (struct part){
          .t = t, .base = t->base + n * bytes, .pattern = pattern, .bytes = bytes, .index = n, .gate = &gate};
      r = -pthread_create(&thread[n], NULL, part_main, &part[n]);
    }
    gate_move(&gate, r == 0 ? GATE_OPEN : GATE_HOME);
    for (uint32_t i = 0; i < n; i++) {
      pthread_join(thread[i], NULL);
      began = MIN_OF(began, part[i].began);
      ended = MAX_OF(ended, part[i].ended);
      done += part[i].done;
      out.wrong += part[i].wrong;
      if (part[i].r < 0 && r == 0) {
        r = part[i].r;
        out.hit = part[i].hit;
      }
    }
    if (ended > began)
      out.gbps = (double)done / (double)(ended - began);
  }
  free(pattern);
  free(thread);
  free(part);
  *ret = out;
  return r;
}

static int sums_loop(void *ctx)
{
  struct touch *t = ctx;
  uint64_t bytes = t->bytes / t->threads;
  for (uint32_t k = 0; k < t->threads; k++) {
    uint64_t sum = 0;
    for (uint64_t at = 0; at < bytes; at += t->block)
      sum += sum_block(t->base + k * bytes + at, t->block);
    t->sum[k] = sum;
  }
  return 0;
}

int touch_sums(struct touch *t, struct guard_hit *ret_hit)
{
  const struct guard_range range = {t->base, t->bytes};
  return guard_run(sums_loop, t, &range, 1, ret_hit);
}

static int check_loop(void *ctx)
{
  const struct touch *t = ctx;
  uint64_t bytes = t->bytes / t->threads, half = bytes / 2;
  for (uint32_t k = 0; k < t->threads; k++) {
    const char *p = t->base + k * bytes;
    if (t->rw == TOUCH_COPY && memcmp(p, p + half, half) != 0)
      return -EBADMSG;
    for (uint64_t at = 0; t->rw == TOUCH_WRITE && at < bytes; at += PATTERN)
      if (!stage_check(p + at, MIN_OF(PATTERN, bytes - at), 1))
        return -EBADMSG;
  }
  return 0;
}

int touch_check(const struct touch *t)
{
  const struct guard_range range = {t->base, t->bytes};
  struct guard_hit hit;
  return guard_run(check_loop, (void *)(uintptr_t)t, &range, 1, &hit);
}

struct chase {
  const char *base;
  uint64_t lines, mask; /* mask: 0, but the compiler cannot know: so an address needs the value before it */
  uint64_t salt;
  uint32_t loads;
  struct hist *h;
};
static int chase_loop(void *ctx)
{
  const struct chase *c = ctx;
  uint64_t at = c->salt, v = 0;
  for (uint32_t i = 0; i < c->loads; i += GROUP) {
    uint64_t t = stage_now_ns();
    for (uint32_t k = 0; k < GROUP; k++) {
      at = at * 6364136223846793005u + 1442695040888963407u;
      uint64_t line = (at >> 20) % c->lines + (v & c->mask);
      memcpy(&v, c->base + line * CACHE_LINE, sizeof v);
    }
    t = stage_now_ns() - t;
    hist_add(c->h, t * 10 / GROUP);
  }
  return (int)(v & c->mask);
}

int touch_chase(const char *base, uint64_t bytes, uint32_t loads, uint64_t salt, struct hist *h,
                struct guard_hit *ret_hit)
{
  static volatile const uint64_t zero = 0;
  struct chase c = {.base = base, .lines = bytes / CACHE_LINE, .mask = zero, .salt = salt, .loads = loads, .h = h};
  const struct guard_range range = {base, bytes};
  return guard_run(chase_loop, &c, &range, 1, ret_hit);
}
