/* SPDX-License-Identifier: Apache-2.0 */
/* dray replay: real engine processes run a trace against a real mover, and every byte that comes back is checked. */
#ifndef CLI_REPLAY_H
#define CLI_REPLAY_H

#include <dray/admin.h>
#include <dray/dray.h>

#include "bench/stage.h"
#include "cli/cli.h"
#include "bench/hist.h"
#include "cli/trace.h"

#define REPLAY_TENANTS_MAX 64
#define REPLAY_ENGINES_MAX 64

struct replay_tenant {
  char name[DRAY_NAME_MAX], token[DRAY_TOKEN_MAX];
};
struct replay_options {
  struct cli_options cli;
  const char *trace; /* NULL: synthetic */
  uint32_t requests, engines, tenants;
  uint64_t seed, dram, cxl, disk; /* pools of our own mover, 0: unbounded */
  const char *preset;
  uint64_t scale, block_bytes; /* 0: not given */
  uint32_t batch;
  double time_scale; /* 0: as fast as possible */
  double rate;       /* requests/s, whatever the trace's clock says; 0: not given */
  bool self, map, crc, quiet;
  uint32_t named; /* tenants given with their tokens */
  struct replay_tenant tenant[REPLAY_TENANTS_MAX];
  /* how a block is scattered, from preset, scale, block_bytes */
  uint32_t segs, seg_bytes;
};
/* Parses; false: *ret_code is what to return. */
bool replay_options(int argc, char **argv, struct replay_options *o, int *ret_code);

/* What latencies are kept of. */
enum { KIND_STAT, KIND_GET, KIND_MAP, KIND_UNMAP, KIND_PUT, KIND_REQUEST, REPLAY_KINDS };

/* What an engine process leaves in shared memory. Only `progress` is read while it runs. */
struct engine_result {
  uint64_t progress;
  uint64_t wanted, hits, put, wrong, verified_bytes;
  uint64_t vanished; /* were there at STAT and gone at GET */
  uint64_t got_bytes, put_bytes;
  uint64_t hits_by_tier[DRAY_TIER_COUNT], hits_by_path[DRAY_PATH_COUNT];
  uint64_t put_by_tier[DRAY_TIER_COUNT], put_by_path[DRAY_PATH_COUNT];
  uint64_t bytes_by_path[DRAY_PATH_COUNT];
  uint64_t tenant_ns[REPLAY_TENANTS_MAX], tenant_blocks[REPLAY_TENANTS_MAX]; /* in requests; of blocks wanted */
  uint64_t reason[DRAY_REASON_COUNT]; /* of items that were neither done nor merely missing */
  uint64_t late_ns;                   /* most behind the trace's clock */
  uint64_t begun_ns, ended_ns;
  struct hist latency[REPLAY_KINDS]; /* ns, submit to seen, per directive; of a request from when it was due */
  uint64_t wrong_tenant, wrong_id;   /* the first wrong block */
  char error[256];                   /* why it gave up */
};
/* In a process of its own: the requests of its tenants, in the trace's order. Its exit code. */
int engine_run(const struct replay_options *o, const struct trace *t, uint32_t engine, const char *socket,
               struct engine_result *ret);

/* All that is to be said at the end. */
struct replay_report {
  const struct replay_options *o;
  const struct trace *t;
  struct trace_ideal ideal;
  const struct engine_result *sum;
  json_t *before, *after, *tiers, *audit; /* status, tiers, audit; NULL: the admin socket is not ours */
  bool lossless;                          /* a pool is unbounded: nothing may be lost */
  bool failed;                            /* an engine did */
};
/* Prints; the exit code. */
int replay_report(const struct replay_report *r);
#endif
