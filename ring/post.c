/* SPDX-License-Identifier: Apache-2.0 */
#include "ring/post.h"

void post_notice(struct poster *p, unsigned kind, const struct dray_cqe *n)
{
  if (kind < DRAY_POISON || kind > DRAY_FATAL)
    return;
  p->notice[kind] = *n;
  p->notice[kind].type = (uint8_t)kind;
  p->notice[kind].epoch = p->epoch;
  p->notice_due |= (uint8_t)(1u << kind);
}

bool post_flush(struct poster *p)
{
  while (UNLIKELY(p->notice_due)) {
    /* a notice takes a slot only beyond what the open directives will need */
    if (post_room(p, 1, DRAY_CANCEL_RESERVE + DRAY_NOTICE_KINDS) < 1)
      break;
    unsigned kind = (unsigned)__builtin_ctz(p->notice_due);
    struct dray_cqe *c = post_slot(p);
    if (!c)
      break;
    *c = p->notice[kind];
    p->notice_due &= (uint8_t) ~(1u << kind);
  }
  return wire_out_commit(&p->cq) > 0;
}
