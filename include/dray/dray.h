/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file dray.h
 * What an engine calls: open a session, register memory, prepare directives, submit, reap completions, hold
 * zero-copy maps. The manner is liburing's: get an entry, prep it, submit, wait, look, mark as seen.
 *
 * A struct dray belongs to one thread at a time. Nothing here writes to stdout or stderr, installs signal
 * handlers (but for the guard below, on first use) or starts threads. Calls that talk to the mover over the socket
 * have a deadline of dray_params.timeout_ms; calls on the ring never block but for dray_wait().
 *
 * Functions return 0 (or a count) or -errno; out-parameters are written on success only.
 */
#ifndef DRAY_DRAY_H
#define DRAY_DRAY_H

#include <setjmp.h>
#include <stdbool.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <dray/ring_abi.h>
#include <dray/types.h>
#include <dray/version.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Where a mover listens unless it is told otherwise; $DRAY_SOCKET overrides it for clients. */
#define DRAY_SOCKET_DEFAULT "/run/dray/dray.sock"

/** One session. Opaque. */
struct dray;

/** How to open a session. Zeroed fields take the default; set size to sizeof(struct dray_params). */
struct dray_params {
  size_t size;         /**< sizeof(struct dray_params): lets the struct grow */
  const char *socket;  /**< path; NULL: $DRAY_SOCKET, then DRAY_SOCKET_DEFAULT */
  const char *agent;   /**< name within the tenant, 1..63 bytes; NULL: "default" */
  const char *token;   /**< secret that names the tenant; NULL: $DRAY_TOKEN, then none */
  uint32_t entries;    /**< credits, 1..4096; 0: 256 */
  uint32_t items;      /**< rows of the BATCH arena, up to 131,072; 0: 8,192 */
  uint32_t spin_us;    /**< how long dray_wait() polls before it sleeps; 0: 30 */
  uint32_t timeout_ms; /**< deadline of calls over the socket; 0: 5,000 */
};

/**
 * Connects and makes a session. Blocks at most timeout_ms.
 * @return 0; -ENOENT, -ECONNREFUSED: no mover there; -EACCES: no tenant for this uid, socket or token; -EMFILE: the
 * session cap; -EPROTO: versions differ; -ETIMEDOUT; -EINVAL: a parameter; -ENOMEM. dray_open_error() says it in words.
 */
DRAY_API int dray_open(const struct dray_params *params, struct dray **ret_dray);
/** Words for what dray_open() returned, static storage. */
DRAY_API const char *dray_open_error(int error);
/** Ends the session: leases end, committed cells stay, what is in flight is canceled. NULL is fine. Maps become
 * invalid. */
DRAY_API void dray_close(struct dray *d);
/** The tenant that the mover admitted this session as; valid until dray_close(). */
DRAY_API const char *dray_tenant(const struct dray *d);
/** This session's number, as `dray status` shows it. */
DRAY_API uint64_t dray_session(const struct dray *d);

/** Memory of the engine's that the mover may read and write. */
struct dray_region {
  void *base;
  uint64_t size;
  int fd;
  uint16_t id; /**< for dray_sqe.region; 0: not registered */
};
/**
 * Makes a memfd of that size with the seals the mover asks for, mapped read-write. huge: hugetlb pages, -ENOMEM
 * without. The region is the caller's, dray_region_free() ends it. Not registered yet.
 */
DRAY_API int dray_region_alloc(uint64_t size, bool huge, struct dray_region *ret_region);
/** Unmaps and closes. Unregister first. */
DRAY_API void dray_region_free(struct dray_region *r);
/**
 * Lends region->fd (a memfd sealed with F_SEAL_SHRINK) to the mover; fills region->id. Blocks for the mover's answer.
 * @return 0; -EPERM: unsealed; -EINVAL: not a memfd; -EMSGSIZE: smaller than said; -ENOSPC: region or pinned-byte cap;
 * -ETIMEDOUT; -ECONNRESET. dray_last_error() has need and have.
 */
DRAY_API int dray_region_register(struct dray *d, struct dray_region *region);
/** Takes it back once nothing in flight uses it. -ENOENT: not registered (a second call says so, too); -ETIMEDOUT:
 * still in use. */
DRAY_API int dray_region_unregister(struct dray *d, struct dray_region *region);
/** Describes how one KV block is scattered; the id goes into dray_sqe.layout. -EINVAL, -ENOSPC (255 per session). */
DRAY_API int dray_layout_define(struct dray *d, const struct dray_layout *layout, uint16_t *ret_id);
/** Interns a materialization key; the id goes into dray_sqe.arg. Unset axes are "". -ENOSPC (1,024 per session). */
DRAY_API int dray_key_define(struct dray *d, const struct dray_key *key, uint32_t *ret_id);
/** The last refusal over the socket: reason, need, have. */
DRAY_API void dray_last_error(const struct dray *d, struct dray_msg_reply *ret_reply);
/** XXH3-128 of any bytes (token ids, a block's prefix hash): a cell's key. */
DRAY_API void dray_digest(const void *bytes, size_t n, uint8_t ret_key[16]);

