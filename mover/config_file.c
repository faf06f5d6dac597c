/* SPDX-License-Identifier: Apache-2.0 */
/* The YAML file, bound to a schema: unknown keys, wrong types and duplicates are errors with a line number. */
#include "mover/config_file.h"

#include <ctype.h>
#include <cyaml/cyaml.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "include/priv/bits.h"
#include "mover/config_quota.h"

struct file_tier {
  char *name, *transport, *path, *capacity, *slab_size, *bounce, *depth, *numa_node, *owner, *fault, *keep, *coherence,
      *peer;
  char **peers;
  unsigned peers_count;
  bool huge_pages, buffered, no_uring, local_only, bounce_only;
};
struct file_tenant {
  char *name, *token, *socket, *uid;
};
struct file_peer {
  char *name, *address, *key_file, *timeout_ms;
};
struct file_listen {
  char *address, *key_file, *lend, *lease_ms;
};
struct file_limits {
  char *cells, *leases, *sessions, *sessions_per_tenant, *regions, *pinned, *items;
};
struct file_usage {
  char *path, *line, *keep, *max;
};
struct file_config {
  char *node, *socket, *admin, *socket_mode, *lanes, *log, *calibration, *metrics, *chunk, *drain_ms, *split_bytes,
      *crc, *copy_plan, *revoke_grace, *token_cost;
  bool *auto_tenants, *harden, *strict;
  struct file_tier *tiers;
  unsigned tiers_count;
  struct file_tenant *tenants;
  unsigned tenants_count;
  struct file_limits *limits;
  struct file_listen *listen;
  struct file_peer *peers;
  unsigned peers_count;
  struct file_usage *usage;
  struct file_quota *quotas;
  struct file_rate *rates;
  struct file_rule *rules;
  unsigned quotas_count, rates_count, rules_count;
};

#define PEER_NAME_MAX 31

#define TEXT(type, key)                                                                                                \
  CYAML_FIELD_STRING_PTR(#key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct type, key, 1, 4096)
#define FLAG(type, key) CYAML_FIELD_BOOL(#key, CYAML_FLAG_OPTIONAL, struct type, key)

static const cyaml_schema_value_t name_schema = {CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char, 1, PEER_NAME_MAX)};
static const cyaml_schema_field_t tier_fields[] = {
    TEXT(file_tier, name),
    TEXT(file_tier, transport),
    TEXT(file_tier, path),
    TEXT(file_tier, capacity),
    TEXT(file_tier, slab_size),
    TEXT(file_tier, bounce),
    TEXT(file_tier, depth),
    TEXT(file_tier, numa_node),
    TEXT(file_tier, owner),
    TEXT(file_tier, fault),
    FLAG(file_tier, huge_pages),
    FLAG(file_tier, buffered),
    FLAG(file_tier, no_uring),
    TEXT(file_tier, keep),
    TEXT(file_tier, coherence),
    TEXT(file_tier, peer),
    FLAG(file_tier, local_only),
    FLAG(file_tier, bounce_only),
    CYAML_FIELD_SEQUENCE("peers", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct file_tier, peers, &name_schema, 1,
                         CONFIG_PEERS_MAX),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t tier_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct file_tier, tier_fields)};
