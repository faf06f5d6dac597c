/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/conform/transport_conform.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <thread>

Region::Region(uint64_t bytes) : fd_(memfd_create("region", MFD_CLOEXEC)), bytes_(bytes)
{
  EXPECT_EQ(0, ftruncate(fd_, static_cast<off_t>(bytes)));
  base_ = static_cast<uint8_t *>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0));
  EXPECT_NE(MAP_FAILED, static_cast<void *>(base_));
}
Region::~Region()
{
  munmap(base_, bytes_);
  close(fd_);
}
void Region::fill(uint32_t seed)
{
  uint64_t s = seed * 0x9e3779b97f4a7c15ull + 1;
  for (uint64_t i = 0; i + 8 <= bytes_; i += 8) {
    s = s * 6364136223846793005ull + 1442695040888963407ull;
    memcpy(base_ + i, &s, 8);
  }
}
void Region::clear() { memset(base_, 0, bytes_); }
void Region::cut(uint64_t bytes) { ASSERT_EQ(0, ftruncate(fd_, static_cast<off_t>(bytes))); }

struct xfer MakeXfer(uint8_t op, const struct slab_mem *m, uint64_t off, const struct xfer_vec *v, uint16_t nvec,
                     uint64_t cookie)
{
  struct xfer x = {};
  x.cookie = cookie;
  x.op = op;
  x.slab = m;
  x.slab_off = off;
  x.vec = v;
  x.nvec = nvec;
  for (uint16_t i = 0; i < nvec; i++)
    x.bytes += v[i].len;
  return x;
}

static std::string fault_script = "none";
void conform_fault(const std::string &script) { fault_script = script; }

void Conform::SetUp()
{
  setup_ = conform_setup();
  if (!setup_.skip.empty())
    GTEST_SKIP() << setup_.skip;
  setup_.fault = fault_script;
  std::string t = setup_.root + "/dray-conform-XXXXXX";
  if (!mkdtemp(t.data()))
    GTEST_SKIP() << setup_.root << ": " << strerror(errno);
  dir_ = t;
  path_ = dir_ + (setup_.path_is_file ? "/device" : "/pool");
  cfg_.name = "test";
  cfg_.capacity = 16 * kMiB;
  cfg_.lanes = 2;
  cfg_.depth = 16;
  cfg_.bounce_bytes = 4 * kMiB;
  cfg_.numa_node = -1;
  cfg_.keep = setup_.keep;
  cfg_.coherence = setup_.coherence;
  cfg_.buffered = setup_.buffered;
  cfg_.no_uring = setup_.no_uring;
  cfg_.piece_max = setup_.piece_max;
  cfg_.path = setup_.has_path ? path_.c_str() : nullptr;
  cfg_.owner = setup_.owner.empty() ? nullptr : setup_.owner.c_str();
  if (setup_.keep) // the directory takes 2 MiB of it
    cfg_.capacity += 2 * kMiB;
  if (setup_.path_is_file) {
    int fd = open(path_.c_str(), O_CREAT | O_RDWR, 0600);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(0, ftruncate(fd, static_cast<off_t>(cfg_.capacity)));
    close(fd);
  }
  if (!setup_.device.empty()) {
    path_ = setup_.device;
    cfg_.path = path_.c_str();
    if (setup_.keep)
      cfg_.keep = DEV_KEEP_FRESH; // the first open of each test; what it reopens is to be found
  }
  ASSERT_EQ(0, Open()) << err_.text;
  cfg_.keep = setup_.keep;
  ASSERT_EQ(0, dev_->cold->start(dev_, &err_)) << err_.text;
  started_ = true;
}
void Conform::TearDown()
{
  Close();
  if (!dir_.empty())
    std::filesystem::remove_all(dir_);
}
int Conform::Open()
{
  struct dev *plain = nullptr;
  int r = setup_.transport->cold->open(&cfg_, &err_, &plain);
  if (r == 0 && setup_.fault != "none") {
    r = fault_wrap(plain, setup_.fault.c_str(), cfg_.lanes, &err_, &dev_);
    if (r)
      plain->cold->close(plain);
  } else if (r == 0) {
    dev_ = plain;
  }
  return r;
}
void Conform::Close()
{
  if (!dev_)
    return;
  if (started_)
    dev_->cold->stop(dev_);
  started_ = false;
  dev_->cold->close(dev_);
  dev_ = nullptr;
}

