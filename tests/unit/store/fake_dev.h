/* SPDX-License-Identifier: Apache-2.0 */
/* A device for the store's tests: memory from memfds, with caps as told, and an index that outlives the store. */
#ifndef TESTS_UNIT_STORE_FAKE_DEV_H
#define TESTS_UNIT_STORE_FAKE_DEV_H

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>
#include <string>

/* In C a struct and a function may share a name; C++ remarks on it. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
extern "C" {
#include "mover/store/store.h"
}
#pragma GCC diagnostic pop
using StoreStats = struct store_stats;

struct FakeSlab {
  slab_mem mem;
  uint64_t slot_bytes = 0;
  uint32_t slots = 0;
  std::string tenant, agent;
  uint8_t scope = 0;
  bool indexed = false;
  std::map<uint32_t, index_entry> cells;
};

struct FakeDev {
  dev d{};
  transport_cold cold{};
  std::mutex lock;
  std::map<uint32_t, FakeSlab> slabs;
  std::map<uint64_t, uint64_t> bad; /* what it was told of, by place */
  uint32_t next_unit = 1;
  uint64_t used = 0;
  uint64_t largest = UINT64_MAX; /* the largest piece in which the device has memory */
  int add_fails = 0;             /* -errno of the next slab_add */
  int put_fails = 0;             /* -errno of the next index_put */
  uint64_t added = 0, deleted = 0, lent = 0;
  std::vector<uint32_t> expected; /* slots whose entries were said to be next */

  explicit FakeDev(uint64_t capacity, bool persistent = false)
  {
    cold.size = sizeof cold;
    cold.name = "fake";
    cold.slab_add = Add;
    cold.slab_del = Del;
    cold.index_slab = IndexSlab;
    cold.index_put = IndexPut;
    cold.index_del = IndexDel;
    cold.index_expect = IndexExpect;
    cold.index_scan = IndexScan;
    cold.index_bad = IndexBad;
    d.cold = &cold;
    d.caps.capacity = capacity;
    d.caps.unit = 4096;
    d.caps.align = persistent ? 4096 : 64;
    d.caps.addressable = !persistent;
    d.caps.persistent = persistent;
    d.caps.isolation = persistent ? DEV_HIDDEN : DEV_PER_SLAB;
  }
  ~FakeDev()
  {
    for (auto &s : slabs)
      Unmap(&s.second.mem);
  }
  FakeDev(const FakeDev &) = delete;

  static FakeDev *Of(dev *d) { return reinterpret_cast<FakeDev *>(d); } /* d is the first member */
  static void Unmap(slab_mem *m)
  {
    munmap(m->base, m->bytes);
    if (m->fd >= 0)
      close(m->fd);
  }
  static int Add(dev *d, uint64_t bytes, err *, slab_mem *ret)
  {
    FakeDev *f = Of(d);
    std::lock_guard<std::mutex> g(f->lock);
    if (f->add_fails) {
      int rc = f->add_fails;
      f->add_fails = 0;
      return rc;
    }
    if (!bytes || bytes % d->caps.unit)
      return -EINVAL;
    if (bytes > f->largest || bytes > d->caps.capacity - f->used)
      return -ENOSPC;
    FakeSlab s{};
    s.mem.bytes = bytes;
    s.mem.fd = memfd_create("fake", 0);
    if (s.mem.fd < 0 || ftruncate(s.mem.fd, (off_t)bytes) < 0)
      return -EMFILE;
    s.mem.base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s.mem.fd, 0);
    s.mem.unit = f->next_unit++;
    s.mem.dev_off = (uint64_t)s.mem.unit << 32;
    f->used += bytes;
    f->added++;
    *ret = s.mem;
    f->slabs[s.mem.unit] = s;
    return 0;
  }
  static void Del(dev *d, slab_mem *m, bool lent)
  {
    FakeDev *f = Of(d);
    std::lock_guard<std::mutex> g(f->lock);
    f->used -= m->bytes;
    f->deleted++;
    f->lent += lent;
    memset(m->base, 0xdd, m->bytes); /* whoever still reads it shall notice */
    Unmap(m);
    f->slabs.erase(m->unit);
  }
  static int IndexSlab(dev *d, const slab_mem *m, uint64_t slot_bytes, uint32_t slots, const char *tenant,
                       const char *agent, uint8_t scope)
  {
    FakeDev *f = Of(d);
    std::lock_guard<std::mutex> g(f->lock);
    FakeSlab &s = f->slabs[m->unit];
    s.slot_bytes = slot_bytes;
    s.slots = slots;
    s.tenant = tenant;
    s.agent = agent;
    s.scope = scope;
    s.indexed = true;
    return 0;
  }
  static int IndexPut(dev *d, const slab_mem *m, uint32_t slot, const index_entry *e)
  {
    FakeDev *f = Of(d);
    std::lock_guard<std::mutex> g(f->lock);
    if (f->put_fails) {
      int rc = f->put_fails;
      f->put_fails = 0;
      return rc;
    }
    f->slabs[m->unit].cells[slot] = *e;
    return 0;
  }
  static void IndexDel(dev *d, const slab_mem *m, uint32_t slot)
  {
    FakeDev *f = Of(d);
    std::lock_guard<std::mutex> g(f->lock);
    f->slabs[m->unit].cells.erase(slot);
  }
  static void IndexExpect(dev *d, const slab_mem *, uint32_t slot)
  {
    FakeDev *f = Of(d);
    std::lock_guard<std::mutex> g(f->lock);
    f->expected.push_back(slot);
  }
  static int IndexScan(dev *d, const index_visitor *v, uint64_t *ret_skipped)
  {
    FakeDev *f = Of(d);
    for (auto &p : f->slabs) {
      FakeSlab &s = p.second;
      if (!s.indexed)
        continue;
      int rc = v->slab(v->ctx, &s.mem, s.slot_bytes, s.slots, s.tenant.c_str(), s.agent.c_str(), s.scope);
      for (auto c = s.cells.begin(); rc == 0 && c != s.cells.end(); ++c)
        rc = v->cell(v->ctx, &s.mem, c->first, &c->second);
      if (rc < 0)
        return rc;
    }
    for (auto &b : f->bad)
      if (v->bad)
        v->bad(v->ctx, b.first, b.second, true);
    *ret_skipped = 0;
    return 0;
  }
  static int IndexBad(dev *d, uint64_t off, uint64_t len, bool)
  {
    FakeDev *f = Of(d);
    std::lock_guard<std::mutex> g(f->lock);
    f->bad[off] = len;
    return 0;
  }
  size_t Entries()
  {
    size_t n = 0;
    for (auto &p : slabs)
      n += p.second.cells.size();
    return n;
  }
};
#endif
