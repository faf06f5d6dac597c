/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/transports/rdma_fake_lane.h"

#include <dray/types.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "include/priv/order.h"
#include "tests/unit/transports/rdma_fake_dev.h"
#include "transports/rdma/link_internal.h"

#define PARTS 4u
#define CELL 4096u
#define REFUSED 4097u /* bytes of a transfer that no queue pair takes */

/* ---- what is posted stays out until it is told how it ended ---- */

static struct {
  struct ibv_context *ctx, *list[2];
  struct ibv_device_attr attr;
  struct ibv_pd pd;
  struct ibv_qp qp;
  struct ibv_wc out[PARTS], done[PARTS];
  uint32_t outs, dones, posts, largest;
  uint32_t refusals, small; /* attempts to post REFUSED; CELL */
} hw;

static int hw_post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
  uint64_t bytes = 0;
  int limit = wr->opcode == IBV_WR_RDMA_READ ? MAX_OF(hw.attr.max_sge_rd, 1) : hw.attr.max_sge;
  (void)qp;
  for (int i = 0; i < wr->num_sge; i++)
    bytes += wr->sg_list[i].length;
  hw.refusals += bytes == REFUSED;
  hw.small += bytes == CELL;
  if (wr->num_sge > limit || bytes == REFUSED || hw.outs == PARTS) {
    *bad = wr;
    return EINVAL;
  }
  hw.posts++;
  hw.largest = MAX_OF(hw.largest, (uint32_t)wr->num_sge);
  hw.out[hw.outs++] = (struct ibv_wc){.wr_id = wr->wr_id};
  return 0;
}

static int hw_take(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
  int k = 0;
  (void)cq;
  while (k < n && hw.dones)
    wc[k++] = hw.done[--hw.dones];
  return k;
}

static void hw_end(enum ibv_wc_status status)
{
  while (hw.outs) {
    hw.done[hw.dones] = hw.out[--hw.outs];
    hw.done[hw.dones++].status = status;
  }
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *a, int mask)
{
  (void)qp, (void)a, (void)mask;
  hw_end(IBV_WC_WR_FLUSH_ERR);
  return 0;
}
struct ibv_context **rdma_get_devices(int *n)
{
  *n = 1;
  return hw.list;
}
void rdma_free_devices(struct ibv_context **list)
{
  (void)list;
}
int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *a)
{
  (void)ctx;
  *a = hw.attr;
  return 0;
}
struct ibv_pd *ibv_alloc_pd(struct ibv_context *ctx)
{
  (void)ctx;
  return &hw.pd;
}
int ibv_dealloc_pd(struct ibv_pd *pd)
{
  (void)pd;
  return 0;
}

/* ---- a lane with one path ---- */

struct bench {
  struct rdma_dev *d;
  struct rdma_lane *l;
  struct link *k;
  struct lent *lent;
  struct dial dial;
  struct ibv_mr mr, *mrs;
  struct slab_mem slab;
  struct xfer_done done[8];
  uint32_t made;
};

static void bench_begin(struct bench *b, int sge, int sge_rd)
{
  struct err e = {{0}};
  memset(&hw, 0, sizeof hw);
  memset(b, 0, sizeof *b);
  hw.ctx = hw.list[0] = fake_device(hw_post, hw_take);
  hw.qp.context = hw.ctx;
  hw.attr = (struct ibv_device_attr){.max_mr_size = UINT64_MAX,
                                     .max_qp_wr = 64,
                                     .max_cqe = 64,
                                     .max_sge = sge,
                                     .max_sge_rd = sge_rd,
                                     .max_qp_rd_atom = 1,
                                     .max_qp_init_rd_atom = 1};
  b->d = calloc(1, sizeof *b->d);
  b->k = calloc(1, sizeof *b->k);
  b->l = aligned_alloc(_Alignof(struct rdma_lane), sizeof *b->l);
  b->lent = calloc(1, sizeof *b->lent + sizeof b->lent->seg[0]);
  b->mrs = &b->mr;
  memset((void *)b->l, 0, sizeof *b->l);
  struct rdma_dev *d = b->d;
  d->lane = b->l;
  d->lanes = d->paths = 1;
  d->depth = 8;
  d->timeout_ms = 60000;
  d->lane_bounce = (uint64_t)PARTS * RDMA_PART_BYTES;
  d->bounce = malloc(d->lane_bounce);
  d->bounce_mem = (struct verbs_mem){
      .base = d->bounce, .bytes = d->lane_bounce, .piece = d->lane_bounce, .pieces = 1, .devs = 1, .mr = &b->mrs};
  d->link = b->k;
  regions_init(&d->regions);
  b->lent->n = b->lent->room = 1;
  b->lent->bytes = b->lent->seg[0].s.bytes = MIB(1);
  d->lent = (uintptr_t)b->lent;
  b->k->d = d;
  b->k->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  b->k->status = LINK_OPEN;
  b->slab = (struct slab_mem){.bytes = MIB(1), .fd = -1};
  b->dial.word = DIAL_UP;
  b->dial.qp = &hw.qp;
  b->l->path[0].dial = &b->dial;
  if (verbs_open(&d->verbs, 0, &e) < 0 || lane_make(d, b->l, 0) < 0)
    abort();
}

