/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/quota.h"

#include <errno.h>
#include <string.h>

#include "include/priv/bits.h"
#include "policy/profile.h"

static int check_grants(const struct quota_plan *p, const uint64_t capacity[DRAY_TIER_COUNT], uint32_t *line,
                        struct err *e)
{
  uint64_t sum[DRAY_TIER_COUNT] = {0};
  for (uint32_t i = 0; i < p->grants_n; i++) {
    const struct quota_grant *g = &p->grant[i];
    *line = g->line;
    const char *tier = profile_tier_name(g->tier);
    if (!g->tier || g->tier >= DRAY_TIER_COUNT)
      return err_set(e, -EINVAL, "quota of %s: tier: there is none of that name", g->tenant);
    if (!g->weight || g->weight > 1000)
      return err_set(e, -EINVAL, "quota of %s on %s: weight: need 1..1000, have %u", g->tenant, tier, g->weight);
    if (g->reserve > g->limit)
      return err_set(e, -EINVAL, "quota of %s on %s: reserve: need at most its limit of %llu bytes, have %llu",
                     g->tenant, tier, (unsigned long long)g->limit, (unsigned long long)g->reserve);
    if (g->over != QUOTA_REFUSE && g->over != QUOTA_DEMOTE && g->over != QUOTA_EVICT)
      return err_set(e, -EINVAL, "quota of %s on %s: over: none of refuse demote evict", g->tenant, tier);
    for (uint32_t k = 0; k < i; k++)
      if (p->grant[k].tier == g->tier && !strcmp(p->grant[k].tenant, g->tenant))
        return err_set(e, -EINVAL, "quota of %s on %s: given twice", g->tenant, tier);
    if (!add_u64(sum[g->tier], g->reserve, &sum[g->tier]) || (capacity[g->tier] && sum[g->tier] > capacity[g->tier]))
      return err_set(
          e, -EINVAL,
          "quota: reserves on %s: with %s's they are %llu bytes, the tier has %llu: lower a reserve or raise "
          "the tier's capacity",
          tier, g->tenant, (unsigned long long)sum[g->tier], (unsigned long long)capacity[g->tier]);
  }
  return 0;
}

static int check_rates(const struct quota_plan *p, uint32_t *line, struct err *e)
{
  for (uint32_t i = 0; i < p->rates_n; i++) {
    const struct quota_rate *r = &p->rate[i];
    *line = r->line;
    if (!r->bytes && !r->directives)
      return err_set(e, -EINVAL, "rate of %s: need bytes or directives a second above 0 (for nothing at all: limit: 0)",
                     r->tenant);
    for (uint32_t k = 0; k < i; k++)
      if (!strcmp(p->rate[k].tenant, r->tenant))
        return err_set(e, -EINVAL, "rate of %s: given twice", r->tenant);
  }
  return 0;
}

static int check_budgets(const struct quota_plan *p, uint32_t *line, struct err *e)
{
  for (uint32_t i = 0; i < p->budgets_n; i++) {
    const struct quota_budget *b = &p->budget[i];
    *line = b->line;
    if (b->unit != QUOTA_SESSION && b->unit != QUOTA_REQUEST)
      return err_set(e, -EINVAL, "quota of %s: unit: none of tenant session request", b->tenant);
    for (uint32_t k = 0; k < i; k++)
      if (p->budget[k].unit == b->unit && !strcmp(p->budget[k].tenant, b->tenant))
        return err_set(e, -EINVAL, "quota of %s per %s: given twice", b->tenant,
                       b->unit == QUOTA_SESSION ? "session" : "request");
  }
  return 0;
}

static uint64_t reserves_of(const struct quota_plan *p, unsigned tier)
{
  uint64_t sum = 0;
  for (uint32_t i = 0; i < p->grants_n; i++)
    if (p->grant[i].tier == tier)
      sum += p->grant[i].reserve;
  return sum;
}

