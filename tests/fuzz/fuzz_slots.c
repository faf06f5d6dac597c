/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file tier's index as a stranger may have left it. Input: records of one byte kind and its bytes. CRCs are put
 * right by the target where the kind says so, otherwise no mutation would ever get past them.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <dray/types.h>

#include "base/crc.h"
#include "include/priv/bits.h"
#include "transports/file/index.h"
#include "transports/file/index_format.h"

#define UNITS 16u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct scan {
  struct extent_map map;
  const struct index *ix;
  uint64_t slot_bytes;
  uint32_t slots;
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

static void put(const struct index *ix, const void *from, size_t n, uint64_t off)
{
  if (!range_inside(off, n, ix->bytes) || pwrite(ix->fd, from, n, (off_t)off) != (ssize_t)n)
    abort();
}

static void put_raw(const struct index *ix, struct input *in)
{
  uint32_t where;
  uint8_t bytes[64];
  take(in, &where, sizeof where);
  take(in, bytes, sizeof bytes);
  put(ix, bytes, sizeof bytes, INDEX_PAGE + where % (ix->bytes - INDEX_PAGE - sizeof bytes));
}

static void put_header(const struct index *ix, struct input *in)
{
  struct index_slab_header h;
  take(in, &h, sizeof h);
  uint64_t unit = h.unit % UNITS;
  h.magic = SLAB_MAGIC;
  h.version = INDEX_VERSION;
  h.crc = crc32c(0, &h, offsetof(struct index_slab_header, crc));
  put(ix, &h, sizeof h, index_header_off(unit));
}

static void put_cell(const struct index *ix, struct input *in)
{
  struct index_cell c;
  struct index_slab_header h;
  uint8_t unit;
  take(in, &unit, 1);
  take(in, &c, sizeof c);
  if (pread(ix->fd, &h, sizeof h, (off_t)index_header_off(unit % UNITS)) != (ssize_t)sizeof h)
    abort();
  c.magic = CELL_MAGIC;
  c.crc = crc32c(crc32c(0, &h.seed, sizeof h.seed), &c, offsetof(struct index_cell, crc));
  uint64_t slot = c.slot % INDEX_ENTRIES_PER_UNIT;
  put(ix, &c, sizeof c, index_cells_off(ix->units, unit % UNITS) + slot * sizeof c);
}

static int place(void *ctx, struct slab_mem *m)
{
  struct scan *s = ctx;
  if (m->dev_off % INDEX_UNIT || !range_inside(m->dev_off, m->bytes, UNITS * INDEX_UNIT))
    abort(); /* a slab outside the device */
  return extent_reserve(&s->map, m->unit, m->bytes / INDEX_UNIT);
}

static int on_slab(void *ctx, const struct slab_mem *m, uint64_t slot_bytes, uint32_t slots, const char *tenant,
                   const char *agent, uint8_t scope)
{
  struct scan *s = ctx;
  uint64_t all;
  if (!slots || slots > INDEX_SLOTS_MAX || !mul_u64(slot_bytes, slots, &all) || all > m->bytes ||
      strnlen(tenant, INDEX_NAME_MAX) == INDEX_NAME_MAX || strnlen(agent, INDEX_NAME_MAX) == INDEX_NAME_MAX ||
      scope < DRAY_SCOPE_AGENT || scope > DRAY_SCOPE_FLEET)
    abort();
  s->slot_bytes = slot_bytes;
  s->slots = slots;
  return 0;
}

static int on_cell(void *ctx, const struct slab_mem *m, uint32_t slot, const struct index_entry *e)
{
  const struct scan *s = ctx;
  (void)m;
  if (slot >= s->slots || !e->len || e->len > s->slot_bytes || e->has_crc > 1 || e->taint > DRAY_QUARANTINED_TAINT ||
      strnlen(e->tenant, INDEX_NAME_MAX) == INDEX_NAME_MAX)
    abort();
  return 0;
}

/* A superblock that is not ours is an error with a text, and nothing is left open. */
static void open_strange(int dir, struct input *in)
{
  struct index ix;
  struct err e = {{0}};
  struct index_super s;
  uint8_t fix;
  take(in, &fix, 1);
  take(in, &s, sizeof s);
  if (fix & 1)
    memcpy(s.magic, INDEX_MAGIC, sizeof s.magic);
  if (fix & 2)
    s.version = INDEX_VERSION;
  if (fix & 4)
    s.crc = crc32c(0, &s, offsetof(struct index_super, crc));
  int fd = openat(dir, "dray.index", O_CREAT | O_TRUNC | O_RDWR, 0600);
  if (fd < 0 || write(fd, &s, sizeof s) != (ssize_t)sizeof s || close(fd) < 0)
    abort();
  int r = index_open(&ix, dir, "strange", UNITS * INDEX_UNIT, UNITS * INDEX_UNIT, &e);
  if (r == 0)
    index_close(&ix);
  else if (!e.text[0])
    abort();
  unlinkat(dir, "dray.index", 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
  char path[] = "/dev/shm/dray-fuzz-slots-XXXXXX";
  struct input in = {data, n};
  struct index ix;
  struct err e = {{0}};
  struct scan s = {.ix = &ix};
  uint64_t skipped = 0;
  if (!mkdtemp(path))
    abort();
  int dir = open(path, O_RDONLY | O_DIRECTORY);
  if (dir < 0 || index_open(&ix, dir, path, UNITS * INDEX_UNIT, UNITS * INDEX_UNIT, &e) < 0 ||
      extent_map_init(&s.map, UNITS, 0) < 0)
    abort();
  bool strange = false;
  while (in.left) {
    uint8_t kind;
    take(&in, &kind, 1);
    if (kind % 4 == 0)
      put_raw(&ix, &in);
    else if (kind % 4 == 1)
      put_header(&ix, &in);
    else if (kind % 4 == 2)
      put_cell(&ix, &in);
    else if ((strange = true))
      break;
  }
  const struct index_place p = {&s, place};
  const struct index_visitor v = {&s, on_slab, on_cell};
  if (index_read(&ix, &p, &v, &skipped) != 0)
    abort(); /* damage is skipped, never an error */
  index_close(&ix);
  extent_map_deinit(&s.map);
  unlinkat(dir, "dray.index", 0);
  if (strange)
    open_strange(dir, &in);
  close(dir);
  rmdir(path);
  return 0;
}
