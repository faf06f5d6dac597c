/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/rows.h"

#include <stdlib.h>

#include "include/priv/bits.h"
#include "mover/job.h"
#include "mover/lane.h"
#include "mover/session.h"
#include "ring/take.h"

static void window_fill(const struct session *s, const struct job *j, struct rows *w)
{
  w->first = j->next_item;
  w->n = MIN_OF(j->items - j->next_item, ROWS_WINDOW);
  take_items(s->arena, j->first_item + w->first, w->n, w->item);
}

void rows_begin(struct lane *l, struct session *s, struct job *j)
{
  struct rows *w = l->rows;
  if (w) {
    l->rows = w->next;
  } else if (l->rows_made < ROWS_PER_LANE && (w = malloc(sizeof *w))) {
    l->rows_made++;
  } else {
    return;
  }
  j->rows = w;
  window_fill(s, j, w);
}

const struct dray_item *rows_read(struct session *s, struct job *j, uint32_t n, struct dray_item *room)
{
  struct rows *w = j->rows;
  if (!w) {
    take_items(s->arena, j->first_item + j->next_item, n, room);
    return room;
  }
  if (j->next_item + n > w->first + w->n)
    window_fill(s, j, w);
  return &w->item[j->next_item - w->first];
}

void rows_end(struct lane *l, struct job *j)
{
  if (!j->rows)
    return;
  j->rows->next = l->rows;
  l->rows = j->rows;
  j->rows = NULL;
}

void rows_free_all(struct lane *l)
{
  for (struct rows *w = l->rows, *next; w; w = next) {
    next = w->next;
    free(w);
  }
  l->rows = NULL;
}
