/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/profile.h"

#include <string.h>

#include "include/priv/bits.h"

/* Orders of magnitude, not measurements: the planes' own stand-ins, so that an engine's plane and the mover agree on a
   machine that nobody has calibrated. */
static const struct tier_profile tier_defaults[DRAY_TIER_COUNT] = {
    [DRAY_TIER_HBM] = {.read_latency_ns = 200,
                       .bandwidth_mbps = 2000000,
                       .capacity = GIB(80),
                       .byte_addressable = true,
                       .coherent = true,
                       .share = SHARE_DMABUF},
    [DRAY_TIER_DRAM] = {.read_latency_ns = 90,
                        .bandwidth_mbps = 300000,
                        .capacity = GIB(512),
                        .byte_addressable = true,
                        .coherent = true,
                        .share = SHARE_MMAP},
    [DRAY_TIER_NUMA_FAR] = {.read_latency_ns = 140,
                            .bandwidth_mbps = 200000,
                            .capacity = GIB(512),
                            .byte_addressable = true,
                            .coherent = true,
                            .share = SHARE_MMAP},
    [DRAY_TIER_CXL] = {.read_latency_ns = 300,
                       .bandwidth_mbps = 64000,
                       .capacity = GIB(2048),
                       .byte_addressable = true,
                       .coherent = true,
                       .share = SHARE_CXL_HDM},
    [DRAY_TIER_REMOTE_DRAM] = {.read_latency_ns = 2000, .bandwidth_mbps = 12000, .share = SHARE_RDMA},
    [DRAY_TIER_DISK] = {.read_latency_ns = 10000,
                        .bandwidth_mbps = 7000,
                        .capacity = GIB(8192),
                        .persistent = true,
                        .share = SHARE_COPY},
    [DRAY_TIER_REMOTE] = {.read_latency_ns = 100000, .bandwidth_mbps = 12000, .share = SHARE_RDMA},
};
static const struct pool_profile pool_defaults[DRAY_TIER_COUNT] = {
    [DRAY_TIER_HBM] = {.hosts = 1, .coherent = true, .share = SHARE_DMABUF},
    [DRAY_TIER_DRAM] = {.hosts = 1, .coherent = true, .share = SHARE_MMAP},
    [DRAY_TIER_NUMA_FAR] = {.hosts = 1, .coherent = true, .share = SHARE_MMAP},
    [DRAY_TIER_CXL] = {.hosts = 8, .coherent = true, .share = SHARE_CXL_HDM},
    [DRAY_TIER_REMOTE_DRAM] = {.hosts = 8, .coherent = false, .share = SHARE_RDMA},
    [DRAY_TIER_DISK] = {.hosts = 1, .coherent = false, .share = SHARE_COPY},
    [DRAY_TIER_REMOTE] = {.hosts = 8, .coherent = false, .share = SHARE_RDMA},
};

void profile_defaults(struct profile_set *ret_set)
{
  *ret_set = (struct profile_set){.label = "defaults"};
  for (unsigned t = 1; t < DRAY_TIER_COUNT; t++) {
    ret_set->tier[t] = tier_defaults[t];
    ret_set->tier[t].present = true;
    ret_set->pool[t] = pool_defaults[t];
    ret_set->pool[t].present = true;
  }
}

bool profile_attendable(const struct profile_set *s, unsigned tier)
{
  return tier < DRAY_TIER_COUNT && s->tier[tier].byte_addressable && s->tier[tier].coherent;
}

bool profile_reachable(const struct profile_set *s, unsigned tier)
{
  return tier < DRAY_TIER_COUNT && s->pool[tier].hosts > 1;
}

bool profile_fabric_shareable(const struct profile_set *s, unsigned tier)
{
  return profile_reachable(s, tier) && s->pool[tier].coherent && s->pool[tier].share > SHARE_COPY;
}

const char *profile_share_name(unsigned share)
{
  static const char *const names[] = {"?", "copy", "mmap", "cxl_hdm", "rdma", "dmabuf"};
  return share < ARRAY_LEN(names) ? names[share] : "?";
}
