/* SPDX-License-Identifier: Apache-2.0 */
/* Device-dax devices and the CXL memory behind them, as sysfs and libcxl have them; for people, without a mover. */
#ifndef CLI_DAX_H
#define CLI_DAX_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#define DAX_RANGES_MAX 16u

struct dax_device {
  char name[32];   /* dax0.0 */
  char driver[32]; /* device_dax, kmem, "" */
  uint64_t size, align;
  int32_t node; /* -1: none said */
  uint32_t ranges_n;
  struct {
    uint64_t start, end; /* physical, both in it; root's to read: else ranges_n is 0 */
  } range[DAX_RANGES_MAX];
};

/* The device called name. 0 or -ENOENT. */
int dax_device_read(const char *name, struct dax_device *ret_device);
/* The device at a path (/dev/dax0.0, or a link to it). 0, -ENOTSUP: no dax device, -errno. */
int dax_device_at(const char *path, struct dax_device *ret_device);
/* "devdax", "system-ram", "no driver" */
const char *dax_device_mode(const struct dax_device *d);
/* Its row of `dray tiers --verbose --json`. */
json_t *dax_device_json(const struct dax_device *d);
/* Calls fn for each device of the machine, by name. How many. */
unsigned dax_device_each(void (*fn)(void *ctx, const struct dax_device *d), void *ctx);

/* CXL memory devices and regions: {"memdevs": [...], "regions": [...]}; NULL: there are none, or (*ret_known false)
   this build has no libcxl. The caller decrefs. */
json_t *cxl_topology(bool *ret_known);
#endif
