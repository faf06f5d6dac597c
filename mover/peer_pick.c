/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/peer_pick.h"

#include <assert.h>

#include <dray/types.h>

#include "include/priv/hash.h"
#include "include/priv/order.h"

#define PEER_BITS 9u /* of a place: a peer's number and one more */
static_assert(CONFIG_PEERS_MAX < (1u << PEER_BITS), "a peer's number fits its place");

static uint32_t *place(const struct pick_memory *m, uint32_t tenant, const uint8_t key[16], uint32_t *ret_tag)
{
  uint64_t h = hash_key(key, tenant, 0);
  *ret_tag = (uint32_t)(h >> 32) << PEER_BITS;
  return (uint32_t *)(uintptr_t)&m->at[h & (PICK_PLACES - 1)];
}

void pick_remember(struct pick_memory *m, uint32_t tenant, const uint8_t key[16], uint32_t peer)
{
  uint32_t tag, *at = place(m, tenant, key, &tag);
  if (hint_read(at) != (tag | (peer + 1)))
    hint_set(at, tag | (peer + 1));
}

void pick_forget(struct pick_memory *m, uint32_t tenant, const uint8_t key[16], uint32_t peer)
{
  uint32_t tag, *at = place(m, tenant, key, &tag);
  if (hint_read(at) == (tag | (peer + 1)))
    hint_set(at, 0);
}

uint32_t pick_had(const struct pick_memory *m, uint32_t tenant, const uint8_t key[16])
{
  uint32_t tag, v = hint_read(place(m, tenant, key, &tag)), peer = v & ((1u << PEER_BITS) - 1);
  return peer && v - peer == tag ? peer - 1 : PICK_NONE;
}

uint32_t pick_next(const uint8_t *health, uint32_t n, const struct pick_set *tried, uint32_t had, uint32_t *ret_waiting)
{
  uint32_t best = PICK_NONE, waiting = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (pick_in(tried, i))
      continue;
    waiting += health[i] != PICK_DOWN;
    if (best == PICK_NONE || health[i] < health[best])
      best = i;
  }
  if (had < n && !pick_in(tried, had) && health[had] != PICK_DOWN)
    best = had;
  *ret_waiting = waiting - (best != PICK_NONE && health[best] != PICK_DOWN);
  return best;
}

/* 0: none was said; 1: has none (no room); 2: could not be asked; 3: what it says of what it has. */
static unsigned weight(unsigned reason, bool writes)
{
  switch (reason) {
  case 0:
    return 0;
  case DRAY_ABSENT:
  case DRAY_EVICTED:
  case DRAY_STALE_GENERATION:
    return 1;
  case DRAY_NO_ROOM:
    return writes ? 1 : 3;
  case DRAY_PEER_UNREACHABLE:
  case DRAY_PEER_STALE:
  case DRAY_DEADLINE:
  case DRAY_SHUTTING_DOWN:
    return 2;
  default:
    return 3;
  }
}

unsigned pick_weigh(unsigned so_far, unsigned reason, bool writes)
{
  return weight(reason, writes) > weight(so_far, writes) ? reason : so_far;
}

bool pick_final(unsigned reason, bool writes)
{
  return reason == DRAY_REASON_OK || (writes && reason == DRAY_EXISTS);
}
