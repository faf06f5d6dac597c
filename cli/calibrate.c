/* SPDX-License-Identifier: Apache-2.0 */
/* dray calibrate: measures this machine and writes the file that drayd decides by; --check says what has drifted since.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "bench/calibrate.h"
#include "bench/stop.h"
#include "cli/cli.h"
#include "cli/table.h"
#include "include/priv/cleanup.h"
#include "policy/profile.h"

static const char usage[] =
    "usage: dray calibrate [--out FILE] [--check FILE] [--repeat N] [--dir DIR] [--device PATH] [--quick] [--json]\n"
    "Measures memory and copies, and with --dir the disk below it, with --device a cxl device (only read); prints the\n"
    "calibration, or writes it to --out, whole or not at all. `calibration: FILE` in drayd's configuration reads it.\n"
    "  --check FILE    instead of writing: each number of FILE that is measured, then and now; exit 3 when one is more "
    "than\n"
    "                  --tolerance off and not merely noisy now\n"
    "  --tolerance PERCENT  (15)\n"
    "  --repeat N      (3) how often; a figure is the median, and `noisy` when one is over 15 % from it\n";

enum { OPT_OUT = 1, OPT_CHECK, OPT_REPEAT, OPT_DIR, OPT_DEVICE, OPT_QUICK, OPT_JSON, OPT_TOLERANCE, OPT_HELP };
static const struct option opts[] = {
    {"out", required_argument, NULL, OPT_OUT},       {"check", required_argument, NULL, OPT_CHECK},
    {"repeat", required_argument, NULL, OPT_REPEAT}, {"dir", required_argument, NULL, OPT_DIR},
    {"device", required_argument, NULL, OPT_DEVICE}, {"quick", no_argument, NULL, OPT_QUICK},
    {"json", no_argument, NULL, OPT_JSON},           {"tolerance", required_argument, NULL, OPT_TOLERANCE},
    {"help", no_argument, NULL, OPT_HELP},           {NULL, 0, NULL, 0}};

struct calibrate_say {
  struct calibrate_options o;
  const char *out, *check;
  double tolerance;
  bool json;
};

static int take_option(struct calibrate_say *s, int c, const char *arg)
{
  uint64_t v;
  switch (c) {
  case OPT_OUT:
    s->out = arg;
    return 0;
  case OPT_CHECK:
    s->check = arg;
    return 0;
  case OPT_REPEAT:
    if (units_count(arg, 1, 32, &v) < 0)
      return cli_wrong("calibrate", "--repeat: need 1..32, have '%s'", arg);
    s->o.repeats = (uint32_t)v;
    return 0;
  case OPT_TOLERANCE:
    if (units_count(arg, 1, 1000, &v) < 0)
      return cli_wrong("calibrate", "--tolerance: need 1..1000 (percent), have '%s'", arg);
    s->tolerance = (double)v / 100;
    return 0;
  case OPT_DIR:
    s->o.dir = arg;
    return 0;
  case OPT_DEVICE:
    s->o.device = arg;
    return 0;
  case OPT_QUICK:
    s->o.quick = true;
    return 0;
  case OPT_JSON:
    s->json = true;
    return 0;
  case OPT_HELP:
    return -1;
  default:
    return cli_usage(usage);
  }
}

/* What drayd would say of it. */
static int readable(const char *text, const char *where)
{
  struct profile_set set;
  struct err e = {{0}};
  profile_defaults(&set);
  if (profile_parse(&set, text, strlen(text), &e) == 0)
    return 0;
  fprintf(stderr, "dray calibrate: %s: %s\n", where, e.text);
  return -EINVAL;
}

static int write_whole(const char *path, const char *text)
{
  char tmp[4096];
  if (snprintf(tmp, sizeof tmp, "%s.new", path) >= (int)sizeof tmp)
    return cli_wrong("calibrate", "--out: the path is too long");
  FILE *f = fopen(tmp, "we");
  bool good = f && fputs(text, f) >= 0 && fputc('\n', f) != EOF && fflush(f) == 0 && fsync(fileno(f)) == 0;
  int code = errno;
  if (f)
    fclose(f);
  if (good && rename(tmp, path) == 0)
    return 0;
  code = good ? errno : code;
  unlink(tmp);
  fprintf(stderr, "dray calibrate: --out: %s: %s\n", path, strerror(code));
  return EXIT_ERROR;
}

