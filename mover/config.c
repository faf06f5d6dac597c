/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/config.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "include/priv/bits.h"
#include "mover/config_file.h"
#include "mover/log.h"

struct owned {
  struct owned *next;
  char text[];
};

const char *config_own(struct config *c, const char *text)
{
  size_t n = strlen(text) + 1;
  struct owned *o = malloc(sizeof *o + n);
  if (!o)
    return NULL;
  memcpy(o->text, text, n);
  o->next = c->owned;
  c->owned = o;
  return o->text;
}

void config_free(struct config *c)
{
  for (struct owned *o = c->owned, *next; o; o = next) {
    next = o->next;
    free(o);
  }
  c->owned = NULL;
}

int config_default(struct config *c, const char *dir, struct err *e)
{
  char text[512];
  memset(c, 0, sizeof *c);
  const char *run = getenv("XDG_RUNTIME_DIR");
  char host[64] = "node";
  gethostname(host, sizeof host - 1);
  if (dir)
    snprintf(text, sizeof text, "%s", dir);
  else if (geteuid() == 0 || !run || !*run)
    snprintf(text, sizeof text, geteuid() == 0 ? "/run/dray" : "/tmp/dray-%u", (unsigned)geteuid());
  else
    snprintf(text, sizeof text, "%s/dray", run);
  dir = config_own(c, text);
  if (!dir)
    return -ENOMEM;
  if (strlen(dir) > 80)
    return err_set(e, -EINVAL,
                   "config: directory '%s' is too long for a Unix socket's path (need <= 80 bytes, have %zu)", dir,
                   strlen(dir));
#define UNDER(name) (snprintf(text, sizeof text, "%s/" name, dir), config_own(c, text))
  c->dir = dir;
  c->node = config_own(c, host);
  c->socket = UNDER("dray.sock");
  c->admin = UNDER("admin.sock");
  c->socket_mode = 0660;
  c->log_level = LOG_INFO;
  c->auto_tenants = true;
  c->harden = true;
  c->cells_max = 16u << 20;
  c->leases_max = 1u << 20;
  c->sessions_max = 1024;
  c->sessions_per_tenant = 1024;
  c->regions_max = 256;
  c->pinned_max = GIB(64);
  c->items_max = DRAY_ITEMS_MAX;
  c->drain_ms = 10000;
  c->revoke_ns = 5000000000u;
  c->token_ns = 100000;
  c->usage.keep_s = 7 * 86400;
  c->usage.max_bytes = GIB(1);
  c->copy_measure = true;
  c->copy = copy_plan_default;
  c->tiers_n = 3;
  c->tier[0] = (struct config_tier){.name = "dram", .transport = "memory", .capacity = GIB(1), .numa_node = -1};
  c->tier[1] = (struct config_tier){
      .name = "cxl", .transport = "cxl", .path = UNDER("cxl"), .capacity = GIB(1), .numa_node = -1};
  c->tier[2] = (struct config_tier){
      .name = "disk", .transport = "file", .path = UNDER("disk"), .capacity = GIB(4), .numa_node = -1};
#undef UNDER
  profile_defaults(&c->policy.profiles);
  return c->node && c->socket && c->admin && c->tier[1].path && c->tier[2].path ? 0 : -ENOMEM;
}

int config_add_tenant(struct config *c, const char *name, const char *token, const char *socket, int64_t uid,
                      struct err *e)
{
  size_t n = strlen(name);
  if (n == 0 || n >= DRAY_NAME_MAX || n >= INDEX_NAME_MAX)
    return err_set(e, -EINVAL, "config: tenant '%s': a name has 1 to %d bytes", name, INDEX_NAME_MAX - 1);
  for (size_t i = 0; i < n; i++)
    if (!isalnum((unsigned char)name[i]) && !strchr("-_.", name[i]))
      return err_set(e, -EINVAL, "config: tenant '%s': only letters, digits, '-', '_' and '.'", name);
  if (uid == 65534)
    return err_set(e, -EINVAL, "config: tenant '%s': uid 65534 (nobody) is never a tenant", name);
  if (token && (strlen(token) >= DRAY_TOKEN_MAX || !*token))
    return err_set(e, -EINVAL, "config: tenant '%s': a token has 1 to %d bytes", name, DRAY_TOKEN_MAX - 1);
  if (c->tenants_n == CONFIG_TENANTS_MAX)
    return err_set(e, -EINVAL, "config: more than %d tenants", CONFIG_TENANTS_MAX);
  struct config_tenant *t = &c->tenant[c->tenants_n];
  *t = (struct config_tenant){.name = config_own(c, name),
                              .token = token ? config_own(c, token) : NULL,
                              .socket = socket ? config_own(c, socket) : NULL,
                              .uid = uid};
  if (!t->name)
    return -ENOMEM;
  c->tenants_n++;
  return 0;
}

