/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work on a running mover, with an engine that reads all the time. First a tier member is taken out: its cells go down,
 * the device is let go of, and no read may fail or wait for long. Then the mover is replaced by another one in the same
 * place (an upgrade), which also puts the member back; then once more (the way back). What had to stop, and for how
 * long, is the report.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dray/admin.h>

#include "cli/cli.h"
#include "cli/drill.h"
#include "include/priv/bits.h"
#include "include/priv/order.h"

#define CELL KIB(64)
#define EACH 64u /* cells on each tier */
#define DRAIN_MS 30000u
#define GAP_MS 1000u     /* longest that a read may wait while a member goes */
#define OUTAGE_MS 15000u /* longest from the last read of the old mover to the first of the new */

/* On what the default places in its own directory: a file tree for far memory, one for the disk. */
const char drill_maintenance_config[] = "tenants: [{name: ops, token: o}]\n";

struct reader {
  struct drill_engine e;
  uint64_t stop; /* [STAT] */
  uint64_t from, n;
  uint64_t reads, errors, wrong, gap_ns, last_ns;
};

static uint64_t first_of(unsigned tier)
{
  return tier * 1000u;
}

static struct dray_cqe get(struct drill_engine *e, uint64_t k)
{
  uint8_t key[16];
  stage_key(k, key);
  memset(e->region.base, 0xa5, CELL);
  dray_prep_get(dray_get_sqe(e->d), key, e->region.id, 0, CELL, DRAY_TIER_ANY);
  return drill_one(e->d);
}

static bool put(struct drill_engine *e, uint64_t k, unsigned tier)
{
  uint8_t key[16];
  stage_key(k, key);
  stage_fill(e->region.base, CELL, k);
  dray_prep_put(dray_get_sqe(e->d), key, e->region.id, 0, CELL, (uint8_t)tier);
  return drill_one(e->d).status == DRAY_OK;
}

/* Reads the cells of the member in turn; its region is its own. */
static void *read_main(void *arg)
{
  struct reader *r = arg;
  r->last_ns = stage_now_ns();
  for (uint64_t i = 0; !stat_read(&r->stop); i++) {
    uint64_t k = r->from + i % r->n;
    struct dray_cqe c = get(&r->e, k);
    uint64_t now = stage_now_ns();
    r->gap_ns = MAX_OF(r->gap_ns, now - r->last_ns);
    r->last_ns = now;
    r->reads++;
    r->errors += c.status != DRAY_OK;
    r->wrong += c.status == DRAY_OK && !stage_check(r->e.region.base, CELL, k);
  }
  return NULL;
}

/* True: the member is out. */
static bool take_out(const struct drill *r, const char *tier, uint64_t *ret_moved, uint64_t *ret_dropped)
{
  char ask[64];
  snprintf(ask, sizeof ask, "{\"verb\":\"drain\",\"tier\":\"%.20s\"}", tier);
  bool out = false;
  for (uint64_t end = stage_now_ns() + DRAIN_MS * 1000000ull; !out && stage_now_ns() < end;) {
    char *answer = NULL;
    if (dray_admin_call(r->st.admin, ask, 5000, &answer) < 0)
      return false;
    json_t *o = json_loads(answer, 0, NULL);
    const char *state = json_string_value(json_object_get(o, "state"));
    out = state && !strcmp(state, "drained");
    bool going = state && !strcmp(state, "draining");
    *ret_moved = (uint64_t)json_integer_value(json_object_get(o, "moved"));
    *ret_dropped = (uint64_t)json_integer_value(json_object_get(o, "dropped"));
    json_decref(o);
    free(answer);
    if (!out && !going)
      return false;
  }
  return out;
}

/* How many of [from, from+n) are there, whole. */
static uint64_t whole(struct drill_engine *e, uint64_t from, uint64_t n)
{
  uint64_t good = 0;
  for (uint64_t i = 0; i < n; i++)
    good += get(e, from + i).status == DRAY_OK && stage_check(e->region.base, CELL, from + i);
  return good;
}

