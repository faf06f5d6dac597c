/* SPDX-License-Identifier: Apache-2.0 */
#include "transports/cxl/bad.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"

#define SECTOR 512u
#define PARENTS_MAX 6

/* A number of a sysfs file; -errno. */
static int number(const char *dir, const char *file, uint64_t *ret)
{
  char path[PATH_MAX + 64];
  snprintf(path, sizeof path, "%s/%s", dir, file);
  CLEAN_FILE *f = fopen(path, "re");
  if (!f)
    return -errno;
  char text[64], *end;
  if (!fgets(text, sizeof text, f))
    return -EINVAL;
  errno = 0;
  unsigned long long v = strtoull(text, &end, 0);
  if (errno || end == text || (*end && *end != '\n') || strchr(text, '-'))
    return -EINVAL;
  *ret = v;
  return 0;
}

/* The nearest directory above (or dir itself) that has a list. */
static int region_dir(const char *dir, char ret[PATH_MAX])
{
  if (!realpath(dir, ret))
    return -errno;
  for (int i = 0; i <= PARENTS_MAX; i++) {
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/badblocks", ret);
    if (!access(path, F_OK))
      return 0;
    char *slash = strrchr(ret, '/');
    if (!slash || slash == ret)
      break;
    *slash = 0;
  }
  return -ENOENT;
}

/* mappingN/{start,end,page_offset}, or one piece from `resource` on. */
int dax_pieces(const char *dir, uint64_t size, struct dax_piece ret[DAX_PIECES_MAX])
{
  int n = 0;
  for (; n < (int)DAX_PIECES_MAX; n++) {
    char sub[PATH_MAX];
    uint64_t start, end, page;
    snprintf(sub, sizeof sub, "%s/mapping%d", dir, n);
    if (access(sub, F_OK))
      break;
    int r = number(sub, "start", &start);
    r = r ? r : number(sub, "end", &end);
    r = r ? r : number(sub, "page_offset", &page);
    if (r)
      return r;
    if (end < start || end - start == UINT64_MAX || page > UINT64_MAX / PAGE_BYTES)
      return -EINVAL;
    ret[n] = (struct dax_piece){start, end - start + 1, page * PAGE_BYTES};
  }
  if (n)
    return n;
  int r = number(dir, "resource", &ret[0].start);
  ret[0].len = size;
  ret[0].off = 0;
  return r ? r : 1;
}

bool dax_cut(const struct dax_piece *p, uint64_t size, uint64_t at, uint64_t len, struct dax_bad *ret)
{
  if (!range_overlaps(p->start, p->len, at, len))
    return false;
  uint64_t begin = MAX_OF(at, p->start) - p->start, end = MIN_OF(at + len - p->start, p->len), off;
  if (!add_u64(p->off, begin, &off) || off >= size)
    return false;
  *ret = (struct dax_bad){off, MIN_OF(end - begin, size - off)};
  return true;
}

int dax_bad_ranges(const char *dir, uint64_t size, struct err *e, struct dax_bad ret_bad[DAX_BAD_MAX])
{
  char region[PATH_MAX], path[PATH_MAX + 16], line[128];
  struct dax_piece piece[DAX_PIECES_MAX];
  uint64_t base;
  int r = region_dir(dir, region);
  if (r < 0)
    return err_set(e, r, "%s: no badblocks of its region", dir);
  r = number(region, "resource", &base);
  if (r < 0)
    return err_set(e, r, "%s/resource: %s", region, strerror(-r));
  int pieces = dax_pieces(dir, size, piece);
  if (pieces < 0)
    return err_set(e, pieces, "%s: where the device lies: %s", dir, strerror(-pieces));
  snprintf(path, sizeof path, "%s/badblocks", region);
  CLEAN_FILE *f = fopen(path, "re");
  if (!f)
    return err_set(e, -errno, "%s: %s", path, strerror(errno));
  int n = 0;
  while (fgets(line, sizeof line, f)) {
    uint64_t at, len;
    char *mid, *end;
    if (line[0] == '\n')
      continue;
    errno = 0;
    unsigned long long sector = strtoull(line, &mid, 10), sectors = strtoull(mid, &end, 10);
    if (errno || mid == line || *mid != ' ' || end == mid || *end != '\n' || strchr(line, '-') || !sectors ||
        !mul_u64(sector, SECTOR, &at) || !mul_u64(sectors, SECTOR, &len) || !add_u64(base, at, &at) ||
        !add_u64(at, len, &(uint64_t){0}))
      return err_set(e, -EINVAL, "%s: '%.60s': need SECTOR COUNT", path, line);
    for (int i = 0; i < pieces && n < (int)DAX_BAD_MAX; i++)
      if (dax_cut(&piece[i], size, at, len, &ret_bad[n]))
        n++;
  }
  return n;
}

static int by_place(const void *a, const void *b)
{
  const struct dax_bad *x = a, *y = b;
  return x->off < y->off ? -1 : x->off > y->off;
}

uint32_t dax_bad_merge(struct dax_bad *bad, uint32_t n)
{
  uint32_t left = 0;
  if (n)
    qsort(bad, n, sizeof *bad, by_place);
  for (uint32_t i = 0; i < n; i++) {
    struct dax_bad *last = left ? &bad[left - 1] : NULL;
    if (last && bad[i].off - last->off < last->len)
      last->len = MAX_OF(last->len, bad[i].off - last->off + bad[i].len);
    else
      bad[left++] = bad[i];
  }
  return left;
}

uint64_t dax_bad_leave_out(struct extent_map *m, uint64_t unit, const struct dax_bad *bad, uint32_t n)
{
  uint64_t out = 0;
  for (uint32_t i = 0; i < n; i++)
    for (uint64_t u = bad[i].off / unit; u <= (bad[i].off + bad[i].len - 1) / unit; u++)
      out += extent_reserve(m, u, 1) == 0; /* taken already: by the range before */
  return out;
}
