/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/quota.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "mover/daemon.h"
#include "mover/keeper.h"
#include "mover/lane.h"
#include "mover/session.h"

#define LOOK_NS 1000000u  /* fills are looked at no more often than this */
#define BAND_NS 50000000u /* the least over which bandwidth is measured */

int quotas_init(struct daemon *d)
{
  struct quotas *q = &d->quotas;
  pthread_mutex_init(&q->lock, NULL);
  q->tenant = calloc(QUOTA_TENANTS, sizeof *q->tenant);
  q->over = calloc(STORE_POOLS_MAX, sizeof *q->over);
  return q->tenant && q->over ? 0 : -ENOMEM;
}

void quotas_deinit(struct daemon *d)
{
  free(d->quotas.tenant);
  free(d->quotas.over);
  d->quotas.tenant = NULL;
  d->quotas.over = NULL;
}

/* The lock is held; the plan has been checked and every name has an id. */
static void plan_install(struct daemon *d, const struct quota_plan *plan, struct store_quota *list)
{
  struct quotas *q = &d->quotas;
  q->plan = *plan;
  q->version++;
  q->looked_ns = 0;
  for (uint32_t i = 0; i < QUOTA_TENANTS; i++)
    q->tenant[i].rate = q->tenant[i].budget[0] = q->tenant[i].budget[1] = 0;
  for (uint32_t i = 0; i < plan->budgets_n; i++)
    q->tenant[store_tenant(d->store, plan->budget[i].tenant)].budget[plan->budget[i].unit == QUOTA_REQUEST] =
        (uint16_t)(i + 1);
  for (uint32_t i = 0; i < plan->rates_n; i++)
    q->tenant[store_tenant(d->store, plan->rate[i].tenant)].rate = (uint16_t)(i + 1);
  for (uint32_t i = 0; i < QUOTA_RULES_MAX; i++)
    q->run[i] = (struct rule_run){.phase = RULE_IDLE};
  for (uint32_t p = 0; p < store_pools(d->store); p++) {
    uint32_t n = 0;
    memset(q->over[p], QUOTA_REFUSE, sizeof q->over[p]);
    for (uint32_t i = 0; i < plan->grants_n; i++) {
      const struct quota_grant *g = &plan->grant[i];
      if (g->tier != store_pool(d->store, p)->tier)
        continue;
      list[n] = (struct store_quota){
          .reserve = g->reserve, .limit = g->limit, .tenant = store_tenant(d->store, g->tenant), .weight = g->weight};
      q->over[p][list[n].tenant] = g->over;
      n++;
    }
    store_quota_set(d->store, p, list, n);
  }
  stat_set(&q->active, plan->rates_n || plan->rules_n);
  stat_set(&q->budgets, plan->budgets_n);
}

static int plan_check(struct daemon *d, const struct quota_plan *plan, struct err *e)
{
  uint64_t capacity[DRAY_TIER_COUNT] = {0};
  uint8_t colder = 0;
  uint32_t pools = store_pools(d->store);
  for (uint32_t p = 0; p < pools; p++) {
    capacity[store_pool(d->store, p)->tier] = store_pool(d->store, p)->capacity;
    if (p + 1 < pools)
      colder |= (uint8_t)(1u << store_pool(d->store, p)->tier);
  }
  return quota_plan_check(plan, capacity, colder, config_bandwidth(d->cfg), e);
}

int quotas_apply(struct daemon *d, const struct quota_plan *plan, struct err *e)
{
  int r = plan_check(d, plan, e);
  if (r < 0)
    return r;
  CLEAN_PTR struct store_quota *list = calloc(QUOTA_GRANTS_MAX, sizeof *list);
  if (!list)
    return -ENOMEM;
  for (uint32_t i = 0; i < plan->budgets_n; i++)
    if (!store_tenant(d->store, plan->budget[i].tenant))
      return err_set(e, -ENOSPC, "quota of %s: this mover has known as many tenants as it can; restart it",
                     plan->budget[i].tenant);
  for (uint32_t i = 0; i < plan->grants_n + plan->rates_n; i++) {
    const char *name = i < plan->grants_n ? plan->grant[i].tenant : plan->rate[i - plan->grants_n].tenant;
    if (!store_tenant(d->store, name))
      return err_set(e, -ENOSPC, "quota of %s: this mover has known as many tenants as it can; restart it", name);
  }
  LOCKED(&d->quotas.lock);
  plan_install(d, plan, list);
  return 0;
}

