/* SPDX-License-Identifier: Apache-2.0 */
/* One tenant bursts at full speed beside one that reads 64 KiB at a time. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/drill.h"
#include "include/priv/bits.h"
#include "include/priv/order.h"

#define READ_BYTES KIB(64)
#define BURST_BYTES MIB(1)
#define BURST_DEPTH 16u
#define CELLS 32u

const char drill_noisy_config[] = "tiers: [{name: dram, transport: memory, capacity: 256MiB}]\n"
                                  "tenants: [{name: loud, token: l}, {name: quiet, token: q}]\n";

struct burst {
  struct drill_engine e;
  uint64_t stop; /* [STAT] */
  uint64_t bytes;
};

static void *burst_main(void *arg)
{
  struct burst *b = arg;
  uint64_t sent = 0, got = 0;
  while (!stat_read(&b->stop) || got < sent) {
    const struct dray_cqe *c;
    for (; !stat_read(&b->stop) && sent - got < BURST_DEPTH; sent++) {
      uint8_t key[16];
      stage_key(1000 + sent % 16, key);
      dray_prep_put(dray_get_sqe(b->e.d), key, b->e.region.id, 0, BURST_BYTES, DRAY_TIER_DRAM);
    }
    dray_submit(b->e.d);
    if (dray_wait(b->e.d, 1, 1000) < 0)
      break;
    while ((c = dray_peek(b->e.d))) {
      got += c->type == DRAY_DONE;
      b->bytes += c->status == DRAY_OK ? c->bytes : 0;
      dray_seen(b->e.d);
    }
  }
  return NULL;
}

/* Reads for a phase; ret_errors counts what was not served or brought wrong bytes. */
static void phase(const struct drill *r, struct drill_engine *e, struct hist *h, uint64_t *ret_errors)
{
  uint64_t end = stage_now_ns() + r->ms * 1000000u, errors = 0;
  memset(h, 0, sizeof *h);
  for (uint64_t i = 0, t; (t = stage_now_ns()) < end; i++) {
    uint8_t key[16];
    stage_key(i % CELLS, key);
    dray_prep_get(dray_get_sqe(e->d), key, e->region.id, 0, READ_BYTES, DRAY_TIER_ANY);
    struct dray_cqe c = stage_one(e->d);
    hist_add(h, stage_now_ns() - t);
    errors += c.status != DRAY_OK || !stage_check(e->region.base, READ_BYTES, i % CELLS);
  }
  *ret_errors = errors;
}

static int play(struct drill *r, struct drill_engine *quiet, struct burst *b, struct hist h[3])
{
  static const char *const names[] = {"before", "during", "after"};
  uint64_t errors[3], more = 0, all = 0;
  for (int i = 0; i < 3; i++) {
    pthread_t t;
    uint64_t was = stage_counter(&r->st, "turns_more");
    uint64_t some = stage_counter(&r->st, "turns_1") + stage_counter(&r->st, "turns_2");
    if (i == 1 && pthread_create(&t, NULL, burst_main, b) != 0)
      return -1;
    phase(r, quiet, &h[i], &errors[i]);
    if (i == 1) {
      stat_set(&b->stop, 1);
      pthread_join(t, NULL);
      more = stage_counter(&r->st, "turns_more") - was;
      all = stage_counter(&r->st, "turns_1") + stage_counter(&r->st, "turns_2") - some;
    }
    json_object_set_new(r->report, names[i], drill_latency(&h[i], errors[i]));
  }
  double ratio = (double)hist_quantile(&h[1], 0.99) / (double)MAX_OF(hist_quantile(&h[0], 0.99), 1u);
  json_object_set_new(r->report, "burst", json_pack("{s:o}", "bytes", cli_u64(b->bytes)));
  /* what `dray plan --ledger --drill` takes as the failure radius */
  json_object_set_new(r->report, "others",
                      json_pack("{s:o,s:o,s:o}", "p99_before_ns", cli_u64(hist_quantile(&h[0], 0.99)), "p99_during_ns",
                                cli_u64(hist_quantile(&h[1], 0.99)), "errors", cli_u64(errors[1])));
  drill_check(r, errors[0] + errors[1] + errors[2] == 0, "every read is served, with the right bytes", "%llu errors",
              (unsigned long long)(errors[0] + errors[1] + errors[2]));
  drill_check(r, b->bytes > 0, "the neighbour was noisy", "%llu MiB", (unsigned long long)(b->bytes >> 20));
  drill_check(r, more == 0, "at most 2 quanta for each other session between take and completion",
              "%llu reads waited longer, %llu waited one or two; p99 %.1f times that of before",
              (unsigned long long)more, (unsigned long long)all, ratio);
  return 0;
}

int drill_noisy(struct drill *r)
{
  struct drill_engine quiet;
  struct burst *b = calloc(1, sizeof *b);
  struct hist *h = calloc(3, sizeof *h);
  int code = b && h ? drill_engine_open(r, "q", READ_BYTES, &quiet) : -1;
  if (code == 0) {
    for (uint32_t i = 0; i < CELLS; i++) {
      uint8_t key[16];
      stage_key(i, key);
      stage_fill(quiet.region.base, READ_BYTES, i);
      dray_prep_put(dray_get_sqe(quiet.d), key, quiet.region.id, 0, READ_BYTES, DRAY_TIER_DRAM);
      if (stage_one(quiet.d).status != DRAY_OK)
        code = -1;
    }
    if (code == 0)
      code = drill_engine_open(r, "l", BURST_BYTES, &b->e);
    if (code == 0) {
      code = play(r, &quiet, b, h);
      drill_engine_close(&b->e);
    }
    drill_engine_close(&quiet);
  }
  free(b);
  free(h);
  return code;
}
