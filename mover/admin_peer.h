/* SPDX-License-Identifier: Apache-2.0 */
/* What the operator is told of other nodes: those we ask, and those that ask us. */
#ifndef MOVER_ADMIN_PEER_H
#define MOVER_ADMIN_PEER_H

#include <jansson.h>

struct daemon;
struct dev_paths;

/* "up", "degraded" (not all paths), "trying", "down". */
const char *admin_peer_state(const struct dev_paths *p);
/* "peers": a row for each peer of each tier; and "served": those who are answered, null when nobody may ask. Into o. */
void admin_peers(struct daemon *d, json_t *o);
/* Who is configured, and where. */
json_t *admin_peer_config(const struct daemon *d);
#endif
