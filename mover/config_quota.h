/* SPDX-License-Identifier: Apache-2.0 */
/* The sections quotas, rates and rules of the file: text in, struct quota_plan out. */
#ifndef MOVER_CONFIG_QUOTA_H
#define MOVER_CONFIG_QUOTA_H

#include <cyaml/cyaml.h>

#include "mover/config.h"

struct file_quota {
  char *tenant, *tier, *reserve, *limit, *weight, *over, *unit;
};
struct file_rate {
  char *tenant, *bytes, *burst, *directives, *over;
};
struct file_rule {
  char *name, *tier, *when, *until, *klass, *what, *rate, *back, *of;
};
extern const cyaml_schema_value_t config_quota_schema, config_rate_schema, config_rule_schema;

int config_add_quota(struct config *c, const struct file_quota *f, struct err *e);
int config_add_rate(struct config *c, const struct file_rate *f, struct err *e);
int config_add_rule(struct config *c, const struct file_rule *f, struct err *e);
#endif