static int remove_member(struct drill *r, struct drill_engine *e)
{
  struct reader *x = calloc(1, sizeof *x);
  uint64_t moved = 0, dropped = 0;
  pthread_t t;
  if (!x || drill_engine_open(r, "o", CELL, &x->e) < 0) {
    free(x);
    return -1;
  }
  x->from = first_of(DRAY_TIER_CXL);
  x->n = EACH;
  bool runs = pthread_create(&t, NULL, read_main, x) == 0;
  uint64_t begun = stage_now_ns();
  bool out = runs && take_out(r, "cxl", &moved, &dropped);
  uint64_t took = stage_now_ns() - begun;
  uint8_t key[16];
  stage_key(9, key);
  dray_prep_put(dray_get_sqe(e->d), key, e->region.id, 0, CELL, DRAY_TIER_CXL);
  struct dray_cqe c = drill_one(e->d);
  stat_set(&x->stop, 1);
  if (runs)
    pthread_join(t, NULL);
  json_object_set_new(r->report, "remove",
                      json_pack("{s:o,s:o,s:o,s:o,s:o,s:o}", "took_ms", cli_u64(took / 1000000u), "moved",
                                cli_u64(moved), "dropped", cli_u64(dropped), "reads", cli_u64(x->reads), "errors",
                                cli_u64(x->errors), "longest_wait_us", cli_u64(x->gap_ns / 1000u)));
  drill_check(r, out && moved >= EACH && dropped == 0, "a member is taken out with its cells",
              "%llu moved, %llu dropped, %llu ms", (unsigned long long)moved, (unsigned long long)dropped,
              (unsigned long long)(took / 1000000u));
  drill_check(r, x->reads > 0 && x->errors + x->wrong == 0, "no read fails meanwhile", "%llu of %llu",
              (unsigned long long)(x->errors + x->wrong), (unsigned long long)x->reads);
  drill_check(r, x->gap_ns < GAP_MS * 1000000ull, "no read stops for long", "%llu us at most, bound %u ms",
              (unsigned long long)(x->gap_ns / 1000u), GAP_MS);
  drill_check(r, c.status == DRAY_REFUSED, "who still wants it is told", "%s %s", dray_status_name(c.status),
              dray_reason_name(c.reason));
  drill_engine_close(&x->e);
  free(x);
  return 0;
}

/* Replaces the mover. *e is another session afterwards. */
static int replace(struct drill *r, struct drill_engine *e, const char *name)
{
  uint64_t stop = 0, start = 0, last, disk = first_of(DRAY_TIER_DISK), far = first_of(DRAY_TIER_CXL);
  dray_prep_fence(dray_get_sqe(e->d)); /* what is on disk is durable */
  bool fenced = drill_one(e->d).status == DRAY_OK && get(e, disk).status == DRAY_OK;
  last = stage_now_ns();
  drill_engine_close(e);
  *e = (struct drill_engine){.d = NULL};
  if (drill_again(r, &stop, &start) < 0)
    return -1;
  if (drill_engine_open(r, "o", CELL, e) < 0)
    return -1;
  bool first = get(e, disk).status == DRAY_OK;
  uint64_t outage = stage_now_ns() - last, found = stage_counter(&r->st, "found_on_disk");
  uint64_t here = whole(e, disk, EACH), moved = whole(e, far, EACH), fast = whole(e, first_of(DRAY_TIER_DRAM), EACH);
  bool again = put(e, 9, DRAY_TIER_CXL) && get(e, 9).tier == DRAY_TIER_CXL;
  json_object_set_new(r->report, name,
                      json_pack("{s:o,s:o,s:o,s:o,s:o}", "stop_ms", cli_u64(stop / 1000000u), "start_ms",
                                cli_u64(start / 1000000u), "outage_ms", cli_u64(outage / 1000000u), "found",
                                cli_u64(found), "of_memory_left", cli_u64(fast)));
  drill_check(r, fenced && first && here == EACH && moved == EACH, "what is on disk is found by the next mover",
              "%s: %llu of %u, and %llu of the member's %u", name, (unsigned long long)here, EACH,
              (unsigned long long)moved, EACH);
  drill_check(r, outage < OUTAGE_MS * 1000000ull, "sessions are back soon", "%s: %llu ms, bound %u", name,
              (unsigned long long)(outage / 1000000u), OUTAGE_MS);
  drill_check(r, again, "the member is there again", "%s: PUT there %s", name, again ? "served" : "refused");
  return 0;
}

int drill_maintenance(struct drill *r)
{
  static const uint8_t tiers[] = {DRAY_TIER_DRAM, DRAY_TIER_CXL, DRAY_TIER_DISK};
  struct drill_engine e;
  int code = drill_engine_open(r, "o", CELL, &e);
  if (code < 0)
    return code;
  for (size_t i = 0; i < ARRAY_LEN(tiers); i++)
    for (uint64_t k = 0; k < EACH && code == 0; k++)
      code = put(&e, first_of(tiers[i]) + k, tiers[i]) ? 0 : -1;
  if (code)
    fprintf(stderr, "dray drill: the cells that it is about cannot be put: see `dray status` of such a mover\n");
  code = code ? code : remove_member(r, &e);
  if (code == 0 && (code = replace(r, &e, "upgrade")) == 0)
    code = replace(r, &e, "back"); /* and that it can be undone: the one before serves the same */
  json_object_set_new(
      r->report, "stopped",
      json_string("nothing while the member went; while the mover is replaced all sessions end, their leases "
                  "with them, and memory tiers begin empty"));
  if (e.d)
    drill_engine_close(&e);
  return code;
}
