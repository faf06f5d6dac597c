/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/machine.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>

#include "base/units.h"
#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "mover/config.h"

#define TMPFS_FS 0x01021994
#define RAMFS_FS 0x858458f6

/* The first number in a file; false also for "max". */
static bool number_in(const char *path, uint64_t *ret)
{
  CLEAN_FILE *f = fopen(path, "re");
  unsigned long long v;
  if (!f || fscanf(f, "%llu", &v) != 1)
    return false;
  *ret = v;
  return true;
}

static bool meminfo_available(const char *root, uint64_t *ret)
{
  char path[PATH_MAX], line[128];
  unsigned long long kib;
  snprintf(path, sizeof path, "%s/proc/meminfo", root);
  CLEAN_FILE *f = fopen(path, "re");
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1 && kib <= UINT64_MAX / 1024) {
      *ret = kib * 1024;
      return true;
    }
  return false;
}

/* Our place in the unified hierarchy: "/a/b", "" when there is none. */
static void cgroup_path(const char *root, char *buf, size_t n)
{
  char path[PATH_MAX], line[PATH_MAX];
  *buf = 0;
  snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
  CLEAN_FILE *f = fopen(path, "re");
  while (f && fgets(line, sizeof line, f))
    if (strncmp(line, "0::/", 4) == 0) {
      line[strcspn(line, "\n")] = 0;
      snprintf(buf, n, "%s", line + 3);
      return;
    }
}

int machine_memory_left(const char *root, uint64_t *ret_bytes)
{
  uint64_t left;
  char at[PATH_MAX], path[2 * PATH_MAX];
  if (!meminfo_available(root, &left))
    return -ENODATA;
  cgroup_path(root, at, sizeof at);
  for (;;) { /* each level up may have a limit of its own */
    uint64_t max, now;
    snprintf(path, sizeof path, "%s/sys/fs/cgroup%s/memory.max", root, at);
    if (number_in(path, &max)) {
      snprintf(path, sizeof path, "%s/sys/fs/cgroup%s/memory.current", root, at);
      if (!number_in(path, &now))
        now = 0;
      left = MIN_OF(left, max > now ? max - now : 0);
    }
    char *slash = strrchr(at, '/');
    if (!slash)
      break;
    *slash = 0;
  }
  *ret_bytes = left;
  return 0;
}

static bool in_memory(const struct config_tier *t)
{
  struct statfs fs;
  if (strcmp(t->transport, "memory") == 0)
    return true;
  return t->path && strncmp(t->path, "/dev/dax", 8) != 0 && statfs(t->path, &fs) == 0 &&
         ((unsigned)fs.f_type == TMPFS_FS || (unsigned)fs.f_type == RAMFS_FS);
}

int machine_fits(const struct config *cfg, const char *root, struct err *e)
{
  uint64_t left, need = 0;
  char want[32], have[32];
  if (machine_memory_left(root, &left) < 0)
    return 0; /* nobody says */
  for (uint32_t i = 0; i < cfg->tiers_n; i++)
    if (in_memory(&cfg->tier[i]) && !add_u64(need, cfg->tier[i].capacity, &need))
      need = UINT64_MAX;
  if (need <= left)
    return 0;
  return err_set(
      e, -ENOMEM,
      "memory: the tiers that live in it may take %s, and %s can be had (MemAvailable and the control group's "
      "limit): lower tier.<name>.capacity, or raise the limit, or the kernel kills engines when they fill",
      units_format_bytes(need, want, sizeof want), units_format_bytes(left, have, sizeof have));
}

void machine_lane_place(uint32_t idx, uint32_t n)
{
  cpu_set_t all, mine;
  uint32_t k = 0;
  if (n < 2 || sched_getaffinity(0, sizeof all, &all) < 0 || (uint32_t)CPU_COUNT(&all) < n)
    return;
  CPU_ZERO(&mine);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, &all) && k++ % n == idx)
      CPU_SET(cpu, &mine);
  sched_setaffinity(0, sizeof mine, &mine); /* a wish: where it is not granted, the kernel chooses as before */
}