static int check_rule(const struct quota_plan *p, uint32_t i, const uint64_t capacity[DRAY_TIER_COUNT], uint8_t colder,
                      uint8_t bandwidth, struct err *e)
{
  const struct quota_rule *r = &p->rule[i];
  if (!r->name[0])
    return err_set(e, -EINVAL, "rule %u: name: missing; refusals are known by it", i + 1);
  if (!r->tier || r->tier >= DRAY_TIER_COUNT)
    return err_set(e, -EINVAL, "rule %s: tier: there is none of that name", r->name);
  if (!r->when || r->when > 1000)
    return err_set(e, -EINVAL, "rule %s: when: need 1%%..100%%", r->name);
  if (!r->until || r->until >= r->when)
    return err_set(e, -EINVAL,
                   "rule %s: until: need at least 1%% and less than when (%u%%), or it can never end: have %u%%",
                   r->name, r->when / 10, r->until / 10);
  uint64_t cap = capacity[r->tier];
  if (r->of != RULE_OF_BANDWIDTH && cap && reserves_of(p, r->tier) / (cap / 1000 + 1) >= r->until)
    return err_set(e, -EINVAL,
                   "rule %s: until: the reserves alone may fill %s to %u%%, so it can never end: need more than that, "
                   "have %u%%",
                   r->name, profile_tier_name(r->tier), (unsigned)(reserves_of(p, r->tier) / (cap / 100 + 1)),
                   r->until / 10);
  if (r->what < QUOTA_REFUSE || r->what > QUOTA_EVICT)
    return err_set(e, -EINVAL, "rule %s: what: none of refuse slow demote evict", r->name);
  if ((r->what == QUOTA_SLOW) != (r->rate != 0))
    return err_set(e, -EINVAL, "rule %s: rate: what: slow needs one, nothing else has one", r->name);
  if (r->of == RULE_OF_BANDWIDTH && r->what != QUOTA_SLOW && r->what != QUOTA_REFUSE)
    return err_set(e, -EINVAL, "rule %s: what: %s moves bytes, which makes a rule of bandwidth worse: refuse or slow",
                   r->name, quota_what_name(r->what));
  if (r->of == RULE_OF_BANDWIDTH && !(bandwidth >> r->tier & 1))
    return err_set(e, -EINVAL, "rule %s: of: bandwidth: that of %s is not known; a calibration says it", r->name,
                   profile_tier_name(r->tier));
  if (r->what == QUOTA_DEMOTE && !(colder >> r->tier & 1))
    return err_set(e, -EINVAL, "rule %s: what: demote: there is no tier below %s", r->name, profile_tier_name(r->tier));
  for (uint32_t k = 0; k < i; k++) {
    const struct quota_rule *o = &p->rule[k];
    if (!strcmp(o->name, r->name))
      return err_set(e, -EINVAL, "rule %s: given twice", r->name);
    bool both = o->klass == r->klass || o->klass == QUOTA_ANY_CLASS || r->klass == QUOTA_ANY_CLASS;
    /* at one fill for one class: the second would never decide, whatever it says */
    if (o->tier == r->tier && o->of == r->of && o->when == r->when && both)
      return err_set(e, -EINVAL,
                     "rules %s and %s contradict each other: same tier, class and when (%u%%); give one a "
                     "different when or class",
                     o->name, r->name, r->when / 10);
  }
  return 0;
}

int quota_plan_check(const struct quota_plan *p, const uint64_t capacity[DRAY_TIER_COUNT], uint8_t colder,
                     uint8_t bandwidth, struct err *e)
{
  struct err why = {{0}};
  uint32_t line = 0;
  if (p->grants_n > QUOTA_GRANTS_MAX || p->rates_n > QUOTA_RATES_MAX || p->budgets_n > QUOTA_BUDGETS_MAX ||
      p->rules_n > QUOTA_RULES_MAX)
    return err_set(e, -EINVAL, "quota: more than %d quotas, %d rates or %d rules", QUOTA_GRANTS_MAX, QUOTA_RATES_MAX,
                   QUOTA_RULES_MAX);
  int r = check_grants(p, capacity, &line, &why);
  r = r ? r : check_rates(p, &line, &why);
  r = r ? r : check_budgets(p, &line, &why);
  for (uint32_t i = 0; r == 0 && i < p->rules_n; i++) {
    line = p->rule[i].line;
    r = check_rule(p, i, capacity, colder, bandwidth, &why);
  }
  if (r < 0 && line)
    return err_set(e, r, "line %u: %.460s", line, why.text);
  return r < 0 ? err_set(e, r, "%s", why.text) : 0;
}

