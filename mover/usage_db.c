/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger's SQLite database: one row for each minute, tenant, request and tier, added to. */
#include <errno.h>
#include <string.h>

#include "include/priv/bits.h"
#include "mover/daemon.h"
#include "mover/usage.h"

#ifdef HAVE_SQLITE
#include <sqlite3.h>

#define PAGE 4096u
#define BUSY_MS 2000 /* a reader that holds it */

bool usage_db_built(void)
{
  return true;
}

static const char schema[] =
    "PRAGMA page_size=4096; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA temp_store=MEMORY;"
    "CREATE TABLE IF NOT EXISTS usage(minute INTEGER NOT NULL, tenant TEXT NOT NULL, request INTEGER NOT NULL,"
    " tier TEXT NOT NULL, directives INTEGER NOT NULL, read INTEGER NOT NULL, written INTEGER NOT NULL,"
    " ns INTEGER NOT NULL, hits INTEGER NOT NULL, absent INTEGER NOT NULL, evicted INTEGER NOT NULL,"
    " other INTEGER NOT NULL, refused INTEGER NOT NULL, reason TEXT NOT NULL,"
    " PRIMARY KEY(minute, tenant, request, tier)) WITHOUT ROWID; PRAGMA user_version=1";
static const char add_row[] =
    "INSERT INTO usage VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14)"
    " ON CONFLICT(minute, tenant, request, tier) DO UPDATE SET directives=directives+?5, read=read+?6,"
    " written=written+?7, ns=ns+?8, hits=hits+?9, absent=absent+?10, evicted=evicted+?11, other=other+?12,"
    " refused=refused+?13, reason=CASE WHEN ?14='' THEN reason ELSE ?14 END";

static int failed(const struct daemon *d, sqlite3 *db, const char *what, struct err *e)
{
  return err_set(e, -EIO, "%.100s: %s: %.80s", d->cfg->usage.path, what, db ? sqlite3_errmsg(db) : "no memory");
}

static int db_open(struct daemon *d, struct err *e)
{
  struct usage *u = &d->usage;
  sqlite3 *db = NULL;
  char text[160];
  if (u->db)
    return 0;
  int rc =
      sqlite3_open_v2(d->cfg->usage.path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
  if (rc == SQLITE_OK) {
    sqlite3_busy_timeout(db, BUSY_MS);
    rc = sqlite3_exec(db, schema, NULL, NULL, NULL);
  }
  snprintf(text, sizeof text, "PRAGMA max_page_count=%llu; PRAGMA journal_size_limit=16777216",
           (unsigned long long)MAX_OF(d->cfg->usage.max_bytes / PAGE, 1u));
  if (rc == SQLITE_OK)
    rc = sqlite3_exec(db, text, NULL, NULL, NULL);
  if (rc != SQLITE_OK) {
    int r = failed(d, db, "not opened", e);
    sqlite3_close(db);
    return r;
  }
  u->db = db;
  return 0;
}

void usage_db_close(struct usage *u)
{
  sqlite3_close(u->db);
  u->db = NULL;
}

static void bind_row(struct daemon *d, sqlite3_stmt *q, const struct usage_row *r, uint64_t minute)
{
  const char *tenant = store_tenant_name(d->store, r->tenant);
  const uint64_t v[] = {r->directives, r->read,    r->written, r->ns,     r->hits,
                        r->absent,     r->evicted, r->other,   r->refused};
  sqlite3_bind_int64(q, 1, (sqlite3_int64)minute);
  sqlite3_bind_text(q, 2, tenant ? tenant : "?", -1, SQLITE_TRANSIENT);
  sqlite3_bind_int64(q, 3, r->request);
  sqlite3_bind_text(q, 4, r->tier ? dray_tier_name(r->tier) : "", -1, SQLITE_STATIC);
  for (int i = 0; i < (int)ARRAY_LEN(v); i++)
    sqlite3_bind_int64(q, 5 + i, (sqlite3_int64)MIN_OF(v[i], (uint64_t)INT64_MAX));
  sqlite3_bind_text(q, 14, r->reason ? dray_reason_name(r->reason) : "", -1, SQLITE_STATIC);
}

int usage_db_write(struct daemon *d, uint64_t now_s, struct err *e)
{
  struct usage *u = &d->usage;
  sqlite3_stmt *q = NULL;
  int r = db_open(d, e);
  if (r < 0)
    return r;
  sqlite3 *db = u->db;
  int rc = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
  if (rc == SQLITE_OK)
    rc = sqlite3_prepare_v2(db, add_row, -1, &q, NULL);
  for (uint32_t i = 0; rc == SQLITE_OK && i < USAGE_ROWS; i++) {
    if (!u->row[i].used)
      continue;
    bind_row(d, q, &u->row[i], now_s / 60 * 60);
    rc = sqlite3_step(q) == SQLITE_DONE ? sqlite3_reset(q) : sqlite3_errcode(db);
  }
  if (rc == SQLITE_OK)
    rc = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
  r = rc == SQLITE_OK
          ? 0
          : failed(d, db, rc == SQLITE_FULL ? "rows not written (usage.max, or the disk)" : "rows not written", e);
  sqlite3_finalize(q);
  if (r < 0)
    sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
  return r;
}

int usage_db_prune(struct daemon *d, uint64_t now_s, struct err *e)
{
  char text[96];
  uint64_t keep = d->cfg->usage.keep_s;
  int r = db_open(d, e);
  if (r < 0)
    return r;
  snprintf(text, sizeof text, "DELETE FROM usage WHERE minute < %llu",
           (unsigned long long)(now_s > keep ? (now_s - keep) / 60 * 60 : 0));
  int rc = sqlite3_exec(d->usage.db, text, NULL, NULL, NULL);
  return rc == SQLITE_OK ? 0 : failed(d, d->usage.db, "old rows not deleted", e);
}
#else
bool usage_db_built(void)
{
  return false;
}
int usage_db_write(struct daemon *d, uint64_t now_s, struct err *e)
{
  (void)d;
  (void)now_s;
  return err_set(e, -ENOTSUP, "built without SQLite");
}
int usage_db_prune(struct daemon *d, uint64_t now_s, struct err *e)
{
  (void)d;
  (void)now_s;
  (void)e;
  return 0;
}
void usage_db_close(struct usage *u)
{
  (void)u;
}
#endif
