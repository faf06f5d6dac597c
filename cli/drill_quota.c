/* SPDX-License-Identifier: Apache-2.0 */
/* A tenant asks for three times its limit while another takes all that is left: who is served, and what is said. */
#include <stdlib.h>
#include <string.h>

#include <dray/admin.h>

#include "cli/cli.h"
#include "cli/drill.h"
#include "cli/drill_alert.h"
#include "include/priv/bits.h"

#define CELL KIB(64)
#define RESERVE_CELLS 128u /* 8 MiB */
#define ALERT "DrayAllocationRefused"
#define ALERT_MS 30000u
#define LIMIT_CELLS 256u /* 16 MiB */

const char drill_quota_config[] =
    "tiers: [{name: dram, transport: memory, capacity: 64MiB, slab_size: 1MiB}]\n"
    "tenants: [{name: loud, token: l}, {name: quiet, token: q}, {name: crowd, token: c}]\n"
    "quotas:\n"
    "  - {tenant: loud, tier: dram, reserve: 8MiB, limit: 16MiB}\n"
    "  - {tenant: quiet, tier: dram, reserve: 8MiB}\n";

struct tally {
  uint64_t asked, served, refused, unsaid; /* unsaid: refused without reason or rule */
};

static void ask(struct drill_engine *e, uint32_t n, struct tally *t)
{
  for (uint32_t i = 0; i < n; i++) {
    uint8_t key[16];
    stage_key(t->asked, key);
    dray_prep_put(dray_get_sqe(e->d), key, e->region.id, 0, CELL, DRAY_TIER_DRAM);
    struct dray_cqe c = stage_one(e->d);
    t->asked++;
    if (c.status == DRAY_OK) {
      t->served++;
      continue;
    }
    t->refused++;
    t->unsaid += c.reason < DRAY_QUOTA_EXCEEDED || c.reason > DRAY_RATE_LIMITED || !c.detail;
  }
}

static json_t *tally_json(const struct tally *t)
{
  return json_pack("{s:o,s:o,s:o,s:o}", "asked", cli_u64(t->asked), "served", cli_u64(t->served), "refused",
                   cli_u64(t->refused), "unsaid", cli_u64(t->unsaid));
}

/* How often the mover counted refusals of a tenant for its limit. */
static uint64_t counted(const struct drill *r, const char *tenant)
{
  char *answer = NULL;
  uint64_t n = 0;
  size_t i;
  json_t *t;
  if (dray_admin_call(r->st.admin, "{\"verb\":\"tenants\"}", 5000, &answer) < 0)
    return 0;
  json_t *o = json_loads(answer, 0, NULL);
  json_array_foreach(json_object_get(o, "tenants"), i, t)
  {
    const char *name = json_string_value(json_object_get(t, "tenant"));
    if (name && !strcmp(name, tenant))
      n = (uint64_t)json_integer_value(json_object_get(json_object_get(t, "refused"), "QUOTA_EXCEEDED"));
  }
  json_decref(o);
  free(answer);
  return n;
}

int drill_quota(struct drill *r)
{
  struct drill_engine loud, quiet, crowd;
  struct tally l = {0}, q = {0}, c = {0};
  if (drill_engine_open(r, "l", CELL, &loud) < 0)
    return -1;
  if (drill_engine_open(r, "q", CELL, &quiet) < 0) {
    drill_engine_close(&loud);
    return -1;
  }
  if (drill_engine_open(r, "c", CELL, &crowd) < 0) {
    drill_engine_close(&loud);
    drill_engine_close(&quiet);
    return -1;
  }
  struct drill_alert alert;
  drill_alert_open(&alert, r->metrics, r->alerts); /* it has seen the counters at zero before the first refusal */
  for (uint32_t i = 0; i < 16; i++) {              /* side by side: the crowd wants twice the tier */
    ask(&crowd, 128, &c);
    ask(&loud, 3 * LIMIT_CELLS / 16, &l);
    ask(&quiet, RESERVE_CELLS / 16, &q);
  }
  json_object_set_new(r->report, "loud", tally_json(&l));
  json_object_set_new(r->report, "quiet", tally_json(&q));
  json_object_set_new(r->report, "crowd", tally_json(&c));
  drill_check(r, l.served >= RESERVE_CELLS, "loud has its reserve", "%llu of %u cells", (unsigned long long)l.served,
              RESERVE_CELLS);
  drill_check(r, l.served <= LIMIT_CELLS, "loud ends at its limit", "%llu of %u cells", (unsigned long long)l.served,
              LIMIT_CELLS);
  drill_check(r, l.refused > 0 && l.unsaid == 0, "every refusal has a reason and a rule", "%llu refused, %llu without",
              (unsigned long long)l.refused, (unsigned long long)l.unsaid);
  drill_check(r, q.served == RESERVE_CELLS, "quiet's reserve is served", "%llu of %u cells",
              (unsigned long long)q.served, RESERVE_CELLS);
  drill_check(r, counted(r, "loud") == l.refused, "the mover counts each refusal", "%llu counted, %llu answered",
              (unsigned long long)counted(r, "loud"), (unsigned long long)l.refused);
  if (alert.pid)
    drill_check(r, drill_alert_fires(&alert, ALERT, ALERT_MS), "the alert fires in Prometheus", "%s within %u s", ALERT,
                ALERT_MS / 1000);
  else
    json_object_set_new(r->report, "alert", json_sprintf("not looked at: %s", alert.why));
  drill_alert_close(&alert);
  drill_engine_close(&loud);
  drill_engine_close(&quiet);
  drill_engine_close(&crowd);
  return 0;
}
