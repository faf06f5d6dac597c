/* SPDX-License-Identifier: Apache-2.0 */
/* The question: facts only. mover/admit.c fills it; policy reads nothing else but the snapshot. */
#ifndef POLICY_ASK_H
#define POLICY_ASK_H

#include <stdbool.h>
#include <stdint.h>

#include <dray/ring_abi.h>
#include <dray/types.h>

struct policy_ask {
  uint8_t op;     /* enum dray_op */
  uint16_t flags; /* enum dray_sqe_flag */
  uint8_t tier;   /* asked for; DRAY_TIER_ANY: policy chooses */
  uint64_t bytes;
  uint64_t now_ns; /* time is in the ask */

  uint32_t tenant, agent;      /* who asks (as admitted, never as claimed) */
  const struct dray_key *mkey; /* NULL: none */

  /* the cell, when there is one */
  bool exists;
  bool quarantined, poisoned;
  uint32_t cell_tenant, cell_agent;
  uint8_t cell_scope, cell_taint;
  const struct dray_key *cell_mkey; /* NULL: none */
  uint8_t copies;                   /* bit t: a copy on tier t */

  /* the node */
  uint8_t usable; /* bit t: there is a pool on tier t that takes new cells */
  uint8_t room;   /* bit t: it has room for bytes without moving anything out */
};
#endif
