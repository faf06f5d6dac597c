/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where io_uring is refused: preadv and pwritev in a few threads. One queue for the device, one list of ends and one
 * eventfd per lane. The threads live in the worker (start to stop); the eventfds are made before the fork.
 */
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>

#include <dray/types.h>

#include "transports/stub.h"
#include "transports/file/file_internal.h"
#include "transports/file/op.h"
#include "transports/file/status.h"

#define POOL_THREADS 4u
#define POOL_BOUNCE KIB(256)

struct pool_lane {
  pthread_mutex_t lock;
  struct file_op *op;
  uint32_t *idle, n_idle;   /* the lane's thread alone */
  uint32_t *ended, head, n; /* a ring of depth, under lock */
  int event;                /* readable while n > 0 */
};

struct pool_thread {
  pthread_t id;
  struct file_dev *d;
  uint8_t *buf; /* its bounce buffer */
};

struct pool {
  pthread_mutex_t lock; /* queue, stop */
  pthread_cond_t work;
  uint64_t *queue; /* lane << 32 | op, a ring of lanes * depth: every op fits */
  uint32_t head, n, room;
  bool stop;
  struct pool_thread thread[POOL_THREADS];
  uint8_t *bounce;
  uint32_t threads;
  uint32_t lanes, depth;
  struct pool_lane lane[];
};

void pool_close(struct file_dev *d)
{
  struct pool *p = d->pool;
  if (!p)
    return;
  for (uint32_t i = 0; i < p->lanes; i++) {
    close_fd(&p->lane[i].event);
    free(p->lane[i].op);
    free(p->lane[i].idle);
    free(p->lane[i].ended);
    pthread_mutex_destroy(&p->lane[i].lock);
  }
  pthread_mutex_destroy(&p->lock);
  pthread_cond_destroy(&p->work);
  if (p->bounce)
    munmap(p->bounce, POOL_THREADS * POOL_BOUNCE);
  free(p->queue);
  free(p);
  d->pool = NULL;
}

int pool_open(struct file_dev *d, const struct dev_config *cfg)
{
  struct pool *p = calloc(1, sizeof *p + cfg->lanes * sizeof p->lane[0]);
  if (!p)
    return -ENOMEM;
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(&p->work, &attr);
  pthread_condattr_destroy(&attr);
  pthread_mutex_init(&p->lock, NULL);
  p->lanes = cfg->lanes;
  p->depth = cfg->depth;
  p->room = cfg->lanes * cfg->depth;
  d->pool = p;
  p->queue = calloc(p->room, sizeof *p->queue);
  void *bounce = mmap(NULL, POOL_THREADS * POOL_BOUNCE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  p->bounce = bounce == MAP_FAILED ? NULL : bounce;
  int rc = p->queue && p->bounce ? 0 : -ENOMEM;
  for (uint32_t i = 0; i < p->lanes; i++) {
    struct pool_lane *l = &p->lane[i];
    pthread_mutex_init(&l->lock, NULL);
    l->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    l->op = calloc(p->depth, sizeof *l->op);
    l->idle = calloc(p->depth, sizeof *l->idle);
    l->ended = calloc(p->depth, sizeof *l->ended);
    if (l->event < 0)
      rc = -errno;
    else if (!l->op || !l->idle || !l->ended)
      rc = -ENOMEM;
  }
  if (rc)
    pool_close(d);
  return rc;
}

static ssize_t do_io(const struct file_dev *d, const struct file_op *op, const struct file_io *io)
{
  struct iovec one = {io->buf, io->len};
  const struct iovec *iov = io->niov ? io->iov : &one;
  int n = io->niov ? (int)io->niov : 1, fd = d->seg.fd[io->seg];
  ssize_t got = op->x.op == XFER_READ ? preadv(fd, iov, n, (off_t)io->off) : pwritev(fd, iov, n, (off_t)io->off);
  return got < 0 ? -errno : got;
}

static void run_sync(struct file_dev *d, struct file_op *op)
{
  int err = 0;
  for (uint32_t i = 0; i < file_count(d); i++) {
    uint64_t seen;
    if (!durable_due(file_durable(d, i), &seen))
      continue;
    int one = durable_end(file_durable(d, i), seen, fdatasync(file_fd(d, i)) ? errno : 0);
    err = err ? err : one;
  }
  op->end = err ? status_failed(op->x.cookie, DRAY_PATH_NONE, err, 0) : status_ok(op->x.cookie, DRAY_PATH_NONE, 0);
}

static void run_op(struct file_dev *d, struct file_op *op, void *buf)
{
  if (op->x.op == XFER_SYNC) {
    run_sync(d, op);
    return;
  }
  struct file_io io;
  do {
    if (!file_op_next(op, &d->seg, buf, POOL_BOUNCE, &io))
      break;
  } while (!file_op_result(op, do_io(d, op, &io), buf));
  if (op->x.op == XFER_WRITE && op->end.bytes)
    durable_wrote(&d->durable[segment_of(&d->seg, op->x.slab->dev_off)]);
}

/* The next op; false when the pool stops. */
static bool pool_take(struct pool *p, uint64_t *ret)
{
  LOCKED(&p->lock);
  while (!p->n && !p->stop) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += 1;
    pthread_cond_timedwait(&p->work, &p->lock, &t);
  }
  if (!p->n)
    return false;
  *ret = p->queue[p->head];
  p->head = (p->head + 1) % p->room;
  p->n--;
  return true;
}