static const cyaml_schema_field_t tenant_fields[] = {
    TEXT(file_tenant, name), TEXT(file_tenant, token), TEXT(file_tenant, socket),
    TEXT(file_tenant, uid),  CYAML_FIELD_END,
};
static const cyaml_schema_value_t tenant_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct file_tenant, tenant_fields)};
static const cyaml_schema_field_t limits_fields[] = {
    TEXT(file_limits, cells),    TEXT(file_limits, leases),
    TEXT(file_limits, sessions), TEXT(file_limits, sessions_per_tenant),
    TEXT(file_limits, regions),  TEXT(file_limits, pinned),
    TEXT(file_limits, items),    CYAML_FIELD_END,
};
static const cyaml_schema_field_t peer_fields[] = {
    TEXT(file_peer, name),       TEXT(file_peer, address), TEXT(file_peer, key_file),
    TEXT(file_peer, timeout_ms), CYAML_FIELD_END,
};
static const cyaml_schema_value_t peer_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct file_peer, peer_fields)};
static const cyaml_schema_field_t listen_fields[] = {
    TEXT(file_listen, address),
    TEXT(file_listen, key_file),
    TEXT(file_listen, lend),
    TEXT(file_listen, lease_ms),
    CYAML_FIELD_END,
};
static const cyaml_schema_field_t usage_fields[] = {
    TEXT(file_usage, path), TEXT(file_usage, line), TEXT(file_usage, keep), TEXT(file_usage, max), CYAML_FIELD_END,
};
static const cyaml_schema_field_t top_fields[] = {
    TEXT(file_config, node),
    TEXT(file_config, socket),
    TEXT(file_config, admin),
    TEXT(file_config, socket_mode),
    TEXT(file_config, lanes),
    TEXT(file_config, log),
    TEXT(file_config, calibration),
    TEXT(file_config, metrics),
    TEXT(file_config, chunk),
    TEXT(file_config, drain_ms),
    TEXT(file_config, split_bytes),
    TEXT(file_config, crc),
    TEXT(file_config, copy_plan),
    TEXT(file_config, revoke_grace),
    TEXT(file_config, token_cost),
    CYAML_FIELD_BOOL_PTR("auto_tenants", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct file_config, auto_tenants),
    CYAML_FIELD_BOOL_PTR("harden", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct file_config, harden),
    CYAML_FIELD_BOOL_PTR("strict", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct file_config, strict),
    CYAML_FIELD_SEQUENCE("tiers", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct file_config, tiers, &tier_schema, 1,
                         CONFIG_TIERS_MAX),
    CYAML_FIELD_SEQUENCE("tenants", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct file_config, tenants,
                         &tenant_schema, 0, CONFIG_TENANTS_MAX),
    CYAML_FIELD_SEQUENCE("peers", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct file_config, peers, &peer_schema, 0,
                         CONFIG_PEERS_MAX),
    CYAML_FIELD_MAPPING_PTR("listen", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct file_config, listen,
                            listen_fields),
    CYAML_FIELD_MAPPING_PTR("limits", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct file_config, limits,
                            limits_fields),
    CYAML_FIELD_MAPPING_PTR("usage", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct file_config, usage, usage_fields),
    CYAML_FIELD_SEQUENCE("quotas", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct file_config, quotas,
                         &config_quota_schema, 0, QUOTA_GRANTS_MAX),
    CYAML_FIELD_SEQUENCE("rates", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct file_config, rates,
                         &config_rate_schema, 0, QUOTA_RATES_MAX),
    CYAML_FIELD_SEQUENCE("rules", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct file_config, rules,
                         &config_rule_schema, 0, QUOTA_RULES_MAX),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t top_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct file_config, top_fields)};

struct gathered {
  char text[400];
  size_t n;
};
/* libcyaml tells what and where in several lines; they become one. */
static void gather(cyaml_log_t level, void *ctx, const char *fmt, va_list args)
{
  struct gathered *g = ctx;
  char line[256];
  if (level < CYAML_LOG_ERROR)
    return;
  vsnprintf(line, sizeof line, fmt, args);
  for (char *p = line; *p; p++)
    if (*p == '\n')
      *p = ' ';
  if (strstr(line, "Backtrace"))
    return;
  int k = snprintf(g->text + g->n, sizeof g->text - g->n, "%s", line);
  if (k > 0)
    g->n = MIN_OF(g->n + (size_t)k, sizeof g->text - 1);
}

/* The names of a list, with commas between. */
static int apply_peers(struct config *c, const struct file_tier *f, struct config_tier *t, struct err *e)
{
  char all[CONFIG_PEERS_MAX * (PEER_NAME_MAX + 1)];
  size_t at = 0;
  if (f->peer)
    return err_set(e, -EINVAL, "config: tier %s: peer and peers: give one of them", f->name ? f->name : "?");
  for (unsigned i = 0; i < f->peers_count && at < sizeof all; i++) {
    if (strchr(f->peers[i], ','))
      return err_set(e, -EINVAL, "config: tier %s: peers: '%s' is none of peers:", f->name ? f->name : "?",
                     f->peers[i]);
    at += (size_t)snprintf(all + at, sizeof all - at, "%s%s", i ? "," : "", f->peers[i]);
  }
  return config_set_tier(c, t, "peers", all, e);
}

