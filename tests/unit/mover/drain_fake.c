/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/mover/drain_fake.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "include/priv/cleanup.h"
#include "mover/daemon.h"
#include "mover/drain.h"
#include "mover/keeper_wire.h"
#include "mover/loop.h"
#include "transports/transport.h"

struct fake_dev {
  struct dev dev; /* first */
  struct dev *inner;
  struct transport_cold cold;
  struct fake_looks looks;
  uint32_t after, left;
  bool flies, sent, dozed;
  uint32_t refuses; /* so many flushes send nothing */
  int detach_error;
};
struct fake_mover {
  struct config *cfg;
  struct worker_seed seed;
  struct daemon *d;
  int arena[ARENA_COUNT];
  struct fake_dev dev[FAKE_POOLS];
  uint32_t tenant;
  struct slot_ref leased;
  int ear; /* the keeper's end */
  pthread_t keeper;
  pthread_mutex_t lock; /* what follows */
  struct drain_set books;
  uint32_t detached, detaches, enough;
};

/* ---- no more threads: the linker puts this before the library's (--wrap) ---- */

static bool no_threads;
int __real_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg)
{
  return no_threads ? EAGAIN : __real_pthread_create(t, a, fn, arg);
}
void fake_no_threads(struct fake_mover *f, bool none)
{
  (void)f;
  no_threads = none;
}

/* ---- a device of memory that is let go of as told, and takes its time ---- */

static struct fake_dev *fake_of(struct dev *dev)
{
  return CONTAINER_OF(dev, struct fake_dev, dev);
}
static int fake_slab_add(struct dev *dev, uint64_t bytes, struct err *e, struct slab_mem *ret_mem)
{
  struct dev *inner = fake_of(dev)->inner;
  return inner->cold->slab_add(inner, bytes, e, ret_mem);
}
static void fake_slab_del(struct dev *dev, struct slab_mem *mem, bool lent)
{
  struct dev *inner = fake_of(dev)->inner;
  inner->cold->slab_del(inner, mem, lent);
}
static int fake_detach(struct dev *dev)
{
  return fake_of(dev)->detach_error;
}
static int fake_submit(struct dev *dev, uint32_t lane, const struct xfer *x)
{
  struct fake_dev *k = fake_of(dev);
  int rc = k->inner->hot->submit(k->inner, lane, x);
  k->flies = rc == 0;
  k->sent = false;
  k->refuses = k->looks.pieces == 0;
  k->left = k->after;
  k->looks.pieces++;
  return rc;
}
static void fake_flush(struct dev *dev, uint32_t lane)
{
  struct fake_dev *k = fake_of(dev);
  (void)lane;
  if (k->refuses)
    k->refuses--; /* EAGAIN: it stays for the next */
  else
    k->sent = true;
}
static uint32_t fake_poll(struct dev *dev, uint32_t lane, struct xfer_done *done, uint32_t n)
{
  struct fake_dev *k = fake_of(dev);
  if (!k->flies) {
    k->looks.idle++;
    return 0;
  }
  k->looks.looks++;
  k->looks.undozed += !k->dozed;
  k->dozed = false;
  if (!k->sent || --k->left)
    return 0;
  k->flies = false;
  return k->inner->hot->poll(k->inner, lane, done, n);
}
static int fake_poll_fd(struct dev *dev, uint32_t lane)
{
  (void)dev, (void)lane;
  return -1;
}
static void fake_doze(struct dev *dev, uint32_t lane)
{
  (void)lane;
  fake_of(dev)->dozed = true;
}
static const struct transport_hot fake_hot = {.size = sizeof fake_hot,
                                              .submit = fake_submit,
                                              .flush = fake_flush,
                                              .poll = fake_poll,
                                              .poll_fd = fake_poll_fd,
                                              .doze = fake_doze};

