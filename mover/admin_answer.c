/* SPDX-License-Identifier: Apache-2.0 */
/* What the operator's verbs answer. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <dray/version.h>

#include "include/priv/bits.h"
#include "include/priv/order.h"
#include "mover/admin.h"
#include "mover/admin_peer.h"
#include "mover/admin_quota.h"
#include "mover/daemon.h"

static void set_u64(json_t *o, const char *key, uint64_t v)
{
  json_object_set_new(o, key, json_integer((json_int_t)MIN_OF(v, (uint64_t)INT64_MAX)));
}

static void set_counts(json_t *o, const char *key, const uint64_t *v, unsigned n, const char *(*name)(unsigned))
{
  json_t *m = json_object();
  for (unsigned i = 1; i < n; i++)
    if (v[i])
      set_u64(m, name(i), v[i]);
  json_object_set_new(o, key, m);
}

static uint64_t process_kib(const char *field)
{
  char line[256];
  uint64_t v = 0;
  FILE *f = fopen("/proc/self/status", "re");
  while (f && fgets(line, sizeof line, f))
    if (strncmp(line, field, strlen(field)) == 0)
      v = strtoull(line + strlen(field) + 1, NULL, 10);
  if (f)
    fclose(f);
  return v;
}

static json_t *answer_status(struct daemon *d, json_t *q)
{
  (void)q;
  struct lane_stats sum = {0};
  struct store_stats st;
  json_t *o = json_object();
  for (uint32_t i = 0; i < d->lanes_n; i++)
    stats_add(&sum, &d->lanes[i].stats);
  store_stats(d->store, &st);
  json_object_set_new(o, "version", json_string(DRAY_VERSION));
  json_object_set_new(o, "node", json_string(d->cfg->node));
  json_object_set_new(o, "state", json_string(d->draining ? "draining" : "serving"));
  set_u64(o, "epoch", d->epoch);
  set_u64(o, "pid", (uint64_t)getpid());
  set_u64(o, "uptime_ms", daemon_now_ns() / 1000000u - d->started_ms);
  set_u64(o, "lanes", d->lanes_n);
  set_u64(o, "sessions", d->sessions_n);
  set_u64(o, "refused_hellos", stat_read(&d->refused_hellos));
  set_u64(o, "cells", st.cells);
  set_u64(o, "leases", st.leases);
  set_u64(o, "slabs", st.slabs);
  set_u64(o, "directory_bytes", st.directory_bytes);
  set_u64(o, "found_on_disk", st.found_on_disk);
  set_u64(o, "skipped_on_disk", st.skipped_on_disk);
  set_u64(o, "rss_kib", process_kib("VmRSS:"));
  const struct {
    const char *key;
    uint64_t v;
  } plain[] = {{"taken", sum.taken},
               {"admitted", sum.admitted},
               {"jobs", sum.jobs},
               {"completed", sum.completed},
               {"items", sum.items},
               {"chunks", sum.chunks},
               {"quanta", sum.quanta},
               {"turns_0", sum.turns[0]},
               {"turns_1", sum.turns[1]},
               {"turns_2", sum.turns[2]},
               {"turns_more", sum.turns[3]},
               {"again", sum.again},
               {"helped", sum.helped},
               {"demoted", sum.demoted},
               {"evicted", sum.evicted},
               {"sleeps", sum.sleeps},
               {"wakes_sent", sum.wakes_sent},
               {"accounted_bytes", sum.accounted},
               {"quarantined", sum.quarantined},
               {"protocol_errors", sum.protocol_errors},
               {"misses", sum.misses}};
  json_t *c = json_object();
  for (size_t i = 0; i < ARRAY_LEN(plain); i++)
    set_u64(c, plain[i].key, plain[i].v);
  set_counts(c, "by_op", sum.by_op, DRAY_OP_COUNT, dray_op_name);
  set_counts(c, "by_reason", sum.by_reason, DRAY_REASON_COUNT, dray_reason_name);
  set_counts(c, "bytes_by_path", sum.bytes_by_path, DRAY_PATH_COUNT, dray_path_name);
  set_counts(c, "bytes_by_tier", sum.bytes_by_tier, DRAY_TIER_COUNT, dray_tier_name);
  set_counts(c, "hits_by_tier", sum.hits_by_tier, DRAY_TIER_COUNT, dray_tier_name);
  json_object_set_new(o, "counters", c);
  struct bad_sums bad;
  store_bad_sums(d->store, &bad);
  json_t *p = json_object();
  set_u64(p, "units", bad.units);
  set_u64(p, "cells", bad.cells);
  set_u64(p, "barred_units", bad.live_units);
  set_u64(p, "barred_bytes", bad.live_bytes);
  set_u64(p, "hits", stat_read(&d->poison_hits));
  set_u64(p, "notices", stat_read(&d->poison_notices));
  json_object_set_new(o, "poison", p);
  p = json_object();
  set_u64(p, "asked", stat_read(&d->revokes.asked));
  set_u64(p, "given_back", stat_read(&d->revokes.given));
  set_u64(p, "sessions_ended", stat_read(&d->revokes.sessions));
  set_u64(p, "held", stat_read(&d->revokes.held_n));
  set_u64(p, "held_bytes", stat_read(&d->revokes.held_bytes));
  json_object_set_new(o, "revoked", p);
  p = json_object();
  set_u64(p, "demoted", stat_read(&d->relief.demoted));
  set_u64(p, "evicted", stat_read(&d->relief.evicted));
  json_object_set_new(o, "relief", p);
  admin_peers(d, o);
  admin_rules(d, o);
  return o;
}

static json_t *answer_tiers(struct daemon *d, json_t *q)
{
  (void)q;
  struct store_stats st;
  store_stats(d->store, &st);
  json_t *o = json_object(), *list = json_array();
  for (uint32_t i = 0; i < st.pools; i++) {
    const struct pool_stats *p = &st.pool[i];
    const struct tier_profile *pr = &d->cfg->policy.profiles.tier[p->tier];
    const struct pool_profile *pp = &d->cfg->policy.profiles.pool[p->tier];
    json_t *t = json_object(), *prof = json_object();
    json_object_set_new(t, "tier", json_string(dray_tier_name(p->tier)));
    json_object_set_new(t, "transport", json_string(d->cfg->tier[i].transport));
    json_object_set_new(t, "path", d->cfg->tier[i].path ? json_string(d->cfg->tier[i].path) : json_null());
    json_object_set_new(t, "fault", d->cfg->tier[i].fault ? json_string(d->cfg->tier[i].fault) : json_null());
    uint32_t drain = drain_state_of(d, i);
    if (drain == DRAIN_NONE && store_pool_idle(d->store, i))
      drain = DRAIN_DONE; /* an earlier one */
    json_object_set_new(t, "state", json_string(drain_state_name(drain)));
    json_object_set_new(t, "attendable", json_boolean(p->attendable));
    json_object_set_new(t, "emulated", json_boolean(p->emulated));
    json_object_set_new(t, "persistent", json_boolean(p->persistent && !stat_read(&d->unkept[i])));
    bool unkept = stat_read(&d->unkept[i]) != 0;
    json_object_set_new(t, "note",
                        json_string(unkept ? "the memory of its directory is bad: served, but not kept" : p->note));
    set_u64(t, "capacity", p->capacity);
    set_u64(t, "slab_bytes", p->slab_bytes);
    set_u64(t, "cell_bytes", p->cell_bytes);
    set_u64(t, "slabs", p->slabs);
    set_u64(t, "cells", p->cells);
    set_u64(prof, "read_latency_ns", pr->read_latency_ns);
    set_u64(prof, "bandwidth_mbps", pr->bandwidth_mbps);
    json_object_set_new(prof, "byte_addressable", json_boolean(pr->byte_addressable));
    json_object_set_new(prof, "coherent", json_boolean(pr->coherent));
    json_object_set_new(prof, "share", json_string(profile_share_name(pr->share)));
    set_u64(prof, "hosts", pp->hosts);
    json_object_set_new(t, "profile", prof);
    json_array_append_new(list, t);
  }
  json_object_set_new(o, "label", json_string(d->cfg->policy.profiles.label));
  json_object_set_new(o, "tiers", list);
  admin_peers(d, o);
  return o;
}

