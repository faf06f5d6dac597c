/* SPDX-License-Identifier: Apache-2.0 */
// dray.index with damage of every kind: skipped and counted, never believed, never a crash.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "tests/unit/transports/scratch.h"

extern "C" {
#include "base/crc.h"
#include "transports/file/index.h"
#include "transports/file/index_format.h"
}

class Index : public ::testing::Test {
 protected:
  static constexpr uint64_t kUnits = 16, kSlot = 65536;
  void SetUp() override
  {
    dir = open(scratch.path.c_str(), O_DIRECTORY | O_RDONLY);
    ASSERT_EQ(0, index_open(&ix, dir, scratch.path.c_str(), kUnits << 20, kUnits << 20, &e)) << e.text;
    ASSERT_EQ(0, extent_map_init(&map, kUnits, 0));
  }
  ~Index() override
  {
    index_close(&ix);
    extent_map_deinit(&map);
    close(dir);
  }
  struct slab_mem Slab(uint32_t unit, uint64_t n, uint32_t slots)
  {
    struct slab_mem m = {};
    m.bytes = n << 20;
    m.unit = unit;
    m.dev_off = uint64_t{unit} << 20;
    m.fd = -1;
    EXPECT_EQ(0, index_reserve(&ix, unit, n));
    EXPECT_EQ(0, index_write_slab(&ix, &m, kSlot, slots, "t", "a", DRAY_SCOPE_AGENT));
    return m;
  }
  struct index_entry Entry()
  {
    struct index_entry en = {};
    en.len = 100;
    en.scope = DRAY_SCOPE_AGENT;
    en.taint = DRAY_TAINTED;
    strcpy(en.tenant, "t");
    strcpy(en.agent, "a");
    return en;
  }
  int Scan()
  {
    extent_map_reset(&map);
    slabs = cells = 0;
    skipped = 999;
    struct index_place place = {&map, [](void *c, struct slab_mem *m) {
                                  return extent_reserve(static_cast<struct extent_map *>(c), m->unit, m->bytes >> 20);
                                }};
    struct index_visitor v = {
        this,
        [](void *c, const struct slab_mem *, uint64_t slot, uint32_t n, const char *t, const char *a, uint8_t) {
          auto *s = static_cast<Index *>(c);
          s->slabs++;
          EXPECT_LE(slot * n, kUnits << 20);
          EXPECT_LT(strlen(t) + strlen(a), 64u);
          return s->stop;
        },
        [](void *c, const struct slab_mem *, uint32_t slot, const struct index_entry *en) {
          static_cast<Index *>(c)->cells++;
          EXPECT_LT(slot, 4096u);
          EXPECT_LE(en->len, kUnits << 20);
          return 0;
        }};
    return index_read(&ix, &place, &v, &skipped);
  }
  struct index_slab_header *Header(uint64_t unit)
  {
    return reinterpret_cast<struct index_slab_header *>(ix.base + index_header_off(unit));
  }
  struct index_cell *Cell(uint64_t unit, uint32_t slot)
  {
    return reinterpret_cast<struct index_cell *>(ix.base + index_cells_off(kUnits, unit)) + slot;
  }
  void Sign(struct index_slab_header *h) { h->crc = crc32c(0, h, offsetof(struct index_slab_header, crc)); }
  void Sign(const struct index_slab_header *h, struct index_cell *c)
  {
    c->crc = crc32c(crc32c(0, &h->seed, 8), c, offsetof(struct index_cell, crc));
  }

  Scratch scratch;
  int dir = -1, slabs = 0, cells = 0, stop = 0;
  uint64_t skipped = 0;
  struct index ix = {};
  struct extent_map map = {};
  struct err e = {};
};

