/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A BATCH's items on their way out of U: copied a window at a time, as soon as the job starts, so that its items do not
 * each wait for a line of the engine's CPU, and the engine can have its lines back while the mover still works.
 */
#ifndef MOVER_ROWS_H
#define MOVER_ROWS_H

#include <stdint.h>

#include <dray/ring_abi.h>

struct job;
struct lane;
struct session;

#define ROWS_WINDOW 512u  /* items */
#define ROWS_PER_LANE 64u /* windows; a job that finds none reads its items few at a time */

struct rows {
  struct rows *next; /* the lane's free ones */
  uint32_t first, n; /* items [first, first + n) of the job are here */
  struct dray_item item[ROWS_WINDOW];
};

/* The job starts: its first window, when there is one. */
void rows_begin(struct lane *l, struct session *s, struct job *j);
/* n items of the job from next_item on (n <= room): in the window, or copied to room. */
const struct dray_item *rows_read(struct session *s, struct job *j, uint32_t n, struct dray_item *room);
/* Idempotent. */
void rows_end(struct lane *l, struct job *j);
/* Of the lane. */
void rows_free_all(struct lane *l);
#endif
