/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The small process above the worker. It makes and holds every fd worth keeping (U, M, regions, slabs, arenas,
 * listening sockets, opened devices with their io_urings), forks the worker, and replaces a dead one after its devices
 * have come to rest: reads submitted by a killed process land for hundreds of ms otherwise.
 */
#ifndef MOVER_KEEPER_H
#define MOVER_KEEPER_H

#include <stdint.h>

#include <dray/ring_abi.h>

#include "mover/config.h"
#include "mover/log.h"

struct daemon;

enum keep_kind { KEEP_SLAB = 1, KEEP_REGION = 2, KEEP_SESSION = 3 };

/* The keeper process: does not return before the mover is done. Exit code. */
int keeper_run(const struct config *cfg, const struct log *log);

/* ---- the worker's calls over the channel ---- */
/* U and M of a new session, made and held by the keeper. 0 or -errno; the fds are the caller's. */
int keeper_session(struct daemon *d, uint32_t session, const struct dray_geometry *geo, int *ret_u, int *ret_m);
/* The keeper holds a duplicate of fd under (kind, id) until dropped. Failure is logged: the fd then dies with the
 * worker. */
void keeper_hold(struct daemon *d, unsigned kind, uint32_t id, int fd);
void keeper_drop(struct daemon *d, unsigned kind, uint32_t id);
/* The keeper remembers that this tier is being drained, until it is detached: for the next worker. */
void keeper_drains(struct daemon *d, uint32_t tier);
/* The keeper lets go of a tier's device, too (id: its number). 0 or -errno. */
int keeper_detach(struct daemon *d, uint32_t tier);
struct quota_plan;
/* The keeper reads the file again, which the confined worker may not; ret_diff (may be NULL): how all else differs. 0,
 * or -errno with a text. */
struct config_diff;
int keeper_read(struct daemon *d, struct quota_plan *ret_plan, struct config_diff *ret_diff, struct err *e);
/* What was read last stands: the keeper keeps it for the next worker. */
void keeper_stands(struct daemon *d);
/* The worker serves. */
void keeper_ready(struct daemon *d);
#endif
