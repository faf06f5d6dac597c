/* SPDX-License-Identifier: Apache-2.0 */
#include "transports/fabric.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef HAVE_RDMA
#include <infiniband/verbs.h>

static void look(struct ibv_device *dev, struct fabric_dev *f)
{
  struct ibv_device_attr a;
  struct ibv_port_attr p;
  *f = (struct fabric_dev){.active = false};
  snprintf(f->name, sizeof f->name, "%s", ibv_get_device_name(dev));
  struct ibv_context *ctx = ibv_open_device(dev);
  if (!ctx) {
    snprintf(f->state, sizeof f->state, "cannot be opened: %.12s", strerrorname_np(errno));
    return;
  }
  if (ibv_query_device(ctx, &a) == 0) {
    f->max_mr_size = a.max_mr_size;
    f->max_qp = (uint32_t)a.max_qp;
    f->max_qp_wr = (uint32_t)a.max_qp_wr;
    f->max_cqe = (uint32_t)a.max_cqe;
  }
  if (ibv_query_port(ctx, 1, &p) == 0) {
    f->active = p.state == IBV_PORT_ACTIVE;
    snprintf(f->state, sizeof f->state, "%s", ibv_port_state_str(p.state));
  }
  ibv_close_device(ctx);
}

int fabric_read(struct fabric *ret_fabric)
{
  struct fabric f = {.n = 0};
  int n = 0;
  struct ibv_device **list = ibv_get_device_list(&n);
  if (!list)
    return -errno;
  for (int i = 0; i < n && f.n < FABRIC_MAX; i++)
    look(list[i], &f.dev[f.n++]);
  ibv_free_device_list(list);
  f.connects = access("/dev/infiniband/rdma_cm", R_OK | W_OK) == 0;
  *ret_fabric = f;
  return 0;
}
#else
int fabric_read(struct fabric *ret_fabric)
{
  (void)ret_fabric;
  return -ENOTSUP;
}
#endif
