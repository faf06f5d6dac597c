/* SPDX-License-Identifier: Apache-2.0 */
/* The text of /metrics. Every series is there from the first scrape, as zero. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dray/version.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "mover/admin_peer.h"
#include "mover/admin_quota.h"
#include "mover/daemon.h"
#include "mover/metrics.h"
#include "mover/peer.h"

struct page {
  FILE *f;
  bool open; /* OpenMetrics */
  const char *name;
  bool counter;
  bool ns;           /* samples are nanoseconds and shown as seconds */
  uint64_t exemplar; /* meter_exemplar() of the next sample; 0: none */
};

/* A family begins. Its name is without _total. */
static void family(struct page *p, const char *name, bool counter, const char *help)
{
  const char *suffix = counter && !p->open ? "_total" : "";
  p->name = name;
  p->counter = counter;
  p->ns = false;
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
  fprintf(p->f, "%s %llu", sep == ',' ? "}" : "", (unsigned long long)(p->ns ? v / 1000000000u : v));
  if (p->ns)
    fprintf(p->f, ".%09u", (unsigned)(v % 1000000000u));
  if (p->open && p->exemplar) /* which request it was, and how long that took, in seconds */
    fprintf(p->f, " # {request=\"%u\"} %u.%06u", (unsigned)(p->exemplar >> 32), (unsigned)p->exemplar / 1000000u,
            (unsigned)p->exemplar % 1000000u);
  p->exemplar = 0;
  fputc('\n', p->f);
}

static void one(struct page *p, const char *name, bool counter, const char *help, uint64_t v)
{
  family(p, name, counter, help);
  sample(p, v, NULL);
}

/* The last of the lanes' exemplars that there is. */
static uint64_t exemplar_of(const struct daemon *d, size_t off, unsigned i)
{
  uint64_t v = 0;
  for (uint32_t k = 0; k < d->lanes_n && !v; k++)
    v = stat_read((const uint64_t *)(const void *)((const char *)&d->lanes[k] + off) + i);
  return v;
}

/* d: with the exemplars of reasons; NULL: without. */
static void counts(struct page *p, const struct daemon *d, const char *name, const char *help, const char *label,
                   const uint64_t *v, unsigned n, const char *(*word)(unsigned))
{
  family(p, name, true, help);
  for (unsigned i = 1; i < n; i++)
    if (strcmp(word(i), "?")) {
      p->exemplar = d ? exemplar_of(d, offsetof(struct lane, exemplar), i) : 0;
      sample(p, v[i], label, word(i), NULL);
    }
}

static void work(struct page *p, struct daemon *d)
{
  struct lane_stats s = {0};
  for (uint32_t i = 0; i < d->lanes_n; i++)
    stats_add(&s, &d->lanes[i].stats);
  counts(p, NULL, "directives", "Directives completed, by operation.", "op", s.by_op, DRAY_OP_COUNT, dray_op_name);
  counts(p, d, "completions", "Directives completed, by reason (BATCH: its worst).", "reason", s.by_reason,
         DRAY_REASON_COUNT, dray_reason_name);
  counts(p, NULL, "path_bytes", "Bytes moved, by what was in fact done.", "path", s.bytes_by_path, DRAY_PATH_COUNT,
         dray_path_name);
  counts(p, NULL, "tier_bytes", "Bytes moved, by tier.", "tier", s.bytes_by_tier, DRAY_TIER_COUNT, dray_tier_name);
  counts(p, NULL, "hits", "GET and MAP, by the tier where the bytes were.", "tier", s.hits_by_tier, DRAY_TIER_COUNT,
         dray_tier_name);
  one(p, "misses", true, "GET and MAP that found nothing.", s.misses);
  one(p, "items", true, "Items of BATCHes.", s.items);
  one(p, "demoted_cells", true, "Cells moved down the ladder to make room.", s.demoted);
  one(p, "evicted_cells", true, "Cells dropped to make room.", s.evicted);
  one(p, "relief_demoted_cells", true, "Cells that a rule in force moved down between directives.",
      stat_read(&d->relief.demoted));
  one(p, "relief_evicted_cells", true, "Cells that a rule in force dropped so.", stat_read(&d->relief.evicted));
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
  uint32_t request[QUOTA_REASONS];
  struct meter_row meter;
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
    for (uint32_t k = 0; k < d->lanes_n; k++)
      meter_add(&r->meter, &d->lanes[k].meter[i + 1]);
    LOCKED(&d->quotas.lock);
    for (unsigned k = 0; k < QUOTA_REASONS; k++)
      r->request[k] = d->quotas.tenant[i + 1].request[k];
    for (unsigned k = 0; k < QUOTA_REASONS; k++)
      r->refused[k] += d->quotas.tenant[i + 1].refused[k];
    r->waits += d->quotas.tenant[i + 1].waits;
  }
  return rows + 1;
}

