/* SPDX-License-Identifier: Apache-2.0 */
/* A Prometheus of the drill's own, to see that the alert for a refusal fires where an operator would see it. */
#ifndef CLI_DRILL_ALERT_H
#define CLI_DRILL_ALERT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct drill_alert {
  pid_t pid; /* 0: none runs */
  uint16_t web;
  char dir[64];
  char why[160]; /* why there is none: said in the report, and no broken bound */
};

/* A port of 127.0.0.1 that is free now; 0: none. */
uint16_t drill_port(void);
/* Starts it on the mover's /metrics at that port, with the alert rules of the file; waits until it has scraped once. */
void drill_alert_open(struct drill_alert *a, uint16_t metrics, const char *rules);
/* Does the alert fire within so many ms? */
bool drill_alert_fires(struct drill_alert *a, const char *alert, unsigned ms);
void drill_alert_close(struct drill_alert *a);
#endif
