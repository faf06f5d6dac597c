/* SPDX-License-Identifier: Apache-2.0 */
/* Who an engine is, and what it may see of others. */
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "tests/kit/mover.h"

using kit::Engine;
using kit::Key;
using kit::Mover;
using kit::say;

namespace {
class Tenant : public ::testing::Test {
 protected:
  Mover mover{{.tenants = {"red:r-token", "blue:b-token"}}};
  Engine red{mover, {.agent = "a", .token = "r-token"}};
  Engine blue{mover, {.agent = "a", .token = "b-token"}};
  void SetUp() override
  {
    ASSERT_TRUE(mover.up()) << mover.log();
    ASSERT_EQ(red.error(), 0);
    ASSERT_EQ(blue.error(), 0);
  }
  struct dray_cqe publish(Engine &e, const char *name, uint8_t scope, uint8_t taint, uint32_t mkey)
  {
    struct dray_publish p;
    memset(&p, 0, sizeof p);
    p.scope = scope;
    p.taint = taint;
    p.mkey = mkey;
    memcpy(dray_items(e.d) + 3, &p, sizeof p);
    dray_prep_publish(e.sqe(), Key(name).b, 3);
    return e.one();
  }
  uint32_t key(Engine &e, const char *model)
  {
    struct dray_key k;
    memset(&k, 0, sizeof k);
    strcpy(k.model, model);
    for (char *axis : {k.tokenizer, k.serializer, k.position, k.policy, k.admitter})
      strcpy(axis, "1");
    uint32_t id = 0;
    EXPECT_EQ(dray_key_define(e.d, &k, &id), 0);
    return id;
  }
  struct dray_cqe get_with(Engine &e, const char *name, uint32_t mkey)
  {
    struct dray_sqe *s = e.sqe();
    dray_prep_get(s, Key(name).b, e.region.id, 0, 1000, 0);
    s->arg = mkey;
    return e.one();
  }
  struct dray_cqe map_with(Engine &e, const char *name, uint32_t mkey)
  {
    struct dray_sqe *s = e.sqe();
    dray_prep_map(s, Key(name).b, 0);
    s->arg = mkey;
    return e.one();
  }
};

TEST_F(Tenant, TokenNamesTheTenant)
{
  EXPECT_STREQ(dray_tenant(red.d), "red");
  EXPECT_STREQ(dray_tenant(blue.d), "blue");
  Engine wrong(mover, {.token = "x-token"});
  EXPECT_EQ(wrong.error(), -EACCES);
  Engine prefix(mover, {.token = "r-toke"});
  EXPECT_EQ(prefix.error(), -EACCES);
}

TEST_F(Tenant, WithoutATokenTheUidIsTheTenant)
{
  Engine e(mover);
  ASSERT_EQ(e.error(), 0);
  EXPECT_EQ(std::string(dray_tenant(e.d)), "uid" + std::to_string(getuid()));
}

TEST_F(Tenant, UnknownUidIsRefusedWhenTenantsAreListed)
{
  kit::MoverOptions o;
  o.config = "auto_tenants: false\ntenants: [{name: a, token: t}]\n";
  Mover strict(o);
  ASSERT_TRUE(strict.up()) << strict.log();
  Engine anonymous(strict);
  EXPECT_EQ(anonymous.error(), -EACCES);
  Engine a(strict, {.token = "t"});
  EXPECT_EQ(a.error(), 0);
}

TEST_F(Tenant, TenantsOwnSocketIsItsName)
{
  char dir[] = "/tmp/dray-tsock-XXXXXX";
  ASSERT_NE(mkdtemp(dir), nullptr);
  kit::MoverOptions o;
  o.config = std::string("tenants: [{name: green, socket: ") + dir + "/green.sock}]\n";
  Mover m(o);
  ASSERT_TRUE(m.up()) << m.log();
  struct dray_params p = {};
  std::string path = std::string(dir) + "/green.sock";
  p.size = sizeof p;
  p.socket = path.c_str();
  struct dray *d = nullptr;
  ASSERT_EQ(dray_open(&p, &d), 0);
  EXPECT_STREQ(dray_tenant(d), "green");
  dray_close(d);
  m.stop();
  rmdir(dir);
}

TEST_F(Tenant, AnothersPrivateCellIsAbsentNotDenied)
{
  red.fill(0, 1000, 1);
  ASSERT_EQ(red.put("secret", 0, 1000).status, DRAY_OK);
  for (auto c : {blue.get("secret", 0, 1000), blue.map("secret"), blue.stat("secret"), blue.drop("secret"), blue.move("secret", DRAY_TIER_DISK)}) {
    EXPECT_EQ(c.status, DRAY_MISSED) << say(c);
    EXPECT_EQ(c.reason, DRAY_ABSENT) << say(c);
  }
  dray_prep_quarantine(blue.sqe(), Key("secret").b, 0, 1);
  EXPECT_EQ(blue.one().reason, DRAY_ABSENT);
  EXPECT_EQ(red.get("secret", 0, 1000).status, DRAY_OK);
}

TEST_F(Tenant, SameKeyOfTwoTenantsAreTwoCells)
{
  red.fill(0, 5000, 1);
  blue.fill(0, 5000, 2);
  ASSERT_EQ(red.put("same", 0, 5000).status, DRAY_OK);
  ASSERT_EQ(blue.put("same", 0, 5000).status, DRAY_OK);
  red.get("same", 8192, 5000);
  blue.get("same", 8192, 5000);
  EXPECT_TRUE(red.holds(8192, 5000, 1));
  EXPECT_TRUE(blue.holds(8192, 5000, 2));
  EXPECT_EQ(red.drop("same").status, DRAY_OK);
  EXPECT_EQ(blue.get("same", 0, 5000).status, DRAY_OK);
}

TEST_F(Tenant, AnotherAgentOfTheTenantIsDeniedUntilPublished)
{
  Engine other(mover, {.agent = "b", .token = "r-token"});
  ASSERT_EQ(other.error(), 0);
  uint32_t mk = key(red, "m"), omk = key(other, "m");
  red.fill(0, 1000, 1);
  dray_prep_put(red.sqe(), Key("shared").b, red.region.id, 0, 1000, 0);
  ASSERT_EQ(red.one().status, DRAY_OK);
  EXPECT_EQ(get_with(other, "shared", omk).reason, DRAY_SCOPE_DENIED);
  auto c = publish(red, "shared", DRAY_SCOPE_TENANT, DRAY_TRUSTED, mk);
  ASSERT_EQ(c.status, DRAY_OK) << say(c);
  c = get_with(other, "shared", omk);
  EXPECT_EQ(c.status, DRAY_OK) << say(c);
  EXPECT_TRUE(other.holds(0, 1000, 1));
  EXPECT_EQ(get_with(blue, "shared", key(blue, "m")).reason, DRAY_ABSENT) << "the tenant's, not the fleet's";
}

TEST_F(Tenant, FleetCellNeedsTrustAndAnEqualKey)
{
  uint32_t mk = key(red, "llama"), same = key(blue, "llama"), differs = key(blue, "qwen");
  red.fill(0, 1000, 9);
  red.put("pub", 0, 1000);
  ASSERT_EQ(publish(red, "pub", DRAY_SCOPE_FLEET, DRAY_TRUSTED, mk).status, DRAY_OK);
  EXPECT_EQ(get_with(blue, "pub", 0).reason, DRAY_KEY_INCOMPLETE);
  EXPECT_EQ(get_with(blue, "pub", differs).reason, DRAY_MODEL_MISMATCH);
  auto c = get_with(blue, "pub", same);
  EXPECT_EQ(c.status, DRAY_OK) << say(c);
  EXPECT_TRUE(blue.holds(0, 1000, 9));
  c = map_with(blue, "pub", same);
  ASSERT_EQ(c.status, DRAY_OK) << say(c);
  EXPECT_TRUE(kit::pattern_holds(dray_map_address(blue.d, c.slab, c.off), 1000, 9));
  EXPECT_EQ(blue.drop("pub").reason, DRAY_SCOPE_DENIED) << "a reader cannot drop it";
  EXPECT_EQ(blue.unmap(c.object).status, DRAY_OK) << "or it would be asked for: revoke_test.cc";
  EXPECT_EQ(publish(red, "pub", DRAY_SCOPE_FLEET, DRAY_TAINTED, mk).status, DRAY_OK);
  EXPECT_EQ(get_with(blue, "pub", same).reason, DRAY_TAINT_DENIED);
  EXPECT_EQ(publish(red, "pub", DRAY_SCOPE_FLEET, DRAY_TRUSTED, mk).status, DRAY_OK);
  EXPECT_EQ(get_with(blue, "pub", same).reason, DRAY_TAINT_DENIED) << "taint only rises";
  EXPECT_EQ(publish(red, "pub", DRAY_SCOPE_AGENT, DRAY_TRUSTED, mk).reason, DRAY_SCOPE_DENIED) << "scope only widens";
}

TEST_F(Tenant, PublishedSlabHoldsNothingPrivate)
{
  uint32_t mk = key(red, "m"), bmk = key(blue, "m");
  for (int i = 0; i < 20; i++) {
    red.fill(0, 4096, 1000 + i);
    red.put("priv" + std::to_string(i), 0, 4096, DRAY_TIER_DRAM);
  }
  red.fill(0, 4096, 5);
  red.put("open", 0, 4096, DRAY_TIER_DRAM);
  ASSERT_EQ(publish(red, "open", DRAY_SCOPE_FLEET, DRAY_TRUSTED, mk).status, DRAY_OK);
  auto c = map_with(blue, "open", bmk);
  ASSERT_EQ(c.status, DRAY_OK) << say(c);
  /* whoever maps one cell of a slab can read all of it: so it must hold no byte of a private cell */
  const char *slab = static_cast<const char *>(dray_map_address(blue.d, c.slab, 0));
  ASSERT_NE(slab, nullptr);
  for (int i = 0; i < 20; i++) {
    std::string secret(4096, 0);
    kit::pattern_fill(secret.data(), 4096, 1000 + i);
    EXPECT_EQ(memmem(slab, 256 * 1024, secret.data(), 64), nullptr) << i;
  }
}
}  // namespace
