/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scattered cold blocks into a slab: through a real drayd (one PUT with a layout, one BATCH of PUTs) and through the
 * transports' addr_copy alone, against the best bare loop of the same process and round, against CMA and whatever other
 * program is named, and with a CRC against without. With one lane everybody is on CPU 0 and takes turns: while the
 * mover copies the engine sleeps. With two lanes nobody is pinned but the bare loop's threads.
 */
#include "bench/copy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/copy_measure.h"
#include "base/guard.h"
#include "bench/copy_work.h"
#include "bench/rate.h"
#include "bench/rival.h"
#include "bench/stop.h"
#include "include/priv/bits.h"

struct rows {
  struct series loop[COPY_BY_STREAM + 1], cma, addr, addr_crc, layout, layout_crc, batch, batch_crc;
  struct series rival[BENCH_RIVALS_MAX];
  uint64_t cpu_ours, cpu_rival[BENCH_RIVALS_MAX]; /* ns of all processes over the rounds */
};

struct scatter {
  const struct bench_options *o;
  struct stage st;
  struct copy_work w;
  struct copy_plan plan;
  struct copy_heat heat;
  struct rival *rival[BENCH_RIVALS_MAX];
  char rival_name[BENCH_RIVALS_MAX][24];
  uint32_t lanes;
  struct rows rows;
};

static uint64_t own_cpu_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int one_round(struct scatter *s)
{
  struct copy_work *w = &s->w;
  struct rows *r = &s->rows;
  for (unsigned by = COPY_BY_MEMCPY; by <= COPY_BY_STREAM; by++) {
    copy_work_choose(w);
    series_add(&r->loop[by], bare_loop(&w->b, (enum copy_method)by, s->lanes));
    copy_work_check(w);
  }
  uint64_t cpu = stage_cpu_ns(&s->st) + own_cpu_ns();
  series_add(&r->layout, copy_work_layout(w, 0));
  r->cpu_ours += stage_cpu_ns(&s->st) + own_cpu_ns() - cpu;
  copy_work_layout_check(w);
  series_add(&r->layout_crc, copy_work_layout(w, DRAY_VERIFY_CRC));
  copy_work_layout_check(w);
  for (uint32_t i = 0; i < BENCH_RIVALS_MAX && s->rival[i]; i++) {
    uint64_t ns = 0;
    double v = rival_round(s->rival[i], &ns);
    if (v < 0)
      return -1;
    series_add(&r->rival[i], v);
    r->cpu_rival[i] += ns;
  }
  if (s->lanes > 1)
    return 0;
  copy_work_choose(w);
  series_add(&r->cma, bare_cma(&w->b));
  copy_work_check(w);
  copy_work_choose(w);
  series_add(&r->addr, bare_addr(&w->b, &s->plan, &s->heat, false));
  copy_work_check(w);
  copy_work_choose(w);
  series_add(&r->addr_crc, bare_addr(&w->b, &s->plan, &s->heat, true));
  copy_work_check(w);
  series_add(&r->batch, copy_work_batch(w, 0));
  series_add(&r->batch_crc, copy_work_batch(w, DRAY_VERIFY_CRC));
  return 0;
}

static struct result *row(const struct scatter *s, struct report *r, const char *suffix, const struct series *ours,
                          const struct series *theirs, const char *versus, double bar)
{
  char name[48];
  snprintf(name, sizeof name, "copy.%s", suffix);
  struct result *x = report_add(r, name, "GB/s", false);
  if (!x || !theirs->n)
    return x;
  x->ours = *ours;
  x->theirs = *theirs;
  x->versus = versus;
  x->bar = bar;
  x->path = dray_path_name(s->w.path);
  x->verified = s->w.verify && !s->w.wrong;
  return x;
}

