/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdio.h>
#include <sys/sysmacros.h>

#include "transports/cxl/bad.h"
#include "transports/cxl/dax.h"
#include "transports/cxl/media.h"
#include "transports/device.h"

int device_facts(const struct stat *st, struct err *e, struct device_facts *ret_facts)
{
  struct dax_bad bad[DAX_BAD_MAX];
  struct dax_info info;
  struct err why = {{0}};
  char dir[PATH_MAX];
  int r = dax_lookup(st, e, &info);
  r = r < 0 ? r : dax_usable(&info, e);
  if (r < 0)
    return r;
  struct device_facts f = {.size = info.size, .align = info.align};
  snprintf(dir, sizeof dir, "/sys/dev/char/%u:%u", major(st->st_rdev), minor(st->st_rdev));
  int n = dax_bad_ranges(dir, info.size, &why, bad);
  for (int i = 0; i < n; i++)
    f.poisoned += bad[i].len;
  struct media_list list = {0};
  struct err none = {{0}};
  int m = media_bad_ranges(&media_kernel, dir, info.size, &none, bad, DAX_BAD_MAX, &list);
  for (int i = 0; i < m; i++)
    f.poisoned += bad[i].len;
  char media[128] = "";
  if (m >= 0)
    snprintf(media, sizeof media, "; poison lists of %u CXL devices", list.asked);
  else if (m != -ENOENT)
    snprintf(media, sizeof media, "; no CXL poison list: %.90s", none.text);
  snprintf(f.bad_from, sizeof f.bad_from, "%.100s%s", n < 0 ? why.text : "the kernel's list of bad blocks", media);
  *ret_facts = f;
  return 0;
}
