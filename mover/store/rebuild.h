/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory of what a persistent pool holds, made again from its index at start. The index is not trusted: an
 * entry that does not fit its slab, names a slot twice, or is older than another of the same key is skipped, counted
 * and, where it is the device's own slab, removed.
 */
#ifndef MOVER_STORE_REBUILD_H
#define MOVER_STORE_REBUILD_H

#include "mover/store/inside.h"

/* The store is not shared yet. Adds to s->found and s->skipped. */
int rebuild_pool(struct store *s, struct pool *p, struct err *e);
/* After the last pool: slabs in which nothing was found are kept, one per class, or destroyed. */
void rebuild_end(struct store *s);
#endif
