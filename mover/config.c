/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/config.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/units.h"
#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "mover/config_file.h"
#include "mover/log.h"
#include "mover/metrics.h"

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
  if (strcmp(key, "peer") == 0)
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

static int config_calibration(struct config *c, struct err *e)
{
  CLEAN_FD fd = open(c->calibration, O_RDONLY | O_CLOEXEC);
  struct stat st;
  if (fd < 0 || fstat(fd, &st) < 0)
    return err_set(e, -errno, "calibration: %s: %s", c->calibration, strerror(errno));
  if (!S_ISREG(st.st_mode) || st.st_size <= 0 || st.st_size > (off_t)MIB(4))
    return err_set(e, -EINVAL, "calibration: %s: need a regular file of 1 byte to 4 MiB, have %lld bytes",
                   c->calibration, (long long)st.st_size);
  CLEAN_PTR char *text = malloc((size_t)st.st_size);
  if (!text)
    return -ENOMEM;
  if (read(fd, text, (size_t)st.st_size) != st.st_size)
    return err_set(e, -EIO, "calibration: %s: could not read it whole", c->calibration);
  struct err inner = {{0}};
  int r = profile_parse(&c->policy.profiles, text, (size_t)st.st_size, &inner);
  if (r < 0)
    err_set(e, r, "%.200s: %.280s", c->calibration, inner.text);
  return r;
}

static const struct config_peer *peer_of(const struct config *c, const char *name)
{
  for (uint32_t i = 0; name && i < c->peers_n; i++)
    if (strcmp(c->peer[i].name, name) == 0)
      return &c->peer[i];
  return NULL;
}

/* A pool that a peer lends, or, under the name remote, what the peer has. */
static int check_rdma_tier(const struct config *c, struct config_tier *t, unsigned tier, struct err *e)
{
  const struct config_peer *p = peer_of(c, t->peer);
#ifndef HAVE_RDMA
  return err_set(e, -EINVAL,
                 "config: tier %s: this drayd was built without RDMA (libibverbs-dev, librdmacm-dev, "
                 "nettle-dev; -Drdma)",
                 t->name);
#endif
  if (tier != DRAY_TIER_REMOTE_DRAM && tier != DRAY_TIER_REMOTE)
    return err_set(e, -EINVAL, "config: tier %s: transport rdma is for remote_dram and remote", t->name);
  if (!p)
    return err_set(e, -EINVAL, "config: tier %s: peer '%s' is none of peers:", t->name, t->peer ? t->peer : "");
  if (tier == DRAY_TIER_REMOTE && (t->capacity || t->fault))
    return err_set(e, -EINVAL, "config: tier remote: it is what the peer has: no capacity, no fault");
  if (tier == DRAY_TIER_REMOTE_DRAM && t->capacity < MIB(1))
    return err_set(e, -EINVAL, "config: tier %s: capacity: need at least 1 MiB, have %llu bytes", t->name,
                   (unsigned long long)t->capacity);
  t->path = p->address;
  return 0;
}

static int config_check_tier(struct config *c, uint32_t i, struct err *e)
{
  struct config_tier *t = &c->tier[i];
  unsigned tier = t->name ? dray_tier_by_name(t->name) : 0;
  if (!tier)
    return err_set(e, -EINVAL, "config: tier '%s': none of hbm dram numa_far cxl remote_dram disk remote",
                   t->name ? t->name : "");
  bool memory = t->transport && strcmp(t->transport, "memory") == 0,
       cxl = t->transport && strcmp(t->transport, "cxl") == 0, file = t->transport && strcmp(t->transport, "file") == 0;
  if (t->transport && strcmp(t->transport, "rdma") == 0) {
    int r = check_rdma_tier(c, t, tier, e);
    if (r < 0)
      return r;
  } else if (tier == DRAY_TIER_REMOTE || (!memory && !cxl && !file))
    return err_set(e, -EINVAL, "config: tier %s: transport '%s': none of memory cxl file rdma", t->name,
                   t->transport ? t->transport : "");
  if (!memory && !t->path)
    return err_set(e, -EINVAL, "config: tier %s: path is missing", t->name);
  if ((memory || file) && t->capacity < MIB(1))
    return err_set(e, -EINVAL, "config: tier %s: capacity: need at least 1 MiB, have %llu bytes", t->name,
                   (unsigned long long)t->capacity);
  for (uint32_t k = 0; k < i; k++)
    if (strcmp(c->tier[k].name, t->name) == 0)
      return err_set(e, -EINVAL, "config: tier %s: given twice", t->name);
  return 0;
}

