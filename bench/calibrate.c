/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/calibrate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/copy_measure.h"
#include "bench/bench.h"
#include "bench/stop.h"
#include "include/priv/bits.h"
#include "include/priv/cleanup.h"

#define COPY_NS 600000000ull
#define LANES_WORTH 1.15 /* what another lane must add to be worth a CPU */

static void figure_add(struct calibration *c, const char *key, const char *unit, double v)
{
  uint32_t i = 0;
  while (i < c->n && strcmp(c->figure[i].key, key) != 0)
    i++;
  if (i == CALIBRATE_FIGURES_MAX)
    return;
  struct figure *f = &c->figure[i];
  if (i == c->n) {
    c->n++;
    snprintf(f->key, sizeof f->key, "%s", key);
    f->unit = unit;
  }
  series_add(&f->v, v);
}

double figure_median(const struct figure *f)
{
  return series_quantile(&f->v, 0.5);
}

double figure_spread(const struct figure *f)
{
  double m = figure_median(f), most = 0;
  for (uint32_t i = 0; i < f->v.n; i++)
    most = fmax(most, fabs(f->v.v[i] - m));
  return m > 0 ? most / m : most > 0 ? 1 : 0;
}

/* The median of a row of a bench's report; 0 when it is not there. */
static double row_of(const struct report *r, const char *name)
{
  for (uint32_t i = 0; i < r->n; i++)
    if (strcmp(r->row[i]->name, name) == 0)
      return series_quantile(&r->row[i]->ours, 0.5);
  return 0;
}

static void add_row(struct calibration *c, const struct report *r, const char *row, const char *key, const char *unit,
                    double scale)
{
  double v = row_of(r, row) * scale;
  if (v > 0)
    figure_add(c, key, unit, round(v));
}

static int measure_dram(const struct bench_options *o, struct calibration *c)
{
  struct report r = {.n = 0};
  uint32_t cpus = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN), lanes = 1;
  char row[48];
  int bad = bench_mem(o, &r);
  snprintf(row, sizeof row, "mem.read.%ut", cpus);
  add_row(c, &r, row, "tiers.dram.BandwidthMBPerSec", "MB/s", 1000);
  add_row(c, &r, "mem.latency", "tiers.dram.ReadLatencyNanos", "ns", 1);
  /* each doubling that still pays; half the CPUs are the engines' */
  double before = row_of(&r, "mem.copy.1t");
  for (uint32_t n = 2; n <= MAX_OF(cpus / 2, 1u) && n <= 64; n *= 2) {
    snprintf(row, sizeof row, "mem.copy.%ut", n);
    double v = row_of(&r, row);
    if (v < before * LANES_WORTH)
      break;
    lanes = n;
    before = v;
  }
  figure_add(c, "dray.lanes", "lanes", lanes);
  report_free(&r);
  return bad;
}

static int measure_cxl(const struct bench_options *o, struct calibration *c)
{
  struct report r = {.n = 0};
  struct bench_options own = *o;
  char row[48];
  own.threads = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
  own.size = 0; /* all of the device */
  int bad = bench_cxl(&own, &r);
  snprintf(row, sizeof row, "cxl.read.%ut", own.threads);
  add_row(c, &r, row, "tiers.cxl.BandwidthMBPerSec", "MB/s", 1000);
  add_row(c, &r, "cxl.latency", "tiers.cxl.ReadLatencyNanos", "ns", 1);
  add_row(c, &r, "cxl.online", "tiers.cxl.CapacityBytes", "bytes", 1);
  report_free(&r);
  return bad;
}

static int measure_disk(const struct bench_options *o, struct calibration *c)
{
  struct report r = {.n = 0};
  int bad = bench_file(o, &r);
  add_row(c, &r, "file.read.1m", "tiers.disk.BandwidthMBPerSec", "MB/s", 1);
  add_row(c, &r, "file.latency.4k", "tiers.disk.ReadLatencyNanos", "ns", 1);
  report_free(&r);
  return bad;
}

