/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger: each request's bytes, hits and refusals reach it; a broken or full one harms nobody; line protocol. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <string>

#include "tests/integration/http.h"
#include "tests/integration/run_dray.h"

using kit::Engine;
using kit::Key;
using kit::Mover;
using kit::say;
using run::Json;
using run::Scratch;

namespace {
const char kTwo[] = "tenants: [{name: red, token: r}, {name: blue, token: b}]\n"
                    "tiers:\n  - {name: dram, transport: memory, capacity: 64MiB}\n"
                    "  - {name: cxl, transport: memory, capacity: 64MiB}\n";

struct Usage : ::testing::Test {
  Scratch s;
  int port = http::free_port();
  std::string db = s.path("ledger/usage.db");
  void SetUp() override { ASSERT_EQ(mkdir(s.path("ledger").c_str(), 0700), 0); }
  kit::MoverOptions options(const std::string &section, const std::string &more = kTwo)
  {
    kit::MoverOptions o;
    o.config = "metrics: 127.0.0.1:" + std::to_string(port) + "\nusage: {" + section + "}\n" + more;
    return o;
  }
  std::string path() { return "path: " + db; }
  /* Waits at most 20 s until a metric has at least that value. */
  bool until(const std::string &metric, double least)
  {
    for (int i = 0; i < 400; i++) {
      if (http::metric(port, metric) >= least)
        return true;
      poll(nullptr, 0, 50);
    }
    return false;
  }
  /* The row of `dray usage --by ...` in which key is value. */
  json_t *row(const Mover &m, const std::vector<std::string> &args, const char *key, const std::string &value, json_t **ret_all)
  {
    std::vector<std::string> all = {"usage", "--json"};
    all.insert(all.end(), args.begin(), args.end());
    run::Result r = run::dray(all, &m);
    EXPECT_EQ(r.code, 0) << r.err;
    *ret_all = json_loads(r.out.c_str(), 0, nullptr);
    size_t i;
    json_t *v, *found = nullptr;
    json_array_foreach(json_object_get(*ret_all, "rows"), i, v)
    {
      json_t *f = json_object_get(v, key);
      if ((json_is_string(f) && value == json_string_value(f)) || (json_is_integer(f) && value == std::to_string(json_integer_value(f))))
        found = v;
    }
    EXPECT_NE(found, nullptr) << r.out;
    return found;
  }
  int64_t n(json_t *row, const char *key) { return json_integer_value(json_object_get(row, key)); }
};

struct dray_cqe As(Engine &e, uint32_t request, const std::string &name, uint64_t len, uint8_t tier, bool put)
{
  struct dray_sqe *q = e.sqe();
  if (put)
    dray_prep_put(q, Key(name).b, e.region.id, 0, len, tier);
  else
    dray_prep_get(q, Key(name).b, e.region.id, 0, len, tier);
  q->tier = tier;
  q->request = request;
  return e.one();
}

TEST_F(Usage, EachRequestIsInTheLedgerByRequestTenantAndPool)
{
  Mover m(options(path()));
  ASSERT_TRUE(m.up()) << m.log();
  Engine red(m, {.token = "r"}), blue(m, {.token = "b"});
  ASSERT_EQ(As(red, 7, "a", 64 << 10, DRAY_TIER_DRAM, true).status, DRAY_OK);
  ASSERT_EQ(As(red, 7, "b", 128 << 10, DRAY_TIER_CXL, true).status, DRAY_OK);
  ASSERT_EQ(As(red, 8, "a", 64 << 10, 0, false).status, DRAY_OK);
  ASSERT_EQ(As(red, 8, "b", 128 << 10, 0, false).status, DRAY_OK);
  ASSERT_EQ(As(red, 8, "none", 4096, 0, false).reason, DRAY_ABSENT);
  ASSERT_EQ(As(blue, 7, "a", 4096, DRAY_TIER_DRAM, true).status, DRAY_OK) << "another tenant's request of that number";
  ASSERT_TRUE(until("dray_usage_rows_total", 5)) << m.log();
  json_t *all, *r = row(m, {"--by", "request", "--tenant", "red"}, "request", "8", &all);
  ASSERT_NE(r, nullptr);
  EXPECT_EQ(n(r, "directives"), 3);
  EXPECT_EQ(n(r, "bytes_local"), 64 << 10);
  EXPECT_EQ(n(r, "bytes_remote"), 128 << 10);
  EXPECT_EQ(n(r, "bytes_written"), 0);
  EXPECT_EQ(n(r, "hits_local"), 1);
  EXPECT_EQ(n(r, "hits_remote"), 1);
  EXPECT_EQ(n(r, "absent"), 1);
  EXPECT_GT(n(r, "ns"), 0);
  EXPECT_NEAR(json_real_value(json_object_get(r, "local_hit_rate")), 1.0 / 3, 1e-9);
  json_decref(all);
  r = row(m, {"--by", "request"}, "tenant", "blue", &all);
  EXPECT_EQ(n(r, "request"), 7);
  EXPECT_EQ(n(r, "bytes_written"), 4096);
  json_decref(all);
  r = row(m, {"--by", "tenant", "--since", "1h"}, "tenant", "red", &all);
  EXPECT_EQ(n(r, "directives"), 5);
  EXPECT_EQ(n(r, "bytes_remote"), 256 << 10);
  EXPECT_GT(n(r, "charged"), 0) << "occupancy is the mover's";
  json_decref(all);
  r = row(m, {"--by", "pool"}, "tier", "cxl", &all);
  EXPECT_EQ(n(r, "bytes_remote"), 256 << 10);
  EXPECT_EQ(n(r, "hits_remote"), 1);
  EXPECT_EQ(n(r, "capacity"), 64 << 20);
  json_decref(all);
  EXPECT_EQ(m.stop(), 0);
  EXPECT_EQ(run::dray({"usage", "--by", "request", "--db", db}).code, 0) << "the ledger is readable without a mover";
}

TEST_F(Usage, ABatchCountsOnceAndMapsCountWhatIsAccounted)
{
  Mover m(options(path()));
  ASSERT_TRUE(m.up()) << m.log();
  Engine e(m, {.token = "r"});
  struct dray_item *it = dray_items(e.d);
  for (int i = 0; i < 8; i++) {
    ASSERT_EQ(e.put("k" + std::to_string(i), 0, 4096, i < 4 ? DRAY_TIER_DRAM : DRAY_TIER_CXL).status, DRAY_OK);
    it[i] = {};
    memcpy(it[i].key, Key("k" + std::to_string(i)).b, 16);
    it[i].off = (uint64_t)i * 4096;
    it[i].len = 4096;
  }
  struct dray_sqe *q = e.sqe();
  dray_prep_get(q, Key("k0").b, e.region.id, 0, 8, 0);
  memset(q->key, 0, 16);
  q->flags |= DRAY_BATCH;
  q->request = 99;
  auto c = e.one();
  ASSERT_EQ(c.status, DRAY_OK) << say(c);
  q = e.sqe();
  dray_prep_map(q, Key("k0").b, 0);
  q->request = 100;
  c = e.one();
  ASSERT_EQ(c.status, DRAY_OK) << say(c);
  q = e.sqe();
  dray_prep_account(q, c.object, 12345, 100);
  q->request = 100;
  ASSERT_EQ(e.one().status, DRAY_OK);
  q = e.sqe();
  dray_prep_account(q, c.object, UINT64_MAX, 101); /* nobody read that much */
  q->request = 101;
  ASSERT_EQ(e.one().status, DRAY_OK);
  ASSERT_EQ(m.stop(), 0) << "what is left is written at the end";
  Mover again(options(path()));
  ASSERT_TRUE(again.up()) << again.log();
  json_t *all, *r = row(again, {"--by", "request"}, "request", "99", &all);
  EXPECT_EQ(n(r, "directives"), 1);
  EXPECT_EQ(n(r, "bytes_local"), 4 * 4096);
  EXPECT_EQ(n(r, "bytes_remote"), 4 * 4096);
  EXPECT_EQ(n(r, "hits_local"), 4);
  EXPECT_EQ(n(r, "hits_remote"), 4);
  EXPECT_NEAR(json_real_value(json_object_get(r, "remote_share")), 0.5, 1e-9);
  json_decref(all);
  r = row(again, {"--by", "request"}, "request", "100", &all);
  EXPECT_EQ(n(r, "bytes_local"), 12345) << "a map moves nothing; what was read through it counts";
  json_decref(all);
  r = row(again, {"--by", "request"}, "request", "101", &all);
  EXPECT_EQ(n(r, "bytes_local"), 1ll << 40);
  json_decref(all);
}

TEST_F(Usage, RefusalsHaveTheirReason)
{
  Mover m(options(path(), std::string(kTwo) + "quotas: [{tenant: red, tier: dram, limit: 1MiB}]\n"));
  ASSERT_TRUE(m.up()) << m.log();
  Engine e(m, {.token = "r"});
  int refused = 0;
  for (int i = 0; i < 32; i++)
    refused += As(e, 5, "k" + std::to_string(i), 64 << 10, DRAY_TIER_DRAM, true).status == DRAY_REFUSED;
  ASSERT_EQ(refused, 16);
  ASSERT_TRUE(until("dray_usage_rows_total", 2)) << m.log();
  json_t *all, *r = row(m, {"--by", "request"}, "request", "5", &all);
  EXPECT_EQ(n(r, "refused"), 16);
  EXPECT_EQ(n(r, "bytes_written"), 1 << 20);
  EXPECT_STREQ(json_string_value(json_object_get(r, "reason")), "QUOTA_EXCEEDED");
  json_decref(all);
}

TEST_F(Usage, OldRowsGo)
{
  {
    Mover m(options(path()));
    ASSERT_TRUE(m.up()) << m.log();
    Engine e(m, {.token = "r"});
    ASSERT_EQ(As(e, 1, "a", 4096, 0, true).status, DRAY_OK);
    ASSERT_EQ(m.stop(), 0);
  }
  if (system("command -v sqlite3 >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "no sqlite3 here to make a row old (apt install sqlite3)";
  ASSERT_EQ(system(("sqlite3 " + db + " 'UPDATE usage SET minute = minute - 86400'").c_str()), 0);
  Mover m(options(path() + ", keep: 12h"));
  ASSERT_TRUE(m.up()) << m.log();
  Engine e(m, {.token = "r"});
  ASSERT_EQ(As(e, 2, "a", 4096, 0, true).status, DRAY_OK);
  ASSERT_EQ(m.stop(), 0);
  run::Result r = run::dray({"usage", "--by", "request", "--since", "7d", "--json", "--db", db});
  EXPECT_EQ(r.out.find("\"request\": 1,"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("\"request\": 2,"), std::string::npos) << r.out;
}

/* Somebody filled it, or wrote over it: said, counted, and the mover goes on. */
TEST_F(Usage, AFullDatabaseIsSaidAndCountedAndTheMoverGoesOn)
{
  Mover m(options(path() + ", max: 64KiB"));
  ASSERT_TRUE(m.up()) << m.log();
  Engine e(m, {.token = "r"});
  for (uint32_t i = 1; i <= 6000; i++)
    ASSERT_EQ(As(e, i, "a", 4096, DRAY_TIER_DRAM, true).status, DRAY_OK);
  ASSERT_TRUE(until("dray_usage_lost_total", 1)) << m.log();
  EXPECT_EQ(http::metric(port, "dray_usage_broken"), 1);
  EXPECT_NE(m.log().find("usage.max, or the disk"), std::string::npos) << m.log();
  EXPECT_EQ(As(e, 9999, "a", 4096, DRAY_TIER_DRAM, true).status, DRAY_OK);
  struct stat st;
  ASSERT_EQ(stat(db.c_str(), &st), 0);
  EXPECT_LE(st.st_size, 64 << 10);
}

/* What is old goes first: else nothing could ever be written again, and so nothing would ever go. */
TEST_F(Usage, AFullDatabaseWhoseRowsAreOldTakesNewOnes)
{
  if (system("command -v sqlite3 >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "no sqlite3 here to make rows old (apt install sqlite3)";
  {
    Mover m(options(path() + ", max: 64KiB"));
    ASSERT_TRUE(m.up()) << m.log();
    Engine e(m, {.token = "r"});
    ASSERT_EQ(As(e, 1, "a", 4096, 0, true).status, DRAY_OK);
    ASSERT_EQ(m.stop(), 0);
  }
  /* row by row, so that the last one that fits is in */
  std::string fill = "(echo 'PRAGMA max_page_count=16; PRAGMA synchronous=OFF;'; seq 3000 | sed \"s/.*/INSERT INTO usage VALUES (60, "
                     "'old', &, 'dram', 1, 0, 0, 0, 0, 0, 0, 0, 0, '');/\") | sqlite3 " + db + " 2>&1 | grep -q 'is full'";
  ASSERT_EQ(system(fill.c_str()), 0) << "it is not full";
  Mover m(options(path() + ", max: 64KiB, keep: 12h"));
  ASSERT_TRUE(m.up()) << m.log();
  Engine e(m, {.token = "r"});
  for (uint32_t i = 1; i <= 400; i++) /* more than the last page has room for */
    ASSERT_EQ(As(e, 70000 + i, "a", 4096, 0, true).status, DRAY_OK);
  ASSERT_EQ(m.stop(), 0);
  run::Result r = run::dray({"usage", "--by", "tenant", "--since", "1h", "--json", "--db", db});
  EXPECT_NE(r.out.find("\"directives\": 401"), std::string::npos) << r.out << m.log();
  EXPECT_EQ(m.log().find("usage.max, or the disk"), std::string::npos) << m.log();
}

TEST_F(Usage, ABrokenDatabaseIsSaidAndCountedAndTheMoverGoesOn)
{
  std::ofstream(db) << std::string(8192, 'x');
  Mover m(options(path()));
  ASSERT_TRUE(m.up()) << m.log();
  Engine e(m, {.token = "r"});
  for (uint32_t i = 1; i <= 100; i++)
    ASSERT_EQ(As(e, i, "a", 4096, DRAY_TIER_DRAM, true).status, DRAY_OK);
  ASSERT_TRUE(until("dray_usage_lost_total", 1)) << m.log();
  EXPECT_EQ(http::metric(port, "dray_usage_broken"), 1);
  EXPECT_NE(m.log().find("not a database"), std::string::npos) << m.log();
  ASSERT_EQ(unlink(db.c_str()), 0); /* the operator takes it away */
  for (int i = 0; i < 300 && http::metric(port, "dray_usage_broken") != 0; i++) {
    ASSERT_EQ(As(e, 5, "a", 4096, DRAY_TIER_DRAM, true).status, DRAY_OK);
    poll(nullptr, 0, 50);
  }
  EXPECT_EQ(http::metric(port, "dray_usage_broken"), 0) << m.log();
  EXPECT_NE(m.log().find("takes rows again"), std::string::npos) << m.log();
}

/* The thread that writes is held up: lanes are not, what does not fit is counted. */
TEST_F(Usage, ADatabaseThatIsHeldByAnotherDropsAndBlocksNobody)
{
  if (system("command -v sqlite3 >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "no sqlite3 here to hold a lock with (apt install sqlite3)";
  Mover m(options(path()));
  ASSERT_TRUE(m.up()) << m.log();
  Engine e(m, {.token = "r"});
  ASSERT_EQ(As(e, 1, "a", 4096, DRAY_TIER_DRAM, true).status, DRAY_OK);
  ASSERT_TRUE(until("dray_usage_rows_total", 1)) << m.log();
  FILE *holder = popen(("sqlite3 " + db + " >/dev/null").c_str(), "w");
  ASSERT_NE(holder, nullptr);
  fputs("PRAGMA busy_timeout=5000; BEGIN IMMEDIATE;\n", holder);
  fflush(holder);
  auto begin = std::chrono::steady_clock::now();
  double slowest = 0;
  for (uint32_t i = 0; http::metric(port, "dray_usage_dropped_total") < 1 && std::chrono::steady_clock::now() - begin < std::chrono::seconds(60); i++) {
    for (int k = 0; k < 2000; k++) {
      auto t = std::chrono::steady_clock::now();
      ASSERT_EQ(As(e, i * 2000 + (uint32_t)k, "a", 4096, DRAY_TIER_DRAM, false).status, DRAY_OK);
      slowest = std::max(slowest, std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count());
    }
    if (http::metric(port, "dray_usage_lost_total") >= 1)
      break; /* the lock is given up on after 2 s: rows are lost then rather than dropped */
  }
  EXPECT_GE(http::metric(port, "dray_usage_dropped_total") + http::metric(port, "dray_usage_lost_total"), 1);
  EXPECT_LT(slowest, 1.5) << "no directive waits as long as the ledger does";
  pclose(holder);
}

TEST_F(Usage, BadSectionsAreClearErrors)
{
  struct {
    std::string section, says;
  } bad[] = {{"path: usage.db", "absolute path"},
             {"path: /nowhere/x/usage.db", "there is no directory '/nowhere/x'"},
             {path() + ", keep: 5s", "at least 1m"},
             {path() + ", keep: -1", "usage.keep"},
             {path() + ", max: nan", "usage.max"},
             {path() + ", max: 1", "64KiB..1TiB"},
             {"line: \"udp:somewhere:1\"", "usage.line"},
             {"line: \"http:127.0.0.1:8086\"", "usage.line"},
             {"line: \"http:127.0.0.1:8086/a b\"", "usage.line"},
             {"line: \"file:relative\"", "usage.line"},
             {path() + ", path: /tmp/x", "path"},
             {"path: /" + std::string(1 << 20, 'x'), "path"}};
  for (auto &b : bad) {
    Mover m(options(b.section));
    EXPECT_FALSE(m.up()) << b.section.substr(0, 80);
    EXPECT_NE(m.log().find(b.says), std::string::npos) << b.section.substr(0, 80) << ": " << m.log();
  }
}

TEST_F(Usage, BadArgumentsOfTheCommandAreUsageErrors)
{
  EXPECT_EQ(run::dray({"usage"}).code, 2);
  EXPECT_EQ(run::dray({"usage", "--by", "moon"}).code, 2);
  EXPECT_EQ(run::dray({"usage", "--by", "tenant", "--since", "-1"}).code, 2);
  EXPECT_EQ(run::dray({"usage", "--by", "tenant", "--since", "nan"}).code, 2);
  EXPECT_EQ(run::dray({"usage", "--by", "tenant", "--limit", "0"}).code, 2);
  EXPECT_EQ(run::dray({"usage", "--by", "tenant", "--db", "/nowhere"}).code, 1);
  Mover m;
  ASSERT_TRUE(m.up());
  run::Result r = run::dray({"usage", "--by", "tenant"}, &m);
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("keeps no ledger"), std::string::npos) << r.err;
}

/* ---- line protocol ---- */

TEST_F(Usage, LinesGoToAFile)
{
  std::string file = s.path("ledger/lines");
  kit::MoverOptions o = options("line: \"file:" + file + "\"", std::string(kTwo));
  o.config += "node: \"a b,c=d\"\n";
  Mover m(o);
  ASSERT_TRUE(m.up()) << m.log();
  Engine e(m, {.token = "r"});
  ASSERT_EQ(As(e, 42, "a", 4096, DRAY_TIER_DRAM, true).status, DRAY_OK);
  ASSERT_EQ(m.stop(), 0);
  std::string t = kit::read_file(file);
  EXPECT_NE(t.find("dray_usage,node=a\\ b\\,c\\=d,tenant=red,tier=dram,request=42 directives=1i,read=0i,written=4096i,"), std::string::npos) << t;
  EXPECT_EQ(t.back(), '\n');
}

TEST_F(Usage, LinesGoOutAsDatagrams)
{
  int u = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in a = {};
  socklen_t n = sizeof a;
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(u, (struct sockaddr *)&a, n), 0);
  ASSERT_EQ(getsockname(u, (struct sockaddr *)&a, &n), 0);
  Mover m(options("line: \"udp:127.0.0.1:" + std::to_string(ntohs(a.sin_port)) + "\""));
  ASSERT_TRUE(m.up()) << m.log();
  Engine e(m, {.token = "r"});
  for (uint32_t i = 1; i <= 100; i++)
    ASSERT_EQ(As(e, i, "a", 4096, DRAY_TIER_DRAM, true).status, DRAY_OK);
  size_t lines = 0, largest = 0;
  for (char buf[65536]; lines < 100;) {
    struct pollfd p = {u, POLLIN, 0};
    ASSERT_EQ(poll(&p, 1, 10000), 1) << lines << " lines came";
    ssize_t k = recv(u, buf, sizeof buf, 0);
    ASSERT_GT(k, 0);
    EXPECT_EQ(buf[k - 1], '\n') << "whole lines";
    largest = std::max(largest, (size_t)k);
    for (ssize_t i = 0; i < k; i++)
      lines += buf[i] == '\n';
  }
  EXPECT_EQ(lines, 100u);
  EXPECT_LE(largest, 1400u);
  close(u);
}

TEST_F(Usage, ADatabaseThatDoesNotAnswerIsSaidAndCounted)
{
  int gone = http::free_port();
  Mover m(options("line: \"http:127.0.0.1:" + std::to_string(gone) + "/write?db=dray\""));
  ASSERT_TRUE(m.up()) << m.log();
  Engine e(m, {.token = "r"});
  ASSERT_EQ(As(e, 1, "a", 4096, DRAY_TIER_DRAM, true).status, DRAY_OK);
  ASSERT_TRUE(until("dray_usage_line_lost_total", 1)) << m.log();
  EXPECT_NE(m.log().find("lines are lost and counted"), std::string::npos) << m.log();
  EXPECT_EQ(As(e, 1, "a", 4096, DRAY_TIER_DRAM, true).status, DRAY_OK);
}

/* Debian's InfluxDB takes them and gives them back. */
TEST_F(Usage, InfluxTakesTheLines)
{
  if (system("command -v influxd >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "no influxd here (apt install influxdb)";
  int api = http::free_port(), rpc = http::free_port();
  std::string conf = s.path("influx.conf");
  std::ofstream(conf) << "reporting-disabled = true\nbind-address = \"127.0.0.1:" << rpc << "\"\n[meta]\ndir = \"" << s.path("meta")
                      << "\"\n[data]\ndir = \"" << s.path("data") << "\"\nwal-dir = \"" << s.path("wal")
                      << "\"\n[http]\nbind-address = \"127.0.0.1:" << api << "\"\n";
  pid_t pid = fork();
  if (pid == 0) {
    if (!freopen(s.path("influx.log").c_str(), "w", stdout) || dup2(1, 2) < 0)
      _exit(126);
    execlp("influxd", "influxd", "-config", conf.c_str(), (char *)nullptr);
    _exit(127);
  }
  bool made = false;
  for (int i = 0; i < 300 && !made; i++) {
    made = http::request(api, "POST", "/query?q=CREATE%20DATABASE%20dray").find("200 OK") != std::string::npos;
    if (!made)
      poll(nullptr, 0, 100);
  }
  EXPECT_TRUE(made) << kit::read_file(s.path("influx.log"));
  {
    Mover m(options("line: \"http:127.0.0.1:" + std::to_string(api) + "/write?db=dray\""));
    EXPECT_TRUE(m.up()) << m.log();
    Engine e(m, {.token = "r"});
    EXPECT_EQ(As(e, 4711, "a", 65536, DRAY_TIER_DRAM, true).status, DRAY_OK);
    EXPECT_TRUE(until("dray_usage_line_sent_total", 1)) << m.log();
    std::string t = http::get(api, "/query?db=dray&q=SELECT%20request,tenant,written%20FROM%20dray_usage");
    EXPECT_NE(t.find("\"4711\",\"red\",65536"), std::string::npos) << t;
  }
  kill(pid, SIGTERM);
  waitpid(pid, nullptr, 0);
}

/* ---- exemplars ---- */
TEST_F(Usage, ExemplarsCarryTheRequest)
{
  Mover m(options(path(), std::string(kTwo) + "quotas: [{tenant: red, tier: dram, limit: 0}]\n"));
  ASSERT_TRUE(m.up()) << m.log();
  Engine e(m, {.token = "r"});
  ASSERT_EQ(As(e, 77, "a", 4096, DRAY_TIER_DRAM, true).reason, DRAY_QUOTA_EXCEEDED);
  ASSERT_EQ(As(e, 78, "b", 4096, DRAY_TIER_CXL, true).status, DRAY_OK);
  std::string open = http::get(port, "/metrics", "Accept: application/openmetrics-text; version=1.0.0\r\n");
  EXPECT_NE(open.find("dray_completions_total{reason=\"QUOTA_EXCEEDED\"} 1 # {request=\"77\"} 0."), std::string::npos) << open.substr(0, 4000);
  EXPECT_NE(open.find("dray_tenant_refused_total{tenant=\"red\",reason=\"QUOTA_EXCEEDED\"} 1 # {request=\"77\"}"), std::string::npos);
  EXPECT_NE(open.find("dray_remote_share_bucket{le=\"+Inf\"} 1 # {request=\"78\"} 1\n"), std::string::npos);
  EXPECT_EQ(http::get(port, "/metrics").find(" # {"), std::string::npos) << "the old format has none";
}
} // namespace
