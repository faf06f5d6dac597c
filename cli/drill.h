/* SPDX-License-Identifier: Apache-2.0 */
/* What the drills share: a mover of their own with a configuration, engines by tenant, and a report with its bounds. */
#ifndef CLI_DRILL_H
#define CLI_DRILL_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "bench/stage.h"
#include "bench/hist.h"

struct drill {
  struct stage st;
  uint64_t ms;    /* length of a phase */
  json_t *report; /* what was measured */
  json_t *checks; /* [{what, good, have}] */
  bool bad;
  bool down;          /* the mover is gone, and its directory */
  const char *config; /* the mover's */
  uint16_t metrics;   /* port of the mover's /metrics; 0: none */
  const char *alerts; /* file of alert rules */
};
struct drill_engine {
  struct dray *d;
  struct dray_region region;
};

/* 0 or -errno, told on stderr. */
int drill_engine_open(const struct drill *r, const char *token, uint64_t bytes, struct drill_engine *ret_engine);
void drill_engine_close(struct drill_engine *e);
/* A bound that the drill is held to. */
__attribute__((format(printf, 4, 5))) void drill_check(struct drill *r, bool good, const char *what, const char *have,
                                                       ...);
/* n directives, errors, p50 p99 p999 in ns: an object. */
json_t *drill_latency(const struct hist *h, uint64_t errors);

/* The mover is replaced by another one in the same place; how long the old one took to end, the new one to serve. 0 or
   -errno. Sessions have ended. */
int drill_again(struct drill *r, uint64_t *ret_stop_ns, uint64_t *ret_start_ns);
/* One directive, past whatever notices come: its completion; status 0: the session is over, or it did not come in 10 s.
 */
struct dray_cqe drill_one(struct dray *d);

int drill_quota(struct drill *r);
int drill_noisy(struct drill *r);
int drill_lifecycle(struct drill *r);
int drill_maintenance(struct drill *r);
extern const char drill_quota_config[], drill_noisy_config[], drill_lifecycle_config[], drill_maintenance_config[];
#endif
