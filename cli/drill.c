/* SPDX-License-Identifier: Apache-2.0 */
/* dray drill: rehearse what goes wrong, on a mover of its own, and say whether the bounds were kept. */
#include "cli/drill.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/cli.h"
#include "cli/drill_alert.h"
#include "include/priv/bits.h"

static const char usage[] =
    "usage: dray drill quota|noisy-neighbour|lifecycle|maintenance [--time TIME] [--json] [--html FILE]\n"
    "Each starts a mover of its own, measures, and exits 0 when its bounds were kept, else 1.\n"
    "  quota            one tenant asks for three times its limit: its reserve and the others' are served, and every\n"
    "                   refusal has a reason and a rule\n"
    "  noisy-neighbour  one tenant bursts at full speed beside one that reads 64 KiB at a time: latency and errors\n"
    "                   before, during and after; turns that others were served meanwhile\n"
    "  lifecycle        an engine holds large leases and moves what else it has, while another's cells push "
    "everything\n"
    "                   down and a rule demotes: cells lost, wrong bytes, outcomes that nobody defined\n"
    "  maintenance      a tier is taken out and put back and the mover replaced, with an engine at work: what had to\n"
    "                   stop, for how long, and that it can be undone\n"
    "  --time           a phase (default 2s)\n"
    "  --html           a page for people, too\n"
    "  --alerts         alert rules for the Prometheus that `quota` starts to see the alert fire (default:\n"
    "                   /usr/share/dray/prometheus/dray.rules.yml, or deploy/prometheus/dray.rules.yml from here);\n"
    "                   without one, or without prometheus, that bound is left out and the report says why\n";

static const struct scene {
  const char *name, *config;
  int (*play)(struct drill *r);
} scenes[] = {{"quota", drill_quota_config, drill_quota},
              {"noisy-neighbour", drill_noisy_config, drill_noisy},
              {"lifecycle", drill_lifecycle_config, drill_lifecycle},
              {"maintenance", drill_maintenance_config, drill_maintenance}};

int drill_engine_open(const struct drill *r, const char *token, uint64_t bytes, struct drill_engine *ret_engine)
{
  struct dray_params p = {.size = sizeof p, .socket = r->st.socket, .token = token, .entries = 64, .items = 64};
  struct drill_engine e = {.d = NULL};
  int code = dray_open(&p, &e.d);
  if (code < 0) {
    fprintf(stderr, "dray drill: %s\n", dray_open_error(code));
    return code;
  }
  code = dray_region_alloc(bytes, false, &e.region);
  if (code == 0 && (code = dray_region_register(e.d, &e.region)) < 0)
    dray_region_free(&e.region);
  if (code < 0) {
    fprintf(stderr, "dray drill: a region of %llu bytes: %s\n", (unsigned long long)bytes, strerror(-code));
    dray_close(e.d);
    return code;
  }
  *ret_engine = e;
  return 0;
}

void drill_engine_close(struct drill_engine *e)
{
  dray_close(e->d);
  dray_region_free(&e->region);
}

struct dray_cqe drill_one(struct dray *d)
{
  struct dray_cqe c;
  if (cli_finish(d, 10000, &c) < 0)
    memset(&c, 0, sizeof c);
  return c;
}

void drill_check(struct drill *r, bool good, const char *what, const char *have, ...)
{
  char text[200];
  va_list ap;
  va_start(ap, have);
  vsnprintf(text, sizeof text, have, ap);
  va_end(ap);
  r->bad |= !good;
  json_array_append_new(r->checks, json_pack("{s:s,s:b,s:s}", "bound", what, "kept", good, "have", text));
}

json_t *drill_latency(const struct hist *h, uint64_t errors)
{
  return json_pack("{s:o,s:o,s:o,s:o,s:o}", "n", cli_u64(h->n), "errors", cli_u64(errors), "p50_ns",
                   cli_u64(hist_quantile(h, 0.5)), "p99_ns", cli_u64(hist_quantile(h, 0.99)), "p999_ns",
                   cli_u64(hist_quantile(h, 0.999)));
}

/* ---- the page ---- */

/* Bars of every number in a group, one row each; nothing here comes from anybody else. */
static void html_group(FILE *f, const char *title, const json_t *group)
{
  const char *key;
  const json_t *v;
  double most = 1;
  json_object_foreach((json_t *)(uintptr_t)group, key, v) most = MAX_OF(most, json_number_value(v));
  fprintf(f, "<h2>%s</h2><svg viewBox=\"0 0 700 %zu\" role=\"img\">", title, json_object_size(group) * 24);
  unsigned y = 0;
  json_object_foreach((json_t *)(uintptr_t)group, key, v)
  {
    double n = json_number_value(v);
    fprintf(f,
            "<text x=\"0\" y=\"%u\">%s</text><rect x=\"220\" y=\"%u\" width=\"%.0f\" height=\"16\"/>"
            "<text x=\"%.0f\" y=\"%u\">%.0f</text>",
            y + 16, key, y + 4, n / most * 360, 226 + n / most * 360, y + 16, n);
    y += 24;
  }
  fputs("</svg>", f);
}

