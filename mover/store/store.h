/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the mover owns: pools made of slabs made of slots, cells that name the bytes in slots, and leases.
 *
 * Shape. A slab has one slot size, one tenant, one scope, one agent when the scope is `agent`, and at most
 * STORE_SLOTS slots. A slot is FREE, FILLING (allocated, not yet a cell's), or HELD by one copy of one cell. Each slot
 * has a pin count: leases and transfers pin it. A slot whose cell let go of it is DETACHED and becomes free with its
 * last pin: so nothing under a lease is ever reused, and no other rule is needed for that.
 * A cell is immutable after commit; only its set of copies, scope (widening), taint (rising) and state change.
 *
 * Where it lives. All records are in index-based arenas (no pointers) over memfds that the keeper holds. Locks and
 * mappings are private to the worker. Names (tenants, agents) and materialization keys are interned.
 *
 * Locks. Shard of the directory, then pool; never the other way, never two shards. Every function here may be called
 * from any thread, holds its locks only inside, and does no I/O but slab_add/slab_del of the pool's transport (outside
 * the shard lock).
 *
 * Expected outcomes are returned as `unsigned` reasons (enum dray_reason), DRAY_REASON_OK being success.
 */
#ifndef MOVER_STORE_STORE_H
#define MOVER_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include <dray/ring_abi.h>
#include <dray/types.h>

#include "include/priv/err.h"
#include "transports/transport.h"

#define STORE_POOLS_MAX 8
#define STORE_COPIES 4
#define STORE_SLOTS 4096u
#define STORE_SLABS_MAX 65536u
#define STORE_NAME_MAX 64
#define STORE_DOMAIN_FLEET 0u /* the key domain of cells published to the fleet; tenants count from 1 */
static inline uint32_t store_domain(unsigned scope, uint32_t tenant)
{
  return scope == DRAY_SCOPE_FLEET ? STORE_DOMAIN_FLEET : tenant;
}

struct store;

/* Arenas, each a memfd of the keeper. What is in ARENA_BAD outlives a worker; the others start empty. */
enum store_arena {
  ARENA_CELLS,
  ARENA_BUCKETS,
  ARENA_SLABS,
  ARENA_SLOTS,
  ARENA_LEASES,
  ARENA_NAMES,
  ARENA_BAD,
  ARENA_COUNT
};

struct store_pool_config {
  char name[32];
  uint8_t tier;            /* enum dray_tier; pools are given hottest first: this is the ladder */
  bool attendable;         /* byte-addressable and coherent by the profile, and the device is addressable */
  struct dev *dev;         /* opened and started */
  uint64_t capacity;       /* bytes, at most dev->caps.capacity */
  uint64_t slab_bytes_max; /* default 64 MiB */
};

struct store_config {
  uint32_t pools;
  struct store_pool_config pool[STORE_POOLS_MAX];
  uint32_t cells_max;  /* default 16 Mi; at most 2^31 */
  uint32_t slabs_max;  /* at most STORE_SLABS_MAX */
  uint32_t leases_max; /* default 1 Mi */
  uint64_t seed;       /* of the key hash */
};

/* Called without locks held. slab_made: before any fd of it can leave. slab_gone: it has no pins and no cells; after
   the call it is destroyed; whoever was lent its fd is told. */
struct store_hooks {
  void *ctx;
  int (*slab_made)(void *ctx, uint32_t slab, const struct slab_mem *mem); /* 0 or -errno: then it is undone */
  void (*slab_gone)(void *ctx, uint32_t slab);
  bool (*slab_lent)(void *ctx, uint32_t slab);  /* did an fd of it ever leave the mover */
  void (*index_lost)(void *ctx, uint32_t pool); /* nothing there outlives the mover from now on; may be said again */
};

/* Bytes that each arena needs (sparse: touched only as used). */
void store_arena_bytes(const struct store_config *cfg, uint64_t ret_bytes[ARENA_COUNT]);
/* Maps the arenas (fds stay the caller's; they are grown as needed and emptied) and, for persistent pools, rebuilds the
   directory from their index, slab_made being called for the slabs found; store_stats counts the cells found there.
   -EINVAL, -ENOMEM, or what the transport said. */
int store_new(const struct store_config *cfg, const int arena_fd[ARENA_COUNT], const struct store_hooks *hooks,
              struct err *e, struct store **ret_store);
/* Destroys what is left: every slab through its transport. A persistent pool keeps its cells on disk: their slabs are
   not given to slab_del, the device's close lets go of their mappings. NULL is fine. */
struct store *store_free(struct store *s);

