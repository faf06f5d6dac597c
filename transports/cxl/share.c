/* SPDX-License-Identifier: Apache-2.0 */
#include "transports/cxl/share.h"

#include <errno.h>
#include <string.h>

#include "base/copy.h"
#include "base/crc.h"
#include "base/guard.h"
#include "include/priv/hash.h"
#include "transports/cxl/keep.h"

#define TRIES 4u

void share_line_make(struct share_line *ret_line, const uint8_t key[16], uint64_t off, uint64_t len,
                     uint32_t generation, uint32_t data_crc)
{
  struct share_line l;
  memset(&l, 0, sizeof l);
  l.magic = SHARE_MAGIC;
  l.generation = generation;
  memcpy(l.key, key, sizeof l.key);
  l.off = off;
  l.len = len;
  l.data_crc = data_crc;
  l.crc = crc32c(0, &l, offsetof(struct share_line, crc));
  *ret_line = l;
}

/* Memory as it is, not as this CPU remembers it. */
static int fresh(const struct share *s, uint64_t off, void *to, uint64_t n)
{
  struct guard_hit hit;
  uint8_t path;
  if (keep_flush(s->flush, s->base + off, n, true))
    return -EIO;
  return guard_copy(&copy_plan_default, to, s->base + off, n, COPY_FRAGILE, &hit, &path) ? -EIO : 0;
}

int share_open(struct share *s, const void *base, uint64_t bytes)
{
  struct share o = {.base = base, .bytes = bytes, .flush = flush_probe()};
  struct keep_super super[2], *have = NULL;
  if (!o.flush)
    return -ENOTSUP;
  if (bytes < 2 * KEEP_SUPER_STEP)
    return -EINVAL;
  if (guard_install() < 0 || fresh(&o, 0, &super[0], sizeof super[0]) ||
      fresh(&o, KEEP_SUPER_STEP, &super[1], sizeof super[1]))
    return -EIO;
  for (unsigned i = 0; i < 2; i++)
    if (!memcmp(super[i].magic, KEEP_MAGIC, sizeof KEEP_MAGIC) && super[i].version == KEEP_VERSION &&
        super[i].crc == crc32c(0, &super[i], offsetof(struct keep_super, crc)) &&
        (!have || super[i].generation > have->generation))
      have = &super[i];
  if (!have)
    return -EINVAL;
  const struct keep_geometry *g = &have->geometry;
  uint64_t all;
  if (g->line_bytes != CACHE_LINE || !is_pow2_u64(g->unit) || g->unit < PAGE_BYTES ||
      !mul_u64(g->unit, g->units, &all) || all != g->bytes || all > bytes ||
      have->geometry_hash != hash_bytes(g, sizeof *g, KEEP_VERSION) ||
      g->entries_per_unit != keep_entries_per_unit(g->unit))
    return -EINVAL;
  o.line_off = keep_line_off(g->units, g->unit, 0, 0);
  o.lines = g->units * g->entries_per_unit;
  o.data_off = keep_line_off(g->units, g->unit, g->units, 0);
  o.bytes = all;
  if (o.data_off > all)
    return -EINVAL;
  *s = o;
  return 0;
}

/* 0, -ENOENT (none), -EAGAIN (torn), -EILSEQ, -EIO. */
static int line_read(const struct share *s, uint64_t line, struct share_line *ret_line)
{
  int rc = fresh(s, s->line_off + line * sizeof *ret_line, ret_line, sizeof *ret_line);
  if (rc)
    return rc;
  if (!ret_line->magic)
    return -ENOENT;
  if (ret_line->magic != SHARE_MAGIC || ret_line->crc != crc32c(0, ret_line, offsetof(struct share_line, crc)))
    return -EAGAIN;
  if (!ret_line->len || ret_line->off < s->data_off || !range_inside(ret_line->off, ret_line->len, s->bytes))
    return -EILSEQ;
  return 0;
}

int share_find(const struct share *s, const uint8_t key[16], uint64_t *ret_line)
{
  for (uint64_t i = 0; i < s->lines; i++) {
    struct share_line l;
    int rc = line_read(s, i, &l);
    if (rc == -EIO)
      return rc;
    if (rc == 0 && !memcmp(l.key, key, sizeof l.key)) {
      *ret_line = i;
      return 0;
    }
  }
  return -ENOENT;
}

int share_read(const struct share *s, uint64_t line, const uint8_t key[16], void *to, uint64_t room, uint64_t *ret_len,
               uint32_t *ret_generation)
{
  if (line >= s->lines)
    return -ENOENT;
  for (unsigned i = 0; i < TRIES; i++) {
    struct share_line l, again;
    int rc = line_read(s, line, &l);
    if (rc == -EAGAIN)
      continue;
    if (rc)
      return rc;
    if (memcmp(l.key, key, sizeof l.key))
      return -ENOENT;
    if (l.len > room)
      return -EMSGSIZE;
    rc = fresh(s, l.off, to, l.len);
    if (rc)
      return rc;
    if (crc32c(0, to, l.len) != l.data_crc)
      continue; /* the line came before its bytes, or they are another's by now */
    rc = line_read(s, line, &again);
    if (rc == -EIO)
      return rc;
    if (rc || memcmp(&l, &again, sizeof l))
      continue;
    *ret_len = l.len;
    *ret_generation = l.generation;
    return 0;
  }
  return -EAGAIN;
}
