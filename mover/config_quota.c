/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/config_quota.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "mover/config_diff.h"
#include "mover/config_file.h"

#define TEXT(type, key, member)                                                                                        \
  CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct type, member, 1, 256)

static const cyaml_schema_field_t quota_fields[] = {
    TEXT(file_quota, "tenant", tenant),   TEXT(file_quota, "tier", tier),
    TEXT(file_quota, "reserve", reserve), TEXT(file_quota, "limit", limit),
    TEXT(file_quota, "weight", weight),   TEXT(file_quota, "over", over),
    TEXT(file_quota, "unit", unit),       CYAML_FIELD_END,
};
static const cyaml_schema_field_t rate_fields[] = {
    TEXT(file_rate, "tenant", tenant),         TEXT(file_rate, "bytes", bytes), TEXT(file_rate, "burst", burst),
    TEXT(file_rate, "directives", directives), TEXT(file_rate, "over", over),   CYAML_FIELD_END,
};
static const cyaml_schema_field_t rule_fields[] = {
    TEXT(file_rule, "name", name),   TEXT(file_rule, "tier", tier),
    TEXT(file_rule, "when", when),   TEXT(file_rule, "until", until),
    TEXT(file_rule, "class", klass), TEXT(file_rule, "what", what),
    TEXT(file_rule, "rate", rate),   TEXT(file_rule, "return", back),
    TEXT(file_rule, "of", of),       CYAML_FIELD_END,
};
const cyaml_schema_value_t config_quota_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct file_quota, quota_fields)};
const cyaml_schema_value_t config_rate_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct file_rate, rate_fields)};
const cyaml_schema_value_t config_rule_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct file_rule, rule_fields)};

/* A size such as 64MiB into *ret; NULL leaves it. */
static int size(const char *who, const char *key, const char *text, uint64_t *ret, struct err *e)
{
  uint64_t v;
  if (!text)
    return 0;
  int r = units_bytes(text, &v);
  if (r < 0 || v > INT64_MAX)
    return err_set(e, -EINVAL, "%s: %s: '%.60s' is not a size such as 64MiB%s", who, key, text,
                   r == -ERANGE || r == 0 ? " (too large)" : "");
  *ret = v;
  return 0;
}

static int count(const char *who, const char *key, const char *text, uint64_t max, uint64_t *ret, struct err *e)
{
  if (text && units_count(text, 1, max, ret) < 0)
    return err_set(e, -EINVAL, "%s: %s: '%.60s' is not a whole number in 1..%llu", who, key, text,
                   (unsigned long long)max);
  return 0;
}

/* "90%" as thousandths. */
static int percent(const char *who, const char *key, const char *text, uint32_t *ret, struct err *e)
{
  char digits[8] = "";
  uint64_t v = 0;
  size_t n = text ? strlen(text) : 0;
  if (n > 1 && n < sizeof digits && text[n - 1] == '%') {
    memcpy(digits, text, n - 1);
    if (units_count(digits, 1, 100, &v) == 0) {
      *ret = (uint32_t)v * 10;
      return 0;
    }
  }
  return err_set(e, -EINVAL, "%s: %s: need 1%%..100%%, have '%.60s'", who, key, text ? text : "nothing");
}

static int word(const char *who, const char *key, const char *text, const char *const *words, uint8_t *ret,
                struct err *e)
{
  char all[80] = "";
  for (uint8_t i = 0; words[i]; i++) {
    if (text && !strcmp(words[i], text)) {
      *ret = i;
      return 0;
    }
    size_t n = strlen(all);
    snprintf(all + n, sizeof all - n, "%s%s", words[i][0] && n ? " " : "", words[i]);
  }
  return err_set(e, -EINVAL, "%s: %s: '%.60s' is none of %s", who, key, text ? text : "", all);
}

static int tenant(const char *section, const char *name, char ret_name[QUOTA_TENANT_MAX], struct err *e)
{
  if (!name || strlen(name) >= QUOTA_TENANT_MAX)
    return err_set(e, -EINVAL, "config: %s: tenant: need a name of 1 to %d bytes", section, QUOTA_TENANT_MAX - 1);
  snprintf(ret_name, QUOTA_TENANT_MAX, "%s", name);
  return 0;
}

static int tier(const char *who, const char *name, uint8_t *ret_tier, struct err *e)
{
  *ret_tier = (uint8_t)(name ? dray_tier_by_name(name) : 0);
  return *ret_tier ? 0
                   : err_set(e, -EINVAL, "%s: tier: '%.60s' is none of hbm dram numa_far cxl remote_dram disk remote",
                             who, name ? name : "");
}

static const char *const whats[] = {"", "refuse", "slow", "demote", "evict", NULL};

