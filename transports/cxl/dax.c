/* SPDX-License-Identifier: Apache-2.0 */
#include "transports/cxl/dax.h"

#include <limits.h>
#include <string.h>
#include <sys/sysmacros.h>

#ifdef HAVE_DAXCTL
#include <daxctl/libdaxctl.h>
#endif

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"

/* A number of a sysfs file, or -errno. */
static int read_number(const char *dir, const char *file, int64_t *ret)
{
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/%s", dir, file);
  CLEAN_FILE *f = fopen(path, "re");
  if (!f)
    return -errno;
  long long v;
  if (fscanf(f, "%lli", &v) != 1)
    return -EINVAL;
  *ret = v;
  return 0;
}

/* The last part of a link's target, "" when there is none. */
static void read_link_name(const char *dir, const char *file, char *buf, size_t n)
{
  char path[PATH_MAX], to[PATH_MAX];
  snprintf(path, sizeof path, "%s/%s", dir, file);
  ssize_t len = readlink(path, to, sizeof to - 1);
  to[len > 0 ? len : 0] = 0;
  const char *slash = strrchr(to, '/');
  snprintf(buf, n, "%.31s", slash ? slash + 1 : to);
}

int dax_read_sysfs(const char *dir, struct err *e, struct dax_info *ret_info)
{
  struct dax_info i = {.target_node = -1};
  int64_t size = 0, align = 0, node = -1;
  char real[PATH_MAX];
  if (!realpath(dir, real))
    return err_set(e, -ENODEV, "%s: %s: not a dax device", dir, strerror(errno));
  const char *slash = strrchr(real, '/');
  snprintf(i.name, sizeof i.name, "%.31s", slash ? slash + 1 : real);
  if (read_number(dir, "size", &size) || size < 0)
    return err_set(e, -ENODEV, "%s/size cannot be read: not a dax device", dir);
  /* the device's own align: the region's is readable by root only */
  if (read_number(dir, "align", &align) || align <= 0)
    align = (int64_t)MIB(2);
  if (!read_number(dir, "target_node", &node))
    i.target_node = (int32_t)node;
  i.size = (uint64_t)size;
  i.align = (uint64_t)align;
  read_link_name(dir, "driver", i.driver, sizeof i.driver);
  *ret_info = i;
  return 0;
}

#ifdef HAVE_DAXCTL
/* What libdaxctl knows better: size and align of the device with this number. */
static void ask_daxctl(const struct stat *st, struct dax_info *i)
{
  struct daxctl_ctx *ctx;
  struct daxctl_region *region;
  struct daxctl_dev *dev;
  if (daxctl_new(&ctx))
    return;
  daxctl_region_foreach(ctx, region)
  {
    daxctl_dev_foreach(region, dev)
    {
      if (daxctl_dev_get_major(dev) != (int)major(st->st_rdev) || daxctl_dev_get_minor(dev) != (int)minor(st->st_rdev))
        continue;
      i->size = daxctl_dev_get_size(dev);
      if (daxctl_dev_get_align(dev))
        i->align = daxctl_dev_get_align(dev);
      i->target_node = daxctl_dev_get_target_node(dev);
    }
  }
  daxctl_unref(ctx);
}
#endif

int dax_lookup(const struct stat *st, struct err *e, struct dax_info *ret_info)
{
  char dir[64];
  snprintf(dir, sizeof dir, "/sys/dev/char/%u:%u", major(st->st_rdev), minor(st->st_rdev));
  struct dax_info i;
  int rc = dax_read_sysfs(dir, e, &i);
  if (rc)
    return rc;
#ifdef HAVE_DAXCTL
  ask_daxctl(st, &i);
#endif
  *ret_info = i;
  return 0;
}

int dax_usable(const struct dax_info *i, struct err *e)
{
  if (!strcmp(i->driver, "kmem"))
    return err_set(e, -EINVAL, "%s is in system-ram mode: run `daxctl reconfigure-device --mode=devdax %s`", i->name,
                   i->name);
  if (!i->size)
    return err_set(e, -ENODEV,
                   "%s has size 0 (left by a failed create): run `daxctl destroy-device %s` and create it anew",
                   i->name, i->name);
  if (!i->driver[0])
    return err_set(e, -ENODEV, "%s has no driver: run `daxctl enable-device %s`", i->name, i->name);
  if (!is_pow2_u64(i->align) || i->align < PAGE_BYTES || i->size < i->align)
    return err_set(e, -EINVAL, "%s: align %llu and size %llu make no sense together", i->name,
                   (unsigned long long)i->align, (unsigned long long)i->size);
  return 0;
}
