/* SPDX-License-Identifier: Apache-2.0 */
/* quotas, rates and rules of the file: what is good is read, what is bad is one clear error. */
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>

extern "C" {
#include "mover/config.h"
}

namespace {
const char kTenants[] = "tenants: [{name: a, token: ta}, {name: b, token: tb}]\n";

class QuotaConfig : public ::testing::Test {
 protected:
  struct config c;
  struct err e = {};
  std::string path = "/tmp/dray-quota-config." + std::to_string(getpid()) + ".yaml";
  void SetUp() override { ASSERT_EQ(config_default(&c, "/tmp/x", &e), 0); }
  void TearDown() override
  {
    config_free(&c);
    unlink(path.c_str());
  }
  int load(const std::string &text)
  {
    std::ofstream(path) << text;
    int r = config_load(&c, path.c_str(), &e);
    return r < 0 ? r : config_finish(&c, &e);
  }
  void Refused(const std::string &text, const std::string &says)
  {
    TearDown();
    e = {};
    SetUp();
    EXPECT_LT(load(kTenants + text), 0) << text.substr(0, 200);
    EXPECT_NE(std::string(e.text).find(says), std::string::npos) << text.substr(0, 200) << "\n -> " << e.text;
  }
};

TEST_F(QuotaConfig, AllOfItIsRead)
{
  ASSERT_EQ(load(std::string(kTenants) +
                 "quotas:\n"
                 "  - {tenant: a, tier: dram, reserve: 64MiB, limit: 256MiB, weight: 3, over: demote}\n"
                 "  - {tenant: uid1000, tier: dram, limit: 0}\n"
                 "rates:\n"
                 "  - {tenant: b, bytes: 100MiB, burst: 1MiB, directives: 5000, over: refuse}\n"
                 "rules:\n"
                 "  - {name: full, tier: dram, when: 90%, until: 80%, class: bulk, what: slow, rate: 10MiB, return: 2s}\n"),
            0)
      << e.text;
  ASSERT_EQ(c.quota.grants_n, 2u);
  EXPECT_EQ(c.quota.grant[0].reserve, 64u << 20);
  EXPECT_EQ(c.quota.grant[0].limit, 256u << 20);
  EXPECT_EQ(c.quota.grant[0].weight, 3u);
  EXPECT_EQ(c.quota.grant[0].over, QUOTA_DEMOTE);
  EXPECT_EQ(c.quota.grant[1].limit, 0u);
  EXPECT_EQ(c.quota.grant[1].over, QUOTA_REFUSE) << "the default";
  EXPECT_TRUE(c.quota.rate[0].refuse);
  EXPECT_EQ(c.quota.rate[0].bytes_burst, 1u << 20);
  EXPECT_EQ(c.quota.rule[0].when, 900u);
  EXPECT_EQ(c.quota.rule[0].klass, DRAY_CLASS_BULK);
  EXPECT_EQ(c.quota.rule[0].return_ms, 2000u);
}

TEST_F(QuotaConfig, BadInputIsOneClearError)
{
  const std::string q = "quotas: [{tenant: a, tier: dram, ", r = "rules: [{name: x, tier: dram, ",
                    s = "rates: [{tenant: a, ";
  Refused(q + "limit: -1}]\n", "limit: '-1' is not a size");
  Refused(q + "limit: 99999999999999999999}]\n", "too large");
  Refused(q + "limit: 9223372036854775808}]\n", "too large");
  Refused(q + "limit: NaN}]\n", "is not a size");
  Refused(q + "limit: inf}]\n", "is not a size");
  Refused(q + "reserve: 2MiB, limit: 1MiB}]\n", "reserve: need at most its limit");
  Refused(q + "reserve: 2GiB}]\n", "reserves on dram");
  Refused(q + "reserve: 600MiB}, {tenant: b, tier: dram, reserve: 600MiB}]\n", "reserves on dram");
  Refused(q + "limit: 1, limit: 2}]\n", "");
  Refused(q + "limit: 1}, {tenant: a, tier: dram, limit: 2}]\n", "given twice");
  Refused(q + "weight: 0}]\n", "weight: '0' is not a whole number in 1..1000");
  Refused(q + "over: slow}]\n", "over");
  Refused(q + "colour: red}]\n", "colour");
  Refused("quotas: [{tenant: nobody-knows, tier: dram}]\n", "no such tenant");
  Refused("quotas: [{tenant: a, tier: tape}]\n", "tier: 'tape'");
  Refused("quotas: [{tenant: a, tier: hbm}]\n", "this mover has no hbm");
  Refused("quotas: [{tier: dram}]\n", "tenant: need a name");
  Refused("quotas: [{tenant: " + std::string(1 << 20, 'x') + ", tier: dram}]\n", "");
  Refused(s + "bytes: 0}]\n", "above 0");
  Refused(s + "directives: 0}]\n", "directives: '0'");
  Refused(s + "bytes: -1}]\n", "bytes: '-1'");
  Refused(s + "bytes: 1, over: sometimes}]\n", "'sometimes' is none of wait refuse");
  Refused("rates: [{tenant: z, bytes: 1}]\n", "no such tenant");
  Refused(r + "when: 90%, until: 90%, what: refuse}]\n", "never end");
  Refused(r + "when: 90%, until: 95%, what: refuse}]\n", "never end");
  Refused(r + "when: 90, until: 80%, what: refuse}]\n", "when: need 1%..100%");
  Refused(r + "when: 101%, until: 80%, what: refuse}]\n", "when: need 1%..100%");
  Refused(r + "when: -5%, until: 80%, what: refuse}]\n", "when: need 1%..100%");
  Refused(r + "when: 90%, what: refuse}]\n", "until: need 1%..100%, have 'nothing'");
  Refused(r + "when: 90%, until: 80%, what: slow}]\n", "slow needs one");
  Refused(r + "when: 90%, until: 80%, what: pray}]\n", "'pray' is none of refuse slow demote evict");
  Refused(r + "when: 90%, until: 80%, what: refuse, class: first}]\n", "'first' is none of");
  Refused(r + "when: 90%, until: 80%, what: refuse, return: 2h}]\n", "return");
  Refused(r + "when: 90%, until: 80%, what: refuse}, {name: y, tier: dram, when: 90%, until: 70%, what: evict}]\n",
          "contradict");
  Refused("rules: [{name: x, tier: disk, when: 90%, until: 80%, what: demote}]\n", "no tier below");
  Refused("rules: [{tier: dram, when: 90%, until: 80%, what: refuse}]\n", "name");
}

TEST_F(QuotaConfig, WhatIsWrongIsSaidWithItsLine)
{
  Refused("# a comment\nrules:\n  - {name: x, tier: dram, when: 90%, until: 80%, what: refuse}\n"
          "  - name: y\n    tier: dram\n    when: 70%\n    until: 75%\n    what: refuse\n",
          "line 5: rule y: until");
  Refused("rules: [{name: x, tier: dram, when: 90%, until: 80%, what: refuse},\n\n"
          "  {name: y, tier: dram, when: 90%, until: 70%, what: evict}]\n",
          "line 4: rules x and y contradict");
  Refused("rules:\n  - {name: x, tier: dram, when: 90%, until: 0%, what: refuse}\n", "line 3: config: rule x: until");
  Refused("quotas:\n  - {tenant: a, tier: dram}\n  - {tenant: who, tier: dram}\n", "line 4: quota of who");
  Refused("rates:\n  - {tenant: a, bytes: 1}\n  # again\n  - {tenant: a, bytes: 2}\n", "line 5: rate of a: given twice");
  Refused("limits: {cells: 2048}\nquotas:\n\n  - {tenant: a, tier: dram, reserve: 2GiB}\n", "line 5: quota: reserves on dram");
}

TEST_F(QuotaConfig, QuotasBySessionAndRequest)
{
  ASSERT_EQ(load(std::string(kTenants) + "quotas:\n  - {tenant: a, unit: session, limit: 1MiB}\n"
                 "  - {tenant: a, unit: request, limit: 2MiB}\n  - {tenant: a, unit: tenant, tier: dram, limit: 1GiB}\n"),
            0)
      << e.text;
  ASSERT_EQ(c.quota.budgets_n, 2u);
  EXPECT_EQ(c.quota.grants_n, 1u);
  EXPECT_EQ(c.quota.budget[0].unit, QUOTA_SESSION);
  EXPECT_EQ(c.quota.budget[1].limit, 2u << 20);
  EXPECT_EQ(c.quota.budget[1].line, 4u);
  EXPECT_EQ(c.quota.grant[0].line, 5u);
  const std::string q = "quotas:\n  - {tenant: a, unit: session, ";
  Refused(q + "limit: 1MiB, tier: dram}\n", "line 3: config: quota of a per session: need a limit, and no tier");
  Refused(q + "weight: 1}\n", "need a limit");
  Refused(q + "limit: -1}\n", "'-1'");
  Refused(q + "limit: 1MiB}\n  - {tenant: a, unit: session, limit: 2MiB}\n", "line 4: quota of a per session: given twice");
  Refused("quotas: [{tenant: zz, unit: request, limit: 1}]\n", "no such tenant");
  Refused("quotas: [{tenant: a, unit: planet, limit: 1}]\n", "'planet' is none of tenant session request");
  Refused("token_cost: 0\n", "token_cost");
  Refused("token_cost: -1us\n", "token_cost");
}

TEST_F(QuotaConfig, RulesOfBandwidth)
{
  ASSERT_EQ(load(std::string(kTenants) + "rules: [{name: x, tier: dram, of: bandwidth, when: 90%, until: 80%, what: slow, rate: 1MiB}]\n"), 0)
      << e.text;
  EXPECT_EQ(c.quota.rule[0].of, RULE_OF_BANDWIDTH);
  const std::string r = "rules: [{name: x, tier: dram, ";
  Refused(r + "of: moon, when: 90%, until: 80%, what: refuse}]\n", "'moon' is none of fill bandwidth");
  Refused(r + "of: bandwidth, when: 90%, until: 80%, what: evict}]\n", "worse");
}

TEST_F(QuotaConfig, AReloadIsCheckedAgainstTheTenantsThatRun)
{
  ASSERT_EQ(load("auto_tenants: false\n"), 0) << e.text;
  auto p = std::make_unique<quota_plan>();
  p->rates_n = 1;
  snprintf(p->rate[0].tenant, sizeof p->rate[0].tenant, "uid5");
  p->rate[0].bytes = 1;
  EXPECT_LT(config_quota_check(&c, p.get(), &e), 0) << "unknown uids are not let in";
  c.auto_tenants = true;
  EXPECT_EQ(config_quota_check(&c, p.get(), &e), 0) << e.text;
}
} // namespace
