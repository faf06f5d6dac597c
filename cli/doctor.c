/* SPDX-License-Identifier: Apache-2.0 */
/* dray doctor: is this machine fit for a mover; for what is not, the fix. */
#include "cli/doctor.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <dray/admin.h>

#include "base/units.h"
#include "cli/cli.h"
#include "cli/dax.h"
#include "cli/table.h"
#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "transports/topology.h"

static const char usage[] = "usage: dray doctor [--json] [--socket PATH] [--admin PATH] [--token SECRET]\n"
                            "Is this machine fit for a mover? Each row: ok, warn or fail, with the fix. Exit 0 all "
                            "good, 3 a warning, 1 a failure.\n" CLI_OPTIONS_HELP;

struct doctor_row *doctor_add(struct doctor *d, enum doctor_level level, const char *what, const char *have, ...)
{
  struct doctor_row *r = &d->row[MIN_OF(d->n, DOCTOR_ROWS_MAX - 1u)];
  va_list ap;
  *r = (struct doctor_row){.level = level, .what = what};
  va_start(ap, have);
  vsnprintf(r->have, sizeof r->have, have, ap);
  va_end(ap);
  if (d->n < DOCTOR_ROWS_MAX)
    d->n++;
  return r;
}

void doctor_fix(struct doctor_row *r, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(r->fix, sizeof r->fix, fmt, ap);
  va_end(ap);
}

int64_t doctor_number(const char *path)
{
  char line[64] = "";
  uint64_t v;
  CLEAN_FILE *f = fopen(path, "re");
  if (!f || !fgets(line, sizeof line, f))
    return -1;
  line[strcspn(line, "\n")] = 0;
  return units_count(line, 0, INT64_MAX, &v) < 0 ? -1 : (int64_t)v;
}

static const char *limit_text(rlim_t v, bool bytes, char *buf, size_t n)
{
  if (v == RLIM_INFINITY)
    return "unlimited";
  if (bytes)
    return units_format_bytes(v, buf, n);
  snprintf(buf, n, "%llu", (unsigned long long)v);
  return buf;
}

static void check_limits(struct doctor *d)
{
  struct rlimit l;
  char have[32];
  if (getrlimit(RLIMIT_MEMLOCK, &l) == 0) {
    bool enough = l.rlim_cur == RLIM_INFINITY || l.rlim_cur >= MIB(64) || geteuid() == 0;
    struct doctor_row *r =
        doctor_add(d, enough ? DOCTOR_OK : DOCTOR_WARN, "memlock", "%s%s",
                   limit_text(l.rlim_cur, true, have, sizeof have), geteuid() == 0 ? " (root is not held to it)" : "");
    if (!enough)
      doctor_fix(r, "LimitMEMLOCK=infinity in the unit, or ulimit -l: registered buffers of disk tiers count against "
                    "it (want 64 MiB)");
  }
  if (getrlimit(RLIMIT_NOFILE, &l) == 0) {
    bool enough = l.rlim_cur == RLIM_INFINITY || l.rlim_cur >= 4096;
    struct doctor_row *r = doctor_add(d,
                                      enough              ? DOCTOR_OK
                                      : l.rlim_cur >= 256 ? DOCTOR_WARN
                                                          : DOCTOR_FAIL,
                                      "open files", "%s", limit_text(l.rlim_cur, false, have, sizeof have));
    if (!enough)
      doctor_fix(
          r, "LimitNOFILE=65536 in the unit, or ulimit -n: each session, region and slab is a descriptor (want 4096)");
  }
  int64_t maps = doctor_number("/proc/sys/vm/max_map_count");
  struct doctor_row *r =
      doctor_add(d, maps >= 65530 ? DOCTOR_OK : DOCTOR_WARN, "vm.max_map_count", "%lld", (long long)maps);
  if (maps < 65530)
    doctor_fix(r, "sysctl -w vm.max_map_count=262144: each slab is a mapping");
}

static void check_shm(struct doctor *d)
{
  struct statvfs v;
  char all[32], left[32];
  if (statvfs("/dev/shm", &v) < 0) {
    doctor_fix(
        doctor_add(d, DOCTOR_OK, "/dev/shm", "%s; only an emulated cxl tier kept there needs it", strerror(errno)),
        "mount -t tmpfs tmpfs /dev/shm");
    return;
  }
  uint64_t size = (uint64_t)v.f_blocks * v.f_frsize, unused = (uint64_t)v.f_bavail * v.f_frsize;
  bool small = unused < MIB(256);
  struct doctor_row *r =
      doctor_add(d, small ? DOCTOR_WARN : DOCTOR_OK, "/dev/shm", "%s, %s free",
                 units_format_bytes(size, all, sizeof all), units_format_bytes(unused, left, sizeof left));
  if (small)
    doctor_fix(r, "mount -o remount,size=8G /dev/shm, or --shm-size of the container: engines and emulated tiers share "
                  "memory there");
}

