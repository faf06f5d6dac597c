/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger: who used what, by tenant, request and tier. A thread of its own empties the lanes' rings, adds up for a
 * second, and writes one row for each minute, tenant, request and tier to SQLite, and one line to a time-series
 * database. Nobody waits for it: what does not fit is dropped and counted, what a database refuses is lost and counted.
 */
#ifndef MOVER_USAGE_H
#define MOVER_USAGE_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "include/priv/err.h"
#include "mover/config.h"
#include "mover/line.h"

struct daemon;

#define USAGE_ROWS 16384u /* tenants x requests x tiers within a second; a power of two */

struct usage_row {
  uint32_t tenant, request;
  uint8_t tier; /* 0: what was on none: misses, refusals */
  uint8_t used;
  uint16_t reason; /* of the last refusal */
  uint64_t directives, read, written, ns, hits, absent, evicted, other, refused;
};

struct usage {
  bool on, started;
  int wake; /* eventfd: a ring is half full */
  uint32_t stop;
  pthread_t thread;
  struct usage_row *row;
  uint32_t rows_n;
  void *db; /* usage_db.c */
  uint64_t retry_ns, pruned_ns;
  struct line line;
  /* [STAT] the thread's */
  uint64_t written, lost, broken, line_sent, line_lost;
  char said[200]; /* the last thing that went wrong with the database: said once */
};

/* Is a ledger configured? */
static inline bool usage_kept(const struct config *c)
{
  return c->usage.path || c->usage.line;
}
/* Directories that the thread writes in, "" where there is none: for the sandbox. */
void usage_dirs(const struct config_usage *c, char ret_dir[2][PATH_MAX]);
int usage_init(struct daemon *d, struct err *e);
int usage_start(struct daemon *d, struct err *e);
/* Writes what is left and ends the thread. The lanes are over. */
void usage_stop(struct daemon *d);
void usage_deinit(struct daemon *d);
/* Records that the lanes could not hand over. */
uint64_t usage_dropped(struct daemon *d);

/* ---- usage_db.c: the thread's ---- */
bool usage_db_built(void);
/* Opened, or made, when it is not yet. Writes the rows in one transaction: all or none. 0 or -EIO with a text. */
int usage_db_write(struct daemon *d, uint64_t now_s, struct err *e);
/* Rows older than the retention go. */
int usage_db_prune(struct daemon *d, uint64_t now_s, struct err *e);
void usage_db_close(struct usage *u);
#endif
