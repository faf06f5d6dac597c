/* SPDX-License-Identifier: Apache-2.0 */
#include "transports/cxl/keep.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/crc.h"
#include "base/guard.h"
#include "include/priv/cleanup.h"
#include "include/priv/hash.h"
#include "include/priv/order.h"
#include "transports/cxl/share.h"

uint64_t keep_units(uint64_t unit, uint64_t units, bool lines)
{
  uint64_t end = lines ? keep_line_off(units, unit, units, 0) : keep_cell_off(units, unit, units, 0);
  return (end + unit - 1) / unit;
}

/* ---- bytes, under the guard ---- */

struct move {
  void *to;
  const void *from; /* NULL: zeroes */
  size_t n;
};
static int move_run(void *ctx)
{
  const struct move *m = ctx;
  if (m->from)
    memcpy(m->to, m->from, m->n);
  else
    memset(m->to, 0, m->n);
  return 0;
}

struct flush {
  enum flush_by by;
  bool drop;
  const void *p;
  size_t n;
};
static int flush_run(void *ctx)
{
  const struct flush *f = ctx;
  if (f->drop)
    flush_drop(f->by, f->p, f->n);
  else
    flush_back(f->by, f->p, f->n);
  return 0;
}

/* fn over [p, p+n): 0, -EHWPOISON, or -EIO where there is no memory. */
static int guarded(int (*fn)(void *ctx), void *ctx, const void *p, size_t n)
{
  const struct guard_range range = {p, n};
  struct guard_hit hit;
  if (!guard_run(fn, ctx, &range, 1, &hit))
    return 0;
  return hit.kind == GUARD_POISON ? -EHWPOISON : -EIO;
}

int keep_flush(enum flush_by by, const void *p, size_t n, bool drop)
{
  struct flush f = {by, drop, p, n};
  return guarded(flush_run, &f, p, n) ? -EIO : 0;
}

static int keep_store(struct keep *k, uint64_t off, const void *from, size_t n)
{
  struct move m = {k->base + off, from, n};
  struct flush f = {k->flush, false, m.to, n};
  int rc = guarded(move_run, &m, m.to, n);
  return rc || !k->flush ? rc : guarded(flush_run, &f, m.to, n);
}

int keep_load(const struct keep *k, uint64_t off, void *to, size_t n)
{
  struct move m = {to, k->base + off, n};
  return guarded(move_run, &m, m.from, n);
}

/* ---- superblocks ---- */

static struct keep_super super_make(const struct keep *k, const char *owner)
{
  struct keep_super s;
  memset(&s, 0, sizeof s);
  memcpy(s.magic, KEEP_MAGIC, sizeof KEEP_MAGIC);
  s.version = KEEP_VERSION;
  s.geometry = (struct keep_geometry){.unit = k->unit,
                                      .units = k->units,
                                      .bytes = k->unit * k->units,
                                      .entry_bytes = sizeof(struct index_cell),
                                      .entries_per_unit = keep_entries_per_unit(k->unit),
                                      .bad_rows = KEEP_BAD_ROWS,
                                      .line_bytes = k->lines ? CACHE_LINE : 0};
  s.geometry_hash = hash_bytes(&s.geometry, sizeof s.geometry, KEEP_VERSION);
  s.generation = k->generation;
  memcpy(s.owner, owner, strnlen(owner, sizeof s.owner - 1));
  s.crc = crc32c(0, &s, offsetof(struct keep_super, crc));
  return s;
}

static int super_store(struct keep *k, const char *owner)
{
  struct keep_super s = super_make(k, owner);
  return keep_store(k, k->generation % 2 * KEEP_SUPER_STEP, &s, sizeof s);
}

static bool super_ours(const struct keep_super *s)
{
  return !memcmp(s->magic, KEEP_MAGIC, sizeof KEEP_MAGIC);
}

static bool super_whole(const struct keep_super *s)
{
  return super_ours(s) && s->crc == crc32c(0, s, offsetof(struct keep_super, crc)) && !s->owner[sizeof s->owner - 1];
}