static int set_count(const char *key, const char *value, uint64_t min, uint64_t max, uint32_t *ret, struct err *e)
{
  uint64_t v;
  if (units_count(value, min, max, &v) < 0)
    return err_set(e, -EINVAL, "config: %s: '%s' is not a whole number in %llu..%llu", key, value,
                   (unsigned long long)min, (unsigned long long)max);
  *ret = (uint32_t)v;
  return 0;
}
static int set_bytes(const char *key, const char *value, uint64_t *ret, struct err *e)
{
  uint64_t v;
  int r = units_bytes(value, &v);
  if (r < 0 || v > INT64_MAX)
    return err_set(e, -EINVAL, "config: %s: '%s' is not a size such as 64MiB%s", key, value,
                   r == -ERANGE || r == 0 ? " (too large)" : "");
  *ret = v;
  return 0;
}
/* One of two words. */
static int set_choice(const char *key, const char *value, const char *no, const char *yes, bool *ret, struct err *e)
{
  if (strcmp(value, no) && strcmp(value, yes))
    return err_set(e, -EINVAL, "config: %s: '%.40s' is neither %s nor %s", key, value, no, yes);
  *ret = strcmp(value, yes) == 0;
  return 0;
}
/* auto: 0, off: never. */
static int set_split(const char *key, const char *value, uint64_t *ret, struct err *e)
{
  uint64_t v = strcmp(value, "off") == 0 ? UINT64_MAX : 0;
  if (v == 0 && strcmp(value, "auto")) {
    int r = set_bytes(key, value, &v, e);
    if (r < 0)
      return r;
    if (v < KIB(512))
      return err_set(e, -EINVAL, "config: %s: need auto, off or at least 512 KiB (two chunks), have %llu bytes", key,
                     (unsigned long long)v);
  }
  *ret = v;
  return 0;
}
static int set_text(struct config *c, const char *value, const char **ret)
{
  const char *t = config_own(c, value);
  if (!t)
    return -ENOMEM;
  *ret = t;
  return 0;
}

static const char *const keep_words[] = {[DEV_KEEP_NO] = "no", [DEV_KEEP_YES] = "yes", [DEV_KEEP_FRESH] = "fresh"};
static const char *const coherence_words[] = {
    [DEV_COHERENT] = "hardware", [DEV_SOFTWARE] = "software", [DEV_APART] = "none"};

/* One of the words; its place in the list. */
static int set_word(const char *name, const char *value, const char *const *words, size_t n, uint8_t *ret,
                    struct err *e)
{
  char all[64] = "";
  for (size_t i = 0, at = 0; i < n; i++) {
    if (strcmp(value, words[i]) == 0) {
      *ret = (uint8_t)i;
      return 0;
    }
    at += (size_t)snprintf(all + at, sizeof all - at, " %s", words[i]);
  }
  return err_set(e, -EINVAL, "config: %s: '%.64s' is none of%s", name, value, all);
}

int config_set_tier(struct config *c, struct config_tier *t, const char *key, const char *value, struct err *e)
{
  char name[96];
  snprintf(name, sizeof name, "tier %s: %s", t->name ? t->name : "?", key);
  if (strcmp(key, "capacity") == 0)
    return set_bytes(name, value, &t->capacity, e);
  if (strcmp(key, "slab_size") == 0)
    return set_bytes(name, value, &t->slab_bytes, e);
  if (strcmp(key, "bounce") == 0)
    return set_bytes(name, value, &t->bounce_bytes, e);
  if (strcmp(key, "depth") == 0)
    return set_count(name, value, 1, 1024, &t->depth, e);
  if (strcmp(key, "path") == 0)
    return set_text(c, value, &t->path);
  if (strcmp(key, "owner") == 0)
    return set_text(c, value, &t->owner);
  if (strcmp(key, "peer") == 0 || strcmp(key, "peers") == 0)
    return set_text(c, value, &t->peer);
  if (strcmp(key, "keep") == 0)
    return set_word(name, value, keep_words, ARRAY_LEN(keep_words), &t->keep, e);
  if (strcmp(key, "coherence") == 0)
    return set_word(name, value, coherence_words, ARRAY_LEN(coherence_words), &t->coherence, e);
  if (strcmp(key, "fault") == 0) {
    struct err inner = {{0}};
    if (fault_check(value, &inner) < 0)
      return err_set(e, -EINVAL, "config: %s: %.300s", name, inner.text);
    return set_text(c, value, &t->fault);
  }
  if (strcmp(key, "transport") == 0)
    return set_text(c, value, &t->transport);
  if (strcmp(key, "numa_node") == 0) {
    uint32_t v = 0;
    int r = set_count(name, value, 0, 1023, &v, e);
    if (r == 0)
      t->numa_node = (int32_t)v;
    return r;
  }
  return err_set(e, -EINVAL, "config: %s: unknown key", name);
}

