/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory on a mapped device as a stranger may have left it, and the lines by which other hosts read it. Input: a
 * byte of shape, then records of one byte kind and its bytes. CRCs are put right by the target where the kind says so,
 * and single fields where a byte of the record says so: otherwise no mutation would ever get past them.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <dray/types.h>

#include "base/crc.h"
#include "base/guard.h"
#include "include/priv/bits.h"
#include "include/priv/hash.h"
#include "transports/cxl/keep.h"
#include "transports/cxl/share.h"
#include "transports/extent.h"

#define UNIT MIB(2)
#define UNITS 8u
#define BYTES (UNITS * UNIT)
#define READS_MAX 64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct scan {
  struct extent_map map;
  uint8_t *base;
  uint64_t slot_bytes, slabs;
  uint32_t slots;
  struct slab_mem last;
};
struct input {
  const uint8_t *at;
  size_t left;
};

static void take(struct input *in, void *to, size_t n)
{
  size_t k = MIN_OF(n, in->left);
  memset(to, 0, n);
  memcpy(to, in->at, k);
  in->at += k;
  in->left -= k;
}

static void put(uint8_t *base, const void *from, size_t n, uint64_t off)
{
  if (!range_inside(off, n, BYTES))
    abort();
  memcpy(base + off, from, n);
}

static void put_raw(uint8_t *base, struct input *in, uint64_t used)
{
  uint32_t where;
  uint8_t bytes[64];
  take(in, &where, sizeof where);
  take(in, bytes, sizeof bytes);
  put(base, bytes, sizeof bytes, KEEP_BAD_OFF + where % (used - KEEP_BAD_OFF - sizeof bytes));
}

static void put_header(uint8_t *base, struct input *in)
{
  struct keep_slab h;
  uint8_t tame;
  take(in, &tame, 1);
  take(in, &h, sizeof h);
  if (tame & 1)
    h.unit = 1 + h.unit % (UNITS - 1);
  if (tame & 2)
    h.units = 1 + h.units % 3;
  if (tame & 4)
    h.slot_bytes = (1 + h.slot_bytes % 32) * KEEP_SLOT_ALIGN;
  if (tame & 8)
    h.slots = 1 + h.slots % 16;
  if (tame & 16)
    h.scope = DRAY_SCOPE_TENANT;
  if (tame & 32) {
    memset(h.tenant, 0, sizeof h.tenant);
    memset(h.agent, 0, sizeof h.agent);
    h.tenant[0] = 'r';
  }
  h.magic = KEEP_SLAB_MAGIC;
  h.version = KEEP_VERSION;
  h.crc = crc32c(0, &h, offsetof(struct keep_slab, crc));
  put(base, &h, sizeof h, keep_slab_off(h.unit % UNITS));
}

static void put_cell(uint8_t *base, struct input *in)
{
  struct index_cell c;
  struct keep_slab h;
  uint8_t unit, tame;
  take(in, &unit, 1);
  take(in, &tame, 1);
  take(in, &c, sizeof c);
  if (tame & 1)
    c.slot %= 16;
  if (tame & 2)
    c.len = 1 + c.len % KEEP_SLOT_ALIGN;
  if (tame & 4)
    c.scope = DRAY_SCOPE_TENANT;
  if (tame & 8)
    c.taint = c.has_crc = c.zero = 0;
  if (tame & 16) {
    memset(c.tenant, 0, sizeof c.tenant);
    memset(c.agent, 0, sizeof c.agent);
    c.tenant[0] = 'r';
  }
  memcpy(&h, base + keep_slab_off(unit % UNITS), sizeof h);
  c.magic = KEEP_CELL_MAGIC;
  c.crc = crc32c(crc32c(0, &h.seed, sizeof h.seed), &c, offsetof(struct index_cell, crc));
  put(base, &c, sizeof c, keep_cell_off(UNITS, UNIT, unit % UNITS, c.slot % keep_entries_per_unit(UNIT)));
}

static void put_bad(uint8_t *base, struct input *in)
{
  struct keep_bad b;
  uint16_t row;
  take(in, &row, sizeof row);
  take(in, &b, sizeof b);
  b.magic = KEEP_BAD_MAGIC;
  b.crc = crc32c(0, &b, offsetof(struct keep_bad, crc));
  put(base, &b, sizeof b, keep_bad_off(row % KEEP_BAD_ROWS));
}

static void put_line(uint8_t *base, struct input *in, bool lines)
{
  struct share_line l;
  uint16_t at;
  take(in, &at, sizeof at);
  take(in, &l, sizeof l);
  l.magic = SHARE_MAGIC;
  l.crc = crc32c(0, &l, offsetof(struct share_line, crc));
  if (lines)
    put(base, &l, sizeof l, keep_line_off(UNITS, UNIT, 0, at % (UNITS * keep_entries_per_unit(UNIT))));
}

/* A superblock that is not what this mover wrote. */
static void put_super(uint8_t *base, struct input *in)
{
  struct keep_super s;
  uint8_t fix;
  take(in, &fix, 1);
  take(in, &s, sizeof s);
  if (fix & 1)
    memcpy(s.magic, KEEP_MAGIC, sizeof KEEP_MAGIC);
  if (fix & 2)
    s.version = KEEP_VERSION;
  if (fix & 4)
    s.geometry_hash = hash_bytes(&s.geometry, sizeof s.geometry, KEEP_VERSION);
  if (fix & 8)
    s.crc = crc32c(0, &s, offsetof(struct keep_super, crc));
  put(base, &s, sizeof s, (fix & 16 ? 1u : 0u) * KEEP_SUPER_STEP);
}

