/* SPDX-License-Identifier: Apache-2.0 */
#include "transports/rdma/verbs.h"

#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "include/priv/bits.h"

#define PIECE_MAX (GIB(1) << 10) /* of a device that says "any": far below where page counts overflow */

static int dev_open(struct verbs_dev *d, struct ibv_context *ctx, uint64_t piece_max, struct err *e)
{
  struct ibv_device_attr a;
  int rc = ibv_query_device(ctx, &a);
  if (rc)
    return err_set(e, -rc, "%s: query: %s", ibv_get_device_name(ctx->device), strerror(rc));
  d->ctx = ctx;
  d->max_mr = MIN_OF(a.max_mr_size, PIECE_MAX);
  if (piece_max)
    d->max_mr = MIN_OF(d->max_mr, piece_max);
  d->max_mr &= ~(uint64_t)(PAGE_BYTES - 1);
  d->max_wr = a.max_qp_wr > 0 ? (uint32_t)a.max_qp_wr : 1;
  d->max_sge = a.max_sge > 0 ? (uint32_t)a.max_sge : 1;
  d->max_sge_rd = a.max_sge_rd > 0 ? MIN_OF((uint32_t)a.max_sge_rd, d->max_sge) : 1; /* iWARP: 1 */
  d->max_cqe = a.max_cqe > 0 ? (uint32_t)a.max_cqe : 1;
  d->max_read = (uint8_t)MIN_OF(MAX_OF(MIN_OF(a.max_qp_rd_atom, a.max_qp_init_rd_atom), 1), 16);
  if (!d->max_mr)
    return err_set(e, -ENODEV, "%s: max_mr_size %llu is less than a page", ibv_get_device_name(ctx->device),
                   (unsigned long long)a.max_mr_size);
  d->pd = ibv_alloc_pd(ctx);
  if (!d->pd)
    return err_set(e, -errno, "%s: protection domain: %s", ibv_get_device_name(ctx->device), strerror(errno));
  d->idle = ibv_create_cq(ctx, 16, NULL, NULL, 0);
  d->talk = d->idle ? ibv_alloc_pd(ctx) : NULL;
  if (!d->talk) {
    int why = errno;
    if (d->idle)
      ibv_destroy_cq(d->idle);
    ibv_dealloc_pd(d->pd);
    return err_set(e, -why, "%s: completion queue or protection domain: %s", ibv_get_device_name(ctx->device),
                   strerror(why));
  }
  return 0;
}

void verbs_load(void)
{
  struct ibv_device **list = ibv_get_device_list(NULL);
  if (list)
    ibv_free_device_list(list);
}

int verbs_open(struct verbs *v, uint64_t piece_max, struct err *e)
{
  int n = 0;
  *v = (struct verbs){.list = rdma_get_devices(&n)};
  if (!v->list || n < 1) {
    verbs_close(v);
    return err_set(e, -ENODEV,
                   "no verbs device (rdma link show): load the adapter's driver and rdma_ucm, or make a soft one: rdma "
                   "link add rxe0 type rxe netdev IF");
  }
  for (int i = 0; i < n && v->n < WIRE_DEVS; i++) {
    int rc = dev_open(&v->dev[v->n], v->list[i], piece_max, e);
    if (rc) {
      verbs_close(v);
      return rc;
    }
    v->n++;
  }
  return 0;
}

void verbs_close(struct verbs *v)
{
  while (v->n) {
    struct verbs_dev *d = &v->dev[--v->n];
    ibv_destroy_cq(d->idle);
    ibv_dealloc_pd(d->talk);
    ibv_dealloc_pd(d->pd);
  }
  if (v->list)
    rdma_free_devices(v->list);
  v->list = NULL;
}

int verbs_index(const struct verbs *v, const struct ibv_context *ctx)
{
  for (uint32_t i = 0; i < v->n; i++)
    if (v->dev[i].ctx == ctx)
      return (int)i;
  return -1;
}

static uint64_t locked_now(void)
{
  char line[128];
  unsigned long long kib = 0;
  FILE *f = fopen("/proc/self/status", "re");
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "VmPin: %llu", &kib) == 1)
      break;
  if (f)
    fclose(f);
  return kib << 10;
}

