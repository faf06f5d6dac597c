/* SPDX-License-Identifier: Apache-2.0 */
/* The section usage of the file. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/units.h"
#include "include/priv/bits.h"
#include "mover/config_file.h"
#include "mover/line.h"
#include "mover/usage.h"

int config_set_usage(struct config *c, const char *key, const char *value, struct err *e)
{
  struct config_usage *u = &c->usage;
  uint64_t v;
  if (strcmp(key, "path") == 0 || strcmp(key, "line") == 0) {
    const char *t = config_own(c, value);
    *(*key == 'p' ? &u->path : &u->line) = t;
    return t ? 0 : -ENOMEM;
  }
  if (strcmp(key, "keep") == 0) {
    if (units_time(value, &v) < 0 || v < 60000000000u)
      return err_set(e, -EINVAL, "config: usage.keep: '%.60s' is not a time of at least 1m, such as 12h or 7d", value);
    u->keep_s = v / 1000000000u;
    return 0;
  }
  if (strcmp(key, "max") == 0) {
    if (units_bytes(value, &v) < 0 || v < KIB(64) || v > (1ull << 40))
      return err_set(e, -EINVAL, "config: usage.max: '%.60s' is not a size in 64KiB..1TiB", value);
    u->max_bytes = v;
    return 0;
  }
  return err_set(e, -EINVAL, "config: usage.%s: unknown key", key);
}

int config_usage_check(const struct config *c, struct err *e)
{
  char dir[2][PATH_MAX];
  struct line unused;
  struct stat st;
  if (c->usage.path && c->usage.path[0] != '/')
    return err_set(e, -EINVAL, "config: usage.path: need an absolute path, have '%.80s'", c->usage.path);
  if (c->usage.path && !usage_db_built())
    return err_set(e, -EINVAL, "config: usage.path: this drayd was built without SQLite; usage.line is there");
  int r = c->usage.line ? line_parse(c->usage.line, &unused, e) : 0;
  usage_dirs(&c->usage, dir);
  for (int i = 0; r == 0 && i < 2; i++)
    if (*dir[i] && (stat(dir[i], &st) < 0 || !S_ISDIR(st.st_mode)))
      r = err_set(e, -ENOENT, "config: usage: there is no directory '%.200s': make it, writable for the mover alone",
                  dir[i]);
  return r;
}
