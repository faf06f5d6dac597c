/* SPDX-License-Identifier: Apache-2.0 */
/* What the operator is told about quotas: usage by tenant and tier, refusals by reason, rules and which is in force. */
#include <stdlib.h>
#include <string.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "mover/admin_quota.h"
#include "mover/config_diff.h"
#include "mover/daemon.h"

#define DIFFERS_NS 30000000000u /* a scraper reads the file no more often */

static void set_u64(json_t *o, const char *key, uint64_t v)
{
  json_object_set_new(o, key, json_integer((json_int_t)MIN_OF(v, (uint64_t)INT64_MAX)));
}
/* UINT64_MAX is no limit. */
static void set_limit(json_t *o, const char *key, uint64_t v)
{
  json_object_set_new(o, key, v == UINT64_MAX ? json_null() : json_integer((json_int_t)MIN_OF(v, (uint64_t)INT64_MAX)));
}

static json_t *rule_row(struct daemon *d, uint32_t i)
{
  const struct quota_rule *r = &d->quotas.plan.rule[i];
  const struct rule_run *run = &d->quotas.run[i];
  static const char *const classes[] = {"normal", "latency", "bulk"};
  json_t *o = json_object();
  set_u64(o, "rule", DRAY_RULE_FIRST + i);
  json_object_set_new(o, "name", json_string(r->name));
  json_object_set_new(o, "tier", json_string(dray_tier_name(r->tier)));
  json_object_set_new(o, "what", json_string(quota_what_name(r->what)));
  json_object_set_new(o, "class", json_string(r->klass < ARRAY_LEN(classes) ? classes[r->klass] : "any"));
  set_u64(o, "when_percent", r->when / 10);
  set_u64(o, "until_percent", r->until / 10);
  set_u64(o, "rate", r->rate);
  set_u64(o, "return_ms", r->return_ms);
  json_object_set_new(o, "of", json_string(r->of == RULE_OF_BANDWIDTH ? "bandwidth" : "fill"));
  set_u64(o, "line", r->line);
  json_object_set_new(o, "phase", json_string(rule_phase_name(run->phase)));
  set_u64(o, "begun", run->begun);
  set_u64(o, "refused", run->refused);
  return o;
}

void admin_rules(struct daemon *d, json_t *o)
{
  json_t *rules = json_array();
  LOCKED(&d->quotas.lock);
  quotas_look(d);
  for (uint32_t i = 0; i < d->quotas.plan.rules_n; i++)
    json_array_append_new(rules, rule_row(d, i));
  json_object_set_new(o, "rules", rules);
  set_u64(o, "quota_version", d->quotas.version);
  set_u64(o, "reload_failures", d->quotas.failures);
  json_object_set_new(o, "reload_error", d->quotas.failure[0] ? json_string(d->quotas.failure) : json_null());
}

static const char *rule_word(const struct daemon *d, uint32_t rule)
{
  if (rule == DRAY_RULE_LIMIT)
    return "limit";
  if (rule == DRAY_RULE_RATE)
    return "rate";
  return rule >= DRAY_RULE_FIRST && rule - DRAY_RULE_FIRST < d->quotas.plan.rules_n
             ? d->quotas.plan.rule[rule - DRAY_RULE_FIRST].name
             : "";
}

json_t *admin_tenants(struct daemon *d, json_t *q)
{
  (void)q;
  json_t *o = json_object(), *list = json_array();
  for (uint32_t i = 1, n = store_tenants(d->store); i <= n; i++) {
    json_t *t = json_object(), *tiers = json_array(), *refused = json_object();
    json_object_set_new(t, "tenant", json_string(store_tenant_name(d->store, i)));
    for (uint32_t p = 0; p < store_pools(d->store); p++) {
      struct store_usage u;
      json_t *row = json_object();
      store_usage(d->store, p, i, &u);
      json_object_set_new(row, "tier", json_string(dray_tier_name(store_pool(d->store, p)->tier)));
      set_u64(row, "charged", u.charged);
      set_u64(row, "peak", u.peak);
      set_u64(row, "cell_bytes", u.cell_bytes);
      set_u64(row, "reserve", u.quota.reserve);
      set_limit(row, "limit", u.quota.limit);
      set_u64(row, "weight", u.quota.weight);
      json_object_set_new(row, "over", json_string(quota_what_name(quotas_over(d, p, i))));
      json_array_append_new(tiers, row);
    }
    json_object_set_new(t, "tiers", tiers);
    LOCKED(&d->quotas.lock);
    const struct quota_tenant *qt = &d->quotas.tenant[i];
    for (unsigned r = 0; r < QUOTA_REASONS; r++)
      set_u64(refused, dray_reason_name(DRAY_QUOTA_EXCEEDED + r), qt->refused[r]);
    json_object_set_new(t, "refused", refused);
    json_object_set_new(t, "last_rule", json_string(rule_word(d, qt->last_rule)));
    set_u64(t, "waits", qt->waits);
    const struct quota_rate *rate = qt->rate ? &d->quotas.plan.rate[qt->rate - 1] : NULL;
    set_u64(t, "rate_bytes", rate ? rate->bytes : 0);
    set_u64(t, "rate_directives", rate ? rate->directives : 0);
    json_array_append_new(list, t);
  }
  json_object_set_new(o, "tenants", list);
  admin_rules(d, o);
  return o;
}

