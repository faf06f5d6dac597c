/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

extern "C" {
#include <dray/types.h>

#include "mover/peer_pick.h"
}

namespace {
struct Asked {
  struct pick_set tried = {};
  std::vector<uint8_t> health;
  uint32_t waiting = 0;
  uint32_t Next(uint32_t had = PICK_NONE)
  {
    uint32_t i = pick_next(health.data(), (uint32_t)health.size(), &tried, had, &waiting);
    if (i != PICK_NONE)
      pick_add(&tried, i);
    return i;
  }
};
unsigned Of(std::initializer_list<unsigned> said, bool writes = false)
{
  unsigned r = 0;
  for (unsigned s : said)
    r = pick_weigh(r, s, writes);
  return r;
}
const uint8_t kKey[16] = {1, 2, 3}, kOther[16] = {4};
} // namespace

TEST(PeerPick, TheHealthiestIsAskedFirstAndEqualsInTheirOrder)
{
  Asked a;
  a.health = {PICK_DOWN, PICK_TRYING, PICK_UP, PICK_LESS, PICK_UP};
  EXPECT_EQ(2u, a.Next());
  EXPECT_EQ(3u, a.waiting) << "4, 3 and 1 may keep a question; 0 answers at once";
  EXPECT_EQ(4u, a.Next());
  EXPECT_EQ(3u, a.Next());
  EXPECT_EQ(1u, a.Next());
  EXPECT_EQ(0u, a.waiting);
  EXPECT_EQ(0u, a.Next()) << "one that is down is asked, too: its answer is why";
  EXPECT_EQ(0u, a.waiting);
  EXPECT_EQ(PICK_NONE, a.Next());
}

TEST(PeerPick, WhoHadItComesBeforeTheHealthiestUnlessItIsDown)
{
  Asked a;
  a.health = {PICK_UP, PICK_LESS, PICK_DOWN};
  EXPECT_EQ(1u, a.Next(1));
  EXPECT_EQ(0u, a.Next(1)) << "once";
  Asked b;
  b.health = a.health;
  EXPECT_EQ(0u, b.Next(2));
  EXPECT_EQ(1u, b.Next(7)) << "a number that is none of them";
}

TEST(PeerPick, AllOfAsManyAsThereMayBeHaveTheirTurn)
{
  Asked a;
  a.health.assign(CONFIG_PEERS_MAX, PICK_UP);
  for (uint32_t i = 0; i < CONFIG_PEERS_MAX; i++)
    EXPECT_EQ(i, a.Next());
  EXPECT_EQ(PICK_NONE, a.Next());
}

TEST(PeerPick, ReadingWhatOneSaysOfACellWeighsMostThenThatOneCouldNotBeAsked)
{
  EXPECT_EQ((unsigned)DRAY_ABSENT, Of({DRAY_ABSENT, DRAY_ABSENT}));
  EXPECT_EQ((unsigned)DRAY_PEER_UNREACHABLE, Of({DRAY_ABSENT, DRAY_PEER_UNREACHABLE}));
  EXPECT_EQ((unsigned)DRAY_PEER_UNREACHABLE, Of({DRAY_PEER_UNREACHABLE, DRAY_ABSENT}));
  EXPECT_EQ((unsigned)DRAY_DEADLINE, Of({DRAY_DEADLINE, DRAY_PEER_UNREACHABLE})) << "the first of equals";
  EXPECT_EQ((unsigned)DRAY_POISONED, Of({DRAY_ABSENT, DRAY_POISONED, DRAY_PEER_UNREACHABLE, DRAY_SCOPE_DENIED}));
  EXPECT_EQ((unsigned)DRAY_EVICTED, Of({DRAY_EVICTED, DRAY_ABSENT}));
}

TEST(PeerPick, WritingNoRoomIsAsGoodAsNotHavingIt)
{
  EXPECT_EQ((unsigned)DRAY_NO_ROOM, Of({DRAY_NO_ROOM, DRAY_NO_ROOM}, true));
  EXPECT_EQ((unsigned)DRAY_PEER_UNREACHABLE, Of({DRAY_NO_ROOM, DRAY_PEER_UNREACHABLE}, true));
  EXPECT_EQ((unsigned)DRAY_TOO_LARGE, Of({DRAY_PEER_UNREACHABLE, DRAY_TOO_LARGE, DRAY_NO_ROOM}, true));
  EXPECT_TRUE(pick_final(DRAY_EXISTS, true)) << "another one must not take it then";
  EXPECT_FALSE(pick_final(DRAY_NO_ROOM, true));
  EXPECT_FALSE(pick_final(DRAY_EXISTS, false));
  EXPECT_TRUE(pick_final(DRAY_REASON_OK, false));
}

TEST(PeerPick, MemoryIsOfOneTenantsKeyAndIsLostToTheLastThatHadIt)
{
  auto m = std::make_unique<struct pick_memory>();
  memset(m.get(), 0, sizeof *m);
  EXPECT_EQ(PICK_NONE, pick_had(m.get(), 1, kKey));
  pick_remember(m.get(), 1, kKey, 0);
  EXPECT_EQ(0u, pick_had(m.get(), 1, kKey));
  EXPECT_EQ(PICK_NONE, pick_had(m.get(), 2, kKey));
  EXPECT_EQ(PICK_NONE, pick_had(m.get(), 1, kOther));
  pick_remember(m.get(), 1, kKey, CONFIG_PEERS_MAX - 1);
  EXPECT_EQ(CONFIG_PEERS_MAX - 1, pick_had(m.get(), 1, kKey));
  pick_forget(m.get(), 1, kKey, 0);
  EXPECT_EQ(CONFIG_PEERS_MAX - 1, pick_had(m.get(), 1, kKey)) << "another one's word";
  pick_forget(m.get(), 1, kKey, CONFIG_PEERS_MAX - 1);
  EXPECT_EQ(PICK_NONE, pick_had(m.get(), 1, kKey));
}
