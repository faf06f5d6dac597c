/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a stand-in of which a place is known to be bad, as badblocks say it of a real device. */
#ifndef TESTS_UNIT_KEEP_BAD_H
#define TESTS_UNIT_KEEP_BAD_H

#include <stdbool.h>
#include <stdint.h>

#include "transports/transport.h"

/* What cxl_keep_open() says; the device is let go of again. */
int keep_bad_open(const struct dev_config *cfg, uint64_t bytes, uint64_t unit, uint64_t bad_off, struct err *e,
                  struct dev_caps *ret_caps, bool *ret_keeps);
#endif
