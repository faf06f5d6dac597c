/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/transports/keep_bad.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "transports/cxl/cxl_internal.h"

/* ---- the linker puts this before the guard (--wrap) ---- */

static uint32_t next_bad;
void keep_bad_next(uint32_t accesses)
{
  next_bad = accesses;
}

int __real_guard_run(int (*fn)(void *ctx), void *ctx, const struct guard_range *ranges, size_t n,
                     struct guard_hit *ret_hit);
int __wrap_guard_run(int (*fn)(void *ctx), void *ctx, const struct guard_range *ranges, size_t n,
                     struct guard_hit *ret_hit);
int __wrap_guard_run(int (*fn)(void *ctx), void *ctx, const struct guard_range *ranges, size_t n,
                     struct guard_hit *ret_hit)
{
  bool bad = next_bad & 1;
  next_bad >>= 1;
  if (!bad)
    return __real_guard_run(fn, ctx, ranges, n, ret_hit);
  *ret_hit = (struct guard_hit){.addr = (uintptr_t)ranges->base, .unit = 4096, .kind = GUARD_POISON};
  return -EFAULT;
}

int keep_bad_open(const struct dev_config *cfg, uint64_t bytes, uint64_t unit, uint64_t bad_off, bool real,
                  struct err *e, struct dev_caps *ret_caps, bool *ret_keeps)
{
  struct dax_bad bad[DAX_BAD_MAX] = {{bad_off, 512}};
  char path[256];
  snprintf(path, sizeof path, "%s", cfg->path);
  struct cxl_dev d = {.path = path, .mapped = bytes, .bad = bad, .bad_n = bad_off != UINT64_MAX};
  struct dev_caps *caps = &d.addr.dev.caps;
  caps->unit = unit;
  caps->emulated = !real;
  snprintf(caps->owner, sizeof caps->owner, "%s", cfg->owner);
  pthread_mutex_init(&d.lock, NULL);
  d.fd = open(path, O_RDWR | O_CLOEXEC);
  d.base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, d.fd, 0);
  int rc = d.base == MAP_FAILED ? -errno : extent_map_init(&d.map, bytes / unit, 0);
  rc = rc ? rc : cxl_keep_open(&d, cfg, bytes, unit, e);
  *ret_caps = *caps;
  *ret_keeps = d.keep.base != NULL;
  extent_map_deinit(&d.map);
  munmap(d.base, bytes);
  close(d.fd);
  return rc;
}
