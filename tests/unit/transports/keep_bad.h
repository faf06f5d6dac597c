/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a stand-in of which a place is known to be bad, as badblocks say it of a real device. */
#ifndef TESTS_UNIT_KEEP_BAD_H
#define TESTS_UNIT_KEEP_BAD_H

#include <stdbool.h>
#include <stdint.h>

#include "transports/transport.h"

/* What cxl_keep_open() says; the device is let go of again. bad_off UINT64_MAX: nothing is known to be bad. real: no
   stand-in, so that it is wiped by stores. */
int keep_bad_open(const struct dev_config *cfg, uint64_t bytes, uint64_t unit, uint64_t bad_off, bool real,
                  struct err *e, struct dev_caps *ret_caps, bool *ret_keeps);
/* Bit i: the i-th guarded access from now on meets poison, and only it does, as on devdax. */
void keep_bad_next(uint32_t accesses);
#endif
