/* SPDX-License-Identifier: Apache-2.0 */
/* The text of /metrics. Every series is there from the first scrape, as zero. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dray/version.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "mover/daemon.h"
#include "mover/metrics.h"

struct page {
  FILE *f;
  bool open; /* OpenMetrics */
  const char *name;
  bool counter;
};

/* A family begins. Its name is without _total. */
static void family(struct page *p, const char *name, bool counter, const char *help)
{
  const char *suffix = counter && !p->open ? "_total" : "";
  p->name = name;
  p->counter = counter;
  fprintf(p->f, "# HELP dray_%s%s %s\n# TYPE dray_%s%s %s\n", name, suffix, help, name, suffix,
          counter ? "counter" : "gauge");
}

static void escaped(FILE *f, const char *s)
{
  for (; *s; s++)
    if (*s == '\n')
      fputs("\\n", f);
    else if (*s == '"' || *s == '\\')
      fprintf(f, "\\%c", *s);
    else
      fputc(*s, f);
}

/* One sample; labels as pairs of name and value, NULL-terminated. */
__attribute__((sentinel)) static void sample(struct page *p, uint64_t v, ...)
{
  va_list ap;
  const char *k;
  char sep = '{';
  fprintf(p->f, "dray_%s%s", p->name, p->counter ? "_total" : "");
  va_start(ap, v);
  while ((k = va_arg(ap, const char *))) {
    fprintf(p->f, "%c%s=\"", sep, k);
    escaped(p->f, va_arg(ap, const char *));
    fputc('"', p->f);
    sep = ',';
  }
  va_end(ap);
  fprintf(p->f, "%s %llu\n", sep == ',' ? "}" : "", (unsigned long long)v);
}

static void one(struct page *p, const char *name, bool counter, const char *help, uint64_t v)
{
  family(p, name, counter, help);
  sample(p, v, NULL);
}

static void counts(struct page *p, const char *name, const char *help, const char *label, const uint64_t *v, unsigned n,
                   const char *(*word)(unsigned))
{
  family(p, name, true, help);
  for (unsigned i = 1; i < n; i++)
    if (strcmp(word(i), "?"))
      sample(p, v[i], label, word(i), NULL);
}

static void work(struct page *p, struct daemon *d)
{
  struct lane_stats s = {0};
  for (uint32_t i = 0; i < d->lanes_n; i++)
    stats_add(&s, &d->lanes[i].stats);
  counts(p, "directives", "Directives completed, by operation.", "op", s.by_op, DRAY_OP_COUNT, dray_op_name);
  counts(p, "completions", "Directives completed, by reason (BATCH: its worst).", "reason", s.by_reason,
         DRAY_REASON_COUNT, dray_reason_name);
  counts(p, "path_bytes", "Bytes moved, by what was in fact done.", "path", s.bytes_by_path, DRAY_PATH_COUNT,
         dray_path_name);
  counts(p, "tier_bytes", "Bytes moved, by tier.", "tier", s.bytes_by_tier, DRAY_TIER_COUNT, dray_tier_name);
  counts(p, "hits", "GET and MAP, by the tier where the bytes were.", "tier", s.hits_by_tier, DRAY_TIER_COUNT,
         dray_tier_name);
  one(p, "misses", true, "GET and MAP that found nothing.", s.misses);
  one(p, "items", true, "Items of BATCHes.", s.items);
  one(p, "demoted_cells", true, "Cells moved down the ladder to make room.", s.demoted);
  one(p, "evicted_cells", true, "Cells dropped to make room.", s.evicted);
  one(p, "accounted_bytes", true, "Bytes that engines read through maps, as they say.", s.accounted);
  one(p, "quarantined", true, "QUARANTINE directives recorded.", s.quarantined);
  one(p, "protocol_errors", true, "Sessions ended for an impossible ring index.", s.protocol_errors);
}

static void pools(struct page *p, struct daemon *d)
{
  struct store_stats st;
  store_stats(d->store, &st);
  one(p, "cells", false, "Cells known.", st.cells);
  one(p, "leases", false, "Leases held.", st.leases);
  const struct {
    const char *name, *help;
    size_t off;
  } gauges[] = {
      {"pool_capacity_bytes", "What the tier has.", offsetof(struct pool_stats, capacity)},
      {"pool_charged_bytes", "Taken from it: slabs, and what is set aside.", offsetof(struct pool_stats, slab_bytes)},
      {"pool_cell_bytes", "Payload of cells in it.", offsetof(struct pool_stats, cell_bytes)},
      {"pool_cells", "Copies of cells in it.", offsetof(struct pool_stats, cells)},
  };
  for (size_t g = 0; g < ARRAY_LEN(gauges); g++) {
    family(p, gauges[g].name, false, gauges[g].help);
    for (uint32_t i = 0; i < st.pools; i++)
      sample(p, *(const uint64_t *)(const void *)((const char *)&st.pool[i] + gauges[g].off), "tier",
             dray_tier_name(st.pool[i].tier), NULL);
  }
  struct bad_sums bad;
  store_bad_sums(d->store, &bad);
  one(p, "poison_units", true, "Bad units of memory found.", bad.units);
  one(p, "poison_barred_bytes", false, "Bad memory that is barred now.", bad.live_bytes);
}

