/* SPDX-License-Identifier: Apache-2.0 */
// The fault script's grammar.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

extern "C" {
#include "transports/fault/script.h"
}

namespace {
int Parse(const std::string &t, struct script *s, std::string *why = nullptr)
{
  struct err e = {};
  int r = script_parse(t.data(), t.size(), &e, s);
  if (why)
    *why = e.text;
  return r;
}
} // namespace

TEST(Script, NothingDoesNothing)
{
  struct script s;
  for (const char *t : {"", " ", "   "}) {
    ASSERT_EQ(0, Parse(t, &s));
    EXPECT_FALSE(script_holds(&s));
    EXPECT_EQ(0u, s.fail.a + s.cut.a + s.poison.a + s.source.a + s.places);
    EXPECT_EQ(4096u, s.unit);
  }
}

TEST(Script, EveryItemIsUnderstood)
{
  struct script s;
  ASSERT_EQ(0, Parse("seed=7 fail=EIO:1/100  short=1/50 delay=1/10:3 reorder=1/5 drop=2/1000:500ms poison=3:64K@12 "
                     "poison=0:1M poison=1/9x4 early=2:4K source=1/2 unit=2M",
                     &s));
  EXPECT_EQ(7u, s.seed);
  EXPECT_EQ(EIO, s.fail_err);
  EXPECT_EQ(100u, s.fail.b);
  EXPECT_EQ(50u, s.cut.b);
  EXPECT_EQ(3u, s.delay_polls);
  EXPECT_EQ(0u, s.delay_ms);
  EXPECT_EQ(5u, s.reorder.b);
  EXPECT_EQ(500u, s.drop_ms);
  ASSERT_EQ(3u, s.places);
  EXPECT_TRUE(s.place[2].early);
  EXPECT_FALSE(s.place[1].early);
  EXPECT_EQ(3u, s.place[0].slab);
  EXPECT_EQ(65536u, s.place[0].off);
  EXPECT_EQ(12u, s.place[0].after);
  EXPECT_EQ(1u << 20, s.place[1].off);
  EXPECT_EQ(9u, s.poison.b);
  EXPECT_EQ(4u, s.poison_max);
  EXPECT_EQ(2u, s.source.b);
  EXPECT_EQ(2u << 20, s.unit);
  EXPECT_TRUE(script_holds(&s));
  ASSERT_EQ(0, Parse("poison=d:36K@3 early=d:0", &s));
  ASSERT_EQ(2u, s.places);
  EXPECT_TRUE(s.place[0].directory && s.place[1].directory && s.place[1].early);
  EXPECT_EQ(36u << 10, s.place[0].off);
  EXPECT_EQ(3u, s.place[0].after);
  ASSERT_EQ(0, Parse("drop=1/1 delay=1/1:40ms fail=ENOSPC:0/5", &s));
  EXPECT_EQ(2000u, s.drop_ms);
  EXPECT_EQ(40u, s.delay_ms);
}

TEST(Script, WhatIsNoneIsRefusedWithTheItemAndTheForm)
{
  const char *bad[] = {"x", "fail", "fail=", "fail=EIO", "fail=EIO:", "fail=EIO:1", "fail=EIO:1/0", "fail=EIO:2/1",
                       "fail=EPERM:1/2", "fail=EIO:1/2x", "fail=1/2", "short=-1/2", "short=1/2/3", "short=1 /2",
                       "short=1/99999999999", "delay=1/2", "delay=1/2:", "delay=1/2:0", "delay=1/2:3s", "delay=1/2:3m",
                       "delay=1/2:99999999", "drop=1/2:3", "drop=1/2:0ms", "reorder=1", "poison=1", "poison=1:", "poison=d", "poison=d:", "poison=dd:1", "early=d1:1",
                       "poison=:1", "poison=1:2@", "poison=1:2K@x", "poison=1/2x", "poison=1/2x0", "poison=1:2G",
                       "source=1:2", "early=1/2", "early=1", "unit=3K", "unit=2K", "unit=0", "unit=2048M", "seed=", "seed=99999999999999999999",
                       "seed=1 seed=2", "short=1/2 short=1/2", "SEED=1", "seed=1,short=1/2", "seed =1", "=1", "=",
                       "poison=4294967296:0", "poison=0:99999999999999999999M"};
  for (const char *t : bad) {
    struct script s, before;
    memset(&s, 0x5a, sizeof s);
    before = s;
    std::string why;
    EXPECT_EQ(-EINVAL, Parse(t, &s, &why)) << t;
    EXPECT_EQ(0, memcmp(&s, &before, sizeof s)) << t << ": nothing is written when it is refused";
    EXPECT_EQ(0u, why.find("fault script: ")) << t << ": " << why;
  }
  std::string why;
  struct script s;
  Parse("fail=EIO", &s, &why);
  EXPECT_NE(std::string::npos, why.find("'fail=EIO': need fail=WORD:A/B")) << why;
  std::string many;
  for (int i = 0; i < 17; i++)
    many += "poison=1:4096 ";
  EXPECT_EQ(-EINVAL, Parse(many, &s, &why));
  EXPECT_EQ(-EINVAL, Parse(std::string(2000, ' '), &s, &why));
  EXPECT_EQ(-EINVAL, Parse(std::string("seed=1\0", 7), &s, &why)) << "a zero is no space";
}
