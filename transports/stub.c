/* SPDX-License-Identifier: Apache-2.0 */
#include "transports/stub.h"

int stub_start(struct dev *d, struct err *e)
{
  (void)d, (void)e;
  return 0;
}
int stub_prepare(struct dev *d, struct err *e)
{
  (void)d, (void)e;
  return 0;
}
void stub_stop(struct dev *d)
{
  (void)d;
}
int stub_quiesce(struct dev *d, uint32_t deadline_ms)
{
  (void)d, (void)deadline_ms;
  return 0;
}
int stub_open(const struct dev_config *cfg, struct err *e, struct dev **ret_dev)
{
  (void)ret_dev;
  return err_set(e, -ENOTSUP, "pool %s: this transport cannot be opened", cfg->name);
}
void stub_close(struct dev *d)
{
  (void)d;
}
int stub_slab_add(struct dev *d, uint64_t bytes, struct err *e, struct slab_mem *ret_mem)
{
  (void)d, (void)bytes, (void)ret_mem;
  return err_set(e, -ENOTSUP, "this transport has no slabs");
}
void stub_slab_del(struct dev *d, struct slab_mem *mem, bool lent)
{
  (void)d, (void)mem, (void)lent;
}
int stub_index_slab(struct dev *d, const struct slab_mem *mem, uint64_t slot_bytes, uint32_t slots, const char *tenant,
                    const char *agent, uint8_t scope)
{
  (void)d, (void)mem, (void)slot_bytes, (void)slots, (void)tenant, (void)agent, (void)scope;
  return -ENOTSUP;
}
int stub_index_put(struct dev *d, const struct slab_mem *mem, uint32_t slot, const struct index_entry *e)
{
  (void)d, (void)mem, (void)slot, (void)e;
  return -ENOTSUP;
}
void stub_index_del(struct dev *d, const struct slab_mem *mem, uint32_t slot)
{
  (void)d, (void)mem, (void)slot;
}
void stub_index_expect(struct dev *d, const struct slab_mem *mem, uint32_t slot)
{
  (void)d, (void)mem, (void)slot;
}
int stub_index_scan(struct dev *d, const struct index_visitor *v, uint64_t *ret_skipped)
{
  (void)d, (void)v, (void)ret_skipped;
  return -ENOTSUP;
}

int stub_index_bad(struct dev *d, uint64_t dev_off, uint64_t len, bool proven)
{
  (void)d, (void)dev_off, (void)len, (void)proven;
  return -ENOTSUP;
}
int stub_index_met(struct dev *d, uintptr_t addr, uint64_t unit)
{
  (void)d, (void)addr, (void)unit;
  return 0;
}
int stub_detach(struct dev *d)
{
  (void)d;
  return -ENOTSUP;
}

int stub_paths(struct dev *d, struct dev_paths *ret_paths)
{
  (void)d, (void)ret_paths;
  return -ENOTSUP;
}

int stub_memory_add(struct dev *d, void *base, uint64_t bytes)
{
  (void)d, (void)base, (void)bytes;
  return 0;
}
void stub_memory_del(struct dev *d, void *base)
{
  (void)d, (void)base;
}
void stub_doze(struct dev *d, uint32_t lane)
{
  (void)d, (void)lane;
}

static int dummy_submit(struct dev *d, uint32_t lane, const struct xfer *x)
{
  (void)d, (void)lane, (void)x;
  return -ESHUTDOWN;
}
static void dummy_flush(struct dev *d, uint32_t lane)
{
  (void)d, (void)lane;
}
static uint32_t dummy_poll(struct dev *d, uint32_t lane, struct xfer_done *done, uint32_t n)
{
  (void)d, (void)lane, (void)done, (void)n;
  return 0;
}
static int dummy_poll_fd(struct dev *d, uint32_t lane)
{
  (void)d, (void)lane;
  return -1;
}
static uint32_t dummy_in_flight(struct dev *d, uint32_t lane)
{
  (void)d, (void)lane;
  return 0;
}

const struct transport_hot hot_dummy = {
    .size = sizeof(struct transport_hot),
    .submit = dummy_submit,
    .flush = dummy_flush,
    .poll = dummy_poll,
    .poll_fd = dummy_poll_fd,
    .doze = stub_doze,
    .in_flight = dummy_in_flight,
};
