/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file ring_abi.h
 * The layout of the two memories that an engine and the mover share, and of the messages on the
 * session's socket. Everything is little endian, fixed width, without pointers, fds or locks.
 *
 * `U` is written by the engine alone and `M` by the mover alone; each shared word has a 128-byte
 * line of its own. Rules: RING.md; why: docs/MEMORY_ORDER.md.
 */
#ifndef DRAY_RING_ABI_H
#define DRAY_RING_ABI_H

#include <dray/types.h>

#ifdef __cplusplus
extern "C" {
#define DRAY_ABI_ASSERT(c, m) static_assert(c, m)
#else
#define DRAY_ABI_ASSERT(c, m) _Static_assert(c, m)
#endif

#define DRAY_RING_MAGIC 0x59415244u /**< "DRAY" */
#define DRAY_RING_MAJOR 1u
#define DRAY_RING_MINOR 0u
#define DRAY_LINE 128u /**< one shared word per this many bytes: adjacent-line prefetch pairs lines */

/** Most items of one BATCH (the field is 16 bits wide in every sense that matters). */
#define DRAY_BATCH_MAX 65535u
/** Directives of one LINK chain; a longer chain is refused with LIMIT. */
#define DRAY_LINK_MAX 16u
/** Credits of its own that CANCEL has. */
#define DRAY_CANCEL_RESERVE 8u
/** QUARANTINE's arg: log2 of the bad unit, within these (a cache line, 1 GiB). */
#define DRAY_UNIT_LOG_MIN 6u
#define DRAY_UNIT_LOG_MAX 30u
/** Notice kinds, each with one completion slot of its own. */
#define DRAY_NOTICE_KINDS 6u
/** Bounds of the geometry that an engine may ask for. */
#define DRAY_ENTRIES_MIN 1u
#define DRAY_ENTRIES_MAX 4096u
#define DRAY_ITEMS_MAX 131072u
#define DRAY_OBJECTS 65536u /**< rows of the object-state table in M: live leases of one session */

/** The 64-byte directive. Unused fields must be zero (BAD_RESERVED otherwise). */
struct dray_sqe {
  uint8_t op;       /**< enum dray_op */
  uint8_t ver;      /**< 1 */
  uint16_t flags;   /**< enum dray_sqe_flag */
  uint16_t region;  /**< id from dray_region_register() */
  uint8_t tier;     /**< enum dray_tier; 0: policy chooses */
  uint8_t klass;    /**< enum dray_class */
  uint64_t cookie;  /**< comes back as it is */
  uint8_t key[16];  /**< the cell's digest; COPY: struct dray_copy_to; QUARANTINE by lease: struct dray_quarantine_at */
  uint64_t off;     /**< offset in the region; BATCH: offset of the item table in the arena, in bytes;
                         with a layout: the block number; UNMAP, COMMIT, ACCOUNT: lease */
  uint64_t len;     /**< bytes, never 0; BATCH: number of items; with a layout at most a block */
  uint32_t request; /**< whom to meter */
  uint32_t deadline_us; /**< 0: none; counted from take */
  uint16_t layout;      /**< id from dray_layout_define(); 0: contiguous */
  uint16_t peer;        /**< 0: this node */
  uint32_t arg;         /**< PUT GET MAP ALLOC: materialization-key id; ACCOUNT: tokens that computing the leased cell
                             again would take, 0: not said; MOVE: from tier; CANCEL: sq_pos;
                             QUARANTINE: log2 of the bad unit, 0: the whole cell */
};

/** What COPY keeps in the key field. */
struct dray_copy_to {
  uint64_t dst_off; /**< offset, or block number with dst_layout */
  uint16_t dst_region;
  uint16_t dst_layout;
  uint32_t zero;
};
/** What QUARANTINE keeps in the key field when arg says how much is bad: met under a lease. */
struct dray_quarantine_at {
  uint64_t lease;
  uint64_t zero;
};

/** The 64-byte completion; exactly one DONE per accepted directive. */
struct dray_cqe {
  uint64_t cookie;
  uint8_t type;    /**< enum dray_cqe_type */
  uint8_t status;  /**< enum dray_status */
  uint16_t reason; /**< enum dray_reason */
  uint8_t path;    /**< enum dray_path */
  uint8_t tier;    /**< where the bytes were, or went */
  uint16_t flags;  /**< enum dray_cqe_flag */
  uint64_t bytes; /**< truly in place, also on failure: a prefix for single, a sum for BATCH; STAT: the cell's length */
  uint64_t object; /**< lease id, cell id; POISON: one of the leases (dray_lease_state() has the others) */
  uint64_t off;    /**< ALLOC, MAP: offset in the slab; POISON, and a fault with POISONED: first bad byte in the cell */
  uint32_t slab;   /**< ALLOC, MAP: which slab to map; POISON, POISONED: the bad slab, 0: the engine's own memory */
  uint32_t detail; /**< BATCH: first failed item; POISON, POISONED: bytes that are bad together (a power of two);
                        QUOTA_EXCEEDED .. RATE_LIMITED: the rule (enum dray_rule), unless BATCH; REVOKE:
                        milliseconds to end the lease in; else the provider's own
                      code (errno) */
  uint32_t queue_ns;
  uint32_t exec_ns;
  uint32_t sq_pos;
  uint16_t epoch;
  uint16_t failed; /**< BATCH: number of failed items */
};

/** One item of a BATCH, in the arena of U. */
struct dray_item {
  uint8_t key[16];
  uint64_t off; /**< offset in the region, or block number with a layout */
  uint32_t len; /**< bytes, never 0 for PUT and GET; with a layout at most a block */
  uint32_t zero;
};

/** The result of the item at the same index, in M. reason 0 means "not finished". */
struct dray_item_result {
  uint64_t object; /**< MAP: lease id */
  uint64_t off;    /**< MAP: offset in the slab; POISONED: first bad byte in the cell */
  uint32_t bytes;
  uint32_t slab; /**< MAP: which slab to map; POISONED: the bad slab, 0: the engine's own memory */
  uint16_t reason;
  uint8_t path;
  uint8_t tier;
  uint32_t detail; /**< POISONED: bytes that are bad together; quota reasons: enum dray_rule; else 0 */
};

/** PUBLISH's record, in the arena of U at off. */
struct dray_publish {
  uint8_t scope; /**< enum dray_scope */
  uint8_t taint; /**< enum dray_taint */
  uint16_t zero0;
  uint32_t mkey; /**< materialization-key id of this session; 0: keep the cell's */
  uint64_t zero1[3];
};

/** First page of U. Each word alone on its line; the engine is the only writer. */
struct dray_u_head {
  uint32_t sq_prod;
  uint8_t pad0[DRAY_LINE - 4];
  uint32_t cq_cons;
  uint8_t pad1[DRAY_LINE - 4];
  uint32_t sleep;   /**< 0: awake, 1: asleep on the futex, 2: asleep on the pollable fd */
  uint32_t wake_at; /**< asleep: wake once cq_prod has come this far; written before sleep */
  uint8_t pad2[DRAY_LINE - 8];
};

/** Values of dray_u_head.sleep. */
enum dray_sleep { DRAY_AWAKE = 0, DRAY_SLEEP_FUTEX = 1, DRAY_SLEEP_POLL = 2 };

/** Values of dray_m_head.state. */
enum dray_m_state { DRAY_M_LIVE = 1, DRAY_M_FATAL = 2 };

/** Offsets and sizes both sides compute from the same few numbers and compare (ring/layout.h). */
struct dray_geometry {
  uint32_t entries;     /**< N: credits */
  uint32_t sq_slots;    /**< power of two */
  uint32_t cq_slots;    /**< power of two, > N + CANCEL reserve + notice kinds */
  uint32_t items;       /**< rows of the arena and of the results */
  uint32_t objects;     /**< rows of the object-state table */
  uint32_t sq_off;      /**< in U, a multiple of the page size */
  uint32_t arena_off;   /**< in U */
  uint32_t cq_off;      /**< in M, a multiple of the page size */
  uint32_t results_off; /**< in M */
  uint32_t objects_off; /**< in M */
  uint64_t u_size;
  uint64_t m_size;
  uint64_t fingerprint; /**< hash of the above and of the struct sizes */
};

/** First page of M. The mover is the only writer (the keeper writes state after the mover's death). */
struct dray_m_head {
  uint32_t magic;
  uint16_t major, minor;
  uint32_t state; /**< enum dray_m_state */
  uint32_t epoch;
  uint8_t pad0[DRAY_LINE - 16];
  uint32_t cq_prod; /**< futex word */
  uint8_t pad1[DRAY_LINE - 4];
  uint32_t sq_cons;
  uint8_t pad2[DRAY_LINE - 4];
  uint32_t need_wakeup;
  uint8_t pad3[DRAY_LINE - 4];
  struct dray_geometry geo;
  uint8_t pad4[DRAY_LINE - sizeof(struct dray_geometry)];
};

/** One row of the object-state table in M: level-triggered truth behind the notices. */
struct dray_object_state {
  uint64_t object; /**< lease id; 0: free */
  uint32_t state;  /**< enum dray_lease_state */
  uint32_t zero;
};
enum dray_lease_state { DRAY_LEASE_NONE = 0, DRAY_LEASE_LIVE = 1, DRAY_LEASE_REVOKING = 2, DRAY_LEASE_POISONED = 3 };

DRAY_ABI_ASSERT(sizeof(struct dray_sqe) == 64, "directive is one line");
DRAY_ABI_ASSERT(offsetof(struct dray_sqe, cookie) == 8, "sqe.cookie");
DRAY_ABI_ASSERT(offsetof(struct dray_sqe, key) == 16, "sqe.key");
DRAY_ABI_ASSERT(offsetof(struct dray_sqe, off) == 32, "sqe.off");
DRAY_ABI_ASSERT(offsetof(struct dray_sqe, len) == 40, "sqe.len");
DRAY_ABI_ASSERT(offsetof(struct dray_sqe, request) == 48, "sqe.request");
DRAY_ABI_ASSERT(offsetof(struct dray_sqe, layout) == 56, "sqe.layout");
DRAY_ABI_ASSERT(offsetof(struct dray_sqe, arg) == 60, "sqe.arg");
DRAY_ABI_ASSERT(sizeof(struct dray_cqe) == 64, "completion is one line");
DRAY_ABI_ASSERT(offsetof(struct dray_cqe, bytes) == 16, "cqe.bytes");
DRAY_ABI_ASSERT(offsetof(struct dray_cqe, slab) == 40, "cqe.slab");
DRAY_ABI_ASSERT(offsetof(struct dray_cqe, sq_pos) == 56, "cqe.sq_pos");
DRAY_ABI_ASSERT(sizeof(struct dray_item) == 32, "item");
DRAY_ABI_ASSERT(sizeof(struct dray_item_result) == 32, "item result");
DRAY_ABI_ASSERT(sizeof(struct dray_publish) == 32, "publish record is one item row");
DRAY_ABI_ASSERT(sizeof(struct dray_copy_to) == 16, "copy target fits the key");
DRAY_ABI_ASSERT(sizeof(struct dray_quarantine_at) == 16, "quarantined lease fits the key");
DRAY_ABI_ASSERT(sizeof(struct dray_u_head) == 3 * DRAY_LINE, "U head");
DRAY_ABI_ASSERT(sizeof(struct dray_geometry) == 64, "geometry");
DRAY_ABI_ASSERT(sizeof(struct dray_m_head) == 5 * DRAY_LINE, "M head");
DRAY_ABI_ASSERT(offsetof(struct dray_m_head, cq_prod) == DRAY_LINE, "cq_prod line");
DRAY_ABI_ASSERT(sizeof(struct dray_object_state) == 16, "object state");

/* ---- the session's socket: SOCK_SEQPACKET, one struct per message, every request answered ---- */

/** Message types. */
enum dray_msg_type {
  DRAY_MSG_HELLO = 1,         /**< engine: struct dray_msg_hello, fd: its own pidfd where SO_PEERPIDFD is missing */
  DRAY_MSG_WELCOME = 2,       /**< mover: struct dray_msg_welcome, fds: U, M, doorbell eventfd, poll socket */
  DRAY_MSG_REGION_ADD = 3,    /**< engine: struct dray_msg_region, fd: the sealed memfd */
  DRAY_MSG_REGION_DEL = 4,    /**< engine: struct dray_msg_id */
  DRAY_MSG_LAYOUT_DEFINE = 5, /**< engine: struct dray_msg_layout */
  DRAY_MSG_KEY_DEFINE = 6,    /**< engine: struct dray_msg_key */
  DRAY_MSG_REPLY = 7,         /**< mover: struct dray_msg_reply, answers the request with the same seq */
  DRAY_MSG_SLAB = 8,          /**< mover, unasked: struct dray_msg_slab, fd: the slab */
  DRAY_MSG_SLAB_GONE = 9,     /**< mover, unasked: struct dray_msg_id: unmap it, no lease is left in it */
};

#define DRAY_NAME_MAX 64  /**< agent name, with its 0 */
#define DRAY_TOKEN_MAX 64 /**< token, with its 0 */
#define DRAY_AXIS_MAX 64  /**< one axis of a materialization key, with its 0 */

struct dray_msg_head {
  uint32_t type; /**< enum dray_msg_type */
  uint32_t seq;  /**< of the request, echoed in the reply; 0 when unasked */
};
struct dray_msg_hello {
  struct dray_msg_head h;
  uint32_t magic;
  uint16_t major, minor;
  uint64_t features; /**< ANDed with the mover's */
  uint32_t sqe_size, cqe_size;
  uint32_t entries, items;
  char agent[DRAY_NAME_MAX];
  char token[DRAY_TOKEN_MAX];
};
struct dray_msg_welcome {
  struct dray_msg_head h;
  int32_t error;   /**< 0, or -errno and the rest is zero */
  uint32_t reason; /**< enum dray_reason when error is not 0 */
  uint16_t major, minor;
  uint32_t epoch;
  uint64_t features;
  uint64_t session;
  struct dray_geometry geo;
  char tenant[DRAY_NAME_MAX];
};
struct dray_msg_region {
  struct dray_msg_head h;
  uint64_t size;
};
struct dray_msg_id {
  struct dray_msg_head h;
  uint32_t id;
  uint32_t zero;
};
/** How one KV block is scattered in a region: segment s of block b is at base + b*block_stride + s*seg_stride. */
struct dray_layout {
  uint64_t base;         /**< bytes */
  uint64_t block_stride; /**< bytes from block b to b+1 */
  uint64_t seg_stride;   /**< bytes from one segment of a block to the next */
  uint32_t seg_bytes;    /**< bytes per segment, > 0 */
  uint32_t segs;         /**< segments per block, 1..4096 */
};
struct dray_msg_layout {
  struct dray_msg_head h;
  struct dray_layout layout;
};
/** A materialization key: what must be equal before one engine may use what another computed. */
struct dray_key {
  char model[DRAY_AXIS_MAX];
  char tokenizer[DRAY_AXIS_MAX];
  char serializer[DRAY_AXIS_MAX];
  char position[DRAY_AXIS_MAX];
  char policy[DRAY_AXIS_MAX];
  char admitter[DRAY_AXIS_MAX];
};
struct dray_msg_key {
  struct dray_msg_head h;
  struct dray_key key;
};
struct dray_msg_reply {
  struct dray_msg_head h;
  int32_t error;   /**< 0 or -errno */
  uint32_t reason; /**< enum dray_reason when error is not 0 */
  uint64_t need;   /**< what the request needed (bytes, count); 0 when that says nothing */
  uint64_t have;   /**< what there was */
  uint32_t id;     /**< region, layout or key id */
  uint32_t zero;
};
struct dray_msg_slab {
  struct dray_msg_head h;
  uint32_t slab;
  uint32_t writable; /**< 1: a fill memfd of this session (ALLOC) */
  uint64_t size;     /**< bytes to map */
  uint64_t offset;   /**< in the fd, where the mapping starts */
};

DRAY_ABI_ASSERT(sizeof(struct dray_msg_hello) == 40 + DRAY_NAME_MAX + DRAY_TOKEN_MAX, "hello");
DRAY_ABI_ASSERT(sizeof(struct dray_layout) == 32, "layout");
DRAY_ABI_ASSERT(sizeof(struct dray_key) == 6 * DRAY_AXIS_MAX, "key");
DRAY_ABI_ASSERT(sizeof(struct dray_msg_reply) == 40, "reply");
DRAY_ABI_ASSERT(sizeof(struct dray_msg_slab) == 32, "slab");

#ifdef __cplusplus
}
#endif
#endif