int quotas_read(struct daemon *d, struct quota_plan *ret_plan, struct config_diff *ret_diff, struct err *e)
{
  int r = keeper_read(d, ret_plan, ret_diff, e);
  r = r ? r : plan_check(d, ret_plan, e);
  if (r < 0 && !e->text[0])
    err_set(e, r, "the file was not read: %s", strerror(-r));
  return r;
}

int quotas_reload(struct daemon *d, struct err *e)
{
  struct quotas *q = &d->quotas;
  CLEAN_PTR struct quota_plan *plan = calloc(1, sizeof *plan);
  int r = plan ? quotas_read(d, plan, NULL, e) : err_set(e, -ENOMEM, "no memory to read it");
  r = r ? r : quotas_apply(d, plan, e);
  if (r == 0)
    keeper_stands(d);
  pthread_mutex_lock(&q->lock);
  q->failures += r < 0;
  snprintf(q->failure, sizeof q->failure, "%.390s", r < 0 ? e->text : "");
  pthread_mutex_unlock(&q->lock);
  if (r < 0)
    log_line(&d->log, LOG_ERROR, "reload: %s; what stood stands", e->text);
  else
    log_line(&d->log, LOG_INFO, "reload: %u quotas, %u rates, %u rules stand now", plan->grants_n, plan->rates_n,
             plan->rules_n);
  return r;
}

/* ---- rules. The lock is held ---- */

/* Shares of the tiers' bandwidth, over at least a window. ACCOUNT's word is not in it: it would bar others. */
static void bandwidth_look(struct daemon *d, uint64_t now_ns)
{
  struct quotas *q = &d->quotas;
  uint64_t passed = now_ns - q->band_ns;
  if (q->band_ns && passed < BAND_NS)
    return;
  for (unsigned t = 1; t < DRAY_TIER_COUNT; t++) {
    uint64_t sum = 0, mbps = d->cfg->policy.profiles.tier[t].bandwidth_mbps;
    for (uint32_t i = 0; i < d->lanes_n; i++)
      sum += stat_read(&d->lanes[i].moved[t]);
    unsigned __int128 most = (unsigned __int128)mbps * passed / 1000u; /* bytes: MB/s times ns */
    if (q->band_ns && most)
      q->band[t] = saturate_u32((uint64_t)((unsigned __int128)(sum - q->band_moved[t]) * 1000u / most));
    q->band_moved[t] = sum;
  }
  q->band_ns = now_ns;
}

static uint32_t rule_measure(struct daemon *d, const struct quota_rule *r, uint32_t pool)
{
  return r->of == RULE_OF_BANDWIDTH ? d->quotas.band[r->tier] : store_pool_fill(d->store, pool);
}

void quotas_look(struct daemon *d)
{
  uint64_t now_ns = daemon_now_ns();
  struct quotas *q = &d->quotas;
  if (q->looked_ns && now_ns - q->looked_ns < LOOK_NS)
    return;
  q->looked_ns = now_ns;
  bandwidth_look(d, now_ns);
  for (uint32_t i = 0; i < q->plan.rules_n; i++) {
    const struct quota_rule *r = &q->plan.rule[i];
    struct rule_run *run = &q->run[i];
    int32_t pool = d->pool_of_tier[r->tier];
    if (pool < 0)
      continue;
    unsigned next =
        rule_next(r, run->phase, rule_measure(d, r, (uint32_t)pool), run->hits_n > 0, run->since_ns, now_ns);
    if (next == run->phase)
      continue;
    run->phase = (uint8_t)next;
    run->since_ns = now_ns;
    run->begun += next == RULE_FORCE;
    if (next == RULE_FORCE && (r->what == QUOTA_DEMOTE || r->what == QUOTA_EVICT))
      relief_call(d);
    if (next == RULE_IDLE)
      run->hits_n = 0;
    log_line(&d->log, LOG_INFO, "rule %s on %s: %s", r->name, dray_tier_name(r->tier), rule_phase_name(next));
  }
}

static void rule_hit(struct rule_run *run, uint32_t tenant, uint32_t weight)
{
  for (uint32_t i = 0; i < run->hits_n; i++)
    if (run->hit[i] == tenant)
      return;
  if (run->hits_n == QUOTA_HITS)
    return; /* it comes back at once */
  run->hit[run->hits_n] = tenant;
  run->weight[run->hits_n++] = weight;
}

static bool rule_bars(const struct rule_run *run, uint32_t tenant, uint64_t now_ns)
{
  for (uint32_t i = 0; i < run->hits_n; i++)
    if (run->hit[i] == tenant)
      return rule_turn(run->weight, run->hits_n, run->since_ns, now_ns) != i;
  return false;
}

