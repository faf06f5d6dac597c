/* SPDX-License-Identifier: Apache-2.0 */
/* The report as one page: plots are SVG inside it, so that it can be mailed and read without a network. */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "bench/report.h"

#define WIDE 560.0
#define SPARK_W 220.0
#define SPARK_H 34.0

static void text(FILE *f, const char *s)
{
  for (; *s; s++)
    switch (*s) {
    case '<':
      fputs("&lt;", f);
      break;
    case '>':
      fputs("&gt;", f);
      break;
    case '&':
      fputs("&amp;", f);
      break;
    case '"':
      fputs("&quot;", f);
      break;
    default:
      fputc(*s, f);
    }
}

static bool compared(const struct result *x)
{
  return x->versus && x->theirs.n && result_ratio(x) > 0;
}

/* Where a ratio stands: logarithmic, a fourth on the left, four times on the right. */
static double place(double ratio)
{
  double v = log2(ratio) / 4 + 0.5;
  return WIDE * (v < 0 ? 0 : v > 1 ? 1 : v);
}

static void ratio_plot(const struct report *r, FILE *f)
{
  uint32_t rows = 0;
  for (uint32_t i = 0; i < r->n; i++)
    rows += compared(r->row[i]);
  if (!rows)
    return;
  fprintf(f,
          "<h2>Ours over theirs</h2><p>One run, interleaved rounds, medians. The bar runs from 1 to the ratio; a "
          "tick is what it is held to. Green: within it.</p><svg width=\"%.0f\" height=\"%u\">",
          WIDE + 330, rows * 22 + 24);
  for (int k = -2; k <= 2; k++)
    fprintf(f,
            "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"14\" y2=\"%u\" class=\"%s\"/><text x=\"%.1f\" y=\"10\" "
            "text-anchor=\"middle\">%g</text>",
            260 + place(exp2(k)), 260 + place(exp2(k)), rows * 22 + 16, k ? "grid" : "one", 260 + place(exp2(k)),
            exp2(k));
  uint32_t y = 18;
  for (uint32_t i = 0; i < r->n; i++) {
    const struct result *x = r->row[i];
    if (!compared(x))
      continue;
    double at = place(result_ratio(x)), one = place(1), left = at < one ? at : one;
    fprintf(f, "<text x=\"252\" y=\"%u\" text-anchor=\"end\">", y + 12);
    text(f, x->name);
    fprintf(f, "</text><rect x=\"%.1f\" y=\"%u\" width=\"%.1f\" height=\"14\" class=\"%s\"/>", 260 + left, y,
            fabs(at - one) + 1,
            x->bar <= 0     ? "free"
            : result_met(x) ? "met"
                            : "short");
    if (x->bar > 0)
      fprintf(f, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%u\" y2=\"%u\" class=\"bar\"/>", 260 + place(x->bar),
              260 + place(x->bar), y - 2, y + 16);
    fprintf(f, "<text x=\"%.1f\" y=\"%u\">%.2f</text>", 266 + WIDE, y + 12, result_ratio(x));
    y += 22;
  }
  fprintf(f, "</svg>\n");
}

static void line(FILE *f, const struct series *s, double top, const char *class)
{
  fprintf(f, "<polyline class=\"%s\" points=\"", class);
  for (uint32_t i = 0; i < s->n; i++)
    fprintf(f, "%.1f,%.1f ", s->n > 1 ? SPARK_W * i / (s->n - 1) : SPARK_W / 2, SPARK_H - SPARK_H * s->v[i] / top);
  fprintf(f, "\"/>");
}

static void rounds_plot(const struct result *x, FILE *f)
{
  double top = series_quantile(&x->ours, 1), theirs = series_quantile(&x->theirs, 1);
  top = theirs > top ? theirs : top;
  if (top <= 0)
    return;
  fprintf(f, "<svg width=\"%.0f\" height=\"%.0f\">", SPARK_W, SPARK_H + 2);
  if (x->theirs.n)
    line(f, &x->theirs, top, "theirs");
  line(f, &x->ours, top, "ours");
  fprintf(f, "</svg>");
}

static void table(const struct report *r, FILE *f)
{
  fprintf(f, "<h2>Every figure</h2><table><tr><th>name<th>median<th>p10<th>p90<th>unit<th>versus<th>median<th>ratio"
             "<th>bar<th>latency p50 / p99 / p99.9, us<th>path<th>verified<th>rounds (ours solid, theirs dashed, from "
             "0)<th>note</tr>\n");
  for (uint32_t i = 0; i < r->n; i++) {
    const struct result *x = r->row[i];
    fprintf(f, "<tr><td>");
    text(f, x->name);
    fprintf(f, "<td>%.4g<td>%.4g<td>%.4g<td>", series_quantile(&x->ours, 0.5), series_quantile(&x->ours, 0.1),
            series_quantile(&x->ours, 0.9));
    text(f, x->unit);
    fprintf(f, "<td>");
    if (compared(x)) {
      text(f, x->versus);
      fprintf(f, "<td>%.4g<td>%.2f<td>", series_quantile(&x->theirs, 0.5), result_ratio(x));
    } else {
      fprintf(f, "<td><td><td>");
    }
    if (x->bar > 0)
      fprintf(f, "%s %.2f %s", x->lower ? "&le;" : "&ge;", x->bar, result_met(x) ? "met" : "short");
    fprintf(f, "<td>");
    if (x->pct[0] > 0)
      fprintf(f, "%.4g / %.4g / %.4g", x->pct[0] / 1e3, x->pct[2] / 1e3, x->pct[3] / 1e3);
    fprintf(f, "<td>");
    text(f, x->path);
    fprintf(f, "<td>%s<td>", x->verified ? "yes" : "no");
    rounds_plot(x, f);
    fprintf(f, "<td>");
    text(f, x->note);
    fprintf(f, "</tr>\n");
  }
  fprintf(f, "</table>\n");
}

void report_html(const struct report *r, FILE *f)
{
  json_t *m = report_machine();
  fprintf(f,
          "<!doctype html><meta charset=\"utf-8\"><title>dray bench</title><style>body{font:14px sans-serif;margin:2em;"
          "color:#222}table{border-collapse:collapse}td,th{padding:2px 8px;border-bottom:1px solid #ddd;text-align:"
          "left;white-space:nowrap}svg text{font:12px sans-serif}.grid{stroke:#ddd}.one{stroke:#888}.bar{stroke:#000;"
          "stroke-width:2}.met{fill:#3a9a4a}.short{fill:#c8453b}.free{fill:#8aa6c8}.ours{fill:none;stroke:#1f5fa8;"
          "stroke-width:1.5}.theirs{fill:none;stroke:#b06a1c;stroke-dasharray:3 2}</style><h1>dray bench</h1><p>");
  text(f, json_string_value(json_object_get(m, "cpu")));
  fprintf(f, ", %lld CPUs, Linux ", (long long)json_integer_value(json_object_get(m, "cpus")));
  text(f, json_string_value(json_object_get(m, "kernel")));
  fprintf(f, ", ");
  text(f, json_string_value(json_object_get(m, "date")));
  fprintf(f, "</p>%s\n", r->partial ? "<p><b>Partial: stopped before the last round.</b></p>" : "");
  json_decref(m);
  ratio_plot(r, f);
  table(r, f);
}
