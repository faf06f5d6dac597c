/* SPDX-License-Identifier: Apache-2.0 */
#include "transports/check.h"

#include "include/priv/bits.h"

#define FLAGS_ALL ((unsigned)(XFER_READ_SOON | XFER_CRC | XFER_FRAGILE))

/* The pieces are memory and their sum is exactly bytes. */
static int check_vec(const struct xfer_vec *v, uint32_t n, uint64_t bytes)
{
  if (!v || n < 1 || n > XFER_VECS_MAX)
    return -EINVAL;
  uint64_t sum = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint64_t end;
    if (!v[i].base || !v[i].len)
      return -EINVAL;
    if (!add_u64((uintptr_t)v[i].base, v[i].len, &end) || !add_u64(sum, v[i].len, &sum))
      return -EINVAL;
  }
  return sum == bytes ? 0 : -EINVAL;
}

int xfer_check(const struct dev *d, const struct xfer *x)
{
  if (x->flags & ~FLAGS_ALL)
    return -EINVAL;
  switch (x->op) {
  case XFER_SYNC:
    return x->nvec || x->nsrc || x->bytes ? -EINVAL : 0;
  case XFER_COPY:
    if (!d->caps.addressable)
      return -ENOTSUP;
    if (!x->bytes || check_vec(x->src, x->nsrc, x->bytes))
      return -EINVAL;
    return check_vec(x->vec, x->nvec, x->bytes);
  case XFER_READ:
  case XFER_WRITE:
    if (!x->bytes || x->nsrc || !x->slab)
      return -EINVAL;
    if (!range_inside(x->slab_off, x->bytes, x->slab->bytes))
      return -ERANGE;
    if (d->caps.addressable && !x->slab->base)
      return -EINVAL;
    return check_vec(x->vec, x->nvec, x->bytes);
  default:
    return -EINVAL;
  }
}
