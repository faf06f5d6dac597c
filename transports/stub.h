/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A function for every op that a transport does not have: the core never tests for NULL. And the hot table
 * of a device that is not started, which answers -ESHUTDOWN, a code no live transport gives.
 */
#ifndef TRANSPORTS_STUB_H
#define TRANSPORTS_STUB_H

#include "transports/transport.h"

int stub_start(struct dev *d, struct err *e);   /* 0: nothing to start */
int stub_prepare(struct dev *d, struct err *e); /* 0 */
void stub_stop(struct dev *d);
int stub_quiesce(struct dev *d, uint32_t deadline_ms); /* 0: nothing can land */

/* -ENOTSUP */
int stub_open(const struct dev_config *cfg, struct err *e, struct dev **ret_dev);
void stub_close(struct dev *d);
int stub_slab_add(struct dev *d, uint64_t bytes, struct err *e, struct slab_mem *ret_mem);
void stub_slab_del(struct dev *d, struct slab_mem *mem, bool lent);
int stub_index_slab(struct dev *d, const struct slab_mem *mem, uint64_t slot_bytes, uint32_t slots, const char *tenant,
                    const char *agent, uint8_t scope);
int stub_index_put(struct dev *d, const struct slab_mem *mem, uint32_t slot, const struct index_entry *e);
void stub_index_del(struct dev *d, const struct slab_mem *mem, uint32_t slot);
void stub_index_expect(struct dev *d, const struct slab_mem *mem, uint32_t slot);
int stub_index_scan(struct dev *d, const struct index_visitor *v, uint64_t *ret_skipped);
int stub_index_bad(struct dev *d, uint64_t dev_off, uint64_t len, bool proven);
int stub_index_met(struct dev *d, uintptr_t addr, uint64_t unit);
int stub_detach(struct dev *d);
int stub_paths(struct dev *d, struct dev_paths *ret_paths);

/* For transports that copy, or have bounce memory in any case. */
int stub_memory_add(struct dev *d, void *base, uint64_t bytes); /* 0 */
void stub_memory_del(struct dev *d, void *base);
/* For those whose poll_fd tells always. */
void stub_doze(struct dev *d, uint32_t lane);

/* Before start and after stop. */
extern const struct transport_hot hot_dummy;
#endif
