/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/mover/peer_map_fake.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/crc.h"
#include "mover/daemon.h"
#include "mover/peer.h"
#include "mover/peer_ask.h"
#include "mover/session.h"
#include "mover/step.h"
#include "transports/rdma/link_internal.h"

#define LEN 4096u

/* ---- memory for the store ---- */

static int slab_add(struct dev *d, uint64_t bytes, struct err *e, struct slab_mem *ret_mem)
{
  int fd = memfd_create("slab", MFD_CLOEXEC);
  (void)d, (void)e;
  if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
    abort();
  *ret_mem =
      (struct slab_mem){.bytes = bytes, .fd = fd, .base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)};
  return 0;
}
static void slab_del(struct dev *d, struct slab_mem *m, bool lent)
{
  (void)d, (void)lent;
  munmap(m->base, m->bytes);
  close(m->fd);
}
static int slab_made(void *ctx, uint32_t slab, const struct slab_mem *m)
{
  (void)ctx, (void)slab, (void)m;
  return 0;
}
static void slab_gone(void *ctx, uint32_t slab)
{
  (void)ctx, (void)slab;
}
static bool slab_lent(void *ctx, uint32_t slab)
{
  (void)ctx, (void)slab;
  return true;
}

/* ---- a lane with one session and one job: a BATCH of two, of which one item is looked at ---- */

struct bench {
  struct daemon *d;
  struct config *cfg;
  struct lane *l;
  struct session *s;
  struct job j;
  struct peers *peers;
  struct rdma_dev *far;
  struct link *link;
  struct transport_cold cold;
  struct dev near;
  int arena[ARENA_COUNT];
  struct dray_item_result results[2];
  struct dray_object_state objects[8];
  struct wish w;
};

static void bench_store(struct bench *b)
{
  struct store_config sc = {.pools = 1, .cells_max = 1024, .slabs_max = 64, .leases_max = 64, .seed = 1};
  struct store_hooks hooks = {.slab_made = slab_made, .slab_gone = slab_gone, .slab_lent = slab_lent};
  struct err e;
  b->cold = (struct transport_cold){.size = sizeof b->cold, .name = "fake", .slab_add = slab_add, .slab_del = slab_del};
  b->near.cold = &b->cold;
  b->near.caps = (struct dev_caps){
      .capacity = MIB(4), .unit = PAGE_BYTES, .align = 64, .addressable = true, .isolation = DEV_PER_SLAB};
  sc.pool[0] = (struct store_pool_config){
      .name = "dram", .tier = DRAY_TIER_DRAM, .attendable = true, .dev = &b->near, .capacity = MIB(4)};
  for (uint32_t i = 0; i < ARENA_COUNT; i++)
    b->arena[i] = memfd_create("arena", MFD_CLOEXEC);
  if (store_new(&sc, b->arena, &hooks, &e, &b->d->store) < 0)
    abort();
}

static void bench_begin(struct bench *b, unsigned tier)
{
  memset(b, 0, sizeof *b);
  b->d = calloc(1, sizeof *b->d);
  b->cfg = calloc(1, sizeof *b->cfg);
  b->l = aligned_alloc(64, align_up(sizeof *b->l, 64));
  b->s = calloc(1, sizeof *b->s);
  b->peers = calloc(1, sizeof *b->peers);
  b->far = calloc(1, sizeof *b->far);
  b->link = calloc(1, sizeof *b->link);
  memset((void *)b->l, 0, sizeof *b->l);
  bench_store(b);
  profile_defaults(&b->cfg->policy.profiles);
  b->cfg->policy.ladder[0] = DRAY_TIER_DRAM;
  pthread_mutex_init(&b->link->lock, NULL);
  b->link->closed = true; /* nothing that is asked goes anywhere */
  b->far->link = b->link;
  b->peers->n = 1;
  b->peers->dev[0] = &b->far->dev;
  struct daemon *d = b->d;
  d->cfg = b->cfg;
  d->peers = b->peers;
  d->usable_tiers = 1u << DRAY_TIER_DRAM;
  memset(d->pool_of_tier, 0xff, sizeof d->pool_of_tier);
  d->pool_of_tier[DRAY_TIER_DRAM] = 0;
  struct lane *l = b->l;
  l->d = d;
  l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  pthread_mutex_init(&l->inbox_lock, NULL);
  list_init(&l->inbox);
  list_init(&l->active);
  list_init(&l->waiters);
  l->steps = calloc(4, sizeof *l->steps);
  l->free_steps = calloc(4, sizeof *l->free_steps);
  l->meter = calloc(QUOTA_TENANTS, sizeof *l->meter);
  for (l->free_steps_n = 0; l->free_steps_n < 4; l->free_steps_n++)
    l->free_steps[l->free_steps_n] = l->free_steps_n;
  struct session *s = b->s;
  s->d = d;
  s->lane = l;
  s->tenant = store_tenant(d->store, "red");
  s->agent = store_agent(d->store, s->tenant, "me");
  s->geo.objects = 8;
  s->objects = b->objects;
  s->results = b->results;
  s->lent = malloc(STORE_SLABS_MAX / 8);
  memset(s->lent, 0xff, STORE_SLABS_MAX / 8); /* its engine has them all */
  list_init(&s->active);
  for (uint32_t i = 0; i < SESSION_CLASSES; i++)
    list_init(&s->run[i]);
  list_init(&b->j.steps);
  b->j.items = 2;
  b->j.state = JOB_RUNNING;
  b->j.req.sqe.op = DRAY_MAP;
  b->j.req.sqe.flags = DRAY_MAP_OR_STAGE | DRAY_BATCH;
  b->j.req.sqe.tier = (uint8_t)tier;
  memset(b->w.key, 5, sizeof b->w.key);
}

