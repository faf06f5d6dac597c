/* SPDX-License-Identifier: Apache-2.0 */
/* New connections: who they are, which tenant, and their HELLO. Control thread. */
#ifndef MOVER_LISTENER_H
#define MOVER_LISTENER_H

#include <stdint.h>

#include "include/priv/list.h"

struct daemon;

/* Accepted, no HELLO yet. */
struct caller {
  struct list link;
  int sock;
  int32_t tenant; /* index into the configuration when its socket says so, else -1 */
  uint64_t until_ms;
};

/* Accepts what waits on listening socket i. */
void listener_accept(struct daemon *d, uint32_t i);
/* Its HELLO is there (or it hung up): makes the session or refuses; the caller is gone afterwards. */
void listener_hello(struct daemon *d, struct caller *c);
/* Drops callers that said nothing in time. */
void listener_expire(struct daemon *d, uint64_t now_ms);
#endif
