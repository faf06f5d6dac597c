/* SPDX-License-Identifier: Apache-2.0 */
/* An intrusive, circular, doubly linked list. A node is either linked or points at itself. */
#ifndef PRIV_LIST_H
#define PRIV_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "include/priv/bits.h"

struct list {
  struct list *prev, *next;
};

static inline void list_init(struct list *l)
{
  l->prev = l->next = l;
}
static inline bool list_empty(const struct list *l)
{
  return l->next == l;
}
static inline void list_push_back(struct list *l, struct list *n)
{
  n->prev = l->prev;
  n->next = l;
  l->prev->next = n;
  l->prev = n;
}
static inline void list_push_front(struct list *l, struct list *n)
{
  n->next = l->next;
  n->prev = l;
  l->next->prev = n;
  l->next = n;
}
static inline void list_remove(struct list *n)
{
  n->prev->next = n->next;
  n->next->prev = n->prev;
  list_init(n);
}
static inline struct list *list_pop_front(struct list *l)
{
  if (list_empty(l))
    return NULL;
  struct list *n = l->next;
  list_remove(n);
  return n;
}
/* Safe against removal of the current node. */
#define LIST_EACH(l, n)                                                                                                \
  for (struct list *n = (l)->next, *n##_next = n->next; n != (l); n = n##_next, n##_next = n->next)
#define LIST_OF(n, type, member) CONTAINER_OF(n, type, member)
#endif
