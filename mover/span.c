/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/span.h"

#include "base/crc.h"
#include "base/guard.h"
#include "include/priv/bits.h"

#define LAYOUT_SEGS_MAX 4096u
#define LAYOUT_SEG_MIN 64u /* 256 pieces then make at least 16 KiB: enough for an aligned write */

unsigned span_layout_check(const struct dray_layout *l)
{
  uint64_t a, b;
  if (l->segs == 0 || l->segs > LAYOUT_SEGS_MAX || l->seg_bytes < LAYOUT_SEG_MIN)
    return DRAY_BAD_LAYOUT;
  /* segments of one block must not lie on each other */
  if (l->segs > 1 && l->seg_stride < l->seg_bytes)
    return DRAY_BAD_LAYOUT;
  if (!mul_u64(l->segs - 1, l->seg_stride, &a) || !add_u64(a, l->seg_bytes, &b) || !add_u64(b, l->base, &a))
    return DRAY_BAD_LAYOUT;
  return DRAY_REASON_OK;
}

unsigned span_make(void *region, uint64_t region_size, const struct dray_layout *l, uint64_t off, uint64_t len,
                   struct span *ret_span)
{
  if (len == 0)
    return DRAY_ZERO_LENGTH;
  if (!l) {
    if (!range_inside(off, len, region_size))
      return DRAY_OUT_OF_RANGE;
    *ret_span = span_flat((char *)region + off, len);
    return DRAY_REASON_OK;
  }
  /* segs and seg_bytes are 32 bits wide: their product fits */
  if (len > (uint64_t)l->segs * l->seg_bytes)
    return DRAY_TOO_LARGE;
  uint64_t start, last = (len - 1) / l->seg_bytes, end;
  if (!mul_u64(off, l->block_stride, &start) || !add_u64(start, l->base, &start) ||
      !mul_u64(last, l->seg_stride, &end) || !add_u64(start, end, &end) ||
      !range_inside(end, len - last * l->seg_bytes, region_size) || start > region_size)
    return DRAY_OUT_OF_RANGE;
  *ret_span = (struct span){.base = (char *)region + start,
                            .len = len,
                            .seg_stride = l->seg_stride,
                            .seg_bytes = MIN_OF((uint64_t)l->seg_bytes, len)};
  return DRAY_REASON_OK;
}

uint32_t span_cut(const struct span *s, uint64_t from, uint64_t bytes, struct xfer_vec *ret_vec, uint32_t max,
                  uint64_t *ret_bytes)
{
  uint64_t done = 0;
  uint32_t n = 0;
  bytes = MIN_OF(bytes, s->len - from);
  while (done < bytes && n < max) {
    uint64_t at = from + done, seg = at / s->seg_bytes, in = at % s->seg_bytes;
    uint64_t piece = MIN_OF(s->seg_bytes - in, bytes - done);
    char *p = s->base + seg * s->seg_stride + in;
    if (n && (char *)ret_vec[n - 1].base + ret_vec[n - 1].len == p)
      ret_vec[n - 1].len += piece; /* neighbours are one piece */
    else
      ret_vec[n++] = (struct xfer_vec){.base = p, .len = piece};
    done += piece;
  }
  *ret_bytes = done;
  return n;
}

int span_overlap(const struct span *a, const struct span *b)
{
  /* segments ascend in both, so one pass in the manner of a merge finds any common byte */
  uint64_t ia = 0, ib = 0;
  while (ia < a->len && ib < b->len) {
    uintptr_t pa = (uintptr_t)a->base + ia / a->seg_bytes * a->seg_stride,
              pb = (uintptr_t)b->base + ib / b->seg_bytes * b->seg_stride;
    uint64_t la = MIN_OF(a->seg_bytes, a->len - ia), lb = MIN_OF(b->seg_bytes, b->len - ib);
    if (range_overlaps(pa, la, pb, lb))
      return 1;
    if (pa < pb)
      ia += a->seg_bytes;
    else
      ib += b->seg_bytes;
  }
  return 0;
}

struct crc_run {
  const struct span *s;
  uint64_t len;
  uint32_t crc;
};
static int crc_walk(void *ctx)
{
  struct crc_run *r = ctx;
  for (uint64_t at = 0; at < r->len;) {
    struct xfer_vec v;
    uint64_t n;
    span_cut(r->s, at, r->len - at, &v, 1, &n);
    r->crc = crc32c(r->crc, v.base, v.len);
    at += n;
  }
  return 0;
}

int span_crc(const struct span *s, uint64_t len, uint32_t *ret_crc, struct guard_hit *ret_hit)
{
  struct crc_run run = {.s = s, .len = len};
  struct guard_hit hit;
  uint64_t last = len ? (len - 1) / s->seg_bytes : 0;
  struct guard_range range = {.base = s->base, .len = last * s->seg_stride + s->seg_bytes};
  int r = guard_run(crc_walk, &run, &range, 1, &hit);
  if (r == 0)
    *ret_crc = run.crc;
  else if (ret_hit)
    *ret_hit = hit;
  return r;
}
