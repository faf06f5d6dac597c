/* SPDX-License-Identifier: Apache-2.0 */
/* Figures and how they are shown: a table for people, the JSON of USERS.md for scripts. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define REPORT_ROUNDS_MAX 256

/* Samples of one figure, one per round. */
struct series {
  double v[REPORT_ROUNDS_MAX];
  uint32_t n;
};
void series_add(struct series *s, double v);
/* q in 0..1; 0 when empty. */
double series_quantile(const struct series *s, double q);

struct result {
  const char *name, *unit;
  bool lower; /* better */
  struct series ours, theirs;
  const char *versus; /* NULL: nothing to compare with */
  const char *path;
  bool verified;
  double bar;       /* the ratio it is held to; 0: none */
  uint32_t dropped; /* rounds left out, and why */
  char note[120];
};

#define REPORT_RESULTS_MAX 32
struct report {
  struct result *row[REPORT_RESULTS_MAX];
  uint32_t n;
};
/* A zeroed result, listed; NULL when full. */
struct result *report_add(struct report *r, const char *name, const char *unit, bool lower);
/* ours over theirs, medians. */
double result_ratio(const struct result *r);
void report_print(const struct report *r, FILE *f, bool json);
void report_free(struct report *r);
#endif
