/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file types.h
 * The words both sides of the ring speak: operations, flags, tiers, statuses, paths and reasons.
 *
 * Numbers are part of the ABI: they are only ever added to, never renumbered. Zero is never a valid
 * operation, status, completion type or tier: a zeroed struct must not mean "yes".
 */
#ifndef DRAY_TYPES_H
#define DRAY_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Symbol visibility of the shared library. */
#define DRAY_API __attribute__((visibility("default")))

/** What a directive asks for (struct dray_sqe, op). 0 is invalid so that a punched page is refused. */
enum dray_op {
  DRAY_NOP = 1,         /**< nothing; passes the whole path */
  DRAY_FENCE = 2,       /**< waits for everything earlier, makes earlier file writes durable (fdatasync) */
  DRAY_PUT = 3,         /**< region -> a new cell */
  DRAY_GET = 4,         /**< cell -> region */
  DRAY_ALLOC = 5,       /**< a write lease: memory to fill in place */
  DRAY_COMMIT = 6,      /**< a filled write lease becomes an immutable cell */
  DRAY_MAP = 7,         /**< a read lease: zero-copy */
  DRAY_UNMAP = 8,       /**< ends a read lease, abandons a write lease */
  DRAY_COPY = 9,        /**< region -> region */
  DRAY_MOVE = 10,       /**< a whole cell to another tier */
  DRAY_PUBLISH = 11,    /**< widen a cell's scope; taint only rises */
  DRAY_DROP = 12,       /**< forget a cell (or one tier's copy of it) */
  DRAY_STAT = 13,       /**< does the cell exist, how long is it, where is it */
  DRAY_ACCOUNT = 14,    /**< bytes an engine read through a map */
  DRAY_QUARANTINE = 15, /**< an engine saw poison in a cell */
  DRAY_CANCEL = 16,     /**< cancel an earlier directive of this ring */
};

/** Number of op codes plus one: arrays indexed by op have this length. */
#define DRAY_OP_COUNT 17

/** Directive flags (struct dray_sqe, flags). An unknown bit is refused with BAD_FLAG. */
enum dray_sqe_flag {
  DRAY_LINK = 1 << 0,         /**< the next directive starts only after this one's success */
  DRAY_DRAIN = 1 << 1,        /**< starts after everything earlier in this ring is complete */
  DRAY_FENCED = 1 << 2,       /**< like DRAIN, and earlier file writes are durable first */
  DRAY_BATCH = 1 << 3,        /**< off: item table in the arena of U, len: number of items */
  DRAY_VERIFY_CRC = 1 << 4,   /**< PUT: store a CRC32C with the cell; GET: check it (CRC_MISMATCH) */
  DRAY_MAP_OR_STAGE = 1 << 5, /**< MAP of a cell that cannot be attended in place: stage it, then lease */
  DRAY_NO_REPLACE = 1 << 6,   /**< PUT, COMMIT: refuse with EXISTS instead of replacing */
  DRAY_READ_SOON = 1 << 7,    /**< a CPU reads the destination next: keep it in cache */
};
/** Every flag bit that has a meaning. */
#define DRAY_SQE_FLAGS_ALL 0xffu

/** Traffic class (struct dray_sqe, klass). 0 is taken as DRAY_CLASS_NORMAL. */
enum dray_class {
  DRAY_CLASS_NORMAL = 0,
  DRAY_CLASS_LATENCY = 1,
  DRAY_CLASS_BULK = 2,
};

/** A rung of the ladder, hottest first. 0 in a directive means "policy chooses"; in a completion "none". */
enum dray_tier {
  DRAY_TIER_ANY = 0,
  DRAY_TIER_HBM = 1,
  DRAY_TIER_DRAM = 2,
  DRAY_TIER_NUMA_FAR = 3,
  DRAY_TIER_CXL = 4,
  DRAY_TIER_REMOTE_DRAM = 5,
  DRAY_TIER_DISK = 6,
  DRAY_TIER_REMOTE = 7,
};
/** Number of tier codes including 0. */
#define DRAY_TIER_COUNT 8

/** How a directive ended (struct dray_cqe, status). */
enum dray_status {
  DRAY_OK = 1,       /**< all bytes are in place */
  DRAY_MISSED = 2,   /**< the cell is not here; reason says why */
  DRAY_REFUSED = 3,  /**< nothing was done; reason says why */
  DRAY_FAULT = 4,    /**< something broke after bytes moved, or a device failed */
  DRAY_CANCELED = 5, /**< canceled by CANCEL, a broken LINK or the end of the session */
};

/** What a completion entry is (struct dray_cqe, type). DONE answers a directive; the rest are notices. */
enum dray_cqe_type {
  DRAY_DONE = 1,
  DRAY_POISON = 2,
  DRAY_REVOKE = 3,
  DRAY_PRESSURE = 4,
  DRAY_TIER_STATE = 5, /**< reason TIER_DRAINING: end your leases on `tier`; TIER_DOWN: it is gone */
  DRAY_LINK_STATE = 6,
  DRAY_FATAL = 7,
};

/** What was in fact done (struct dray_cqe, path). */
enum dray_path {
  DRAY_PATH_NONE = 1,
  DRAY_PATH_MAP = 2,
  DRAY_PATH_CPU = 3,
  DRAY_PATH_CPU_NT = 4,
  DRAY_PATH_IO_URING_DIRECT = 5,
  DRAY_PATH_IO_URING_BUFFERED = 6,
  DRAY_PATH_BOUNCE = 7,
  DRAY_PATH_RDMA_READ = 8,
  DRAY_PATH_RDMA_WRITE = 9,
  DRAY_PATH_PREAD = 10, /**< pread/pwrite pool, where io_uring is refused */
};
#define DRAY_PATH_COUNT 11