/* Entries of a directory that begin with prefix and go on with a digit; their names, joined. */
static unsigned count_entries(const char *path, const char *prefix, char *names, size_t room)
{
  unsigned n = 0;
  size_t at = 0, skip = strlen(prefix);
  DIR *dir = opendir(path);
  names[0] = 0;
  for (struct dirent *e; dir && (e = readdir(dir));) {
    if (strncmp(e->d_name, prefix, skip) != 0 || e->d_name[skip] < '0' || e->d_name[skip] > '9')
      continue;
    if (at < room)
      at += (size_t)snprintf(names + at, room - at, "%s%s", n ? " " : "", e->d_name);
    n++;
  }
  if (dir)
    closedir(dir);
  return n;
}

static void check_dax(void *ctx, const struct dax_device *v)
{
  struct doctor *d = ctx;
  char size[32], align[32], node[64];
  struct doctor_row *r = doctor_add(d, DOCTOR_OK, "dax devices", "%s: %s, align %s, mode %s, node %d", v->name,
                                    units_format_bytes(v->size, size, sizeof size),
                                    units_format_bytes(v->align, align, sizeof align), dax_device_mode(v), v->node);
  snprintf(node, sizeof node, "/dev/%s", v->name);
  if (!v->size) {
    r->level = DOCTOR_WARN;
    doctor_fix(r, "left by a failed create: daxctl destroy-device %s", v->name);
  } else if (strcmp(v->driver, "kmem") == 0) {
    doctor_fix(r, "it is the kernel's memory now; for a cxl tier: daxctl reconfigure-device --mode=devdax %s", v->name);
  } else if (!v->driver[0]) {
    r->level = DOCTOR_WARN;
    doctor_fix(r, "daxctl enable-device %s", v->name);
  } else if (access(node, R_OK | W_OK) < 0) {
    r->level = DOCTOR_WARN;
    doctor_fix(r, "the mover's user needs read and write on %s (%s): a udev rule with GROUP= and MODE=\"0660\"", node,
               strerror(errno));
  }
}

static void check_devices(struct doctor *d)
{
  char names[120];
  if (!dax_device_each(check_dax, d))
    doctor_fix(doctor_add(d, DOCTOR_OK, "dax devices", "none: a cxl tier is emulated by a file, and says so"),
               "CXL memory: cxl create-region, then daxctl reconfigure-device --mode=devdax");
  unsigned mems = count_entries("/sys/bus/cxl/devices", "mem", names, sizeof names);
  unsigned regions = mems ? count_entries("/sys/bus/cxl/devices", "region", names, sizeof names) : 0;
  struct doctor_row *cxl = mems ? doctor_add(d, DOCTOR_OK, "CXL memory", "%u devices, %u regions", mems, regions)
                                : doctor_add(d, DOCTOR_OK, "CXL memory", "none");
  if (mems && !regions) {
    cxl->level = DOCTOR_WARN;
    doctor_fix(cxl, "it is in no region and cannot be used: cxl create-region -d decoder0.0 -m mem0");
  }
  struct err why = {{0}};
  int lists = mems ? topology_poison_lists(&why) : -ENOENT;
  if (lists == 0)
    doctor_add(d, DOCTOR_OK, "CXL poison",
               "the devices' lists are read when a tier is opened; an empty one proves nothing");
  else if (lists != -ENOENT)
    doctor_fix(doctor_add(d, DOCTOR_WARN, "CXL poison", "no list can be read: %.120s", why.text),
               "bad memory is met when it is touched; badblocks of a region are read all the same");
  unsigned nodes = count_entries("/sys/devices/system/node", "node", names, sizeof names);
  doctor_add(d, DOCTOR_OK, "NUMA nodes", nodes > 1 ? "%u: %s" : "%u: no far memory tier by itself", nodes ? nodes : 1,
             names);
}

