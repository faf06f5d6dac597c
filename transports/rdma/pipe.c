/* SPDX-License-Identifier: Apache-2.0 */
#include "transports/rdma/pipe.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "include/priv/bits.h"

#define RECV_ID 0x100u

static int post_recv(struct pipe *p, uint32_t slot)
{
  struct ibv_sge sge = {.addr = (uintptr_t)p->buf + (uint64_t)(PIPE_SLOTS + slot) * WIRE_BYTES_MAX,
                        .length = WIRE_BYTES_MAX,
                        .lkey = p->mr->lkey};
  struct ibv_recv_wr wr = {.wr_id = RECV_ID | slot, .sg_list = &sge, .num_sge = 1}, *bad;
  return ibv_post_recv(p->id->qp, &wr, &bad) ? -EIO : 0;
}

static int pipe_queues(struct pipe *p, const struct verbs_dev *d)
{
  p->buf = aligned_alloc(PAGE_BYTES, align_up(2ull * PIPE_SLOTS * WIRE_BYTES_MAX, PAGE_BYTES));
  if (!p->buf)
    return -ENOMEM;
  memset(p->buf, 0, 2ull * PIPE_SLOTS * WIRE_BYTES_MAX);
  p->mr = ibv_reg_mr(d->talk, p->buf, 2ull * PIPE_SLOTS * WIRE_BYTES_MAX, IBV_ACCESS_LOCAL_WRITE);
  p->channel = p->mr ? ibv_create_comp_channel(d->ctx) : NULL;
  if (!p->channel || fcntl(p->channel->fd, F_SETFL, O_NONBLOCK) < 0)
    return -errno;
  p->cq = ibv_create_cq(d->ctx, 2 * PIPE_SLOTS, NULL, p->channel, 0);
  return !p->cq || ibv_req_notify_cq(p->cq, 0) ? -ENOMEM : 0;
}

int pipe_open(struct pipe *p, const struct verbs *v, struct rdma_cm_id *id, struct err *e)
{
  int at = id->verbs ? verbs_index(v, id->verbs) : -1;
  *p = (struct pipe){0};
  if (at < 0)
    return err_set(e, -ENODEV, "the address belongs to no verbs device that was open at start");
  const struct verbs_dev *d = &v->dev[at];
  int rc = pipe_queues(p, d);
  struct ibv_qp_init_attr a = {
      .send_cq = p->cq,
      .recv_cq = p->cq,
      .cap = {.max_send_wr = PIPE_SLOTS, .max_recv_wr = PIPE_SLOTS, .max_send_sge = 1, .max_recv_sge = 1},
      .qp_type = IBV_QPT_RC,
      .sq_sig_all = 1};
  if (!rc && rdma_create_qp(id, d->talk, &a))
    rc = -errno;
  if (!rc)
    p->id = id;
  for (uint32_t i = 0; !rc && i < PIPE_SLOTS; i++)
    rc = post_recv(p, i);
  if (rc) {
    if (p->id)
      rdma_destroy_qp(id);
    p->id = NULL;
    pipe_close(p);
    return err_set(e, rc, "%s: control queue pair: %s (locked memory? ulimit -l)", ibv_get_device_name(d->ctx->device),
                   strerror(-rc));
  }
  return 0;
}

void pipe_close(struct pipe *p)
{
  if (p->id) {
    rdma_destroy_qp(p->id);
    rdma_destroy_id(p->id);
  }
  if (p->cq) {
    ibv_ack_cq_events(p->cq, p->events);
    ibv_destroy_cq(p->cq);
  }
  if (p->channel)
    ibv_destroy_comp_channel(p->channel);
  if (p->mr)
    ibv_dereg_mr(p->mr);
  free(p->buf);
  *p = (struct pipe){0};
}

int pipe_send(struct pipe *p, const union wire_msg *m)
{
  uint32_t slot = 0;
  while (slot < PIPE_SLOTS && p->out & 1u << slot)
    slot++;
  if (slot == PIPE_SLOTS)
    return -EAGAIN;
  uint8_t *at = p->buf + (uint64_t)slot * WIRE_BYTES_MAX;
  memcpy(at, m, m->h.bytes);
  struct ibv_sge sge = {.addr = (uintptr_t)at, .length = m->h.bytes, .lkey = p->mr->lkey};
  struct ibv_send_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
  if (ibv_post_send(p->id->qp, &wr, &bad))
    return -EIO;
  p->out |= 1u << slot;
  return 0;
}

int pipe_recv(struct pipe *p, const void **ret_msg, uint32_t *ret_bytes, uint32_t *ret_slot)
{
  bool armed = false;
  for (;;) {
    struct ibv_wc wc;
    int n = ibv_poll_cq(p->cq, 1, &wc);
    if (n < 0 || (n && wc.status != IBV_WC_SUCCESS))
      return -EIO;
    if (n && wc.wr_id & RECV_ID) {
      *ret_slot = (uint32_t)wc.wr_id & (RECV_ID - 1);
      *ret_bytes = wc.byte_len;
      *ret_msg = p->buf + (uint64_t)(PIPE_SLOTS + *ret_slot) * WIRE_BYTES_MAX;
      return 1;
    }
    if (n) {
      p->out &= ~(1u << wc.wr_id);
      continue;
    }
    if (armed)
      return 0;
    /* take what the channel has to say, then arm, then look once more: nothing is slept over */
    struct ibv_cq *cq;
    void *ctx;
    while (ibv_get_cq_event(p->channel, &cq, &ctx) == 0)
      p->events++;
    if (ibv_req_notify_cq(p->cq, 0))
      return -EIO;
    armed = true;
  }
}

int pipe_done(struct pipe *p, uint32_t slot)
{
  return post_recv(p, slot);
}