bool Conform::Drain(uint32_t lane, size_t n, std::vector<struct xfer_done> *out)
{
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (out->size() < n) {
    struct xfer_done d[8];
    dev_->hot->flush(dev_, lane);
    uint32_t k = dev_->hot->poll(dev_, lane, d, 8);
    out->insert(out->end(), d, d + k);
    if (std::chrono::steady_clock::now() > end)
      return false;
  }
  return true;
}
struct xfer_done Conform::Run(const struct xfer &x, uint32_t lane)
{
  EXPECT_EQ(0, xfer_check(dev_, &x));
  EXPECT_EQ(0, dev_->hot->submit(dev_, lane, &x));
  std::vector<struct xfer_done> out;
  if (!Drain(lane, 1, &out)) {
    ADD_FAILURE() << "no done record";
    return {};
  }
  EXPECT_EQ(1u, out.size());
  EXPECT_EQ(x.cookie, out[0].cookie);
  EXPECT_EQ(0u, dev_->hot->in_flight(dev_, lane));
  return out[0];
}
struct xfer_done Conform::Write(const struct slab_mem &m, uint64_t off, const void *p, uint64_t n, uint32_t lane)
{
  struct xfer_vec v = {const_cast<void *>(p), n};
  return Run(MakeXfer(XFER_WRITE, &m, off, &v, 1, 77), lane);
}
struct xfer_done Conform::Read(const struct slab_mem &m, uint64_t off, void *p, uint64_t n, uint32_t lane)
{
  struct xfer_vec v = {p, n};
  return Run(MakeXfer(XFER_READ, &m, off, &v, 1, 78), lane);
}
struct slab_mem Conform::Slab(uint64_t bytes)
{
  struct slab_mem m = {};
  EXPECT_EQ(0, dev_->cold->slab_add(dev_, bytes, &err_, &m)) << err_.text;
  EXPECT_EQ(bytes, m.bytes);
  EXPECT_EQ(dev_->caps.addressable, m.base != nullptr);
  EXPECT_EQ(dev_->caps.isolation == DEV_HIDDEN, m.fd < 0);
  return m;
}

static void ExpectOk(const struct xfer_done &d, uint64_t bytes, uint8_t path)
{
  EXPECT_EQ(XFER_OK, d.status) << "reason " << d.reason << " err " << d.err;
  EXPECT_EQ(DRAY_REASON_OK, d.reason);
  EXPECT_EQ(0, d.err);
  EXPECT_EQ(bytes, d.bytes);
  EXPECT_EQ(path, d.path);
}

TEST_F(Conform, WriteThenReadReturnsTheSameBytes)
{
  struct slab_mem m = Slab();
  Region a(kSlot), b(kSlot);
  a.fill(1);
  ExpectOk(Write(m, kSlot, a.at(), kSlot), kSlot, setup_.path_aligned);
  ExpectOk(Read(m, kSlot, b.at(), kSlot), kSlot, setup_.aligned(true));
  EXPECT_EQ(0, memcmp(a.at(), b.at(), kSlot));
  dev_->cold->slab_del(dev_, &m, false);
}

TEST_F(Conform, ScatteredPiecesKeepTheirOrder)
{
  struct slab_mem m = Slab();
  Region a(4 * kMiB), b(4 * kMiB);
  a.fill(2);
  std::vector<struct xfer_vec> src, dst;
  for (uint64_t i = 0; i < XFER_VECS_MAX; i++) {
    src.push_back({a.at((i * 7 % XFER_VECS_MAX) * 16384), 4096});
    dst.push_back({b.at((i * 13 % XFER_VECS_MAX) * 16384), 4096});
  }
  ExpectOk(Run(MakeXfer(XFER_WRITE, &m, 0, src.data(), XFER_VECS_MAX)), kMiB, setup_.path_aligned);
  ExpectOk(Run(MakeXfer(XFER_READ, &m, 0, dst.data(), XFER_VECS_MAX)), kMiB, setup_.aligned(true));
  for (size_t i = 0; i < XFER_VECS_MAX; i++)
    ASSERT_EQ(0, memcmp(src[i].base, dst[i].base, 4096)) << i;
  dev_->cold->slab_del(dev_, &m, false);
}

