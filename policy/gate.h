/* SPDX-License-Identifier: Apache-2.0 */
/* The trust gate: may this asker have this cell? Closed on any miss; the order of checks is part of the contract. */
#ifndef POLICY_GATE_H
#define POLICY_GATE_H

#include "policy/ask.h"

/* enum dray_reason: OK, ABSENT (another tenant's private cell), or the first check that failed. */
unsigned gate_check(const struct policy_ask *a);
/* May the asker know of the cell: OK or ABSENT. */
unsigned gate_sight(const struct policy_ask *a);
/* Same tenant and same agent. */
bool gate_owner(const struct policy_ask *a);
/* May the asker change it (MOVE, PUBLISH, DROP)? ABSENT as above; only its owner may, else SCOPE_DENIED; MOVE is also
   open to agents of the owner's tenant whom the scope reaches, but bad bytes are not moved: POISONED, QUARANTINED. */
unsigned gate_change(const struct policy_ask *a);
#endif
