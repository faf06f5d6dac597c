/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One engine's connection. The control thread makes and frees it and talks to its socket; from LANE_ADD until the lane
 * says that it is quiet, everything under "lane" belongs to its lane alone.
 */
#ifndef MOVER_SESSION_H
#define MOVER_SESSION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <dray/ring_abi.h>

#include "include/priv/list.h"
#include "mover/job.h"
#include "ring/post.h"
#include "ring/wire.h"

#define SESSION_REGIONS 1024u /* 10 bits of the id */
#define SESSION_LAYOUTS 256u
#define SESSION_KEYS 1024u
#define SESSION_CLASSES 3u

struct daemon;

/* An engine's memory, mapped. id = generation << 10 | slot; the generation is never 0. */
struct region {
  void *base;
  uint64_t size;
  uint8_t gen;
  uint8_t state;  /* enum region_state */
  uint32_t users; /* jobs that use it */
  uint32_t seq;   /* of the unregister that waits for the users to end */
};
enum region_state { REGION_FREE = 1, REGION_LIVE = 2, REGION_LEAVING = 3 };

enum session_state { SESSION_LIVE = 1, SESSION_ENDING = 2, SESSION_QUIET = 3 };

struct session {
  /* constant after session_new */
  struct daemon *d;
  uint32_t idx;
  uint64_t number;
  uint32_t tenant, agent;
  char tenant_name[DRAY_NAME_MAX], agent_name[DRAY_NAME_MAX];
  pid_t pid;
  uid_t uid;
  int sock, pidfd, bell, poke;
  uint64_t since_ms;

  /* control */
  bool welcomed, leaving;
  uint8_t region_gen[SESSION_REGIONS];
  bool region_taken[SESSION_REGIONS];
  uint64_t region_bytes[SESSION_REGIONS];
  uint32_t regions_n, layouts_n, keys_n;
  uint64_t pinned;

  /* shared by lane and control under the daemon's lend lock */
  uint64_t *lent; /* bit per slab index: its fd was sent */

  /* lane */
  struct lane *lane;
  struct list link;   /* lane->sessions */
  struct list active; /* lane->active while it has something to move */
  struct list dirty;  /* lane->dirty while completions are staged */
  uint8_t state;
  struct wire_in sq;
  struct poster post;
  const struct dray_u_head *u;
  struct dray_m_head *m;
  struct dray_geometry geo;
  const struct dray_item *arena;
  struct dray_item_result *results;
  struct dray_object_state *objects;
  uint32_t leases_n;
  uint32_t revoking;   /* leases that it was asked to give back and has not */
  uint16_t end_reason; /* of session_end(); 0: not yet */

  struct job *jobs;
  uint16_t *free_jobs;
  uint32_t free_n, jobs_n;
  struct list open;    /* unfinished, in the order taken */
  struct list backlog; /* HELD */
  struct list pending; /* running jobs with items (or their one step) still to start */
  struct list run[SESSION_CLASSES];
  uint32_t steps_n;
  uint32_t items_open;
  int64_t deficit;
  uint64_t visits;
  bool blocked;         /* the last visit ended because a device, or the lane's steps, are full */
  struct job *link_job; /* last accepted, if it had LINK and is unfinished */
  bool link_open, link_ok;
  uint32_t link_len;

  struct region regions[SESSION_REGIONS];
  struct dray_layout layouts[SESSION_LAYOUTS]; /* by id, from 1 */
  uint32_t keys[SESSION_KEYS + 1];             /* by id, from 1: the store's id */

  /* counters: lane writes, anyone reads */
  uint64_t done, bytes, refused;
};

/* What the control thread found out about the peer. */
struct session_who {
  int sock, pidfd;
  pid_t pid;
  uid_t uid;
  uint32_t tenant;
  const char *tenant_name;
};

/* Makes U and M (through the keeper), maps and seals them, answers WELCOME. 0 or -errno; sock and pidfd are the
 * session's on success. */
int session_new(struct daemon *d, const struct session_who *who, const struct dray_msg_hello *hello,
                struct session **ret_session);
/* Quiet only. Ends leases, unmaps, closes, tells the keeper. NULL is fine. */
struct session *session_free(struct session *s);

/* lane side */
/* Takes what the engine published. Returns how many directives, or -EPROTO. */
int session_take(struct lane *l, struct session *s);
/* One quantum of moving. False when nothing is left to do now. */
bool session_visit(struct lane *l, struct session *s);
/* Something to move: listed as active. */
void session_activate(struct lane *l, struct session *s);
/* Nothing to move any more: off that list. */
void session_rest(struct lane *l, struct session *s);
/* Publishes completions, wakes the engine. */
void session_flush(struct lane *l, struct session *s);
/* Begins to end: no more takes; what is open is stopped. */
void session_end(struct lane *l, struct session *s, unsigned reason);
/* The region behind an id, or NULL. */
struct region *session_region(struct session *s, uint16_t id);
/* Sends the slab's fd once. 0; -EAGAIN: the engine does not read its socket. */
int session_lend(struct session *s, uint32_t slab, int fd, uint64_t size, uint64_t offset, bool writable);
#endif
