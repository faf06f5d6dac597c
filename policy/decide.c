/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/gate.h"
#include "policy/route.h"
#include "policy/verdict.h"

/* What the gate says to that directive. */
static unsigned gate_of(const struct policy_ask *a)
{
  switch (a->op) {
  case DRAY_MAP:
  case DRAY_GET:
    return gate_check(a);
  case DRAY_MOVE:
  case DRAY_PUBLISH:
  case DRAY_DROP:
    return gate_change(a);
  case DRAY_STAT:
  case DRAY_QUARANTINE:
    return gate_sight(a);
  default:
    return DRAY_REASON_OK;
  }
}

void policy_decide(const struct policy_snapshot *s, const struct policy_ask *a, struct policy_verdict *ret_verdict)
{
  unsigned why = gate_of(a);
  if (why != DRAY_REASON_OK) {
    *ret_verdict = why == DRAY_ABSENT ? verdict_miss(why) : verdict_refuse(why);
    return;
  }
  switch (a->op) {
  case DRAY_MAP:
    route_map(s, a, ret_verdict);
    break;
  case DRAY_GET:
    route_get(s, a, ret_verdict);
    break;
  case DRAY_PUT:
    route_put(s, a, ret_verdict);
    break;
  case DRAY_ALLOC:
    route_alloc(s, a, ret_verdict);
    break;
  case DRAY_MOVE:
    route_move(s, a, ret_verdict);
    break;
  case DRAY_COPY:
    *ret_verdict = verdict_admit(ROUTE_CPU, 0, 0);
    break;
  default:
    *ret_verdict = verdict_admit(ROUTE_NONE, 0, 0);
    break;
  }
}