/* ---- its own memory is bad ---- */

/* No later start may believe what can no longer be kept true. Line by line, so that the bad one costs no other; twice,
   for on devdax the kernel speaks of poison once and then lets stores through. */
static void supers_wipe(struct keep *k)
{
  for (unsigned again = 0; again < 2; again++)
    for (uint64_t off = 0; off < 2 * KEEP_SUPER_STEP; off += CACHE_LINE)
      (void)keep_store(k, off, NULL, CACHE_LINE);
}

void keep_give_up(struct keep *k)
{
  LOCKED(&k->fate);
  if (k->lost)
    return;
  supers_wipe(k);
  state_publish(&k->lost, 1);
}

/* How a change of the directory ends. Once it is given up changes are still tried, for other hosts read its lines, but
   nobody leans on them. */
static int settled(struct keep *k, int rc)
{
  if (UNLIKELY(rc == -EHWPOISON))
    keep_give_up(k);
  return UNLIKELY(state_see(&k->lost)) ? -EHWPOISON : rc;
}

int keep_holds(struct keep *k)
{
  struct keep_super s;
  int rc = keep_load(k, k->generation % 2 * KEEP_SUPER_STEP, &s, sizeof s);
  if (rc == 0 && (!super_whole(&s) || s.generation != k->generation))
    rc = -EHWPOISON; /* an earlier worker gave it up */
  return settled(k, rc);
}

static void keep_init(struct keep *k, const struct keep *from)
{
  *k = *from;
  pthread_mutex_init(&k->lock, NULL);
  pthread_mutex_init(&k->fate, NULL);
}

static int memory_error(int rc, const char *path, struct err *e)
{
  return err_set(e, rc, "%s: %s", path,
                 rc == -EIO ? "no memory behind its directory: unplugged, or the file was cut"
                            : "the memory of its directory is bad: set keep: no, or use another device");
}

/* Whose it is, by whichever superblock is whole; only then whether both can be read. Sets the generation to be. */
static int supers_look(struct keep *k, const char *owner, const char *path, struct err *e)
{
  struct keep_super s[2], *have = NULL;
  bool ours = false;
  int bad = 0;
  for (unsigned i = 0; i < 2; i++) {
    int rc = keep_load(k, i * KEEP_SUPER_STEP, &s[i], sizeof s[i]);
    if (rc) {
      bad = bad ? bad : rc;
      continue;
    }
    ours |= super_ours(&s[i]);
    if (super_whole(&s[i]) && (!have || s[i].generation > have->generation))
      have = &s[i];
  }
  static const char anew[] = "to begin anew (all on it is wiped), start once with keep: fresh";
  if (!have && ours)
    return err_set(e, -EINVAL, "%s: its directory is damaged: %s", path, anew);
  if (!have)
    return bad ? memory_error(bad, path, e) : -ENOENT;
  if (have->version != KEEP_VERSION)
    return err_set(e, -EINVAL, "%s: its directory has version %u, this mover writes %u: %s", path, have->version,
                   KEEP_VERSION, anew);
  k->generation = have->generation + 1;
  struct keep_super want = super_make(k, owner);
  if (have->geometry_hash != want.geometry_hash || memcmp(&have->geometry, &want.geometry, sizeof want.geometry))
    return err_set(e, -EINVAL,
                   "%s: its directory was made for %llu bytes in units of %llu, here are %llu in units of %llu: set "
                   "capacity, coherence or the device's align back; %s",
                   path, (unsigned long long)have->geometry.bytes, (unsigned long long)have->geometry.unit,
                   (unsigned long long)(k->unit * k->units), (unsigned long long)k->unit, anew);
  if (strcmp(have->owner, want.owner))
    return err_set(e, -EINVAL, "%s: it belongs to %s%s, not to %s: set owner back; %s", path,
                   have->owner[0] ? "tenant " : "the published", have->owner, owner[0] ? owner : "the published", anew);
  return bad ? memory_error(bad, path, e) : 0;
}

