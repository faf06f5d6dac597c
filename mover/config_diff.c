/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/config_diff.h"

#include <dirent.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/units.h"
#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "mover/machine.h"

__attribute__((format(printf, 3, 4))) static void line(struct config_diff *d, char mark, const char *fmt, ...)
{
  char text[512];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  d->n += mark != '?';
  int k = snprintf(d->text + d->used, sizeof d->text - d->used, "%c %s\n", mark, text);
  if (k > 0 && d->used + (uint32_t)k < sizeof d->text)
    d->used += (uint32_t)k;
  else
    d->text[d->used] = 0; /* counted, and not shown */
}

static void number(struct config_diff *d, const char *key, uint64_t was, uint64_t now)
{
  if (was != now)
    line(d, '~', "%s: file %llu, runs %llu", key, (unsigned long long)now, (unsigned long long)was);
}
static void text(struct config_diff *d, const char *key, const char *was, const char *now)
{
  if ((was != NULL) != (now != NULL) || (was && strcmp(was, now)))
    line(d, '~', "%s: file %.120s, runs %.120s", key, now ? now : "nothing", was ? was : "nothing");
}

static const struct config_tier *tier_named(const struct config *c, const char *name)
{
  for (uint32_t i = 0; i < c->tiers_n; i++)
    if (c->tier[i].name && name && !strcmp(c->tier[i].name, name))
      return &c->tier[i];
  return NULL;
}

static void tiers(const struct config *was, const struct config *now, struct config_diff *d)
{
  char key[96];
  for (uint32_t i = 0; i < was->tiers_n; i++)
    if (!tier_named(now, was->tier[i].name))
      line(d, '~', "tier %s: runs, and is not in the file", was->tier[i].name);
  for (uint32_t i = 0; i < now->tiers_n; i++) {
    const struct config_tier *b = &now->tier[i], *a = tier_named(was, b->name);
    if (!a) {
      line(d, '~', "tier %s: in the file, and does not run", b->name ? b->name : "?");
      continue;
    }
    const struct {
      const char *key;
      uint64_t a, b;
    } n[] = {{"capacity", a->capacity, b->capacity},
             {"slab_size", a->slab_bytes, b->slab_bytes},
             {"bounce", a->bounce_bytes, b->bounce_bytes},
             {"depth", a->depth, b->depth},
             {"numa_node", (uint64_t)(int64_t)a->numa_node, (uint64_t)(int64_t)b->numa_node},
             {"huge_pages", a->huge_pages, b->huge_pages},
             {"buffered", a->buffered, b->buffered},
             {"bounce_only", a->bounce_only, b->bounce_only},
             {"no_uring", a->no_uring, b->no_uring},
             {"keep", a->keep, b->keep},
             {"coherence", a->coherence, b->coherence}};
    const struct {
      const char *key, *a, *b;
    } t[] = {{"transport", a->transport, b->transport},
             {"path", a->path, b->path},
             {"owner", a->owner, b->owner},
             {"peers", a->peer, b->peer}};
    for (size_t k = 0; k < ARRAY_LEN(n); k++) {
      snprintf(key, sizeof key, "tier %s: %s", b->name, n[k].key);
      number(d, key, n[k].a, n[k].b);
    }
    for (size_t k = 0; k < ARRAY_LEN(t); k++) {
      snprintf(key, sizeof key, "tier %s: %s", b->name, t[k].key);
      text(d, key, t[k].a, t[k].b);
    }
  }
}

static const struct config_tenant *tenant_named(const struct config *c, const char *name)
{
  for (uint32_t i = 0; i < c->tenants_n; i++)
    if (!strcmp(c->tenant[i].name, name))
      return &c->tenant[i];
  return NULL;
}

static void tenants(const struct config *was, const struct config *now, struct config_diff *d)
{
  for (uint32_t i = 0; i < was->tenants_n; i++)
    if (!tenant_named(now, was->tenant[i].name))
      line(d, '~', "tenant %s: known, and not in the file", was->tenant[i].name);
  for (uint32_t i = 0; i < now->tenants_n; i++) {
    const struct config_tenant *b = &now->tenant[i], *a = tenant_named(was, b->name);
    const char *ta = a && a->token ? a->token : "", *tb = b->token ? b->token : "";
    const char *sa = a && a->socket ? a->socket : "", *sb = b->socket ? b->socket : "";
    if (!a)
      line(d, '~', "tenant %s: in the file, and not known", b->name);
    else if (a->uid != b->uid || strcmp(ta, tb) || strcmp(sa, sb))
      line(d, '~', "tenant %s: uid, token or socket has changed", b->name);
  }
}

