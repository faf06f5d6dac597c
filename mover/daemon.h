/* SPDX-License-Identifier: Apache-2.0 */
/* The worker: owns the store, the lanes, the sessions and the loop that talks to engines and operators. */
#ifndef MOVER_DAEMON_H
#define MOVER_DAEMON_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "include/priv/list.h"
#include "mover/config.h"
#include "mover/drain.h"
#include "mover/fill.h"
#include "mover/lane.h"
#include "mover/log.h"
#include "mover/quota.h"
#include "mover/relief.h"
#include "mover/revoke.h"
#include "mover/session.h"
#include "mover/store/store.h"
#include "mover/usage.h"

#define DAEMON_SESSIONS 4096u

/* What the keeper hands to each worker it forks. */
struct worker_seed {
  const struct config *cfg;
  const struct quota_plan *plan; /* of the last reload */
  struct log log;
  int keeper; /* the worker's end of the channel */
  int arena_fd[ARENA_COUNT];
  struct dev *dev[CONFIG_DEVS_MAX]; /* config_dev_tier() */
  uint32_t devs_n;
  int admin_fd;
  int listen_fd[CONFIG_TENANTS_MAX + 1];         /* [0] is the common one */
  int32_t listen_tenant[CONFIG_TENANTS_MAX + 1]; /* index into cfg->tenant, -1: by token or uid */
  uint32_t listen_n;
  uint32_t epoch;
  struct drain_set drains; /* what the worker before had begun to drain, and was not through with */
};

/* Messages into the control thread. */
enum control_msg_kind { CONTROL_QUIET = 1, CONTROL_REGION_IDLE = 2, CONTROL_GONE = 3, CONTROL_DRAINED = 4 };
struct control_msg {
  struct list link;
  uint8_t kind;
  struct session *s;
  uint32_t slot, seq;
};

struct fill_table {
  pthread_mutex_t lock;
  struct fill *at[FILLS_MAX];
  uint16_t gen[FILLS_MAX];
  uint32_t next;
};

struct serve;
struct serve_cells;

struct daemon {
  const struct config *cfg;
  struct log log;
  struct store *store;
  struct dev *dev[CONFIG_DEVS_MAX]; /* config_dev_tier() */
  uint32_t devs_n;
  struct peers *peers; /* peers.h; NULL: nobody's cells can be asked for */
  struct serve *serve; /* answers peers; NULL: nobody may connect */
  struct serve_cells *serve_cells;
  char *serve_list;
  struct peer_watch {
    uint32_t open, gen;
    bool lost; /* its cells are being forgotten */
  } peer_watch[CONFIG_DEVS_MAX];
  struct dev *copy_dev; /* an addressable device: takes region-to-region copies */
  int32_t pool_of_tier[DRAY_TIER_COUNT];
  uint8_t usable_tiers;
  uint32_t epoch;
  uint64_t started_ms;

  struct lane *lanes;
  uint32_t lanes_n;

  pthread_mutex_t lend_lock;                /* sessions' lent bits and the two tables below */
  uint64_t ever_lent[STORE_SLABS_MAX / 64]; /* bit per slab index: an fd of it left, also to a session that is over */
  struct session *session[DAEMON_SESSIONS];
  uint32_t sessions_n;
  uint64_t session_numbers;

  uint64_t poison_hits, poison_notices; /* [STAT] shared */
  uint64_t unkept[CONFIG_TIERS_MAX];    /* [STAT] shared: the memory of its directory is bad */
  struct fill_table fills;
  struct drain drain;
  pthread_mutex_t drain_queue; /* the queue of the lane after the last */
  struct relief relief;
  struct quotas quotas;
  struct usage usage;
  struct revokes revokes;
  void *metrics;                /* metrics.h; NULL: off */
  uint64_t differs, differs_ns; /* [STAT] of the last look at the file, and when */
  uint64_t unready;             /* [STAT] draining */
  pthread_mutex_t keeper_lock;
  int keeper;

  /* control thread */
  int epoll, signals, wake, admin_fd;
  int early[2]; /* a pipe: the signal handler writes, the control thread reads */
  const struct worker_seed *seed;
  pthread_mutex_t inbox_lock;
  struct list inbox;
  bool draining;
  uint32_t lanes_stopped;
  struct list hello;  /* accepted, no HELLO yet */
  struct list admins; /* connected operators */
  uint64_t refused_hellos;
};

/* Runs a worker until SIGTERM has drained it. Exit code. */
int daemon_run(const struct worker_seed *seed);
/* From any thread into the control thread. */
void daemon_send(struct daemon *d, struct control_msg *m);
uint64_t daemon_now_ns(void);
/* Poison that was met there: is it where a tier remembers what it has? Then that is said. */
bool daemon_index_met(struct daemon *d, uintptr_t addr, uint64_t unit);
#endif
