/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tier's character and what follows from it. The numbers come from the embedded defaults or from a
 * calibration (JSON of the planes, see TIERS.md); changing a number changes the route, not the code.
 * Pure: text in, struct out; no file access.
 */
#ifndef POLICY_PROFILE_H
#define POLICY_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <dray/types.h>

#include "base/copy.h"
#include "include/priv/err.h"

/* Share kinds. 0 is none. */
enum profile_share { SHARE_COPY = 1, SHARE_MMAP = 2, SHARE_CXL_HDM = 3, SHARE_RDMA = 4, SHARE_DMABUF = 5 };

struct tier_profile {
  bool present;
  uint64_t read_latency_ns;
  uint64_t bandwidth_mbps; /* MB/s, decimal */
  uint64_t capacity;       /* bytes; 0: not stated */
  bool byte_addressable, coherent, persistent;
  uint8_t share; /* enum profile_share */
};
struct pool_profile {
  bool present;
  uint32_t hosts;
  bool coherent;
  uint8_t share;
};
/* Extras of ours under "dray" in the calibration. Zero: not stated, the built-in choice stands. */
struct profile_tuning {
  uint64_t nt_min_bytes; /* copies of at least this many bytes are non-temporal */
  uint64_t chunk_bytes;  /* 64 KiB..16 MiB */
  uint32_t lanes;        /* 1..64 */
  bool has_copy;         /* "copy": the crossovers, all of them */
  struct copy_plan copy;
};
struct profile_set {
  char label[64];
  struct tier_profile tier[DRAY_TIER_COUNT]; /* by enum dray_tier */
  struct pool_profile pool[DRAY_TIER_COUNT];
  struct profile_tuning tuning;
};

/* The planes' defaults for every tier. */
void profile_defaults(struct profile_set *ret_set);
/* Overlays what the JSON text states on *set; keys: label, tiers.<name>.{ReadLatencyNanos BandwidthMBPerSec
   CapacityBytes ByteAddressable Coherent Persistent Share}, pools.<name>.{Hosts Coherent Share}, dray.*. Unknown keys
   under dray and at top level are ignored (others own them); an unknown tier name, a negative, fractional or
   overflowing number, NaN, a wrong type, a duplicate key, or a dray.copy with a key missing or out of range is -EINVAL
   with line and key in e, and *set is as before. */
int profile_parse(struct profile_set *set, const char *text, size_t n, struct err *e);

/* byte-addressable and coherent */
bool profile_attendable(const struct profile_set *s, unsigned tier);
/* hosts > 1 */
bool profile_reachable(const struct profile_set *s, unsigned tier);
/* hosts > 1, coherent and share kind not copy */
bool profile_fabric_shareable(const struct profile_set *s, unsigned tier);
/* The profile name of a tier ("dram"), "?" otherwise. */
const char *profile_tier_name(unsigned tier);
/* The words of enum profile_share ("cxl_hdm"), "?" otherwise. */
const char *profile_share_name(unsigned share);
#endif
