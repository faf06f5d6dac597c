/* SPDX-License-Identifier: Apache-2.0 */
/* From a system call's errno to the words of a done record. */
#ifndef TRANSPORTS_FILE_STATUS_H
#define TRANSPORTS_FILE_STATUS_H

#include <stdint.h>

#include "transports/xfer.h"

struct dev_caps;

/* Why an I/O with this errno (positive) failed: enum dray_reason. */
uint16_t status_reason(int err);

/* A failed end; err positive, reason from status_reason. */
struct xfer_done status_failed(uint64_t cookie, uint8_t path, int err, uint64_t bytes);
/* The device moved less than asked and nothing more is to be had. */
struct xfer_done status_short(uint64_t cookie, uint8_t path, uint64_t bytes);
struct xfer_done status_ok(uint64_t cookie, uint8_t path, uint64_t bytes);

/* Adds to caps.note, "; " between. */
__attribute__((format(printf, 2, 3))) void status_note(struct dev_caps *caps, const char *fmt, ...);
#endif
