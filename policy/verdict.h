/* SPDX-License-Identifier: Apache-2.0 */
/* The answer. 0 is no verdict, no route. */
#ifndef POLICY_VERDICT_H
#define POLICY_VERDICT_H

#include <stdint.h>

#include "policy/ask.h"
#include "policy/snapshot.h"

enum policy_decision { POLICY_ADMIT = 1, POLICY_REFUSE = 2, POLICY_MISS = 3 };
enum policy_route {
  ROUTE_NONE = 1,  /* nothing to move (NOP, STAT, DROP ...) */
  ROUTE_MAP = 2,   /* lease in place, zero bytes moved */
  ROUTE_CPU = 3,   /* CPU copy to or from an attendable tier */
  ROUTE_STAGE = 4, /* staged copy by the tier's transport */
};

struct policy_verdict {
  uint8_t decision; /* enum policy_decision */
  uint8_t route;    /* enum policy_route */
  uint8_t from;     /* tier whose copy is read (GET, MAP, MOVE), else 0 */
  uint8_t to;       /* tier that receives bytes (PUT, ALLOC, MOVE, staged MAP), else 0 */
  uint16_t reason;  /* enum dray_reason */
};

/* The one entry point. Gate, then place, then route, as POLICY.md and TIERS.md order them. */
void policy_decide(const struct policy_snapshot *s, const struct policy_ask *a, struct policy_verdict *ret_verdict);
#endif
