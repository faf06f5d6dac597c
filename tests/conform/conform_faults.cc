/* SPDX-License-Identifier: Apache-2.0 */
// Every transport behind faults by a seed: each xfer ends once, in its lane, and says the truth about its bytes.
#include <cstring>
#include <map>
#include <set>

#include "tests/conform/transport_conform.h"

class ConformFaults : public Conform {
protected:
  std::string script_;
  void Use(const std::string &script)
  {
    TearDown();
    conform_fault(script);
    SetUp();
    conform_fault("none");
  }
  struct Sent {
    uint64_t slot, bytes;
    bool write;
  };
  // n writes of the pattern and then n reads, both lanes, out of step; what each end says is checked against the bytes.
  void Storm(unsigned n, const std::set<unsigned> &reasons)
  {
    struct slab_mem m = Slab();
    Region a(kSlab), b(kSlab);
    a.fill(11);
    unsigned failed = 0, odd_order = 0;
    for (bool write : {true, false}) {
      for (uint32_t lane = 0; lane < 2; lane++) {
        std::map<uint64_t, Sent> open;
        std::vector<struct xfer_vec> vec(n * 2);
        b.clear();
        uint64_t next = 0, last = 0;
        std::vector<struct xfer_done> out;
        unsigned done = 0, idle = 0;
        while (done < n) {
          while (next < n) {
            uint64_t slot = next % (kSlab / kSlot), bytes = next % 3 ? kSlot : kSlot - 4096 * (next % 5);
            uint8_t *side = (write ? a : b).at(slot * kSlot);
            struct xfer_vec *v = &vec[next * 2];
            v[0] = {side, 4096};
            v[1] = {side + 4096, bytes - 4096};
            struct xfer x = MakeXfer(write ? XFER_WRITE : XFER_READ, &m, slot * kSlot, v, 2, 1000 + next);
            // a slot is written and read by one xfer at a time
            bool taken = false;
            for (auto &o : open)
              taken |= o.second.slot == slot;
            if (taken || dev_->hot->submit(dev_, lane, &x))
              break;
            open[1000 + next] = {slot, bytes, write};
            next++;
          }
          EXPECT_EQ(open.size(), dev_->hot->in_flight(dev_, lane));
          struct xfer_done d[8];
          dev_->hot->flush(dev_, lane);
          uint32_t k = dev_->hot->poll(dev_, lane, d, 8);
          struct xfer_done other[1];
          ASSERT_EQ(0u, dev_->hot->poll(dev_, 1 - lane, other, 1)) << "in its own lane";
          idle = k ? 0 : idle + 1;
          ASSERT_LT(idle, 20000000u) << "an end is lost";
          for (uint32_t i = 0; i < k; i++) {
            ASSERT_EQ(1u, open.count(d[i].cookie)) << "twice, or never sent";
            Sent s = open[d[i].cookie];
            open.erase(d[i].cookie);
            odd_order += d[i].cookie < last;
            last = d[i].cookie;
            done++;
            if (d[i].status == XFER_OK) {
              EXPECT_EQ(s.bytes, d[i].bytes);
            } else {
              failed++;
              EXPECT_EQ(XFER_FAILED, d[i].status);
              EXPECT_TRUE(reasons.count(d[i].reason)) << d[i].reason;
              EXPECT_LT(d[i].bytes, s.bytes);
              EXPECT_NE(0, d[i].err);
              if (d[i].reason == DRAY_POISONED) {
                EXPECT_EQ(4096u, d[i].bad_unit);
              }
              // written whole the second time, so that the reads have something to find
              if (s.write && d[i].reason != DRAY_POISONED) {
                for (int tries = 0; tries < 200; tries++)
                  if (WriteAgain(m, s.slot * kSlot, a.at(s.slot * kSlot), kSlot, lane))
                    break;
              }
            }
            if (!s.write) {
              EXPECT_EQ(0, memcmp(a.at(s.slot * kSlot), b.at(s.slot * kSlot), d[i].bytes)) << "the proven prefix";
              memset(b.at(s.slot * kSlot), 0, kSlot);
            }
          }
        }
        EXPECT_EQ(0u, dev_->hot->in_flight(dev_, lane));
      }
    }
    if (!reasons.empty()) {
      EXPECT_GT(failed, 0u);
    }
    odd_ = odd_order;
    dev_->cold->slab_del(dev_, &m, false);
  }
  bool WriteAgain(const struct slab_mem &m, uint64_t off, const uint8_t *p, uint64_t n, uint32_t lane)
  {
    // by a lane of its own, so that the storm's own ends are not taken
    struct xfer_vec v = {const_cast<uint8_t *>(p), n};
    return Run(MakeXfer(XFER_WRITE, &m, off, &v, 1, 5), 1 - lane).status == XFER_OK;
  }
  unsigned odd_ = 0;
};

