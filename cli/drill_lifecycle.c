/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine holds leases on a third of the fast tier, looks at the bytes under them again and again, gives some back
 * and takes them anew, and moves its other cells up and down. Beside it another engine's cells push everything down the
 * ladder and a rule demotes. Nothing of that may lose a cell, change a byte or end in a way that nobody defined.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/drill.h"
#include "include/priv/bits.h"
#include "include/priv/order.h"

#define CELL KIB(64)
#define LEASED 256u   /* 16 MiB of 48 */
#define LOOSE 128u    /* the holder's cells without a lease */
#define CROWD 1536u   /* 96 MiB: twice the fast tier */
#define OTHERS 10000u /* where the crowd's keys begin */

const char drill_lifecycle_config[] = "tiers:\n"
                                      "  - {name: dram, transport: memory, capacity: 48MiB, slab_size: 1MiB}\n"
                                      "  - {name: numa_far, transport: memory, capacity: 192MiB, slab_size: 1MiB}\n"
                                      "tenants: [{name: holder, token: h}, {name: crowd, token: c}]\n"
                                      "rules: [{name: full, tier: dram, when: 85%, until: 70%, what: demote}]\n";

/* What became of directives. */
struct tally {
  uint64_t done, refused, wrong, lost, undefined;
  uint64_t bytes;           /* looked at */
  char first_undefined[80]; /* "MOVE: fault IO_ERROR" */
};
struct side {
  struct drill_engine e;
  struct tally t;
  uint64_t stop; /* [STAT] */
  uint64_t lease[LEASED];
  const char *at[LEASED];
};

static void undefined(struct tally *t, const char *what, const struct dray_cqe *c)
{
  if (t->undefined++ == 0)
    snprintf(t->first_undefined, sizeof t->first_undefined, "%s: %s %s", what,
             c->status ? dray_status_name(c->status) : "no answer", dray_reason_name(c->reason));
}

/* Refused for a reason that a caller is told to expect: the tier is full, or the cell is on its way somewhere else. */
static bool defined(const struct dray_cqe *c)
{
  switch (c->reason) {
  case DRAY_NO_ROOM:
  case DRAY_NO_SPACE:
  case DRAY_POOL_PRESSURE:
  case DRAY_REBALANCE:
  case DRAY_QUOTA_EXCEEDED:
  case DRAY_PRIORITY_LOST:
  case DRAY_LEASED:
  case DRAY_EXISTS:
  case DRAY_STALE_GENERATION:
    return c->status == DRAY_REFUSED || c->status == DRAY_MISSED;
  default:
    return false;
  }
}

static bool settle(struct tally *t, const char *what, const struct dray_cqe *c)
{
  if (c->status == DRAY_OK) {
    t->done++;
    return true;
  }
  if (defined(c))
    t->refused++;
  else
    undefined(t, what, c);
  return false;
}

static bool put(struct side *s, uint64_t k, unsigned tier)
{
  uint8_t key[16];
  stage_key(k, key);
  stage_fill(s->e.region.base, CELL, k);
  dray_prep_put(dray_get_sqe(s->e.d), key, s->e.region.id, 0, CELL, (uint8_t)tier);
  struct dray_cqe c = drill_one(s->e.d);
  return settle(&s->t, "PUT", &c);
}

/* Is the cell there, and what it was? may_go: it may have been pushed out. */
static void get(struct side *s, uint64_t k, bool may_go)
{
  uint8_t key[16];
  char *to = (char *)s->e.region.base + CELL;
  stage_key(k, key);
  memset(to, 0xa5, CELL);
  dray_prep_get(dray_get_sqe(s->e.d), key, s->e.region.id, CELL, CELL, DRAY_TIER_ANY);
  struct dray_cqe c = drill_one(s->e.d);
  if (c.status == DRAY_MISSED) {
    s->t.lost += !may_go;
    s->t.refused += may_go;
  } else if (settle(&s->t, "GET", &c)) {
    s->t.bytes += CELL;
    s->t.wrong += !stage_check(to, CELL, k);
  }
}

static void map(struct side *s, uint32_t i)
{
  uint8_t key[16];
  stage_key(i, key);
  dray_prep_map(dray_get_sqe(s->e.d), key, 0);
  struct dray_cqe c = drill_one(s->e.d);
  s->at[i] = NULL;
  if (c.status == DRAY_MISSED)
    s->t.lost++;
  else if (settle(&s->t, "MAP", &c)) {
    s->lease[i] = c.object;
    s->at[i] = dray_map_address(s->e.d, c.slab, c.off);
    s->t.lost += !s->at[i];
  }
}

static void unmap(struct side *s, uint32_t i)
{
  dray_prep_unmap(dray_get_sqe(s->e.d), s->lease[i]);
  struct dray_cqe c = drill_one(s->e.d);
  if (c.status != DRAY_OK)
    undefined(&s->t, "UNMAP", &c);
  s->at[i] = NULL;
}

