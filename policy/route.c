/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/route.h"

#include "policy/place.h"

static enum policy_route copy_route(const struct policy_snapshot *s, uint8_t tier)
{
  return snapshot_attendable(s, tier) ? ROUTE_CPU : ROUTE_STAGE;
}

/* The copy to read: the one asked for, or the hottest. 0: there is none. */
static uint8_t copy_to_read(const struct policy_snapshot *s, const struct policy_ask *a)
{
  if (a->tier == DRAY_TIER_ANY)
    return place_hottest(s, a->copies, false);
  return place_in(a->copies, a->tier) ? a->tier : 0;
}

void route_map(const struct policy_snapshot *s, const struct policy_ask *a, struct policy_verdict *ret_verdict)
{
  uint8_t from = a->tier == DRAY_TIER_ANY ? place_hottest(s, a->copies, true) : 0;
  if (!from)
    from = copy_to_read(s, a);
  uint8_t to = from && a->flags & DRAY_MAP_OR_STAGE ? place_new(s, a, true) : 0;
  if (!from)
    *ret_verdict = verdict_miss(DRAY_ABSENT);
  else if (snapshot_attendable(s, from))
    *ret_verdict = verdict_admit(ROUTE_MAP, from, 0);
  else if (to)
    *ret_verdict = verdict_admit(ROUTE_STAGE, from, to);
  else
    *ret_verdict = verdict_refuse(DRAY_NOT_ATTENDABLE);
}

void route_get(const struct policy_snapshot *s, const struct policy_ask *a, struct policy_verdict *ret_verdict)
{
  uint8_t from = copy_to_read(s, a);
  *ret_verdict = from ? verdict_admit(copy_route(s, from), from, 0) : verdict_miss(DRAY_ABSENT);
}

void route_put(const struct policy_snapshot *s, const struct policy_ask *a, struct policy_verdict *ret_verdict)
{
  uint8_t to = a->tier == DRAY_TIER_ANY ? place_new(s, a, false) : a->tier;
  if (!to)
    *ret_verdict = verdict_refuse(DRAY_NO_ROOM);
  else if (!place_in(a->usable, to))
    *ret_verdict = verdict_refuse(DRAY_BAD_TIER);
  else
    *ret_verdict = verdict_admit(copy_route(s, to), 0, to);
}

void route_alloc(const struct policy_snapshot *s, const struct policy_ask *a, struct policy_verdict *ret_verdict)
{
  uint8_t to = a->tier == DRAY_TIER_ANY ? place_new(s, a, true) : a->tier;
  if (to && !place_in(a->usable, to))
    *ret_verdict = verdict_refuse(DRAY_BAD_TIER);
  else if (!to || !snapshot_attendable(s, to))
    *ret_verdict = verdict_refuse(DRAY_NOT_ATTENDABLE);
  else
    *ret_verdict = verdict_admit(ROUTE_MAP, 0, to);
}

void route_move(const struct policy_snapshot *s, const struct policy_ask *a, struct policy_verdict *ret_verdict)
{
  uint8_t to = a->tier, from = place_hottest(s, a->copies, false);
  if (!place_in(a->usable, to))
    *ret_verdict = verdict_refuse(DRAY_BAD_TIER);
  else if (!from)
    *ret_verdict = verdict_miss(DRAY_ABSENT);
  else if (place_in(a->copies, to))
    *ret_verdict = verdict_admit(ROUTE_NONE, from, to);
  else if (snapshot_attendable(s, from) && snapshot_attendable(s, to))
    *ret_verdict = verdict_admit(ROUTE_CPU, from, to);
  else
    *ret_verdict = verdict_admit(ROUTE_STAGE, from, to);
}