static int apply_tier(struct config *c, const struct file_tier *f, struct err *e)
{
  struct config_tier *t = &c->tier[c->tiers_n];
  *t = (struct config_tier){.numa_node = -1,
                            .huge_pages = f->huge_pages,
                            .buffered = f->buffered,
                            .no_uring = f->no_uring,
                            .local_only = f->local_only,
                            .bounce_only = f->bounce_only};
  t->name = f->name ? config_own(c, f->name) : NULL;
  const struct {
    const char *key, *value;
  } fields[] = {{"transport", f->transport}, {"path", f->path},           {"capacity", f->capacity},
                {"slab_size", f->slab_size}, {"bounce", f->bounce},       {"depth", f->depth},
                {"numa_node", f->numa_node}, {"owner", f->owner},         {"fault", f->fault},
                {"keep", f->keep},           {"coherence", f->coherence}, {"peer", f->peer}};
  for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
    int r = fields[i].value ? config_set_tier(c, t, fields[i].key, fields[i].value, e) : 0;
    if (r < 0)
      return r;
  }
  int r = f->peers ? apply_peers(c, f, t, e) : 0;
  if (r < 0)
    return r;
  c->tiers_n++;
  return 0;
}

static int apply_tenant(struct config *c, const struct file_tenant *f, struct err *e)
{
  uint64_t uid = 0;
  if (!f->name)
    return err_set(e, -EINVAL, "config: a tenant has no name");
  if (f->uid && units_count(f->uid, 0, UINT32_MAX - 1, &uid) < 0)
    return err_set(e, -EINVAL, "config: tenant %s: uid '%s' is not a user id", f->name, f->uid);
  if (!f->uid && !f->token && !f->socket)
    return err_set(e, -EINVAL, "config: tenant %s: needs a uid, a token or a socket, or nobody can be it", f->name);
  return config_add_tenant(c, f->name, f->token, f->socket, f->uid ? (int64_t)uid : -1, e);
}

static int apply_peer(struct config *c, const struct file_peer *f, struct err *e)
{
  uint64_t ms = 0;
  if (!f->name || !*f->name || strlen(f->name) > PEER_NAME_MAX || !f->address)
    return err_set(e, -EINVAL, "config: a peer needs a name of at most %d bytes and an address", PEER_NAME_MAX);
  for (const char *p = f->name; *p; p++)
    if (!isalnum((unsigned char)*p) && !strchr("-_.", *p))
      return err_set(e, -EINVAL, "config: peer '%s': only letters, digits, '-', '_' and '.'", f->name);
  for (uint32_t i = 0; i < c->peers_n; i++)
    if (strcmp(c->peer[i].name, f->name) == 0)
      return err_set(e, -EINVAL, "config: peer %s: given twice", f->name);
  if (f->timeout_ms && units_count(f->timeout_ms, 1, 600000, &ms) < 0)
    return err_set(e, -EINVAL, "config: peer %s: timeout_ms: '%s' is not a whole number in 1..600000", f->name,
                   f->timeout_ms);
  c->peer[c->peers_n] = (struct config_peer){.name = config_own(c, f->name),
                                             .address = config_own(c, f->address),
                                             .key_file = f->key_file ? config_own(c, f->key_file) : NULL,
                                             .timeout_ms = (uint32_t)ms};
  c->peers_n++;
  return 0;
}

static int apply_listen(struct config *c, const struct file_listen *f, struct err *e)
{
  uint64_t ms = 0;
  struct config_listen *l = &c->listen;
  if (!f->address)
    return err_set(e, -EINVAL, "config: listen: address is missing");
#ifndef HAVE_RDMA
  return err_set(e, -EINVAL,
                 "config: listen: this drayd was built without RDMA (libibverbs-dev, librdmacm-dev, "
                 "nettle-dev; -Drdma)");
#endif
  if (f->lend && units_bytes(f->lend, &l->lend) < 0)
    return err_set(e, -EINVAL, "config: listen: lend: '%s' is not a size such as 64MiB", f->lend);
  if (f->lease_ms && units_count(f->lease_ms, 500, 600000, &ms) < 0)
    return err_set(e, -EINVAL, "config: listen: lease_ms: '%s' is not a whole number in 500..600000", f->lease_ms);
  l->lease_ms = (uint32_t)ms;
  l->address = config_own(c, f->address);
  l->key_file = f->key_file ? config_own(c, f->key_file) : NULL;
  return l->address ? 0 : -ENOMEM;
}