void config_diff_file(const struct config *was, const struct config *now, struct config_diff *d)
{
  const struct {
    const char *key;
    uint64_t a, b;
  } n[] = {{"lanes", was->lanes, now->lanes},
           {"log", (uint64_t)was->log_level, (uint64_t)now->log_level},
           {"socket_mode", (uint64_t)was->socket_mode, (uint64_t)now->socket_mode},
           {"strict", was->strict, now->strict},
           {"harden", was->harden, now->harden},
           {"auto_tenants", was->auto_tenants, now->auto_tenants},
           {"chunk", was->chunk_bytes, now->chunk_bytes},
           {"split_bytes", was->split_bytes, now->split_bytes},
           {"crc", was->crc_always, now->crc_always},
           {"drain_ms", was->drain_ms, now->drain_ms},
           {"token_cost", was->token_ns, now->token_ns},
           {"revoke_grace", was->revoke_ns, now->revoke_ns},
           {"usage.keep", was->usage.keep_s, now->usage.keep_s},
           {"usage.max", was->usage.max_bytes, now->usage.max_bytes},
           {"limits.cells", was->cells_max, now->cells_max},
           {"limits.leases", was->leases_max, now->leases_max},
           {"limits.sessions", was->sessions_max, now->sessions_max},
           {"limits.sessions_per_tenant", was->sessions_per_tenant, now->sessions_per_tenant},
           {"limits.regions", was->regions_max, now->regions_max},
           {"limits.pinned", was->pinned_max, now->pinned_max},
           {"limits.items", was->items_max, now->items_max}};
  const struct {
    const char *key, *a, *b;
  } t[] = {{"node", was->node, now->node},
           {"socket", was->socket, now->socket},
           {"admin", was->admin, now->admin},
           {"calibration", was->calibration, now->calibration},
           {"metrics", was->metrics, now->metrics},
           {"usage.path", was->usage.path, now->usage.path},
           {"usage.line", was->usage.line, now->usage.line}};
  for (size_t i = 0; i < ARRAY_LEN(n); i++)
    number(d, n[i].key, n[i].a, n[i].b);
  for (size_t i = 0; i < ARRAY_LEN(t); i++)
    text(d, t[i].key, t[i].a, t[i].b);
  tiers(was, now, d);
  tenants(was, now, d);
}

/* ---- the kernel ---- */

static bool number_in(const char *path, uint64_t *ret)
{
  unsigned long long v;
  CLEAN_FILE *f = fopen(path, "re");
  if (!f || fscanf(f, "%llu", &v) != 1)
    return false;
  *ret = v;
  return true;
}

static bool there(const char *root, const char *path)
{
  char full[2 * PATH_MAX];
  struct stat st;
  snprintf(full, sizeof full, "%s%s", root, path);
  return stat(full, &st) == 0;
}

static void dax_tier(const struct config_tier *t, const char *root, struct config_diff *d)
{
  char path[2 * PATH_MAX], want[32], have[32];
  const char *name = t->path + 5; /* behind /dev/ */
  uint64_t size;
  snprintf(path, sizeof path, "%s/sys/bus/dax/devices/%s/size", root, name);
  if (!number_in(path, &size))
    line(d, '!', "tier %s: %s: the kernel shows no such device (ndctl, daxctl list)", t->name, t->path);
  else if (t->capacity > size)
    line(d, '!', "tier %s: %s: expects %s, the kernel shows %s", t->name, t->path,
         units_format_bytes(t->capacity, want, sizeof want), units_format_bytes(size, have, sizeof have));
}

static bool is_dax(const struct config_tier *t)
{
  return t->path && !strncmp(t->path, "/dev/dax", 8);
}

/* Entries of a directory of sysfs that begin so. */
static void offered(const struct config *c, const char *root, const char *dir, const char *begins, const char *what,
                    struct config_diff *d)
{
  char path[2 * PATH_MAX], have[32];
  snprintf(path, sizeof path, "%s%s", root, dir);
  DIR *list = opendir(path);
  for (struct dirent *e; list && (e = readdir(list));) {
    uint64_t size = 0;
    bool used = false;
    if (e->d_name[0] == '.' || strncmp(e->d_name, begins, strlen(begins)))
      continue;
    for (uint32_t i = 0; i < c->tiers_n; i++)
      used |= is_dax(&c->tier[i]) && !strcmp(c->tier[i].path + 5, e->d_name);
    if (used)
      continue;
    snprintf(path, sizeof path, "%s%s/%.255s/size", root, dir, e->d_name);
    if (number_in(path, &size) && size)
      line(d, '?', "%s %s of %s: no tier uses it", what, e->d_name, units_format_bytes(size, have, sizeof have));
    else
      line(d, '?', "%s %s: no tier uses it", what, e->d_name);
  }
  if (list)
    closedir(list);
}

void config_diff_kernel(const struct config *c, const char *root, struct config_diff *d)
{
  char path[64];
  for (uint32_t i = 0; i < c->tiers_n; i++) {
    const struct config_tier *t = &c->tier[i];
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d", t->numa_node);
    if (t->numa_node >= 0 && !there(root, path))
      line(d, '!', "tier %s: numa_node %d: the kernel shows no such node", t->name, t->numa_node);
    if (is_dax(t))
      dax_tier(t, root, d);
    else if (t->path && t->transport && !t->peer && strcmp(t->transport, "memory") && !there(root, t->path))
      line(d, '!', "tier %s: %.200s: is not there", t->name, t->path);
  }
  struct err e = {{0}};
  if (!*root && machine_fits(c, root, &e) < 0)
    line(d, '!', "%.400s", e.text);
  offered(c, root, "/sys/bus/dax/devices", "dax", "dax device", d);
  offered(c, root, "/sys/bus/cxl/devices", "mem", "CXL memory device", d);
  offered(c, root, "/sys/class/infiniband", "", "RDMA device", d);
}
