/* SPDX-License-Identifier: Apache-2.0 */
#include "ring/wire.h"

#include <string.h>
#include <sys/mman.h>

int wire_map(struct wire *w, int fd, uint64_t off, uint32_t slots, int writable, uint32_t start)
{
  if (!is_pow2_u64(slots) || slots < 2 || slots > 1u << 16 || !is_aligned(off, PAGE_BYTES))
    return -EINVAL;
  uint64_t slot_bytes = align_up((uint64_t)slots * WIRE_ELEM, PAGE_BYTES);
  uint64_t total = 2 * (uint64_t)PAGE_BYTES + slot_bytes + PAGE_BYTES;
  char *b = mmap(NULL, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (b == MAP_FAILED)
    return -errno;
  int prot = PROT_READ | (writable ? PROT_WRITE : 0);
  if (mmap(b + PAGE_BYTES, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_POPULATE,
           -1, 0) == MAP_FAILED ||
      mmap(b + 2 * PAGE_BYTES, slot_bytes, prot, MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, (off_t)off) == MAP_FAILED) {
    int e = -errno;
    munmap(b, total);
    return e;
  }
  struct rte_ring *r = (struct rte_ring *)(void *)(b + 2 * PAGE_BYTES - sizeof(struct rte_ring));
  memset(r, 0, sizeof *r);
  r->flags = RING_F_SP_ENQ | RING_F_SC_DEQ;
  r->size = slots;
  r->mask = slots - 1;
  r->capacity = slots - 1;
  r->prod.sync_type = RTE_RING_SYNC_ST;
  r->cons.sync_type = RTE_RING_SYNC_ST;
  r->prod.head = r->prod.tail = r->cons.head = r->cons.tail = start;
  w->r = r;
  w->map = b;
  w->map_bytes = total;
  return 0;
}

void wire_unmap(struct wire *w)
{
  if (w->map)
    munmap(w->map, w->map_bytes);
  memset(w, 0, sizeof *w);
}
