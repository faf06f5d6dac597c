/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much: what the operator wrote about quotas, rates and rules, and what follows from it. Pure: the mover keeps the
 * little that changes (phases of rules, buckets) and hands it in; the store keeps the charges.
 */
#ifndef POLICY_QUOTA_H
#define POLICY_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

#include <dray/types.h>

#include "include/priv/err.h"

#define QUOTA_TENANT_MAX 64
#define QUOTA_GRANTS_MAX 1024
#define QUOTA_RATES_MAX 256
#define QUOTA_RULES_MAX 32
#define QUOTA_BUDGETS_MAX 256
#define QUOTA_ANY_CLASS 0xff
#define RULE_TURN_NS 10000000u /* one turn of weight 1 in the order of return */

/* What to do. 0 is nothing. */
enum quota_what { QUOTA_REFUSE = 1, QUOTA_SLOW = 2, QUOTA_DEMOTE = 3, QUOTA_EVICT = 4 };

/* Plain bytes, without pointers: it travels from the keeper to the worker as it is. */
struct quota_grant {
  char tenant[QUOTA_TENANT_MAX];
  uint64_t reserve, limit; /* bytes; limit UINT64_MAX: none */
  uint32_t weight;
  uint8_t tier;
  uint8_t over; /* at the limit: QUOTA_REFUSE, or its own cells make room by QUOTA_DEMOTE, QUOTA_EVICT */
  uint8_t zero[2];
  uint32_t line; /* in the file; 0: not known. Last: it is no part of what is compared */
};
/* Whose the limit is. 0 is nothing. */
enum quota_unit { QUOTA_TENANT = 1, QUOTA_SESSION = 2, QUOTA_REQUEST = 3 };
/* Bytes of cells that one session, or one request, of the tenant may have put, wherever they are. */
struct quota_budget {
  char tenant[QUOTA_TENANT_MAX];
  uint64_t limit;
  uint8_t unit; /* SESSION, REQUEST */
  uint8_t zero[3];
  uint32_t line;
};
struct quota_rate {
  char tenant[QUOTA_TENANT_MAX];
  uint64_t bytes, bytes_burst; /* a second; 0: any */
  uint64_t directives, directives_burst;
  bool refuse; /* else a limited directive waits */
  uint8_t zero[3];
  uint32_t line;
};
/* What a rule's when and until are shares of. 0 is nothing. */
enum rule_of { RULE_OF_FILL = 1, RULE_OF_BANDWIDTH = 2 };
struct quota_rule {
  char name[32];
  uint64_t rate;        /* QUOTA_SLOW: bytes a second for each tenant that it concerns */
  uint32_t when, until; /* thousandths: in force at or above when, until it is below until */
  uint32_t return_ms;   /* afterwards those it refused come back in turns for so long; 0: at once */
  uint8_t tier;
  uint8_t klass; /* only directives of this class: they come first; QUOTA_ANY_CLASS */
  uint8_t what;  /* enum quota_what */
  uint8_t of;    /* enum rule_of */
  uint32_t line;
};
struct quota_plan {
  uint32_t grants_n, rates_n, rules_n, budgets_n;
  struct quota_grant grant[QUOTA_GRANTS_MAX];
  struct quota_rate rate[QUOTA_RATES_MAX];
  struct quota_budget budget[QUOTA_BUDGETS_MAX];
  struct quota_rule rule[QUOTA_RULES_MAX]; /* the first that applies decides */
};

/* Is it possible, and can each rule end? bandwidth: bit t: that of tier t is known. capacity by tier; 0: not known yet,
   not looked at; colder: bit t: there is a tier below t. -EINVAL with one text: duplicates, a reserve above its limit,
   reserves above the capacity, a rule that can never end, rules that contradict each other, numbers out of range. */
int quota_plan_check(const struct quota_plan *p, const uint64_t capacity[DRAY_TIER_COUNT], uint8_t colder,
                     uint8_t bandwidth, struct err *e);

/* ---- rules ---- */
enum rule_phase { RULE_IDLE = 1, RULE_FORCE = 2, RULE_RETURN = 3 };
/* The phase that follows. fill: of the tier, or of its bandwidth, as the rule has it. someone: a tenant was refused by
 * it and wants to come back. since_ns: of the phase. */
unsigned rule_next(const struct quota_rule *r, unsigned phase, uint32_t fill, bool someone, uint64_t since_ns,
                   uint64_t now_ns);
/* Whose turn it is among n that come back: round robin, each weight turns long. n > 0, weights > 0. */
uint32_t rule_turn(const uint32_t *weights, uint32_t n, uint64_t since_ns, uint64_t now_ns);

/* ---- may it grow ---- */
struct quota_ask {
  uint8_t tier, klass; /* tier 0 with moves: not known yet */
  bool moves;          /* asked about moving bytes (rules of bandwidth), not about growing (rules of fill) */
  uint64_t bytes, charged, reserve; /* asked for; of the tenant on that tier */
  uint8_t phase[QUOTA_RULES_MAX];   /* enum rule_phase, by rule */
  uint32_t barred;                  /* bit i: rule i was hard on this tenant, and it is not its turn to come back */
};
struct quota_verdict {
  uint16_t reason; /* OK (also with DEMOTE, EVICT and SLOW), POOL_PRESSURE, PRIORITY_LOST, REBALANCE */
  uint8_t what;    /* of the rule that decided; 0: none */
  uint32_t rule;   /* its index */
  uint64_t rate;   /* SLOW */
};
/* What stays within the reserve is always admitted. */
void quota_decide(const struct quota_plan *p, const struct quota_ask *a, struct quota_verdict *ret_verdict);

/* ---- rates ---- */
/* A bucket is one number: when it will be full again. Takes n units out of it, as soon as it is not overdrawn, and
   returns 0; else how many ns to wait, and nothing is taken. A single large transfer may overdraw it: what follows
   waits longer. rate > 0, units a second. */
uint64_t rate_take(uint64_t *full_ns, uint64_t rate, uint64_t burst, uint64_t n, uint64_t now_ns);
/* Takes without asking: what is known only afterwards. */
void rate_spend(uint64_t *full_ns, uint64_t rate, uint64_t n, uint64_t now_ns);
/* Do directives of that op count and wait? What frees something never does. */
bool rate_counts(unsigned op);

/* The words of enum quota_what, of enum rule_phase; "?" otherwise. */
const char *quota_what_name(unsigned what);
const char *rule_phase_name(unsigned phase);
#endif
