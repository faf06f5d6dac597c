/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/trace.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"

#define LINE_MAX_BYTES (4u << 20)

uint64_t trace_mix(uint64_t x)
{
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

void trace_free(struct trace *t)
{
  free(t->req);
  free(t->id);
  *t = (struct trace){0};
}

int trace_add(struct trace *t, uint64_t at_ms, uint64_t input, uint64_t output)
{
  if (t->n == t->room) {
    uint32_t room = t->room ? t->room * 2 : 1024;
    if (room > TRACE_TOTAL_MAX)
      return -E2BIG;
    struct trace_request *req = realloc(t->req, room * sizeof *req);
    if (!req)
      return -ENOMEM;
    t->req = req;
    t->room = room;
  }
  t->req[t->n++] =
      (struct trace_request){.at_ms = at_ms, .at_us = at_ms * 1000, .input = input, .output = output, .first = t->ids};
  return 0;
}

int trace_add_id(struct trace *t, uint64_t id)
{
  if (t->ids == TRACE_TOTAL_MAX || t->req[t->n - 1].blocks == TRACE_BLOCKS_MAX)
    return -E2BIG;
  if (t->ids == t->ids_room) {
    uint64_t room = t->ids_room ? t->ids_room * 2 : 16384;
    uint64_t *ids = realloc(t->id, room * sizeof *ids);
    if (!ids)
      return -ENOMEM;
    t->id = ids;
    t->ids_room = room;
  }
  t->id[t->ids++] = id;
  t->req[t->n - 1].blocks++;
  return 0;
}

void trace_spread(struct trace *t)
{
  for (uint32_t i = 0, end; i < t->n; i = end) {
    for (end = i + 1; end < t->n && t->req[end].at_ms == t->req[i].at_ms; end++)
      ;
    uint64_t gap = end < t->n ? MIN_OF(t->req[end].at_ms - t->req[i].at_ms, (uint64_t)TRACE_TICK_MS) : TRACE_TICK_MS;
    for (uint32_t k = i; k < end; k++)
      t->req[k].at_us = t->req[k].at_ms * 1000 + gap * 1000 * (k - i) / (end - i);
  }
}

/* A member that must be a whole number >= 0. */
static int take_number(const json_t *o, const char *key, uint64_t max, uint64_t *ret, const char *path, uint64_t line,
                       struct err *e)
{
  const json_t *v = json_object_get(o, key);
  if (!v)
    return err_set(e, -EINVAL, "%s:%llu: '%s' is missing", path, (unsigned long long)line, key);
  if (!json_is_integer(v) || json_integer_value(v) < 0 || (uint64_t)json_integer_value(v) > max)
    return err_set(e, -EINVAL, "%s:%llu: '%s': need a whole number in 0..%llu", path, (unsigned long long)line, key,
                   (unsigned long long)max);
  *ret = (uint64_t)json_integer_value(v);
  return 0;
}

static int take_line(struct trace *t, const char *text, size_t n, const char *path, uint64_t line, struct err *e)
{
  json_error_t je;
  json_t *o = json_loadb(text, n, JSON_REJECT_DUPLICATES, &je);
  uint64_t at = 0, input = 0, output = 0;
  if (!json_is_object(o)) {
    err_set(e, -EINVAL, "%s:%llu: %s", path, (unsigned long long)line, o ? "need one JSON object a line" : je.text);
    json_decref(o);
    return -EINVAL;
  }
  int r = take_number(o, "timestamp", INT64_MAX / 1000 - TRACE_TICK_MS, &at, path, line, e);
  if (r == 0)
    r = take_number(o, "input_length", UINT32_MAX, &input, path, line, e);
  if (r == 0)
    r = take_number(o, "output_length", UINT32_MAX, &output, path, line, e);
  const json_t *ids = json_object_get(o, "hash_ids");
  if (r == 0 && (!json_is_array(ids) || json_array_size(ids) == 0 || json_array_size(ids) > TRACE_BLOCKS_MAX))
    r = err_set(e, -EINVAL, "%s:%llu: 'hash_ids': need a list of 1..%u whole numbers", path, (unsigned long long)line,
                TRACE_BLOCKS_MAX);
  if (r == 0 && t->n && at < t->req[t->n - 1].at_ms)
    r = err_set(e, -EINVAL, "%s:%llu: 'timestamp' goes back: %llu after %llu", path, (unsigned long long)line,
                (unsigned long long)at, (unsigned long long)t->req[t->n - 1].at_ms);
  if (r == 0)
    r = trace_add(t, at, input, output);
  for (size_t i = 0; r == 0 && i < json_array_size(ids); i++) {
    const json_t *v = json_array_get(ids, i);
    if (!json_is_integer(v) || json_integer_value(v) < 0)
      r = err_set(e, -EINVAL, "%s:%llu: 'hash_ids'[%zu]: need a whole number >= 0", path, (unsigned long long)line, i);
    else
      r = trace_add_id(t, (uint64_t)json_integer_value(v));
  }
  json_decref(o);
  if (r == -E2BIG)
    err_set(e, r, "%s:%llu: more than %u blocks in a trace", path, (unsigned long long)line, TRACE_TOTAL_MAX);
  return r;
}

int trace_load(struct trace *t, const char *path, struct err *e)
{
  *t = (struct trace){0};
  CLEAN_FILE *f = fopen(path, "re");
  if (!f)
    return err_set(e, -errno, "%s: %s", path, strerror(errno));
  CLEAN_PTR char *text = malloc(LINE_MAX_BYTES);
  if (!text)
    return err_set(e, -ENOMEM, "%s: out of memory", path);
  int r = 0;
  for (uint64_t line = 1; r == 0; line++) {
    size_t n = 0;
    int c;
    while ((c = getc(f)) != EOF && c != '\n' && n < LINE_MAX_BYTES)
      text[n++] = (char)c;
    if (c == EOF && n == 0)
      break;
    if (n == LINE_MAX_BYTES)
      r = err_set(e, -EINVAL, "%s:%llu: longer than %u bytes", path, (unsigned long long)line, LINE_MAX_BYTES);
    else
      r = take_line(t, text, n, path, line, e);
    if (c == EOF)
      break;
  }
  if (r == 0 && ferror(f))
    r = err_set(e, -EIO, "%s: could not be read whole", path);
  if (r == 0 && t->n == 0)
    r = err_set(e, -EINVAL, "%s:1: no request in it", path);
  if (r < 0)
    trace_free(t);
  else
    trace_spread(t);
  return r;
}

uint32_t trace_tenant(const struct trace *t, uint32_t request, uint32_t tenants)
{
  const struct trace_request *q = &t->req[request];
  return (uint32_t)(trace_mix(t->id[q->first + MIN_OF(q->blocks - 1, 1u)]) % tenants);
}

/* (tenant, id) seen before? Open addressing; tenant + 1 marks a taken row. */
struct seen {
  uint64_t id;
  uint32_t tenant;
};
static struct seen *seen_at(struct seen *s, uint64_t mask, uint32_t tenant, uint64_t id)
{
  uint64_t i = trace_mix(id ^ (uint64_t)tenant << 56) & mask;
  while (s[i].tenant && (s[i].id != id || s[i].tenant != tenant + 1))
    i = (i + 1) & mask;
  return &s[i];
}

int trace_ideal(const struct trace *t, uint32_t tenants, struct trace_ideal *ret_ideal)
{
  uint64_t rows = 1024;
  while (rows < t->ids * 2)
    rows *= 2;
  CLEAN_PTR struct seen *s = calloc(rows, sizeof *s);
  if (!s)
    return -ENOMEM;
  *ret_ideal = (struct trace_ideal){.wanted = t->ids};
  for (uint32_t i = 0; i < t->n; i++) {
    const struct trace_request *q = &t->req[i];
    uint32_t tenant = trace_tenant(t, i, tenants), hits = 0;
    while (hits < q->blocks && seen_at(s, rows - 1, tenant, t->id[q->first + hits])->tenant)
      hits++;
    ret_ideal->hits += hits;
    ret_ideal->longest = MAX_OF(ret_ideal->longest, q->blocks);
    for (uint32_t k = hits; k < q->blocks; k++) {
      struct seen *row = seen_at(s, rows - 1, tenant, t->id[q->first + k]);
      ret_ideal->unique += !row->tenant;
      *row = (struct seen){.id = t->id[q->first + k], .tenant = tenant + 1};
    }
  }
  return 0;
}