TEST_F(ConformFaults, FailuresAreSaidAndNothingElseChanges)
{
  Use("seed=3 fail=EIO:1/7");
  Storm(300, {DRAY_IO_ERROR});
}

TEST_F(ConformFaults, ShortOnesSayHowFarTheyCame)
{
  Use("seed=4 short=1/5");
  Storm(300, {DRAY_SHORT_IO});
}

TEST_F(ConformFaults, HeldBackAndReorderedEndsComeOnceEach)
{
  Use("seed=5 delay=1/3:7 reorder=1/4 drop=1/60:20ms");
  Storm(300, {});
  EXPECT_GT(odd_, 0u) << "something did come out of order";
}

TEST_F(ConformFaults, AllAtOnce)
{
  Use("seed=6 fail=ETIMEDOUT:1/20 short=1/20 delay=1/10:2ms reorder=1/5 drop=1/100:10ms");
  Storm(300, {DRAY_IO_ERROR, DRAY_SHORT_IO});
}

TEST_F(ConformFaults, TheSameSeedDoesTheSame)
{
  std::vector<unsigned> first;
  for (int round = 0; round < 2; round++) {
    Use("seed=9 fail=EIO:1/3");
    struct slab_mem m = Slab();
    Region a(kSlot);
    std::vector<unsigned> got;
    for (int i = 0; i < 60; i++)
      got.push_back(Write(m, 0, a.at(), kSlot).status);
    dev_->cold->slab_del(dev_, &m, false);
    if (round) {
      EXPECT_EQ(first, got);
    }
    first = got;
  }
}

TEST_F(ConformFaults, APoisonedPlaceIsMetByReadsAndWritesWithTheGoodPrefix)
{
  Use("poison=0:73728 unit=8K");
  struct slab_mem m = Slab();
  Region a(kSlab), b(kSlab);
  a.fill(1);
  auto w = Write(m, kSlot, a.at(kSlot), kSlot);
  EXPECT_EQ(XFER_FAILED, w.status);
  EXPECT_EQ(DRAY_POISONED, w.reason);
  EXPECT_EQ(8192u, w.bad_unit);
  EXPECT_LE(w.bytes, 8192u);
  EXPECT_EQ(dev_->caps.addressable, w.bad_addr != 0);
  auto r = Read(m, kSlot, b.at(), kSlot);
  EXPECT_EQ(DRAY_POISONED, r.reason);
  EXPECT_EQ(XFER_OK, Write(m, 0, a.at(), kSlot).status) << "the places beside it are good";
  EXPECT_EQ(XFER_OK, Write(m, 2 * kSlot, a.at(), kSlot).status);
  EXPECT_EQ(XFER_OK, Read(m, 2 * kSlot, b.at(), kSlot).status);
  EXPECT_EQ(0, memcmp(a.at(), b.at(), kSlot));
  dev_->cold->slab_del(dev_, &m, false);
}

TEST_F(ConformFaults, ReadsThatPoisonWhatTheyRead)
{
  Use("seed=2 poison=1/20x5");
  Storm(200, {DRAY_POISONED});
}

TEST_F(ConformFaults, ABadScriptIsRefused)
{
  struct err e = {};
  EXPECT_EQ(-EINVAL, fault_check("fail=EIO", &e));
  EXPECT_NE(nullptr, strstr(e.text, "need fail=WORD:A/B"));
}