/* Memory that the device was told of: it may come to go the shorter way, and the bytes are the same. */
TEST_F(Conform, MemoryThatWasAddedIsReachedWithTheSameBytesAndForgottenAgain)
{
  struct slab_mem m = Slab();
  Region a(kMiB), b(kMiB);
  a.fill(3);
  ASSERT_EQ(0, dev_->cold->memory_add(dev_, a.at(), kMiB));
  ASSERT_EQ(0, dev_->cold->memory_add(dev_, b.at(), kMiB));
  auto until = [&](uint8_t path, auto transfer) {
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    struct xfer_done d;
    do
      d = transfer();
    while (d.status == XFER_OK && path && d.path != path && std::chrono::steady_clock::now() < end);
    ExpectOk(d, kSlot, path ? path : d.path);
  };
  until(setup_.path_added_write, [&] { return Write(m, kSlot, a.at(kSlot), kSlot); });
  until(setup_.path_added_read, [&] { return Read(m, kSlot, b.at(kSlot), kSlot); });
  EXPECT_EQ(0, memcmp(a.at(kSlot), b.at(kSlot), kSlot));
  // any place, any length
  for (auto [from, n] : {std::pair<uint64_t, uint64_t>{1, 777}, {4095, 8194}, {kSlot - 1, kSlot + 3}, {0, kMiB - 4096}}) {
    b.clear();
    uint64_t grain = dev_->caps.addressable ? 1 : dev_->caps.align, whole = n / grain * grain;
    if (!whole)
      continue;
    EXPECT_EQ(XFER_OK, Write(m, 0, a.at(from), whole).status) << from;
    EXPECT_EQ(XFER_OK, Read(m, 0, b.at(from), whole).status) << from;
    EXPECT_EQ(0, memcmp(a.at(from), b.at(from), whole)) << from;
  }
  // pieces, few and large, many and small; with their CRC
  for (uint64_t piece : {16384u, 4096u, 512u}) {
    b.clear();
    std::vector<struct xfer_vec> src, dst;
    std::vector<uint8_t> flat;
    for (uint64_t i = 0; i < 40; i++) {
      src.push_back({a.at(i * 7 % 40 * 20480 + 512), piece});
      dst.push_back({b.at(i * 13 % 40 * 20480 + 512), piece});
      flat.insert(flat.end(), static_cast<uint8_t *>(src[i].base), static_cast<uint8_t *>(src[i].base) + piece);
    }
    struct xfer w = MakeXfer(XFER_WRITE, &m, 0, src.data(), 40), r = MakeXfer(XFER_READ, &m, 0, dst.data(), 40);
    w.flags = r.flags = XFER_CRC;
    for (auto &x : {w, r}) {
      struct xfer_done d = Run(x);
      EXPECT_EQ(XFER_OK, d.status) << piece;
      if (d.has_crc) {
        EXPECT_EQ(crc32c(0, flat.data(), flat.size()), d.crc) << piece;
      }
    }
    for (size_t i = 0; i < 40; i++)
      ASSERT_EQ(0, memcmp(src[i].base, dst[i].base, piece)) << piece << " " << i;
  }
  dev_->cold->memory_del(dev_, a.at());
  dev_->cold->memory_del(dev_, b.at());
  ExpectOk(Write(m, kSlot, a.at(), kSlot), kSlot, setup_.path_aligned);
  ExpectOk(Read(m, kSlot, b.at(), kSlot), kSlot, setup_.aligned(true));
  EXPECT_EQ(0, memcmp(a.at(), b.at(), kSlot));
  dev_->cold->slab_del(dev_, &m, false);
}

TEST_F(Conform, UnalignedLengthBouncesAndSaysSo)
{
  struct slab_mem m = Slab();
  Region a(2 * kSlot), b(2 * kSlot);
  a.fill(3);
  const uint64_t n = kSlot - 1001;
  ExpectOk(Write(m, 0, a.at(), n), n, setup_.path_unaligned);
  ExpectOk(Read(m, 0, b.at(), n), n, setup_.unaligned(true));
  EXPECT_EQ(0, memcmp(a.at(), b.at(), n));
  EXPECT_EQ(0, b.at()[n]) << "a byte beyond the end was written";
  dev_->cold->slab_del(dev_, &m, false);
}