static json_t *cell_row(struct daemon *d, const struct cell_facts *f)
{
  static const char *const scopes[] = {"?", "agent", "tenant", "fleet"};
  static const char *const taints[] = {"unjudged", "trusted", "tainted", "quarantined"};
  char key[33];
  json_t *c = json_object(), *tiers = json_array();
  for (int i = 0; i < 16; i++)
    snprintf(key + 2 * i, 3, "%02x", f->key[i]);
  const char *tenant = store_tenant_name(d->store, f->tenant), *agent = store_agent_name(d->store, f->agent);
  json_object_set_new(c, "key", json_string(key));
  json_object_set_new(c, "tenant", json_string(tenant ? tenant : "?"));
  json_object_set_new(c, "agent", json_string(agent ? agent : "?"));
  set_u64(c, "bytes", f->len);
  json_object_set_new(c, "scope", json_string(scopes[f->scope <= 3 ? f->scope : 0]));
  json_object_set_new(c, "taint", json_string(taints[f->taint <= 3 ? f->taint : 0]));
  json_object_set_new(c, "state", json_string(f->state == CELL_QUARANTINED ? "quarantined" : "live"));
  for (unsigned i = 0; i < f->copies; i++)
    json_array_append_new(tiers, json_string(dray_tier_name(store_pool(d->store, f->copy[i].pool)->tier)));
  json_object_set_new(c, "tiers", tiers);
  return c;
}

