/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file admin.h
 * The operator's door: one JSON request, one JSON answer, over the mover's admin socket (mode 0600: its owner and
 * root).
 *
 * Request: {"verb": "status", ...}; answer: {"schema_version": 1, "ok": true, ...} or {"ok": false, "error": "...",
 * "reason": "..."}.
 *
 * | verb | arguments | answer |
 * |---|---|---|
 * | status | | version, epoch, uptime, lanes, sessions, counters by op, reason, path, tier; peers, served: docs/RDMA.md
 * | | tiers | | per pool: tier, transport, capacity, used, cells, attendable, emulated, note, profile; peers, served |
 * | cells | tenant, tier, limit, cursor | cells: key, tenant, agent, bytes, scope, taint, state, tiers |
 * | sessions | | sessions: id, tenant, agent, pid, uid, lane, done, bytes, regions, leases |
 * | config | | what the mover runs |
 * | drain | tier | begins to empty it, or says how far that is: state (draining, drained, failed), moved, dropped,
 * slabs |
 * | revoke | tenant, key (32 hex digits) | QUARANTINED for everybody, leases asked back: grace_ms |
 * | audit | | recounts the store's books; exact only while nothing moves |
 */
#ifndef DRAY_ADMIN_H
#define DRAY_ADMIN_H

#include <dray/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DRAY_ADMIN_DEFAULT "/run/dray/admin.sock"
/** Longest answer; longer lists come in pages (cursor). */
#define DRAY_ADMIN_ANSWER_MAX (4u << 20)

/**
 * Sends request (JSON text) and returns the answer's text in *ret_answer, which the caller frees with free().
 * socket NULL: $DRAY_ADMIN, then DRAY_ADMIN_DEFAULT. Blocks at most timeout_ms.
 * @return 0; -ENOENT, -ECONNREFUSED: no mover; -EACCES: not its owner; -ETIMEDOUT; -EMSGSIZE; -ENOMEM.
 */
DRAY_API int dray_admin_call(const char *socket, const char *request, int timeout_ms, char **ret_answer);

#ifdef __cplusplus
}
#endif
#endif
