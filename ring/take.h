/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trust boundary: directives come out of U here, each copied once, and the copy is validated. Nothing behind this
 * file reads the SQ. What depends on the session (regions, layouts, leases, credits) is checked in mover/admit.c.
 */
#ifndef RING_TAKE_H
#define RING_TAKE_H

#include <stdbool.h>
#include <stdint.h>

#include <dray/ring_abi.h>

#include "include/priv/req.h"

struct wire_in;

/* Most directives of one visit: bounds what one session costs the others. */
#define TAKE_BURST 32u

/* Copies up to n (<= TAKE_BURST) directives out and validates them; a bad one comes back with its reason set. The slots
   are free for the engine again afterwards. Returns the count or -EPROTO when the engine's index is impossible. */
int take_burst(struct wire_in *sq, struct dray_req *ret_reqs, uint32_t n);
/* What can be said of a directive by looking at it alone: DRAY_REASON_OK or the first thing wrong with it. */
unsigned take_check(const struct dray_sqe *sqe);
/* Copies items [first, first+n) out of the arena, once. The caller checked the range. */
void take_items(const struct dray_item *arena, uint32_t first, uint32_t n, struct dray_item *ret_items);
/* Likewise one PUBLISH record; BAD_RESERVED, BAD_FLAG (scope or taint unknown) or OK. */
unsigned take_publish(const struct dray_item *arena, uint32_t row, struct dray_publish *ret_record);
/* A BATCH item on its own, for this op. */
unsigned take_item_check(unsigned op, bool layout, const struct dray_item *item);
#endif
