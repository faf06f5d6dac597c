/* SPDX-License-Identifier: Apache-2.0 */
/* A place in a list of pieces. Lists have no length here: whoever advances knows the sum. */
#ifndef TRANSPORTS_VEC_H
#define TRANSPORTS_VEC_H

#include "transports/xfer.h"

struct vec_at {
  const struct xfer_vec *v;
  uint64_t off; /* < v->len */
};

static inline struct vec_at vec_begin(const struct xfer_vec *v)
{
  return (struct vec_at){v, 0};
}
static inline void *vec_ptr(const struct vec_at *a)
{
  return (char *)a->v->base + a->off;
}
/* Bytes to the end of the piece. */
static inline uint64_t vec_left(const struct vec_at *a)
{
  return a->v->len - a->off;
}
/* n may span pieces; at the end of the list the place is one past the last piece and is not looked at. */
static inline void vec_advance(struct vec_at *a, uint64_t n)
{
  while (n) {
    uint64_t left = vec_left(a);
    if (n < left) {
      a->off += n;
      return;
    }
    n -= left;
    a->v++;
    a->off = 0;
  }
}
#endif
