/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <jansson.h>

#include <string>

extern "C" {
#include "bench/report.h"
}

namespace {
struct Report {
  struct report r = {};
  ~Report() { report_free(&r); }
  struct result *row(const char *name, bool lower, double ours, double theirs, double bar)
  {
    struct result *x = report_add(&r, name, "ns", lower);
    series_add(&x->ours, ours);
    series_add(&x->theirs, theirs);
    x->versus = "a <rival> & \"more\"";
    x->bar = bar;
    x->verified = true;
    return x;
  }
  std::string print(void (*fn)(const struct report *, FILE *))
  {
    char *text = nullptr;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    fn(&r, f);
    fclose(f);
    std::string s(text, n);
    free(text);
    return s;
  }
};
void as_json(const struct report *r, FILE *f) { report_print(r, f, REPORT_JSON); }
void as_csv(const struct report *r, FILE *f) { report_print(r, f, REPORT_CSV); }
void as_table(const struct report *r, FILE *f) { report_print(r, f, REPORT_TABLE); }
} // namespace

TEST(Report, ABarIsAMostWhenLowerIsBetterAndALeastOtherwise)
{
  Report r;
  EXPECT_TRUE(result_met(r.row("a", true, 130, 100, 1.3)));
  EXPECT_FALSE(result_met(r.row("b", true, 131, 100, 1.3)));
  EXPECT_TRUE(result_met(r.row("c", false, 90, 100, 0.9)));
  EXPECT_FALSE(result_met(r.row("d", false, 89, 100, 0.9)));
  EXPECT_TRUE(result_met(r.row("held to nothing", false, 1, 100, 0)));
  EXPECT_FALSE(result_met(r.row("nothing to compare with", true, 1, 0, 1.3)));
}

TEST(Report, JsonHasTheShapeThatScriptsRead)
{
  Report r;
  struct hist *h = (struct hist *)calloc(1, sizeof *h);
  for (int i = 1; i <= 1000; i++)
    hist_add(h, (uint64_t)i * 1000);
  result_latency(r.row("ring.nop.roundtrip", true, 500, 400, 1.3), h);
  free(h);
  json_t *o = json_loads(r.print(as_json).c_str(), 0, nullptr);
  ASSERT_NE(o, nullptr);
  EXPECT_EQ(json_integer_value(json_object_get(o, "schema_version")), 1);
  EXPECT_EQ(json_object_get(o, "partial"), nullptr);
  json_t *x = json_array_get(json_object_get(o, "results"), 0);
  EXPECT_STREQ(json_string_value(json_object_get(x, "name")), "ring.nop.roundtrip");
  EXPECT_STREQ(json_string_value(json_object_get(x, "better")), "lower");
  EXPECT_DOUBLE_EQ(json_number_value(json_object_get(x, "ratio")), 1.25);
  EXPECT_TRUE(json_is_true(json_object_get(x, "met")));
  EXPECT_TRUE(json_is_true(json_object_get(x, "verified")));
  EXPECT_NEAR(json_number_value(json_object_get(json_object_get(x, "latency_ns"), "p99")), 990000, 16000);
  json_decref(o);
  r.r.partial = true;
  o = json_loads(r.print(as_json).c_str(), 0, nullptr);
  EXPECT_TRUE(json_is_true(json_object_get(o, "partial")));
  json_decref(o);
  EXPECT_NE(r.print(as_table).find("partial"), std::string::npos);
}

TEST(Report, EachCsvLineHasAsManyFieldsAsTheFirst)
{
  Report r;
  r.row("a", true, 1, 2, 1.3);
  r.row("b", false, 1, 2, 0)->versus = nullptr;
  std::string text = r.print(as_csv);
  size_t at = 0, want = 0, lines = 0;
  for (; at < text.size(); lines++) {
    size_t end = text.find('\n', at), fields = 1;
    bool quoted = false;
    for (size_t i = at; i < end; i++) {
      quoted ^= text[i] == '"';
      fields += text[i] == ',' && !quoted;
    }
    if (lines == 0)
      want = fields;
    EXPECT_EQ(fields, want) << text.substr(at, end - at);
    at = end + 1;
  }
  EXPECT_EQ(lines, 3u);
}

TEST(Report, ThePageShowsEveryRowAndLetsNoNameBreakIt)
{
  Report r;
  r.row("ring.nop.roundtrip", true, 500, 400, 1.3);
  std::string text = r.print(report_html);
  EXPECT_NE(text.find("ring.nop.roundtrip"), std::string::npos);
  EXPECT_NE(text.find("<svg"), std::string::npos);
  EXPECT_NE(text.find("a &lt;rival&gt; &amp; &quot;more&quot;"), std::string::npos);
  EXPECT_EQ(text.find("<rival>"), std::string::npos);
}

TEST(Hist, QuantilesAreWithinTwoPercentWhateverTheRange)
{
  struct hist *h = (struct hist *)calloc(2, sizeof *h);
  for (uint64_t v = 1; v < (1ull << 40); v *= 3)
    for (int i = 0; i < 10; i++)
      hist_add(h, v);
  for (uint64_t v = 1, k = 0; v < (1ull << 40); v *= 3, k++)
    EXPECT_NEAR((double)hist_quantile(h, ((double)k + 0.5) * 10.0 / (double)h->n), (double)v, (double)v * 0.02);
  hist_merge(h + 1, h);
  EXPECT_EQ(h[1].n, h[0].n);
  EXPECT_NEAR((double)hist_quantile(h + 1, 1), (double)h->max, (double)h->max * 0.02);
  EXPECT_LE(hist_quantile(h + 1, 1), h->max);
  free(h);
}