static int write_out(const struct calibrate_say *s, const struct calibration *c)
{
  json_t *o = calibrate_json(c);
  char *text = json_dumps(o, JSON_INDENT(2));
  int r = text && readable(text, "what was measured") == 0 ? EXIT_OK : EXIT_ERROR;
  if (r == EXIT_OK && s->out)
    r = write_whole(s->out, text);
  else if (r == EXIT_OK)
    puts(text);
  for (uint32_t i = 0; r == EXIT_OK && i < c->n; i++)
    if (figure_spread(&c->figure[i]) > CALIBRATE_NOISY)
      fprintf(stderr, "noisy: %s: %.4g %s, a repeat is %.0f %% off\n", c->figure[i].key, figure_median(&c->figure[i]),
              c->figure[i].unit, 100 * figure_spread(&c->figure[i]));
  free(text);
  json_decref(o);
  return r;
}

static int compare(const struct calibrate_say *s, const struct calibration *c, json_t *file)
{
  json_t *rows = json_array();
  uint32_t drifted = 0, compared = 0;
  if (!s->json)
    printf("%-34s %14s %14s %9s %9s %s\n", "figure", "stored", "now", "drift", "spread", "");
  for (uint32_t i = 0; i < c->n; i++) {
    const struct figure *f = &c->figure[i];
    double stored, now = figure_median(f);
    if (!calibrate_lookup(file, f->key, &stored))
      continue;
    double drift = stored > 0 ? now / stored - 1 : now > 0 ? 1 : 0;
    bool noisy = figure_spread(f) > CALIBRATE_NOISY, off = fabs(drift) > s->tolerance;
    const char *word = !off ? "ok" : noisy ? "noisy" : "drifted";
    compared++;
    drifted += off && !noisy;
    if (!s->json) {
      printf("%-34s %14.6g %14.6g %+8.1f%% %8.1f%% %s\n", f->key, stored, now, 100 * drift, 100 * figure_spread(f),
             word);
      continue;
    }
    json_t *row = json_object();
    json_object_set_new(row, "figure", json_string(f->key));
    json_object_set_new(row, "unit", json_string(f->unit));
    json_object_set_new(row, "stored", json_real(stored));
    json_object_set_new(row, "now", json_real(now));
    json_object_set_new(row, "drift", json_real(drift));
    json_object_set_new(row, "spread", json_real(figure_spread(f)));
    json_object_set_new(row, "verdict", json_string(word));
    json_array_append_new(rows, row);
  }
  if (s->json) {
    json_t *o = json_object();
    json_object_set(o, "figures", rows);
    json_object_set_new(o, "drifted", json_integer(drifted));
    cli_print_new(o);
  }
  json_decref(rows);
  if (compared == 0) {
    fprintf(stderr, "dray calibrate: %s holds no number that was measured here: --dir and --device measure more\n",
            s->check);
    return EXIT_ERROR;
  }
  return drifted ? EXIT_DEGRADED : EXIT_OK;
}

int cli_calibrate(int argc, char **argv)
{
  struct calibrate_say s = {.o = {.repeats = 3, .progress = cli_tty()}, .tolerance = CALIBRATE_NOISY};
  for (int c; (c = getopt_long(argc, argv, "", opts, NULL)) != -1;) {
    int r = take_option(&s, c, optarg);
    if (r)
      return r < 0 ? cli_help(usage) : r;
  }
  if (optind != argc)
    return cli_usage(usage);
  if (s.out && s.check)
    return cli_wrong("calibrate", "--out and --check exclude each other");
  json_t *file = NULL;
  if (s.check) { /* before anything is measured */
    json_error_t e;
    file = json_load_file(s.check, JSON_REJECT_DUPLICATES, &e);
    char *text = file ? json_dumps(file, 0) : NULL;
    if (!text || readable(text, s.check) < 0) {
      if (!file)
        fprintf(stderr, "dray calibrate: --check: %s: line %d: %s\n", s.check, e.line, e.text);
      free(text);
      json_decref(file);
      return EXIT_ERROR;
    }
    free(text);
  }
  CLEAN_PTR struct calibration *c = calloc(1, sizeof *c);
  stop_hold();
  int r = c && calibrate_run(&s.o, c) == 0 ? EXIT_OK : EXIT_ERROR;
  if (r == EXIT_OK)
    r = s.check ? compare(&s, c, file) : write_out(&s, c);
  else if (stop_asked())
    fprintf(stderr, "dray calibrate: stopped: nothing is written\n");
  json_decref(file);
  return r;
}
