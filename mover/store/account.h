/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of cells that one session, or one request, has put and that are still here. A charge lives in the cell, so
 * that its end refunds it. The table's lock is innermost. Not in an arena: sessions end with their worker.
 */
#ifndef MOVER_STORE_ACCOUNT_H
#define MOVER_STORE_ACCOUNT_H

#include <pthread.h>
#include <stdint.h>

#define ACCOUNTS 65536u /* indices from 1 */

struct account {
  uint64_t id, bytes;
  uint32_t tenant, charges; /* charges 0: free */
  uint16_t next;            /* in its chain, or of the free list */
  uint8_t unit;
};
struct accounts {
  pthread_mutex_t lock;
  struct account *at; /* NULL until the first charge */
  uint16_t *head;     /* chains by hash */
  uint16_t free_head;
  uint32_t bump;
};

void accounts_init(struct accounts *t);
void accounts_deinit(struct accounts *t);
/* OK, QUOTA_EXCEEDED, LIMIT (the table is full). */
unsigned account_charge(struct accounts *t, uint32_t tenant, uint8_t unit, uint64_t id, uint64_t len, uint64_t limit,
                        uint16_t *ret_account);
/* Another charge of the same: a cell's successor, while both are there. 0 is none. */
void account_again(struct accounts *t, uint16_t account, uint64_t len);
void account_refund(struct accounts *t, uint16_t account, uint64_t len);
#endif