/* ---- names ---- */
/* Ids count from 1; 0 when the table is full or the name is empty or too long. */
uint32_t store_tenant(struct store *s, const char *name);
uint32_t store_agent(struct store *s, uint32_t tenant, const char *name);
uint32_t store_mkey(struct store *s, const struct dray_key *key);
/* NULL for an id that is none; valid as long as the store. */
const char *store_tenant_name(struct store *s, uint32_t tenant);
const char *store_agent_name(struct store *s, uint32_t agent);
const struct dray_key *store_mkey_get(struct store *s, uint32_t mkey);

/* ---- cells ---- */
enum cell_state { CELL_LIVE = 1, CELL_QUARANTINED = 2 };

struct store_copy {
  uint32_t slab; /* slab id */
  uint32_t slot;
  uint8_t pool;
};
/* A snapshot of a cell's record. */
struct cell_facts {
  uint32_t idx, gen; /* the cell's identity; gen differs when the record was reused */
  uint8_t key[16];
  uint32_t tenant, agent, mkey;
  uint64_t len;
  uint32_t crc;
  uint8_t has_crc, scope, taint, state;
  uint32_t replay; /* tokens that computing it again would take; 0: nobody said */
  uint32_t serial; /* of its commit, over all cells, wrapping: a later one is a newer one */
  uint8_t copies;  /* sorted by pool, hottest first */
  struct store_copy copy[STORE_COPIES];
};
/* It has its copy in a colder pool already: letting go of that one loses nothing. */
static inline bool cell_has_colder(const struct cell_facts *f, uint32_t pool)
{
  for (unsigned i = 0; i < f->copies; i++)
    if (f->copy[i].pool > pool)
      return true;
  return false;
}
struct slot_ref {
  uint32_t slab; /* slab id: generation << 16 | index; 0 is none */
  uint32_t slot;
};
/* Where a slot's bytes are. Stable while the slot is pinned. */
struct slot_mem {
  struct dev *dev;
  const struct slab_mem *mem;
  uint64_t off; /* of the slot in the slab */
  uint64_t slot_bytes;
  uint32_t tenant; /* whose slab it is */
  uint8_t pool, tier;
  bool attendable;
};

/* Looks in the tenant's domain, then in the fleet's. OK: facts are filled and, when pin_tier is not PIN_NONE, one copy
   is pinned: the hottest (DRAY_TIER_ANY) or the one on that tier; no copy on that tier leaves ret_slot->slab 0 (still
   OK). ABSENT; EVICTED when this mover remembers having evicted it. Also stamps the cell as used at now_ms. */
#define PIN_NONE 0xff
unsigned store_find(struct store *s, uint32_t tenant, const uint8_t key[16], uint8_t pin_tier, uint32_t now_ms,
                    struct cell_facts *ret_facts, struct slot_ref *ret_slot);
/* Finds of these keys follow: their places in the directory are fetched side by side, where one find after the other
   would wait for each. pins: the finds will pin. A hint: nothing is promised, nothing that it reads is believed. */
#define STORE_HINTS_MAX 32u
struct store_hint {
  const uint8_t *key;
};
void store_expect(struct store *s, uint32_t tenant, const struct store_hint *hints, uint32_t n, bool pins);
struct cell_new;
/* Likewise, a store_commit follows, after some time: first its place in the directory; later, listed, what it may
   replace. */
void store_expect_commit(struct store *s, const struct cell_new *n, bool listed);
/* True while the cell is still the same record and listed; used to re-validate after time has passed. */
bool store_cell_current(struct store *s, const struct cell_facts *f);

void store_slot_mem(struct store *s, struct slot_ref r, struct slot_mem *ret_mem);
/* One more pin on a slot that is already pinned by the caller. */
void store_pin(struct store *s, struct slot_ref r);
/* Ends one pin; a DETACHED slot with no pins becomes free, an empty slab may be destroyed (slab_gone). */
void store_unpin(struct store *s, struct slot_ref r);
/* Several at once. */
void store_unpin_all(struct store *s, const struct slot_ref *refs, uint32_t n);

struct store_who {
  uint32_t tenant, agent;
  uint8_t scope;
};
/* A slot for len bytes in pool, FILLING and pinned once. NO_ROOM: the pool is full, or what is left of it is owed to
   others' reserves, see store_victim. QUOTA_EXCEEDED: the tenant's limit; store_victim then names its own. NO_SPACE:
   the disk is. LIMIT: tables are full. TOO_LARGE: larger than the pool. ZERO_LENGTH. SCOPE_DENIED: the pool's device
   belongs to another tenant, or holds published cells only. TIER_DRAINING: it was closed. IO_ERROR: a persistent device
   could not note the slab. May wait while another thread makes a slab of the same class. */