/* A tier that is written and never read costs bandwidth and gives nothing: somebody should know. */
static void check_use(struct doctor *d, const char *status)
{
  json_t *o = json_loads(status, 0, NULL), *v;
  const char *tier;
  const json_t *c = json_object_get(o, "counters"), *hits = json_object_get(c, "hits_by_tier");
  json_object_foreach(json_object_get(c, "bytes_by_tier"), tier, v)
  {
    char bytes[32];
    if (json_integer_value(v) <= 0 || json_integer_value(json_object_get(hits, tier)) > 0)
      continue;
    struct doctor_row *r = doctor_add(d, DOCTOR_WARN, "unread tier", "%s: %s written, nothing ever read", tier,
                                      units_format_bytes((uint64_t)json_integer_value(v), bytes, sizeof bytes));
    doctor_fix(r,
               "are the keys of reads those of writes (dray cells), and is the tier worth its latency (calibration)?");
  }
  json_decref(o);
}

static void check_mover(struct doctor *d, const struct cli_options *o)
{
  char *answer = NULL;
  int r = dray_admin_call(o->admin, "{\"verb\":\"status\"}", 3000, &answer);
  if (r == 0)
    check_use(d, answer);
  free(answer);
  struct dray_params p = {.size = sizeof p,
                          .socket = o->socket,
                          .agent = o->agent,
                          .token = o->token,
                          .entries = 1,
                          .items = 1,
                          .timeout_ms = 3000};
  struct dray *s = NULL;
  int e = dray_open(&p, &s);
  if (e == 0) {
    doctor_add(d, r == 0 || r == -EACCES ? DOCTOR_OK : DOCTOR_WARN, "mover",
               "serves; this would be a session of tenant %s%s", dray_tenant(s),
               r == -EACCES ? "; the admin socket is not ours"
               : r < 0      ? "; but its admin socket does not answer"
                            : "");
    dray_close(s);
    return;
  }
  struct doctor_row *row = doctor_add(d, DOCTOR_WARN, "mover", "%s%s", dray_open_error(e),
                                      r == 0 ? ", though its admin socket answers" : "");
  if (e == -EACCES)
    doctor_fix(row, "--token SECRET or DRAY_TOKEN says who asks; or the mover's configuration lists this uid");
  else
    doctor_fix(row, "systemctl start drayd, or drayd --dir DIR; --socket PATH or DRAY_SOCKET says where it listens");
}

static int show(const struct doctor *d, bool json)
{
  static const char *const names[] = {"?", "ok", "warn", "fail"}, *const colors[] = {"", "\033[32m", "\033[33m",
                                                                                     "\033[31m"};
  enum doctor_level worst = DOCTOR_OK;
  json_t *list = json_array();
  int width = 0;
  for (unsigned i = 0; i < d->n; i++)
    width = MAX_OF(width, (int)strlen(d->row[i].what));
  for (unsigned i = 0; i < d->n; i++) {
    const struct doctor_row *r = &d->row[i];
    worst = MAX_OF(worst, r->level);
    if (json) {
      json_t *j = json_object();
      json_object_set_new(j, "level", json_string(names[r->level]));
      json_object_set_new(j, "what", json_string(r->what));
      json_object_set_new(j, "have", json_string(r->have));
      json_object_set_new(j, "fix", json_string(r->fix));
      json_array_append_new(list, j);
      continue;
    }
    printf("%s%-4s%s  %-*s  %s\n", cli_color() ? colors[r->level] : "", names[r->level], cli_color() ? "\033[0m" : "",
           width, r->what, r->have);
    if (r->fix[0])
      printf("      %-*s  %s %s\n", width, "", r->level == DOCTOR_OK ? "better:" : "fix:", r->fix);
  }
  if (json) {
    json_t *o = json_object();
    json_object_set(o, "rows", list);
    json_object_set_new(o, "worst", json_string(names[worst]));
    cli_print_new(o);
  }
  json_decref(list);
  return worst == DOCTOR_FAIL ? EXIT_ERROR : worst == DOCTOR_WARN ? EXIT_DEGRADED : EXIT_OK;
}

int cli_doctor(int argc, char **argv)
{
  struct cli_options o = {0};
  struct doctor d = {.n = 0};
  int code;
  if (!cli_plain(argc, argv, usage, &o, &code))
    return code;
  doctor_kernel(&d);
  doctor_verbs(&d);
  check_limits(&d);
  check_shm(&d);
  check_devices(&d);
  check_mover(&d, &o);
  return show(&d, o.json);
}
