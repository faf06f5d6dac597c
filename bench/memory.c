/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/stop.h"
#include "include/priv/bits.h"

#define LOADS 200000u
#define CHASE_ROUND 20000u

static const char *const words[] = {"?", "read", "write", "copy"};

static int refuse(const struct memory *m, int code, const struct guard_hit *hit)
{
  if (code == -EFAULT)
    fprintf(stderr,
            "bench %s: %s memory at offset %" PRIu64 ", %" PRIu64 " bytes: `dray tiers`, `dray cells --poisoned`\n",
            m->what, hit->kind == GUARD_POISON ? "poisoned" : "lost", (uint64_t)(hit->addr - (uintptr_t)m->base),
            hit->unit);
  else
    fprintf(stderr, "bench %s: %s\n", m->what, code == -EBADMSG ? "wrong bytes" : strerror(-code));
  return 1;
}

int memory_rate(const struct memory *m, struct report *r, enum touch_rw rw, uint32_t threads)
{
  const struct bench_options *o = m->options;
  uint32_t rounds = o->rounds ? o->rounds : o->quick ? 3 : 9;
  char name[48];
  struct touch_result got;
  struct touch *t = calloc(1, sizeof *t);
  snprintf(name, sizeof name, "%s.%s.%ut", m->what, words[rw], threads);
  struct result *x = report_add(r, name, "GB/s", false);
  if (!t || !x) {
    free(t);
    return refuse(m, -ENOMEM, NULL);
  }
  /* whole parts of whole blocks */
  uint64_t block = o->block ? o->block : KIB(256), unit = 2 * block * threads;
  t->base = m->base;
  t->bytes = m->bytes / unit * unit;
  t->block = block;
  t->threads = threads;
  t->rw = rw;
  t->ms = (uint32_t)((o->seconds ? o->seconds : o->quick ? 0.05 : 0.4) * 1000);
  if (t->bytes == 0) {
    fprintf(stderr,
            "bench %s: %u threads with blocks of %" PRIu64 " bytes need %" PRIu64 " bytes, have %" PRIu64
            ": lower --threads or --block-size\n",
            m->what, threads, block, unit, m->bytes);
    free(t);
    return 1;
  }
  int bad = rw == TOUCH_READ ? touch_sums(t, &got.hit) : 0;
  for (uint32_t i = 0; bad == 0 && i <= rounds && !stop_asked(); i++) {
    bad = touch_run(t, &got);
    if (bad == 0 && got.wrong)
      bad = -EBADMSG;
    if (i && bad == 0) /* the first warms up */
      series_add(&x->ours, got.gbps);
    if (o->progress)
      fprintf(stderr, "\r%s: round %u/%u: %.2f GB/s   ", name, i, rounds, got.gbps);
  }
  if (o->progress)
    fputc('\n', stderr);
  if (bad == 0 && rw != TOUCH_READ)
    bad = touch_check(t);
  x->verified = bad == 0;
  x->path = "cpu";
  if (m->link_gbps > 0)
    snprintf(x->note, sizeof x->note, "%.0f %% of the link's %.1f GB/s",
             100 * series_quantile(&x->ours, 0.5) / m->link_gbps, m->link_gbps);
  free(t);
  return bad == 0 ? 0 : refuse(m, bad, &got.hit);
}

int memory_latency(const struct memory *m, struct report *r)
{
  char name[48];
  struct guard_hit hit;
  struct hist *h = calloc(2, sizeof *h);
  snprintf(name, sizeof name, "%s.latency", m->what);
  struct result *x = report_add(r, name, "ns", true);
  int bad = h && x ? 0 : -ENOMEM;
  uint32_t loads = m->options->quick ? LOADS / 10 : LOADS, rounds = m->options->rounds ? m->options->rounds : 9;
  for (uint32_t i = 0; bad == 0 && i <= rounds && !stop_asked(); i++) {
    memset(&h[0], 0, sizeof h[0]);
    bad = touch_chase(m->base, m->bytes, MAX_OF(loads / rounds, CHASE_ROUND / 10), (i + 1) * 0x9e3779b97f4a7c15ull,
                      &h[0], &hit);
    if (bad == 0 && i) {
      series_add(&x->ours, (double)hist_quantile(&h[0], 0.5) * TOUCH_CHASE_UNIT);
      hist_merge(&h[1], &h[0]);
    }
  }
  if (bad == 0) {
    result_latency(x, &h[1]);
    for (int k = 0; k < REPORT_PCTS; k++)
      x->pct[k] *= TOUCH_CHASE_UNIT;
    x->verified = true;
    x->path = "cpu";
    snprintf(x->note, sizeof x->note, "dependent loads over %" PRIu64 " MiB; each sample the mean of 8",
             m->bytes >> 20);
  }
  free(h);
  return bad == 0 ? 0 : refuse(m, bad, &hit);
}