static void pool_ended(struct pool *p, struct pool_lane *l, uint32_t i)
{
  LOCKED(&l->lock);
  l->ended[(l->head + l->n++) % p->depth] = i;
  if (l->n == 1)
    (void)!write(l->event, &(uint64_t){1}, sizeof(uint64_t));
}

static void *pool_main(void *arg)
{
  const struct pool_thread *t = arg;
  struct pool *p = t->d->pool;
  uint64_t what;
  while (pool_take(p, &what)) {
    struct pool_lane *l = &p->lane[what >> 32];
    run_op(t->d, &l->op[(uint32_t)what], t->buf);
    pool_ended(p, l, (uint32_t)what);
  }
  return NULL;
}

int pool_start(struct file_dev *d)
{
  struct pool *p = d->pool;
  p->stop = false;
  p->head = p->n = 0;
  for (uint32_t i = 0; i < p->lanes; i++) {
    struct pool_lane *l = &p->lane[i];
    l->head = l->n = 0;
    for (l->n_idle = 0; l->n_idle < p->depth; l->n_idle++)
      l->idle[l->n_idle] = p->depth - 1 - l->n_idle;
  }
  for (p->threads = 0; p->threads < POOL_THREADS; p->threads++) {
    struct pool_thread *t = &p->thread[p->threads];
    t->d = d;
    t->buf = p->bounce + p->threads * POOL_BOUNCE;
    int rc = pthread_create(&t->id, NULL, pool_main, t);
    if (rc) {
      pool_stop(d);
      return -rc;
    }
  }
  d->addr.dev.hot = &hot_pool;
  return 0;
}

void pool_stop(struct file_dev *d)
{
  struct pool *p = d->pool;
  {
    LOCKED(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->work);
  }
  while (p->threads)
    pthread_join(p->thread[--p->threads].id, NULL);
}

/* The threads died with the worker, and a system call ends before its thread does. */
int pool_quiesce(struct file_dev *d)
{
  uint64_t v;
  for (uint32_t i = 0; i < d->pool->lanes; i++)
    (void)!read(d->pool->lane[i].event, &v, sizeof v);
  d->pool->threads = 0;
  return 0;
}

static int pool_submit(struct dev *dev, uint32_t lane, const struct xfer *x)
{
  struct file_dev *d = file_of(dev);
  struct pool *p = d->pool;
  struct pool_lane *l = &p->lane[lane];
  if (!l->n_idle)
    return -EAGAIN;
  uint32_t i = l->idle[l->n_idle - 1];
  struct file_op *op = &l->op[i];
  if (x->op == XFER_SYNC) {
    *op = (struct file_op){.x = *x, .slot = OP_NO_SLOT};
  } else {
    int rc = file_op_begin(op, x, d->seg.direct, DRAY_PATH_PREAD, DRAY_PATH_PREAD);
    if (rc)
      return rc;
  }
  l->n_idle--;
  LOCKED(&p->lock);
  p->queue[(p->head + p->n++) % p->room] = (uint64_t)lane << 32 | i;
  pthread_cond_signal(&p->work);
  return 0;
}

static void pool_flush(struct dev *dev, uint32_t lane)
{
  (void)dev, (void)lane;
}

static uint32_t pool_poll(struct dev *dev, uint32_t lane, struct xfer_done *done, uint32_t n)
{
  struct pool *p = file_of(dev)->pool;
  struct pool_lane *l = &p->lane[lane];
  uint32_t k = 0;
  uint64_t v;
  LOCKED(&l->lock);
  if (!l->n)
    return 0;
  for (; k < n && l->n; k++, l->n--) {
    uint32_t i = l->ended[l->head];
    l->head = (l->head + 1) % p->depth;
    done[k] = l->op[i].end;
    l->idle[l->n_idle++] = i;
  }
  if (!l->n)
    (void)!read(l->event, &v, sizeof v);
  return k;
}

static int pool_poll_fd(struct dev *dev, uint32_t lane)
{
  return file_of(dev)->pool->lane[lane].event;
}

static uint32_t pool_in_flight(struct dev *dev, uint32_t lane)
{
  const struct pool *p = file_of(dev)->pool;
  return p->depth - p->lane[lane].n_idle;
}

const struct transport_hot hot_pool = {
    .size = sizeof(struct transport_hot),
    .submit = pool_submit,
    .flush = pool_flush,
    .poll = pool_poll,
    .poll_fd = pool_poll_fd,
    .doze = stub_doze,
    .in_flight = pool_in_flight,
};
