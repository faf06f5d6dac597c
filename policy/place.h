/* SPDX-License-Identifier: Apache-2.0 */
/* Which tier. All walk the ladder from the hottest rung; 0 is none. */
#ifndef POLICY_PLACE_H
#define POLICY_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/ask.h"
#include "policy/snapshot.h"

/* The hottest tier in the set (bit t: tier t), of those that are attendable when that is asked. */
uint8_t place_hottest(const struct policy_snapshot *s, uint8_t set, bool attendable);
/* Where new bytes go: the hottest usable tier with room, else the hottest usable (demotion makes room). */
uint8_t place_new(const struct policy_snapshot *s, const struct policy_ask *a, bool attendable);
static inline bool place_in(uint8_t set, uint8_t tier)
{
  return tier && tier < DRAY_TIER_COUNT && (set >> tier & 1);
}
#endif
