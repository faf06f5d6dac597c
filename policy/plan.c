/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/plan.h"

#include "include/priv/bits.h"

bool plan_stage_ns(const struct profile_set *s, unsigned tier, uint64_t bytes, uint64_t *ret_ns)
{
  const struct tier_profile *t = &s->tier[tier];
  uint64_t ns;
  if (!t->bandwidth_mbps || !mul_u64(bytes, 1000, &ns))
    return false;
  return add_u64(t->read_latency_ns, ns / t->bandwidth_mbps, ret_ns);
}

bool plan_tier(const struct profile_set *s, unsigned tier, const struct plan_fleet *f,
               struct plan_regime_cost *ret_cost)
{
  struct plan_regime_cost c = {.prefills = 1, .copies = 1, .regime = PLAN_SHARED};
  bool ok = true;
  if (profile_fabric_shareable(s, tier)) {
    c.next_ns = s->tier[tier].read_latency_ns;
  } else if (profile_reachable(s, tier)) {
    c.regime = PLAN_COPY;
    c.copies = f->tenants;
    ok = plan_stage_ns(s, tier, f->bytes, &c.next_ns);
  } else {
    c.regime = PLAN_PRIVATE;
    c.prefills = c.copies = f->tenants;
    ok = mul_u64(f->tokens, f->ns_per_token, &c.next_ns);
  }
  ok = ok && mul_u64(f->tenants - c.prefills, f->tokens, &c.saved_tokens) &&
       mul_u64(f->tenants - c.copies, f->bytes, &c.saved_bytes);
  if (ok)
    *ret_cost = c;
  return ok;
}

static bool elsewhere(unsigned tier)
{
  return tier == DRAY_TIER_REMOTE_DRAM || tier == DRAY_TIER_REMOTE;
}

/* The hottest tier below, here or elsewhere, with room, at which it is still cheaper to retain. 0: none. */
static unsigned colder(const struct profile_set *s, const struct plan_span *p, bool away, uint64_t recompute,
                       uint64_t *ret_retain)
{
  for (unsigned t = p->tier + 1u; t < DRAY_TIER_COUNT; t++)
    if (elsewhere(t) == away && (p->room >> t & 1) && plan_stage_ns(s, t, p->bytes, ret_retain) &&
        *ret_retain < recompute)
      return t;
  return 0;
}

bool plan_place(const struct profile_set *s, const struct plan_span *p, struct plan_placement *ret_placement)
{
  struct plan_placement v = {.verdict = PLAN_KEEP,
                             .why = "its tier has room and retaining is cheaper than recomputing"};
  unsigned t;
  if (!mul_u64(p->tokens, p->ns_per_token, &v.recompute_ns) || !plan_stage_ns(s, p->tier, p->bytes, &v.retain_ns))
    return false;
  uint64_t retain = 0;
  if (v.retain_ns >= v.recompute_ns) {
    v.verdict = PLAN_EVICT;
    v.why = "recomputing is cheaper than reading it from where it is";
  } else if (p->hot && !profile_attendable(s, p->tier)) {
    for (t = 1; t < p->tier && !(profile_attendable(s, t) && (p->room >> t & 1)); t++) {
    }
    if (t < p->tier) {
      v.verdict = PLAN_PROMOTE;
      v.to = (uint8_t)t;
      v.why = "it is wanted soon, cannot be attended in place, and a hotter tier has room";
    } else {
      v.why = "it is wanted soon, but no hotter tier that can be attended has room";
    }
  } else if (p->full && (t = colder(s, p, false, v.recompute_ns, &retain)) != 0) {
    v = (struct plan_placement){PLAN_DEMOTE, (uint8_t)t, retain, v.recompute_ns,
                                "its tier is full, and retaining it below is cheaper than recomputing"};
  } else if (p->full && (t = colder(s, p, true, v.recompute_ns, &retain)) != 0) {
    v = (struct plan_placement){PLAN_SPILL, (uint8_t)t, retain, v.recompute_ns,
                                "its tier is full, none here takes it, and another node's is cheaper than recomputing"};
  } else if (p->full) {
    v.verdict = PLAN_EVICT;
    v.why = "its tier is full, and nowhere with room is retaining cheaper than recomputing";
  }
  *ret_placement = v;
  return true;
}

const char *plan_regime_name(unsigned regime)
{
  static const char *const names[] = {"?", "host-private", "reachable, copy-only", "fabric-shareable"};
  return names[regime < ARRAY_LEN(names) ? regime : 0];
}

const char *plan_verdict_name(unsigned verdict)
{
  static const char *const names[] = {"?", "keep", "promote", "demote", "spill", "evict"};
  return names[verdict < ARRAY_LEN(names) ? verdict : 0];
}