static json_t *answer_cells(struct daemon *d, json_t *q)
{
  json_int_t limit =
      json_is_integer(json_object_get(q, "limit")) ? json_integer_value(json_object_get(q, "limit")) : 100;
  json_int_t from =
      json_is_integer(json_object_get(q, "cursor")) ? json_integer_value(json_object_get(q, "cursor")) : 0;
  const char *tenant = json_string_value(json_object_get(q, "tenant")),
             *tier = json_string_value(json_object_get(q, "tier"));
  unsigned want = tier ? dray_tier_by_name(tier) : 0;
  if (limit < 1 || limit > 4096 || from < 0 || from > UINT32_MAX || (tier && !want))
    return NULL;
  uint32_t cursor = (uint32_t)from;
  json_t *o = json_object(), *list = json_array();
  for (int rounds = 0; rounds < 4096 && json_array_size(list) < (size_t)limit; rounds++) {
    struct cell_facts f[64];
    /* a chain is given whole, so a page may be longer than its limit by a chain or two */
    uint32_t n = store_walk(d->store, &cursor, f, ARRAY_LEN(f));
    for (uint32_t i = 0; i < n; i++) {
      const char *name = store_tenant_name(d->store, f[i].tenant);
      bool show = !tenant || (name && strcmp(name, tenant) == 0), on = !want;
      for (unsigned k = 0; k < f[i].copies; k++)
        on |= store_pool(d->store, f[i].copy[k].pool)->tier == want;
      if (show && on)
        json_array_append_new(list, cell_row(d, &f[i]));
    }
    if (cursor == 0)
      break;
  }
  json_object_set_new(o, "cells", list);
  set_u64(o, "cursor", cursor);
  return o;
}

