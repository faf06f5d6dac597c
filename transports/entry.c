/* SPDX-License-Identifier: Apache-2.0 */
#include "transports/entry.h"

#include <stddef.h>
#include <string.h>

#include <dray/types.h>

#include "base/crc.h"

static uint32_t entry_crc(const struct index_cell *c, uint64_t seed)
{
  return crc32c(crc32c(0, &seed, sizeof seed), c, offsetof(struct index_cell, crc));
}

void entry_write(struct index_cell *ret_cell, uint32_t magic, uint32_t slot, uint64_t seed, const struct index_entry *e)
{
  struct index_cell *c = ret_cell;
  memset(c, 0, sizeof *c);
  c->magic = magic;
  c->slot = slot;
  memcpy(c->key, e->key, sizeof c->key);
  memcpy(c->mkey_hash, e->mkey_hash, sizeof c->mkey_hash);
  c->len = e->len;
  c->data_crc = e->crc;
  c->generation = e->generation;
  c->scope = e->scope;
  c->taint = e->taint;
  c->has_crc = e->has_crc;
  memcpy(c->tenant, e->tenant, sizeof c->tenant);
  memcpy(c->agent, e->agent, sizeof c->agent);
  c->crc = entry_crc(c, seed);
}

bool entry_owner_valid(const char tenant[INDEX_NAME_MAX], const char agent[INDEX_NAME_MAX], uint8_t scope)
{
  return scope >= DRAY_SCOPE_AGENT && scope <= DRAY_SCOPE_FLEET && memchr(tenant, 0, INDEX_NAME_MAX) &&
         memchr(agent, 0, INDEX_NAME_MAX);
}

bool entry_valid(const struct index_cell *c, uint32_t magic, uint32_t slot, uint64_t seed, uint64_t slot_bytes)
{
  if (c->magic != magic || c->slot != slot || c->crc != entry_crc(c, seed))
    return false;
  if (!c->len || c->len > slot_bytes || c->has_crc > 1 || c->taint > DRAY_QUARANTINED_TAINT) /* 0: not judged yet */
    return false;
  return entry_owner_valid(c->tenant, c->agent, c->scope);
}

void entry_read(const struct index_cell *c, struct index_entry *ret_entry)
{
  struct index_entry *e = ret_entry;
  memset(e, 0, sizeof *e);
  memcpy(e->key, c->key, sizeof e->key);
  memcpy(e->mkey_hash, c->mkey_hash, sizeof e->mkey_hash);
  memcpy(e->tenant, c->tenant, sizeof e->tenant);
  memcpy(e->agent, c->agent, sizeof e->agent);
  e->len = c->len;
  e->crc = c->data_crc;
  e->generation = c->generation;
  e->scope = c->scope;
  e->taint = c->taint;
  e->has_crc = c->has_crc;
}
