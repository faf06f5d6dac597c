/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the operator wants: embedded default < file (YAML) < DRAY_* < flags. Parsed and validated whole before
 * anything starts; the strings belong to the config.
 */
#ifndef MOVER_CONFIG_H
#define MOVER_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include <dray/ring_abi.h>

#include "include/priv/err.h"
#include "policy/quota.h"
#include "policy/snapshot.h"
#include "transports/transport.h"

#define CONFIG_TIERS_MAX 8
#define CONFIG_TENANTS_MAX 1024
#define CONFIG_PEERS_MAX 256
#define CONFIG_DEVS_MAX (CONFIG_TIERS_MAX + CONFIG_PEERS_MAX)

struct config_tier {
  const char *name;      /* profile name: dram numa_far cxl disk */
  const char *transport; /* memory cxl file rdma */
  const char *path;
  uint64_t capacity, slab_bytes, bounce_bytes;
  uint32_t depth;
  int32_t numa_node;
  bool huge_pages, buffered, no_uring;
  const char *owner;
  uint8_t keep;                       /* enum dev_keep */
  uint8_t coherence;                  /* enum dev_coherence */
  const char *peer;                   /* rdma: one of `peers`; remote: or several, with commas between */
  bool bounce_only;                   /* rdma: engines' memory is never registered */
  bool local_only;                    /* no peer is shown what is there */
  uint16_t peer_at[CONFIG_PEERS_MAX]; /* config_finish: which of config.peer they are, in their order */
  uint32_t peers_n;
  const char *fault; /* NULL: it works as well as it can; else the script by which it does not (tests) */
};
struct config_peer {
  const char *name, *address; /* transports/rdma/address.h */
  const char *key_file;       /* NULL: none */
  uint32_t timeout_ms;        /* 0: the transport's own */
};
/* What peers may have of us. */
struct config_listen {
  const char *address; /* NULL: nothing; several: with commas between */
  const char *key_file;
  uint64_t lend;
  uint32_t lease_ms;
};
struct config_tenant {
  const char *name;
  const char *token;  /* NULL: none */
  const char *socket; /* NULL: none of its own */
  int64_t uid;        /* -1: none */
};
/* The ledger of requests (usage.h); neither path nor line: none is kept. */
struct config_usage {
  const char *path;   /* SQLite database, in a directory of its own; NULL: none */
  const char *line;   /* file:PATH, udp:IP:PORT, http:IP:PORT/PATH?QUERY: line protocol; NULL: none */
  uint64_t keep_s;    /* how long a row is kept */
  uint64_t max_bytes; /* of the database */
};
struct config {
  const char *node;
  const char *socket, *admin;
  int64_t socket_mode; /* octal bits */
  uint32_t lanes;
  int log_level;
  bool strict;       /* a fallback at the start is an error and not a line */
  bool harden;       /* sandbox.h; off only to debug */
  bool auto_tenants; /* an unknown uid is a tenant "uid<N>" of its own */
  const char *calibration;
  const char *metrics; /* address of /metrics; NULL: off */
  struct config_usage usage;
  uint32_t tiers_n, tenants_n, peers_n;
  uint32_t pools_n; /* config_finish: of the tiers, those that are pools: all but `remote`, which is the last */
  struct config_peer peer[CONFIG_PEERS_MAX];
  struct config_listen listen;
  struct config_tier tier[CONFIG_TIERS_MAX];
  struct config_tenant tenant[CONFIG_TENANTS_MAX];
  uint32_t cells_max, leases_max;
  uint32_t sessions_max, sessions_per_tenant, regions_max;
  uint64_t pinned_max; /* bytes of registered regions per tenant */
  uint32_t items_max;  /* outstanding BATCH items per session */
  uint64_t token_ns;   /* what computing one token takes: eviction weighs it against reading */
  uint64_t revoke_ns;  /* how long an engine has to give a lease back */
  uint32_t drain_ms;   /* SIGTERM: how long in-flight work may take */
  uint64_t chunk_bytes;
  uint64_t split_bytes;  /* steps of at least this many bytes are shared with idle lanes; 0: derived from the plan */
  bool crc_always;       /* keep and check a CRC whether the directive asks or not */
  bool copy_measure;     /* find the copy plan at start, when the calibration has none */
  struct copy_plan copy; /* config_finish: the calibration's or the built-in; tune_copy() may replace it */
  struct policy_snapshot policy;
  struct quota_plan quota;      /* as the file has it: what is reloaded replaces it in the mover, not here */
  const char *file;             /* NULL: none was given */
  const char *dir;              /* where the defaults are */
  const struct config *as_file; /* as the file had it at the start, before environment and flags; NULL: none */
  void *owned;                  /* list of what config_free() frees */
};

/* The embedded default: dram, far memory (cxl, emulated) and disk under `dir` (NULL: $XDG_RUNTIME_DIR/dray, or
 * /run/dray as root). */
int config_default(struct config *c, const char *dir, struct err *e);
/* Overlays a file. -EINVAL with file:line and key in e; *c is then only good for config_free(). */
int config_load(struct config *c, const char *path, struct err *e);
/* Overlays one "key=value" (flags and DRAY_*): socket admin lanes log calibration node, tier.<name>.capacity,
 * tenant=<name>:<token>. */
int config_set(struct config *c, const char *key, const char *value, struct err *e);
/* Tiers, as bits, whose bandwidth the profiles state. */
uint8_t config_bandwidth(const struct config *c);
/* Does the plan fit the tenants and tiers of c? -EINVAL with one text. */
int config_quota_check(const struct config *c, const struct quota_plan *p, struct err *e);
struct config_diff;
/* Reads quotas, rates and rules of c's file again, and how all else differs into *ret_diff (NULL: nobody asks); all
   else needs a restart, and they are checked against the tenants and tiers of c. On error *ret_plan is as before. */
int config_quota_reload(const struct config *c, struct quota_plan *ret_plan, struct config_diff *ret_diff,
                        struct err *e);
/* Cross checks, reads the calibration, fixes the ladder. */
int config_finish(struct config *c, struct err *e);
void config_free(struct config *c);
/* Of device i of a finished configuration: pools have one each, then come those of `remote`, one for each peer. */
const struct config_tier *config_dev_tier(const struct config *c, uint32_t i);
const struct config_peer *config_dev_peer(const struct config *c, uint32_t i); /* NULL: leads to none */
uint32_t config_devs(const struct config *c);
#endif
