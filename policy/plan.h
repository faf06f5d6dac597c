/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fleet economics: what sharing one span among tenants saves on each tier, where a span should be, and the three
 * accounts side by side. Pure; all from the profile, no number is measured here.
 */
#ifndef POLICY_PLAN_H
#define POLICY_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/profile.h"

/* ---- regimes ---- */
enum plan_regime { PLAN_PRIVATE = 1, PLAN_COPY = 2, PLAN_SHARED = 3 };
struct plan_fleet {
  uint32_t tenants;      /* at least 1 */
  uint64_t tokens;       /* of the span */
  uint64_t bytes;        /* of the span */
  uint64_t ns_per_token; /* what prefilling one costs */
};
struct plan_regime_cost {
  uint8_t regime;                     /* enum plan_regime */
  uint64_t prefills, copies;          /* of the span, in the fleet */
  uint64_t saved_tokens, saved_bytes; /* against each for itself */
  uint64_t next_ns;                   /* for one more tenant */
};
/* ns to have bytes of that tier at hand: latency, and bytes at its bandwidth. False: overflow, or no bandwidth. */
bool plan_stage_ns(const struct profile_set *s, unsigned tier, uint64_t bytes, uint64_t *ret_ns);
/* False when a number overflows, or the tier's bandwidth is not known. */
bool plan_tier(const struct profile_set *s, unsigned tier, const struct plan_fleet *f,
               struct plan_regime_cost *ret_cost);

/* ---- placement ---- */
enum plan_verdict { PLAN_KEEP = 1, PLAN_PROMOTE = 2, PLAN_DEMOTE = 3, PLAN_SPILL = 4, PLAN_EVICT = 5 };
struct plan_span {
  uint8_t tier; /* where it is */
  bool full;    /* its tier needs room */
  bool hot;     /* it is wanted again soon */
  uint8_t room; /* bit t: tier t has room for it */
  uint64_t bytes, tokens, ns_per_token;
};
struct plan_placement {
  uint8_t verdict;                  /* enum plan_verdict */
  uint8_t to;                       /* PROMOTE, DEMOTE, SPILL; else 0 */
  uint64_t retain_ns, recompute_ns; /* what was weighed: at `to`, or where it is */
  const char *why;
};
/* Retained only where that is cheaper than computing it again. False as plan_tier. */
bool plan_place(const struct profile_set *s, const struct plan_span *p, struct plan_placement *ret_placement);

/* The words of enum plan_regime and enum plan_verdict; "?" otherwise. */
const char *plan_regime_name(unsigned regime);
const char *plan_verdict_name(unsigned verdict);
#endif
