/* SPDX-License-Identifier: Apache-2.0 */
// Devices that remember.
#include <cstring>
#include <map>
#include <tuple>

#include "tests/conform/transport_conform.h"

class ConformIndex : public Conform {
 protected:
  struct Seen {
    std::vector<std::tuple<struct slab_mem, uint64_t, uint32_t, std::string, std::string, int>> slabs;
    std::map<std::pair<uint32_t, uint32_t>, struct index_entry> cells;
  };
  Seen seen_;
  uint64_t skipped_ = 0;

  int Scan()
  {
    seen_ = {};
    struct index_visitor v = {
        &seen_,
        [](void *c, const struct slab_mem *m, uint64_t slot, uint32_t n, const char *t, const char *a, uint8_t s) {
          static_cast<Seen *>(c)->slabs.emplace_back(*m, slot, n, t, a, s);
          return 0;
        },
        [](void *c, const struct slab_mem *m, uint32_t slot, const struct index_entry *e) {
          static_cast<Seen *>(c)->cells[{m->unit, slot}] = *e;
          return 0;
        }};
    return dev_->cold->index_scan(dev_, &v, &skipped_);
  }
  void Reopen()
  {
    Close();
    ASSERT_EQ(0, Open()) << err_.text;
    ASSERT_EQ(0, dev_->cold->start(dev_, &err_)) << err_.text;
    started_ = true;
  }
  static struct index_entry Entry(uint8_t key)
  {
    struct index_entry e = {};
    memset(e.key, key, sizeof e.key);
    strcpy(e.tenant, "t1");
    strcpy(e.agent, "a1");
    e.len = kSlot - key;
    e.crc = 7u * key;
    e.generation = key + 1u;
    e.scope = DRAY_SCOPE_TENANT;
    e.taint = DRAY_TAINTED;
    e.has_crc = 1;
    return e;
  }
};

TEST_F(ConformIndex, DevicesThatForgetSaySo)
{
  if (dev_->caps.persistent)
    GTEST_SKIP() << "this one remembers";
  struct slab_mem m = Slab();
  EXPECT_EQ(-ENOTSUP, dev_->cold->index_slab(dev_, &m, kSlot, 64, "t", "a", DRAY_SCOPE_AGENT));
  EXPECT_EQ(-ENOTSUP, Scan());
  dev_->cold->slab_del(dev_, &m, false);
}

TEST_F(ConformIndex, IndexSurvivesReopen)
{
  if (!dev_->caps.persistent)
    GTEST_SKIP() << "keeps no index";
  struct slab_mem m1 = Slab(), m2 = Slab();
  ASSERT_EQ(0, dev_->cold->index_slab(dev_, &m1, kSlot, 64, "tenant-1", "agent-1", DRAY_SCOPE_AGENT));
  ASSERT_EQ(0, dev_->cold->index_slab(dev_, &m2, 4096, 1024, "tenant-2", "", DRAY_SCOPE_FLEET));
  Region a(kSlot);
  a.fill(42);
  ASSERT_EQ(XFER_OK, Write(m1, 3 * kSlot, a.at(), kSlot).status);
  struct index_entry e = Entry(9), e2 = Entry(10);
  e2.len = 4096;
  ASSERT_EQ(0, dev_->cold->index_put(dev_, &m1, 3, &e));
  ASSERT_EQ(0, dev_->cold->index_put(dev_, &m1, 4, &e));
  ASSERT_EQ(0, dev_->cold->index_put(dev_, &m2, 1023, &e2));
  dev_->cold->index_del(dev_, &m1, 4);
  Reopen();
  struct slab_mem none;
  EXPECT_EQ(-EINVAL, dev_->cold->slab_add(dev_, kSlab, &err_, &none)) << "before the scan it would overwrite";
  ASSERT_EQ(0, Scan());
  EXPECT_EQ(0u, skipped_);
  ASSERT_EQ(2u, seen_.slabs.size());
  auto &[m, slot, n, tenant, agent, scope] = seen_.slabs[0];
  EXPECT_EQ(m1.dev_off, m.dev_off);
  EXPECT_EQ(kSlab, m.bytes);
  EXPECT_EQ(kSlot, slot);
  EXPECT_EQ(64u, n);
  EXPECT_EQ("tenant-1", tenant);
  EXPECT_EQ("agent-1", agent);
  EXPECT_EQ(DRAY_SCOPE_AGENT, scope);
  ASSERT_EQ(2u, seen_.cells.size());
  struct index_entry got = seen_.cells[std::make_pair(m1.unit, 3u)];
  EXPECT_EQ(0, memcmp(&e, &got, sizeof e));
  Region b(kSlot);
  EXPECT_EQ(XFER_OK, Read(m, 3 * kSlot, b.at(), kSlot).status);
  EXPECT_EQ(0, memcmp(a.at(), b.at(), kSlot));
  // what was found is taken: a new slab lies elsewhere
  struct slab_mem m3 = Slab();
  EXPECT_NE(m3.dev_off, m1.dev_off);
  EXPECT_NE(m3.dev_off, m2.dev_off);
  for (auto &s : seen_.slabs)
    dev_->cold->slab_del(dev_, &std::get<0>(s), false);
  dev_->cold->slab_del(dev_, &m3, false);
  Reopen();
  ASSERT_EQ(0, Scan());
  EXPECT_EQ(0u, seen_.slabs.size()) << "deleted slabs are forgotten";
  EXPECT_EQ(0u, skipped_);
}