static void fake_dev_open(struct fake_dev *k, const char *name)
{
  const struct dev_config dc = {.name = name, .capacity = MIB(16), .lanes = 1, .numa_node = -1};
  struct err e = {{0}};
  if (transport_memory.cold->open(&dc, &e, &k->inner) || k->inner->cold->start(k->inner, &e))
    abort();
  k->cold = *k->inner->cold;
  k->cold.slab_add = fake_slab_add;
  k->cold.slab_del = fake_slab_del;
  k->cold.detach = fake_detach;
  k->dev = (struct dev){.cold = &k->cold, .hot = &fake_hot, .caps = k->inner->caps};
  k->after = 1;
}

/* ---- the keeper: its ear and its books ---- */

static void *keeper_main(void *arg)
{
  struct fake_mover *f = arg;
  struct keeper_msg m;
  int fds[2];
  while (keeper_msg_recv(f->ear, &m, fds, 10000) == 1) {
    LOCKED(&f->lock);
    if (m.op == KEEPER_DRAINS)
      drain_set_begin(&f->books, m.id);
    if (m.op != KEEPER_DETACH)
      continue;
    m.error = f->dev[m.id].detach_error;
    if (m.error == 0) {
      drain_set_end(&f->books, m.id);
      f->detached |= 1u << m.id;
    }
    keeper_msg_send(f->ear, &m, NULL, 0, 1000);
    if (++f->detaches == f->enough)
      shutdown(f->ear, SHUT_WR); /* the loop takes it for the keeper's end, and ends */
  }
  shutdown(f->ear, SHUT_WR); /* nothing for 10 s: nobody waits for more */
  return NULL;
}

/* ---- the mover ---- */

struct fake_mover *fake_mover_new(void)
{
  static const char *const names[FAKE_POOLS] = {"dram", "cxl", "disk"};
  static const uint8_t tiers[FAKE_POOLS] = {DRAY_TIER_DRAM, DRAY_TIER_CXL, DRAY_TIER_DISK};
  struct fake_mover *f = calloc(1, sizeof *f);
  struct daemon *d = f->d = calloc(1, sizeof *d);
  struct store_config sc = {
      .pools = FAKE_POOLS, .cells_max = 1 << 12, .slabs_max = 1024, .leases_max = 1024, .seed = 12345};
  struct err e = {{0}};
  f->cfg = calloc(1, sizeof *f->cfg);
  f->cfg->pools_n = f->cfg->tiers_n = FAKE_POOLS;
  f->cfg->chunk_bytes = MIB(1);
  f->cfg->drain_ms = 1000;
  d->cfg = f->seed.cfg = f->cfg;
  d->seed = &f->seed;
  d->devs_n = FAKE_POOLS;
  for (uint32_t i = 0; i < FAKE_POOLS; i++) {
    fake_dev_open(&f->dev[i], names[i]);
    f->cfg->tier[i].name = names[i];
    f->cfg->tier[i].transport = "cxl";
    d->dev[i] = &f->dev[i].dev;
    sc.pool[i] = (struct store_pool_config){.tier = tiers[i], .dev = d->dev[i], .capacity = MIB(16)};
    snprintf(sc.pool[i].name, sizeof sc.pool[i].name, "%s", names[i]);
  }
  for (int i = 0; i < ARENA_COUNT; i++)
    f->arena[i] = memfd_create("arena", MFD_CLOEXEC);
  const struct store_hooks hooks = {0};
  if (store_new(&sc, f->arena, &hooks, &e, &d->store))
    abort();
  f->tenant = store_tenant(d->store, "red");
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
    abort();
  d->keeper = pair[0];
  f->ear = pair[1];
  pthread_mutex_init(&f->lock, NULL);
  pthread_mutex_init(&d->keeper_lock, NULL);
  pthread_mutex_init(&d->inbox_lock, NULL);
  pthread_mutex_init(&d->drain_queue, NULL);
  list_init(&d->inbox);
  list_init(&d->hello);
  list_init(&d->admins);
  d->epoll = epoll_create1(EPOLL_CLOEXEC);
  d->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (loop_add(d, d->wake, LOOP_WAKE, NULL, EPOLLIN) || __real_pthread_create(&f->keeper, NULL, keeper_main, f))
    abort();
  return f;
}

