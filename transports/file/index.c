/* SPDX-License-Identifier: Apache-2.0 */
#include "transports/file/index.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/crc.h"
#include "base/guard.h"
#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "include/priv/hash.h"
#include "transports/file/index_format.h"

/* Half a second for a dead mover's ring. */
#define LOCK_TRIES 25u
#define LOCK_WAIT_MS 20

static struct index_super super_of(uint64_t capacity, uint64_t seg_bytes)
{
  struct index_super s;
  memset(&s, 0, sizeof s);
  memcpy(s.magic, INDEX_MAGIC, sizeof INDEX_MAGIC);
  s.version = INDEX_VERSION;
  s.geometry = (struct index_geometry){.unit = INDEX_UNIT,
                                       .seg_bytes = seg_bytes,
                                       .capacity = capacity,
                                       .units = capacity / INDEX_UNIT,
                                       .entry_bytes = sizeof(struct index_cell),
                                       .entries_per_unit = INDEX_ENTRIES_PER_UNIT};
  s.geometry_hash = hash_bytes(&s.geometry, sizeof s.geometry, INDEX_VERSION);
  s.crc = crc32c(0, &s, offsetof(struct index_super, crc));
  return s;
}

/* What is there against what the configuration says. */
static int super_check(const struct index_super *have, const struct index_super *want, const char *path, struct err *e)
{
  if (memcmp(have->magic, want->magic, sizeof want->magic) ||
      have->crc != crc32c(0, have, offsetof(struct index_super, crc)))
    return err_set(e, -EINVAL, "%s/dray.index is damaged or not ours: remove dray.index and dray.seg.* to begin anew",
                   path);
  if (have->version != want->version)
    return err_set(e, -EINVAL, "%s/dray.index has version %u, this mover writes %u: remove dray.* to begin anew", path,
                   have->version, want->version);
  if (have->geometry_hash != want->geometry_hash || memcmp(&have->geometry, &want->geometry, sizeof want->geometry))
    return err_set(e, -EINVAL,
                   "%s/dray.index was made for capacity %llu, configured is %llu: set capacity back, or remove dray.* "
                   "to begin anew",
                   path, (unsigned long long)have->geometry.capacity, (unsigned long long)want->geometry.capacity);
  return 0;
}

static int super_settle(struct index *ix, const struct index_super *want, const char *path, struct err *e)
{
  struct stat st;
  if (fstat(ix->fd, &st))
    return err_set(e, -errno, "%s/dray.index: %s", path, strerror(errno));
  if (!st.st_size) {
    ssize_t n = pwrite(ix->fd, want, sizeof *want, 0);
    if (n != (ssize_t)sizeof *want)
      return err_set(e, n < 0 ? -errno : -ENOSPC, "%s/dray.index: %s", path, n < 0 ? strerror(errno) : "disk full");
    ix->fresh = true;
  } else {
    struct index_super have;
    memset(&have, 0, sizeof have);
    if (pread(ix->fd, &have, sizeof have, 0) < 0)
      return err_set(e, -errno, "%s/dray.index: %s", path, strerror(errno));
    int rc = super_check(&have, want, path, e);
    if (rc)
      return rc;
  }
  if ((uint64_t)st.st_size != ix->bytes && ftruncate(ix->fd, (off_t)ix->bytes))
    return err_set(e, -errno, "%s/dray.index: to %llu bytes: %s", path, (unsigned long long)ix->bytes, strerror(errno));
  /* the whole design leans on allocated ranges: find out now */
  if (fallocate(ix->fd, 0, 0, INDEX_PAGE))
    return err_set(e, errno == EOPNOTSUPP ? -EINVAL : -errno, "%s: no disk space can be reserved: %s%s", path,
                   strerror(errno), errno == EOPNOTSUPP ? ": use ext4, xfs, btrfs or tmpfs" : "");
  return 0;
}

/* A ring that has this file registered holds the lock too, until its last I/O has ended: so a mover that was killed
   can write nothing under its successor, and the successor waits a little for the kernel to take that ring down. */