unsigned store_alloc(struct store *s, uint32_t pool, const struct store_who *who, uint64_t len,
                     struct slot_ref *ret_slot);
/* The same out of slabs that the tenant is charged for already: takes nothing that others could have. */
bool store_alloc_held(struct store *s, uint32_t pool, const struct store_who *who, uint64_t len,
                      struct slot_ref *ret_slot);
/* A slab that the caller made (a frozen fill memfd) becomes a slab of one slot; ownership of mem goes to the store,
   which destroys it (munmap, close) whole when its slot is free. Charged to pool and tenant, or, when set_aside, what
   store_reserve took for these very bytes becomes the slab's: no NO_ROOM, no QUOTA_EXCEEDED then. NO_ROOM,
   QUOTA_EXCEEDED, LIMIT, SCOPE_DENIED, OUT_OF_RANGE (len) leave mem, and what was set aside, with the caller. */
unsigned store_adopt(struct store *s, uint32_t pool, const struct store_who *who, const struct slab_mem *mem,
                     uint64_t len, bool set_aside, struct slot_ref *ret_slot);
/* Capacity set aside in a pool for a tenant without a slab (fill memfds before COMMIT). NO_ROOM, QUOTA_EXCEEDED,
   TIER_DRAINING. */
unsigned store_reserve(struct store *s, uint32_t pool, uint32_t tenant, uint64_t bytes);
void store_unreserve(struct store *s, uint32_t pool, uint32_t tenant, uint64_t bytes);
/* Nothing new goes into that slab; it is destroyed when the last of it is gone. The caller has a pin in it. */
void store_slab_seal(struct store *s, uint32_t slab);
/* Lets go of a FILLING slot: free with its last pin. The caller's pin stays the caller's to end. */
void store_discard(struct store *s, struct slot_ref r);

struct cell_new {
  uint8_t key[16];
  struct store_who who; /* scope FLEET puts it into the fleet's domain */
  uint32_t mkey;
  uint64_t len;
  uint32_t crc;
  uint8_t has_crc;
  uint8_t taint; /* 0: nobody has judged it yet; closed to others like TAINTED, but publish may make it TRUSTED */
  bool no_replace;
  uint16_t account[2]; /* store_account_charge(); with success the cell's */
  uint16_t replay;     /* as the record has it */
};
/* What a session or a request has put: a charge of len against limit, which a cell may take over (cell_new), or the
   caller refunds. OK, QUOTA_EXCEEDED, LIMIT (65,535 are known). */
unsigned store_account_charge(struct store *s, uint32_t tenant, uint8_t unit, uint64_t id, uint64_t len, uint64_t limit,
                              uint16_t *ret_account);
void store_account_refund(struct store *s, const uint16_t account[2], uint64_t len);
/* The cell whose copy the pinned slot is would take so many tokens to compute again. Nothing when it has no cell. */
void store_replay(struct store *s, struct slot_ref slot, uint64_t tokens);
/* The FILLING slot becomes the cell's first copy; an older cell of that key and domain is replaced (its slots
   detached). EXISTS with no_replace; SCOPE_DENIED when the existing cell is another agent's (or, in the fleet's domain,
   another tenant's); LIMIT. On refusal the slot is still FILLING. The caller's pin stays. Writes the index entry of a
   persistent pool: NO_SPACE, IO_ERROR. A tenant or agent whose name does not fit INDEX_NAME_MAX gets no entry: its
   cells there do not outlast the store. */
unsigned store_commit(struct store *s, const struct cell_new *n, struct slot_ref slot, uint32_t now_ms,
                      struct cell_facts *ret_facts);
/* The FILLING slot becomes a further copy of the cell. STALE_GENERATION: the cell is gone or replaced; EXISTS: it has a
   copy in that pool already; LIMIT: STORE_COPIES. On refusal the slot is still FILLING. */
unsigned store_add_copy(struct store *s, const struct cell_facts *f, struct slot_ref slot);
/* The cell lets go of its copy in that pool (detached; the last copy takes the cell with it). STALE_GENERATION, ABSENT.
 */
unsigned store_drop_copy(struct store *s, const struct cell_facts *f, uint8_t pool);
/* add_copy of `to` and drop_copy of from_pool in one step. */
unsigned store_move_copy(struct store *s, const struct cell_facts *f, uint8_t from_pool, struct slot_ref to);
/* Forgets the cell: all copies detached. STALE_GENERATION. */
unsigned store_drop(struct store *s, const struct cell_facts *f);
/* Raises taint (never lowers), and replaces the record by one with the new scope, mkey and the one copy `slot`
   (FILLING, in a slab of the new class), moving it to the fleet's domain for FLEET. The old copies are detached.
   EXISTS: the fleet has that key from another tenant; STALE_GENERATION. */
