/* SPDX-License-Identifier: Apache-2.0 */
/* The device in memory of rdma_fake.c, for other fakes: empty, with their own queues. */
#ifndef TESTS_UNIT_TRANSPORTS_RDMA_FAKE_DEV_H
#define TESTS_UNIT_TRANSPORTS_RDMA_FAKE_DEV_H

#include <infiniband/verbs.h>

typedef int (*fake_post)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
typedef int (*fake_take)(struct ibv_cq *cq, int n, struct ibv_wc *wc);
struct ibv_context *fake_device(fake_post post, fake_take take);
void fake_device_close(void);
#endif
