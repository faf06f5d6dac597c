/* SPDX-License-Identifier: Apache-2.0 */
/* Expected against actual: what the file says now against what the mover was started with, and against the kernel. */
#ifndef MOVER_CONFIG_DIFF_H
#define MOVER_CONFIG_DIFF_H

#include <stdint.h>

#include "mover/config.h"

/* Lines with a newline each. "~ ...": the file has changed since the start, a restart takes it; "! ...": the file
   expects what this machine does not show; "? ...": it shows what no tier uses, which is no difference and not in n.
   Quotas, rates and rules are not here: they are compared where they stand. Plain bytes: it travels. */
struct config_diff {
  uint32_t n;
  uint32_t used; /* of text, without its 0 */
  char text[16376];
};

/* Adds what differs between the file as it was read at the start and as it is now. Never tokens. */
void config_diff_file(const struct config *was, const struct config *now, struct config_diff *d);
/* Adds what the file expects and what the kernel shows. root: "" (tests: a directory in its place). */
void config_diff_kernel(const struct config *c, const char *root, struct config_diff *d);
#endif