static json_t *answer_poisoned(struct daemon *d, json_t *q)
{
  json_int_t from =
      json_is_integer(json_object_get(q, "cursor")) ? json_integer_value(json_object_get(q, "cursor")) : 0;
  if (from < 0 || from > UINT32_MAX)
    return NULL;
  struct store_bad bad[256];
  uint32_t cursor = (uint32_t)from, n = store_bad_list(d->store, &cursor, bad, ARRAY_LEN(bad));
  json_t *o = json_object(), *list = json_array();
  for (uint32_t i = 0; i < n; i++) {
    const struct store_bad *b = &bad[i];
    const struct store_pool_config *pool = store_pool(d->store, b->pool);
    const char *tenant = store_tenant_name(d->store, b->tenant);
    char key[33] = "";
    json_t *r = json_object();
    for (int k = 0; b->cells && k < 16; k++)
      snprintf(key + 2 * k, 3, "%02x", b->key[k]);
    json_object_set_new(r, "tier", json_string(pool ? dray_tier_name(pool->tier) : "?"));
    json_object_set_new(r, "tenant", json_string(tenant ? tenant : "?"));
    json_object_set_new(r, "key", json_string(key));
    json_object_set_new(r, "proven", json_boolean(b->proven));
    json_object_set_new(r, "barred", json_boolean(b->live));
    set_u64(r, "slab", b->slab);
    set_u64(r, "off", b->off);
    set_u64(r, "bytes", b->len);
    set_u64(r, "unit", b->unit);
    set_u64(r, "cell_off", b->cell_off);
    set_u64(r, "cells", b->cells);
    set_u64(r, "slots", b->slots);
    set_u64(r, "when_ms", b->when_ms);
    json_array_append_new(list, r);
  }
  json_object_set_new(o, "poisoned", list);
  set_u64(o, "cursor", cursor);
  return o;
}

static json_t *answer_sessions(struct daemon *d, json_t *q)
{
  (void)q;
  json_t *o = json_object(), *list = json_array();
  for (uint32_t i = 0; i < DAEMON_SESSIONS; i++) {
    struct session *s = d->session[i];
    if (!s)
      continue;
    json_t *r = json_object();
    set_u64(r, "id", s->number);
    json_object_set_new(r, "tenant", json_string(s->tenant_name));
    json_object_set_new(r, "agent", json_string(s->agent_name));
    set_u64(r, "pid", (uint64_t)s->pid);
    set_u64(r, "uid", s->uid);
    set_u64(r, "lane", s->lane ? s->lane->idx : 0);
    set_u64(r, "regions", s->regions_n);
    set_u64(r, "registered_bytes", s->pinned);
    set_u64(r, "done", stat_read(&s->done));
    set_u64(r, "bytes", stat_read(&s->bytes));
    set_u64(r, "refused", stat_read(&s->refused));
    set_u64(r, "age_ms", daemon_now_ns() / 1000000u - s->since_ms);
    json_object_set_new(r, "ending", json_boolean(s->leaving));
    json_array_append_new(list, r);
  }
  json_object_set_new(o, "sessions", list);
  return o;
}

static json_t *answer_config(struct daemon *d, json_t *q)
{
  (void)q;
  const struct config *c = d->cfg;
  json_t *o = json_object(), *tenants = json_array();
  json_object_set_new(o, "node", json_string(c->node));
  json_object_set_new(o, "socket", json_string(c->socket));
  json_object_set_new(o, "admin", json_string(c->admin));
  json_object_set_new(o, "calibration", c->calibration ? json_string(c->calibration) : json_null());
  json_object_set_new(o, "auto_tenants", json_boolean(c->auto_tenants));
  json_object_set_new(o, "harden", json_boolean(c->harden));
  json_object_set_new(o, "strict", json_boolean(c->strict));
  json_object_set_new(o, "usage",
                      json_pack("{s:s?,s:s?,s:I,s:I}", "path", c->usage.path, "line", c->usage.line, "keep_s",
                                (json_int_t)c->usage.keep_s, "max_bytes", (json_int_t)c->usage.max_bytes));
  set_u64(o, "lanes", c->lanes);
  set_u64(o, "chunk", c->chunk_bytes);
  set_u64(o, "sessions_max", c->sessions_max);
  set_u64(o, "cells_max", c->cells_max);
  set_u64(o, "pinned_max", c->pinned_max);
  for (uint32_t i = 0; i < c->tenants_n; i++)
    json_array_append_new(tenants, json_string(c->tenant[i].name)); /* never the tokens */
  json_object_set_new(o, "tenants", tenants);
  json_object_set_new(o, "peers", admin_peer_config(d));
  return o;
}

