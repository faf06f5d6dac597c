/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a faulty device does, as text. Items apart by spaces; each kind but poison at most once:
 *
 *   seed=N             of all chances (default 1)
 *   fail=WORD:A/B      A of B xfers do nothing and fail; WORD: EIO ENOSPC ETIMEDOUT EREMOTEIO
 *   short=A/B          the xfer is cut: it fails with SHORT_IO and the bytes that are in place
 *   delay=A/B:N[ms]    its end is told N polls (or milliseconds) late
 *   reorder=A/B        its end is told after the next one's
 *   drop=A/B[:Nms]     its end is lost, and told at a deadline after all (2000ms)
 *   poison=SLAB:OFF[@N] the unit around byte OFF of the SLAB-th slab made (0: the first) is bad, once N xfers were
 *                      taken (@0, the default: from the start); up to 16 of these and the next. SLAB d: the directory
 *                      that a mapped device keeps, from its first byte on, once there is a slab
 *   poison=A/B[xN]     the place that A of B reads begin in goes bad under them; N: at most so many in all
 *   early=SLAB:OFF[@N] as poison=, and the thread that is at it is told as the kernel tells it early (BUS_MCEERR_AO)
 *   source=A/B[xN]     the memory that A of B writes are read from goes bad under them: an engine's own, most often
 *   unit=BYTES         how much is bad together (default 4096), a power of two, at least 4096
 *
 * Numbers are decimal; OFF and BYTES may end in K or M (binary). An empty script does nothing at all.
 */
#ifndef TRANSPORTS_FAULT_SCRIPT_H
#define TRANSPORTS_FAULT_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/priv/err.h"

#define SCRIPT_TEXT_MAX 1024u
#define SCRIPT_PLACES_MAX 16u

/* A of B; b 0: never. */
struct chance {
  uint32_t a, b;
};
struct script_place {
  uint32_t slab;
  uint64_t off, after;
  bool early, directory;
};
struct script {
  uint64_t seed;
  struct chance fail, cut, delay, reorder, drop, poison, source;
  int32_t fail_err;
  uint32_t delay_polls, delay_ms, drop_ms; /* of delay one is 0 */
  uint32_t poison_max, source_max;         /* 0: no limit */
  uint32_t places;
  struct script_place place[SCRIPT_PLACES_MAX];
  uint64_t unit;
};

/* 0, or -EINVAL and e says which item, what is wrong and what it may be. text need not end in 0. */
int script_parse(const char *text, size_t n, struct err *e, struct script *ret_script);
/* Does it hold back the ends of xfers. */
bool script_holds(const struct script *s);
#endif
