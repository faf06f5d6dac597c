/* SPDX-License-Identifier: Apache-2.0 */
/* From a started job to a verdict, and from the verdict to an outcome at once or to a step. */
#ifndef MOVER_ADMIT_H
#define MOVER_ADMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/job.h"

/* Decides and carries out, or begins to. The job may be finished (and reused) when this returns. */
void admit_start(struct lane *l, struct session *s, struct job *j);
/* Starts the next item of a pending job (or its one step): bytes to charge, 0 when it cannot now. The job may be
 * finished after. */
int64_t admit_next(struct lane *l, struct session *s, struct job *j);
/* Stops a running job: items not begun end with job->stop, steps are stopped. The job may be finished after. */
void admit_stop(struct lane *l, struct session *s, struct job *j);
/* Its fence is done: goes on with the directive itself. */
void admit_resume(struct lane *l, struct session *s, struct job *j);
/* Ends one use of the region slot. */
void admit_region_put(struct lane *l, struct session *s, uint16_t slot);
#endif