TEST_F(ConformIndex, AReusedPlaceForgetsTheOldCells)
{
  if (!dev_->caps.persistent)
    GTEST_SKIP() << "keeps no index";
  struct slab_mem m = Slab();
  struct index_entry e = Entry(1);
  ASSERT_EQ(0, dev_->cold->index_slab(dev_, &m, kSlot, 64, "t1", "a1", DRAY_SCOPE_AGENT));
  ASSERT_EQ(0, dev_->cold->index_put(dev_, &m, 0, &e));
  dev_->cold->slab_del(dev_, &m, false);
  struct slab_mem again = Slab();
  EXPECT_EQ(m.unit, again.unit);
  ASSERT_EQ(0, dev_->cold->index_slab(dev_, &again, kSlot, 64, "t2", "a2", DRAY_SCOPE_AGENT));
  Reopen();
  ASSERT_EQ(0, Scan());
  EXPECT_EQ(1u, seen_.slabs.size());
  EXPECT_EQ(0u, seen_.cells.size());
  if (dev_->caps.addressable)
    dev_->cold->slab_del(dev_, &std::get<0>(seen_.slabs[0]), false);
}

TEST_F(ConformIndex, AnIndexThatDoesNotFitIsRefused)
{
  if (!dev_->caps.persistent)
    GTEST_SKIP() << "keeps no index";
  struct slab_mem m = Slab();
  struct index_entry e = Entry(1);
  auto put = [&](uint64_t slot, uint32_t n, const char *t) {
    return dev_->cold->index_slab(dev_, &m, slot, n, t, "a", DRAY_SCOPE_AGENT);
  };
  EXPECT_EQ(-EINVAL, dev_->cold->index_put(dev_, &m, 0, &e)) << "no slab header yet";
  EXPECT_EQ(-EINVAL, put(kSlot, 65, "t"));
  EXPECT_EQ(-EINVAL, put(kSlot + 1, 3, "t"));
  EXPECT_EQ(-EINVAL, put(4096, 4097, "t"));
  EXPECT_EQ(-EINVAL, put(kSlot, 0, "t"));
  EXPECT_EQ(-ENAMETOOLONG, put(kSlot, 64, "a-name-of-thirty-two-characters-"));
  EXPECT_EQ(0, put(kSlot, 64, "a-name-of-thirty-one-characters"));
  EXPECT_EQ(-EINVAL, dev_->cold->index_put(dev_, &m, 64, &e));
  dev_->cold->slab_del(dev_, &m, false);
}
