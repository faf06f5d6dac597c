/* SPDX-License-Identifier: Apache-2.0 */
/* What config.c and config_file.c share. */
#ifndef MOVER_CONFIG_FILE_H
#define MOVER_CONFIG_FILE_H

#include "mover/config.h"

/* A copy that lives as long as the config, or NULL. */
const char *config_own(struct config *c, const char *text);
int config_add_tenant(struct config *c, const char *name, const char *token, const char *socket, int64_t uid,
                      struct err *e);
int config_set_tier(struct config *c, struct config_tier *t, const char *key, const char *value, struct err *e);
/* The lines, from 1 on, on which the first n items of a top-level list begin; what cannot be told stays as it is. */
void config_lines(const char *path, const char *section, uint32_t *ret_line, uint32_t n);
/* usage.<key>: path line keep max. */
int config_set_usage(struct config *c, const char *key, const char *value, struct err *e);
int config_usage_check(const struct config *c, struct err *e);
#endif
