/* SPDX-License-Identifier: Apache-2.0 */
/* The memory transport: each slab is a sealed memfd of its own, copied by the CPU. */
#include <string.h>
#include <sys/mman.h>

#include <dray/types.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "transports/addressable.h"
#include "transports/memory/memfd.h"
#include "transports/stub.h"
#include "transports/transport.h"

struct memory_dev {
  struct addr_dev addr; /* first */
  pthread_mutex_t lock; /* used, unit */
  uint64_t used;
  uint32_t next_unit;
  int32_t numa_node;
  bool hugetlb, thp;
  char name[64];
};

static struct memory_dev *memory_of(struct dev *d)
{
  return CONTAINER_OF(CONTAINER_OF(d, struct addr_dev, dev), struct memory_dev, addr);
}

/* One huge page, made and given back: sysfs counts pages that a cgroup or a policy would refuse. */
static bool hugetlb_works(void)
{
  const struct memfd_plan p = {.name = "dray-probe", .numa_node = -1, .hugetlb = true};
  CLEAN_FD fd = -1;
  void *base = NULL;
  if (memfd_make(&p, MEMFD_HUGE_BYTES, &fd, &base))
    return false;
  munmap(base, MEMFD_HUGE_BYTES);
  return true;
}

static void memory_close(struct dev *dev)
{
  struct memory_dev *d = memory_of(dev);
  addr_dev_deinit(&d->addr);
  pthread_mutex_destroy(&d->lock);
  free(d);
}

static int memory_open(const struct dev_config *cfg, struct err *e, struct dev **ret_dev)
{
  if (!cfg->capacity)
    return err_set(e, -EINVAL, "pool %s: memory has no size of its own: set capacity", cfg->name);
  if (cfg->numa_node >= 0) {
    char path[64];
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d", cfg->numa_node);
    if (access(path, F_OK))
      return err_set(e, -ENODEV, "pool %s: this machine has no NUMA node %d (%s): set numa_node", cfg->name,
                     cfg->numa_node, path);
  }
  CLEAN_PTR struct memory_dev *d = calloc(1, sizeof *d);
  if (!d)
    return -ENOMEM;
  int rc = addr_dev_init(&d->addr, cfg->lanes, cfg->copy);
  if (rc)
    return err_set(e, rc, "pool %s: %u lanes: %s", cfg->name, cfg->lanes, strerror(-rc));
  pthread_mutex_init(&d->lock, NULL);
  d->numa_node = cfg->numa_node;
  d->hugetlb = cfg->huge_pages && hugetlb_works();
  d->thp = cfg->huge_pages;
  snprintf(d->name, sizeof d->name, "dray-%.32s", cfg->name);

  struct dev *dev = &d->addr.dev;
  dev->cold = transport_memory.cold;
  dev->hot = &hot_dummy;
  dev->caps = (struct dev_caps){
      .unit = d->hugetlb ? MEMFD_HUGE_BYTES : PAGE_BYTES, .align = 1, .addressable = true, .isolation = DEV_PER_SLAB};
  dev->caps.capacity = cfg->capacity & ~(dev->caps.unit - 1);
  if (cfg->huge_pages && !d->hugetlb)
    snprintf(dev->caps.note, sizeof dev->caps.note,
             "no free 2 MiB huge pages (vm.nr_hugepages): 4 KiB pages, transparent huge where the kernel allows");
  *ret_dev = dev;
  d = NULL;
  return 0;
}

static int memory_slab_add(struct dev *dev, uint64_t bytes, struct err *e, struct slab_mem *ret_mem)
{
  struct memory_dev *d = memory_of(dev);
  if (!bytes || !is_aligned(bytes, dev->caps.unit))
    return err_set(e, -EINVAL, "slab of %llu bytes: not a multiple of %llu", (unsigned long long)bytes,
                   (unsigned long long)dev->caps.unit);
  uint32_t unit;
  {
    LOCKED(&d->lock);
    if (!range_inside(d->used, bytes, dev->caps.capacity))
      return err_set(e, -ENOSPC, "%s: slab of %llu bytes, %llu of capacity %llu in use", d->name,
                     (unsigned long long)bytes, (unsigned long long)d->used, (unsigned long long)dev->caps.capacity);
    d->used += bytes;
    unit = d->next_unit++;
  }
  struct memfd_plan p = {.name = d->name, .numa_node = d->numa_node, .hugetlb = d->hugetlb, .thp = d->thp};
  int fd = -1;
  void *base = NULL;
  int rc = memfd_make(&p, bytes, &fd, &base);
  if (rc && p.hugetlb) {
    /* the hugetlb pool ran dry after open: smaller pages are better than no slab, but said */
    p.hugetlb = false;
    rc = memfd_make(&p, bytes, &fd, &base);
    if (!rc)
      err_set(e, 0, "%s: no huge pages left for a slab of %llu bytes: 4 KiB pages", d->name, (unsigned long long)bytes);
  }
  if (rc) {
    LOCKED(&d->lock);
    d->used -= bytes;
    return err_set(e, rc, "%s: memfd of %llu bytes: %s", d->name, (unsigned long long)bytes, strerror(-rc));
  }
  *ret_mem = (struct slab_mem){.bytes = bytes, .base = base, .fd = fd, .unit = unit};
  return 0;
}

static void memory_slab_del(struct dev *dev, struct slab_mem *mem, bool lent)
{
  struct memory_dev *d = memory_of(dev);
  (void)lent; /* the memory dies with its last mapping; it is never given to anybody else */
  munmap(mem->base, mem->bytes);
  close(mem->fd);
  LOCKED(&d->lock);
  d->used -= mem->bytes;
  mem->base = NULL;
  mem->fd = -1;
}

static const struct transport_cold memory_cold = {
    .size = sizeof(struct transport_cold),
    .name = "memory",
    .tier_default = DRAY_TIER_DRAM,
    .open = memory_open,
    .prepare = stub_prepare,
    .start = addr_dev_start,
    .stop = addr_dev_stop,
    .quiesce = stub_quiesce,
    .close = memory_close,
    .slab_add = memory_slab_add,
    .slab_del = memory_slab_del,
    .index_slab = stub_index_slab,
    .index_put = stub_index_put,
    .index_del = stub_index_del,
    .index_expect = stub_index_expect,
    .index_scan = stub_index_scan,
    .index_bad = stub_index_bad,
    .index_met = stub_index_met,
    .detach = stub_detach,
    .paths = stub_paths,
    .memory_add = stub_memory_add,
    .memory_del = stub_memory_del,
};
const struct transport transport_memory = {&memory_cold, &hot_addressable};
