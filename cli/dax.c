/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/dax.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "transports/topology.h"

#define BUS "/sys/bus/dax/devices"

static int number(const char *dir, const char *file, int64_t *ret)
{
  char path[PATH_MAX];
  long long v;
  snprintf(path, sizeof path, "%s/%s", dir, file);
  CLEAN_FILE *f = fopen(path, "re");
  if (!f || fscanf(f, "%lli", &v) != 1)
    return -ENOENT;
  *ret = v;
  return 0;
}

int dax_device_read(const char *name, struct dax_device *ret_device)
{
  struct dax_device d = {.node = -1};
  char dir[PATH_MAX], to[PATH_MAX] = "", link[PATH_MAX];
  int64_t v = 0, start, end;
  snprintf(dir, sizeof dir, BUS "/%.200s", name);
  if (number(dir, "size", &v) < 0)
    return -ENOENT;
  d.size = (uint64_t)v;
  snprintf(d.name, sizeof d.name, "%.31s", name);
  if (number(dir, "align", &v) == 0)
    d.align = (uint64_t)v;
  if (number(dir, "target_node", &v) == 0)
    d.node = (int32_t)v;
  snprintf(link, sizeof link, "%.300s/driver", dir);
  if (readlink(link, to, sizeof to - 1) > 0)
    snprintf(d.driver, sizeof d.driver, "%.31s", strrchr(to, '/') ? strrchr(to, '/') + 1 : to);
  for (; d.ranges_n < DAX_RANGES_MAX; d.ranges_n++) {
    char mapping[PATH_MAX];
    snprintf(mapping, sizeof mapping, "%.300s/mapping%u", dir, d.ranges_n);
    if (number(mapping, "start", &start) < 0 || number(mapping, "end", &end) < 0)
      break;
    d.range[d.ranges_n].start = (uint64_t)start;
    d.range[d.ranges_n].end = (uint64_t)end;
  }
  if (!d.ranges_n && d.size && number(dir, "resource", &start) == 0 && start) {
    d.range[0].start = (uint64_t)start;
    d.range[0].end = (uint64_t)start + d.size - 1;
    d.ranges_n = 1;
  }
  *ret_device = d;
  return 0;
}

int dax_device_at(const char *path, struct dax_device *ret_device)
{
  struct stat st;
  char dir[64], real[PATH_MAX];
  if (stat(path, &st) < 0)
    return -errno;
  if (!S_ISCHR(st.st_mode))
    return -ENOTSUP;
  snprintf(dir, sizeof dir, "/sys/dev/char/%u:%u", major(st.st_rdev), minor(st.st_rdev));
  if (!realpath(dir, real))
    return -ENOTSUP;
  const char *slash = strrchr(real, '/');
  return dax_device_read(slash ? slash + 1 : real, ret_device) < 0 ? -ENOTSUP : 0;
}

const char *dax_device_mode(const struct dax_device *d)
{
  return strcmp(d->driver, "device_dax") == 0 ? "devdax" : strcmp(d->driver, "kmem") == 0 ? "system-ram" : "no driver";
}

json_t *dax_device_json(const struct dax_device *d)
{
  json_t *ranges = json_array();
  for (uint32_t i = 0; i < d->ranges_n; i++)
    json_array_append_new(
        ranges, json_pack("{s:I,s:I}", "start", (json_int_t)d->range[i].start, "end", (json_int_t)d->range[i].end));
  return json_pack("{s:s,s:I,s:I,s:s,s:i,s:o}", "name", d->name, "size", (json_int_t)d->size, "align",
                   (json_int_t)d->align, "mode", dax_device_mode(d), "node", (int)d->node, "ranges", ranges);
}

static int dax_name(const struct dirent *e)
{
  return strncmp(e->d_name, "dax", 3) == 0;
}

unsigned dax_device_each(void (*fn)(void *ctx, const struct dax_device *d), void *ctx)
{
  struct dirent **list = NULL;
  int n = scandir(BUS, &list, dax_name, alphasort);
  unsigned found = 0;
  for (int i = 0; i < n; i++) {
    struct dax_device d;
    if (dax_device_read(list[i]->d_name, &d) == 0) {
      fn(ctx, &d);
      found++;
    }
    free(list[i]);
  }
  free(list);
  return found;
}

json_t *cxl_topology(bool *ret_known)
{
  CLEAN_PTR struct topology *t = malloc(sizeof *t);
  int rc = t ? topology_read(t) : -ENOMEM;
  *ret_known = rc != -ENOTSUP;
  if (rc < 0 || !(t->memdevs || t->regions))
    return NULL;
  json_t *mems = json_array(), *regions = json_array();
  for (uint32_t i = 0; i < t->memdevs; i++) {
    const struct topology_memdev *m = &t->memdev[i];
    json_array_append_new(mems, json_pack("{s:s,s:s,s:I,s:I,s:i}", "memdev", m->name, "host", m->host, "persistent",
                                          (json_int_t)m->persistent, "volatile", (json_int_t)m->temporary, "node",
                                          (int)m->node));
  }
  for (uint32_t i = 0; i < t->regions; i++) {
    const struct topology_region *r = &t->region[i];
    json_array_append_new(regions, json_pack("{s:s,s:s,s:I,s:I,s:i}", "region", r->name, "decoder", r->decoder, "start",
                                             (json_int_t)r->start, "size", (json_int_t)r->size, "ways", (int)r->ways));
  }
  return json_pack("{s:o,s:o}", "memdevs", mems, "regions", regions);
}
