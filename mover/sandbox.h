/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the mover takes from itself before it serves anybody, so that an engine that got the better of it has little to
 * use. Three steps, each only ever narrower: the process (keeper and worker), the worker's files, a lane's system
 * calls.
 */
#ifndef MOVER_SANDBOX_H
#define MOVER_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>

#include "mover/config.h"

/* Keeper, before anything is opened: no new privileges, and nothing of it is another's to read through /proc (not
   dumpable; root and CAP_SYS_PTRACE still may). 0 or -errno. */
int sandbox_process(void);

/* Worker, before it starts a thread: files are those of the tiers (to write), its own /proc entries, the calibration
   and what the C library reads; no exec, no debugging of others, no mounts, no namespaces, no kernel modules. What this
   kernel cannot do is named in `missing` ("" when it can all); it is for the log, not an error. 0 or -errno. */
int sandbox_worker(const struct config *cfg, char *missing, size_t size);

/* Lane thread, once it is set up: only the system calls that moving bytes takes, none that makes memory executable;
   any other kills the worker, and the keeper says so. 0 or -errno; -ENOTSUP in an instrumented build (sanitizers and
   coverage make calls of their own). faulty: a tier has a fault script, which
   poisons memory and waits by timers. verbs: a tier is a peer's; then ioctl with verbs' one request is allowed. */
int sandbox_lane(bool faulty, bool verbs);
#endif
