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
  struct media_news w;
  char dir[PATH_MAX];
  int r = dax_lookup(st, e, &info);
  r = r < 0 ? r : dax_usable(&info, e);
  if (r < 0)
    return r;
  struct device_facts f = {.size = info.size, .align = info.align};
  snprintf(dir, sizeof dir, "/sys/dev/char/%u:%u", major(st->st_rdev), minor(st->st_rdev));
  uint32_t n = media_known_bad(&media_kernel, dir, info.size, &w, bad);
  for (uint32_t i = 0; i < n; i++)
    f.poisoned += bad[i].len;
  char media[128] = "";
  if (w.lists >= 0)
    snprintf(media, sizeof media, "; poison lists of %u CXL devices", w.list.asked);
  else if (w.lists != -ENOENT)
    snprintf(media, sizeof media, "; no CXL poison list: %.90s", w.why_lists.text);
  snprintf(f.bad_from, sizeof f.bad_from, "%.100s%s",
           w.blocks < 0 ? w.why_blocks.text : "the kernel's list of bad blocks", media);
  *ret_facts = f;
  return 0;
}
