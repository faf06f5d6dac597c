/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only file with atomics and fences. Each is named by its purpose; the labels pair an acquire
 * with its release, and docs/MEMORY_ORDER.md says why each pair is enough.
 *
 *   [SQ]    engine index_publish(U.sq_prod)   -> mover index_see(U.sq_prod)      slots before index
 *   [SQC]   mover  index_publish(M.sq_cons)   -> engine index_see(M.sq_cons)     slot read before reuse
 *   [CQ]    mover  index_publish(M.cq_prod)   -> engine index_see(M.cq_prod)     entries, results before index
 *   [CQC]   engine index_publish(U.cq_cons)   -> mover index_see(U.cq_cons)      entry read before reuse
 *   [BELL]  flag_raise + sleep_fence + re-check on the sleeper, index_publish + wake_fence + flag_read
 *           on the waker: a store-load pair on both sides, so both fences are full.
 *   [STATE] keeper state_publish(M.state)     -> engine state_see(M.state)
 *   [STAT]  counters: relaxed, one writer, any reader
 *   [USAGE] lane index_publish(ring.head)      -> ledger index_see(ring.head), and ledger tail -> lane: records before
 * index [STOP]  stop_raise -> stop_see, a flag between threads [REF]   ref_get / ref_put, acq_rel on the last put
 *   [LEASE] lease_owner_set (under the table's lock) -> lease_owner_see: rows are read only by who sees itself
 *   [LINK]  link_set, link_lose -> link_see: who owns a data connection of the RDMA transport, link thread or lane
 *   [HINT]  hint_set under a lock -> hint_read without: only where to prefetch, never what to believe
 */
#ifndef PRIV_ORDER_H
#define PRIV_ORDER_H

#include <stdbool.h>
#include <stdint.h>

/* [SQ] [SQC] [CQ] [CQC] [USAGE] */
static inline void index_publish(uint32_t *word, uint32_t v)
{
  __atomic_store_n(word, v, __ATOMIC_RELEASE);
}
static inline uint32_t index_see(const uint32_t *word)
{
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* [BELL] the sleeper's side */
/* What was written before it (wake_at) is seen by who sees the flag. */
static inline void flag_raise(uint32_t *word, uint32_t v)
{
  __atomic_store_n(word, v, __ATOMIC_RELEASE);
}
static inline void sleep_fence(void)
{
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
/* [BELL] the waker's side */
static inline void wake_fence(void)
{
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
static inline uint32_t flag_read(const uint32_t *word)
{
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* [STATE] */
static inline void state_publish(uint32_t *word, uint32_t v)
{
  __atomic_store_n(word, v, __ATOMIC_RELEASE);
}
static inline uint32_t state_see(const uint32_t *word)
{
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* [KNOWN] */
static inline void word_publish(uint64_t *word, uint64_t v)
{
  __atomic_store_n(word, v, __ATOMIC_RELEASE);
}
static inline uint64_t word_see(const uint64_t *word)
{
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* [STAT] a counter with one writing thread */
static inline void stat_add(uint64_t *c, uint64_t n)
{
  __atomic_store_n(c, __atomic_load_n(c, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}
static inline void stat_set(uint64_t *c, uint64_t v)
{
  __atomic_store_n(c, v, __ATOMIC_RELAXED);
}
static inline uint64_t stat_read(const uint64_t *c)
{
  return __atomic_load_n(c, __ATOMIC_RELAXED);
}
/* [STAT] a counter with several writing threads */
static inline uint64_t stat_add_shared(uint64_t *c, uint64_t n)
{
  return __atomic_add_fetch(c, n, __ATOMIC_RELAXED);
}
static inline uint64_t stat_sub_shared(uint64_t *c, uint64_t n)
{
  return __atomic_sub_fetch(c, n, __ATOMIC_RELAXED);
}

/* [STOP] */
static inline void stop_raise(uint32_t *f)
{
  __atomic_store_n(f, 1, __ATOMIC_RELEASE);
}
static inline bool stop_see(const uint32_t *f)
{
  return __atomic_load_n(f, __ATOMIC_ACQUIRE) != 0;
}

/* [REF] */
static inline void ref_get(uint32_t *r)
{
  __atomic_add_fetch(r, 1, __ATOMIC_RELAXED);
}
/* true when this was the last reference */
static inline bool ref_put(uint32_t *r)
{
  return __atomic_sub_fetch(r, 1, __ATOMIC_ACQ_REL) == 0;
}
static inline uint32_t ref_read(const uint32_t *r)
{
  return __atomic_load_n(r, __ATOMIC_ACQUIRE);
}

/* [LEASE] */
static inline void lease_owner_set(uint32_t *word, uint32_t v)
{
  __atomic_store_n(word, v, __ATOMIC_RELEASE);
}
static inline uint32_t lease_owner_see(const uint32_t *word)
{
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* [LINK] what was written before belongs to who sees the new state */
static inline void link_set(uint32_t *word, uint32_t v)
{
  __atomic_store_n(word, v, __ATOMIC_RELEASE);
}
static inline uint32_t link_see(const uint32_t *word)
{
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}
/* From one state to another, unless the other side was faster. */
static inline bool link_lose(uint32_t *word, uint32_t from, uint32_t to)
{
  return __atomic_compare_exchange_n(word, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* [HINT] */
static inline void hint_set(uint32_t *word, uint32_t v)
{
  __atomic_store_n(word, v, __ATOMIC_RELAXED);
}
static inline uint32_t hint_read(const uint32_t *word)
{
  return __atomic_load_n(word, __ATOMIC_RELAXED);
}
static inline void hint_set16(uint16_t *word, uint16_t v)
{
  __atomic_store_n(word, v, __ATOMIC_RELAXED);
}
static inline uint16_t hint_read16(const uint16_t *word)
{
  return __atomic_load_n(word, __ATOMIC_RELAXED);
}
/* Four 16-bit words at once; aligned to 8. */
static inline uint64_t hint_read64(const uint16_t *words)
{
  typedef uint64_t __attribute__((may_alias)) quad;
  return __atomic_load_n((const quad *)(const void *)words, __ATOMIC_RELAXED);
}

/* The compiler must not read a peer's memory a second time through this pointer (copy once). */
static inline void copied_once(void)
{
  __asm__ volatile("" ::: "memory");
}
/* Non-temporal stores before this are visible before what follows. */
static inline void stream_fence(void)
{
#if defined(__x86_64__)
  __asm__ volatile("sfence" ::: "memory");
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}
/* Loads after it see memory as it is after the lines before it were forgotten: an sfence does not order loads. */
static inline void flush_fence(void)
{
#if defined(__x86_64__)
  __asm__ volatile("mfence" ::: "memory");
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}
static inline void spin_relax(void)
{
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield" ::: "memory");
#endif
}
#endif