static void bench_end(struct bench *b)
{
  store_free(b->d->store);
  for (uint32_t i = 0; i < ARENA_COUNT; i++)
    close(b->arena[i]);
  close(b->l->wake);
  pthread_mutex_destroy(&b->l->inbox_lock);
  pthread_mutex_destroy(&b->link->lock);
  free(b->l->steps);
  free(b->l->free_steps);
  free(b->l->meter);
  free(b->s->lent);
  free(b->s);
  free(b->l);
  free(b->link);
  free(b->far);
  free(b->peers);
  free(b->cfg);
  free(b->d);
}

static char *bytes_of(struct bench *b, struct slot_ref slot)
{
  struct slot_mem m;
  store_slot_mem(b->d->store, slot, &m);
  return (char *)m.mem->base + m.off;
}

static void put(struct bench *b, enum fake_local local)
{
  struct store *st = b->d->store;
  struct cell_new n = {.who = {.tenant = b->s->tenant, .agent = b->s->agent, .scope = DRAY_SCOPE_AGENT}, .len = LEN};
  struct cell_facts f;
  struct slot_ref slot;
  if (local == FAKE_NONE)
    return;
  if (local == FAKE_OTHERS)
    n.who.agent = store_agent(st, n.who.tenant, "another");
  memcpy(n.key, b->w.key, sizeof n.key);
  if (store_alloc(st, 0, &n.who, LEN, &slot) != DRAY_REASON_OK)
    abort();
  memset(bytes_of(b, slot), FAKE_OURS, LEN);
  if (store_commit(st, &n, slot, 1, &f) != DRAY_REASON_OK)
    abort();
  store_unpin(st, slot);
  if (local == FAKE_QUARANTINED)
    store_quarantine(st, &f);
}

/* The peer has it, and its bytes come. */
static void arrive(struct bench *b)
{
  struct step *t = LIST_OF(b->j.steps.next, struct step, link);
  struct peer_ask *k = t->peer;
  char theirs[LEN];
  memset(theirs, FAKE_THEIRS, LEN);
  list_init(&b->l->inbox); /* the answer of the link that is closed */
  b->l->inbox_n = 0;
  k->reason = DRAY_REASON_OK;
  wire_begin(&k->a, WIRE_RESOLVED, 0, 1);
  k->a.resolved.reason = DRAY_REASON_OK;
  k->a.resolved.len = LEN;
  k->a.resolved.has_crc = 1;
  k->a.resolved.crc = crc32c(0, theirs, LEN);
  k->a.resolved.scope = DRAY_SCOPE_AGENT;
  k->a.resolved.handle = 9;
  peer_answered(b->l, k);
  room_try(b->l, t);
  if (t->state != STEP_CUT)
    abort();
  memcpy(bytes_of(b, t->to), theirs, LEN);
  list_remove(&t->run);
  t->cut = LEN;
  t->crc_bytes = LEN;
  t->crc_sum = k->a.resolved.crc;
  t->path = DRAY_PATH_BOUNCE;
  complete_step(b->l, t);
}

struct fake_mapped fake_map(enum fake_local local, bool early, unsigned tier)
{
  struct bench b;
  struct fake_mapped r = {.leased = -1, .listed = -1};
  struct outcome o;
  struct cell_facts f;
  struct slot_ref slot = {0};
  struct lease_info lease;
  struct err e;
  bench_begin(&b, tier);
  if (early)
    put(&b, local);
  struct call c = {.l = b.l, .s = b.s, .j = &b.j, .w = &b.w};
  if (ops_map(&c, &o)) {
    complete_item(b.l, b.s, &b.j, 0, &o);
  } else {
    if (!early)
      put(&b, local);
    arrive(&b);
  }
  struct store *st = b.d->store;
  r.ended = b.j.items_done == 1;
  r.status = b.j.failed ? b.j.out.status : DRAY_OK;
  r.reason = b.results[0].reason;
  r.path = b.results[0].path;
  r.flags = b.j.out.flags;
  r.bytes = b.results[0].bytes;
  bool has = store_lease_first(st, b.s->idx, &lease) == DRAY_REASON_OK;
  if (has)
    r.leased = *bytes_of(&b, lease.slot);
  if (store_find(st, b.s->tenant, b.w.key, DRAY_TIER_ANY, 1, &f, &slot) == DRAY_REASON_OK) {
    r.listed = *bytes_of(&b, slot);
    r.quarantined = f.state == CELL_QUARANTINED;
    store_unpin(st, slot);
  }
  if (has && store_lease_end(st, b.s->idx, lease.id, true, &lease) == DRAY_REASON_OK)
    store_unpin(st, lease.slot);
  if (store_find(st, b.s->tenant, b.w.key, PIN_NONE, 1, &f, &slot) == DRAY_REASON_OK)
    store_drop(st, &f);
  store_pool_close(st, 0); /* empty slabs go */
  r.clean = store_audit(st, &e) == 0 && b.l->free_steps_n == 4 && !b.s->steps_n && list_empty(&b.j.steps) &&
            store_pool_idle(st, 0);
  bench_end(&b);
  return r;
}
