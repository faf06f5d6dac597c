/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the crossovers of a copy_plan on this machine. */
#ifndef BASE_COPY_MEASURE_H
#define BASE_COPY_MEASURE_H

#include "base/copy.h"

/* Measures for at most about budget_ns on the calling thread, with 16 MiB of its own: every method over blocks of 1 KiB
   to 256 KiB, cold (lines flushed from every cache) and hot. What was not reached in time stays as in
   copy_plan_default. 0; -ENOTSUP: this CPU has one way only, or no way to flush; -ENOMEM; -ETIME: not even the cold
   blocks were reached. ret_ns: what it took. */
int copy_measure(uint64_t budget_ns, struct copy_plan *ret_plan, uint64_t *ret_ns);
#endif