/* unit: session or request. */
static int add_budget(struct config *c, const struct file_quota *f, uint8_t unit, struct err *e)
{
  struct quota_plan *p = &c->quota;
  struct quota_budget b = {.unit = unit};
  char who[128];
  if (p->budgets_n == QUOTA_BUDGETS_MAX)
    return err_set(e, -EINVAL, "config: quotas: more than %d per session or request", QUOTA_BUDGETS_MAX);
  int r = tenant("quotas", f->tenant, b.tenant, e);
  snprintf(who, sizeof who, "config: quota of %s per %s", b.tenant, f->unit);
  if (r == 0 && (f->tier || f->reserve || f->weight || f->over || !f->limit))
    r = err_set(e, -EINVAL,
                "%s: need a limit, and no tier, reserve, weight or over: it is about bytes put, wherever they are",
                who);
  r = r ? r : size(who, "limit", f->limit, &b.limit, e);
  if (r == 0)
    p->budget[p->budgets_n++] = b;
  return r;
}

int config_add_quota(struct config *c, const struct file_quota *f, struct err *e)
{
  struct quota_plan *p = &c->quota;
  struct quota_grant g = {.limit = UINT64_MAX, .weight = 1, .over = QUOTA_REFUSE};
  char who[128];
  uint64_t weight = 1;
  if (p->grants_n == QUOTA_GRANTS_MAX)
    return err_set(e, -EINVAL, "config: quotas: more than %d", QUOTA_GRANTS_MAX);
  static const char *const units[] = {"", "tenant", "session", "request", NULL};
  uint8_t unit = QUOTA_TENANT;
  int r = f->unit ? word("config: quotas", "unit", f->unit, units, &unit, e) : 0;
  if (r == 0 && unit != QUOTA_TENANT)
    return add_budget(c, f, unit, e);
  r = r ? r : tenant("quotas", f->tenant, g.tenant, e);
  snprintf(who, sizeof who, "config: quota of %s", g.tenant);
  r = r ? r : tier(who, f->tier, &g.tier, e);
  r = r ? r : size(who, "reserve", f->reserve, &g.reserve, e);
  r = r ? r : size(who, "limit", f->limit, &g.limit, e);
  r = r ? r : count(who, "weight", f->weight, 1000, &weight, e);
  r = r || !f->over ? r : word(who, "over", f->over, whats, &g.over, e);
  if (r == 0 && g.over == QUOTA_SLOW)
    r = err_set(e, -EINVAL, "%s: over: need refuse, demote or evict", who);
  g.weight = (uint32_t)weight;
  if (r == 0)
    p->grant[p->grants_n++] = g;
  return r;
}

int config_add_rate(struct config *c, const struct file_rate *f, struct err *e)
{
  static const char *const overs[] = {"wait", "refuse", NULL};
  struct quota_plan *p = &c->quota;
  struct quota_rate q = {.bytes = 0};
  uint8_t over = 0;
  char who[128];
  if (p->rates_n == QUOTA_RATES_MAX)
    return err_set(e, -EINVAL, "config: rates: more than %d", QUOTA_RATES_MAX);
  int r = tenant("rates", f->tenant, q.tenant, e);
  snprintf(who, sizeof who, "config: rate of %s", q.tenant);
  r = r ? r : size(who, "bytes", f->bytes, &q.bytes, e);
  q.bytes_burst = q.bytes / 10;
  r = r ? r : size(who, "burst", f->burst, &q.bytes_burst, e);
  r = r ? r : count(who, "directives", f->directives, 1000000000, &q.directives, e);
  q.directives_burst = q.directives / 10;
  r = r || !f->over ? r : word(who, "over", f->over, overs, &over, e);
  q.refuse = over == 1;
  if (r == 0)
    p->rate[p->rates_n++] = q;
  return r;
}

int config_add_rule(struct config *c, const struct file_rule *f, struct err *e)
{
  static const char *const classes[] = {"normal", "latency", "bulk", "any", NULL};
  static const char *const ofs[] = {"", "fill", "bandwidth", NULL};
  struct quota_plan *p = &c->quota;
  struct quota_rule q = {.klass = 3, .of = RULE_OF_FILL};
  uint64_t ns = 0;
  char who[128];
  if (p->rules_n == QUOTA_RULES_MAX)
    return err_set(e, -EINVAL, "config: rules: more than %d", QUOTA_RULES_MAX);
  if (!f->name || strlen(f->name) >= sizeof q.name)
    return err_set(e, -EINVAL, "config: rules: name: need 1 to %zu bytes", sizeof q.name - 1);
  snprintf(q.name, sizeof q.name, "%s", f->name);
  snprintf(who, sizeof who, "config: rule %s", q.name);
  int r = tier(who, f->tier, &q.tier, e);
  r = r ? r : percent(who, "when", f->when, &q.when, e);
  r = r ? r : percent(who, "until", f->until, &q.until, e);
  r = r || !f->klass ? r : word(who, "class", f->klass, classes, &q.klass, e);
  r = r ? r : word(who, "what", f->what, whats, &q.what, e);
  r = r || !f->of ? r : word(who, "of", f->of, ofs, &q.of, e);
  r = r ? r : size(who, "rate", f->rate, &q.rate, e);
  if (r == 0 && f->back && (units_time(f->back, &ns) < 0 || ns > 3600000000000ull))
    r = err_set(e, -EINVAL, "%s: return: '%.60s' is not a time up to 3600s", who, f->back);
  q.return_ms = (uint32_t)(ns / 1000000u);
  if (q.klass == 3)
    q.klass = QUOTA_ANY_CLASS;
  if (r == 0)
    p->rule[p->rules_n++] = q;
  return r;
}