unsigned store_publish(struct store *s, const struct cell_facts *f, uint8_t scope, uint8_t taint, uint32_t mkey,
                       struct slot_ref slot, struct cell_facts *ret_facts);
unsigned store_quarantine(struct store *s, const struct cell_facts *f);

/* ---- room ---- */
/* What to move out of a full pool so that store_alloc(pool, who, len) can succeed. OK: ret_facts is a cell with its
   copy in that pool pinned in ret_slot: demote it (store_move_copy) or evict it (store_evict), unpin, try again.
   ABSENT: nothing to move, but something was freed: try store_alloc again now. NO_ROOM: everything there is pinned or
   leased. Waits at most 2 ms for another thread that gives a slab back. A class that has slabs gives its least recently
   used of a sample of 8; else the tenant that holds most for its weight gives a whole slab, cell by cell; never a slab
   that the store is filling for somebody else's sake right now, and never what another tenant's reserve covers. A
   tenant at its limit gives of its own. */
unsigned store_victim(struct store *s, uint32_t pool, const struct store_who *who, uint64_t len,
                      struct cell_facts *ret_facts, struct slot_ref *ret_slot);
/* As drop_copy, and the key is remembered as EVICTED when that was its last copy. */
unsigned store_evict(struct store *s, const struct cell_facts *f, uint8_t pool);

/* ---- quota: bytes of slabs (what others cannot have), and what is set aside ---- */
struct store_quota {
  uint64_t reserve; /* kept free for the tenant whatever others want */
  uint64_t limit;   /* UINT64_MAX: none */
  uint32_t tenant;
  uint32_t weight; /* at least 1: how what is above the reserves is divided when it is short */
};
struct store_usage {
  struct store_quota quota;
  uint64_t charged, peak;
  uint64_t cell_bytes; /* payload */
};
/* All quotas of the pool at once; who is not in the list has none (no reserve, no limit, weight 1). Takes nothing away
   by itself: who has more than its new limit gets nothing more. */
void store_quota_set(struct store *s, uint32_t pool, const struct store_quota *list, uint32_t n);
void store_usage(struct store *s, uint32_t pool, uint32_t tenant, struct store_usage *ret_usage);
/* How full, in thousandths of its capacity; empty slabs that are kept do not count. */
uint32_t store_pool_fill(struct store *s, uint32_t pool);
/* Tenants known: ids 1..n. */
uint32_t store_tenants(struct store *s);

/* ---- leases: a session's are for one thread at a time, the one that serves it; they take no lock ---- */
struct lease_info {
  uint64_t id; /* generation << 32 | index; never 0 */
  uint32_t session;
  uint32_t row; /* row of the session's object-state table */
  struct slot_ref slot;
  uint64_t len;
  uint64_t off; /* of the slot in the slab */
  uint64_t ctx; /* the caller's */
  /* Whose bytes, of which commit: the slot may have been replaced, moved or published away since. */
  uint32_t tenant, agent, serial; /* tenant 0: a fill, no cell yet */
  uint8_t key[16];
};
/* The caller's pin on slot becomes the lease's (slot.slab may be 0: a lease that pins nothing, for fills). LIMIT. */
unsigned store_lease_add(struct store *s, const struct lease_info *l, uint64_t *ret_id);
/* BAD_LEASE when it is not a lease of that session. */
unsigned store_lease_find(struct store *s, uint32_t session, uint64_t id, struct lease_info *ret_lease);
/* Ends it and hands what it was to the caller; its pin is ended unless keep_pin. BAD_LEASE. */
unsigned store_lease_end(struct store *s, uint32_t session, uint64_t id, bool keep_pin, struct lease_info *ret_lease);
/* The session's leases one by one: the first one, or BAD_LEASE when there is none left. */
unsigned store_lease_first(struct store *s, uint32_t session, struct lease_info *ret_lease);
/* The one after lease `id` of the session, or BAD_LEASE. */
unsigned store_lease_next(struct store *s, uint32_t session, uint64_t id, struct lease_info *ret_lease);
/* The session is gone and has no lease left: what was set aside for it is anybody's. */
void store_lease_close(struct store *s, uint32_t session);

/* The session's leases on [off, off+len) of a slab, from *cursor (0 at first; 0 again at the end) on. The session must
   not gain or end leases in between. */
uint32_t store_lease_in(struct store *s, uint32_t session, uint32_t slab, uint64_t off, uint64_t len, uint32_t *cursor,
                        struct lease_info *ret_lease, uint32_t n);
