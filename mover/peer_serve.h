/* SPDX-License-Identifier: Apache-2.0 */
/* What peers ask of us, answered out of the store by our own gate. */
#ifndef MOVER_PEER_SERVE_H
#define MOVER_PEER_SERVE_H

#include <stdint.h>

#include "include/priv/err.h"

struct daemon;

int peer_serve_open(struct daemon *d, struct err *e);
int peer_serve_start(struct daemon *d, struct err *e);
void peer_serve_close(struct daemon *d);
void peer_serve_slab_gone(struct daemon *d, uint32_t slab);
#endif