static void rules_decide(struct lane *l, uint32_t pool, uint32_t tenant, uint8_t klass, uint64_t bytes,
                         struct quota_verdict *ret_verdict)
{
  struct daemon *d = l->d;
  struct quotas *q = &d->quotas;
  struct store_usage u;
  uint64_t now = daemon_now_ns();
  quotas_look(d);
  store_usage(d->store, pool, tenant, &u);
  struct quota_ask a = {.tier = store_pool(d->store, pool)->tier,
                        .klass = klass,
                        .bytes = bytes,
                        .charged = u.charged,
                        .reserve = u.quota.reserve};
  for (uint32_t i = 0; i < q->plan.rules_n; i++) {
    a.phase[i] = q->run[i].phase;
    if (a.phase[i] == RULE_RETURN && rule_bars(&q->run[i], tenant, now))
      a.barred |= 1u << i;
  }
  quota_decide(&q->plan, &a, ret_verdict);
  if (ret_verdict->reason != DRAY_REASON_OK)
    rule_hit(&q->run[ret_verdict->rule], tenant, u.quota.weight);
}

unsigned quotas_room(struct lane *l, uint32_t pool, uint32_t tenant, uint8_t klass, uint64_t bytes, uint32_t *ret_rule,
                     uint8_t *ret_what)
{
  struct quotas *q = &l->d->quotas;
  struct quota_verdict v = {.reason = DRAY_REASON_OK};
  if (LIKELY(!quotas_active(q)))
    return DRAY_REASON_OK;
  LOCKED(&q->lock);
  if (q->plan.rules_n)
    rules_decide(l, pool, tenant, klass, bytes, &v);
  *ret_rule = DRAY_RULE_FIRST + v.rule;
  *ret_what = v.what == QUOTA_DEMOTE || v.what == QUOTA_EVICT ? v.what : 0;
  return v.reason;
}

unsigned quotas_over(struct daemon *d, uint32_t pool, uint32_t tenant)
{
  LOCKED(&d->quotas.lock);
  return d->quotas.over[pool][tenant];
}

/* ---- rates ---- */

/* A rule that slows those who would grow. The lock is held. */
static uint64_t rules_slow(struct lane *l, const struct session *s, unsigned op, uint8_t tier, uint8_t klass,
                           uint64_t bytes, uint32_t *ret_rule)
{
  struct quotas *q = &l->d->quotas;
  struct quota_verdict v;
  bool grows = op == DRAY_PUT || op == DRAY_ALLOC || op == DRAY_MOVE;
  int32_t pool = tier && tier < DRAY_TIER_COUNT ? l->d->pool_of_tier[tier] : 0;
  if (!grows || pool < 0 || !q->plan.rules_n)
    return 0;
  rules_decide(l, (uint32_t)pool, s->tenant, klass, bytes, &v);
  if (v.what != QUOTA_SLOW)
    return 0;
  *ret_rule = DRAY_RULE_FIRST + v.rule;
  return rate_take(&q->tenant[s->tenant].slow_ns, v.rate, v.rate / 10, bytes, daemon_now_ns());
}

/* A rule of bandwidth. 0: go; a wait in ns; UINT64_MAX: refused, *ret_reason. The lock is held. */
static uint64_t rules_bandwidth(struct lane *l, const struct session *s, unsigned op, uint8_t tier, uint8_t klass,
                                uint64_t bytes, uint16_t *ret_reason, uint32_t *ret_rule)
{
  struct quotas *q = &l->d->quotas;
  struct quota_verdict v;
  struct quota_ask a = {.tier = tier, .klass = klass, .moves = true, .bytes = bytes};
  if (op != DRAY_PUT && op != DRAY_GET && op != DRAY_MOVE && op != DRAY_COMMIT && op != DRAY_PUBLISH)
    return 0;
  uint64_t now = daemon_now_ns();
  quotas_look(l->d);
  for (uint32_t i = 0; i < q->plan.rules_n; i++) {
    a.phase[i] = q->run[i].phase;
    if (a.phase[i] == RULE_RETURN && rule_bars(&q->run[i], s->tenant, now))
      a.barred |= 1u << i;
  }
  quota_decide(&q->plan, &a, &v);
  if (v.what == 0)
    return 0;
  *ret_rule = DRAY_RULE_FIRST + v.rule;
  if (v.what == QUOTA_SLOW)
    return rate_take(&q->tenant[s->tenant].slow_ns, v.rate, v.rate / 10, bytes, now);
  if (v.reason == DRAY_REASON_OK)
    return 0;
  struct store_usage u;
  store_usage(l->d->store, 0, s->tenant, &u);
  rule_hit(&q->run[v.rule], s->tenant, u.quota.weight);
  *ret_reason = v.reason;
  return UINT64_MAX;
}

