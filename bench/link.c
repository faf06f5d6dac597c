/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/link.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/priv/cleanup.h"

double link_gbps(double gts, double lanes)
{
  if (!(gts > 0 && gts <= 256 && lanes >= 1 && lanes <= 32))
    return 0;
  /* 8b/10b up to 5 GT/s, 128b/130b up to 32, then flits of 256 bytes that carry 236 */
  double code = gts <= 5 ? 0.8 : gts <= 32 ? 128.0 / 130.0 : 236.0 / 256.0;
  return gts * lanes / 8 * code;
}

static double number(const char *dir, const char *file)
{
  char path[PATH_MAX];
  double v = 0;
  snprintf(path, sizeof path, "%.3900s/%s", dir, file);
  CLEAN_FILE *f = fopen(path, "re");
  return f && fscanf(f, "%lf", &v) == 1 ? v : 0;
}

double link_cxl_gbps(const char *root, uint32_t *ret_n)
{
  double sum = 0;
  uint32_t n = 0;
  DIR *d = opendir(root);
  for (struct dirent *e; d && (e = readdir(d));) {
    char link[PATH_MAX], real[PATH_MAX];
    if (strncmp(e->d_name, "mem", 3) != 0)
      continue;
    /* .../0000:0d:00.0/mem0: the function it belongs to is its parent */
    snprintf(link, sizeof link, "%.3800s/%.200s/..", root, e->d_name);
    if (!realpath(link, real))
      continue;
    double one = link_gbps(number(real, "current_link_speed"), number(real, "current_link_width"));
    sum += one;
    n += one > 0;
  }
  if (d)
    closedir(d);
  *ret_n = n;
  return sum;
}
