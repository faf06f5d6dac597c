/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <cstring>

extern "C" {
#include <dray/types.h>

#include "transports/rdma/talk.h"
}

namespace {
struct Counts {
  int lend = 0, resolve = 0;
};
const struct talk_ops kOps = {
    [](void *c, struct talk *, const struct wire_lend *q, struct wire_lent *a) {
      static_cast<Counts *>(c)->lend++;
      a->reason = DRAY_REASON_OK;
      a->lease = a->segs = 1;
      a->bytes = q->bytes;
    },
    nullptr,
    nullptr,
    [](void *c, struct talk *, const struct wire_resolve *, struct wire_resolved *a) {
      static_cast<Counts *>(c)->resolve++;
      a->reason = DRAY_ABSENT;
    },
    nullptr, nullptr, nullptr, nullptr, nullptr};

class Talk : public testing::Test {
protected:
  void SetUp() override
  {
    host_.ops = &kOps;
    host_.ctx = &counts_;
    strcpy(host_.name, "b");
    host_.epoch = 41;
    host_.lease_ms = 1000;
    SetKey("0123456789abcdef", &host_.key);
    SetKey("0123456789abcdef", &key_);
    talk_open(&talk_, &host_, false);
  }
  static void SetKey(const char *text, struct auth_key *k)
  {
    k->bytes = static_cast<uint32_t>(strlen(text));
    memcpy(k->key, text, k->bytes);
  }
  int Hello()
  {
    EXPECT_EQ(0, hail_begin(&hail_, &key_, "a", 77, talk_.own_address, 1, &q_));
    return talk_feed(&talk_, &q_, q_.h.bytes, &a_);
  }
  int Auth()
  {
    int r = hail_challenged(&hail_, &a_, a_.h.bytes, 2, &q_);
    return r ? r : talk_feed(&talk_, &q_, q_.h.bytes, &a_);
  }
  void In()
  {
    ASSERT_EQ(0, Hello());
    ASSERT_EQ(0, Auth());
    ASSERT_EQ(0, hail_welcomed(&hail_, &a_, a_.h.bytes)) << hail_.why;
  }
  int Lend(uint32_t epoch)
  {
    wire_begin(&q_, WIRE_LEND, epoch, 5);
    q_.lend.bytes = 4096;
    return talk_feed(&talk_, &q_, q_.h.bytes, &a_);
  }
  Counts counts_;
  struct talk_host host_ = {};
  struct auth_key key_ = {};
  struct talk talk_ = {};
  struct hail hail_ = {};
  union wire_msg q_ = {}, a_ = {};
};
} // namespace

TEST_F(Talk, BothSidesShowThatTheyHaveTheKeyAndThenQuestionsAreAnswered)
{
  In();
  EXPECT_EQ(41u, hail_.epoch);
  EXPECT_EQ(1000u, hail_.lease_ms);
  EXPECT_EQ(0, Lend(hail_.epoch));
  EXPECT_EQ(WIRE_LENT, a_.h.type);
  EXPECT_EQ(5u, a_.h.id);
  EXPECT_EQ(DRAY_REASON_OK, a_.lent.reason);
  EXPECT_EQ(nullptr, wire_check(&a_, a_.h.bytes, false));
  EXPECT_EQ(1, counts_.lend);
}

TEST_F(Talk, NothingIsAnsweredBeforeThePeerSaidWhoItIs)
{
  EXPECT_EQ(-EACCES, Lend(41));
  EXPECT_EQ(0, counts_.lend);
  EXPECT_EQ(-EPROTO, Hello()) << "closed is closed";
  talk_open(&talk_, &host_, false);
  EXPECT_EQ(0, Hello());
  EXPECT_EQ(-EACCES, Lend(41)) << "challenged is not in";
}

TEST_F(Talk, AnotherKeyIsRefusedByBothSides)
{
  SetKey("fedcba9876543210", &key_);
  EXPECT_EQ(0, Hello());
  EXPECT_EQ(-EACCES, Auth());
  EXPECT_STREQ("its key is another", talk_.why);
  // and an answering side that only says yes
  talk_open(&talk_, &host_, false);
  EXPECT_EQ(0, Hello());
  EXPECT_EQ(0, hail_challenged(&hail_, &a_, a_.h.bytes, 2, &q_));
  wire_begin(&a_, WIRE_WELCOME, 41, 2);
  a_.welcome.session = a_.welcome.lease_ms = 1;
  EXPECT_EQ(-EACCES, hail_welcomed(&hail_, &a_, a_.h.bytes));
}

TEST_F(Talk, AProofSentBackToWhoMadeItIsNone)
{
  EXPECT_EQ(0, Hello());
  EXPECT_EQ(0, hail_challenged(&hail_, &a_, a_.h.bytes, 2, &q_));
  union wire_msg reflected;
  wire_begin(&reflected, WIRE_WELCOME, 41, 2);
  memcpy(reflected.welcome.mac, q_.auth.mac, WIRE_MAC);
  reflected.welcome.session = reflected.welcome.lease_ms = 1;
  EXPECT_EQ(-EACCES, hail_welcomed(&hail_, &reflected, reflected.h.bytes));
}

TEST_F(Talk, WithoutAKeyOnlyThisHostIsSpokenTo)
{
  host_.key.bytes = key_.bytes = 0;
  EXPECT_EQ(-EACCES, Hello());
  EXPECT_NE(nullptr, strstr(talk_.why, "no key is configured"));
  talk_open(&talk_, &host_, true);
  In();
  // a peer with a key is not spoken to without one, nor the other way round
  SetKey("0123456789abcdef", &key_);
  talk_open(&talk_, &host_, true);
  EXPECT_EQ(0, Hello());
  EXPECT_EQ(-EACCES, Auth());
}

TEST_F(Talk, AnEpochFromBeforeARestartIsStale)
{
  In();
  EXPECT_EQ(0, Lend(40));
  EXPECT_EQ(DRAY_PEER_STALE, a_.lent.reason);
  EXPECT_EQ(0, counts_.lend);
}

TEST_F(Talk, DataConnectionsNeedTheSessionTheKeyAndAFreshSerial)
{
  In();
  struct wire_join j, got;
  hail_join(&hail_, 2, 1, 10, &j);
  EXPECT_EQ(0, talk_join(&talk_, &j, sizeof j, &got));
  EXPECT_EQ(2, got.lane);
  EXPECT_EQ(-EACCES, talk_join(&talk_, &j, sizeof j, &got)) << "played again";
  hail_join(&hail_, 2, 1, 11, &j);
  j.path = 0;
  EXPECT_EQ(-EACCES, talk_join(&talk_, &j, sizeof j, &got)) << "changed on the way";
  hail_join(&hail_, 2, 1, 11, &j);
  j.session ^= 2;
  EXPECT_EQ(-EACCES, talk_join(&talk_, &j, sizeof j, &got));
  hail_join(&hail_, 2, 1, 11, &j);
  EXPECT_EQ(0, talk_join(&talk_, &j, sizeof j, &got));
}

TEST_F(Talk, GarbageClosesTheConnection)
{
  In();
  uint8_t junk[64];
  memset(junk, 0xa5, sizeof junk);
  EXPECT_EQ(-EPROTO, talk_feed(&talk_, junk, sizeof junk, &a_));
  EXPECT_EQ(TALK_CLOSED, talk_.state);
  EXPECT_EQ(-EPROTO, Lend(41));
}
