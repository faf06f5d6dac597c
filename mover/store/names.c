/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/store/names.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "include/priv/hash.h"
#include "mover/store/store.h"

struct name_rec {
  char name[STORE_NAME_MAX];
  uint32_t owner; /* the tenant of an agent, 0 for a tenant */
  uint32_t zero;
};
struct mkey_rec {
  struct dray_key key;
  uint8_t digest[NAMES_DIGEST];
  uint32_t known; /* 0: a placeholder */
  uint32_t zero;
};

static const struct dray_key key_unknown;

uint64_t names_bytes(void)
{
  return (uint64_t)(NAMES_TENANTS + NAMES_AGENTS) * sizeof(struct name_rec) +
         (uint64_t)NAMES_MKEYS * sizeof(struct mkey_rec);
}

static bool table_init(struct name_table *t, struct name_rec *rec, uint32_t max)
{
  uint32_t slots = pow2_at_least(2 * max);
  *t = (struct name_table){.rec = rec, .max = max, .mask = slots - 1, .id = calloc(slots, sizeof(uint32_t))};
  return t->id != NULL;
}

int names_init(struct names *n, void *arena)
{
  *n = (struct names){0};
  pthread_mutex_init(&n->lock, NULL);
  struct name_rec *rec = arena;
  bool ok = table_init(&n->tenant, rec, NAMES_TENANTS);
  ok &= table_init(&n->agent, rec + NAMES_TENANTS, NAMES_AGENTS);
  n->mkey = (struct mkey_rec *)(void *)(rec + NAMES_TENANTS + NAMES_AGENTS);
  n->mkey_id = calloc(2 * NAMES_MKEYS, sizeof(uint32_t));
  return ok && n->mkey_id ? 0 : -ENOMEM;
}

void names_deinit(struct names *n)
{
  free(n->tenant.id);
  free(n->agent.id);
  free(n->mkey_id);
  pthread_mutex_destroy(&n->lock);
}

static uint32_t table_intern(struct name_table *t, uint32_t owner, const char *name)
{
  size_t len = name ? strnlen(name, STORE_NAME_MAX) : 0;
  if (!len || len == STORE_NAME_MAX)
    return 0;
  uint32_t at = (uint32_t)hash_bytes(name, len, owner) & t->mask;
  for (; t->id[at]; at = (at + 1) & t->mask) {
    const struct name_rec *r = &t->rec[t->id[at] - 1];
    if (r->owner == owner && !strcmp(r->name, name))
      return t->id[at];
  }
  if (t->count == t->max)
    return 0;
  struct name_rec *r = &t->rec[t->count];
  memcpy(r->name, name, len + 1);
  r->owner = owner;
  t->id[at] = ++t->count;
  return t->count;
}

uint32_t names_tenant(struct names *n, const char *name)
{
  LOCKED(&n->lock);
  return table_intern(&n->tenant, 0, name);
}

uint32_t names_agent(struct names *n, uint32_t tenant, const char *name)
{
  LOCKED(&n->lock);
  if (!tenant || tenant > n->tenant.count)
    return 0;
  return table_intern(&n->agent, tenant, name);
}

const char *names_tenant_get(struct names *n, uint32_t tenant)
{
  LOCKED(&n->lock);
  return tenant && tenant <= n->tenant.count ? n->tenant.rec[tenant - 1].name : NULL;
}

const char *names_agent_get(struct names *n, uint32_t agent)
{
  LOCKED(&n->lock);
  return agent && agent <= n->agent.count ? n->agent.rec[agent - 1].name : NULL;
}

/* Bytes after an axis' terminator must not make two keys of one. */
static void axis_copy(char to[DRAY_AXIS_MAX], const char from[DRAY_AXIS_MAX])
{
  memset(to, 0, DRAY_AXIS_MAX);
  memcpy(to, from, strnlen(from, DRAY_AXIS_MAX - 1));
}

static void key_normalize(struct dray_key *to, const struct dray_key *from)
{
  axis_copy(to->model, from->model);
  axis_copy(to->tokenizer, from->tokenizer);
  axis_copy(to->serializer, from->serializer);
  axis_copy(to->position, from->position);
  axis_copy(to->policy, from->policy);
  axis_copy(to->admitter, from->admitter);
}

/* The id with that digest, made when there is room; 0 otherwise. */
static uint32_t mkey_by_digest(struct names *n, const uint8_t digest[NAMES_DIGEST])
{
  const uint32_t mask = 2 * NAMES_MKEYS - 1;
  uint32_t at;
  memcpy(&at, digest, sizeof at);
  for (at &= mask; n->mkey_id[at]; at = (at + 1) & mask)
    if (!memcmp(n->mkey[n->mkey_id[at] - 1].digest, digest, NAMES_DIGEST))
      return n->mkey_id[at];
  if (n->mkeys == NAMES_MKEYS)
    return 0;
  memcpy(n->mkey[n->mkeys].digest, digest, NAMES_DIGEST);
  n->mkey_id[at] = ++n->mkeys;
  return n->mkeys;
}

uint32_t names_mkey(struct names *n, const struct dray_key *key)
{
  if (!key)
    return 0;
  struct dray_key k;
  XXH128_canonical_t digest;
  key_normalize(&k, key);
  XXH128_canonicalFromHash(&digest, XXH3_128bits(&k, sizeof k));
  LOCKED(&n->lock);
  uint32_t id = mkey_by_digest(n, digest.digest);
  if (!id)
    return 0;
  struct mkey_rec *r = &n->mkey[id - 1];
  if (!r->known) {
    r->key = k;
    r->known = 1;
  }
  return memcmp(&r->key, &k, sizeof k) ? 0 : id;
}

uint32_t names_mkey_by_digest(struct names *n, const uint8_t digest[NAMES_DIGEST])
{
  static const uint8_t none[NAMES_DIGEST];
  if (!memcmp(digest, none, NAMES_DIGEST))
    return 0;
  LOCKED(&n->lock);
  return mkey_by_digest(n, digest);
}

const struct dray_key *names_mkey_get(struct names *n, uint32_t mkey)
{
  LOCKED(&n->lock);
  if (!mkey || mkey > n->mkeys)
    return NULL;
  return n->mkey[mkey - 1].known ? &n->mkey[mkey - 1].key : &key_unknown;
}

void names_mkey_digest(struct names *n, uint32_t mkey, uint8_t ret_digest[NAMES_DIGEST])
{
  LOCKED(&n->lock);
  if (mkey && mkey <= n->mkeys)
    memcpy(ret_digest, n->mkey[mkey - 1].digest, NAMES_DIGEST);
  else
    memset(ret_digest, 0, NAMES_DIGEST);
}

uint32_t names_tenants(struct names *n)
{
  LOCKED(&n->lock);
  return n->tenant.count;
}
