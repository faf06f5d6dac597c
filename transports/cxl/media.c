/* SPDX-License-Identifier: Apache-2.0 */
#include "transports/cxl/media.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"

#define PARENTS_MAX 16
#define LEN_MAX GIB(1024) /* of one record; more is nonsense */

const struct media_paths media_kernel = {.bus = "/sys/bus/cxl/devices", .trace = "/sys/kernel/tracing"};

static int is_memdev(const struct dirent *e)
{
  return strncmp(e->d_name, "mem", 3) == 0 && e->d_name[3] >= '0' && e->d_name[3] <= '9';
}

static int word_put(const char *path, const char *word)
{
  CLEAN_FD fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  return write(fd, word, strlen(word)) < 0 ? -errno : 0;
}

/* Is one of the devices above it one of the CXL bus (a region, or the bridge to persistent memory). */
static bool on_cxl(const char *dir)
{
  char at[PATH_MAX], link[PATH_MAX + 16], to[PATH_MAX];
  if (!realpath(dir, at))
    return false;
  for (int i = 0; i < PARENTS_MAX; i++) {
    snprintf(link, sizeof link, "%s/subsystem", at);
    ssize_t n = readlink(link, to, sizeof to - 1);
    to[n > 0 ? n : 0] = 0;
    const char *slash = strrchr(to, '/');
    if (slash && !strcmp(slash, "/cxl"))
      return true;
    char *up = strrchr(at, '/');
    if (!up || up == at)
      break;
    *up = 0;
  }
  return false;
}

int media_offered(const struct media_paths *p, struct err *e)
{
  struct dirent **list = NULL;
  char path[PATH_MAX];
  int n = scandir(p->bus, &list, is_memdev, alphasort), rc = n > 0 ? 0 : -ENOENT;
  if (rc)
    err_set(e, rc, "%s: no CXL memory device", p->bus);
  for (int i = 0; i < n; i++) {
    snprintf(path, sizeof path, "%s/%.200s/trigger_poison_list", p->bus, list[i]->d_name);
    if (rc == 0 && access(path, F_OK))
      rc = err_set(e, -ENOTSUP, "%s has no trigger_poison_list: a kernel before 6.4, or a device without a list",
                   list[i]->d_name);
    else if (rc == 0 && access(path, W_OK))
      rc = err_set(e, -errno, "%s: %s: root's to write", path, strerror(errno));
    free(list[i]);
  }
  free(list);
  if (rc)
    return rc;
  snprintf(path, sizeof path, "%s/instances", p->trace);
  if (access(path, F_OK))
    return err_set(e, errno == EACCES ? -EACCES : -ENOTSUP, "%s: %s: mount -t tracefs tracefs %s", path,
                   strerror(errno), p->trace);
  snprintf(path, sizeof path, "%s/events/cxl/cxl_poison", p->trace);
  if (access(path, F_OK))
    return err_set(e, errno == EACCES ? -EACCES : -ENOTSUP,
                   "no trace event cxl/cxl_poison: a kernel before 6.4, or one without tracing");
  return 0;
}

/* ---- what the events say ---- */

/* KEY=NUMBER after a blank. */
static bool number_of(const char *line, const char *key, uint64_t *ret)
{
  char want[24];
  snprintf(want, sizeof want, " %s=", key);
  const char *at = strstr(line, want);
  char *end;
  if (!at)
    return false;
  at += strlen(want);
  errno = 0;
  unsigned long long v = strtoull(at, &end, 0);
  if (errno || end == at || *at == '-' || (*end && *end != ' ' && *end != '\n'))
    return false;
  *ret = v;
  return true;
}

/* An attribute of the region that the event names; 1 when it names none. */
static uint64_t region_number(const struct media_paths *p, const char *line, const char *file)
{
  char name[32], path[PATH_MAX], text[32];
  const char *at = strstr(line, " region=");
  if (!at || sscanf(at, " region=%31[a-z0-9]", name) != 1)
    return 1;
  snprintf(path, sizeof path, "%s/%s/%s", p->bus, name, file);
  CLEAN_FILE *f = fopen(path, "re");
  uint64_t v = f && fgets(text, sizeof text, f) ? strtoull(text, NULL, 0) : 1;
  return v >= 1 && v <= MIB(1) ? v : 1;
}

/* How far the addresses of a record reach: a device of several interleaved ones has every so-many-th granule. */
static uint64_t reach(const struct media_paths *p, const char *line, uint64_t hpa, uint64_t len)
{
  uint64_t ways = region_number(p, line, "interleave_ways"), granule = region_number(p, line, "interleave_granularity");
  uint64_t touched = (hpa % granule + len - 1) / granule + 1;
  return ways == 1 || touched == 1 ? len : touched * granule * ways;
}

