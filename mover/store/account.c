/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/store/account.h"

#include <stdbool.h>
#include <stdlib.h>

#include <dray/types.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "mover/store/store.h"

void accounts_init(struct accounts *t)
{
  pthread_mutex_init(&t->lock, NULL);
  t->at = NULL;
  t->head = NULL;
  t->free_head = 0;
  t->bump = 0;
}

void accounts_deinit(struct accounts *t)
{
  free(t->at);
  free(t->head);
  pthread_mutex_destroy(&t->lock);
}

static uint16_t *chain_of(struct accounts *t, uint32_t tenant, uint8_t unit, uint64_t id)
{
  uint64_t h = (id ^ (uint64_t)tenant << 40 ^ (uint64_t)unit << 60) * 0x9e3779b97f4a7c15ull;
  return &t->head[h >> 48];
}

/* The lock is held. 0: none is free. */
static uint16_t account_new(struct accounts *t, uint16_t *chain, uint32_t tenant, uint8_t unit, uint64_t id)
{
  uint16_t i = t->free_head;
  if (i)
    t->free_head = t->at[i].next;
  else if (t->bump + 1 < ACCOUNTS)
    i = (uint16_t)++t->bump;
  else
    return 0;
  t->at[i] = (struct account){.id = id, .tenant = tenant, .unit = unit, .next = *chain};
  *chain = i;
  return i;
}

static void account_free(struct accounts *t, uint16_t i)
{
  const struct account *a = &t->at[i];
  uint16_t *at = chain_of(t, a->tenant, a->unit, a->id);
  while (*at != i)
    at = &t->at[*at].next;
  *at = a->next;
  t->at[i].next = t->free_head;
  t->free_head = i;
}

unsigned account_charge(struct accounts *t, uint32_t tenant, uint8_t unit, uint64_t id, uint64_t len, uint64_t limit,
                        uint16_t *ret_account)
{
  uint64_t sum;
  LOCKED(&t->lock);
  if (!t->at) {
    t->at = calloc(ACCOUNTS, sizeof *t->at);
    t->head = calloc(ACCOUNTS, sizeof *t->head);
  }
  if (!t->at || !t->head)
    return DRAY_LIMIT;
  uint16_t *chain = chain_of(t, tenant, unit, id), i = *chain;
  while (i && (t->at[i].id != id || t->at[i].tenant != tenant || t->at[i].unit != unit))
    i = t->at[i].next;
  if (!add_u64(i ? t->at[i].bytes : 0, len, &sum) || sum > limit)
    return DRAY_QUOTA_EXCEEDED;
  i = i ? i : account_new(t, chain, tenant, unit, id);
  if (!i)
    return DRAY_LIMIT;
  t->at[i].bytes = sum;
  t->at[i].charges++;
  *ret_account = i;
  return DRAY_REASON_OK;
}

void account_again(struct accounts *t, uint16_t account, uint64_t len)
{
  if (LIKELY(!account))
    return;
  LOCKED(&t->lock);
  t->at[account].bytes += len;
  t->at[account].charges++;
}

void account_refund(struct accounts *t, uint16_t account, uint64_t len)
{
  if (LIKELY(!account))
    return;
  LOCKED(&t->lock);
  t->at[account].bytes -= len;
  if (--t->at[account].charges == 0)
    account_free(t, account);
}