int config_finish(struct config *c, struct err *e)
{
  if (c->tiers_n == 0)
    return err_set(e, -EINVAL, "config: tiers: at least one tier is needed");
  if (c->chunk_bytes && (c->chunk_bytes < KIB(4) || c->chunk_bytes > MIB(16) || !is_aligned(c->chunk_bytes, KIB(4))))
    return err_set(e, -EINVAL, "config: chunk: need a multiple of 4 KiB in 4 KiB..16 MiB, have %llu bytes",
                   (unsigned long long)c->chunk_bytes);
  for (uint32_t i = 0; i < c->tiers_n; i++) {
    int r = config_check_tier(c, i, e);
    if (r < 0)
      return r;
  }
  /* the ladder is by tier, hottest first, whatever order the file has */
  for (uint32_t i = 1; i < c->tiers_n; i++)
    for (uint32_t k = i; k > 0 && dray_tier_by_name(c->tier[k].name) < dray_tier_by_name(c->tier[k - 1].name); k--) {
      struct config_tier t = c->tier[k];
      c->tier[k] = c->tier[k - 1];
      c->tier[k - 1] = t;
    }
  for (uint32_t i = 0; i < c->tenants_n; i++)
    for (uint32_t k = 0; k < i; k++) {
      const struct config_tenant *a = &c->tenant[i], *b = &c->tenant[k];
      if (strcmp(a->name, b->name) == 0)
        return err_set(e, -EINVAL, "config: tenant %s: given twice", a->name);
      if ((a->token && b->token && strcmp(a->token, b->token) == 0) ||
          (a->uid >= 0 && a->uid == b->uid && !a->token && !b->token))
        return err_set(e, -EINVAL, "config: tenants %s and %s cannot be told apart: same token or uid", b->name,
                       a->name);
    }
  uint32_t ip;
  uint16_t port;
  if (c->metrics && metrics_address(c->metrics, &ip, &port) < 0)
    return err_set(e, -EINVAL, "config: metrics: '%.60s' is not an address such as 127.0.0.1:9469", c->metrics);
  if (c->metrics && !metrics_built())
    return err_set(e, -EINVAL, "config: metrics: this drayd was built without libmicrohttpd");
  int quota = config_quota_check(c, &c->quota, e);
  quota = quota ? quota : config_usage_check(c, e);
  if (quota < 0)
    return quota;
  if (c->calibration) {
    int r = config_calibration(c, e);
    if (r < 0)
      return r;
  }
  /* what the configuration leaves open the calibration decides, and what that leaves open, we */
  const struct profile_tuning *tuning = &c->policy.profiles.tuning;
  long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  if (!c->chunk_bytes)
    c->chunk_bytes = tuning->chunk_bytes ? align_up(tuning->chunk_bytes, KIB(4)) : KIB(256);
  if (!c->lanes)
    c->lanes = tuning->lanes ? tuning->lanes : cpus > 4 ? 4 : cpus > 2 ? 2 : 1;
  if (tuning->has_copy)
    c->copy = tuning->copy;
  else if (tuning->nt_min_bytes)
    c->copy.stream_min = MIN_OF(tuning->nt_min_bytes, COPY_NEVER);
  memset(c->policy.ladder, 0, sizeof c->policy.ladder);
  c->pools_n = c->tiers_n - (c->tiers_n && strcmp(c->tier[c->tiers_n - 1].name, "remote") == 0);
  if (!c->pools_n)
    return err_set(e, -EINVAL, "config: tiers: remote alone is none: at least one pool of our own is needed");
  for (uint32_t i = 0; i < c->pools_n; i++) {
    c->policy.ladder[i] = (uint8_t)dray_tier_by_name(c->tier[i].name);
    if (c->tier[i].coherence != DEV_COHERENT) /* whatever the profile says */
      c->policy.profiles.tier[c->policy.ladder[i]].coherent = false;
  }
  return 0;
}
