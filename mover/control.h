/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine says on its socket after HELLO: regions, layouts, keys. Control thread, but for the one call below. */
#ifndef MOVER_CONTROL_H
#define MOVER_CONTROL_H

#include <stdint.h>

struct daemon;
struct session;

/* Reads one message and acts on it. 0, or -errno: the session must end (-EPROTO: with a protocol error). */
int control_message(struct daemon *d, struct session *s);
/* Lane: nothing uses the region slot any more; it is unmapped and the unregister of that seq is answered. */
void control_region_idle(struct daemon *d, struct session *s, uint32_t slot, uint32_t seq);
/* The same, in the control thread. */
void control_region_unmap(struct daemon *d, struct session *s, uint32_t slot, uint32_t seq);
/* Answers a request. */
void control_reply(struct session *s, uint32_t seq, int error, unsigned reason, uint64_t need, uint64_t have,
                   uint32_t id);
#endif
