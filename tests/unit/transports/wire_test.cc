/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <cstring>

extern "C" {
#include <dray/types.h>

#include "transports/rdma/wire.h"
}

namespace {
const unsigned kQuestions[] = {WIRE_HELLO, WIRE_AUTH,    WIRE_LEND,   WIRE_SEGS,    WIRE_WIPE, WIRE_PING, WIRE_RESOLVE,
                               WIRE_RELEASE, WIRE_RESERVE, WIRE_COMMIT, WIRE_ABANDON, WIRE_STAT};
const unsigned kAnswers[] = {WIRE_CHALLENGE, WIRE_WELCOME,  WIRE_LENT,     WIRE_SEGMENTS,
                             WIRE_DONE,      WIRE_RESOLVED, WIRE_RESERVED, WIRE_FACTS};

// A message of that type with nothing wrong in it.
union wire_msg Good(unsigned type)
{
  union wire_msg m;
  wire_begin(&m, type, 7, 9);
  auto who = [](struct wire_who *w) { strcpy(w->tenant, "acme"); };
  switch (type) {
  case WIRE_HELLO:
    strcpy(m.hello.name, "node-a");
    m.hello.instance = 1;
    break;
  case WIRE_CHALLENGE:
    strcpy(m.challenge.name, "node-b");
    break;
  case WIRE_WELCOME:
    m.welcome.session = 1;
    m.welcome.lease_ms = 1;
    break;
  case WIRE_LEND:
    m.lend.bytes = 4096;
    break;
  case WIRE_LENT:
    m.lent.reason = DRAY_REASON_OK;
    m.lent.lease = m.lent.bytes = m.lent.segs = 1;
    break;
  case WIRE_SEGMENTS:
    m.segments.reason = DRAY_REASON_OK;
    m.segments.n = 1;
    m.segments.seg[0].bytes = 4096;
    break;
  case WIRE_DONE:
    m.done.reason = DRAY_REASON_OK;
    break;
  case WIRE_RESOLVE:
  case WIRE_STAT:
    who(&m.resolve.who);
    break;
  case WIRE_RESOLVED:
    m.resolved.reason = DRAY_REASON_OK;
    m.resolved.scope = DRAY_SCOPE_FLEET;
    m.resolved.taint = DRAY_TRUSTED;
    m.resolved.handle = 1;
    m.resolved.n = 2;
    m.resolved.len = 100;
    m.resolved.seg[0] = {0, 60, {}};
    m.resolved.seg[1] = {4096, 40, {}};
    break;
  case WIRE_RESERVE:
    who(&m.reserve.who);
    m.reserve.scope = DRAY_SCOPE_AGENT;
    m.reserve.len = 1;
    break;
  case WIRE_RESERVED:
    m.reserved.reason = DRAY_REASON_OK;
    m.reserved.handle = 1;
    m.reserved.n = 1;
    m.reserved.seg[0] = {0, 60, {}};
    break;
  case WIRE_FACTS:
    m.facts.reason = DRAY_ABSENT;
    break;
  }
  return m;
}
} // namespace

TEST(Wire, EveryTypeHasItsLengthAndItsDirection)
{
  unsigned n = 0;
  for (bool question : {true, false}) {
    for (unsigned t = 0; t < WIRE_TYPES + 3; t++) {
      if (!wire_bytes(t))
        continue;
      n++;
      union wire_msg m = Good(t);
      const char *what = wire_check(&m, wire_bytes(t), question);
      if (question == (t & 1))
        EXPECT_EQ(nullptr, what) << t << ": " << (what ? what : "");
      else
        EXPECT_NE(nullptr, what) << t;
    }
  }
  EXPECT_EQ(2 * (std::size(kQuestions) + std::size(kAnswers)), n);
}

TEST(Wire, AHeadThatIsNotOursIsRefused)
{
  for (unsigned t : kQuestions) {
    const uint32_t n = wire_bytes(t);
    for (int broken = 0; broken < 6; broken++) {
      union wire_msg m = Good(t);
      uint32_t len = n;
      switch (broken) {
      case 0: m.h.magic++; break;
      case 1: m.h.version++; break;
      case 2: m.h.type = WIRE_TYPES; break;
      case 3: m.h.bytes++; break;
      case 4: m.h.id = 0; break;
      case 5: len--; break;
      }
      EXPECT_NE(nullptr, wire_check(&m, len, true)) << t << " " << broken;
    }
  }
  union wire_msg m = Good(WIRE_PING);
  for (uint32_t n = 0; n < sizeof m.h; n++)
    EXPECT_NE(nullptr, wire_check(&m, n, true));
  uint8_t big[WIRE_BYTES_MAX + 1] = {};
  EXPECT_NE(nullptr, wire_check(big, sizeof big, true));
}

