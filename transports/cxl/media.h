/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What CXL memory devices themselves remember to be bad. The kernel has no file of it: `trigger_poison_list` makes the
 * driver fetch a device's list and tell it as trace events (cxl_poison). An empty list proves nothing.
 */
#ifndef TRANSPORTS_CXL_MEDIA_H
#define TRANSPORTS_CXL_MEDIA_H

#include <stdbool.h>
#include <stdint.h>

#include "include/priv/err.h"
#include "transports/cxl/bad.h"

/* Where the kernel shows itself; tests bring their own. */
struct media_paths {
  const char *bus;   /* /sys/bus/cxl/devices */
  const char *trace; /* /sys/kernel/tracing */
};
extern const struct media_paths media_kernel;

struct media_list {
  uint32_t asked;    /* devices whose list was fetched */
  uint32_t records;  /* that they told */
  uint32_t homeless; /* of these: at no address, so whose they are is not known */
  bool cut;          /* a device or the kernel's buffer had more than was told */
};

/* Can the lists of this machine's CXL memory be read. 0; -ENOENT: there is no such memory; -ENOTSUP, -EACCES, -errno: e
   says what is absent. */
int media_offered(const struct media_paths *p, struct err *e);
/* dir: a dax device's sysfs directory. Has all lists fetched; records that lie in the device become ranges of it. How
   many (at most room are given). -ENOENT: the device does not lie on CXL memory; else as media_offered(). */
int media_bad_ranges(const struct media_paths *p, const char *dir, uint64_t size, struct err *e,
                     struct dax_bad *ret_bad, uint32_t room, struct media_list *ret_list);

/* What each list said. */
struct media_news {
  int blocks; /* dax_bad_ranges() */
  int lists;  /* media_bad_ranges() */
  struct err why_blocks, why_lists;
  struct media_list list; /* with lists >= 0 */
};
/* All that is known to be bad of a device before it is touched, each place once: the kernel's list and the CXL devices'
   own. How many ranges. */
uint32_t media_known_bad(const struct media_paths *p, const char *dir, uint64_t size, struct media_news *ret_news,
                         struct dax_bad ret_bad[DAX_BAD_MAX]);
#endif