static int reg_failed(const struct ibv_context *ctx, uint64_t bytes, int code, struct err *e)
{
  struct rlimit l = {0, 0};
  const char *dev = ibv_get_device_name(ctx->device);
  getrlimit(RLIMIT_MEMLOCK, &l);
  if (code == ENOMEM && l.rlim_cur != RLIM_INFINITY)
    return err_set(e, -ENOMEM,
                   "%s: registering %llu bytes: need them locked; RLIMIT_MEMLOCK is %llu, %llu of it in use: raise it "
                   "(LimitMEMLOCK= in the unit, ulimit -l), or give CAP_IPC_LOCK",
                   dev, (unsigned long long)bytes, (unsigned long long)l.rlim_cur, (unsigned long long)locked_now());
  if (code == EOPNOTSUPP)
    return err_set(e, -code, "%s: registering %llu bytes: this memory cannot be pinned (fs-dax?): use device-dax", dev,
                   (unsigned long long)bytes);
  return err_set(e, -code, "%s: registering %llu bytes: %s", dev, (unsigned long long)bytes, strerror(code));
}

int verbs_mem_begin(const struct verbs *v, void *base, uint64_t bytes, uint64_t piece_max, struct verbs_mem *ret_mem,
                    struct err *e)
{
  struct verbs_mem m = {.base = base, .bytes = bytes, .piece = piece_max, .devs = v->n};
  if (!bytes || !v->n)
    return err_set(e, -EINVAL, "registering %llu bytes with %u devices: nothing to do", (unsigned long long)bytes,
                   v->n);
  for (uint32_t i = 0; i < v->n; i++)
    m.piece = MIN_OF(m.piece, v->dev[i].max_mr);
  m.piece = MIN_OF(m.piece, bytes);
  uint64_t n = (bytes - 1) / m.piece + 1;
  if (n > UINT32_MAX / WIRE_DEVS)
    return err_set(e, -E2BIG, "registering %llu bytes in pieces of %llu (max_mr_size): too many",
                   (unsigned long long)bytes, (unsigned long long)m.piece);
  m.mr = calloc(n * v->n, sizeof *m.mr);
  if (!m.mr)
    return -ENOMEM;
  *ret_mem = m;
  return 0;
}

int verbs_mem_step(const struct verbs *v, struct verbs_mem *m, int access, struct err *e)
{
  uint64_t p = m->pieces, done = p * m->piece;
  if (done >= m->bytes)
    return 0;
  char *at = m->base + done;
  uint64_t len = MIN_OF(m->piece, m->bytes - done);
  m->pieces++;
  for (uint32_t i = 0; i < v->n; i++) {
    /* named from 0: the other side learns nothing of our addresses */
    m->mr[p * v->n + i] = ibv_reg_mr_iova(v->dev[i].pd, at, len, (uintptr_t)at & (PAGE_BYTES - 1), access);
    if (!m->mr[p * v->n + i]) {
      int code = errno ? errno : ENOMEM;
      verbs_mem_dereg(m);
      return reg_failed(v->dev[i].ctx, len, code, e);
    }
  }
  return done + len < m->bytes;
}

int verbs_mem_reg(const struct verbs *v, void *base, uint64_t bytes, int access, struct verbs_mem *ret_mem,
                  struct err *e)
{
  struct verbs_mem m;
  int rc = verbs_mem_begin(v, base, bytes, UINT64_MAX, &m, e);
  if (rc)
    return rc;
  do
    rc = verbs_mem_step(v, &m, access, e);
  while (rc > 0);
  if (!rc)
    *ret_mem = m;
  return rc;
}

void verbs_mem_dereg(struct verbs_mem *m)
{
  for (uint64_t i = 0; m->mr && i < (uint64_t)m->pieces * m->devs; i++)
    if (m->mr[i])
      ibv_dereg_mr(m->mr[i]);
  free(m->mr);
  *m = (struct verbs_mem){0};
}

uint32_t verbs_mem_segs(const struct verbs_mem *m, uint64_t off, uint64_t len, struct wire_seg *ret_seg, uint32_t max)
{
  uint32_t n = 0;
  if (!len || !range_inside(off, len, m->bytes))
    return 0;
  while (len) {
    uint64_t p = off / m->piece, in = off % m->piece, k = MIN_OF(len, m->piece - in);
    if (n == max)
      return 0;
    struct wire_seg *s = &ret_seg[n++];
    *s = (struct wire_seg){.addr = ((uintptr_t)(m->base + p * m->piece) & (PAGE_BYTES - 1)) + in, .bytes = k};
    for (uint32_t i = 0; i < m->devs; i++)
      s->rkey[i] = m->mr[p * m->devs + i]->rkey;
    off += k;
    len -= k;
  }
  return n;
}
