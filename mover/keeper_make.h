/* SPDX-License-Identifier: Apache-2.0 */
/* What the keeper makes for a worker before the fork: listening sockets, once; arenas, for each worker anew. */
#ifndef MOVER_KEEPER_MAKE_H
#define MOVER_KEEPER_MAKE_H

#include "mover/daemon.h"

/* The common socket, each tenant's own, and the operator's. A socket on which somebody answers is another mover's:
   -EADDRINUSE; one that a dead mover left behind is replaced. What was bound is in seed (listen_n, admin_fd) also on
   failure. */
int keeper_listen(const struct config *cfg, struct worker_seed *seed, struct err *e);
/* Fresh memfds: the sessions of the last worker are over, so nothing in the old ones is anybody's. */
int keeper_arenas(const struct config *cfg, struct worker_seed *seed, struct err *e);
#endif
