/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /metrics, /healthz and /readyz on the address `metrics:` of the configuration, off without one. A thread of its own
 * in the worker answers, with few connections, each for a few seconds: a scraper that hangs harms no engine.
 */
#ifndef MOVER_METRICS_H
#define MOVER_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/priv/err.h"

struct daemon;

#define METRICS_TENANTS 50u /* tenants with a label of their own, in the order in which they were first seen */

/* Can this build serve metrics at all? */
bool metrics_built(void);
/* "127.0.0.1:9469": an IPv4 address and a port. -EINVAL. */
int metrics_address(const char *text, uint32_t *ret_ip, uint16_t *ret_port);
/* 0 also when none are configured. */
int metrics_start(struct daemon *d, struct err *e);
void metrics_stop(struct daemon *d);
/* The text, by malloc, or NULL. open: OpenMetrics, else Prometheus' text format 0.0.4. Any thread. */
char *metrics_text(struct daemon *d, bool open, size_t *ret_n);
#endif
