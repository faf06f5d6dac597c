/* SPDX-License-Identifier: Apache-2.0 */
/* The words for the numbers. */
#include <string.h>

#include <dray/types.h>

#include "include/priv/bits.h"

#define WORD(table, i) ((i) < ARRAY_LEN(table) && (table)[i] ? (table)[i] : "?")

static const char *const reasons[DRAY_REASON_COUNT] = {
    [DRAY_REASON_OK] = "OK",
    [DRAY_POISONED] = "POISONED",
    [DRAY_QUARANTINED] = "QUARANTINED",
    [DRAY_SCOPE_DENIED] = "SCOPE_DENIED",
    [DRAY_TAINT_DENIED] = "TAINT_DENIED",
    [DRAY_KEY_INCOMPLETE] = "KEY_INCOMPLETE",
    [DRAY_MODEL_MISMATCH] = "MODEL_MISMATCH",
    [DRAY_TOKENIZER_MISMATCH] = "TOKENIZER_MISMATCH",
    [DRAY_SERIALIZER_MISMATCH] = "SERIALIZER_MISMATCH",
    [DRAY_POSITION_MISMATCH] = "POSITION_MISMATCH",
    [DRAY_POLICY_MISMATCH] = "POLICY_MISMATCH",
    [DRAY_ADMITTER_MISMATCH] = "ADMITTER_MISMATCH",
    [DRAY_QUOTA_EXCEEDED] = "QUOTA_EXCEEDED",
    [DRAY_POOL_PRESSURE] = "POOL_PRESSURE",
    [DRAY_REBALANCE] = "REBALANCE",
    [DRAY_PRIORITY_LOST] = "PRIORITY_LOST",
    [DRAY_RATE_LIMITED] = "RATE_LIMITED",
    [DRAY_NOT_ATTENDABLE] = "NOT_ATTENDABLE",
    [DRAY_NO_ROOM] = "NO_ROOM",
    [DRAY_TIER_DRAINING] = "TIER_DRAINING",
    [DRAY_TIER_DOWN] = "TIER_DOWN",
    [DRAY_PEER_UNREACHABLE] = "PEER_UNREACHABLE",
    [DRAY_PEER_STALE] = "PEER_STALE",
    [DRAY_LEASE_REVOKED] = "LEASE_REVOKED",
    [DRAY_ABSENT] = "ABSENT",
    [DRAY_EVICTED] = "EVICTED",
    [DRAY_STALE_GENERATION] = "STALE_GENERATION",
    [DRAY_LEASED] = "LEASED",
    [DRAY_BAD_LEASE] = "BAD_LEASE",
    [DRAY_BAD_TIER] = "BAD_TIER",
    [DRAY_BAD_PEER] = "BAD_PEER",
    [DRAY_LIMIT] = "LIMIT",
    [DRAY_UNSUPPORTED] = "UNSUPPORTED",
    [DRAY_BAD_OP] = "BAD_OP",
    [DRAY_BAD_FLAG] = "BAD_FLAG",
    [DRAY_BAD_RESERVED] = "BAD_RESERVED",
    [DRAY_BAD_REGION] = "BAD_REGION",
    [DRAY_BAD_LAYOUT] = "BAD_LAYOUT",
    [DRAY_OUT_OF_RANGE] = "OUT_OF_RANGE",
    [DRAY_OVERLAP] = "OVERLAP",
    [DRAY_TOO_LARGE] = "TOO_LARGE",
    [DRAY_ZERO_LENGTH] = "ZERO_LENGTH",
    [DRAY_EXISTS] = "EXISTS",
    [DRAY_IO_ERROR] = "IO_ERROR",
    [DRAY_SHORT_IO] = "SHORT_IO",
    [DRAY_CRC_MISMATCH] = "CRC_MISMATCH",
    [DRAY_NO_SPACE] = "NO_SPACE",
    [DRAY_PAGE_LOST] = "PAGE_LOST",
    [DRAY_REASON_CANCELED] = "CANCELED",
    [DRAY_DEADLINE] = "DEADLINE",
    [DRAY_LINK_BROKEN] = "LINK_BROKEN",
    [DRAY_SHUTTING_DOWN] = "SHUTTING_DOWN",
    [DRAY_ABORTED] = "ABORTED",
};
static const char *const ops[DRAY_OP_COUNT] = {
    [DRAY_NOP] = "NOP",       [DRAY_FENCE] = "FENCE",     [DRAY_PUT] = "PUT",
    [DRAY_GET] = "GET",       [DRAY_ALLOC] = "ALLOC",     [DRAY_COMMIT] = "COMMIT",
    [DRAY_MAP] = "MAP",       [DRAY_UNMAP] = "UNMAP",     [DRAY_COPY] = "COPY",
    [DRAY_MOVE] = "MOVE",     [DRAY_PUBLISH] = "PUBLISH", [DRAY_DROP] = "DROP",
    [DRAY_STAT] = "STAT",     [DRAY_ACCOUNT] = "ACCOUNT", [DRAY_QUARANTINE] = "QUARANTINE",
    [DRAY_CANCEL] = "CANCEL",
};
static const char *const statuses[] = {
    [DRAY_OK] = "ok",       [DRAY_MISSED] = "missed",     [DRAY_REFUSED] = "refused",
    [DRAY_FAULT] = "fault", [DRAY_CANCELED] = "canceled",
};
static const char *const paths[DRAY_PATH_COUNT] = {
    [DRAY_PATH_NONE] = "none",
    [DRAY_PATH_MAP] = "map",
    [DRAY_PATH_CPU] = "cpu",
    [DRAY_PATH_CPU_NT] = "cpu_nt",
    [DRAY_PATH_IO_URING_DIRECT] = "io_uring_direct",
    [DRAY_PATH_IO_URING_BUFFERED] = "io_uring_buffered",
    [DRAY_PATH_BOUNCE] = "bounce",
    [DRAY_PATH_RDMA_READ] = "rdma_read",
    [DRAY_PATH_RDMA_WRITE] = "rdma_write",
    [DRAY_PATH_PREAD] = "pread",
};
static const char *const tiers[DRAY_TIER_COUNT] = {
    [DRAY_TIER_ANY] = "any",           [DRAY_TIER_HBM] = "hbm",       [DRAY_TIER_DRAM] = "dram",
    [DRAY_TIER_NUMA_FAR] = "numa_far", [DRAY_TIER_CXL] = "cxl",       [DRAY_TIER_REMOTE_DRAM] = "remote_dram",
    [DRAY_TIER_DISK] = "disk",         [DRAY_TIER_REMOTE] = "remote",
};

const char *dray_reason_name(unsigned reason)
{
  return WORD(reasons, reason);
}
const char *dray_op_name(unsigned op)
{
  return WORD(ops, op);
}
const char *dray_status_name(unsigned status)
{
  return WORD(statuses, status);
}
const char *dray_path_name(unsigned path)
{
  return WORD(paths, path);
}
const char *dray_tier_name(unsigned tier)
{
  return WORD(tiers, tier);
}
unsigned dray_tier_by_name(const char *name)
{
  for (unsigned t = 1; name && t < DRAY_TIER_COUNT; t++)
    if (strcmp(tiers[t], name) == 0)
      return t;
  return 0;
}
