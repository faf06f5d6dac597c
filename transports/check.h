/* SPDX-License-Identifier: Apache-2.0 */
/* What the core makes sure of once, so that no transport does. */
#ifndef TRANSPORTS_CHECK_H
#define TRANSPORTS_CHECK_H

#include "transports/transport.h"

/* 0; -EINVAL: not a well-formed xfer; -ERANGE: outside its slab; -ENOTSUP: this device does not do that op. */
int xfer_check(const struct dev *d, const struct xfer *x);
#endif