static json_t *answer_drain(struct daemon *d, json_t *q)
{
  const char *tier = json_string_value(json_object_get(q, "tier"));
  unsigned t = tier ? dray_tier_by_name(tier) : 0;
  int32_t pool = t ? d->pool_of_tier[t] : -1;
  int r = pool < 0 ? -ENOENT : drain_begin(d, (uint32_t)pool);
  json_t *o = json_object();
  if (r < 0) {
    json_object_set_new(o, "error",
                        json_string(r == -ENOENT    ? "no such tier here"
                                    : r == -ENOTSUP ? "only a cxl tier is something that can be taken away"
                                    : r == -EBUSY   ? "another tier is being drained: wait for its end"
                                                    : "no thread for it: try again"));
    return o;
  }
  struct store_stats st;
  store_stats(d->store, &st);
  json_object_set_new(o, "state", json_string(drain_state_name(drain_state_of(d, (uint32_t)pool))));
  bool waits = d->drain.due >> pool & 1; /* the counts are another's */
  set_u64(o, "moved", waits ? 0 : stat_read(&d->drain.moved));
  set_u64(o, "dropped", waits ? 0 : stat_read(&d->drain.dropped));
  set_u64(o, "slabs", st.pool[pool].slabs);
  return o;
}

static json_t *answer_revoke(struct daemon *d, json_t *q)
{
  const char *tenant = json_string_value(json_object_get(q, "tenant")),
             *hex = json_string_value(json_object_get(q, "key"));
  uint8_t key[16];
  if (!tenant || !hex || strlen(hex) != 32 || strspn(hex, "0123456789abcdefABCDEF") != 32)
    return NULL;
  for (int i = 0; i < 16; i++) {
    const char byte[3] = {hex[2 * i], hex[2 * i + 1], 0};
    key[i] = (uint8_t)strtoul(byte, NULL, 16);
  }
  unsigned r = revoke_by_key(d, tenant, key);
  json_t *o = json_object();
  if (r != DRAY_REASON_OK && r != DRAY_QUARANTINED)
    json_object_set_new(o, "error",
                        json_sprintf("%s: that tenant has no such cell (leases on bytes that it had are asked back)",
                                     dray_reason_name(r)));
  json_object_set_new(o, "reason", json_string(dray_reason_name(r)));
  set_u64(o, "grace_ms", d->cfg->revoke_ns / 1000000u);
  return o;
}

static json_t *answer_audit(struct daemon *d, json_t *q)
{
  (void)q;
  struct err e = {{0}};
  json_t *o = json_object();
  int r = store_audit(d->store, &e);
  json_object_set_new(o, "clean", json_boolean(r == 0));
  json_object_set_new(o, "text", json_string(e.text));
  return o;
}

static const struct {
  const char *verb;
  json_t *(*answer)(struct daemon *, json_t *);
} verbs[] = {{"status", answer_status},     {"tiers", answer_tiers},   {"cells", answer_cells},
             {"sessions", answer_sessions}, {"config", answer_config}, {"audit", answer_audit},
             {"poisoned", answer_poisoned}, {"drain", answer_drain},   {"tenants", admin_tenants},
             {"revoke", answer_revoke},     {"reload", admin_reload},  {"check", admin_check}};

char *admin_answer(struct daemon *d, const char *request, size_t n)
{
  json_error_t je;
  json_t *q = json_loadb(request, n, JSON_REJECT_DUPLICATES, &je);
  const char *verb = q ? json_string_value(json_object_get(q, "verb")) : NULL;
  json_t *o = NULL;
  const char *error = q ? "unknown verb" : "the request is not JSON";
  for (size_t i = 0; verb && i < ARRAY_LEN(verbs); i++)
    if (strcmp(verbs[i].verb, verb) == 0) {
      o = verbs[i].answer(d, q);
      error = "an argument is out of range";
    }
  bool ok = o && !json_object_get(o, "error");
  if (!o) {
    o = json_object();
    json_object_set_new(o, "error", json_string(error));
  }
  json_object_set_new(o, "schema_version", json_integer(1));
  json_object_set_new(o, "ok", json_boolean(ok));
  char *text = json_dumps(o, JSON_COMPACT);
  json_decref(o);
  json_decref(q);
  return text;
}
