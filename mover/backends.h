/* SPDX-License-Identifier: Apache-2.0 */
/* The list of transports, and the configured tiers opened with them. */
#ifndef MOVER_BACKENDS_H
#define MOVER_BACKENDS_H

#include "mover/config.h"
#include "mover/log.h"
#include "mover/store/store.h"

/* Opens the devices of every configured tier (config_dev_tier(); keeper, before the fork). 0 or -errno with a text;
 * what was opened is closed again. */
int backends_open(const struct config *cfg, const struct log *log, struct dev *ret_dev[CONFIG_DEVS_MAX],
                  uint32_t *ret_n, struct err *e);
/* The store's configuration for these devices. */
void backends_store_config(const struct config *cfg, struct dev *const dev[CONFIG_DEVS_MAX], uint32_t n,
                           struct store_config *ret_sc);
/* For each of them: transports/transport.h, memory_add and memory_del. What one has no room to remember bounces. */
void backends_memory_add(struct dev *const *dev, uint32_t n, void *base, uint64_t bytes);
void backends_memory_del(struct dev *const *dev, uint32_t n, void *base);
#endif
