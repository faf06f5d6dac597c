/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs about quotas, and what `status` says of them. */
#ifndef MOVER_ADMIN_QUOTA_H
#define MOVER_ADMIN_QUOTA_H

#include <jansson.h>

struct daemon;

json_t *admin_tenants(struct daemon *d, json_t *q);
json_t *admin_reload(struct daemon *d, json_t *q);
/* Would a reload be taken, and what would it change? Changes nothing. */
json_t *admin_check(struct daemon *d, json_t *q);
/* rules, and how the last reload went, into o. */
void admin_rules(struct daemon *d, json_t *o);
#endif
