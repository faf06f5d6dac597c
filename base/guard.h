/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Survives SIGBUS on memory that may be poisoned, punched or unplugged.
 *
 * One permanent handler per process; each thread names the ranges it is about to touch. A SIGBUS that hits
 * one of them ends the guarded function and becomes a guard_hit; any other goes to whoever had the signal
 * before. Guarded code holds no lock, no allocation and no ring slot: it may end at any load or store.
 */
#ifndef BASE_GUARD_H
#define BASE_GUARD_H

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

#include "base/copy.h"

enum guard_kind {
  GUARD_POISON = 1, /* the memory is bad (BUS_MCEERR_AR, BUS_MCEERR_AO) */
  GUARD_LOST = 2,   /* there is no memory: punched, truncated, unplugged (BUS_ADRERR) */
};

struct guard_range {
  const void *base;
  uint64_t len;
};

/* Several ranges; the array is read by the handler, so it lives as long as the guard. */
struct guard_list {
  const struct guard_range *ranges;
  size_t n;
};

struct guard_hit {
  uintptr_t addr; /* what the kernel said; for poison the start of its unit */
  uint64_t good;  /* guard_copy: bytes before the hit that are in place; 0 from guard_run */
  uint64_t unit;  /* bytes that are lost with it (1 << si_addr_lsb; a page when the kernel does not say) */
  uint8_t kind;   /* enum guard_kind */
};
/* Poison that the kernel tells of before anybody touches it (BUS_MCEERR_AO). */
struct guard_early {
  uint64_t addr, unit;
};
/* Where guard_enter keeps what it needs; the caller's frame. */
struct guard_room {
  uint64_t word[48];
};

/* Bytes copied between two looks at how far it came. */
#define GUARD_PIECE ((size_t)256 << 10)

/* Makes the handler permanent; any thread, any number of times. 0 or -errno. Without it no guard holds. */
int guard_install(void);

/* copy_run() under a guard over both sides, in pieces of at most GUARD_PIECE. 0, ret_path is DRAY_PATH_CPU
   or DRAY_PATH_CPU_NT (CPU_NT when any piece was); -EFAULT, ret_hit says where. */
int guard_copy(const struct copy_plan *plan, void *dst, const void *src, size_t n, unsigned flags,
               struct guard_hit *ret_hit, uint8_t *ret_path);

/* CRC32C of n bytes under a guard. 0; -EFAULT, ret_hit says where. */
int guard_crc(const void *p, size_t n, uint32_t *ret_crc, struct guard_hit *ret_hit);

/* A guard over code that is no function of its own: the caller does sigsetjmp(*back, 0) first, then guard_enter; a hit
   comes back there, and guard_left() tells of it. Otherwise guard_leave() ends it, in the order of nesting. */
void guard_enter(struct guard_room *room, const void *base, uint64_t len, sigjmp_buf *back);
void guard_leave(struct guard_room *room);
void guard_left(struct guard_room *room, struct guard_hit *ret_hit);

/* From here on early news outside every guard is written to fd (a pipe, struct guard_early each, never blocking)
   instead of being passed on; -1 ends that. Only threads with PR_MCE_KILL_EARLY get such news. */
void guard_early_fd(int fd);

/* Calls fn(ctx) with these ranges guarded. What fn returns, or -EFAULT and ret_hit. fn may be left in the middle. */
int guard_run(int (*fn)(void *ctx), void *ctx, const struct guard_range *ranges, size_t n, struct guard_hit *ret_hit);
/* The same with several lists, so that one guard covers all pieces of both sides of a scattered copy: it costs once,
   however many there are. What fn proves of its progress it keeps in volatile fields of ctx. */
int guard_run_lists(int (*fn)(void *ctx), void *ctx, const struct guard_list *lists, size_t n,
                    struct guard_hit *ret_hit);
#endif
