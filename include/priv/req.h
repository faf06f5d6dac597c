/* SPDX-License-Identifier: Apache-2.0 */
/* A directive after ring/take.c copied it out once and validated the copy. Private to the mover from here on. */
#ifndef PRIV_REQ_H
#define PRIV_REQ_H

#include <dray/ring_abi.h>

struct dray_req {
  struct dray_sqe sqe;    /* the copy */
  struct dray_copy_to to; /* COPY: decoded from key */
  uint32_t sq_pos;
  uint16_t reason; /* enum dray_reason: OK, or why it is refused before the mover looks at it */
};
#endif