/* What they moved and looked for. Local: hbm and dram of this node. */
static void access_of(struct page *p, const struct row *row, uint32_t n)
{
  static const char *const where[] = {"local", "remote"};
  family(p, "tenant_directives", true, "Directives completed.");
  for (uint32_t i = 0; i < n; i++)
    sample(p, row[i].meter.directives, "tenant", row[i].name, NULL);
  family(p, "tenant_access_bytes", true, "Bytes moved, and read through maps as ACCOUNT says.");
  for (uint32_t i = 0; i < n; i++)
    for (unsigned k = 0; k < 2; k++)
      sample(p, row[i].meter.bytes[k], "tenant", row[i].name, "where", where[k], NULL);
  family(p, "tenant_access_seconds", true, "Time that moving them took.");
  p->ns = true;
  for (uint32_t i = 0; i < n; i++)
    for (unsigned k = 0; k < 2; k++)
      sample(p, row[i].meter.ns[k], "tenant", row[i].name, "where", where[k], NULL);
  family(p, "tenant_lookups", true, "GET and MAP, by what came of it: local is what everybody wants.");
  for (uint32_t i = 0; i < n; i++) {
    const struct meter_row *m = &row[i].meter;
    const uint64_t v[] = {m->hits[0], m->hits[1], m->absent, m->evicted, m->other};
    static const char *const word[] = {"local", "remote", "ABSENT", "EVICTED", "other"};
    for (unsigned k = 0; k < ARRAY_LEN(v); k++)
      sample(p, v[k], "tenant", row[i].name, "result", word[k], NULL);
  }
}

/* How remote directives are: of all tenants together. */
static void shares(struct page *p, const struct daemon *d, const struct row *row, uint32_t n)
{
  static const char *const le[] = {"0", "0.25", "0.5", "0.75", "0.99", "+Inf"};
  uint64_t v = 0, far = 0;
  fprintf(p->f,
          "# HELP dray_remote_share Share remote of the bytes of a directive.\n# TYPE dray_remote_share histogram\n");
  p->name = "remote_share_bucket";
  p->counter = false;
  for (unsigned k = 0; k < METER_SHARES; k++) {
    for (uint32_t i = 0; i < n; i++)
      v += row[i].meter.shares[k];
    uint64_t e = exemplar_of(d, offsetof(struct lane, exemplar_share), k);
    fprintf(p->f, "dray_remote_share_bucket{le=\"%s\"} %llu", le[k], (unsigned long long)v);
    if (p->open && e) { /* its value is one that is in the bucket */
      static const char *const at[] = {"0", "0.25", "0.5", "0.75", "0.99", "1"};
      fprintf(p->f, " # {request=\"%u\"} %s", (unsigned)(e >> 32), at[k]);
    }
    fputc('\n', p->f);
  }
  for (uint32_t i = 0; i < n; i++) /* the sum in steps of the buckets' upper ends: what is between is not kept */
    far += row[i].meter.shares[1] * 25 + row[i].meter.shares[2] * 50 + row[i].meter.shares[3] * 75 +
           row[i].meter.shares[4] * 99 + row[i].meter.shares[5] * 100;
  fprintf(p->f, "dray_remote_share_sum %llu.%02llu\ndray_remote_share_count %llu\n", (unsigned long long)(far / 100),
          (unsigned long long)(far % 100), (unsigned long long)v);
}

static void revoked(struct page *p, struct daemon *d)
{
  one(p, "revoked_leases", true, "Leases that engines were asked to give back.", stat_read(&d->revokes.asked));
  one(p, "revoked_sessions", true, "Sessions ended because one was not given back.", stat_read(&d->revokes.sessions));
  one(p, "held_sessions", false, "Sessions that are over and whose process lives: what they leased is held.",
      stat_read(&d->revokes.held_n));
  one(p, "held_bytes", false, "Bytes of cells held so.", stat_read(&d->revokes.held_bytes));
}