TEST_F(Conform, UnalignedMemoryAndManyOddPiecesArriveWhole)
{
  struct slab_mem m = Slab();
  Region a(4 * kMiB), b(4 * kMiB);
  a.fill(4);
  std::vector<struct xfer_vec> src, dst;
  uint64_t n = 0;
  for (uint64_t i = 0; i < 200; i++, n += src.back().len)
    src.push_back({a.at(i * 16384 + i), 9000 + 7 * i});
  uint64_t left = n;
  for (uint64_t i = 0; left; i++) {
    uint64_t len = std::min<uint64_t>(left, 15001);
    dst.push_back({b.at(i * 16384 + 3), len});
    left -= len;
  }
  ExpectOk(Run(MakeXfer(XFER_WRITE, &m, 4096, src.data(), 200)), n, setup_.path_unaligned);
  ExpectOk(Run(MakeXfer(XFER_READ, &m, 4096, dst.data(), static_cast<uint16_t>(dst.size()))), n,
           setup_.unaligned(true));
  std::string want, got;
  for (auto &v : src)
    want.append(static_cast<char *>(v.base), v.len);
  for (auto &v : dst)
    got.append(static_cast<char *>(v.base), v.len);
  EXPECT_TRUE(want == got);
  dev_->cold->slab_del(dev_, &m, false);
}

TEST_F(Conform, CrcIsOfTheBytesOrNotSaid)
{
  struct slab_mem m = Slab();
  Region a(4 * kMiB), b(4 * kMiB);
  a.fill(6);
  std::vector<struct xfer_vec> v;
  for (uint64_t i = 0; i < 60; i++)
    v.push_back({a.at(i * 65536 + i), 16384 + 13 * i});
  uint32_t want = 0;
  for (auto &p : v)
    want = crc32c(want, p.base, p.len);
  for (uint16_t n : {uint16_t{1}, uint16_t{60}}) {
    struct xfer x = MakeXfer(XFER_WRITE, &m, 0, v.data(), n);
    x.next = reinterpret_cast<void *>(16); // a hint is never touched
    EXPECT_EQ(0, Run(x).has_crc) << "nobody asked";
    x.flags = XFER_CRC;
    const struct xfer_done d = Run(x);
    EXPECT_EQ(XFER_OK, d.status);
    EXPECT_EQ(1, d.has_crc) << "an engine's memory would be read twice";
    EXPECT_EQ(n == 1 ? crc32c(0, v[0].base, v[0].len) : want, d.crc);
    struct xfer_vec whole = {b.at(3), x.bytes};
    struct xfer r = MakeXfer(XFER_READ, &m, 0, &whole, 1);
    r.flags = XFER_CRC;
    const struct xfer_done e = Run(r);
    EXPECT_EQ(XFER_OK, e.status);
    if (dev_->caps.addressable) {
      EXPECT_EQ(1, e.has_crc);
    }
    if (e.has_crc) {
      EXPECT_EQ(d.crc, e.crc);
    }
    EXPECT_EQ(crc32c(0, b.at(3), x.bytes), n == 1 ? crc32c(0, v[0].base, v[0].len) : want);
  }
  dev_->cold->slab_del(dev_, &m, false);
}

TEST_F(Conform, AnAlignedWriteWithCrcIsOfTheBytesStoredHoweverTheSourceChanges)
{
  struct slab_mem m = Slab();
  Region a(kMiB), b(kMiB);
  uint32_t stop = 0;
  std::thread hostile([&] {
    for (uint64_t v = 1; !stop_see(&stop); v++)
      for (uint64_t i = 0; i < kMiB; i += 8)
        *reinterpret_cast<volatile uint64_t *>(a.at(i)) = v;
  });
  int mixed = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (int i = 0; i < 40 || (mixed < 3 && std::chrono::steady_clock::now() < end); i++) {
    struct xfer_vec v = {a.at(), kMiB};
    struct xfer x = MakeXfer(XFER_WRITE, &m, 0, &v, 1);
    x.flags = XFER_CRC;
    const struct xfer_done d = Run(x);
    EXPECT_EQ(XFER_OK, d.status);
    EXPECT_EQ(1, d.has_crc);
    EXPECT_EQ(XFER_OK, Read(m, 0, b.at(), kMiB).status);
    EXPECT_EQ(crc32c(0, b.at(), kMiB), d.crc) << i;
    mixed += memcmp(b.at(), b.at(kMiB / 2), 8) != 0;
  }
  stop_raise(&stop);
  hostile.join();
  dev_->cold->slab_del(dev_, &m, false);
  if (!mixed)
    GTEST_SKIP() << "the source never changed under a write in 10 s: nothing was shown";
}

