/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/report.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

void series_add(struct series *s, double v)
{
  if (s->n < REPORT_ROUNDS_MAX)
    s->v[s->n++] = v;
}

static int by_value(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

double series_quantile(const struct series *s, double q)
{
  double v[REPORT_ROUNDS_MAX];
  if (s->n == 0)
    return 0;
  memcpy(v, s->v, s->n * sizeof *v);
  qsort(v, s->n, sizeof *v, by_value);
  uint32_t i = (uint32_t)(q * (s->n - 1) + 0.5);
  return v[i];
}

struct result *report_add(struct report *r, const char *name, const char *unit, bool lower)
{
  struct result *x = r->n < REPORT_RESULTS_MAX ? calloc(1, sizeof *x) : NULL;
  if (!x)
    return NULL;
  x->name = name;
  x->unit = unit;
  x->lower = lower;
  x->path = "none";
  r->row[r->n++] = x;
  return x;
}

double result_ratio(const struct result *r)
{
  double theirs = series_quantile(&r->theirs, 0.5);
  return theirs > 0 ? series_quantile(&r->ours, 0.5) / theirs : 0;
}

/* Of what is better lower the bar is a ceiling. */
static bool result_meets(const struct result *r)
{
  double ratio = result_ratio(r);
  return ratio > 0 && (r->lower ? ratio <= r->bar : ratio >= r->bar);
}

static json_t *machine(void)
{
  struct utsname u;
  char line[256], cpu[200] = "?", when[32];
  json_t *m = json_object();
  uname(&u);
  FILE *f = fopen("/proc/cpuinfo", "re");
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "model name : %199[^\n]", cpu) == 1)
      break;
  if (f)
    fclose(f);
  time_t t = time(NULL);
  struct tm tm;
  gmtime_r(&t, &tm);
  strftime(when, sizeof when, "%FT%TZ", &tm);
  json_object_set_new(m, "cpu", json_string(cpu));
  json_object_set_new(m, "cpus", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
  json_object_set_new(m, "kernel", json_string(u.release));
  json_object_set_new(m, "date", json_string(when));
  return m;
}

/* Three digits are what the machine's noise leaves. */
static json_t *number(double v)
{
  if (v == 0 || !isfinite(v))
    return json_real(0);
  double scale = pow(10, 3 - floor(log10(fabs(v))));
  return json_real(round(v * scale) / scale);
}

static void print_json(const struct report *r, FILE *f)
{
  json_t *o = json_object(), *list = json_array();
  json_object_set_new(o, "schema_version", json_integer(1));
  json_object_set_new(o, "machine", machine());
  for (uint32_t i = 0; i < r->n; i++) {
    const struct result *x = r->row[i];
    json_t *j = json_object();
    json_object_set_new(j, "name", json_string(x->name));
    json_object_set_new(j, "unit", json_string(x->unit));
    json_object_set_new(j, "better", json_string(x->lower ? "lower" : "higher"));
    json_object_set_new(j, "rounds", json_integer(x->ours.n));
    json_object_set_new(j, "median", number(series_quantile(&x->ours, 0.5)));
    json_object_set_new(j, "p10", number(series_quantile(&x->ours, 0.1)));
    json_object_set_new(j, "p90", number(series_quantile(&x->ours, 0.9)));
    if (x->versus && x->theirs.n) {
      json_object_set_new(j, "versus", json_string(x->versus));
      json_object_set_new(j, "versus_median", number(series_quantile(&x->theirs, 0.5)));
      json_object_set_new(j, "ratio", number(result_ratio(x)));
    }
    if (x->bar > 0) {
      json_object_set_new(j, "bar", json_real(x->bar));
      json_object_set_new(j, "met", json_boolean(result_meets(x)));
    }
    json_object_set_new(j, "path", json_string(x->path));
    json_object_set_new(j, "verified", json_boolean(x->verified));
    if (x->dropped)
      json_object_set_new(j, "rounds_dropped", json_integer(x->dropped));
    if (x->note[0])
      json_object_set_new(j, "note", json_string(x->note));
    json_array_append_new(list, j);
  }
  json_object_set_new(o, "results", list);
  char *text = json_dumps(o, JSON_INDENT(1));
  if (text)
    fprintf(f, "%s\n", text);
  free(text);
  json_decref(o);
}

void report_print(const struct report *r, FILE *f, bool json)
{
  if (json) {
    print_json(r, f);
    return;
  }
  fprintf(f, "%-28s %12s %12s %12s %-6s %-30s %12s %7s %6s %s\n", "name", "median", "p10", "p90", "unit", "versus",
          "median", "ratio", "rounds", "verified");
  for (uint32_t i = 0; i < r->n; i++) {
    const struct result *x = r->row[i];
    bool cmp = x->versus && x->theirs.n;
    int digits = strcmp(x->unit, "GB/s") == 0 ? 2 : 1;
    fprintf(f, "%-28s %12.*f %12.*f %12.*f %-6s %-30s ", x->name, digits, series_quantile(&x->ours, 0.5), digits,
            series_quantile(&x->ours, 0.1), digits, series_quantile(&x->ours, 0.9), x->unit, cmp ? x->versus : "-");
    if (cmp)
      fprintf(f, "%12.*f %7.2f ", digits, series_quantile(&x->theirs, 0.5), result_ratio(x));
    else
      fprintf(f, "%12s %7s ", "-", "-");
    fprintf(f, "%6u %s%s%s", x->ours.n, x->verified ? "yes" : "no", x->note[0] ? "  " : "", x->note);
    if (x->bar > 0)
      fprintf(f, "  bar %.2f: %s", x->bar, result_meets(x) ? "pass" : "short");
    fputc('\n', f);
  }
}

void report_free(struct report *r)
{
  for (uint32_t i = 0; i < r->n; i++)
    free(r->row[i]);
  r->n = 0;
}
