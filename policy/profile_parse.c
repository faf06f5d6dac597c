/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calibration's JSON. The library knows no positions after parsing, so the line of a wrong value is looked up in
 * the text by the keys that lead to it.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "policy/profile.h"

static const char *const tier_names[DRAY_TIER_COUNT] = {
    [DRAY_TIER_HBM] = "hbm",           [DRAY_TIER_DRAM] = "dram", [DRAY_TIER_CXL] = "cxl",
    [DRAY_TIER_NUMA_FAR] = "numa_far", [DRAY_TIER_DISK] = "disk", [DRAY_TIER_REMOTE_DRAM] = "remote_dram",
    [DRAY_TIER_REMOTE] = "remote",
};

#define CHUNK_MIN KIB(64)
#define CHUNK_MAX MIB(16)
#define LANES_MAX 64u

/* Where we are in the text: up to three keys deep. */
struct parse {
  const char *text;
  size_t n;
  struct err *e;
  const char *path[3];
};

static void json_free(json_t **j)
{
  json_decref(*j);
}

/* The line on which the innermost key stands. */
static int parse_line(const struct parse *p)
{
  const char *at = p->text, *end = p->text + p->n;
  int line = 1;
  for (size_t i = 0; i < ARRAY_LEN(p->path) && p->path[i]; i++) {
    size_t len = strlen(p->path[i]);
    for (const char *q = at; (q = memchr(q, '"', (size_t)(end - q))); q++)
      if ((size_t)(end - q) >= len + 2 && !memcmp(q + 1, p->path[i], len) && q[len + 1] == '"') {
        at = q + 1;
        break;
      }
  }
  for (const char *q = p->text; q < at; q++)
    line += *q == '\n';
  return line;
}

static int parse_fail(const struct parse *p, const char *why)
{
  return err_set(p->e, -EINVAL, "calibration: line %d: %s%s%s%s%s: %s", parse_line(p), p->path[0] ? p->path[0] : "",
                 p->path[1] ? "." : "", p->path[1] ? p->path[1] : "", p->path[2] ? "." : "",
                 p->path[2] ? p->path[2] : "", why);
}

static int parse_u64(const struct parse *p, const json_t *v, uint64_t *ret)
{
  if (json_is_real(v))
    return parse_fail(p, "must be a whole number, without fraction or exponent");
  if (!json_is_integer(v))
    return parse_fail(p, "must be a number");
  if (json_integer_value(v) < 0)
    return parse_fail(p, "must not be negative");
  *ret = (uint64_t)json_integer_value(v);
  return 0;
}

static int parse_u32(const struct parse *p, const json_t *v, uint32_t *ret)
{
  uint64_t u = 0;
  int rc = parse_u64(p, v, &u);
  if (rc < 0)
    return rc;
  if (u > UINT32_MAX)
    return parse_fail(p, "is too large");
  *ret = (uint32_t)u;
  return 0;
}

static int parse_bool(const struct parse *p, const json_t *v, bool *ret)
{
  if (!json_is_boolean(v))
    return parse_fail(p, "must be true or false");
  *ret = json_is_true(v);
  return 0;
}

static int parse_share(const struct parse *p, const json_t *v, uint8_t *ret)
{
  const char *word = json_string_value(v);
  if (word && !*word) /* the planes write copy, their default, as the empty word */
    word = "copy";
  for (uint8_t i = SHARE_COPY; word && i <= SHARE_DMABUF; i++)
    if (!strcmp(word, profile_share_name(i))) {
      *ret = i;
      return 0;
    }
  return parse_fail(p, "must be one of copy, mmap, cxl_hdm, rdma, dmabuf");
}

/* Keys that begin with _ are remarks. */
static int parse_unknown(const struct parse *p)
{
  return p->path[2][0] == '_' ? 0 : parse_fail(p, "is no key of a profile");
}