static void rows_add(struct scatter *s, struct report *r)
{
  static const char *const names[] = {"?", "bare memcpy", "bare vector", "bare movsb", "bare non-temporal"};
  const struct rows *x = &s->rows;
  unsigned best = COPY_BY_MEMCPY;
  for (unsigned by = COPY_BY_MEMCPY; by <= COPY_BY_STREAM; by++)
    if (series_quantile(&x->loop[by], 0.5) > series_quantile(&x->loop[best], 0.5))
      best = by;
  const struct series *bare = &x->loop[best];
  const char *scatter = s->lanes > 1 ? "scatter16k.2lanes" : "scatter16k.1lane";
  char name[48];
  row(s, r, scatter, &x->layout, bare, names[best], s->lanes > 1 ? 0.90 : 0.95);
  snprintf(name, sizeof name, "%s.crc", scatter);
  row(s, r, name, &x->layout_crc, &x->layout, "without CRC32C", 0.90);
  for (uint32_t i = 0; i < BENCH_RIVALS_MAX && s->rival[i]; i++) {
    snprintf(name, sizeof name, "%s@%s", scatter, s->rival_name[i]);
    struct result *y = row(s, r, name, &x->layout, &x->rival[i], s->rival_name[i],
                           strcmp(s->rival_name[i], "ucx") ? 0
                           : s->lanes > 1                  ? 1.6
                                                           : 1.15);
    if (!y || !x->layout.n)
      continue;
    snprintf(y->rival, sizeof y->rival, "%s", s->rival_name[i]);
    y->versus = y->rival;
    snprintf(y->note, sizeof y->note, "CPU of all processes: ours %.1f ms a round, theirs %.1f",
             (double)x->cpu_ours / 1e6 / x->layout.n, (double)x->cpu_rival[i] / 1e6 / x->layout.n);
  }
  if (s->lanes > 1)
    return;
  if (series_quantile(&x->cma, 0.5) > 0)
    row(s, r, "scatter16k.1lane@cma", &x->layout, &x->cma, "process_vm_writev, 64 iovecs", 1.7);
  row(s, r, "addr", &x->addr, bare, names[best], 0.9);
  row(s, r, "addr.crc", &x->addr_crc, &x->addr, "copy.addr", 0.9);
  row(s, r, "batch", &x->batch, bare, names[best], 0);
  row(s, r, "batch.crc", &x->batch_crc, &x->batch, "copy.batch", 0.9);
  for (unsigned by = COPY_BY_MEMCPY; by <= COPY_BY_STREAM; by++)
    if (by != best)
      row(s, r, names[by], &x->loop[by], bare, names[best], 0);
}

/* "ucx=./ucx-scatter --posix" */
static int rivals_open(struct scatter *s, uint32_t blocks)
{
  const struct rival_work work = {blocks, BARE_BLOCK, BARE_STRIDE, s->lanes};
  for (uint32_t i = 0; i < BENCH_RIVALS_MAX && s->o->rival[i]; i++) {
    const char *eq = strchr(s->o->rival[i], '=');
    snprintf(s->rival_name[i], sizeof s->rival_name[i], "%.*s", eq ? (int)(eq - s->o->rival[i]) : 0, s->o->rival[i]);
    if (!eq || !(s->rival[i] = rival_open(s->rival_name[i], eq + 1, &work, s->lanes > 1 ? -1 : 0)))
      return -1;
  }
  return 0;
}

int copy_scatter(const struct bench_options *o, struct report *r, uint32_t rounds, uint32_t lanes)
{
  struct scatter *s = calloc(1, sizeof *s);
  uint64_t ns;
  uint32_t blocks = o->quick ? 1024 : 4096;
  const char *const sets[] = {lanes > 1 ? "lanes=2" : "lanes=1", "log=warn", "tier.dram.capacity=768MiB",
                              "tier.dram.slab_size=128MiB", NULL};
  if (!s)
    return 1;
  s->o = o;
  s->lanes = lanes;
  lanes > 1 ? stage_pin_none() : stage_pin(0);
  if (guard_install() < 0 || stage_open(&s->st, o->dir, lanes > 1 ? -1 : 0, sets) < 0) {
    free(s);
    return 1;
  }
  s->plan = copy_plan_default;
  copy_measure(300000000, &s->plan, &ns);
  int bad = copy_work_open(&s->w, &s->st, o->verify, blocks) || rivals_open(s, blocks);
  for (uint32_t i = 0; !bad && i <= rounds && !stop_asked(); i++) {
    if (i == 1)
      memset(&s->rows, 0, sizeof s->rows); /* the first was the warm-up */
    bad = one_round(s);
    if (o->progress)
      fprintf(stderr, "\rcopy, %u lane(s): round %u/%u   ", lanes, i, rounds);
  }
  if (o->progress)
    fputc('\n', stderr);
  rows_add(s, r);
  for (uint32_t i = 0; i < BENCH_RIVALS_MAX; i++)
    rival_close(s->rival[i]);
  bad |= s->w.wrong;
  copy_work_close(&s->w);
  stage_close(&s->st);
  free(s);
  stage_pin_none();
  return bad;
}

int bench_copy(const struct bench_options *o, struct report *r)
{
  if (o->rate > 0)
    return rate_copy(o, r);
  uint32_t rounds = o->rounds ? o->rounds : o->quick ? 3 : 15;
  int bad = copy_scatter(o, r, rounds, 1);
  bad |= copy_scatter(o, r, rounds, 2);
  bad |= copy_large(o, r, rounds);
  return bad | copy_hot(o, r, rounds);
}