static void *crowd_main(void *arg)
{
  struct side *s = arg;
  for (uint64_t i = 0; !stat_read(&s->stop); i++) {
    put(s, OTHERS + i * 7 % CROWD, DRAY_TIER_DRAM);
    if (i % 4 == 3)
      get(s, OTHERS + i * 3 % CROWD, true);
  }
  return NULL;
}

static void hold(struct drill *r, struct side *s)
{
  static const uint8_t tiers[] = {DRAY_TIER_NUMA_FAR, DRAY_TIER_DRAM};
  uint64_t end = stage_now_ns() + r->ms * 1000000u;
  for (uint64_t i = 0; stage_now_ns() < end; i++) {
    uint32_t k = (uint32_t)(i * 5 % LEASED);
    uint8_t key[16];
    if (s->at[k]) {
      s->t.bytes += CELL;
      s->t.wrong += !stage_check(s->at[k], CELL, k);
      s->t.lost += dray_lease_state(s->e.d, s->lease[k]) != DRAY_LEASE_LIVE;
    }
    if (i % 8 == 7) { /* given back, and taken again wherever the cell is by now */
      if (s->at[k])
        unmap(s, k);
      map(s, k);
    }
    stage_key(LEASED + i % LOOSE, key);
    dray_prep_move(dray_get_sqe(s->e.d), key, tiers[i / LOOSE % 2], 0);
    struct dray_cqe c = drill_one(s->e.d);
    settle(&s->t, "MOVE", &c);
    if (i % 16 == 15)
      get(s, LEASED + i % LOOSE, false);
  }
}

static json_t *tally_json(const struct tally *t)
{
  return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o}", "done", cli_u64(t->done), "refused", cli_u64(t->refused), "mib_checked",
                   cli_u64(t->bytes >> 20), "lost", cli_u64(t->lost), "wrong", cli_u64(t->wrong), "undefined",
                   cli_u64(t->undefined));
}

static int play(struct drill *r, struct side *h, struct side *c)
{
  pthread_t t;
  for (uint32_t i = 0; i < LEASED + LOOSE; i++)
    if (!put(h, i, DRAY_TIER_DRAM)) {
      fprintf(stderr, "dray drill: cell %u of %u cannot be put: %s\n", i, LEASED + LOOSE, h->t.first_undefined);
      return -1;
    }
  for (uint32_t i = 0; i < LEASED; i++)
    map(h, i);
  if (pthread_create(&t, NULL, crowd_main, c) != 0)
    return -1;
  hold(r, h);
  stat_set(&c->stop, 1);
  pthread_join(t, NULL);
  for (uint32_t i = 0; i < LEASED; i++) /* what the leases showed to the end, and then the cells themselves */
    if (h->at[i]) {
      h->t.wrong += !stage_check(h->at[i], CELL, i);
      unmap(h, i);
    }
  for (uint32_t i = 0; i < LEASED + LOOSE; i++)
    get(h, i, false);
  uint64_t down = stage_counter(&r->st, "demoted"), out = stage_counter(&r->st, "evicted");
  json_object_set_new(r->report, "holder", tally_json(&h->t));
  json_object_set_new(r->report, "crowd", tally_json(&c->t));
  json_object_set_new(r->report, "mover", json_pack("{s:o,s:o}", "demoted", cli_u64(down), "evicted", cli_u64(out)));
  drill_check(r, h->t.lost + c->t.lost == 0, "no cell is lost", "%llu", (unsigned long long)(h->t.lost + c->t.lost));
  drill_check(r, h->t.wrong + c->t.wrong == 0, "no byte is wrong", "%llu cells of %llu MiB looked at",
              (unsigned long long)(h->t.wrong + c->t.wrong), (unsigned long long)((h->t.bytes + c->t.bytes) >> 20));
  drill_check(r, h->t.undefined + c->t.undefined == 0, "no outcome is undefined", "%llu%s%s",
              (unsigned long long)(h->t.undefined + c->t.undefined),
              h->t.undefined + c->t.undefined ? ", the first: " : "",
              h->t.undefined ? h->t.first_undefined : c->t.first_undefined);
  drill_check(r, down > 0, "cells were pushed down meanwhile", "%llu demoted", (unsigned long long)down);
  return 0;
}

int drill_lifecycle(struct drill *r)
{
  struct side *h = calloc(1, sizeof *h), *c = calloc(1, sizeof *c);
  int code = h && c ? drill_engine_open(r, "h", 2 * CELL, &h->e) : -1;
  if (code == 0) {
    code = drill_engine_open(r, "c", 2 * CELL, &c->e);
    if (code == 0) {
      code = play(r, h, c);
      drill_engine_close(&c->e);
    }
    drill_engine_close(&h->e);
  }
  free(h);
  free(c);
  return code;
}