/* "uid1000" is a tenant as soon as somebody comes, when unknown uids are let in. */
static bool tenant_known(const struct config *c, const char *name)
{
  uint64_t uid;
  for (uint32_t i = 0; i < c->tenants_n; i++)
    if (!strcmp(c->tenant[i].name, name))
      return true;
  return c->auto_tenants && !strncmp(name, "uid", 3) && units_count(name + 3, 0, UINT32_MAX - 1, &uid) == 0;
}

uint8_t config_bandwidth(const struct config *c)
{
  uint8_t known = 0;
  for (unsigned t = 0; t < DRAY_TIER_COUNT; t++)
    if (c->policy.profiles.tier[t].bandwidth_mbps)
      known |= (uint8_t)(1u << t);
  return known;
}

int config_quota_check(const struct config *c, const struct quota_plan *p, struct err *e)
{
  uint64_t capacity[DRAY_TIER_COUNT] = {0};
  uint8_t colder = 0, has = 0;
  for (uint32_t i = 0; i < p->grants_n + p->rates_n; i++) {
    const char *name = i < p->grants_n ? p->grant[i].tenant : p->rate[i - p->grants_n].tenant;
    if (!tenant_known(c, name))
      return err_set(e, -EINVAL, "config: line %u: %s of %s: there is no such tenant",
                     i < p->grants_n ? p->grant[i].line : p->rate[i - p->grants_n].line,
                     i < p->grants_n ? "quota" : "rate", name);
  }
  for (uint32_t i = 0; i < p->budgets_n; i++)
    if (!tenant_known(c, p->budget[i].tenant))
      return err_set(e, -EINVAL, "config: line %u: quota of %s: there is no such tenant", p->budget[i].line,
                     p->budget[i].tenant);
  for (uint32_t i = 0; i < c->tiers_n; i++) {
    unsigned t = dray_tier_by_name(c->tier[i].name);
    capacity[t] = c->tier[i].capacity;
    has |= (uint8_t)(1u << t);
    for (uint32_t k = 0; k < c->tiers_n; k++)
      if (dray_tier_by_name(c->tier[k].name) > t)
        colder |= (uint8_t)(1u << t);
  }
  for (uint32_t i = 0; i < p->grants_n + p->rules_n; i++) {
    unsigned t = i < p->grants_n ? p->grant[i].tier : p->rule[i - p->grants_n].tier;
    if (!(has >> t & 1))
      return err_set(e, -EINVAL, "config: %s %s: tier: this mover has no %s", i < p->grants_n ? "quota of" : "rule",
                     i < p->grants_n ? p->grant[i].tenant : p->rule[i - p->grants_n].name, dray_tier_name(t));
  }
  struct err inner = {{0}};
  int r = quota_plan_check(p, capacity, colder, config_bandwidth(c), &inner);
  return r < 0 ? err_set(e, r, "config: %.480s", inner.text) : 0;
}

int config_quota_reload(const struct config *c, struct quota_plan *ret_plan, struct config_diff *ret_diff,
                        struct err *e)
{
  if (!c->file)
    return err_set(e, -ENOENT, "config: no file was given at the start (drayd --config FILE): nothing to read again");
  CLEAN_PTR struct config *now = malloc(sizeof *now);
  struct err unused = {{0}};
  if (!now)
    return -ENOMEM;
  int r = config_default(now, c->dir, &unused);
  r = r ? r : config_load(now, c->file, e);
  r = r ? r : config_quota_check(c, &now->quota, e);
  if (r == 0)
    *ret_plan = now->quota;
  if (r == 0 && ret_diff) {
    *ret_diff = (struct config_diff){.n = 0};
    if (c->as_file)
      config_diff_file(c->as_file, now, ret_diff);
    config_diff_kernel(now, "", ret_diff);
  }
  config_free(now);
  return r;
}