static int take_event(const struct media_paths *p, const struct dax_piece *piece, int pieces, uint64_t size,
                      const char *line, struct dax_bad *ret_bad, uint32_t room, struct media_list *l)
{
  uint64_t hpa, len;
  int n = 0;
  l->records++;
  l->cut |= strstr(line, "Overflow") != NULL;
  if (!number_of(line, "dpa_length", &len) || !len || len > LEN_MAX)
    return -EINVAL;
  if (!number_of(line, "hpa", &hpa) || hpa == UINT64_MAX) {
    l->homeless++;
    return 0;
  }
  len = reach(p, line, hpa, len);
  if (!add_u64(hpa, len, &(uint64_t){0}))
    return -EINVAL;
  for (int i = 0; i < pieces; i++) {
    struct dax_bad b;
    if (!dax_cut(&piece[i], size, hpa, len, &b))
      continue;
    if ((uint32_t)n == room)
      l->cut = true;
    else
      ret_bad[n++] = b;
  }
  return n;
}

static int events_read(const struct media_paths *p, const char *instance, const struct dax_piece *piece, int pieces,
                       uint64_t size, struct err *e, struct dax_bad *ret_bad, uint32_t room, struct media_list *l)
{
  char path[PATH_MAX], line[1024];
  uint32_t n = 0;
  snprintf(path, sizeof path, "%s/trace", instance);
  CLEAN_FILE *f = fopen(path, "re");
  if (!f)
    return err_set(e, -errno, "%s: %s", path, strerror(errno));
  while (fgets(line, sizeof line, f)) {
    unsigned long long in, written;
    if (sscanf(line, "# entries-in-buffer/entries-written: %llu/%llu", &in, &written) == 2)
      l->cut |= in < written;
    if (line[0] == '#' || !strstr(line, " cxl_poison: ") || !strstr(line, " trace_type=List"))
      continue;
    int r = take_event(p, piece, pieces, size, line, ret_bad + n, room - n, l);
    if (r < 0)
      return err_set(e, r, "%s: '%.120s': not understood", path, strstr(line, "cxl_poison:"));
    n += (uint32_t)r;
  }
  return (int)n;
}

/* An instance of its own: nobody else's events come in, and nobody else's tracing is touched. */
static int trace_begin(const struct media_paths *p, struct err *e, char ret_instance[PATH_MAX / 2])
{
  char path[PATH_MAX];
  snprintf(ret_instance, PATH_MAX / 2, "%s/instances/dray-%d", p->trace, (int)getpid());
  (void)rmdir(ret_instance); /* left by one of that number that died, with what it was told */
  if (mkdir(ret_instance, 0700) && errno != EEXIST)
    return err_set(e, -errno, "%s: %s", ret_instance, strerror(errno));
  snprintf(path, sizeof path, "%s/buffer_size_kb", ret_instance);
  (void)word_put(path, "1024"); /* less: then the list is cut, which is seen */
  snprintf(path, sizeof path, "%s/events/cxl/cxl_poison/enable", ret_instance);
  int rc = word_put(path, "1");
  return rc ? err_set(e, rc, "%s: %s", path, strerror(-rc)) : 0;
}

static int lists_fetch(const struct media_paths *p, struct err *e, struct media_list *l)
{
  struct dirent **list = NULL;
  char path[PATH_MAX];
  int n = scandir(p->bus, &list, is_memdev, alphasort), rc = 0;
  for (int i = 0; i < n; i++) {
    snprintf(path, sizeof path, "%s/%.200s/trigger_poison_list", p->bus, list[i]->d_name);
    int one = word_put(path, "1");
    l->asked += one == 0;
    if (one && !rc)
      rc = err_set(e, one, "%s: %s", path, strerror(-one));
    free(list[i]);
  }
  free(list);
  return rc;
}

int media_bad_ranges(const struct media_paths *p, const char *dir, uint64_t size, struct err *e,
                     struct dax_bad *ret_bad, uint32_t room, struct media_list *ret_list)
{
  struct dax_piece piece[DAX_PIECES_MAX];
  struct media_list l = {0};
  char instance[PATH_MAX / 2];
  if (!on_cxl(dir))
    return -ENOENT;
  int rc = media_offered(p, e);
  if (rc)
    return rc == -ENOENT ? -ENOTSUP : rc;
  int pieces = dax_pieces(dir, size, piece);
  if (pieces < 0)
    return err_set(e, pieces, "%s: where the device lies: %s", dir, strerror(-pieces));
  rc = trace_begin(p, e, instance);
  rc = rc ? rc : lists_fetch(p, e, &l);
  rc = rc ? rc : events_read(p, instance, piece, pieces, size, e, ret_bad, room, &l);
  (void)rmdir(instance);
  if (rc >= 0)
    *ret_list = l;
  return rc;
}

uint32_t media_known_bad(const struct media_paths *p, const char *dir, uint64_t size, struct media_news *ret_news,
                         struct dax_bad ret_bad[DAX_BAD_MAX])
{
  struct media_news w = {.blocks = 0};
  w.blocks = dax_bad_ranges(dir, size, &w.why_blocks, ret_bad);
  uint32_t n = w.blocks > 0 ? (uint32_t)w.blocks : 0;
  w.lists = media_bad_ranges(p, dir, size, &w.why_lists, ret_bad + n, DAX_BAD_MAX - n, &w.list);
  n += w.lists > 0 ? (uint32_t)w.lists : 0;
  *ret_news = w;
  return dax_bad_merge(ret_bad, n);
}