int keep_look(void *base, uint64_t unit, uint64_t units, const char *owner, bool lines, const char *path, struct err *e)
{
  struct keep o = {.base = base, .unit = unit, .units = units, .own = keep_units(unit, units, lines), .lines = lines};
  return supers_look(&o, owner, path, e);
}

int keep_open(struct keep *k, void *base, uint64_t unit, uint64_t units, const char *owner, enum flush_by flush,
              bool lines, const char *path, struct err *e)
{
  struct keep o = {.base = base,
                   .unit = unit,
                   .units = units,
                   .own = keep_units(unit, units, lines),
                   .lines = lines,
                   .flush = flush};
  int rc = supers_look(&o, owner, path, e);
  if (rc)
    return rc;
  rc = super_store(&o, owner);
  if (rc)
    return memory_error(rc, path, e);
  keep_init(k, &o);
  return 0;
}

int keep_format(struct keep *k, void *base, uint64_t unit, uint64_t units, const char *owner, enum flush_by flush,
                bool lines)
{
  struct keep o = {.base = base,
                   .unit = unit,
                   .units = units,
                   .own = keep_units(unit, units, lines),
                   .generation = 1,
                   .lines = lines,
                   .flush = flush};
  int rc = keep_store(&o, 0, NULL, o.own * unit);
  rc = rc ? rc : super_store(&o, owner);
  if (rc == 0)
    keep_init(k, &o);
  return rc;
}

/* ---- slabs and cells ---- */

static uint64_t unit_of(const struct keep *k, const struct slab_mem *mem)
{
  return mem->dev_off / k->unit;
}

static uint64_t cell_off(const struct keep *k, const struct slab_mem *mem, uint64_t slot)
{
  return keep_cell_off(k->units, k->unit, unit_of(k, mem), slot);
}

static uint64_t line_off(const struct keep *k, const struct slab_mem *mem, uint64_t slot)
{
  return keep_line_off(k->units, k->unit, unit_of(k, mem), slot);
}

static uint64_t cells_of(const struct keep *k, const struct slab_mem *mem)
{
  return mem->bytes / k->unit * keep_entries_per_unit(k->unit);
}

static int name_put(char to[INDEX_NAME_MAX], const char *from)
{
  size_t n = strnlen(from, INDEX_NAME_MAX);
  if (n == INDEX_NAME_MAX)
    return -ENAMETOOLONG;
  memcpy(to, from, n);
  return 0;
}

int keep_forget(struct keep *k, const struct slab_mem *mem)
{
  uint64_t units = mem->bytes / k->unit;
  /* lines before all, then headers: without one nobody looks at entries */
  int lines = k->lines ? keep_store(k, line_off(k, mem, 0), NULL, cells_of(k, mem) * CACHE_LINE) : 0;
  int rc = keep_store(k, keep_slab_off(unit_of(k, mem)), NULL, units * sizeof(struct keep_slab));
  int rc2 = keep_store(k, cell_off(k, mem, 0), NULL, cells_of(k, mem) * sizeof(struct index_cell));
  return settled(k, lines ? lines : rc ? rc : rc2);
}

int keep_index_slab(struct keep *k, const struct slab_mem *mem, uint64_t slot_bytes, uint32_t slots, const char *tenant,
                    const char *agent, uint8_t scope)
{
  struct keep_slab h;
  uint64_t all;
  if (!slots || slots > KEEP_SLOTS_MAX || slots > cells_of(k, mem) || !slot_bytes ||
      !is_aligned(slot_bytes, KEEP_SLOT_ALIGN) || !mul_u64(slot_bytes, slots, &all) || all > mem->bytes)
    return -EINVAL;
  memset(&h, 0, sizeof h);
  h.magic = KEEP_SLAB_MAGIC;
  h.version = KEEP_VERSION;
  h.unit = unit_of(k, mem);
  h.units = mem->bytes / k->unit;
  h.slot_bytes = slot_bytes;
  h.slots = slots;
  h.scope = scope;
  if (getrandom(&h.seed, sizeof h.seed, 0) != sizeof h.seed)
    return -EIO;
  int rc = name_put(h.tenant, tenant);
  rc = rc ? rc : name_put(h.agent, agent);
  if (rc)
    return rc;
  h.crc = crc32c(0, &h, offsetof(struct keep_slab, crc));
  return settled(k, keep_store(k, keep_slab_off(h.unit), &h, sizeof h));
}

