/* SPDX-License-Identifier: Apache-2.0 */
/* One memfd of the keeper, mapped whole and sparse. A new store starts from zeroes. */
#ifndef MOVER_STORE_ARENA_H
#define MOVER_STORE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/priv/err.h"

struct arena {
  void *base;
  size_t bytes;
};

/* Grows the file to bytes where it is smaller, forgets what is in it, maps it. dense: what is used lies together, so
   huge pages pay. 0 or -errno. */
int arena_map(struct arena *a, int fd, uint64_t bytes, bool dense, const char *name, struct err *e);
/* The same, but what is in the file stays. */
int arena_map_kept(struct arena *a, int fd, uint64_t bytes, const char *name, struct err *e);
/* Fine on a zeroed arena. */
void arena_unmap(struct arena *a);
#endif