void fake_mover_free(struct fake_mover *f)
{
  struct daemon *d = f->d;
  no_threads = false;
  drain_stop(d);
  shutdown(d->keeper, SHUT_RDWR);
  pthread_join(f->keeper, NULL);
  while (!list_empty(&d->inbox))
    free(LIST_OF(list_pop_front(&d->inbox), struct control_msg, link));
  store_free(d->store);
  for (uint32_t i = 0; i < FAKE_POOLS; i++) {
    f->dev[i].inner->cold->stop(f->dev[i].inner);
    f->dev[i].inner->cold->close(f->dev[i].inner);
  }
  for (int i = 0; i < ARENA_COUNT; i++)
    close(f->arena[i]);
  close(d->epoll);
  close(d->wake);
  close(d->keeper);
  close(f->ear);
  free(f->cfg);
  free(d);
  free(f);
}

void fake_drain_again(struct fake_mover *f, uint32_t due)
{
  f->seed.drains.due = due;
  f->books.due = due;
  drain_again(f->d);
}

int fake_drain_begin(struct fake_mover *f, uint32_t pool)
{
  return drain_begin(f->d, pool);
}

unsigned fake_state(struct fake_mover *f, uint32_t pool)
{
  return drain_state_of(f->d, pool);
}

static struct store_who who(const struct fake_mover *f)
{
  return (struct store_who){.tenant = f->tenant, .scope = DRAY_SCOPE_TENANT};
}

unsigned fake_put_reason(struct fake_mover *f, uint32_t pool)
{
  struct store_who w = who(f);
  struct slot_ref slot;
  unsigned why = store_alloc(f->d->store, pool, &w, 4096, &slot);
  if (why == DRAY_REASON_OK) {
    store_discard(f->d->store, slot);
    store_unpin(f->d->store, slot);
  }
  return why;
}

static struct slot_ref put(struct fake_mover *f, uint32_t pool, uint64_t bytes, struct cell_facts *ret_facts)
{
  struct cell_new n = {.key = {1}, .who = who(f), .len = bytes};
  struct slot_ref slot;
  if (store_alloc(f->d->store, pool, &n.who, bytes, &slot) != DRAY_REASON_OK ||
      store_commit(f->d->store, &n, slot, 1, ret_facts) != DRAY_REASON_OK)
    abort();
  return slot;
}

void fake_lease(struct fake_mover *f, uint32_t pool)
{
  struct cell_facts facts;
  f->leased = put(f, pool, 4096, &facts);
}

void fake_lease_end(struct fake_mover *f)
{
  store_unpin(f->d->store, f->leased);
}

void fake_detach_says(struct fake_mover *f, uint32_t pool, int error)
{
  f->dev[pool].detach_error = error;
}

bool fake_detached(struct fake_mover *f, uint32_t pool)
{
  LOCKED(&f->lock);
  return f->detached >> pool & 1;
}

uint32_t fake_keeper_due(struct fake_mover *f)
{
  LOCKED(&f->lock);
  return f->books.due;
}

bool fake_loop(struct fake_mover *f, uint32_t n)
{
  struct daemon *d = f->d;
  {
    LOCKED(&f->lock);
    f->enough = n;
    if (f->detaches >= n)
      shutdown(f->ear, SHUT_WR);
  }
  if (loop_add(d, d->keeper, LOOP_KEEPER, NULL, EPOLLRDHUP) || loop_run(d) < 0)
    return false;
  LOCKED(&f->lock);
  return f->detaches >= n;
}

struct fake_looks fake_move(struct fake_mover *f, uint64_t bytes, uint32_t after)
{
  struct cell_facts facts;
  uint32_t stop = 0;
  struct slot_ref slot = put(f, 1, bytes, &facts);
  f->dev[2].after = after;
  f->dev[2].looks = (struct fake_looks){0};
  bool moved = drain_move_down(f->d, 1, &facts, slot, &stop);
  store_unpin(f->d->store, slot);
  f->dev[2].looks.moved = moved;
  return f->dev[2].looks;
}
