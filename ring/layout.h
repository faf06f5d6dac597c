/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and offsets of U and M: pure arithmetic that both sides compute from entries and items, and compare. */
#ifndef RING_LAYOUT_H
#define RING_LAYOUT_H

#include <dray/ring_abi.h>

/* entries in DRAY_ENTRIES_MIN..MAX, items in 0..DRAY_ITEMS_MAX; -EINVAL otherwise. */
int layout_compute(uint32_t entries, uint32_t items, struct dray_geometry *ret_geo);
/* What a peer says equals what we compute from its entries and items; -EPROTO otherwise. */
int layout_verify(const struct dray_geometry *theirs, struct dray_geometry *ret_geo);
#endif
