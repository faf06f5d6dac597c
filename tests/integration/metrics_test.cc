/* SPDX-License-Identifier: Apache-2.0 */
/* /metrics, /healthz, /readyz of a real mover: every series at once, bounded, and nobody waits for a scraper. */
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/integration/http.h"
#include "tests/kit/mover.h"

using kit::Engine;
using kit::Mover;

namespace {
using http::dial;
using http::free_port;
using http::get;
#define HAS(text, what) EXPECT_NE((text).find(what), std::string::npos) << what
#define HASNT(text, what) EXPECT_EQ((text).find(what), std::string::npos) << what

struct Metrics : ::testing::Test {
  int port = free_port();
  kit::MoverOptions options(const std::string &more = "")
  {
    kit::MoverOptions o;
    o.config = "metrics: 127.0.0.1:" + std::to_string(port) +
               "\ntenants: [{name: a, token: ta}, {name: b, token: tb}]\n"
               "quotas: [{tenant: a, tier: dram, reserve: 1MiB, limit: 2MiB}]\n"
               "rules: [{name: full, tier: dram, when: 90%, until: 80%, what: refuse}]\n" + more;
    return o;
  }
};

TEST_F(Metrics, EverySeriesIsThereFromTheStart)
{
  Mover m(options());
  ASSERT_TRUE(m.up()) << m.log();
  std::string t = get(port, "/metrics");
  HAS(t, "200 OK");
  HAS(t, "version=0.0.4");
  for (unsigned r = 1; r < DRAY_REASON_COUNT; r++) {
    std::string word = dray_reason_name(r);
    if (word != "?") {
      HAS(t, "\ndray_completions_total{reason=\"" + word + "\"} 0\n");
    }
  }
  HAS(t, "\ndray_tenant_refused_total{tenant=\"a\",reason=\"QUOTA_EXCEEDED\"} 0\n");
  HAS(t, "\ndray_tenant_refused_total{tenant=\"other\",reason=\"RATE_LIMITED\"} 0\n");
  HAS(t, "\ndray_tenant_limit_bytes{tenant=\"a\",tier=\"dram\"} 2097152\n");
  HAS(t, "\ndray_tenant_reserve_bytes{tenant=\"a\",tier=\"dram\"} 1048576\n");
  HAS(t, "\ndray_rule_in_force{rule=\"full\",tier=\"dram\",what=\"refuse\"} 0\n");
  HAS(get(port, "/healthz"), "200 OK");
  HAS(get(port, "/readyz"), "ready");
  HAS(get(port, "/elsewhere"), "404");
}

TEST_F(Metrics, OpenMetricsWhenAskedFor)
{
  Mover m(options());
  ASSERT_TRUE(m.up()) << m.log();
  std::string t = get(port, "/metrics", "Accept: application/openmetrics-text; version=1.0.0\r\n");
  HAS(t, "application/openmetrics-text");
  HAS(t, "# TYPE dray_directives counter\n");
  HAS(t, "\ndray_directives_total{op=\"PUT\"} 0\n");
  EXPECT_EQ(t.substr(t.size() - 6), "# EOF\n");
}

TEST_F(Metrics, RefusalsAreCountedAtTheFirst)
{
  Mover m(options());
  ASSERT_TRUE(m.up()) << m.log();
  Engine a(m, {.token = "ta"});
  for (int i = 0; i < 33; i++)
    a.put("c" + std::to_string(i), 0, 64 << 10, DRAY_TIER_DRAM);
  std::string t = get(port, "/metrics");
  HAS(t, "\ndray_tenant_refused_total{tenant=\"a\",reason=\"QUOTA_EXCEEDED\"} 1\n");
  HAS(t, "\ndray_tenant_charged_bytes{tenant=\"a\",tier=\"dram\"} 2097152\n");
  HAS(t, "\ndray_completions_total{reason=\"QUOTA_EXCEEDED\"} 1\n");
}

TEST_F(Metrics, DifferencesBetweenTheFileAndWhatRunsAreCounted)
{
  kit::MoverOptions o = options();
  o.config += "drain_ms: 5000\n";
  Mover m(o);
  ASSERT_TRUE(m.up()) << m.log();
  EXPECT_EQ(http::metric(port, "dray_config_differences"), 0) << m.ask("{\"verb\":\"check\"}");
  std::ofstream(m.dir() + "/drayd.yaml") << options().config << "drain_ms: 6000\nrevoke_grace: 7s\n";
  std::string said = m.ask("{\"verb\":\"check\"}");
  HAS(said, "~ drain_ms: file 6000, runs 5000");
  EXPECT_EQ(http::metric(port, "dray_config_differences"), 2) << said;
}

TEST_F(Metrics, TenantLabelsAreCapped)
{
  kit::MoverOptions o = options();
  for (int i = 0; i < 100; i++)
    o.config.insert(o.config.find("tenants: [") + 10, "{name: t" + std::to_string(i) + ", token: k" + std::to_string(i) + "}, ");
  Mover m(o);
  ASSERT_TRUE(m.up()) << m.log();
  for (int i = 0; i < 100; i++) {
    Engine e(m, {.token = "k" + std::to_string(i)});
    ASSERT_EQ(e.put("x", 0, 4096, DRAY_TIER_DRAM).status, DRAY_OK);
  }
  std::string t = get(port, "/metrics"), line = "\ndray_tenant_waits_total{";
  size_t n = 0;
  for (size_t at = 0; (at = t.find(line, at)) != std::string::npos; at++)
    n++;
  EXPECT_EQ(n, 51u);
  HASNT(t, "dray_tenant_charged_bytes{tenant=\"other\",tier=\"dram\"} 0\n");
}

TEST_F(Metrics, ScrapersThatHangHarmNobody)
{
  Mover m(options());
  ASSERT_TRUE(m.up()) << m.log();
  std::vector<int> hung;
  for (int i = 0; i < 40; i++) {
    int s = dial(port);
    if (s >= 0 && write(s, "GET /met", 8) == 8)
      hung.push_back(s);
  }
  Engine a(m, {.token = "tb"});
  auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; i++)
    ASSERT_EQ(a.put("x", 0, 4096, DRAY_TIER_DRAM).status, DRAY_OK);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3));
  EXPECT_LT(kit::fd_count(m.worker()), 400);
  std::string t;
  for (int i = 0; i < 100 && t.find("200 OK") == std::string::npos; i++) { /* they are thrown out after 5 s */
    t = get(port, "/healthz");
    if (t.empty())
      poll(nullptr, 0, 100);
  }
  HAS(t, "200 OK");
  for (int s : hung)
    close(s);
}

