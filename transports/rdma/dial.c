/* SPDX-License-Identifier: Apache-2.0 */
/* One connection of ours: address, route, queue pair, connect. Each step is answered by an event; none is waited for.
 */
#include <string.h>

#include "transports/rdma/rdma_internal.h"

#define ACK_TIMEOUT 16u /* 4.096 us << 16: a quarter of a second */
#define RETRIES 6u      /* 7 is without end on soft RoCE: a connection over a dead path would never be found dead */

int dial_begin(struct rdma_dev *d, struct rdma_event_channel *ch, struct dial *l, uint64_t now_ns)
{
  struct address_path *p = &d->path[l->path];
  if (rdma_create_id(ch, &l->id, l, RDMA_PS_TCP)) {
    l->id = NULL;
    return -errno;
  }
  uint8_t ack = ACK_TIMEOUT;
  rdma_set_option(l->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &ack, sizeof ack);
  if (rdma_resolve_addr(l->id, p->has_src ? (struct sockaddr *)&p->src : NULL, (struct sockaddr *)&p->dst,
                        RDMA_DIAL_MS / 2)) {
    int rc = -errno;
    dial_end(l, NULL);
    return rc;
  }
  l->step = STEP_ADDRESS;
  l->until_ns = now_ns + RDMA_DIAL_MS * 1000000ull;
  return 0;
}

void dial_end(struct dial *l, struct pipe *control)
{
  if (control && control->id) {
    pipe_close(control); /* with the id */
    l->id = NULL;
  }
  if (l->id) {
    if (l->qp)
      rdma_destroy_qp(l->id);
    rdma_destroy_id(l->id);
  }
  l->id = NULL;
  l->qp = NULL;
  l->step = STEP_IDLE;
}

static int data_qp(struct rdma_dev *d, struct dial *l)
{
  int dev = l->id->verbs ? verbs_index(&d->verbs, l->id->verbs) : -1;
  if (dev < 0)
    return -ENODEV;
  struct ibv_cq *cq = d->lane[l->lane].cq[dev].cq;
  uint32_t room = d->lane[l->lane].path[l->path].room;
  uint32_t sges = d->lane[l->lane].sges;
  struct ibv_qp_init_attr a = {.send_cq = cq,
                               .recv_cq = cq,
                               .cap = {.max_send_wr = room, .max_recv_wr = 1, .max_send_sge = sges, .max_recv_sge = 1},
                               .qp_type = IBV_QPT_RC,
                               .sq_sig_all = 1};
  if (rdma_create_qp(l->id, d->verbs.dev[dev].pd, &a))
    return -errno;
  l->qp = l->id->qp;
  l->local_dev = (uint8_t)dev;
  return 0;
}

static int addressed(struct rdma_dev *d, struct dial *l, struct pipe *control)
{
  struct err e = {{0}};
  int rc = control ? pipe_open(control, &d->verbs, l->id, &e) : data_qp(d, l);
  if (!rc && rdma_resolve_route(l->id, RDMA_DIAL_MS / 2))
    rc = -errno;
  l->step = STEP_ROUTE;
  return rc;
}

static int routed(struct rdma_dev *d, struct dial *l, const struct wire_join *join)
{
  int dev = verbs_index(&d->verbs, l->id->verbs);
  uint8_t most = dev < 0 ? 1 : d->verbs.dev[dev].max_read;
  struct rdma_conn_param p = {.private_data = join,
                              .private_data_len = sizeof *join,
                              .responder_resources = 0,
                              .initiator_depth = most,
                              .retry_count = RETRIES,
                              .rnr_retry_count = 7};
  l->step = STEP_CONNECT;
  return rdma_connect(l->id, &p) ? -errno : 0;
}

int dial_event(struct rdma_dev *d, struct dial *l, const struct rdma_cm_event *ev, struct pipe *control,
               const struct wire_join *join)
{
  switch (ev->event) {
  case RDMA_CM_EVENT_ADDR_RESOLVED:
    return l->step == STEP_ADDRESS ? addressed(d, l, control) : -EPROTO;
  case RDMA_CM_EVENT_ROUTE_RESOLVED:
    return l->step == STEP_ROUTE ? routed(d, l, join) : -EPROTO;
  case RDMA_CM_EVENT_ESTABLISHED: {
    struct wire_joined j;
    if (l->step != STEP_CONNECT || wire_joined_check(ev->param.conn.private_data, ev->param.conn.private_data_len))
      return -EPROTO;
    memcpy(&j, ev->param.conn.private_data, sizeof j);
    l->remote_dev = j.dev;
    l->step = STEP_OPEN;
    return 1;
  }
  case RDMA_CM_EVENT_TIMEWAIT_EXIT:
    return 0;
  default:
    return ev->status < 0 ? ev->status : -ECONNRESET;
  }
}