static int measure_copy(struct calibration *c)
{
  struct copy_plan p;
  uint64_t ns;
  int r = copy_measure(COPY_NS, &p, &ns);
  if (r < 0) {
    fprintf(stderr, "calibrate: copies: %s: left out\n", strerror(-r));
    return 0;
  }
  const struct {
    const char *key, *unit;
    uint64_t v;
  } all[] = {{"dray.copy.stream_min_bytes", "bytes", p.stream_min},
             {"dray.copy.hot_stream_min_bytes", "bytes", p.hot_stream_min},
             {"dray.copy.movsb_min_bytes", "bytes", p.movsb_min},
             {"dray.copy.soon_max_bytes", "bytes", p.soon_max},
             {"dray.copy.hot_bytes", "bytes", p.hot_bytes},
             {"dray.copy.cold_mbps", "MB/s", p.cold_mbps},
             {"dray.copy.small", "method", p.small}};
  for (size_t i = 0; i < ARRAY_LEN(all); i++)
    figure_add(c, all[i].key, all[i].unit, (double)all[i].v);
  return 0;
}

int calibrate_run(const struct calibrate_options *o, struct calibration *ret)
{
  struct bench_options b = {
      .quick = o->quick, .rounds = o->quick ? 3 : 5, .dir = o->dir, .device = o->device, .verify = true};
  CLEAN_PTR struct calibration *c = calloc(1, sizeof *c);
  if (!c)
    return 1;
  for (uint32_t i = 0; i < o->repeats; i++) {
    if (o->progress)
      fprintf(stderr, "calibrate: %u of %u\n", i + 1, o->repeats);
    if (measure_dram(&b, c) || measure_copy(c) || (o->device && measure_cxl(&b, c)) ||
        (o->dir && measure_disk(&b, c)) || stop_asked())
      return 1;
  }
  *ret = *c;
  return 0;
}

/* The object that a key of three or two parts stands in, made when it is not there; *ret_leaf is its last part. */
static json_t *descend(json_t *root, const char *key, bool make, const char **ret_leaf)
{
  const char *dot;
  for (; (dot = strchr(key, '.')); key = dot + 1) {
    char part[32];
    snprintf(part, sizeof part, "%.*s", (int)MIN_OF((size_t)(dot - key), sizeof part - 1), key);
    json_t *o = json_object_get(root, part);
    if (!o && !make)
      return NULL;
    if (!o) {
      o = json_object();
      json_object_set_new(root, part, o);
    }
    root = o;
  }
  *ret_leaf = key;
  return root;
}

json_t *calibrate_json(const struct calibration *c)
{
  json_t *root = json_object(), *measured = json_object(), *figures = json_object(), *m = report_machine();
  char host[64] = "?", label[160];
  gethostname(host, sizeof host - 1);
  snprintf(label, sizeof label, "%s %s", host, json_string_value(json_object_get(m, "date")));
  json_object_set_new(root, "label", json_string(label));
  for (uint32_t i = 0; i < c->n; i++) {
    const struct figure *f = &c->figure[i];
    const char *leaf;
    json_t *at = descend(root, f->key, true, &leaf), *one = json_object(), *values = json_array();
    double median = figure_median(f);
    bool method = strcmp(f->unit, "method") == 0;
    json_object_set_new(at, leaf,
                        method ? json_string(copy_method_name((enum copy_method)median))
                               : json_integer((json_int_t)llround(median)));
    for (uint32_t k = 0; k < f->v.n; k++)
      json_array_append_new(values, json_real(f->v.v[k]));
    json_object_set_new(one, "unit", json_string(f->unit));
    json_object_set_new(one, "spread", json_real(round(figure_spread(f) * 1000) / 1000));
    json_object_set_new(one, "noisy", json_boolean(figure_spread(f) > CALIBRATE_NOISY));
    json_object_set_new(one, "values", values);
    json_object_set_new(figures, f->key, one);
  }
  json_object_set_new(measured, "host", json_string(host));
  json_object_set_new(measured, "machine", m);
  json_object_set_new(
      measured, "method",
      json_string("dray calibrate: medians of repeats; read bandwidth of as many threads as CPUs, median "
                  "of dependent loads; disk through a mover: depth 32 of 1 MiB, depth 1 of 4 KiB"));
  json_object_set_new(measured, "figures", figures);
  const char *leaf;
  json_object_set_new(descend(root, "dray.measured", true, &leaf), "measured", measured);
  return root;
}

bool calibrate_lookup(json_t *file, const char *key, double *ret)
{
  const char *leaf;
  json_t *at = descend(file, key, false, &leaf), *v = at ? json_object_get(at, leaf) : NULL;
  if (json_is_string(v)) {
    for (int by = COPY_BY_MEMCPY; by <= COPY_BY_STREAM; by++)
      if (strcmp(copy_method_name((enum copy_method)by), json_string_value(v)) == 0) {
        *ret = by;
        return true;
      }
    return false;
  }
  if (!json_is_number(v))
    return false;
  *ret = json_number_value(v);
  return true;
}