/* Those on bytes that the tenant's cell of that key has, or ever had: up to the commit `serial`, or any. */
struct store_whose {
  uint32_t tenant, serial;
  bool any;
  uint8_t key[16];
};
uint32_t store_lease_of(struct store *s, uint32_t session, const struct store_whose *w, uint32_t *cursor,
                        struct lease_info *ret_lease, uint32_t n);

/* ---- bad memory ---- */
/* What was hit. */
struct store_hit {
  uint64_t unit;    /* bytes that are bad together: a power of two */
  uint64_t when_ms; /* since 1970 */
  bool proven;      /* the mover saw it itself; otherwise it is a tenant's word about its own cell */
};
/* The part of a bad unit that lies in one slab. */
struct store_bad {
  uint32_t slab; /* id */
  uint8_t pool, proven;
  uint8_t live;      /* its memory is still here, barred */
  uint8_t fresh;     /* only in the answer of a hit: it was not known before */
  uint64_t off, len; /* in the slab */
  uint64_t dev_off;  /* of that on the device; memory tiers: meaningless */
  uint64_t unit, when_ms;
  uint32_t tenant;       /* whose slab it is */
  uint32_t slots, cells; /* barred; quarantined, or robbed of this copy */
  uint8_t key[16];       /* of the first of these cells */
  uint64_t cell_off;     /* first bad byte in it */
};
/* The unit around that byte of the mover's own memory is bad: bars every slot that it overlaps, in whatever slab, for
   ever; a cell there loses this copy, or is QUARANTINED when it has no other. Returns in how many slabs that was news
   or known (0: no slab is there), the first n of them in ret_bad. */
uint32_t store_poison_at(struct store *s, uintptr_t addr, const struct store_hit *h, struct store_bad *ret_bad,
                         uint32_t n);
/* The same for a byte of a slab that has no address, or may have one. The caller has a pin in it. */
uint32_t store_poison_in(struct store *s, uint32_t slab, uint64_t off, const struct store_hit *h,
                         struct store_bad *ret_bad, uint32_t n);
/* Is the slot barred. ret_proven may be NULL. The caller keeps the slab. */
bool store_slot_bad(struct store *s, struct slot_ref slot, bool *ret_proven);
/* Bad units known, dead ones too, from *cursor on (0 at first; 0 again at the end). */
uint32_t store_bad_list(struct store *s, uint32_t *cursor, struct store_bad *ret_bad, uint32_t n);
struct bad_sums {
  uint64_t units, cells;           /* ever, as far back as is remembered */
  uint64_t live_units, live_bytes; /* barred now */
};
void store_bad_sums(struct store *s, struct bad_sums *ret_sums);

/* ---- the end of a pool ---- */
/* From now on nothing new goes there (TIER_DRAINING), and slabs that are or become empty are given back, with bad
   memory in them or not. Again: those that became empty meanwhile. */
void store_pool_close(struct store *s, uint32_t pool);
/* Closed and idle: takes new cells again. */
void store_pool_reopen(struct store *s, uint32_t pool);
/* Nothing of its device is used any more. */
bool store_pool_idle(struct store *s, uint32_t pool);

/* ---- looking in from outside ---- */
struct pool_stats {
  char name[32];
  uint8_t tier;
  bool attendable, emulated, persistent;
  char note[160];
  uint64_t capacity, slab_bytes, cell_bytes; /* slab_bytes: taken from capacity; cell_bytes: payload of cells */
  uint64_t slabs, cells;
};
struct store_stats {
  uint64_t cells, leases, slabs;
  uint64_t directory_bytes; /* arena bytes in use: records, buckets and slots */
  uint64_t evicted, found_on_disk, skipped_on_disk;
  uint32_t pools;
  struct pool_stats pool[STORE_POOLS_MAX];
};
void store_stats(struct store *s, struct store_stats *ret_stats);
/* Walks the cells from *cursor (0 at first; 0 again at the end); at most n facts. For the CLI; takes shard locks one by
 * one. */
uint32_t store_walk(struct store *s, uint32_t *cursor, struct cell_facts *ret_facts, uint32_t n);
/* Counts everything again and compares with the books: 0, or -EUCLEAN with a text. Quiet store only (tests, debug). */
int store_audit(struct store *s, struct err *e);
/* Pool of a tier, or -1. */
int store_pool_of_tier(struct store *s, uint8_t tier);
uint32_t store_pools(const struct store *s);
const struct store_pool_config *store_pool(const struct store *s, uint32_t pool);
/* Free bytes for new slabs. */
uint64_t store_pool_free(struct store *s, uint32_t pool);
#endif
