/* SPDX-License-Identifier: Apache-2.0 */
// One suite for every transport. A transport's own file says how to open it (conform_setup), nothing else.
#ifndef TESTS_CONFORM_TRANSPORT_CONFORM_H
#define TESTS_CONFORM_TRANSPORT_CONFORM_H

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

extern "C" {
#include <dray/types.h>

#include "base/crc.h"
#include "include/priv/order.h"
#include "transports/check.h"
#include "transports/transport.h"
}

struct ConformSetup {
  const struct transport *transport = nullptr;
  std::string root = "/tmp"; // where the scratch directory is made
  bool path_is_file = false; // path: a file of capacity bytes in the scratch directory
  bool has_path = true;
  bool lockable = true; // a second open is -EBUSY
  std::string owner;
  bool buffered = false, no_uring = false;
  uint8_t keep = DEV_KEEP_NO, coherence = DEV_COHERENT;
  std::string device; // a device that is there: no scratch file; DRAY_TEST_DAX
  std::string fault;  // CONFORM_FAULT: the script of a fault device around it
  uint8_t path_aligned = DRAY_PATH_CPU_NT, path_unaligned = DRAY_PATH_CPU_NT;
  uint8_t path_read = 0;                             // where reads say another than writes
  uint8_t path_added_write = 0, path_added_read = 0; // of memory that was added, in time; 0: as of any other
  uint64_t piece_max = 0;                            // dev_config.piece_max
  std::string skip;                                  // why it cannot run here
  uint8_t aligned(bool read = false) const { return read && path_read ? path_read : path_aligned; }
  uint8_t unaligned(bool read = false) const { return read && path_read ? path_read : path_unaligned; }
};
ConformSetup conform_setup();
// A fault device around each one that is opened; "none": none.
void conform_fault(const std::string &script);

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kSlab = 4 * kMiB;
constexpr uint64_t kSlot = 64 << 10;

// Page-aligned shared memory, as a pool region is.
class Region {
public:
  explicit Region(uint64_t bytes);
  ~Region();
  Region(const Region &) = delete;
  Region &operator=(const Region &) = delete;
  uint8_t *at(uint64_t off = 0) const { return base_ + off; }
  void fill(uint32_t seed);
  void clear();
  void cut(uint64_t bytes); // what is beyond is gone

private:
  int fd_;
  uint8_t *base_;
  uint64_t bytes_;
};

class Conform : public ::testing::Test {
protected:
  void SetUp() override;
  void TearDown() override;
  int Open();
  void Close();
  // Submits, flushes, polls until the one done record is there (10 s at most).
  struct xfer_done Run(const struct xfer &x, uint32_t lane = 0);
  struct xfer_done Write(const struct slab_mem &m, uint64_t off, const void *p, uint64_t n, uint32_t lane = 0);
  struct xfer_done Read(const struct slab_mem &m, uint64_t off, void *p, uint64_t n, uint32_t lane = 0);
  struct slab_mem Slab(uint64_t bytes = kSlab);
  bool Drain(uint32_t lane, size_t n, std::vector<struct xfer_done> *out);

  ConformSetup setup_;
  std::string dir_, path_;
  struct dev_config cfg_ = {};
  struct err err_ = {};
  struct dev *dev_ = nullptr;
  bool started_ = false;
};

struct xfer MakeXfer(uint8_t op, const struct slab_mem *m, uint64_t off, const struct xfer_vec *v, uint16_t nvec,
                     uint64_t cookie = 1);
#endif
