/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completions go into M here. Credits make an overflow impossible: a directive is only taken while there is a
 * completion slot set aside for it, and a slot comes back when the engine's cq_cons passes it.
 */
#ifndef RING_POST_H
#define RING_POST_H

#include <stdbool.h>
#include <stdint.h>

#include <dray/ring_abi.h>

#include "ring/wire.h"

struct poster {
  struct wire_out cq;
  uint32_t credits; /* N */
  uint32_t open;    /* directives taken and not yet answered */
  uint16_t epoch;
  uint8_t notice_due; /* bit k: a notice of kind k waits for a slot */
  struct dray_cqe notice[8];
};

/* Directives that may be taken now (at most n). With cancel, the CANCEL reserve counts too. -EPROTO: lying engine. */
static inline int post_room(struct poster *p, uint32_t n, uint32_t reserve)
{
  const struct rte_ring *r = p->cq.w.r;
  uint32_t limit = p->credits + reserve;
  uint32_t used = p->open + (wire_out_pos(&p->cq) - r->cons.tail);
  if (used + n > limit) {
    int e = wire_out_import(&p->cq);
    if (e < 0)
      return e;
    used = p->open + (wire_out_pos(&p->cq) - r->cons.tail);
  }
  return used >= limit ? 0 : (int)(limit - used < n ? limit - used : n);
}
/* The slot of the next completion; never NULL for a directive that was taken by credit. The caller fills all of it. */
static inline struct dray_cqe *post_slot(struct poster *p)
{
  int err = 0;
  return wire_out_slot(&p->cq, &err);
}
/* Notices: one coalesced hint per kind; the truth is level-triggered state in M. Posted at once when a slot is free,
   else by post_flush(). */
void post_notice(struct poster *p, unsigned kind, const struct dray_cqe *n);
/* Publishes what was posted. True when something became visible. */
bool post_flush(struct poster *p);
#endif