TEST(Wire, ALengthThatIsALieIsRefused)
{
  auto resolved = [](auto change) {
    union wire_msg m = Good(WIRE_RESOLVED);
    change(m.resolved);
    return wire_check(&m, sizeof m.resolved, false);
  };
  EXPECT_EQ(nullptr, resolved([](auto &) {}));
  EXPECT_NE(nullptr, resolved([](auto &r) { r.len = 99; }));
  EXPECT_NE(nullptr, resolved([](auto &r) { r.len = 101; }));
  EXPECT_NE(nullptr, resolved([](auto &r) { r.len = 0; }));
  EXPECT_NE(nullptr, resolved([](auto &r) { r.n = 0; }));
  EXPECT_NE(nullptr, resolved([](auto &r) { r.n = WIRE_SEGS_MAX + 1; }));
  EXPECT_NE(nullptr, resolved([](auto &r) { r.seg[1].bytes = 0; r.len = 60; }));
  EXPECT_NE(nullptr, resolved([](auto &r) { r.seg[0].addr = UINT64_MAX - 10; })) << "wraps";
  EXPECT_NE(nullptr, resolved([](auto &r) { r.seg[0].bytes = UINT64_MAX - 39; r.len = 0; })) << "the sum wraps";
  EXPECT_NE(nullptr, resolved([](auto &r) { r.seg[0].bytes = WIRE_CELL_MAX; r.len = WIRE_CELL_MAX + 40; }));
  EXPECT_EQ(nullptr, resolved([](auto &r) { r.seg[0].bytes = (1ull << 32) - 41; r.len = (1ull << 32) - 1; }));
  EXPECT_EQ(nullptr, resolved([](auto &r) { r.seg[0].bytes = (1ull << 32) - 39; r.len = (1ull << 32) + 1; }));
  EXPECT_NE(nullptr, resolved([](auto &r) { r.scope = 0; }));
  EXPECT_NE(nullptr, resolved([](auto &r) { r.reason = 0; }));
}

TEST(Wire, NamesAreTextThatEndsAndHidesNothing)
{
  auto stat = [](auto change) {
    union wire_msg m = Good(WIRE_STAT);
    change(m.resolve);
    return wire_check(&m, sizeof m.resolve, true);
  };
  EXPECT_EQ(nullptr, stat([](auto &q) { memset(q.who.tenant, 'x', WIRE_NAME_MAX - 1); }));
  EXPECT_NE(nullptr, stat([](auto &q) { memset(q.who.tenant, 'x', WIRE_NAME_MAX); }));
  EXPECT_NE(nullptr, stat([](auto &q) { q.who.tenant[0] = 0; }));
  EXPECT_NE(nullptr, stat([](auto &q) { q.who.tenant[10] = 'z'; })) << "behind the end";
  EXPECT_NE(nullptr, stat([](auto &q) { q.who.agent[0] = '\n'; }));
  EXPECT_NE(nullptr, stat([](auto &q) { memset(q.mkey.policy, 'x', DRAY_AXIS_MAX); }));
}

TEST(Wire, AJoinIsCheckedToo)
{
  struct wire_join j = {};
  j.magic = WIRE_MAGIC;
  j.version = WIRE_VERSION;
  j.lane = 3;
  j.session = 5;
  EXPECT_EQ(nullptr, wire_join_check(&j, sizeof j));
  EXPECT_NE(nullptr, wire_join_check(&j, sizeof j - 1));
  j.session = 0;
  EXPECT_NE(nullptr, wire_join_check(&j, sizeof j));
  j.lane = WIRE_CONTROL;
  EXPECT_EQ(nullptr, wire_join_check(&j, sizeof j));
  j.magic = 0;
  EXPECT_NE(nullptr, wire_join_check(&j, sizeof j));
  struct wire_joined a = {WIRE_MAGIC, WIRE_VERSION, WIRE_DEVS - 1, 0};
  EXPECT_EQ(nullptr, wire_joined_check(&a, sizeof a));
  a.dev = WIRE_DEVS;
  EXPECT_NE(nullptr, wire_joined_check(&a, sizeof a));
}
