/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/relief.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "mover/daemon.h"
#include "mover/drain.h"
#include "mover/step.h"

#define AGAIN_MS 20 /* what is pinned now may not be then */
#define WORK 32u    /* cells between two looks at the rules */

/* The rule in force that has something to give; false: none. */
static bool rule_now(struct daemon *d, struct quota_rule *ret_rule, uint32_t *ret_pool)
{
  struct quotas *q = &d->quotas;
  LOCKED(&q->lock);
  q->looked_ns = 0; /* look now: the fill has changed by what was given */
  quotas_look(d);
  for (uint32_t i = 0; i < q->plan.rules_n; i++) {
    const struct quota_rule *r = &q->plan.rule[i];
    int32_t pool = d->pool_of_tier[r->tier];
    if (q->run[i].phase != RULE_FORCE || (r->what != QUOTA_DEMOTE && r->what != QUOTA_EVICT) || pool < 0)
      continue;
    *ret_rule = *r;
    *ret_pool = (uint32_t)pool;
    return true;
  }
  return false;
}

/* One cell. False: nothing more can be given now. */
static bool give(struct daemon *d, const struct quota_rule *r, uint32_t pool)
{
  struct store *st = d->store;
  const struct store_who nobody = {.tenant = 0, .scope = DRAY_SCOPE_TENANT}; /* has no class, no share, no reserve */
  struct cell_facts f;
  struct slot_ref slot;
  unsigned why = store_victim(st, pool, &nobody, 1, &f, &slot);
  if (why != DRAY_REASON_OK)
    return why == DRAY_ABSENT;
  bool below = cell_has_colder(&f, pool), gone = false;
  if (r->what == QUOTA_DEMOTE && !below && room_worth(d, &f, pool)) {
    gone = drain_move_down(d, pool, &f, slot, &d->relief.stop);
    if (gone)
      stat_add(&d->relief.demoted, 1);
  } else if (store_evict(st, &f, (uint8_t)pool) == DRAY_REASON_OK) {
    gone = true;
    stat_add(below ? &d->relief.demoted : &d->relief.evicted, 1);
  }
  store_unpin(st, slot);
  return gone; /* no tier below takes it: a demoting rule loses nothing */
}

static void *relief_main(void *arg)
{
  struct daemon *d = arg;
  struct relief *r = &d->relief;
  sigset_t set;
  sigfillset(&set);
  sigdelset(&set, SIGBUS); /* it copies */
  sigdelset(&set, SIGSEGV);
  pthread_sigmask(SIG_SETMASK, &set, NULL);
  pthread_setname_np(pthread_self(), "dray-relief");
  while (!stop_see(&r->stop)) {
    struct quota_rule rule;
    uint32_t pool;
    uint64_t n;
    bool force = rule_now(d, &rule, &pool), more = force;
    for (uint32_t i = 0; more && i < WORK && !stop_see(&r->stop); i++)
      more = store_pool_fill(d->store, pool) >= rule.until && give(d, &rule, pool);
    struct pollfd p = {.fd = r->wake, .events = POLLIN};
    poll(&p, 1, !force ? -1 : more ? 0 : AGAIN_MS);
    if (p.revents && read(r->wake, &n, sizeof n) < 0 && errno != EAGAIN)
      break;
  }
  return NULL;
}

int relief_start(struct daemon *d)
{
  d->relief.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (d->relief.wake < 0)
    return -errno;
  d->relief.started = pthread_create(&d->relief.thread, NULL, relief_main, d) == 0;
  return d->relief.started ? 0 : -EAGAIN;
}

void relief_call(struct daemon *d)
{
  uint64_t one = 1;
  ssize_t k = write(d->relief.wake, &one, sizeof one);
  (void)k;
}

void relief_stop(struct daemon *d)
{
  if (!d->relief.started)
    return;
  stop_raise(&d->relief.stop); /* [STOP] */
  relief_call(d);
  pthread_join(d->relief.thread, NULL);
  d->relief.started = false;
  close_fd(&d->relief.wake);
}
