/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded: verbs devices say that their queues are as small as GUEST_MAX_WR and GUEST_MAX_CQE. */
#include <dlfcn.h>
#include <stdlib.h>

struct ibv_context;
struct ibv_device_attr; /* the head of it, as rdma-core's ABI has it */
struct attr_head {
  char fw_ver[64];
  unsigned long long node_guid, sys_image_guid, max_mr_size, page_size_cap;
  unsigned vendor_id, vendor_part_id, hw_ver;
  int max_qp, max_qp_wr;
  unsigned device_cap_flags;
  int max_sge, max_sge_rd, max_cq, max_cqe;
};

int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr);
int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
  int (*real)(struct ibv_context *, struct ibv_device_attr *);
  *(void **)&real = dlvsym(RTLD_NEXT, "ibv_query_device", "IBVERBS_1.1");
  int rc = real ? real(ctx, attr) : 38;
  struct attr_head *a = (struct attr_head *)(void *)attr;
  const char *wr = getenv("GUEST_MAX_WR"), *cqe = getenv("GUEST_MAX_CQE");
  if (rc == 0 && wr)
    a->max_qp_wr = atoi(wr);
  if (rc == 0 && cqe)
    a->max_cqe = atoi(cqe);
  return rc;
}