static int parse_tier(struct parse *p, json_t *o, struct tier_profile *t)
{
  const char *key;
  json_t *v;
  json_object_foreach(o, key, v)
  {
    int rc;
    p->path[2] = key;
    if (!strcmp(key, "ReadLatencyNanos"))
      rc = parse_u64(p, v, &t->read_latency_ns);
    else if (!strcmp(key, "BandwidthMBPerSec"))
      rc = parse_u64(p, v, &t->bandwidth_mbps);
    else if (!strcmp(key, "CapacityBytes"))
      rc = parse_u64(p, v, &t->capacity);
    else if (!strcmp(key, "ByteAddressable"))
      rc = parse_bool(p, v, &t->byte_addressable);
    else if (!strcmp(key, "Coherent"))
      rc = parse_bool(p, v, &t->coherent);
    else if (!strcmp(key, "Persistent"))
      rc = parse_bool(p, v, &t->persistent);
    else if (!strcmp(key, "Share"))
      rc = parse_share(p, v, &t->share);
    else
      rc = parse_unknown(p);
    if (rc < 0)
      return rc;
  }
  t->present = true;
  return 0;
}

static int parse_pool(struct parse *p, json_t *o, struct pool_profile *t)
{
  const char *key;
  json_t *v;
  json_object_foreach(o, key, v)
  {
    int rc;
    p->path[2] = key;
    if (!strcmp(key, "Hosts"))
      rc = parse_u32(p, v, &t->hosts);
    else if (!strcmp(key, "Coherent"))
      rc = parse_bool(p, v, &t->coherent);
    else if (!strcmp(key, "Share"))
      rc = parse_share(p, v, &t->share);
    else
      rc = parse_unknown(p);
    if (rc < 0)
      return rc;
  }
  t->present = true;
  return 0;
}

static unsigned tier_by_name(const char *name)
{
  for (unsigned t = 1; t < DRAY_TIER_COUNT; t++)
    if (!strcmp(name, tier_names[t]))
      return t;
  return 0;
}

/* tiers and pools: an object of objects by tier name. */
static int parse_section(struct parse *p, json_t *o, struct profile_set *set, bool pools)
{
  const char *name;
  json_t *v;
  if (!json_is_object(o))
    return parse_fail(p, "must be an object");
  json_object_foreach(o, name, v)
  {
    p->path[1] = name;
    p->path[2] = NULL;
    unsigned t = tier_by_name(name);
    if (!t && name[0] == '_')
      continue;
    if (!t)
      return parse_fail(p, "is no tier; tiers are hbm, dram, numa_far, cxl, remote_dram, disk, remote");
    if (!json_is_object(v))
      return parse_fail(p, "must be an object");
    int rc = pools ? parse_pool(p, v, &set->pool[t]) : parse_tier(p, v, &set->tier[t]);
    if (rc < 0)
      return rc;
  }
  return 0;
}

/* All crossovers or none: half a plan would be half of one machine and half of another. */
static int parse_copy(struct parse *p, json_t *o, struct copy_plan *ret)
{
  struct copy_plan plan = {.small = 0};
  uint64_t mbps = 0;
  const struct {
    const char *key;
    uint64_t *value;
  } numbers[] = {{"stream_min_bytes", &plan.stream_min}, {"hot_stream_min_bytes", &plan.hot_stream_min},
                 {"movsb_min_bytes", &plan.movsb_min},   {"soon_max_bytes", &plan.soon_max},
                 {"hot_bytes", &plan.hot_bytes},         {"cold_mbps", &mbps}};
  if (!json_is_object(o))
    return parse_fail(p, "must be an object");
  const char *key;
  json_t *v;
  json_object_foreach(o, key, v)
  {
    bool known = key[0] == '_' || !strcmp(key, "small");
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
      known |= !strcmp(key, numbers[i].key);
    p->path[2] = key;
    if (!known)
      return parse_fail(p, "is no key of a copy plan");
  }
  for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
    v = json_object_get(o, numbers[i].key);
    p->path[2] = v ? numbers[i].key : NULL;
    if (!v && numbers[i].value == &mbps)
      continue; /* not a crossover */
    if (!v) {
      char why[64];
      snprintf(why, sizeof why, "%s is missing", numbers[i].key);
      return parse_fail(p, why);
    }
    int rc = parse_u64(p, v, numbers[i].value);
    if (rc < 0)
      return rc;
    if (*numbers[i].value > COPY_NEVER)
      return parse_fail(p, "must be at most 1099511627776 (1 TiB: never)");
  }
  plan.cold_mbps = mbps > UINT32_MAX ? UINT32_MAX : (uint32_t)mbps;
  const char *small = json_string_value(json_object_get(o, "small"));
  if (small)
    plan.small = !strcmp(small, "memcpy") ? COPY_BY_MEMCPY : !strcmp(small, "vector") ? COPY_BY_VECTOR : 0;
  p->path[2] = NULL;
  const char *wrong = copy_plan_wrong(&plan);
  if (wrong)
    return parse_fail(p, wrong);
  *ret = plan;
  return 0;
}