static int place(void *ctx, struct slab_mem *m)
{
  struct scan *s = ctx;
  if (m->dev_off % UNIT || m->bytes % UNIT || !m->bytes || !range_inside(m->dev_off, m->bytes, BYTES))
    abort(); /* a slab outside the device */
  int rc = extent_reserve(&s->map, m->dev_off / UNIT, m->bytes / UNIT);
  m->base = s->base + m->dev_off;
  return rc;
}

static int on_slab(void *ctx, const struct slab_mem *m, uint64_t slot_bytes, uint32_t slots, const char *tenant,
                   const char *agent, uint8_t scope)
{
  struct scan *s = ctx;
  uint64_t all;
  if (!slots || slots > KEEP_SLOTS_MAX || !mul_u64(slot_bytes, slots, &all) || all > m->bytes ||
      strnlen(tenant, INDEX_NAME_MAX) == INDEX_NAME_MAX || strnlen(agent, INDEX_NAME_MAX) == INDEX_NAME_MAX ||
      scope < DRAY_SCOPE_AGENT || scope > DRAY_SCOPE_FLEET)
    abort();
  s->slot_bytes = slot_bytes;
  s->slots = slots;
  s->last = *m;
  s->slabs++;
  return 0;
}

static int on_cell(void *ctx, const struct slab_mem *m, uint32_t slot, const struct index_entry *e)
{
  const struct scan *s = ctx;
  if (m->dev_off != s->last.dev_off || slot >= s->slots || !e->len || e->len > s->slot_bytes || e->has_crc > 1 ||
      e->taint > DRAY_QUARANTINED_TAINT || strnlen(e->tenant, INDEX_NAME_MAX) == INDEX_NAME_MAX)
    abort();
  return 0;
}

static int on_bad(void *ctx, uint64_t off, uint64_t len, bool proven)
{
  (void)ctx, (void)proven;
  if (!len || !range_inside(off, len, BYTES))
    abort();
  return 0;
}

/* What another host makes of it: a cell whole, or a reason. */
static void read_as_another(const uint8_t *base)
{
  static uint8_t to[KIB(64)];
  struct share sh;
  if (share_open(&sh, base, BYTES))
    return;
  for (uint64_t line = 0, reads = 0; line < sh.lines && reads < READS_MAX; line++) {
    struct share_line l;
    uint64_t len = 0;
    uint32_t generation;
    memcpy(&l, base + sh.line_off + line * CACHE_LINE, sizeof l);
    if (l.magic != SHARE_MAGIC)
      continue;
    reads++;
    if (share_read(&sh, line, l.key, to, sizeof to, &len, &generation) == 0 &&
        (len > sizeof to || crc32c(0, to, len) != l.data_crc))
      abort();
  }
}

/* Written on, as a mover would. */
static void go_on(struct keep *k, const struct scan *s, struct input *in)
{
  struct index_entry e = {.len = 1, .scope = DRAY_SCOPE_TENANT, .tenant = "red", .agent = "a"};
  uint32_t slot;
  take(in, &slot, sizeof slot);
  take(in, &e.len, sizeof e.len);
  if (!s->slabs)
    return;
  (void)keep_index_put(k, &s->last, slot, &e);
  (void)keep_index_put(k, &s->last, slot % s->slots, &e);
  keep_index_del(k, &s->last, slot);
  (void)keep_index_bad(k, e.len, slot, slot & 1);
  (void)keep_forget(k, &s->last);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
  static uint8_t *base;
  struct input in = {data, n};
  struct keep k = {0};
  struct err e = {{0}};
  uint64_t skipped = 0;
  uint8_t shape;
  if (!base) {
    base = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED || guard_install())
      abort();
  }
  take(&in, &shape, 1);
  bool lines = shape & 1, strange = false;
  uint64_t own = keep_units(UNIT, UNITS, lines);
  enum flush_by flush = lines ? flush_probe() : FLUSH_NONE;
  uint64_t used = own * UNIT;
  memset(base, 0, used);
  if (keep_format(&k, base, UNIT, UNITS, "red", flush, lines))
    abort();
  while (in.left) {
    uint8_t kind;
    take(&in, &kind, 1);
    switch (kind % 6) {
    case 0:
      put_raw(base, &in, used);
      break;
    case 1:
      put_header(base, &in);
      break;
    case 2:
      put_cell(base, &in);
      break;
    case 3:
      put_bad(base, &in);
      break;
    case 4:
      put_line(base, &in, lines);
      break;
    default:
      put_super(base, &in);
      strange = true;
    }
  }
  read_as_another(base);
  int rc = keep_open(&k, base, UNIT, UNITS, "red", flush, lines, "here", &e);
  if (rc && (!strange || (rc != -ENOENT && !e.text[0])))
    abort(); /* damage elsewhere is skipped; an error has a text */
  if (rc)
    return 0;
  struct scan s = {.base = base};
  if (extent_map_init(&s.map, UNITS, 0))
    abort();
  const struct keep_place p = {&s, place};
  const struct index_visitor v = {&s, on_slab, on_cell, on_bad};
  if (keep_scan(&k, &p, &v, &skipped) != 0)
    abort();
  go_on(&k, &s, &in);
  extent_map_deinit(&s.map);
  return 0;
}
