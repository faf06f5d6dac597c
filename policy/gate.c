/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/gate.h"

#include <string.h>

#include "include/priv/bits.h"

/* The axes in the order in which a difference is reported. */
struct axis {
  size_t off;
  unsigned mismatch;
};
static const struct axis axes[] = {
    {offsetof(struct dray_key, model), DRAY_MODEL_MISMATCH},
    {offsetof(struct dray_key, tokenizer), DRAY_TOKENIZER_MISMATCH},
    {offsetof(struct dray_key, serializer), DRAY_SERIALIZER_MISMATCH},
    {offsetof(struct dray_key, position), DRAY_POSITION_MISMATCH},
    {offsetof(struct dray_key, policy), DRAY_POLICY_MISMATCH},
    {offsetof(struct dray_key, admitter), DRAY_ADMITTER_MISMATCH},
};

static bool key_complete(const struct dray_key *k)
{
  for (size_t i = 0; k && i < ARRAY_LEN(axes); i++)
    if (!((const char *)k)[axes[i].off])
      return false;
  return k != NULL;
}

static unsigned key_compare(const struct dray_key *a, const struct dray_key *b)
{
  for (size_t i = 0; i < ARRAY_LEN(axes); i++)
    if (strncmp((const char *)a + axes[i].off, (const char *)b + axes[i].off, DRAY_AXIS_MAX))
      return axes[i].mismatch;
  return DRAY_REASON_OK;
}

static unsigned key_check(const struct policy_ask *a, bool owner)
{
  if (owner && !a->mkey && !a->cell_mkey)
    return DRAY_REASON_OK;
  if (!a->mkey || !a->cell_mkey)
    return DRAY_KEY_INCOMPLETE;
  if (!owner && (!key_complete(a->mkey) || !key_complete(a->cell_mkey)))
    return DRAY_KEY_INCOMPLETE;
  return key_compare(a->mkey, a->cell_mkey);
}

/* The asker is of the cell's tenant but not its owner, or of another tenant. */
static bool scope_reaches(const struct policy_ask *a)
{
  return a->cell_scope == DRAY_SCOPE_FLEET || (a->cell_scope == DRAY_SCOPE_TENANT && a->cell_tenant == a->tenant);
}

unsigned gate_sight(const struct policy_ask *a)
{
  /* what another tenant keeps to itself does not exist, whatever else is the matter with it */
  if (!a->exists || (a->cell_tenant != a->tenant && a->cell_scope != DRAY_SCOPE_FLEET))
    return DRAY_ABSENT;
  return DRAY_REASON_OK;
}

bool gate_owner(const struct policy_ask *a)
{
  return a->cell_tenant == a->tenant && a->cell_agent == a->agent;
}

unsigned gate_check(const struct policy_ask *a)
{
  bool owner = gate_owner(a);
  if (gate_sight(a) != DRAY_REASON_OK)
    return DRAY_ABSENT;
  if (a->poisoned)
    return DRAY_POISONED;
  if (a->quarantined)
    return DRAY_QUARANTINED;
  if (!owner && !scope_reaches(a))
    return DRAY_SCOPE_DENIED;
  if (!owner && a->cell_taint != DRAY_TRUSTED)
    return DRAY_TAINT_DENIED;
  return key_check(a, owner);
}

unsigned gate_change(const struct policy_ask *a)
{
  if (gate_sight(a) != DRAY_REASON_OK)
    return DRAY_ABSENT;
  bool moves = a->op == DRAY_MOVE;
  if (moves && a->poisoned)
    return DRAY_POISONED;
  if (moves && a->quarantined)
    return DRAY_QUARANTINED;
  if (gate_owner(a) || (moves && a->cell_tenant == a->tenant && scope_reaches(a)))
    return DRAY_REASON_OK;
  return DRAY_SCOPE_DENIED;
}