/* ---- directives ---- */

/**
 * The next free entry, zeroed and stamped, or NULL when all credits are out (reap first) or the ring is full (submit
 * first). With cancel, the CANCEL reserve counts too. It is the caller's until dray_submit().
 */
DRAY_API struct dray_sqe *dray_get_sqe(struct dray *d);
DRAY_API struct dray_sqe *dray_get_sqe_cancel(struct dray *d);
/** Makes all prepared entries visible and wakes the mover if it sleeps. Returns how many, or -ECONNRESET, -EPROTO. */
DRAY_API int dray_submit(struct dray *d);
/** Position that the entry from the last dray_get_sqe() has: what CANCEL names. */
DRAY_API uint32_t dray_sq_pos(const struct dray *d);

/** Rows of the BATCH arena. Rows in flight are read by the mover: do not rewrite them before the DONE. */
DRAY_API struct dray_item *dray_items(struct dray *d);
/** Results, row by row with the items; read-only. */
DRAY_API const struct dray_item_result *dray_results(const struct dray *d);
/** n rows in a row of the arena; *ret_first is their index. -ENOSPC. */
DRAY_API int dray_items_get(struct dray *d, uint32_t n, uint32_t *ret_first);
/** Gives rows back. */
DRAY_API void dray_items_put(struct dray *d, uint32_t first, uint32_t n);

/** Nothing; travels the whole path. */
static inline void dray_prep_nop(struct dray_sqe *s)
{
  s->op = DRAY_NOP;
}
/** Waits for everything earlier of this ring and makes its file writes durable. */
static inline void dray_prep_fence(struct dray_sqe *s)
{
  s->op = DRAY_FENCE;
}
/** region[off, off+len) becomes cell key. tier 0: policy chooses. */
static inline void dray_prep_put(struct dray_sqe *s, const uint8_t key[16], uint16_t region, uint64_t off, uint64_t len,
                                 uint8_t tier)
{
  s->op = DRAY_PUT;
  memcpy(s->key, key, 16);
  s->region = region;
  s->off = off;
  s->len = len;
  s->tier = tier;
}
/** The first len bytes of cell key go to region[off, ...). */
static inline void dray_prep_get(struct dray_sqe *s, const uint8_t key[16], uint16_t region, uint64_t off, uint64_t len,
                                 uint8_t tier)
{
  dray_prep_put(s, key, region, off, len, tier);
  s->op = DRAY_GET;
}
/** A place of len bytes to fill: answered with a write lease (object) and memory (dray_fill_address()). */
static inline void dray_prep_alloc(struct dray_sqe *s, const uint8_t key[16], uint64_t len, uint8_t tier)
{
  s->op = DRAY_ALLOC;
  memcpy(s->key, key, 16);
  s->len = len;
  s->tier = tier;
}
/** The filled lease becomes an immutable cell. Unmap the memory first (dray_fill_release()) to have it frozen in place.
 */
static inline void dray_prep_commit(struct dray_sqe *s, uint64_t lease)
{
  s->op = DRAY_COMMIT;
  s->off = lease;
}
/** A read lease on the cell: zero bytes move. */
static inline void dray_prep_map(struct dray_sqe *s, const uint8_t key[16], uint8_t tier)
{
  s->op = DRAY_MAP;
  memcpy(s->key, key, 16);
  s->tier = tier;
}
/** Ends a read lease, or abandons a write lease. */
static inline void dray_prep_unmap(struct dray_sqe *s, uint64_t lease)
{
  s->op = DRAY_UNMAP;
  s->off = lease;
}
/** region[off, off+len) -> dst_region[dst_off, ...). The two must not overlap. */
static inline void dray_prep_copy(struct dray_sqe *s, uint16_t region, uint64_t off, uint16_t dst_region,
                                  uint64_t dst_off, uint64_t len)
{
  struct dray_copy_to to;
  memset(&to, 0, sizeof to);
  to.dst_off = dst_off;
  to.dst_region = dst_region;
  s->op = DRAY_COPY;
  s->region = region;
  s->off = off;
  s->len = len;
  memcpy(s->key, &to, sizeof to);
}
/** The whole cell to tier `to`, from tier `from` (0: wherever it is). */
static inline void dray_prep_move(struct dray_sqe *s, const uint8_t key[16], uint8_t to, uint8_t from)
{
  s->op = DRAY_MOVE;
  memcpy(s->key, key, 16);
  s->tier = to;
  s->arg = from;
}
/** Widens the cell's scope by the record in arena row `row`. */
static inline void dray_prep_publish(struct dray_sqe *s, const uint8_t key[16], uint32_t row)
{
  s->op = DRAY_PUBLISH;
  memcpy(s->key, key, 16);
  s->off = (uint64_t)row * sizeof(struct dray_item);
}
/** Forgets the cell, or its copy on one tier. */
static inline void dray_prep_drop(struct dray_sqe *s, const uint8_t key[16], uint8_t tier)
{
  s->op = DRAY_DROP;
  memcpy(s->key, key, 16);
  s->tier = tier;
}
/** Does it exist, how long is it (bytes), where is its hottest copy (tier). */
static inline void dray_prep_stat(struct dray_sqe *s, const uint8_t key[16], uint8_t tier)
{
  dray_prep_drop(s, key, tier);
  s->op = DRAY_STAT;
}
/** bytes were read through the map, on behalf of request. */
static inline void dray_prep_account(struct dray_sqe *s, uint64_t lease, uint64_t bytes, uint32_t request)
{
  s->op = DRAY_ACCOUNT;
  s->off = lease;
  s->len = bytes;
  s->request = request;
}
/** What computing the leased cell again would cost, in tokens: what makes room gives cheap and idle cells first. Counts
    for cells of the session's own tenant. */
