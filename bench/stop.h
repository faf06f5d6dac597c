/* SPDX-License-Identifier: Apache-2.0 */
/* ^C ends a run between two rounds, so that what was measured is shown and what was made is removed. */
#ifndef BENCH_STOP_H
#define BENCH_STOP_H

#include <stdbool.h>

/* From here on SIGINT, SIGTERM and SIGHUP wait (are blocked) for stop_asked(). */
void stop_hold(void);
/* Has one of them come? A long loop asks once a round. Does not block. */
bool stop_asked(void);
/* In a child, before exec: signals as usual, and a process group of its own, so that ^C reaches the parent only; it
   dies with the parent. */
void stop_child(void);
#endif