TEST_F(Conform, AFailedXferHasNoCrcAndItsPrefixIsOfWholePieces)
{
  struct slab_mem m = Slab();
  if (!dev_->caps.addressable)
    GTEST_SKIP() << "the kernel moves the bytes";
  Region a(kMiB), bad(kMiB);
  a.fill(7);
  bad.cut(0);
  std::vector<struct xfer_vec> v;
  for (uint64_t i = 0; i < 20; i++)
    v.push_back({(i == 13 ? bad : a).at(i * 16384), 16384});
  for (unsigned flags : {0u, unsigned{XFER_CRC}, unsigned{XFER_READ_SOON}, unsigned{XFER_FRAGILE}}) {
    struct xfer x = MakeXfer(XFER_WRITE, &m, 0, v.data(), 20);
    x.flags = static_cast<uint8_t>(flags);
    const struct xfer_done d = Run(x);
    EXPECT_EQ(XFER_FAILED, d.status);
    EXPECT_EQ(DRAY_PAGE_LOST, d.reason);
    EXPECT_EQ(13u * 16384, d.bytes);
    EXPECT_EQ(0, d.has_crc);
    EXPECT_EQ(0, memcmp(m.base, a.at(), 13 * 16384));
  }
  dev_->cold->slab_del(dev_, &m, false);
}

TEST_F(Conform, ReadAtAnyOffsetReturnsThoseBytes)
{
  struct slab_mem m = Slab();
  Region a(kMiB), b(kMiB);
  a.fill(5);
  ExpectOk(Write(m, 0, a.at(), kMiB), kMiB, setup_.path_aligned);
  for (uint64_t off : {uint64_t{1}, uint64_t{4095}, uint64_t{4097}, uint64_t{70001}}) {
    b.clear();
    EXPECT_EQ(XFER_OK, Read(m, off, b.at(), 333333).status);
    EXPECT_EQ(0, memcmp(a.at(off), b.at(), 333333)) << off;
    EXPECT_EQ(0, b.at()[333333]);
  }
  dev_->cold->slab_del(dev_, &m, false);
}

TEST_F(Conform, WriteOfUnalignedLengthLeavesTheNextSlotAlone)
{
  struct slab_mem m = Slab();
  Region a(2 * kSlot), b(2 * kSlot);
  a.fill(6);
  EXPECT_EQ(XFER_OK, Write(m, 0, a.at(), 2 * kSlot).status);
  EXPECT_EQ(XFER_OK, Write(m, 0, a.at(kSlot), kSlot - 1).status);
  EXPECT_EQ(XFER_OK, Read(m, kSlot, b.at(), kSlot).status);
  EXPECT_EQ(0, memcmp(a.at(kSlot), b.at(), kSlot));
  dev_->cold->slab_del(dev_, &m, false);
}

TEST_F(Conform, WriteAtAnUnalignedOffsetIsRefusedOrExact)
{
  struct slab_mem m = Slab();
  Region a(kSlot);
  a.fill(7);
  struct xfer_vec v = {a.at(), 100};
  struct xfer x = MakeXfer(XFER_WRITE, &m, 100, &v, 1);
  if (dev_->caps.align > 1) {
    EXPECT_EQ(-EINVAL, dev_->hot->submit(dev_, 0, &x));
    EXPECT_EQ(0u, dev_->hot->in_flight(dev_, 0));
  } else {
    Region b(kSlot);
    ExpectOk(Run(x), 100, dev_->caps.addressable ? uint8_t{DRAY_PATH_CPU} : setup_.unaligned());
    EXPECT_EQ(XFER_OK, Read(m, 100, b.at(), 100).status);
    EXPECT_EQ(0, memcmp(b.at(), a.at(), 100));
  }
  dev_->cold->slab_del(dev_, &m, false);
}

