/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/copy_bare.h"

#include <pthread.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "bench/stage.h"
#include "include/priv/bits.h"
#include "include/priv/order.h"

#define IOVS 64u
#define VECS 16u /* 256 KiB */

static const char *source_of(const struct bare_blocks *b, uint32_t i)
{
  return b->src + (uint64_t)b->list[i & (b->n - 1)] * BARE_BLOCK;
}

static double rate(const struct bare_blocks *b, uint64_t since)
{
  return (double)b->n * BARE_BLOCK / (double)(stage_now_ns() - since);
}

void bare_choose(struct bare_blocks *b, uint32_t set)
{
  b->set = set % BARE_STRIDE;
  for (uint32_t i = 0; i < b->n; i++) /* odd times a power of two's range: a permutation */
    b->list[i] = ((i * 2654435761u + set * 7919u) & (b->n - 1)) * BARE_STRIDE + b->set;
}

/* Blocks [from, to) of the list. */
struct run {
  const struct bare_blocks *b;
  enum copy_method by;
  uint32_t from, to;
  int cpu; /* -1: where it is */
  pthread_barrier_t *gate;
};

static void run_blocks(const struct run *x)
{
  for (uint32_t i = x->from; i < x->to; i++)
    copy_by(x->by, x->b->dst + (uint64_t)i * BARE_BLOCK, source_of(x->b, i), BARE_BLOCK, source_of(x->b, i + 1));
  stream_fence();
}

static void *run_main(void *ctx)
{
  struct run *x = ctx;
  stage_pin(x->cpu);
  pthread_barrier_wait(x->gate);
  run_blocks(x);
  return NULL;
}

/* The second half by another thread, made before the clock starts. */
static double two_threads(const struct bare_blocks *b, enum copy_method by)
{
  pthread_barrier_t gate;
  pthread_t other;
  struct run x[2] = {{b, by, 0, b->n / 2, 0, &gate}, {b, by, b->n / 2, b->n, 1, &gate}};
  pthread_barrier_init(&gate, NULL, 2);
  double v = 0;
  if (pthread_create(&other, NULL, run_main, &x[1]) == 0) {
    stage_pin(0);
    pthread_barrier_wait(&gate);
    uint64_t t = stage_now_ns();
    run_blocks(&x[0]);
    pthread_join(other, NULL);
    v = rate(b, t);
    stage_pin_none();
  }
  pthread_barrier_destroy(&gate);
  return v;
}

double bare_loop(const struct bare_blocks *b, enum copy_method by, uint32_t threads)
{
  if (threads > 1)
    return two_threads(b, by);
  uint64_t t = stage_now_ns();
  const struct run x = {.b = b, .by = by, .to = b->n, .cpu = -1};
  run_blocks(&x);
  return rate(b, t);
}

double bare_cma(const struct bare_blocks *b)
{
  struct iovec from[IOVS], to;
  uint64_t t = stage_now_ns();
  for (uint32_t i = 0; i < b->n; i += IOVS) {
    for (uint32_t k = 0; k < IOVS; k++)
      from[k] = (struct iovec){(void *)(uintptr_t)source_of(b, i + k), BARE_BLOCK};
    to = (struct iovec){b->dst + (uint64_t)i * BARE_BLOCK, (size_t)IOVS * BARE_BLOCK};
    if (process_vm_writev(getpid(), from, IOVS, &to, 1, 0) != (ssize_t)(IOVS * BARE_BLOCK))
      return 0;
  }
  return rate(b, t);
}

double bare_addr(const struct bare_blocks *b, const struct copy_plan *plan, struct copy_heat *heat, bool crc)
{
  struct xfer_vec v[VECS];
  struct xfer_done done;
  uint64_t t = stage_now_ns();
  for (uint32_t i = 0; i < b->n; i += VECS) {
    for (uint32_t k = 0; k < VECS; k++)
      v[k] = (struct xfer_vec){(void *)(uintptr_t)source_of(b, i + k), BARE_BLOCK};
    struct xfer_vec to = {b->dst + (uint64_t)i * BARE_BLOCK, (uint64_t)VECS * BARE_BLOCK};
    const struct addr_how how = {
        .plan = plan, .heat = heat, .next = source_of(b, i + VECS), .flags = crc ? XFER_CRC : 0};
    addr_copy(&how, vec_begin(&to), vec_begin(v), to.len, &done);
    if (done.status != XFER_OK || done.has_crc != crc)
      return 0;
  }
  return rate(b, t);
}

bool bare_right(const struct bare_blocks *b)
{
  for (uint32_t i = 0; i < b->n; i++)
    if (memcmp(b->dst + (uint64_t)i * BARE_BLOCK, source_of(b, i), BARE_BLOCK))
      return false;
  return true;
}
