/* SPDX-License-Identifier: Apache-2.0 */
/* Measures what a calibration says of a machine, several times over. */
#ifndef BENCH_CALIBRATE_H
#define BENCH_CALIBRATE_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "bench/report.h"

#define CALIBRATE_FIGURES_MAX 32u
#define CALIBRATE_NOISY 0.15 /* a value further from its median than this share of it: the figure is marked */

struct calibrate_options {
  uint32_t repeats;   /* 1..32 */
  const char *device; /* cxl: a dax device or file, NULL: not measured; it is only read */
  const char *dir;    /* disk: a directory on it, NULL: not measured; 512 MiB are written and removed */
  bool quick, progress;
};
struct figure {
  char key[56]; /* where it stands in the file: "tiers.dram.ReadLatencyNanos", "dray.copy.stream_min_bytes" */
  const char *unit;
  struct series v; /* one value a repeat */
};
struct calibration {
  struct figure figure[CALIBRATE_FIGURES_MAX];
  uint32_t n;
};

/* Runs it all. 0; 1 after a message. Stopped early (stop_asked): 1. */
int calibrate_run(const struct calibrate_options *o, struct calibration *ret);
double figure_median(const struct figure *f);
/* Furthest value from the median, as a share of it. */
double figure_spread(const struct figure *f);
/* The file: TIERS.md's keys, ours under dray, and dray.measured: date, host, method, and of each figure its spread. The
   caller decrefs. */
json_t *calibrate_json(const struct calibration *c);
/* The number of a key in such a file; false: it is not there. */
bool calibrate_lookup(json_t *file, const char *key, double *ret);
#endif