/* Those we ask: a series for each peer of each tier. */
static void peers(struct page *p, struct daemon *d)
{
  struct peer_sample {
    const char *tier, *peer;
    struct dev_paths is;
  };
  static const struct {
    const char *name, *help, *label, *word;
    size_t off;
    bool counter, ns, narrow;
  } is[] = {
#define AT(field) offsetof(struct dev_paths, field)
      {"peer_paths_open", "Ways to the peer that are open.", NULL, NULL, AT(open), false, false, true},
      {"peer_paths", "Ways to the peer.", NULL, NULL, AT(all), false, false, true},
      {"peer_epoch", "Which incarnation of the peer spoke last.", NULL, NULL, AT(epoch), false, false, true},
      {"peer_dials", "Connections begun.", NULL, NULL, AT(dials), true, false, false},
      {"peer_lost", "How often it went away.", NULL, NULL, AT(lost), true, false, false},
      {"peer_questions", "Questions it answered.", NULL, NULL, AT(asked), true, false, false},
      {"peer_answer_seconds", "Running mean of how long an answer takes.", NULL, NULL, AT(answer_ns), false, true,
       false},
      {"peer_transfers", "Transfers that arrived.", "direction", "read", AT(ops[0]), true, false, false},
      {"peer_transfers", NULL, "direction", "write", AT(ops[1]), true, false, false},
      {"peer_bytes", "Bytes of them.", "direction", "read", AT(bytes[0]), true, false, false},
      {"peer_bytes", NULL, "direction", "write", AT(bytes[1]), true, false, false},
      {"peer_failed", "Transfers that did not.", NULL, NULL, AT(failed), true, false, false},
      {"peer_latency_seconds", "Running mean of a transfer.", NULL, NULL, AT(latency_ns), false, true, false},
      {"peer_bytes_per_second", "Running mean while a lane is busy.", NULL, NULL, AT(bytes_per_s), false, false, false},
#undef AT
  };
  CLEAN_PTR struct peer_sample *at = calloc(CONFIG_DEVS_MAX, sizeof *at);
  uint32_t n = 0;
  for (uint32_t i = 0; at && i < d->devs_n; i++)
    if (d->dev[i]->cold->paths(d->dev[i], &at[n].is) == 0) {
      const struct config_peer *c = config_dev_peer(d->cfg, i);
      at[n].tier = config_dev_tier(d->cfg, i)->name;
      at[n++].peer = c ? c->name : "?";
    }
  family(p, "peer_up", false, "1 while the peer answers.");
  for (uint32_t i = 0; i < n; i++)
    sample(p, at[i].is.reach == DEV_OPEN, "tier", at[i].tier, "peer", at[i].peer, NULL);
  for (size_t k = 0; k < ARRAY_LEN(is); k++) {
    if (is[k].help)
      family(p, is[k].name, is[k].counter, is[k].help);
    p->ns = is[k].ns;
    for (uint32_t i = 0; i < n; i++) {
      const char *v = (const char *)&at[i].is + is[k].off;
      sample(p, is[k].narrow ? *(const uint32_t *)(const void *)v : *(const uint64_t *)(const void *)v, "tier",
             at[i].tier, "peer", at[i].peer, is[k].label, is[k].word, NULL);
    }
  }
  struct peers_served s;
  if (!peers_served(d, &s))
    s = (struct peers_served){.peers = 0};
  one(p, "served_peers", false, "Peers that ask us.", s.peers);
  one(p, "served_connections", false, "Their connections.", s.connections);
  one(p, "served_refused", true, "Connections that were refused.", s.refused);
  one(p, "served_lent_bytes", false, "Memory lent to them.", s.lent_bytes);
}

static void ledger(struct page *p, struct daemon *d)
{
  const struct usage *u = &d->usage;
  one(p, "usage_rows", true, "Rows that the ledger's database took.", stat_read(&u->written));
  one(p, "usage_dropped", true, "Directives that are missing in the ledger: its ring was full.", usage_dropped(d));
  one(p, "usage_lost", true, "Rows that the database refused.", stat_read(&u->lost));
  one(p, "usage_broken", false, "1 while the database refuses rows.", stat_read(&u->broken));
  one(p, "usage_line_sent", true, "Rows sent as line protocol.", stat_read(&u->line_sent));
  one(p, "usage_line_lost", true, "Rows that could not be sent so.", stat_read(&u->line_lost));
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
    for (unsigned k = 0; k < QUOTA_REASONS; k++) {
      p->exemplar = meter_exemplar(row[i].request[k], 0);
      sample(p, row[i].refused[k], "tenant", row[i].name, "reason", dray_reason_name(DRAY_QUOTA_EXCEEDED + k), NULL);
    }
  family(p, "tenant_waits", true, "Directives that a rate held back.");
  for (uint32_t i = 0; i < n; i++)
    sample(p, row[i].waits, "tenant", row[i].name, NULL);
  access_of(p, row, n);
  shares(p, d, row, n);
}

static void rules(struct page *p, struct daemon *d)
{
  uint64_t differs = admin_differs_lately(d); /* takes the lock itself */
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
  one(p, "config_differences", false, "Differences of the file, what is in force and what the kernel shows.", differs);
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
  ledger(&p, d);
  revoked(&p, d);
  peers(&p, d);
  if (open)
    fputs("# EOF\n", p.f);
  if (fclose(p.f) != 0) {
    free(text);
    return NULL;
  }
  return text;
}
