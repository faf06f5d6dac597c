/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interned names: tenants, agents (within a tenant), materialization keys. Ids count from 1 and are never reused; a
 * record does not change once its id is known, so what is handed out stays valid as long as the store.
 *
 * A materialization key found on disk is known by its digest alone. It gets an id at once (a placeholder with empty
 * axes, which the gate calls incomplete) and its axes when somebody interns the key with that digest.
 */
#ifndef MOVER_STORE_NAMES_H
#define MOVER_STORE_NAMES_H

#include <pthread.h>
#include <stdint.h>

#include <dray/ring_abi.h>

#define NAMES_TENANTS 4096u
#define NAMES_AGENTS 65536u
#define NAMES_MKEYS 65536u
#define NAMES_DIGEST 16

struct name_rec;
struct mkey_rec;

/* Records in the arena, found through a private open-addressed table of ids. */
struct name_table {
  struct name_rec *rec;
  uint32_t max, count;
  uint32_t *id;
  uint32_t mask;
};

struct names {
  pthread_mutex_t lock;
  struct name_table tenant, agent;
  struct mkey_rec *mkey;
  uint32_t mkeys;
  uint32_t *mkey_id;
};

uint64_t names_bytes(void);
int names_init(struct names *n, void *arena);
void names_deinit(struct names *n);

uint32_t names_tenant(struct names *n, const char *name);
/* How many there are: ids 1..n. */
uint32_t names_tenants(struct names *n);
uint32_t names_agent(struct names *n, uint32_t tenant, const char *name);
uint32_t names_mkey(struct names *n, const struct dray_key *key);
/* The id of the key with that digest, a placeholder when it is not known yet; 0 for the zero digest or a full table. */
uint32_t names_mkey_by_digest(struct names *n, const uint8_t digest[NAMES_DIGEST]);

const char *names_tenant_get(struct names *n, uint32_t tenant);
const char *names_agent_get(struct names *n, uint32_t agent);
const struct dray_key *names_mkey_get(struct names *n, uint32_t mkey);
/* Zeroes for an id that is none. */
void names_mkey_digest(struct names *n, uint32_t mkey, uint8_t ret_digest[NAMES_DIGEST]);
#endif