TEST_F(Conform, ANewSlabReadsAsZero)
{
  Region a(kSlab), zero(kSlab);
  a.fill(8);
  for (int round = 0; round < 2; round++) {
    struct slab_mem m = Slab();
    Region b(kSlab);
    b.fill(9);
    EXPECT_EQ(XFER_OK, Read(m, 0, b.at(), kSlab).status);
    EXPECT_EQ(0, memcmp(zero.at(), b.at(), kSlab)) << "round " << round;
    EXPECT_EQ(XFER_OK, Write(m, 0, a.at(), kSlab).status);
    dev_->cold->slab_del(dev_, &m, true);
  }
}

TEST_F(Conform, SlabAddBeyondCapacityIsRefused)
{
  std::vector<struct slab_mem> all;
  for (int i = 0; i < 4; i++)
    all.push_back(Slab());
  struct slab_mem m = {};
  m.fd = 4711;
  EXPECT_EQ(-ENOSPC, dev_->cold->slab_add(dev_, kSlab, &err_, &m));
  EXPECT_NE("", std::string(err_.text));
  EXPECT_EQ(4711, m.fd) << "ret_mem is written only on success";
  dev_->cold->slab_del(dev_, &all[1], false);
  all[1] = Slab();
  for (auto &s : all)
    dev_->cold->slab_del(dev_, &s, false);
  struct slab_mem whole = Slab(16 * kMiB);
  dev_->cold->slab_del(dev_, &whole, false);
}

TEST_F(Conform, SlabOfAnOddSizeIsRefused)
{
  struct slab_mem m = {};
  EXPECT_EQ(-EINVAL, dev_->cold->slab_add(dev_, dev_->caps.unit + 1, &err_, &m));
  EXPECT_EQ(-EINVAL, dev_->cold->slab_add(dev_, 0, &err_, &m));
}

TEST_F(Conform, SlabsDoNotShareBytes)
{
  struct slab_mem m[3] = {Slab(), Slab(), Slab()};
  Region a(kSlab), b(kSlab);
  for (uint32_t i = 0; i < 3; i++) {
    a.fill(i + 1);
    EXPECT_EQ(XFER_OK, Write(m[i], 0, a.at(), kSlab).status);
  }
  for (uint32_t i = 0; i < 3; i++) {
    a.fill(i + 1);
    EXPECT_EQ(XFER_OK, Read(m[i], 0, b.at(), kSlab).status);
    EXPECT_EQ(0, memcmp(a.at(), b.at(), kSlab)) << i;
  }
  for (auto &s : m)
    dev_->cold->slab_del(dev_, &s, false);
}

TEST_F(Conform, EachXferEndsExactlyOnceInItsOwnLane)
{
  struct slab_mem m = Slab();
  Region a(kSlab);
  a.fill(1);
  std::vector<struct xfer_vec> v(64);
  size_t taken[2] = {0, 0};
  for (size_t i = 0; i < v.size(); i++) {
    uint32_t lane = i % 2;
    v[i] = {a.at(i * kSlot), i % 3 ? kSlot : kSlot - 5};
    struct xfer x = MakeXfer(XFER_WRITE, &m, i * kSlot, &v[i], 1, 1000 * (lane + 1) + i);
    int rc = dev_->hot->submit(dev_, lane, &x);
    if (rc == -EAGAIN)
      continue;
    ASSERT_EQ(0, rc);
    taken[lane]++;
    EXPECT_EQ(taken[lane], dev_->hot->in_flight(dev_, lane));
  }
  for (uint32_t lane = 0; lane < 2; lane++) {
    std::vector<struct xfer_done> out;
    ASSERT_TRUE(Drain(lane, taken[lane], &out));
    std::set<uint64_t> seen;
    for (auto &d : out) {
      EXPECT_EQ(XFER_OK, d.status);
      EXPECT_EQ(lane + 1, d.cookie / 1000);
      EXPECT_TRUE(seen.insert(d.cookie).second);
    }
    struct xfer_done extra;
    EXPECT_EQ(0u, dev_->hot->poll(dev_, lane, &extra, 1));
    EXPECT_EQ(0u, dev_->hot->in_flight(dev_, lane));
  }
  dev_->cold->slab_del(dev_, &m, false);
}