/* The payload and the entry are out: now the line that says so. */
static int line_put(struct keep *k, const struct slab_mem *mem, uint32_t slot, uint64_t off,
                    const struct index_entry *e)
{
  struct share_line line;
  uint32_t crc = e->crc;
  struct guard_hit hit;
  if (!e->has_crc && guard_crc((char *)mem->base + off, e->len, &crc, &hit))
    return -EIO;
  share_line_make(&line, e->key, mem->dev_off + off, e->len, e->generation, crc);
  return keep_store(k, line_off(k, mem, slot), &line, sizeof line);
}

int keep_index_put(struct keep *k, const struct slab_mem *mem, uint32_t slot, const struct index_entry *e)
{
  struct keep_slab h;
  int rc = keep_load(k, keep_slab_off(unit_of(k, mem)), &h, sizeof h);
  if (rc)
    return settled(k, rc);
  if (h.magic != KEEP_SLAB_MAGIC || h.unit != unit_of(k, mem) || slot >= h.slots || slot >= cells_of(k, mem) ||
      e->len > h.slot_bytes || !range_inside(slot * h.slot_bytes, h.slot_bytes, mem->bytes))
    return settled(k, -EINVAL);
  /* an entry never names bytes that are not there yet */
  if (k->flush && keep_flush(k->flush, (char *)mem->base + slot * h.slot_bytes, e->len, false))
    return -EIO;
  struct index_cell c;
  entry_write(&c, KEEP_CELL_MAGIC, slot, h.seed, e);
  rc = keep_store(k, cell_off(k, mem, slot), &c, sizeof c);
  return settled(k, rc || !k->lines ? rc : line_put(k, mem, slot, slot * h.slot_bytes, e));
}

void keep_index_del(struct keep *k, const struct slab_mem *mem, uint32_t slot)
{
  if (slot >= cells_of(k, mem))
    return;
  int line = k->lines ? keep_store(k, line_off(k, mem, slot), NULL, CACHE_LINE) : 0;
  int rc = keep_store(k, cell_off(k, mem, slot), NULL, sizeof(struct index_cell));
  (void)settled(k, line ? line : rc); /* the next one that can say so says so */
}

int keep_index_bad(struct keep *k, uint64_t dev_off, uint64_t len, bool proven)
{
  struct keep_bad b;
  int64_t place = -1;
  if (!len || !range_inside(dev_off, len, k->unit * k->units))
    return -EINVAL;
  LOCKED(&k->lock);
  for (uint64_t i = 0; i < KEEP_BAD_ROWS; i++) {
    if (keep_load(k, keep_bad_off(i), &b, sizeof b))
      continue;
    bool whole = b.magic == KEEP_BAD_MAGIC && b.crc == crc32c(0, &b, offsetof(struct keep_bad, crc));
    if (whole && b.off == dev_off && b.len == len && b.proven >= proven)
      return 0;
    if (place < 0 && (!whole || (b.off == dev_off && b.len == len)))
      place = (int64_t)i;
  }
  if (place < 0)
    return -ENOSPC;
  memset(&b, 0, sizeof b);
  b.magic = KEEP_BAD_MAGIC;
  b.proven = proven;
  b.off = dev_off;
  b.len = len;
  b.crc = crc32c(0, &b, offsetof(struct keep_bad, crc));
  return settled(k, keep_store(k, keep_bad_off((uint64_t)place), &b, sizeof b));
}
