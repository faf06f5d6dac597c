/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each tenant is charged for in a pool, what it is owed (reserve) and how far it may go (limit). A charge is taken
 * before a slab is made, or capacity is set aside, and refunded when its memory is back with the transport: so freeing
 * refunds, and two threads can never both take the last byte.
 *
 * Bytes of slabs are what is charged, not bytes of cells: a slab belongs to one tenant, so its bytes are what the
 * others cannot have, and a reserve in any other unit could not be promised.
 *
 * The pool's lock is held for all of these.
 */
#ifndef MOVER_STORE_QUOTA_H
#define MOVER_STORE_QUOTA_H

#include "mover/store/pool.h"

/* What the tenant may still take: of what is left, without what the others' reserves are still owed, and up to its
   limit. ret_why says what stands in the way of `need` bytes: QUOTA_EXCEEDED or NO_ROOM. */
uint64_t quota_left(const struct pool *p, uint32_t tenant, uint64_t need, unsigned *ret_why);
/* Not even need bytes more are within its limit. */
bool quota_capped(const struct pool *p, uint32_t tenant, uint64_t need);
void quota_charge(struct pool *p, uint32_t tenant, uint64_t bytes);
void quota_refund(struct pool *p, uint32_t tenant, uint64_t bytes);
/* What it could lose and still have its reserve. */
uint64_t quota_spare(const struct share *sh);
/* How much it has beside what its weight would give it: the larger, the sooner it gives. */
static inline uint64_t quota_level(const struct share *sh)
{
  return sh->bytes / sh->weight;
}
#endif
