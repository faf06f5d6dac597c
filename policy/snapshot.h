/* SPDX-License-Identifier: Apache-2.0 */
/* What policy decides by: immutable once made, replaced whole. */
#ifndef POLICY_SNAPSHOT_H
#define POLICY_SNAPSHOT_H

#include "policy/profile.h"

struct policy_snapshot {
  struct profile_set profiles;
  uint8_t ladder[DRAY_TIER_COUNT]; /* tiers that have a pool, hottest first, 0-terminated */
};

/* True when the tier may be leased in place: by its profile. */
static inline bool snapshot_attendable(const struct policy_snapshot *s, unsigned tier)
{
  return profile_attendable(&s->profiles, tier);
}
#endif