static inline void dray_prep_replay_cost(struct dray_sqe *s, uint64_t lease, uint32_t tokens)
{
  dray_prep_account(s, lease, 0, 0);
  s->arg = tokens;
}
/** The engine saw poison in the cell at [off, off+len). */
static inline void dray_prep_quarantine(struct dray_sqe *s, const uint8_t key[16], uint64_t off, uint64_t len)
{
  s->op = DRAY_QUARANTINE;
  memcpy(s->key, key, 16);
  s->off = off;
  s->len = len;
}
/** Bad memory was met under the lease: unit bytes (a power of two in 64..1 GiB) around [off, off+len) of its cell. */
static inline void dray_prep_quarantine_lease(struct dray_sqe *s, uint64_t lease, uint64_t off, uint64_t len,
                                              uint64_t unit)
{
  struct dray_quarantine_at at = {lease, 0};
  s->op = DRAY_QUARANTINE;
  memcpy(s->key, &at, sizeof at);
  s->off = off;
  s->len = len;
  s->arg = unit ? 63u - (uint32_t)__builtin_clzll(unit) : 0;
}
/** Cancels the directive at that position; passes DRAIN and LINK. Take the entry from dray_get_sqe_cancel(). */
static inline void dray_prep_cancel(struct dray_sqe *s, uint32_t sq_pos)
{
  s->op = DRAY_CANCEL;
  s->arg = sq_pos;
}
/** Turns a prepared PUT, GET, MAP, UNMAP, MOVE, STAT or DROP into a BATCH over arena rows [first, first+n). */
static inline void dray_sqe_batch(struct dray_sqe *s, uint32_t first, uint32_t n)
{
  memset(s->key, 0, 16);
  s->flags |= DRAY_BATCH;
  s->off = (uint64_t)first * sizeof(struct dray_item);
  s->len = n;
}

/**
 * Writes one row of the arena past the caches: the mover's CPU has those lines from the last time, and storing to them
 * one by one waits for each to come back. `it` is a row of dray_items(); off is the block number with a layout. Seen by
 * the mover from the next dray_submit() on. Rows may as well be written like any memory.
 */
static inline void dray_prep_item(struct dray_item *it, const uint8_t key[16], uint64_t off, uint32_t len)
{
#ifdef __SSE2__
  __m128i k = _mm_loadu_si128((const __m128i *)(const void *)key);
  _mm_stream_si128((__m128i *)(void *)it, k);
  _mm_stream_si128((__m128i *)(void *)it + 1, _mm_set_epi64x((long long)len, (long long)off));
#else
  memcpy(it->key, key, 16);
  it->off = off;
  it->len = len;
  it->zero = 0;
#endif
}

/* ---- completions ---- */

/** The oldest unseen completion or notice, or NULL. Valid until dray_seen(). No system call. */
DRAY_API const struct dray_cqe *dray_peek(struct dray *d);
/** Marks it as seen; its credit returns. */
DRAY_API void dray_seen(struct dray *d);
/**
 * Waits until n completions can be peeked, at most timeout_ms (>= 0): polls for spin_us, then sleeps.
 * @return how many there are (>= n); -ETIMEDOUT; -ECONNRESET: the mover is gone and everything it had posted was seen
 * (a FATAL notice comes first); -EPROTO.
 */
