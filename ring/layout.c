/* SPDX-License-Identifier: Apache-2.0 */
#include "ring/layout.h"

#include <errno.h>
#include <string.h>

#include "include/priv/bits.h"
#include "include/priv/hash.h"

static uint64_t layout_fingerprint(const struct dray_geometry *g)
{
  struct {
    struct dray_geometry geo;
    uint32_t sizes[8];
  } in;
  memset(&in, 0, sizeof in);
  in.geo = *g;
  in.geo.fingerprint = 0;
  in.sizes[0] = sizeof(struct dray_sqe);
  in.sizes[1] = sizeof(struct dray_cqe);
  in.sizes[2] = sizeof(struct dray_item);
  in.sizes[3] = sizeof(struct dray_item_result);
  in.sizes[4] = sizeof(struct dray_u_head);
  in.sizes[5] = sizeof(struct dray_m_head);
  in.sizes[6] = sizeof(struct dray_object_state);
  in.sizes[7] = DRAY_RING_MAJOR;
  return hash_bytes(&in, sizeof in, DRAY_RING_MAGIC);
}

int layout_compute(uint32_t entries, uint32_t items, struct dray_geometry *ret_geo)
{
  if (entries < DRAY_ENTRIES_MIN || entries > DRAY_ENTRIES_MAX || items > DRAY_ITEMS_MAX)
    return -EINVAL;
  struct dray_geometry g;
  memset(&g, 0, sizeof g);
  g.entries = entries;
  /* a ring of n slots holds n-1 entries */
  g.sq_slots = pow2_at_least(entries + DRAY_CANCEL_RESERVE + 1);
  g.cq_slots = pow2_at_least(entries + DRAY_CANCEL_RESERVE + DRAY_NOTICE_KINDS + 1);
  g.items = items;
  g.objects = DRAY_OBJECTS;
  /* slots start on a page, so that the private header can be mapped right in front of them */
  g.sq_off = PAGE_BYTES;
  uint64_t at = g.sq_off + align_up((uint64_t)g.sq_slots * sizeof(struct dray_sqe), PAGE_BYTES);
  g.arena_off = (uint32_t)at;
  at += align_up((uint64_t)items * sizeof(struct dray_item), PAGE_BYTES);
  g.u_size = at;
  g.cq_off = PAGE_BYTES;
  at = g.cq_off + align_up((uint64_t)g.cq_slots * sizeof(struct dray_cqe), PAGE_BYTES);
  g.results_off = (uint32_t)at;
  at += align_up((uint64_t)items * sizeof(struct dray_item_result), PAGE_BYTES);
  g.objects_off = (uint32_t)at;
  at += align_up((uint64_t)g.objects * sizeof(struct dray_object_state), PAGE_BYTES);
  g.m_size = at;
  g.fingerprint = layout_fingerprint(&g);
  *ret_geo = g;
  return 0;
}

int layout_verify(const struct dray_geometry *theirs, struct dray_geometry *ret_geo)
{
  struct dray_geometry mine;
  if (layout_compute(theirs->entries, theirs->items, &mine) < 0 || memcmp(theirs, &mine, sizeof mine) != 0)
    return -EPROTO;
  *ret_geo = mine;
  return 0;
}