static int parse_tuning(struct parse *p, json_t *o, struct profile_tuning *t)
{
  if (!json_is_object(o))
    return parse_fail(p, "must be an object");
  int rc = 0;
  json_t *v = json_object_get(o, "nt_min_bytes");
  p->path[1] = "nt_min_bytes";
  if (v)
    rc = parse_u64(p, v, &t->nt_min_bytes);
  v = json_object_get(o, "copy");
  if (rc == 0 && v) {
    p->path[1] = "copy";
    rc = parse_copy(p, v, &t->copy);
    t->has_copy = rc == 0;
    p->path[2] = NULL;
  }
  v = json_object_get(o, "lanes");
  if (rc == 0 && v) {
    p->path[1] = "lanes";
    rc = parse_u32(p, v, &t->lanes);
    if (rc == 0 && (t->lanes < 1 || t->lanes > LANES_MAX))
      return parse_fail(p, "must be from 1 to 64");
  }
  v = json_object_get(o, "chunk_bytes");
  if (rc < 0 || !v)
    return rc;
  p->path[1] = "chunk_bytes";
  rc = parse_u64(p, v, &t->chunk_bytes);
  if (rc == 0 && (t->chunk_bytes < CHUNK_MIN || t->chunk_bytes > CHUNK_MAX))
    return parse_fail(p, "must be from 65536 to 16777216");
  return rc;
}

static int parse_label(const struct parse *p, const json_t *v, char label[64])
{
  const char *text = json_string_value(v);
  if (!text)
    return parse_fail(p, "must be a string");
  size_t n = strlen(text);
  if (n > 63)
    for (n = 63; n && ((unsigned char)text[n] & 0xc0) == 0x80;) /* not in the middle of a character */
      n--;
  memset(label, 0, 64);
  memcpy(label, text, n);
  return 0;
}

int profile_parse(struct profile_set *set, const char *text, size_t n, struct err *e)
{
  json_error_t je;
  CLEAN(json_free) json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &je);
  if (!root)
    return err_set(e, -EINVAL, "calibration: line %d, column %d: %s", je.line, je.column, je.text);
  if (!json_is_object(root))
    return err_set(e, -EINVAL, "calibration: line 1: must be a JSON object");
  struct profile_set made = *set;
  const char *key;
  json_t *v;
  json_object_foreach(root, key, v)
  {
    struct parse p = {.text = text, .n = n, .e = e, .path = {key}};
    int rc = 0;
    if (!strcmp(key, "label"))
      rc = parse_label(&p, v, made.label);
    else if (!strcmp(key, "tiers") || !strcmp(key, "pools"))
      rc = parse_section(&p, v, &made, key[0] == 'p');
    else if (!strcmp(key, "dray"))
      rc = parse_tuning(&p, v, &made.tuning);
    if (rc < 0)
      return rc;
  }
  *set = made;
  return 0;
}

const char *profile_tier_name(unsigned tier)
{
  return tier < DRAY_TIER_COUNT && tier_names[tier] ? tier_names[tier] : "?";
}