static int html(const struct drill *r, const char *name, const char *path)
{
  const char *key;
  json_t *v;
  size_t i;
  FILE *f = fopen(path, "we");
  if (!f) {
    fprintf(stderr, "dray drill: %s: %s\n", path, strerror(errno));
    return -1;
  }
  fprintf(f,
          "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>dray drill %s</title><style>body{font:15px "
          "sans-serif;max-width:50em;margin:2em auto}td,th{padding:.2em .8em;text-align:left}rect{fill:#47a}text{font-"
          "size:13px}.no{color:#b00}</style><h1>dray drill %s: %s</h1><table><tr><th>bound<th>kept<th>have</tr>",
          name, name, r->bad ? "bounds broken" : "bounds kept");
  json_array_foreach(r->checks, i, v)
  {
    bool kept = json_is_true(json_object_get(v, "kept"));
    fprintf(f, "<tr%s><td>%s<td>%s<td>%s</tr>", kept ? "" : " class=\"no\"",
            json_string_value(json_object_get(v, "bound")), kept ? "yes" : "NO",
            json_string_value(json_object_get(v, "have")));
  }
  fputs("</table>", f);
  json_object_foreach(r->report, key, v) if (json_is_object(v)) html_group(f, key, v);
  fputs("</html>\n", f);
  return fclose(f);
}

static void people(const struct drill *r)
{
  const char *key, *name;
  json_t *v, *n;
  size_t i;
  json_object_foreach(r->report, key, v)
  {
    if (json_is_string(v)) {
      printf("%-10s  %s\n", key, json_string_value(v));
      continue;
    }
    printf("%-10s", key);
    json_object_foreach(v, name, n) printf("  %s %lld", name, (long long)json_integer_value(n));
    putchar('\n');
  }
  json_array_foreach(r->checks, i, v)
      printf("%-4s %s: %s\n", json_is_true(json_object_get(v, "kept")) ? "kept" : "NO",
             json_string_value(json_object_get(v, "bound")), json_string_value(json_object_get(v, "have")));
}

static const char *const sets[] = {"lanes=1", "log=warn", "copy_plan=builtin", NULL};

int drill_again(struct drill *r, uint64_t *ret_stop_ns, uint64_t *ret_start_ns)
{
  int code = stage_again(&r->st, -1, sets, r->config, ret_stop_ns, ret_start_ns);
  r->down = code < 0;
  return code;
}

static int run(struct drill *r, const struct scene *s)
{
  char metrics[40] = "", *config = NULL;
  if (r->metrics)
    snprintf(metrics, sizeof metrics, "metrics: 127.0.0.1:%u\n", r->metrics);
  if (asprintf(&config, "%s%s", s->config, metrics) < 0)
    return -ENOMEM;
  r->config = config;
  int code = stage_open_config(&r->st, NULL, -1, sets, config);
  if (code == 0) {
    code = s->play(r);
    if (!r->down)
      stage_close(&r->st);
  }
  free(config);
  return code;
}

int cli_drill(int argc, char **argv)
{
  static const struct option options[] = {
      {"time", required_argument, NULL, 't'},   {"html", required_argument, NULL, 'p'},
      {"alerts", required_argument, NULL, 'a'}, {"json", no_argument, NULL, 'j'},
      {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
  struct drill r = {.ms = 2000};
  const char *page = NULL;
  bool json = false;
  uint64_t ns;
  for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    if (c == 'h')
      return cli_help(usage);
    if (c == 'j')
      json = true;
    else if (c == 'p')
      page = optarg;
    else if (c == 'a')
      r.alerts = optarg;
    else if (c != 't')
      return cli_usage(usage);
    else if (units_time(optarg, &ns) < 0 || ns < 100000000u || ns > 600000000000ull)
      return cli_wrong("drill", "--time: '%.60s' is not in 100ms..600s", optarg);
    else
      r.ms = ns / 1000000u;
  }
  const char *name = optind + 1 == argc ? argv[optind] : "";
  const struct scene *scene = NULL;
  for (size_t i = 0; i < ARRAY_LEN(scenes); i++)
    if (!strcmp(name, scenes[i].name))
      scene = &scenes[i];
  if (!scene)
    return cli_usage(usage);
  if (scene->play == drill_quota)
    r.metrics = drill_port();
  if (!r.alerts)
    r.alerts = access("/usr/share/dray/prometheus/dray.rules.yml", R_OK) == 0
                   ? "/usr/share/dray/prometheus/dray.rules.yml"
                   : "deploy/prometheus/dray.rules.yml";
  r.report = json_object();
  r.checks = json_array();
  int code = run(&r, scene);
  if (code == 0 && page)
    code = html(&r, name, page);
  if (code == 0 && json) {
    json_object_set(r.report, "checks", r.checks);
    json_object_set_new(r.report, "drill", json_string(name));
    json_object_set_new(r.report, "kept", json_boolean(!r.bad));
    cli_print_new(json_incref(r.report));
  } else if (code == 0) {
    people(&r);
  }
  json_decref(r.checks);
  json_decref(r.report);
  return code == 0 && !r.bad ? EXIT_OK : EXIT_ERROR;
}
