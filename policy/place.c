/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/place.h"

uint8_t place_hottest(const struct policy_snapshot *s, uint8_t set, bool attendable)
{
  for (unsigned i = 0; i < DRAY_TIER_COUNT && s->ladder[i]; i++)
    if (place_in(set, s->ladder[i]) && (!attendable || snapshot_attendable(s, s->ladder[i])))
      return s->ladder[i];
  return 0;
}

uint8_t place_new(const struct policy_snapshot *s, const struct policy_ask *a, bool attendable)
{
  uint8_t tier = place_hottest(s, a->usable & a->room, attendable);
  return tier ? tier : place_hottest(s, a->usable, attendable);
}