TEST_F(Conform, AFullLaneSaysAgainAndRecovers)
{
  struct slab_mem m = Slab();
  Region a(kSlot);
  struct xfer_vec v = {a.at(), kSlot};
  struct xfer x = MakeXfer(XFER_READ, &m, 0, &v, 1);
  size_t taken = 0;
  int rc = 0;
  while (taken < 5000 && !(rc = dev_->hot->submit(dev_, 0, &x)))
    taken++;
  EXPECT_EQ(-EAGAIN, rc);
  EXPECT_GE(taken, cfg_.depth);
  EXPECT_EQ(0, dev_->hot->submit(dev_, 1, &x)) << "another lane is not full";
  std::vector<struct xfer_done> out, other;
  ASSERT_TRUE(Drain(0, taken, &out));
  ASSERT_TRUE(Drain(1, 1, &other));
  EXPECT_EQ(taken, out.size());
  EXPECT_EQ(XFER_OK, Run(x).status);
  dev_->cold->slab_del(dev_, &m, false);
}

TEST_F(Conform, CopyIsForAddressableDevicesOnly)
{
  Region a(kSlot), b(kSlot);
  a.fill(3);
  struct xfer_vec src[2] = {{a.at(), 100}, {a.at(100), kSlot - 100}}, dst = {b.at(), kSlot};
  struct xfer x = MakeXfer(XFER_COPY, nullptr, 0, &dst, 1);
  x.src = src;
  x.nsrc = 2;
  if (!dev_->caps.addressable) {
    EXPECT_EQ(-ENOTSUP, xfer_check(dev_, &x));
    return;
  }
  ExpectOk(Run(x), kSlot, DRAY_PATH_CPU_NT);
  EXPECT_EQ(0, memcmp(a.at(), b.at(), kSlot));
  x.flags = XFER_READ_SOON;
  ExpectOk(Run(x), kSlot, DRAY_PATH_CPU);
}

TEST_F(Conform, SyncEndsOnceWithAndWithoutWritesBefore)
{
  struct slab_mem m = Slab();
  Region a(kSlot);
  struct xfer s = MakeXfer(XFER_SYNC, nullptr, 0, nullptr, 0, 5);
  EXPECT_EQ(XFER_OK, Run(s).status);
  EXPECT_EQ(XFER_OK, Run(s).status);
  EXPECT_EQ(XFER_OK, Write(m, 0, a.at(), kSlot).status);
  std::vector<struct xfer_done> out;
  for (uint64_t i = 0; i < 8; i++) {
    s.cookie = i;
    ASSERT_EQ(0, dev_->hot->submit(dev_, 0, &s));
  }
  ASSERT_TRUE(Drain(0, 8, &out));
  std::set<uint64_t> seen;
  for (auto &d : out) {
    EXPECT_EQ(XFER_OK, d.status);
    EXPECT_EQ(0u, d.bytes);
    seen.insert(d.cookie);
  }
  EXPECT_EQ(8u, seen.size());
  EXPECT_EQ(0u, dev_->hot->in_flight(dev_, 0));
  dev_->cold->slab_del(dev_, &m, false);
}

TEST_F(Conform, PollFdIsReadableWhenPollHasSomething)
{
  struct slab_mem m = Slab();
  Region a(kSlot);
  struct xfer_vec v = {a.at(), kSlot};
  int fd = dev_->hot->poll_fd(dev_, 0);
  if (!dev_->caps.asynchronous) {
    EXPECT_EQ(-1, fd);
    dev_->cold->slab_del(dev_, &m, false);
    return;
  }
  struct pollfd p = {fd, POLLIN, 0};
  /* An event may come after poll has taken what it tells of; a poll quiets it. */
  auto quiet = [&] {
    int told = 0;
    while (::poll(&p, 1, 0) == 1 && told++ < 4) {
      struct xfer_done d;
      EXPECT_EQ(0u, dev_->hot->poll(dev_, 0, &d, 1)) << "nothing is in flight";
    }
    return told < 4;
  };
  const struct xfer all[] = {MakeXfer(XFER_READ, &m, 0, &v, 1), MakeXfer(XFER_SYNC, nullptr, 0, nullptr, 0)};
  for (auto &x : all) {
    EXPECT_TRUE(quiet()) << "a lane would never sleep";
    ASSERT_EQ(0, dev_->hot->submit(dev_, 0, &x));
    dev_->hot->flush(dev_, 0);
    EXPECT_EQ(1, ::poll(&p, 1, 5000));
    std::vector<struct xfer_done> out;
    ASSERT_TRUE(Drain(0, 1, &out));
  }
  EXPECT_TRUE(quiet());
  dev_->cold->slab_del(dev_, &m, false);
}