int config_set(struct config *c, const char *key, const char *value, struct err *e)
{
  if (strcmp(key, "node") == 0)
    return set_text(c, value, &c->node);
  if (strcmp(key, "socket") == 0)
    return set_text(c, value, &c->socket);
  if (strcmp(key, "admin") == 0)
    return set_text(c, value, &c->admin);
  if (strcmp(key, "calibration") == 0)
    return set_text(c, value, &c->calibration);
  if (strcmp(key, "metrics") == 0)
    return set_text(c, value, &c->metrics);
  if (strcmp(key, "lanes") == 0)
    return set_count(key, value, 1, 64, &c->lanes, e);
  if (strcmp(key, "chunk") == 0)
    return set_bytes(key, value, &c->chunk_bytes, e);
  if (strcmp(key, "split_bytes") == 0)
    return set_split(key, value, &c->split_bytes, e);
  if (strcmp(key, "crc") == 0)
    return set_choice(key, value, "request", "always", &c->crc_always, e);
  if (strcmp(key, "copy_plan") == 0)
    return set_choice(key, value, "builtin", "measure", &c->copy_measure, e);
  if (strcmp(key, "drain_ms") == 0)
    return set_count(key, value, 0, 600000, &c->drain_ms, e);
  if (strcmp(key, "limits.cells") == 0)
    return set_count(key, value, 1024, 1u << 30, &c->cells_max, e);
  if (strcmp(key, "limits.leases") == 0)
    return set_count(key, value, 1, 1u << 28, &c->leases_max, e);
  if (strcmp(key, "limits.sessions") == 0)
    return set_count(key, value, 1, 4095, &c->sessions_max, e);
  if (strcmp(key, "limits.sessions_per_tenant") == 0)
    return set_count(key, value, 1, 4095, &c->sessions_per_tenant, e);
  if (strcmp(key, "limits.regions") == 0)
    return set_count(key, value, 1, 1023, &c->regions_max, e);
  if (strcmp(key, "limits.pinned") == 0)
    return set_bytes(key, value, &c->pinned_max, e);
  if (strcmp(key, "limits.items") == 0)
    return set_count(key, value, 1, DRAY_ITEMS_MAX, &c->items_max, e);
  if (strcmp(key, "log") == 0) {
    int level = log_level_by_name(value);
    if (level < 0)
      return err_set(e, -EINVAL, "config: log: '%s' is none of error warn info debug", value);
    c->log_level = level;
    return 0;
  }
  if (strcmp(key, "harden") == 0)
    return set_choice(key, value, "no", "yes", &c->harden, e);
  if (strcmp(key, "strict") == 0)
    return set_choice(key, value, "no", "yes", &c->strict, e);
  if (strcmp(key, "socket_mode") == 0) {
    char *end;
    long v = strtol(value, &end, 8);
    if (!isdigit((unsigned char)*value) || *end || v < 0 || v > 0777)
      return err_set(e, -EINVAL, "config: socket_mode: '%s' is not an octal mode such as 0660", value);
    c->socket_mode = v;
    return 0;
  }
  if (strcmp(key, "tenant") == 0) {
    char name[DRAY_NAME_MAX];
    const char *colon = strchr(value, ':');
    if (!colon || (size_t)(colon - value) >= sizeof name)
      return err_set(e, -EINVAL, "config: tenant: need NAME:TOKEN, have '%.*s'", 64, value);
    memcpy(name, value, (size_t)(colon - value));
    name[colon - value] = 0;
    return config_add_tenant(c, name, colon + 1, NULL, -1, e);
  }
  if (strcmp(key, "token_cost") == 0) {
    uint64_t ns;
    if (units_time(value, &ns) < 0 || !ns || ns > 1000000000u)
      return err_set(e, -EINVAL, "config: token_cost: '%.60s' is not a time in 1ns..1s", value);
    c->token_ns = ns;
    return 0;
  }
  if (strcmp(key, "revoke_grace") == 0) {
    uint64_t ns;
    if (units_time(value, &ns) < 0 || ns < 10000000u || ns > 600000000000ull)
      return err_set(e, -EINVAL, "config: revoke_grace: '%.60s' is not a time in 10ms..10m", value);
    c->revoke_ns = ns;
    return 0;
  }
  if (strncmp(key, "usage.", 6) == 0)
    return config_set_usage(c, key + 6, value, e);
  if (strncmp(key, "tier.", 5) == 0) {
    const char *dot = strchr(key + 5, '.');
    for (uint32_t i = 0; dot && i < c->tiers_n; i++)
      if (strlen(c->tier[i].name) == (size_t)(dot - key - 5) &&
          strncmp(c->tier[i].name, key + 5, (size_t)(dot - key - 5)) == 0)
        return config_set_tier(c, &c->tier[i], dot + 1, value, e);
    return err_set(e, -EINVAL, "config: %s: no such tier", key);
  }
  return err_set(e, -EINVAL, "config: %s: unknown key", key);
}