static int index_lock(const struct index *ix, const char *path, struct err *e)
{
  for (unsigned tries = 0; flock(ix->fd, LOCK_EX | LOCK_NB); tries++) {
    if (errno != EWOULDBLOCK)
      return err_set(e, -errno, "%s/dray.index: lock: %s", path, strerror(errno));
    if (tries == LOCK_TRIES)
      return err_set(e, -EBUSY, "%s: another mover has it: stop that one, or set another path", path);
    (void)poll(NULL, 0, LOCK_WAIT_MS);
  }
  return 0;
}

int index_open(struct index *ix, int dir, const char *path, uint64_t capacity, uint64_t seg_bytes, struct err *e)
{
  memset(ix, 0, sizeof *ix);
  ix->units = capacity / INDEX_UNIT;
  ix->seg_bytes = seg_bytes;
  ix->bytes = index_cells_off(ix->units, ix->units);
  ix->fd = openat(dir, "dray.index", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (ix->fd < 0)
    return err_set(e, -errno, "%s/dray.index: %s", path, strerror(errno));
  int rc = guard_install(); /* stores into the mapping lean on it */
  rc = rc ? err_set(e, rc, "SIGBUS handler: %s", strerror(-rc)) : index_lock(ix, path, e);
  const struct index_super want = super_of(capacity, seg_bytes);
  if (!rc)
    rc = super_settle(ix, &want, path, e);
  if (!rc) {
    void *p = mmap(NULL, ix->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ix->fd, 0);
    if (p == MAP_FAILED)
      rc = err_set(e, -errno, "%s/dray.index: mapping %llu bytes: %s", path, (unsigned long long)ix->bytes,
                   strerror(errno));
    else
      ix->base = p;
  }
  if (rc)
    index_close(ix);
  return rc;
}

void index_close(struct index *ix)
{
  if (ix->base)
    munmap(ix->base, ix->bytes);
  ix->base = NULL;
  if (ix->fd >= 0)
    (void)flock(ix->fd, LOCK_UN); /* closed in order, nothing is in flight: not until the ring is gone */
  close_fd(&ix->fd);
}

/* Stores into the mapping; a disk that fails under it is an error, not a crash. */
struct store_job {
  void *to;
  const void *from; /* NULL: zeroes */
  size_t n;
};
static int store_run(void *ctx)
{
  const struct store_job *j = ctx;
  if (j->from)
    memcpy(j->to, j->from, j->n);
  else
    memset(j->to, 0, j->n);
  return 0;
}
static int index_store(struct index *ix, uint64_t off, const void *from, size_t n)
{
  struct store_job j = {ix->base + off, from, n};
  const struct guard_range range = {j.to, n};
  struct guard_hit hit;
  int rc = guard_run(store_run, &j, &range, 1, &hit) ? -EIO : 0;
  durable_wrote(&ix->durable);
  return rc;
}

/* Entries that there is room for. */
static uint64_t cells_of(const struct slab_mem *mem)
{
  return mem->bytes / INDEX_UNIT * INDEX_ENTRIES_PER_UNIT;
}

/* An entry is written: what its slab's header says is looked at under the same guard. */
struct entry_job {
  const struct index_slab_header *header;
  struct index_cell *cell;
  const struct slab_mem *mem;
  const struct index_entry *e;
  uint32_t slot;
};
static int entry_run(void *ctx)
{
  const struct entry_job *j = ctx;
  const struct index_slab_header *h = j->header;
  if (h->magic != SLAB_MAGIC || h->unit != j->mem->unit || j->slot >= h->slots || h->slots > cells_of(j->mem))
    return -EINVAL;
  struct index_cell c;
  entry_write(&c, CELL_MAGIC, j->slot, h->seed, j->e);
  memcpy(j->cell, &c, sizeof c); /* whole: an entry is being replaced only for as long as this takes */
  return 0;
}

static int punch(struct index *ix, uint64_t off, uint64_t n)
{
  return fallocate(ix->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)off, (off_t)n) ? -errno : 0;
}

