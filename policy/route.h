/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How, for each directive that moves or maps bytes: the table of TIERS.md. What a tier is follows from its profile
 * alone. Each fills a whole verdict; the gate has been passed.
 */
#ifndef POLICY_ROUTE_H
#define POLICY_ROUTE_H

#include "policy/verdict.h"

void route_map(const struct policy_snapshot *s, const struct policy_ask *a, struct policy_verdict *ret_verdict);
void route_get(const struct policy_snapshot *s, const struct policy_ask *a, struct policy_verdict *ret_verdict);
void route_put(const struct policy_snapshot *s, const struct policy_ask *a, struct policy_verdict *ret_verdict);
void route_alloc(const struct policy_snapshot *s, const struct policy_ask *a, struct policy_verdict *ret_verdict);
void route_move(const struct policy_snapshot *s, const struct policy_ask *a, struct policy_verdict *ret_verdict);

static inline struct policy_verdict verdict_refuse(unsigned reason)
{
  return (struct policy_verdict){.decision = POLICY_REFUSE, .route = ROUTE_NONE, .reason = (uint16_t)reason};
}
static inline struct policy_verdict verdict_miss(unsigned reason)
{
  return (struct policy_verdict){.decision = POLICY_MISS, .route = ROUTE_NONE, .reason = (uint16_t)reason};
}
static inline struct policy_verdict verdict_admit(enum policy_route route, uint8_t from, uint8_t to)
{
  return (struct policy_verdict){
      .decision = POLICY_ADMIT, .route = (uint8_t)route, .from = from, .to = to, .reason = DRAY_REASON_OK};
}
#endif