TEST_F(Metrics, TheNextWorkerServesThemAtOnce)
{
  Mover m(options());
  ASSERT_TRUE(m.up()) << m.log();
  int open = dial(port);
  int64_t epoch = m.status("epoch");
  ASSERT_EQ(kill(m.worker(), SIGKILL), 0);
  ASSERT_TRUE(m.wait_status("epoch", epoch + 1)) << m.log();
  HAS(get(port, "/readyz"), "ready");
  close(open);
}

TEST_F(Metrics, ABadAddressIsAClearErrorAndOffIsTheDefault)
{
  for (const char *bad : {"nowhere", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536", "1.2.3:80", ":80"}) {
    kit::MoverOptions o;
    o.sets = {std::string("metrics=") + bad};
    Mover m(o);
    EXPECT_FALSE(m.up()) << bad;
    HAS(m.log(), "is not an address such as");
  }
  Mover m;
  ASSERT_TRUE(m.up());
  EXPECT_LT(dial(port), 0);
}

bool has(const char *program) { return system((std::string("command -v ") + program + " >/dev/null 2>&1").c_str()) == 0; }
std::string output(const std::string &cmd, int *code)
{
  std::string text;
  FILE *f = popen((cmd + " 2>&1").c_str(), "r");
  char buf[512];
  while (f && fgets(buf, sizeof buf, f))
    text += buf;
  *code = f ? WEXITSTATUS(pclose(f)) : -1;
  return text;
}

TEST_F(Metrics, PromtoolFindsNothingWrong)
{
  if (!has("promtool"))
    GTEST_SKIP() << "no promtool here (apt install prometheus)";
  Mover m(options());
  ASSERT_TRUE(m.up()) << m.log();
  std::string t = get(port, "/metrics"), file = m.dir() + "/m";
  std::ofstream(file) << t.substr(t.find("\r\n\r\n") + 4);
  int code;
  std::string said = output("promtool check metrics < " + file, &code);
  EXPECT_EQ(code, 0) << said;
  said = output(std::string("promtool check rules ") + SOURCE_DIR + "/deploy/prometheus/dray.rules.yml", &code);
  EXPECT_EQ(code, 0) << said;
}

/* A real Prometheus scrapes a real mover, and the alert for a refusal fires. */
TEST_F(Metrics, PrometheusScrapesAndTheAlertFires)
{
  if (!has("prometheus"))
    GTEST_SKIP() << "no prometheus here (apt install prometheus)";
  Mover m(options());
  ASSERT_TRUE(m.up()) << m.log();
  int web = free_port();
  std::string yml = m.dir() + "/prometheus.yml", data = m.dir() + "/tsdb";
  std::ofstream(yml) << "global: {scrape_interval: 500ms, evaluation_interval: 500ms}\nrule_files: [" SOURCE_DIR
                        "/deploy/prometheus/dray.rules.yml]\nscrape_configs:\n  - job_name: dray\n    static_configs: [{targets: [\"127.0.0.1:"
                     << port << "\"]}]\n";
  pid_t pid = fork();
  if (pid == 0) {
    std::string listen = "--web.listen-address=127.0.0.1:" + std::to_string(web);
    if (!freopen((m.dir() + "/prometheus.log").c_str(), "w", stderr))
      _exit(126);
    execlp("prometheus", "prometheus", ("--config.file=" + yml).c_str(), ("--storage.tsdb.path=" + data).c_str(), listen.c_str(), (char *)nullptr);
    _exit(127);
  }
  auto until = [&](const std::string &path, const std::string &what) {
    for (int i = 0; i < 300; i++) {
      if (get(web, path).find(what) != std::string::npos)
        return true;
      poll(nullptr, 0, 100);
    }
    return false;
  };
  EXPECT_TRUE(until("/api/v1/query?query=dray_tenant_refused_total", "QUOTA_EXCEEDED")) << kit::read_file(m.dir() + "/prometheus.log");
  Engine a(m, {.token = "ta"});
  for (int i = 0; i < 64; i++)
    a.put("c" + std::to_string(i), 0, 64 << 10, DRAY_TIER_DRAM);
  EXPECT_TRUE(until("/api/v1/alerts", "DrayAllocationRefused")) << get(web, "/api/v1/alerts");
  kill(pid, SIGTERM);
  waitpid(pid, nullptr, 0);
}
} // namespace