DRAY_API int dray_wait(struct dray *d, unsigned n, int timeout_ms);
/** An fd for event loops, readable after completions were posted while armed. It is the library's: do not read or close
 * it. */
DRAY_API int dray_fd(const struct dray *d);
/** Arms dray_fd(). Returns 1 when completions are there already (then it is not armed), 0 when armed. */
DRAY_API int dray_arm(struct dray *d);

/* ---- leases ---- */

/**
 * Where the cell of a MAP completion (or the item's result) is, read-only. Maps the slab the first time; afterwards no
 * system call. Waits for nothing.
 * @return NULL with errno ENOENT (no such slab: not ours) or ENOMEM. Valid until UNMAP.
 */
DRAY_API const void *dray_map_address(struct dray *d, uint32_t slab, uint64_t off);
/** Where to fill an ALLOC, writable. NULL as above. */
DRAY_API void *dray_fill_address(struct dray *d, uint32_t slab);
/** Unmaps a fill, so that COMMIT can freeze it in place instead of copying it. */
DRAY_API void dray_fill_release(struct dray *d, uint32_t slab);
/** The level-triggered state of a read lease; DRAY_LEASE_NONE when it is not ours. */
DRAY_API enum dray_lease_state dray_lease_state(const struct dray *d, uint64_t lease);

/* ---- reading leased memory that may be bad ---- */

/** The cookie of the QUARANTINE that a guard sends by itself; its DONE needs no answer. */
#define DRAY_COOKIE_GUARD UINT64_MAX

/** Bad memory that was met under a lease. */
struct dray_hit {
  uint64_t lease;
  uint64_t off;  /**< first bad byte, in the cell */
  uint64_t unit; /**< bytes that are bad together: a power of two; the unit may begin before the cell */
  uint64_t good; /**< dray_copy_guarded(): bytes that were copied before it */
  bool poison;   /**< the kernel said poison; false: it said that there is no page (kernels without memory-failure
                      handling say so for poison, too) */
  bool reported; /**< the mover was told; false: no credit was free, call dray_report_hit() */
};
/** One guarded stretch of code. The caller's, on its stack; contents are the library's but for hit. */
struct dray_guard {
  sigjmp_buf back;
  struct dray *d;
  const void *cell;
  uint64_t len;
  uint64_t room[48];
  struct dray_hit hit;
};
/**
 * Guards reads of a leased cell: [cell, cell+len) is what dray_map_address() gave and MAP said. Used as
 *
 *     int r = dray_guard_begin(&g, d, lease, cell, len);
 *     if (r == 0) { ... read the cell ...; dray_guard_end(&g); }
 *     else        { ... g.hit says what is bad; the guard has ended ... }
 *
 * It returns a second time, with -EHWPOISON (poison) or -EFAULT (no page), when a read hits bad memory in the cell; the
 * code in between is left where it stands, so it holds no lock, calls nothing that allocates and nothing of this
 * library. Locals that it changed and that are read after the second return must be volatile. The mover is told
 * (QUARANTINE with the lease, cookie DRAY_COOKIE_GUARD); only whatever was being read is lost. Other faults go where
 * they went before. Threads may guard at the same time, each with sessions of its own; guards nest.
 * @return 0; -EHWPOISON; -EFAULT; -errno when the SIGBUS handler cannot be installed (then nothing is guarded).
 */
#define dray_guard_begin(g, d, lease, cell, len)                                                                       \
  (sigsetjmp((g)->back, 0) ? dray_guard_fault(g) : dray_guard_enter(g, d, lease, cell, len))
/** Ends the guard that did not hit anything; the one begun last. */
DRAY_API void dray_guard_end(struct dray_guard *g);
/** Halves of dray_guard_begin(); not called by themselves. */
DRAY_API int dray_guard_enter(struct dray_guard *g, struct dray *d, uint64_t lease, const void *cell, uint64_t len);
DRAY_API int dray_guard_fault(struct dray_guard *g);
/**
 * memcpy of n bytes at offset off of a leased cell that survives bad memory there, and bad memory at dst, which is
 * nobody's business but the caller's: then *ret_hit has lease 0 and nothing is reported.
 * @return 0; -EHWPOISON or -EFAULT with *ret_hit (may be NULL), its good bytes being in place; as dray_guard_begin().
 */
DRAY_API int dray_copy_guarded(struct dray *d, uint64_t lease, const void *cell, uint64_t off, void *dst, size_t n,
                               struct dray_hit *ret_hit);
/** Tells the mover of a hit (again). Takes a credit and submits. 0, -EAGAIN: no credit, -EINVAL: no lease in it. */
DRAY_API int dray_report_hit(struct dray *d, struct dray_hit *hit);

#ifdef __cplusplus
}
#endif
#endif