unsigned rule_next(const struct quota_rule *r, unsigned phase, uint32_t fill, bool someone, uint64_t since_ns,
                   uint64_t now_ns)
{
  if (phase != RULE_FORCE && fill >= r->when)
    return RULE_FORCE;
  if (phase == RULE_FORCE)
    return fill >= r->until ? RULE_FORCE : someone && r->return_ms ? RULE_RETURN : RULE_IDLE;
  if (phase == RULE_RETURN && now_ns - since_ns < r->return_ms * 1000000ull)
    return RULE_RETURN;
  return RULE_IDLE;
}

uint32_t rule_turn(const uint32_t *weights, uint32_t n, uint64_t since_ns, uint64_t now_ns)
{
  uint64_t sum = 0;
  for (uint32_t i = 0; i < n; i++)
    sum += weights[i];
  uint64_t at = (now_ns - since_ns) / RULE_TURN_NS % sum;
  for (uint32_t i = 0; i < n; i++) {
    if (at < weights[i])
      return i;
    at -= weights[i];
  }
  return 0;
}

void quota_decide(const struct quota_plan *p, const struct quota_ask *a, struct quota_verdict *ret_verdict)
{
  struct quota_verdict v = {.reason = DRAY_REASON_OK};
  *ret_verdict = v;
  if (!a->moves && a->charged < a->reserve && a->bytes <= a->reserve - a->charged)
    return;
  for (uint32_t i = 0; i < p->rules_n; i++) {
    const struct quota_rule *r = &p->rule[i];
    if ((r->of == RULE_OF_BANDWIDTH) != a->moves || (r->tier != a->tier && !(a->moves && !a->tier)) ||
        (r->klass != QUOTA_ANY_CLASS && r->klass != a->klass))
      continue;
    v = (struct quota_verdict){.reason = DRAY_REASON_OK, .what = r->what, .rule = i, .rate = r->rate};
    if (a->phase[i] == RULE_RETURN && (a->barred >> i & 1)) {
      v.what = QUOTA_REFUSE;
      v.reason = DRAY_REBALANCE;
    } else if (a->phase[i] != RULE_FORCE) {
      continue;
    } else if (r->what == QUOTA_REFUSE) {
      v.reason = r->klass == QUOTA_ANY_CLASS ? DRAY_POOL_PRESSURE : DRAY_PRIORITY_LOST;
    }
    *ret_verdict = v;
    return;
  }
}

static uint64_t units_ns(uint64_t n, uint64_t rate)
{
  unsigned __int128 ns = (unsigned __int128)n * 1000000000u / rate;
  return ns > INT64_MAX / 2 ? INT64_MAX / 2 : (uint64_t)ns;
}

void rate_spend(uint64_t *full_ns, uint64_t rate, uint64_t n, uint64_t now_ns)
{
  uint64_t from = MAX_OF(*full_ns, now_ns), end;
  *full_ns = add_u64(from, units_ns(n, rate), &end) ? end : UINT64_MAX;
}

uint64_t rate_take(uint64_t *full_ns, uint64_t rate, uint64_t burst, uint64_t n, uint64_t now_ns)
{
  uint64_t slack = units_ns(burst, rate);
  if (*full_ns > now_ns && *full_ns - now_ns > slack)
    return *full_ns - now_ns - slack;
  rate_spend(full_ns, rate, n, now_ns);
  return 0;
}

bool rate_counts(unsigned op)
{
  switch (op) {
  case DRAY_PUT:
  case DRAY_GET:
  case DRAY_ALLOC:
  case DRAY_COMMIT:
  case DRAY_MAP:
  case DRAY_COPY:
  case DRAY_MOVE:
  case DRAY_PUBLISH:
  case DRAY_STAT:
    return true;
  default:
    return false;
  }
}

const char *quota_what_name(unsigned what)
{
  static const char *const names[] = {"?", "refuse", "slow", "demote", "evict"};
  return names[what < ARRAY_LEN(names) ? what : 0];
}

const char *rule_phase_name(unsigned phase)
{
  static const char *const names[] = {"?", "idle", "in force", "returning"};
  return names[phase < ARRAY_LEN(names) ? phase : 0];
}
