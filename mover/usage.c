/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/usage.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "mover/daemon.h"

#define TAKE 256u
#define FLUSH_NS 1000000000u
#define RETRY_NS 5000000000u
#define PRUNE_NS 60000000000u

void usage_dirs(const struct config_usage *c, char ret_dir[2][PATH_MAX])
{
  const char *path[2] = {c->path, c->line && !strncmp(c->line, "file:", 5) ? c->line + 5 : NULL};
  for (int i = 0; i < 2; i++) {
    const char *slash = path[i] ? strrchr(path[i], '/') : NULL;
    size_t n = slash ? (size_t)(slash - path[i]) : 0;
    ret_dir[i][0] = 0;
    if (!path[i] || n >= PATH_MAX)
      continue;
    memcpy(ret_dir[i], n ? path[i] : slash ? "/" : ".", n ? n : 1);
    ret_dir[i][n ? n : 1] = 0;
  }
}

int usage_init(struct daemon *d, struct err *e)
{
  struct usage *u = &d->usage;
  u->wake = -1;
  if (!usage_kept(d->cfg))
    return 0;
  u->on = true;
  u->row = calloc(USAGE_ROWS, sizeof *u->row);
  u->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (!u->row || u->wake < 0)
    return err_set(e, -ENOMEM, "usage: no memory for the ledger");
  return d->cfg->usage.line ? line_parse(d->cfg->usage.line, &u->line, e) : 0;
}

void usage_deinit(struct daemon *d)
{
  line_close(&d->usage.line);
  free(d->usage.row);
  d->usage.row = NULL;
  if (d->usage.on)
    close_fd(&d->usage.wake);
}

uint64_t usage_dropped(struct daemon *d)
{
  uint64_t n = 0;
  for (uint32_t i = 0; i < d->lanes_n; i++)
    n += d->lanes[i].meter_ring ? stat_read(&d->lanes[i].meter_ring->dropped) : 0;
  return n;
}

/* ---- adding up ---- */

static struct usage_row *row_of(struct usage *u, uint32_t tenant, uint32_t request, uint8_t tier)
{
  uint64_t h = ((uint64_t)tenant << 40 ^ (uint64_t)request << 8 ^ tier) * 0x9e3779b97f4a7c15ull;
  for (uint32_t i = (uint32_t)(h >> 40);; i++) {
    struct usage_row *r = &u->row[i & (USAGE_ROWS - 1)];
    if (r->used && r->tenant == tenant && r->request == request && r->tier == tier)
      return r;
    if (r->used)
      continue;
    *r = (struct usage_row){.tenant = tenant, .request = request, .tier = tier, .used = 1};
    u->rows_n++;
    return r;
  }
}

static void add(struct usage *u, const struct meter_record *m)
{
  struct usage_row *r = row_of(u, m->tenant, m->request, m->n.tier);
  r->directives += m->first;
  r->read += m->n.read;
  r->written += m->n.written;
  r->ns += m->ns;
  r->hits += m->n.hits;
  if (!m->n.absent && !m->n.evicted && !m->n.other && !m->n.refused)
    return;
  r = row_of(u, m->tenant, m->request, 0); /* what was not there was on no tier */
  r->absent += m->n.absent;
  r->evicted += m->n.evicted;
  r->other += m->n.other;
  r->refused += m->n.refused;
  r->reason = m->reason ? m->reason : r->reason;
}

/* ---- writing ---- */

static void complain(struct daemon *d, int r, const struct err *e)
{
  struct usage *u = &d->usage;
  if (r == 0 && stat_read(&u->broken)) {
    log_line(&d->log, LOG_INFO, "usage: the database takes rows again; %llu were lost",
             (unsigned long long)stat_read(&u->lost));
    u->said[0] = 0;
  } else if (r < 0 && strncmp(u->said, e->text, sizeof u->said - 1)) {
    log_line(&d->log, LOG_ERROR, "usage: %s; rows are lost and counted until it is mended (dray_usage_lost_total)",
             e->text);
    snprintf(u->said, sizeof u->said, "%.199s", e->text);
  }
  stat_set(&u->broken, r < 0);
}

static void flush(struct daemon *d)
{
  struct usage *u = &d->usage;
  struct err e = {{0}};
  uint64_t now = daemon_now_ns(), wall = (uint64_t)time(NULL);
  if (!u->rows_n)
    return;
  if (d->cfg->usage.line) {
    uint64_t lost = line_rows(d, u->row, USAGE_ROWS);
    stat_add(&u->line_sent, u->rows_n - lost);
    stat_add(&u->line_lost, lost);
  }
  if (d->cfg->usage.path) {
    int r = -EAGAIN;
    if (now >= u->retry_ns) {
      r = 0;
      if (now - u->pruned_ns >= PRUNE_NS) { /* first: a full one must get rid of what is old */
        r = usage_db_prune(d, wall, &e);
        u->pruned_ns = now;
      }
      r = r ? r : usage_db_write(d, wall, &e);
      complain(d, r, &e);
    }
    if (r == 0)
      stat_add(&u->written, u->rows_n);
    else
      stat_add(&u->lost, u->rows_n);
    if (r < 0 && r != -EAGAIN) {
      usage_db_close(u);
      u->retry_ns = now + RETRY_NS;
    }
  }
  memset(u->row, 0, USAGE_ROWS * sizeof *u->row);
  u->rows_n = 0;
}

/* Everything that is in the rings now. */
static bool drain(struct daemon *d)
{
  struct meter_record m[TAKE];
  bool some = false;
  for (uint32_t i = 0; i < d->lanes_n; i++)
    for (uint32_t n, left = METER_RING; left && (n = meter_take(d->lanes[i].meter_ring, m, MIN_OF(TAKE, left)));
         left -= n) {
      for (uint32_t k = 0; k < n; k++) {
        add(&d->usage, &m[k]);
        if (d->usage.rows_n >= USAGE_ROWS / 2)
          flush(d);
      }
      some = true;
    }
  return some;
}

static void *usage_main(void *arg)
{
  struct daemon *d = arg;
  struct usage *u = &d->usage;
  sigset_t set;
  sigfillset(&set);
  pthread_sigmask(SIG_SETMASK, &set, NULL);
  pthread_setname_np(pthread_self(), "dray-usage");
  uint64_t flushed = daemon_now_ns();
  bool stop = false, some = false;
  while (!stop) {
    struct pollfd p = {.fd = u->wake, .events = POLLIN};
    uint64_t n;
    poll(&p, 1, some || u->rows_n ? 100 : 1000);
    if (p.revents && read(u->wake, &n, sizeof n) < 0 && errno != EAGAIN)
      break;
    stop = stop_see(&u->stop); /* [STOP] before the last look */
    some = drain(d);
    uint64_t now = daemon_now_ns();
    if (stop || now - flushed >= FLUSH_NS) {
      flush(d);
      flushed = now;
    }
  }
  usage_db_close(u);
  return NULL;
}

int usage_start(struct daemon *d, struct err *e)
{
  if (!d->usage.on)
    return 0;
  d->usage.started = pthread_create(&d->usage.thread, NULL, usage_main, d) == 0;
  return d->usage.started ? 0 : err_set(e, -EAGAIN, "usage: no thread for the ledger");
}

void usage_stop(struct daemon *d)
{
  uint64_t one = 1;
  if (!d->usage.started)
    return;
  stop_raise(&d->usage.stop); /* [STOP] */
  ssize_t k = write(d->usage.wake, &one, sizeof one);
  (void)k;
  pthread_join(d->usage.thread, NULL);
  d->usage.started = false;
}
