/* SPDX-License-Identifier: Apache-2.0 */
/* A device-dax device (or a file that stands for one) by load and store: throughput of some threads, share of the link,
   latency of dependent loads, what is online and what is known to be bad. Nothing is assumed. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/link.h"
#include "bench/memory.h"
#include "include/priv/bits.h"
#include "transports/device.h"

#define FALLBACK_ALIGN MIB(2)

struct device {
  int fd;
  char *base;
  uint64_t bytes, align, poisoned;
  char bad_note[120]; /* where the poisoned bytes come from, or why nobody knows */
  bool dax;
};

static void device_close(struct device *d)
{
  if (d->base)
    munmap(d->base, d->bytes);
  if (d->fd >= 0)
    close(d->fd);
}

static int device_open(struct device *d, const struct bench_options *o, bool write)
{
  struct err e = {{0}};
  struct device_facts facts;
  struct stat st;
  char magic[8] = "";
  *d = (struct device){.fd = open(o->device, (write ? O_RDWR : O_RDONLY) | O_CLOEXEC), .align = FALLBACK_ALIGN};
  if (d->fd < 0 || fstat(d->fd, &st) < 0) {
    fprintf(stderr, "bench cxl: %s: %s: `dray tiers --verbose` and `daxctl list` show what there is\n", o->device,
            strerror(errno));
    return -1;
  }
  /* the lock that a mover holds while it has the device */
  if (flock(d->fd, LOCK_EX | LOCK_NB) < 0) {
    fprintf(stderr, "bench cxl: %s: a mover has it (or cannot be locked: %s): stop that one first\n", o->device,
            strerror(errno));
    return -1;
  }
  if (S_ISCHR(st.st_mode)) {
    d->dax = true;
    if (device_facts(&st, &e, &facts) < 0) {
      fprintf(stderr, "bench cxl: %s: %s\n", o->device, e.text);
      return -1;
    }
    d->bytes = facts.size;
    d->align = facts.align;
    d->poisoned = facts.poisoned;
    snprintf(d->bad_note, sizeof d->bad_note, "%s", facts.bad_from);
  } else if (S_ISREG(st.st_mode)) {
    d->bytes = (uint64_t)st.st_size;
    snprintf(d->bad_note, sizeof d->bad_note, "a file: nobody knows");
  } else {
    fprintf(stderr, "bench cxl: %s: neither a device nor a file\n", o->device);
    return -1;
  }
  uint64_t want = o->size ? o->size : d->bytes;
  if (want > d->bytes || want % d->align || want == 0) {
    fprintf(stderr, "bench cxl: %s: --size: need a multiple of %" PRIu64 " up to %" PRIu64 ", have %" PRIu64 "\n",
            o->device, d->align, d->bytes, want);
    return -1;
  }
  d->bytes = want;
  d->base = mmap(NULL, d->bytes, PROT_READ | (write ? PROT_WRITE : 0), MAP_SHARED, d->fd, 0);
  if (d->base == MAP_FAILED) {
    d->base = NULL;
    fprintf(stderr, "bench cxl: %s: mapping %" PRIu64 " bytes: %s\n", o->device, d->bytes, strerror(errno));
    return -1;
  }
  struct guard_hit hit;
  uint8_t path;
  if (write && guard_copy(&copy_plan_default, magic, d->base, sizeof magic, COPY_FRAGILE, &hit, &path) == 0 &&
      !o->overwrite && memcmp(magic, "DRAYCXL", 7) == 0) {
    fprintf(stderr, "bench cxl: %s holds a mover's directory, and --rw %s overwrites it: --overwrite if it may go\n",
            o->device, o->rw == TOUCH_COPY ? "copy" : "write");
    return -1;
  }
  return 0;
}

static void add_bytes(struct report *r, const char *name, uint64_t bytes, const char *note)
{
  struct result *x = report_add(r, name, "bytes", false);
  if (!x)
    return;
  series_add(&x->ours, (double)bytes);
  x->verified = true;
  snprintf(x->note, sizeof x->note, "%s", note);
}

int bench_cxl(const struct bench_options *o, struct report *r)
{
  struct device d;
  if (!o->device) {
    fprintf(stderr,
            "bench cxl: --device: need a device-dax node (/dev/dax0.0) or a file on tmpfs, hugetlbfs or famfs\n");
    return 1;
  }
  bool write = o->rw == TOUCH_WRITE || o->rw == TOUCH_COPY;
  int bad = guard_install() < 0 || device_open(&d, o, write) < 0;
  if (!bad) {
    uint32_t links = 0;
    double gbps = o->link_gbps > 0 ? o->link_gbps : d.dax ? link_cxl_gbps("/sys/bus/cxl/devices", &links) : 0;
    struct memory m = {.what = "cxl", .base = d.base, .bytes = d.bytes, .options = o, .link_gbps = gbps};
    add_bytes(r, "cxl.online", d.bytes, d.dax ? "device-dax" : "a file stands for the device");
    add_bytes(r, "cxl.poisoned", d.poisoned, d.bad_note);
    bad = memory_rate(&m, r, o->rw ? (enum touch_rw)o->rw : TOUCH_READ, o->threads ? o->threads : 1) ||
          memory_latency(&m, r);
  }
  device_close(&d);
  return bad;
}
