/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quotas, rates and rules as they stand now: the plan (replaced whole under the lock: who asks sees the old one or the
 * new one), and the little that changes: phases of rules, buckets, counts of refusals. Policy decides, the store
 * charges, this asks and remembers. Any thread.
 */
#ifndef MOVER_QUOTA_H
#define MOVER_QUOTA_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "include/priv/order.h"
#include "mover/store/store.h"
#include "policy/quota.h"

struct daemon;
struct lane;
struct session;
struct step;

#define QUOTA_TENANTS 4097u /* the store's ids, from 1 */
#define QUOTA_REASONS 5u    /* QUOTA_EXCEEDED .. RATE_LIMITED */
#define QUOTA_HITS 64u      /* tenants that come back in turns after a rule */

/* One tenant's buckets and refusals. */
struct quota_tenant {
  uint64_t bytes_ns, directives_ns, slow_ns; /* rate_take() */
  uint64_t refused[QUOTA_REASONS];
  uint32_t request[QUOTA_REASONS]; /* whose refusal that was last; 0: nobody said */
  uint64_t waits;                  /* directives that a rate held back */
  uint32_t last_rule;              /* of the last refusal: DRAY_RULE_* */
  uint16_t rate;                   /* index + 1 in the plan; 0: none */
  uint16_t budget[2];              /* of a session, of a request: index + 1 in the plan; 0: none */
};
struct rule_run {
  uint8_t phase; /* enum rule_phase */
  uint64_t since_ns, begun, refused;
  uint32_t hits_n, hit[QUOTA_HITS], weight[QUOTA_HITS];
};
struct quotas {
  pthread_mutex_t lock;
  uint64_t budgets;       /* [STAT] 0: no quota by session or request */
  uint64_t active;        /* [STAT] 0: no rates and no rules: nobody need ask */
  struct quota_plan plan; /* grants are the store's, too */
  uint64_t version, failures;
  char failure[400]; /* why the last reload was refused; empty: it was not */
  uint64_t looked_ns;
  uint64_t band_ns, band_moved[DRAY_TIER_COUNT]; /* when bandwidth was measured last */
  uint32_t band[DRAY_TIER_COUNT];                /* of its tier's, in thousandths */
  struct rule_run run[QUOTA_RULES_MAX];
  struct quota_tenant *tenant;
  uint8_t (*over)[QUOTA_TENANTS]; /* by pool: enum quota_what at the limit */
};

int quotas_init(struct daemon *d);
void quotas_deinit(struct daemon *d);
/* Checks the plan against the pools and makes it the one that stands; on -EINVAL everything is as before. */
int quotas_apply(struct daemon *d, const struct quota_plan *plan, struct err *e);
/* What the file says now, checked like a reload, and what would change: lines into o's "differs" by the caller. */
struct config_diff;
int quotas_read(struct daemon *d, struct quota_plan *ret_plan, struct config_diff *ret_diff, struct err *e);
/* Asks the keeper to read the file again. 0, or -errno with a text; the old plan then stands. */
int quotas_reload(struct daemon *d, struct err *e);

static inline bool quotas_active(const struct quotas *q)
{
  return stat_read(&q->active) != 0;
}

/* May a directive of the session begin? *waited: it was held back before, or is now. *ret_reason of PACE_REFUSE. */
enum quota_pace { PACE_GO = 1, PACE_WAIT = 2, PACE_REFUSE = 3 };
unsigned quotas_pace(struct lane *l, const struct session *s, unsigned op, uint8_t tier, uint8_t klass, uint64_t bytes,
                     bool *waited, uint16_t *ret_reason, uint32_t *ret_rule);
/* Charges a cell of len bytes to the session and the request, where the tenant's quotas have such units: OK, and the
   charges are the caller's; QUOTA_EXCEEDED, LIMIT. */
unsigned quotas_budget(struct lane *l, const struct session *s, uint32_t request, uint64_t len,
                       uint16_t ret_account[2]);
/* Bytes that were moved without having been asked for. */
void quotas_spend(struct lane *l, uint32_t tenant, uint64_t bytes);

/* Looks at fills and moves the rules on. The lock is held. */
void quotas_look(struct daemon *d);

/* May the tenant grow by bytes in that pool? OK or the reason; *ret_rule: DRAY_RULE_*; *ret_what: QUOTA_DEMOTE or
   QUOTA_EVICT when room is to be made first. */
unsigned quotas_room(struct lane *l, uint32_t pool, uint32_t tenant, uint8_t klass, uint64_t bytes, uint32_t *ret_rule,
                     uint8_t *ret_what);
/* What a tenant does at its limit: enum quota_what. */
unsigned quotas_over(struct daemon *d, uint32_t pool, uint32_t tenant);
/* A refusal was answered. */
void quotas_refused(struct daemon *d, uint32_t tenant, unsigned reason, uint32_t rule, uint32_t request);
static inline bool quota_reason(unsigned reason)
{
  return reason >= DRAY_QUOTA_EXCEEDED && reason <= DRAY_RATE_LIMITED;
}
#endif