TEST_F(Index, AnEmptyIndexHasNothing)
{
  ASSERT_EQ(0, Scan());
  EXPECT_EQ(0, slabs);
  EXPECT_EQ(0u, skipped);
}
TEST_F(Index, CorruptEntryIsSkippedAndTheOthersAreNot)
{
  struct slab_mem m = Slab(2, 2, 32);
  struct index_entry en = Entry();
  for (uint32_t s = 0; s < 32; s++)
    ASSERT_EQ(0, index_write_cell(&ix, &m, s, &en));
  for (size_t byte : {size_t{4}, size_t{8}, size_t{41}, sizeof(struct index_cell) - 1})
    reinterpret_cast<uint8_t *>(Cell(2, static_cast<uint32_t>(byte % 32)))[byte] ^= 0x10;
  ASSERT_EQ(0, Scan());
  EXPECT_EQ(1, slabs);
  EXPECT_EQ(4u, skipped);
  EXPECT_EQ(28, cells);
}
TEST_F(Index, EntriesThatVerifyAndMakeNoSenseAreSkipped)
{
  struct slab_mem m = Slab(0, 1, 16);
  struct index_entry en = Entry();
  for (uint32_t s = 0; s < 8; s++)
    ASSERT_EQ(0, index_write_cell(&ix, &m, s, &en));
  Cell(0, 0)->len = 0;
  Cell(0, 1)->len = kSlot + 1;
  Cell(0, 2)->scope = 9;
  Cell(0, 3)->taint = DRAY_QUARANTINED_TAINT + 1;
  memset(Cell(0, 4)->tenant, 'x', INDEX_NAME_MAX);
  Cell(0, 5)->slot = 6;
  Cell(0, 6)->has_crc = 2;
  for (uint32_t s = 0; s < 7; s++)
    Sign(Header(0), Cell(0, s));
  ASSERT_EQ(0, Scan());
  EXPECT_EQ(1, cells);
  EXPECT_EQ(7u, skipped);
}
TEST_F(Index, HeadersThatVerifyAndLieAreSkipped)
{
  struct Lie {
    void (*tell)(struct index_slab_header *);
  } lies[] = {
      {[](struct index_slab_header *h) { h->units = 0; }},
      {[](struct index_slab_header *h) { h->units = kUnits; }},
      {[](struct index_slab_header *h) { h->units = UINT64_MAX; }},
      {[](struct index_slab_header *h) { h->unit = 0; }},
      {[](struct index_slab_header *h) { h->slots = 0; }},
      {[](struct index_slab_header *h) { h->slots = UINT32_MAX; }},
      {[](struct index_slab_header *h) { h->slots = 257; }},
      {[](struct index_slab_header *h) { h->slot_bytes = 0; }},
      {[](struct index_slab_header *h) { h->slot_bytes = 4097; }},
      {[](struct index_slab_header *h) { h->slot_bytes = UINT64_MAX & ~4095ull; }},
      {[](struct index_slab_header *h) { h->scope = 0; }},
      {[](struct index_slab_header *h) { h->version = 2; }},
      {[](struct index_slab_header *h) { memset(h->agent, 'y', INDEX_NAME_MAX); }},
  };
  for (auto &l : lies) {
    Slab(3, 1, 16);
    l.tell(Header(3));
    Sign(Header(3));
    ASSERT_EQ(0, Scan());
    EXPECT_EQ(0, slabs);
    EXPECT_EQ(1u, skipped) << &l - lies;
    EXPECT_EQ(0u, map.used);
  }
}
TEST_F(Index, OverlappingSlabsAreNotBothBelieved)
{
  Slab(4, 1, 16);
  Slab(2, 2, 16);
  Header(2)->units = 4;
  Sign(Header(2));
  ASSERT_EQ(0, Scan());
  EXPECT_EQ(1, slabs);
  EXPECT_EQ(1u, skipped);
}
TEST_F(Index, AnEntryOfAnEarlierSlabInTheSamePlaceDoesNotVerify)
{
  struct slab_mem m = Slab(0, 1, 16);
  struct index_entry en = Entry();
  ASSERT_EQ(0, index_write_cell(&ix, &m, 0, &en));
  struct index_cell old = *Cell(0, 0);
  Slab(0, 1, 16);
  *Cell(0, 0) = old;
  ASSERT_EQ(0, Scan());
  EXPECT_EQ(0, cells);
  EXPECT_EQ(1u, skipped);
}
TEST_F(Index, ANewSlabSilencesWhatWasInItsPlace)
{
  struct slab_mem m = Slab(1, 1, 16);
  struct index_entry en = Entry();
  ASSERT_EQ(0, index_write_cell(&ix, &m, 0, &en));
  Slab(0, 4, 64);  // as after a scan that skipped the older one
  ASSERT_EQ(0, Scan());
  EXPECT_EQ(1, slabs);
  EXPECT_EQ(0, cells);
  EXPECT_EQ(0u, skipped) << "not even as damage";
  m = Slab(8, 1, 16);
  ASSERT_EQ(0, index_write_cell(&ix, &m, 0, &en));
  Slab(8, 1, 16);
  ASSERT_EQ(0, Scan());
  EXPECT_EQ(2, slabs);
  EXPECT_EQ(0u, skipped);
}
TEST_F(Index, GarbageNeverCrashesTheScan)
{
  std::mt19937 rnd(1);
  for (int round = 0; round < 60; round++) {
    for (uint32_t u = 0; u < kUnits; u += 2) {
      struct slab_mem m = Slab(u, 2, 32);
      struct index_entry en = Entry();
      for (uint32_t s = 0; s < 32; s++)
        ASSERT_EQ(0, index_write_cell(&ix, &m, s, &en));
    }
    for (int i = 0; i < 40; i++) {
      uint64_t u = rnd() % kUnits;
      if (round % 2) {  // bytes
        ix.base[INDEX_PAGE + rnd() % (ix.bytes - INDEX_PAGE)] = static_cast<uint8_t>(rnd());
        ix.base[index_header_off(u) + rnd() % sizeof(struct index_slab_header)] ^= 1 << rnd() % 8;
      } else {  // signed nonsense
        auto *h = reinterpret_cast<uint8_t *>(Header(u));
        h[8 + rnd() % (sizeof(struct index_slab_header) - 8)] = static_cast<uint8_t>(rnd());
        Sign(Header(u));
        auto *c = Cell(u, rnd() % 32);
        reinterpret_cast<uint8_t *>(c)[4 + rnd() % 120] = static_cast<uint8_t>(rnd());
        Sign(Header(u), c);
      }
    }
    ASSERT_EQ(0, Scan());
    EXPECT_LE(map.used, kUnits);
  }
}
TEST_F(Index, AFileCutShortIsSkippedNotACrash)
{
  struct slab_mem m = Slab(0, 1, 16);
  struct index_entry en = Entry();
  ASSERT_EQ(0, index_write_cell(&ix, &m, 0, &en));
  ASSERT_EQ(0, ftruncate(ix.fd, static_cast<off_t>(index_header_off(kUnits))));
  ASSERT_EQ(0, Scan());
  EXPECT_EQ(1, slabs);
  EXPECT_EQ(0, cells);
  EXPECT_EQ(-EIO, index_write_cell(&ix, &m, 0, &en)) << "a store into what is gone";
  ASSERT_EQ(0, ftruncate(ix.fd, 4096));
  EXPECT_EQ(-EIO, index_write_cell(&ix, &m, 0, &en));
  index_clear_cell(&ix, &m, 0);
  ASSERT_EQ(0, Scan());
  EXPECT_EQ(0, slabs);
}
TEST_F(Index, AVisitorThatStopsTheScanStopsIt)
{
  Slab(0, 1, 16);
  Slab(1, 1, 16);
  stop = -EOVERFLOW;
  EXPECT_EQ(-EOVERFLOW, Scan());
  EXPECT_EQ(1, slabs);
  EXPECT_EQ(999u, skipped) << "written only on success";
}
TEST_F(Index, ADamagedSuperblockSaysHowToBeginAnew)
{
  for (size_t byte : {0, 8, 20, 60}) {
    ix.base[byte] ^= 1;
    index_close(&ix);
    struct index other;
    EXPECT_EQ(-EINVAL, index_open(&other, dir, scratch.path.c_str(), kUnits << 20, kUnits << 20, &e));
    EXPECT_NE(nullptr, strstr(e.text, "remove dray")) << e.text;
    int fd = openat(dir, "dray.index", O_RDWR);
    char c;
    ASSERT_EQ(1, pread(fd, &c, 1, static_cast<off_t>(byte)));
    c ^= 1;
    ASSERT_EQ(1, pwrite(fd, &c, 1, static_cast<off_t>(byte)));
    close(fd);
    ASSERT_EQ(0, index_open(&ix, dir, scratch.path.c_str(), kUnits << 20, kUnits << 20, &e)) << e.text;
    EXPECT_FALSE(ix.fresh);
  }
}
TEST_F(Index, AnotherCapacityIsRefusedWithBothNumbers)
{
  index_close(&ix);
  struct index other;
  EXPECT_EQ(-EINVAL, index_open(&other, dir, scratch.path.c_str(), 32 << 20, 32 << 20, &e));
  EXPECT_NE(nullptr, strstr(e.text, "16777216"));
  EXPECT_NE(nullptr, strstr(e.text, "33554432"));
}
