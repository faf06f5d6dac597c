/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs about quotas, and what `status` says of them. */
#ifndef MOVER_ADMIN_QUOTA_H
#define MOVER_ADMIN_QUOTA_H

#include <jansson.h>
#include <stdint.h>

#include "include/priv/err.h"

struct daemon;

json_t *admin_tenants(struct daemon *d, json_t *q);
json_t *admin_reload(struct daemon *d, json_t *q);
/* Would a reload be taken, and what would it change? Changes nothing. */
json_t *admin_check(struct daemon *d, json_t *q);
/* Lines of how the file, what is in force and the kernel differ, into list. How many of them are differences. */
uint64_t admin_differs(struct daemon *d, json_t *list, struct err *e);
/* The number alone, at most half a minute old. Any thread. */
uint64_t admin_differs_lately(struct daemon *d);
/* rules, and how the last reload went, into o. */
void admin_rules(struct daemon *d, json_t *o);
#endif
