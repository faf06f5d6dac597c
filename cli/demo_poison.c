/* SPDX-License-Identifier: Apache-2.0 */
/* The demo's poisoned block: one tenant's engine meets bad memory under its map, survives it, and everybody who holds
   the block is told. */
#include "cli/demo.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench/stage.h"

#define PATIENCE_MS 10000
#define BAD_AT 4096u
#define BAD_BYTES 4096u

/* Linux 6.6; older headers do not know it */
struct poison_ioctl {
  struct uffdio_range range;
  uint64_t mode;
  int64_t updated;
};

/* A page of our own, marked as poisoned, in place of the page that the map has there. False: this kernel cannot. */
static bool poison_here(const char *page)
{
  uint64_t at = (uintptr_t)page;
  struct uffdio_api api = {.api = UFFD_API, .features = 1u << 14};
  struct uffdio_register reg = {.range = {at, BAD_BYTES}, .mode = UFFDIO_REGISTER_MODE_MISSING};
  struct poison_ioctl p = {.range = {at, BAD_BYTES}};
  int uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1);
  bool can = uffd >= 0 && !ioctl(uffd, UFFDIO_API, &api);
  can = can && mmap((void *)(uintptr_t)at, BAD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED,
                    -1, 0) != MAP_FAILED;
  can = can && !ioctl(uffd, UFFDIO_REGISTER, &reg) && !ioctl(uffd, _IOWR(UFFDIO, 0x08, struct poison_ioctl), &p);
  if (uffd >= 0)
    close(uffd);
  return can;
}

static int map(struct demo_side *s, const uint8_t key[16], uint32_t mkey, struct dray_cqe *ret)
{
  struct dray_sqe *q = dray_get_sqe(s->d);
  dray_prep_map(q, key, 0);
  q->arg = mkey;
  return cli_finish(s->d, PATIENCE_MS, ret);
}

/* Takes what comes until the notice was there, and the answer to the guard's own report when there is one. */
static int told(struct demo_side *s, bool reported, struct dray_cqe *ret_notice)
{
  bool notice = false, answer = !reported;
  uint64_t end = stage_now_ns() + PATIENCE_MS * 1000000ull;
  while (!notice || !answer) {
    if (stage_now_ns() > end)
      return -ETIMEDOUT;
    int r = dray_wait(s->d, 1, 200);
    if (r < 0 && r != -ETIMEDOUT)
      return r;
    const struct dray_cqe *c = dray_peek(s->d);
    if (!c)
      continue;
    if (c->type == DRAY_POISON) {
      *ret_notice = *c;
      notice = true;
    } else if (c->type == DRAY_DONE) {
      answer = true;
    }
    dray_seen(s->d);
  }
  return 0;
}

/* The read of the whole block, by A; how far it came, and that the mover was told. */
static int meet(struct demo *m, const struct dray_cqe *lease, const char *cell)
{
  struct dray_cqe c = {.status = DRAY_FAULT, .reason = DRAY_POISONED, .tier = lease->tier, .path = DRAY_PATH_NONE};
  struct dray_hit hit = {.lease = lease->object, .off = BAD_AT, .unit = BAD_BYTES};
  uint64_t then = stage_now_ns();
  if (poison_here(cell + BAD_AT)) {
    int r = dray_copy_guarded(m->a.d, lease->object, cell, 0, m->a.region.base, DEMO_BLOCK_BYTES, &hit);
    c.bytes = hit.good;
    bool good = (r == -EHWPOISON || r == -EFAULT) && hit.off == BAD_AT && hit.unit == BAD_BYTES && hit.good <= BAD_AT;
    demo_note(m, &m->a, "read the map: bad memory at 4096, and we live", &c, stage_now_ns() - then, good);
  } else {
    demo_note(m, &m->a, "say that the map is bad at 4096 (no UFFDIO_POISON here)", &c, stage_now_ns() - then, true);
  }
  return hit.reported ? 0 : dray_report_hit(m->a.d, &hit);
}

int demo_poison(struct demo *m, uint32_t block, uint32_t mine, uint32_t theirs)
{
  uint8_t key[16];
  struct dray_cqe a, b, notice, done;
  demo_key(block, key);
  if (map(&m->a, key, mine, &a) < 0 || map(&m->b, key, theirs, &b) < 0 || a.status != DRAY_OK || b.status != DRAY_OK)
    return -1;
  const char *cell = dray_map_address(m->a.d, a.slab, a.off);
  if (!cell || meet(m, &a, cell) < 0)
    return -1;
  uint64_t then = stage_now_ns();
  if (told(&m->a, true, &notice) < 0)
    return -1;
  notice.bytes = 0;
  demo_note(m, &m->a, "POISON comes for its lease", &notice, stage_now_ns() - then,
            notice.object == a.object && notice.off == BAD_AT && notice.detail == BAD_BYTES);
  if (told(&m->b, false, &notice) < 0)
    return -1;
  notice.bytes = 0;
  demo_note(m, &m->b, "POISON comes for the other tenant's lease", &notice, stage_now_ns() - then,
            notice.object == b.object && notice.off == BAD_AT &&
                dray_lease_state(m->b.d, b.object) == DRAY_LEASE_POISONED);
  dray_prep_unmap(dray_get_sqe(m->a.d), a.object);
  if (cli_finish(m->a.d, PATIENCE_MS, &done) < 0)
    return -1;
  dray_prep_unmap(dray_get_sqe(m->b.d), b.object);
  return cli_finish(m->b.d, PATIENCE_MS, &done);
}