int index_reserve(struct index *ix, uint64_t unit, uint64_t n)
{
  uint64_t head = index_header_off(unit), cells = index_cells_off(ix->units, unit);
  /* the headers of all its units: what a skipped slab left there would speak again after a restart */
  int rc = punch(ix, head, n * INDEX_PAGE);
  if (!rc)
    rc = punch(ix, cells, n * ENTRY_SPACE);
  if (!rc && fallocate(ix->fd, 0, (off_t)head, INDEX_PAGE))
    rc = -errno;
  if (!rc && fallocate(ix->fd, 0, (off_t)cells, (off_t)(n * ENTRY_SPACE)))
    rc = -errno;
  if (rc)
    index_release(ix, unit, n);
  return rc;
}

void index_release(struct index *ix, uint64_t unit, uint64_t n)
{
  (void)punch(ix, index_header_off(unit), n * INDEX_PAGE);
  (void)punch(ix, index_cells_off(ix->units, unit), n * ENTRY_SPACE);
  durable_wrote(&ix->durable);
}

static int name_put(char to[INDEX_NAME_MAX], const char *from)
{
  size_t n = strnlen(from, INDEX_NAME_MAX);
  if (n == INDEX_NAME_MAX)
    return -ENAMETOOLONG;
  memcpy(to, from, n);
  return 0;
}

int index_write_slab(struct index *ix, const struct slab_mem *mem, uint64_t slot_bytes, uint32_t slots,
                     const char *tenant, const char *agent, uint8_t scope)
{
  struct index_slab_header h;
  uint64_t all, units = mem->bytes / INDEX_UNIT;
  if (!slots || slots > INDEX_SLOTS_MAX || slots > units * INDEX_ENTRIES_PER_UNIT || !slot_bytes ||
      !is_aligned(slot_bytes, INDEX_SLOT_ALIGN) || !mul_u64(slot_bytes, slots, &all) || all > mem->bytes)
    return -EINVAL;
  memset(&h, 0, sizeof h);
  h.magic = SLAB_MAGIC;
  h.version = INDEX_VERSION;
  h.unit = mem->unit;
  h.units = units;
  h.slot_bytes = slot_bytes;
  h.slots = slots;
  h.scope = scope;
  if (getrandom(&h.seed, sizeof h.seed, 0) != sizeof h.seed)
    return -EIO;
  int rc = name_put(h.tenant, tenant);
  if (!rc)
    rc = name_put(h.agent, agent);
  if (rc)
    return rc;
  h.crc = crc32c(0, &h, offsetof(struct index_slab_header, crc));
  return index_store(ix, index_header_off(mem->unit), &h, sizeof h);
}

static struct index_cell *cell_at(const struct index *ix, const struct slab_mem *mem, uint32_t slot)
{
  if (slot >= INDEX_SLOTS_MAX || slot >= cells_of(mem))
    return NULL;
  return (struct index_cell *)(void *)(ix->base + index_cells_off(ix->units, mem->unit)) + slot;
}

int index_write_cell(struct index *ix, const struct slab_mem *mem, uint32_t slot, const struct index_entry *e)
{
  struct entry_job j = {.header = (const void *)(ix->base + index_header_off(mem->unit)),
                        .cell = cell_at(ix, mem, slot),
                        .mem = mem,
                        .e = e,
                        .slot = slot};
  struct guard_hit hit;
  if (!j.cell)
    return -EINVAL;
  const struct guard_range ranges[] = {{j.header, sizeof *j.header}, {j.cell, sizeof *j.cell}};
  int rc = guard_run(entry_run, &j, ranges, ARRAY_LEN(ranges), &hit);
  durable_wrote(&ix->durable);
  return rc == -EFAULT ? -EIO : rc;
}

void index_expect_cell(const struct index *ix, const struct slab_mem *mem, uint32_t slot)
{
  const struct index_cell *c = cell_at(ix, mem, slot);
  if (c) {
    __builtin_prefetch(c, 1);
    __builtin_prefetch((const char *)c + 64, 1);
  }
}

void index_clear_cell(struct index *ix, const struct slab_mem *mem, uint32_t slot)
{
  const struct index_cell *c = cell_at(ix, mem, slot);
  if (c)
    (void)index_store(ix, (uint64_t)((const uint8_t *)c - ix->base), NULL, sizeof *c);
}
