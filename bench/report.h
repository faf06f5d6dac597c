/* SPDX-License-Identifier: Apache-2.0 */
/* Figures and how they are shown: a table for people, the JSON of USERS.md for scripts. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "bench/hist.h"

#define REPORT_ROUNDS_MAX 256
#define REPORT_PCTS 4
/* 0.5, 0.9, 0.99, 0.999 */
extern const double report_pct[REPORT_PCTS];

/* Samples of one figure, one per round. */
struct series {
  double v[REPORT_ROUNDS_MAX];
  uint32_t n;
};
void series_add(struct series *s, double v);
/* q in 0..1; 0 when empty. */
double series_quantile(const struct series *s, double q);

struct result {
  char name[48];
  const char *unit;
  bool lower; /* better */
  struct series ours, theirs;
  const char *versus; /* NULL: nothing to compare with */
  char rival[24];     /* where versus may point to */
  const char *path;
  bool verified;
  double bar;              /* the ratio it is held to, at most when lower is better, at least otherwise; 0: none */
  uint32_t dropped;        /* rounds left out, and why */
  double pct[REPORT_PCTS]; /* ns: latency of single operations at report_pct; all 0: not kept */
  char note[160];
};

#define REPORT_RESULTS_MAX 128
struct report {
  struct result *row[REPORT_RESULTS_MAX];
  uint32_t n;
  bool partial; /* stopped before its time: rows hold what rounds there were */
};
/* A zeroed result, listed; NULL when full. The name is cut at 47 bytes. */
struct result *report_add(struct report *r, const char *name, const char *unit, bool lower);
/* ours over theirs, medians. */
double result_ratio(const struct result *r);
/* Held to a bar and within it, or held to none. */
bool result_met(const struct result *r);
/* Keeps the percentiles of h. */
void result_latency(struct result *r, const struct hist *h);
enum report_form { REPORT_TABLE = 1, REPORT_JSON = 2, REPORT_CSV = 3 };
void report_print(const struct report *r, FILE *f, enum report_form form);
/* A page with plots that needs nothing else: ratios against their bars, each row's rounds. */
void report_html(const struct report *r, FILE *f);
/* Processor, kernel, date; the caller decrefs. */
struct json_t *report_machine(void);
void report_free(struct report *r);
#endif