TEST_F(Conform, PunchedRegionIsPageLostNotACrash)
{
  struct slab_mem m = Slab();
  for (uint64_t odd : {0, 100}) {
    Region a(kMiB), b(kMiB);
    a.fill(1);
    ASSERT_EQ(XFER_OK, Write(m, 0, a.at(), kMiB).status);
    b.cut(4096);
    struct xfer_done d = Read(m, 0, b.at(), kMiB - odd);
    EXPECT_EQ(XFER_FAILED, d.status);
    EXPECT_EQ(DRAY_PAGE_LOST, d.reason);
    EXPECT_NE(0, d.err);
    EXPECT_LE(d.bytes, 4096u);
    d = Write(m, kMiB, b.at(), kMiB - odd);
    EXPECT_EQ(XFER_FAILED, d.status);
    EXPECT_EQ(DRAY_PAGE_LOST, d.reason);
    EXPECT_LE(d.bytes, 4096u);
    EXPECT_EQ(XFER_OK, Read(m, 0, a.at(), kSlot).status) << "and the device still works";
  }
  dev_->cold->slab_del(dev_, &m, false);
}

TEST_F(Conform, TheEnginesFdIsReadOnly)
{
  struct slab_mem m = Slab();
  if (m.fd >= 0) {
    Region a(kSlot);
    a.fill(1);
    ASSERT_EQ(XFER_OK, Write(m, 0, a.at(), kSlot).status);
    uint64_t size = dev_->caps.unit > kSlot ? dev_->caps.unit : kSlot; // a dax device maps in its own units
    void *p = mmap(nullptr, size, PROT_READ, MAP_SHARED, m.fd, static_cast<off_t>(m.fd_off));
    ASSERT_NE(MAP_FAILED, p);
    EXPECT_EQ(0, memcmp(p, a.at(), kSlot));
    EXPECT_NE(0, mprotect(p, size, PROT_READ | PROT_WRITE));
    munmap(p, size);
    EXPECT_EQ(MAP_FAILED, mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, m.fd,
                               static_cast<off_t>(m.fd_off)));
    EXPECT_LT(pwrite(m.fd, "x", 1, static_cast<off_t>(m.fd_off)), 0);
    EXPECT_NE(0, ftruncate(m.fd, 0));
  }
  dev_->cold->slab_del(dev_, &m, true);
}

TEST_F(Conform, CheckRefusesWhatIsNoXfer)
{
  struct slab_mem m = Slab();
  Region a(kSlot);
  struct xfer_vec v = {a.at(), kSlot};
  const struct xfer good = MakeXfer(XFER_READ, &m, 0, &v, 1);
  EXPECT_EQ(0, xfer_check(dev_, &good));
  struct xfer x = good;
  x.slab_off = m.bytes - kSlot + 1;
  EXPECT_EQ(-ERANGE, xfer_check(dev_, &x));
  x = good;
  x.bytes--;
  EXPECT_EQ(-EINVAL, xfer_check(dev_, &x));
  dev_->cold->slab_del(dev_, &m, false);
}

TEST_F(Conform, ManyOddXfersInARowDoNotRunDry)
{
  struct slab_mem m = Slab();
  Region a(kSlot);
  for (int i = 0; i < 300; i++)
    ASSERT_EQ(XFER_OK, (i % 2 ? Read(m, 0, a.at(), 777) : Write(m, 0, a.at(), 777)).status) << i;
  dev_->cold->slab_del(dev_, &m, false);
}
