/* SPDX-License-Identifier: Apache-2.0 */
/* Settles how this mover copies, before the first device is opened. */
#ifndef MOVER_TUNE_H
#define MOVER_TUNE_H

#include "mover/config.h"
#include "mover/log.h"

/* The plan of the calibration, else a measurement (TUNE_BUDGET_MS at most) where the configuration allows it, else the
   built-in one; then the threshold of splitting, where it is left to us. One log line says which and what. */
#define TUNE_BUDGET_MS 150u
void tune_copy(struct config *c, const struct log *log);
#endif