/** Completion flags (struct dray_cqe, flags). */
enum dray_cqe_flag {
  DRAY_CRC_CHECKED = 1 << 0,
  DRAY_STAGED_FIRST = 1 << 1, /**< MAP_OR_STAGE: the bytes were staged before the lease */
};

/** Who may see a published cell. */
enum dray_scope {
  DRAY_SCOPE_AGENT = 1,  /**< the default: only the agent that put it */
  DRAY_SCOPE_TENANT = 2, /**< every agent of the tenant */
  DRAY_SCOPE_FLEET = 3,  /**< any tenant */
};

/** Taint lattice: trusted < tainted < quarantined; raising is one-way. */
enum dray_taint {
  DRAY_TRUSTED = 1,
  DRAY_TAINTED = 2, /**< the default */
  DRAY_QUARANTINED_TAINT = 3,
};

/**
 * Why. One enum for every refusal, miss and fault; the numbers are stable and the words come from
 * dray_reason_name(). POLICY.md lists them by family.
 */
enum dray_reason {
  DRAY_REASON_OK = 1,
  /* gate */
  DRAY_POISONED = 10,
  DRAY_QUARANTINED = 11,
  DRAY_SCOPE_DENIED = 12,
  DRAY_TAINT_DENIED = 13,
  DRAY_KEY_INCOMPLETE = 14,
  DRAY_MODEL_MISMATCH = 15,
  DRAY_TOKENIZER_MISMATCH = 16,
  DRAY_SERIALIZER_MISMATCH = 17,
  DRAY_POSITION_MISMATCH = 18,
  DRAY_POLICY_MISMATCH = 19,
  DRAY_ADMITTER_MISMATCH = 20,
  /* quota */
  DRAY_QUOTA_EXCEEDED = 30,
  DRAY_POOL_PRESSURE = 31,
  DRAY_REBALANCE = 32,
  DRAY_PRIORITY_LOST = 33,
  DRAY_RATE_LIMITED = 34,
  /* place */
  DRAY_NOT_ATTENDABLE = 40,
  DRAY_NO_ROOM = 41,
  DRAY_TIER_DRAINING = 42,
  DRAY_TIER_DOWN = 43,
  DRAY_PEER_UNREACHABLE = 44,
  DRAY_PEER_STALE = 45,
  DRAY_LEASE_REVOKED = 46,
  /* miss */
  DRAY_ABSENT = 50,
  DRAY_EVICTED = 51,
  DRAY_STALE_GENERATION = 52,
  /* lease */
  DRAY_LEASED = 60,
  DRAY_BAD_LEASE = 61,
  /* request */
  DRAY_BAD_TIER = 70,
  DRAY_BAD_PEER = 71,
  DRAY_LIMIT = 72,
  DRAY_UNSUPPORTED = 73,
  DRAY_BAD_OP = 74,
  DRAY_BAD_FLAG = 75,
  DRAY_BAD_RESERVED = 76,
  DRAY_BAD_REGION = 77,
  DRAY_BAD_LAYOUT = 78,
  DRAY_OUT_OF_RANGE = 79,
  DRAY_OVERLAP = 80,
  DRAY_TOO_LARGE = 81,
  DRAY_ZERO_LENGTH = 82,
  DRAY_EXISTS = 83,
  /* device */
  DRAY_IO_ERROR = 90,
  DRAY_SHORT_IO = 91,
  DRAY_CRC_MISMATCH = 92,
  DRAY_NO_SPACE = 93,
  DRAY_PAGE_LOST = 94,
  /* life */
  DRAY_REASON_CANCELED = 100,
  DRAY_DEADLINE = 101,
  DRAY_LINK_BROKEN = 102,
  DRAY_SHUTTING_DOWN = 103,
  DRAY_ABORTED = 104,
};
/** One more than the largest reason: counter arrays by reason have this length. */
#define DRAY_REASON_COUNT 105

/** Which rule a refusal with one of the quota reasons comes from (struct dray_cqe, detail). From DRAY_RULE_FIRST on:
    the rules of the configuration in their order; `dray tenants` names them. 0 is none. */
enum dray_rule {
  DRAY_RULE_LIMIT = 1,  /**< the tenant's own limit */
  DRAY_RULE_RATE = 2,   /**< the tenant's own rate */
  DRAY_RULE_FIRST = 16, /**< the first configured rule */
};

/** The word for a reason ("NO_ROOM"), "?" for a number that is none. Never NULL, static storage. */
DRAY_API const char *dray_reason_name(unsigned reason);
/** The word for an op ("PUT"), "?" otherwise. */
DRAY_API const char *dray_op_name(unsigned op);
/** The word for a status ("ok", "missed", ...), "?" otherwise. */
DRAY_API const char *dray_status_name(unsigned status);
/** The word for a path ("map", "cpu", "io_uring_direct", ...), "?" otherwise. */
DRAY_API const char *dray_path_name(unsigned path);
/** The profile name of a tier ("dram", "cxl", ...); "any" for 0, "?" otherwise. */
DRAY_API const char *dray_tier_name(unsigned tier);
/** The tier with this profile name, or 0 when there is none such. */
DRAY_API unsigned dray_tier_by_name(const char *name);

#ifdef __cplusplus
}
#endif
#endif