/* Quotas, rates and rules, each with its line. */
static int apply_plan(struct config *c, const struct file_config *f, const char *path, struct err *e)
{
  struct err why = {{0}};
  struct quota_plan *p = &c->quota;
  uint32_t line[QUOTA_GRANTS_MAX] = {0}, at = 0;
  int r = 0;
  config_lines(path, "quotas", line, f->quotas_count);
  for (unsigned i = 0; r == 0 && i < f->quotas_count; i++) {
    uint32_t before = p->grants_n + p->budgets_n, budgets = p->budgets_n;
    r = config_add_quota(c, &f->quotas[i], &why);
    at = line[i];
    if (r == 0 && p->grants_n + p->budgets_n == before + 1 && p->budgets_n == budgets)
      p->grant[p->grants_n - 1].line = at;
    else if (r == 0)
      p->budget[p->budgets_n - 1].line = at;
  }
  memset(line, 0, sizeof line);
  config_lines(path, "rates", line, r == 0 ? f->rates_count : 0);
  for (unsigned i = 0; r == 0 && i < f->rates_count; i++) {
    r = config_add_rate(c, &f->rates[i], &why);
    at = line[i];
    if (r == 0)
      p->rate[p->rates_n - 1].line = at;
  }
  memset(line, 0, sizeof line);
  config_lines(path, "rules", line, r == 0 ? f->rules_count : 0);
  for (unsigned i = 0; r == 0 && i < f->rules_count; i++) {
    r = config_add_rule(c, &f->rules[i], &why);
    at = line[i];
    if (r == 0)
      p->rule[p->rules_n - 1].line = at;
  }
  return r < 0 ? err_set(e, r, "line %u: %.460s", at, why.text) : 0;
}

static int apply(struct config *c, const struct file_config *f, const char *path, struct err *e)
{
  const struct file_limits none = {0}, *l = f->limits ? f->limits : &none;
  const struct file_usage no_usage = {0}, *u = f->usage ? f->usage : &no_usage;
  const struct {
    const char *key, *value;
  } fields[] = {{"node", f->node},
                {"socket", f->socket},
                {"admin", f->admin},
                {"socket_mode", f->socket_mode},
                {"lanes", f->lanes},
                {"log", f->log},
                {"calibration", f->calibration},
                {"metrics", f->metrics},
                {"chunk", f->chunk},
                {"drain_ms", f->drain_ms},
                {"split_bytes", f->split_bytes},
                {"crc", f->crc},
                {"copy_plan", f->copy_plan},
                {"revoke_grace", f->revoke_grace},
                {"token_cost", f->token_cost},
                {"limits.cells", l->cells},
                {"limits.leases", l->leases},
                {"limits.sessions", l->sessions},
                {"limits.sessions_per_tenant", l->sessions_per_tenant},
                {"limits.regions", l->regions},
                {"limits.pinned", l->pinned},
                {"limits.items", l->items},
                {"usage.path", u->path},
                {"usage.line", u->line},
                {"usage.keep", u->keep},
                {"usage.max", u->max}};
  for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
    int r = fields[i].value ? config_set(c, fields[i].key, fields[i].value, e) : 0;
    if (r < 0)
      return r;
  }
  if (f->auto_tenants)
    c->auto_tenants = *f->auto_tenants;
  if (f->harden)
    c->harden = *f->harden;
  if (f->strict)
    c->strict = *f->strict;
  if (f->tiers)
    c->tiers_n = 0; /* the file's ladder replaces the default's whole */
  for (unsigned i = 0; i < f->tiers_count; i++) {
    int r = apply_tier(c, &f->tiers[i], e);
    if (r < 0)
      return r;
  }
  for (unsigned i = 0; i < f->peers_count; i++) {
    int r = apply_peer(c, &f->peers[i], e);
    if (r < 0)
      return r;
  }
  if (f->listen) {
    int r = apply_listen(c, f->listen, e);
    if (r < 0)
      return r;
  }
  for (unsigned i = 0; i < f->tenants_count; i++) {
    int r = apply_tenant(c, &f->tenants[i], e);
    if (r < 0)
      return r;
  }
  return apply_plan(c, f, path, e);
}

int config_load(struct config *c, const char *path, struct err *e)
{
  struct gathered g = {.n = 0};
  const cyaml_config_t cfg = {
      .log_level = CYAML_LOG_ERROR, .log_fn = gather, .log_ctx = &g, .mem_fn = cyaml_mem, .flags = CYAML_CFG_NO_ALIAS};
  struct file_config *f = NULL;
  if (access(path, R_OK) < 0)
    return err_set(e, -errno, "config: %s: %s", path, strerror(errno));
  cyaml_err_t r = cyaml_load_file(path, &cfg, &top_schema, (cyaml_data_t **)&f, NULL);
  if (r != CYAML_OK)
    return err_set(e, -EINVAL, "config: %.120s: %s: %.300s", path, cyaml_strerror(r), g.text);
  if (!f)
    return 0; /* an empty file changes nothing */
  struct err inner = {{0}};
  int code = apply(c, f, path, &inner);
  cyaml_free(&cfg, &top_schema, f, 0);
  if (code < 0)
    err_set(e, code, "%.120s: %.380s", path, inner.text);
  return code;
}