json_t *admin_reload(struct daemon *d, json_t *q)
{
  (void)q;
  struct err e = {{0}};
  json_t *o = json_object();
  int r = quotas_reload(d, &e);
  json_object_set_new(o, "good", json_boolean(r == 0));
  json_object_set_new(o, "text", json_string(r == 0 ? "" : e.text));
  admin_rules(d, o);
  return o;
}

/* Entries of one section that the other does not have just so: "+ ..." in the file alone, "- ..." in force alone. */
static void differs(json_t *list, const char *section, const char *mark, const void *a, uint32_t n, const void *b,
                    uint32_t m, size_t size, size_t compared)
{
  for (uint32_t i = 0; i < n; i++) {
    const char *row = (const char *)a + i * size; /* each begins with its name */
    bool same = false;
    for (uint32_t k = 0; k < m && !same; k++)
      same = !memcmp(row, (const char *)b + k * size, compared);
    if (!same)
      json_array_append_new(list, json_sprintf("%s %s %s", mark, section, row));
  }
}

static void plan_differs(json_t *list, const struct quota_plan *now, const struct quota_plan *file)
{
  const size_t g = sizeof now->grant[0], t = sizeof now->rate[0], u = sizeof now->rule[0];
  /* not the lines: a comment above is no difference */
  const size_t gc = offsetof(struct quota_grant, line), tc = offsetof(struct quota_rate, line),
               uc = offsetof(struct quota_rule, line);
  differs(list, "quota", "-", now->grant, now->grants_n, file->grant, file->grants_n, g, gc);
  differs(list, "quota", "+", file->grant, file->grants_n, now->grant, now->grants_n, g, gc);
  const size_t b = sizeof now->budget[0], bc = offsetof(struct quota_budget, line);
  differs(list, "budget", "-", now->budget, now->budgets_n, file->budget, file->budgets_n, b, bc);
  differs(list, "budget", "+", file->budget, file->budgets_n, now->budget, now->budgets_n, b, bc);
  differs(list, "rate", "-", now->rate, now->rates_n, file->rate, file->rates_n, t, tc);
  differs(list, "rate", "+", file->rate, file->rates_n, now->rate, now->rates_n, t, tc);
  differs(list, "rule", "-", now->rule, now->rules_n, file->rule, file->rules_n, u, uc);
  differs(list, "rule", "+", file->rule, file->rules_n, now->rule, now->rules_n, u, uc);
}

uint64_t admin_differs(struct daemon *d, json_t *list, struct err *e)
{
  json_t *quotas = json_array(), *line;
  CLEAN_PTR struct quota_plan *file = calloc(1, sizeof *file);
  CLEAN_PTR struct config_diff *diff = calloc(1, sizeof *diff);
  int r = file && diff ? quotas_read(d, file, diff, e) : err_set(e, -ENOMEM, "no memory to read it");
  if (r == 0) {
    LOCKED(&d->quotas.lock);
    plan_differs(quotas, &d->quotas.plan, file);
  }
  uint64_t n = r < 0 ? 1 : json_array_size(quotas) + diff->n;
  size_t i;
  json_array_foreach(quotas, i, line) json_array_append(list, line);
  json_decref(quotas);
  if (r == 0) {
    diff->text[sizeof diff->text - 1] = 0;
    for (char *p = diff->text, *end; (end = strchr(p, '\n')); p = end + 1)
      json_array_append_new(list, json_stringn(p, (size_t)(end - p)));
  }
  stat_set(&d->differs, n);
  stat_set(&d->differs_ns, daemon_now_ns());
  return n;
}

json_t *admin_check(struct daemon *d, json_t *q)
{
  (void)q;
  struct err e = {{0}};
  json_t *o = json_object(), *list = json_array();
  uint64_t n = admin_differs(d, list, &e);
  json_object_set_new(o, "good", json_boolean(!e.text[0]));
  json_object_set_new(o, "text", json_string(e.text));
  json_object_set_new(o, "differs", list);
  set_u64(o, "differences", e.text[0] ? 0 : n);
  return o;
}

uint64_t admin_differs_lately(struct daemon *d)
{
  struct err e = {{0}};
  if (!d->cfg->file)
    return 0;
  if (stat_read(&d->differs_ns) && daemon_now_ns() - stat_read(&d->differs_ns) < DIFFERS_NS)
    return stat_read(&d->differs);
  json_t *list = json_array();
  uint64_t n = admin_differs(d, list, &e);
  json_decref(list);
  return n;
}