static void bench_end(struct bench *b)
{
  lane_unmake(b->l);
  verbs_close(&b->d->verbs);
  regions_deinit(&b->d->regions);
  close(b->k->wake);
  fake_device_close();
  free(b->d->bounce);
  free(b->lent);
  free(b->l);
  free(b->k);
  free(b->d);
}

static void submit(struct bench *b, uint64_t cookie, const struct xfer_vec *v, uint64_t bytes, bool write, bool late)
{
  const struct xfer x = {.op = write ? XFER_WRITE : XFER_READ,
                         .cookie = cookie,
                         .slab = &b->slab,
                         .vec = v,
                         .bytes = bytes,
                         .deadline_ns = late ? 1 : 0};
  if (hot_rdma.submit(&b->d->dev, 0, &x) < 0)
    abort();
}

/* Looks, keeps what has ended, and has the connection back that was given up. */
static void look(struct bench *b)
{
  struct xfer_done done[8];
  uint32_t n = hot_rdma.poll(&b->d->dev, 0, done, 8);
  for (uint32_t i = 0; i < n; i++)
    b->done[done[i].cookie] = done[i];
  if (link_see(&b->dial.word) == DIAL_DRAINED) {
    b->dial.quiet = false;
    b->made++;
    link_set(&b->dial.word, DIAL_UP);
  }
}

static struct fake_end end_of(const struct bench *b, uint64_t cookie, uint32_t posts)
{
  const struct xfer_done *d = &b->done[cookie];
  return (struct fake_end){
      .ended = d->status != 0, .status = d->status, .reason = d->reason, .err = d->err, .posts = posts};
}

struct fake_pieces fake_gather(int sge, int sge_rd, bool write, uint32_t each)
{
  struct bench b;
  struct fake_pieces r = {.ok = false};
  char *mem = calloc(8, each);
  struct region_mem region = {.base = mem, .bytes = 8ull * each};
  struct xfer_vec v[4];
  bench_begin(&b, sge, sge_rd);
  region.mem = (struct verbs_mem){
      .base = mem, .bytes = region.bytes, .piece = region.bytes, .pieces = 1, .devs = 1, .mr = &b.mrs};
  for (uint32_t i = 0; i < 4; i++)
    v[i] = (struct xfer_vec){mem + 2ull * i * each, each};
  submit(&b, 1, v, 4ull * each, write, false);
  b.l->x[b.l->cut_head].region = &region; /* as if it had been registered before */
  for (uint32_t i = 0; i < 8 && !b.done[1].status; i++) {
    look(&b);
    hw_end(IBV_WC_SUCCESS);
  }
  look(&b);
  r = (struct fake_pieces){.posts = hw.posts, .largest = hw.largest, .ok = b.done[1].status == XFER_OK && !b.made};
  bench_end(&b);
  free(mem);
  return r;
}

static struct fake_among among(uint32_t times, uint32_t bytes, bool late)
{
  struct bench b;
  char *mem = calloc(1, 2 * (CELL + bytes));
  struct xfer_vec own = {mem, CELL}, others = {mem + CELL, bytes};
  bench_begin(&b, 16, 16);
  submit(&b, 1, &own, CELL, true, false);
  for (uint32_t i = 0; i < times; i++) {
    look(&b);
    b.done[2] = (struct xfer_done){.status = 0};
    submit(&b, 2, &others, bytes, true, late);
    hot_rdma.flush(&b.d->dev, 0); /* posted, before anybody looks at the time */
    for (uint32_t k = 0; k < 16 && !b.done[2].status; k++)
      look(&b);
  }
  struct fake_among r = {.last = end_of(&b, 2, times ? hw.refusals / times : 0), .made = b.made};
  for (uint32_t k = 0; k < 4 && !b.done[1].status; k++) {
    look(&b);
    hw_end(IBV_WC_SUCCESS);
  }
  look(&b);
  r.innocent = end_of(&b, 1, hw.small);
  bench_end(&b);
  free(mem);
  return r;
}

struct fake_among fake_late_others(uint32_t times)
{
  return among(times, CELL / 2, true);
}

struct fake_among fake_refused_others(uint32_t times)
{
  return among(times, REFUSED, false);
}

struct fake_end fake_broken(uint32_t times)
{
  struct bench b;
  char *mem = calloc(1, CELL);
  struct xfer_vec own = {mem, CELL};
  bench_begin(&b, 16, 16);
  submit(&b, 1, &own, CELL, true, false);
  for (uint32_t i = 0; i < times; i++) {
    look(&b);
    hw_end(IBV_WC_WR_FLUSH_ERR);
    look(&b);
  }
  look(&b);
  struct fake_end r = end_of(&b, 1, hw.small);
  hw_end(IBV_WC_SUCCESS);
  look(&b);
  bench_end(&b);
  free(mem);
  return r;
}
