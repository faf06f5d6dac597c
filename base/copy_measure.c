/* SPDX-License-Identifier: Apache-2.0 */
#include "base/copy_measure.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/stream.h"
#include "include/priv/bits.h"
#include "include/priv/order.h"

#ifdef __x86_64__
#include <immintrin.h>

#define SIDE MIB(8)         /* of source, and as much of destination */
#define COLD_BYTES KIB(512) /* copied for one cold figure */
#define HOT_BYTES KIB(256)
#define METHODS 5u
#define TRIES 3u
#define BETTER 1.05 /* what a way must be before it is preferred: less is noise */
#define AS_GOOD 0.95

static const size_t sizes[] = {KIB(1), KIB(2), KIB(4), KIB(16), KIB(64), KIB(256)};
#define SIZES ARRAY_LEN(sizes)

struct measure {
  char *src, *dst;
  uint64_t until;
  double cold[SIZES][METHODS], hot[SIZES][METHODS]; /* MB/s, 0: not reached */
};

static uint64_t now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void flush(const char *p, size_t n)
{
  for (size_t i = 0; i < n; i += CACHE_LINE)
    _mm_clflush(p + i);
}

/* Blocks of n bytes at a stride that no prefetcher follows, each line once. */
static double cold_once(struct measure *m, enum copy_method by, size_t n)
{
  size_t blocks = MAX_OF(COLD_BYTES / n, (uint64_t)1), slots = SIDE / n, step = 5 * slots / 8 | 1;
  for (size_t i = 0, at = 0; i < blocks; i++, at = (at + step) % slots) {
    flush(m->src + at * n, n);
    flush(m->dst + at * n, n);
  }
  stream_fence();
  uint64_t t = now_ns();
  for (size_t i = 0, at = 0; i < blocks; i++) {
    size_t next = (at + step) % slots;
    copy_by(by, m->dst + at * n, m->src + at * n, n, m->src + next * n);
    at = next;
  }
  stream_fence();
  return (double)(blocks * n) * 1000.0 / (double)(now_ns() - t + 1);
}

static double hot_once(struct measure *m, enum copy_method by, size_t n)
{
  size_t times = MAX_OF(HOT_BYTES / n, (uint64_t)1);
  copy_by(by, m->dst, m->src, n, NULL);
  uint64_t t = now_ns();
  for (size_t i = 0; i < times; i++)
    copy_by(by, m->dst, m->src, n, NULL);
  stream_fence();
  return (double)(times * n) * 1000.0 / (double)(now_ns() - t + 1);
}

/* The best of a few rounds in which the methods take turns: another process may only make a figure worse. */
static bool measure_row(struct measure *m, size_t n, double (*once)(struct measure *, enum copy_method, size_t),
                        double row[METHODS])
{
  double best[METHODS] = {0};
  for (unsigned k = 0; k < TRIES; k++)
    for (unsigned by = COPY_BY_MEMCPY; by < METHODS; by++) {
      if (now_ns() > m->until)
        return false;
      double v = once(m, (enum copy_method)by, n);
      best[by] = MAX_OF(best[by], v);
    }
  memcpy(row, best, sizeof best);
  return true;
}

static double best_cached(const double row[METHODS])
{
  double v = MAX_OF(row[COPY_BY_MEMCPY], row[COPY_BY_VECTOR]);
  return MAX_OF(v, row[COPY_BY_MOVSB]);
}

/* The smallest measured size at which `by` is better than `than` and from which on it is as good at every size;
   COPY_NEVER: none is. */
static uint64_t crossover(double rows[SIZES][METHODS], unsigned by, double (*than)(const double *))
{
  uint64_t from = COPY_NEVER;
  for (size_t i = SIZES; i > 0; i--) {
    const double *row = rows[i - 1];
    if (row[by] == 0)
      continue; /* not reached */
    if (row[by] < than(row) * AS_GOOD)
      break;
    if (row[by] >= than(row) * BETTER)
      from = sizes[i - 1];
  }
  return from;
}
static double best_small(const double row[METHODS])
{
  return MAX_OF(row[COPY_BY_MEMCPY], row[COPY_BY_VECTOR]);
}

/* Cached copies are chosen by their hot figures: READ_SOON and hot memory are what they are for. */
static void derive(struct measure *m, struct copy_plan *p)
{
  double memcpy_sum = 0, vector_sum = 0;
  for (size_t i = 0; i < SIZES && sizes[i] <= KIB(16); i++)
    if (m->hot[i][COPY_BY_MEMCPY] > 0) {
      memcpy_sum += m->hot[i][COPY_BY_MEMCPY];
      vector_sum += m->hot[i][COPY_BY_VECTOR];
    }
  if (memcpy_sum > vector_sum * BETTER)
    p->small = COPY_BY_MEMCPY;
  uint64_t cold = crossover(m->cold, COPY_BY_STREAM, best_cached);
  p->stream_min = cold;
  if (memcpy_sum > 0) {
    p->movsb_min = crossover(m->hot, COPY_BY_MOVSB, best_small);
    p->hot_stream_min = crossover(m->hot, COPY_BY_STREAM, best_cached);
  }
  for (size_t i = 0; i < SIZES; i++)
    if (sizes[i] == KIB(16))
      p->cold_mbps = (uint32_t)MAX_OF(m->cold[i][COPY_BY_STREAM], best_cached(m->cold[i]));
  long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE), l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
  /* half of its own cache: the lane's records, and what the engine's core does to a shared one, take the rest */
  if (l2 > 0)
    p->hot_bytes = MIN_OF((uint64_t)l2 / 2, MIB(4));
  if (l3 > 0) {
    p->soon_max = MIN_OF((uint64_t)l3 / 8, MIB(16));
    p->soon_max = MAX_OF(p->soon_max, MIB(1));
  }
}

int copy_measure(uint64_t budget_ns, struct copy_plan *ret_plan, uint64_t *ret_ns)
{
  if (!stream_available())
    return -ENOTSUP;
  uint64_t start = now_ns();
  struct measure m = {.until = start + budget_ns};
  void *p = mmap(NULL, 2 * SIDE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED)
    return -ENOMEM;
  madvise(p, 2 * SIDE, MADV_HUGEPAGE); /* only makes the first touch cheaper */
  m.src = p;
  m.dst = m.src + SIDE;
  memset(m.src, 0x5a, SIDE);
  memset(m.dst, 0, SIDE);
  /* the sizes that matter most first, and cold before hot: time may run out */
  static const uint8_t order[SIZES] = {3, 5, 2, 4, 1, 0};
  bool reached = false;
  for (size_t i = 0; i < SIZES; i++)
    reached |= measure_row(&m, sizes[order[i]], cold_once, m.cold[order[i]]);
  for (size_t i = 0; i < SIZES; i++)
    measure_row(&m, sizes[order[i]], hot_once, m.hot[order[i]]);
  munmap(p, 2 * SIDE);
  if (!reached)
    return -ETIME;
  struct copy_plan plan = copy_plan_default;
  derive(&m, &plan);
  *ret_plan = plan;
  *ret_ns = now_ns() - start;
  return 0;
}
#else
int copy_measure(uint64_t budget_ns, struct copy_plan *ret_plan, uint64_t *ret_ns)
{
  (void)budget_ns, (void)ret_plan, (void)ret_ns;
  return -ENOTSUP;
}
#endif