/* One tenant, or all those beyond the cap. */
struct row {
  const char *name;
  struct store_usage use[STORE_POOLS_MAX];
  uint64_t refused[QUOTA_REASONS], waits;
};

static uint32_t rows_make(struct daemon *d, struct row *row)
{
  uint32_t n = store_tenants(d->store), rows = MIN_OF(n, METRICS_TENANTS);
  row[rows].name = "other"; /* also without any: a series does not come and go */
  for (uint32_t i = 0; i < n; i++) {
    struct row *r = &row[MIN_OF(i, METRICS_TENANTS)];
    if (i < METRICS_TENANTS)
      r->name = store_tenant_name(d->store, i + 1);
    for (uint32_t p = 0; p < store_pools(d->store); p++) {
      struct store_usage u;
      store_usage(d->store, p, i + 1, &u);
      r->use[p].charged += u.charged;
      r->use[p].peak += u.peak;
      r->use[p].cell_bytes += u.cell_bytes;
      r->use[p].quota.reserve += u.quota.reserve;
      r->use[p].quota.limit = i < METRICS_TENANTS ? u.quota.limit : UINT64_MAX;
    }
    LOCKED(&d->quotas.lock);
    for (unsigned k = 0; k < QUOTA_REASONS; k++)
      r->refused[k] += d->quotas.tenant[i + 1].refused[k];
    r->waits += d->quotas.tenant[i + 1].waits;
  }
  return rows + 1;
}

static void tenants(struct page *p, struct daemon *d)
{
  CLEAN_PTR struct row *row = calloc(METRICS_TENANTS + 1, sizeof *row);
  if (!row)
    return;
  uint32_t n = rows_make(d, row);
  const struct {
    const char *name, *help;
    size_t off;
  } gauges[] = {
      {"tenant_charged_bytes", "What the tenant is charged for.", offsetof(struct store_usage, charged)},
      {"tenant_peak_bytes", "The most it was charged for.", offsetof(struct store_usage, peak)},
      {"tenant_cell_bytes", "Payload of its cells.", offsetof(struct store_usage, cell_bytes)},
      {"tenant_reserve_bytes", "What is always there for it.", offsetof(struct store_usage, quota.reserve)},
      {"tenant_limit_bytes", "Where it ends; absent: nowhere.", offsetof(struct store_usage, quota.limit)},
  };
  for (size_t g = 0; g < ARRAY_LEN(gauges); g++) {
    family(p, gauges[g].name, false, gauges[g].help);
    for (uint32_t i = 0; i < n; i++)
      for (uint32_t k = 0; k < store_pools(d->store); k++) {
        uint64_t v = *(const uint64_t *)(const void *)((const char *)&row[i].use[k] + gauges[g].off);
        if (v != UINT64_MAX)
          sample(p, v, "tenant", row[i].name, "tier", dray_tier_name(store_pool(d->store, k)->tier), NULL);
      }
  }
  family(p, "tenant_refused", true, "Refusals by quota, rate and rule; items of a BATCH count each.");
  for (uint32_t i = 0; i < n; i++)
    for (unsigned k = 0; k < QUOTA_REASONS; k++)
      sample(p, row[i].refused[k], "tenant", row[i].name, "reason", dray_reason_name(DRAY_QUOTA_EXCEEDED + k), NULL);
  family(p, "tenant_waits", true, "Directives that a rate held back.");
  for (uint32_t i = 0; i < n; i++)
    sample(p, row[i].waits, "tenant", row[i].name, NULL);
}

static void rules(struct page *p, struct daemon *d)
{
  struct quotas *q = &d->quotas;
  LOCKED(&q->lock);
  quotas_look(d);
  family(p, "rule_in_force", false, "1 while the rule is in force.");
  for (uint32_t i = 0; i < q->plan.rules_n; i++)
    sample(p, q->run[i].phase == RULE_FORCE, "rule", q->plan.rule[i].name, "tier", dray_tier_name(q->plan.rule[i].tier),
           "what", quota_what_name(q->plan.rule[i].what), NULL);
  family(p, "rule_begun", true, "How often the rule came into force.");
  for (uint32_t i = 0; i < q->plan.rules_n; i++)
    sample(p, q->run[i].begun, "rule", q->plan.rule[i].name, NULL);
  one(p, "quota_version", false, "Plans taken since the worker began.", q->version);
  one(p, "reload_failures", true, "Reloads that were refused.", q->failures);
}

char *metrics_text(struct daemon *d, bool open, size_t *ret_n)
{
  char *text = NULL;
  struct page p = {.f = open_memstream(&text, ret_n), .open = open};
  if (!p.f)
    return NULL;
  family(&p, "build_info", false, "Always 1.");
  sample(&p, 1, "version", DRAY_VERSION, "node", d->cfg->node, NULL);
  uint64_t sessions = 0;
  for (uint32_t i = 0; i < d->lanes_n; i++)
    sessions += stat_read(&d->lanes[i].sessions_n);
  one(&p, "sessions", false, "Engines connected.", sessions);
  one(&p, "epoch", false, "Which incarnation of the worker.", d->epoch);
  work(&p, d);
  pools(&p, d);
  tenants(&p, d);
  rules(&p, d);
  if (open)
    fputs("# EOF\n", p.f);
  if (fclose(p.f) != 0) {
    free(text);
    return NULL;
  }
  return text;
}