unsigned quotas_pace(struct lane *l, const struct session *s, unsigned op, uint8_t tier, uint8_t klass, uint64_t bytes,
                     bool *waited, uint16_t *ret_reason, uint32_t *ret_rule)
{
  struct quotas *q = &l->d->quotas;
  if (LIKELY(!quotas_active(q)) || !rate_counts(op))
    return PACE_GO;
  LOCKED(&q->lock);
  struct quota_tenant *t = &q->tenant[s->tenant];
  const struct quota_rate *r = t->rate ? &q->plan.rate[t->rate - 1] : NULL;
  uint64_t now = daemon_now_ns(), wait = 0;
  *ret_rule = DRAY_RULE_RATE;
  *ret_reason = DRAY_RATE_LIMITED;
  if (r && r->bytes) /* asked first, taken last: what waits for one bucket takes nothing out of the other */
    wait = rate_take(&t->bytes_ns, r->bytes, r->bytes_burst, 0, now);
  if (!wait && r && r->directives)
    wait = rate_take(&t->directives_ns, r->directives, r->directives_burst, 0, now);
  if (wait && r->refuse)
    return PACE_REFUSE;
  if (!wait && q->plan.rules_n)
    wait = rules_bandwidth(l, s, op, tier, klass, bytes, ret_reason, ret_rule);
  if (wait == UINT64_MAX)
    return PACE_REFUSE;
  if (!wait)
    wait = rules_slow(l, s, op, tier, klass, bytes, ret_rule); /* to slow is never to refuse */
  if (wait) {
    t->waits += !*waited;
    *waited = true;
    return PACE_WAIT;
  }
  if (r && r->bytes)
    rate_spend(&t->bytes_ns, r->bytes, bytes, now);
  if (r && r->directives)
    rate_spend(&t->directives_ns, r->directives, 1, now);
  return PACE_GO;
}

unsigned quotas_budget(struct lane *l, const struct session *s, uint32_t request, uint64_t len, uint16_t ret_account[2])
{
  struct quotas *q = &l->d->quotas;
  uint64_t limit[2] = {UINT64_MAX, UINT64_MAX};
  uint16_t account[2] = {0, 0};
  if (LIKELY(!stat_read(&q->budgets)))
    return DRAY_REASON_OK;
  pthread_mutex_lock(&q->lock);
  for (unsigned i = 0; i < 2; i++)
    if (q->tenant[s->tenant].budget[i])
      limit[i] = q->plan.budget[q->tenant[s->tenant].budget[i] - 1].limit;
  pthread_mutex_unlock(&q->lock);
  const uint64_t id[2] = {s->number, request};
  for (unsigned i = 0; i < 2; i++) {
    unsigned r = limit[i] == UINT64_MAX || (i == 1 && !request)
                     ? DRAY_REASON_OK
                     : store_account_charge(l->d->store, s->tenant, i ? QUOTA_REQUEST : QUOTA_SESSION, id[i], len,
                                            limit[i], &account[i]);
    if (r != DRAY_REASON_OK) {
      store_account_refund(l->d->store, account, len);
      return r;
    }
  }
  memcpy(ret_account, account, sizeof account);
  return DRAY_REASON_OK;
}

void quotas_spend(struct lane *l, uint32_t tenant, uint64_t bytes)
{
  struct quotas *q = &l->d->quotas;
  if (LIKELY(!quotas_active(q)))
    return;
  LOCKED(&q->lock);
  struct quota_tenant *t = &q->tenant[tenant];
  if (t->rate && q->plan.rate[t->rate - 1].bytes)
    rate_spend(&t->bytes_ns, q->plan.rate[t->rate - 1].bytes, bytes, daemon_now_ns());
}

void quotas_refused(struct daemon *d, uint32_t tenant, unsigned reason, uint32_t rule, uint32_t request)
{
  struct quotas *q = &d->quotas;
  LOCKED(&q->lock);
  q->tenant[tenant].refused[reason - DRAY_QUOTA_EXCEEDED]++;
  q->tenant[tenant].request[reason - DRAY_QUOTA_EXCEEDED] = request;
  q->tenant[tenant].last_rule = rule;
  if (rule >= DRAY_RULE_FIRST && rule - DRAY_RULE_FIRST < q->plan.rules_n)
    q->run[rule - DRAY_RULE_FIRST].refused++;
}
