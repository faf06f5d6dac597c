/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The asking side: a pool in a peer's memory. rdma.c (cold ops), link.c (the thread that connects, asks and keeps what
 * was lent), dial.c (one connection on its way), hot.c and part.c (what lanes do).
 *
 * Who owns a data connection (struct dial of a lane) says its word [LINK]: DIAL_NONE and DIAL_DRAINED: the link thread,
 * which makes and destroys it; DIAL_UP and DIAL_LOST: the lane, which posts to it, and which says DRAINED when nothing
 * of it is out any more. So nobody destroys a queue pair that another thread posts to, and no lane waits for a peer.
 */
#ifndef TRANSPORTS_RDMA_RDMA_INTERNAL_H
#define TRANSPORTS_RDMA_RDMA_INTERNAL_H

#include <pthread.h>

#include "include/priv/bits.h"
#include "include/priv/list.h"
#include "transports/extent.h"
#include "transports/rdma/address.h"
#include "transports/rdma/backoff.h"
#include "transports/rdma/link.h"
#include "transports/rdma/pipe.h"
#include "transports/rdma/region.h"
#include "transports/rdma/stripe.h"
#include "transports/rdma/tally.h"
#include "transports/rdma/talk.h"
#include "transports/transport.h"
#include "transports/vec.h"

#define RDMA_UNIT PAGE_BYTES
#define RDMA_PART_BYTES KIB(128) /* of one work request: a bounce slot */
#define RDMA_DIRECT_BYTES MIB(1) /* of one without it; of several paths: a quarter */
#define RDMA_DIRECT_MIN KIB(4)   /* pieces that are smaller than this on average are gathered in bounce memory */
#define RDMA_TRIES 3u
#define RDMA_TIMEOUT_MS 5000u
#define RDMA_DIAL_MS 2000u
#define RDMA_SILENCE_MS 3000u /* a question without an answer for so long: the connection is dead */
#define RDMA_NONE UINT32_MAX

struct rdma_dev;

enum dial_word { DIAL_NONE = 0, DIAL_UP = 1, DIAL_LOST = 2, DIAL_DRAINED = 3 };
enum dial_step { STEP_IDLE = 0, STEP_ADDRESS = 1, STEP_ROUTE = 2, STEP_CONNECT = 3, STEP_OPEN = 4 };

/* One connection that we make, on its way or open. */
struct dial {
  struct rdma_cm_id *id;
  uint8_t step; /* enum dial_step */
  uint8_t lane; /* WIRE_CONTROL: it asks */
  uint8_t path;
  bool quiet; /* its end was our own doing */
  uint64_t until_ns;
  uint64_t deaf_ns; /* the link's: its lane was rung then and has not looked since; 0: it looks */
  struct backoff backoff;
  /* handed to the lane */
  uint32_t word; /* [LINK] enum dial_word */
  uint8_t local_dev, remote_dev;
  uint32_t gen; /* of the understanding that it was made under: rdma_dev.gen */
  struct ibv_qp *qp;
};

/* What the peer has lent us: where our offsets are there. Immutable; never freed while lanes run. */
struct lent_seg {
  uint64_t off;
  struct wire_seg s;
};
struct lent {
  struct lent *older;
  uint32_t n, room; /* of seg */
  uint64_t bytes;
  struct lent_seg seg[];
};

/* ---- lanes ---- */
struct xrec {
  struct xfer x;
  const struct region_mem *region; /* its memory, registered; NULL: it bounces */
  struct vec_at at;                /* memory side of cut */
  uint64_t cut, landed;            /* bytes given to parts; bytes in place */
  uint64_t bad_at;                 /* bytes before the first that failed; UINT64_MAX */
  uint64_t deadline_ns, begun_ns;
  uint32_t parts; /* of it that are out, or wait to go out again */
  uint32_t next;  /* free list, or the queue of those with something to cut */
  uint32_t crc;
  bool used, queued;
  bool bounced;    /* some of it */
  uint16_t reason; /* it fails, once no part is out */
  int32_t err;
  uint64_t bad_unit;
  uintptr_t bad_addr;
};
enum part_state { PART_FREE = 0, PART_OUT = 1, PART_AGAIN = 2 };
struct part {
  uint32_t x; /* RDMA_NONE: its xfer has ended without it */
  uint32_t next;
  uint32_t crc;
  uint8_t state, path, tries;
  bool write;
  bool direct; /* the slot is not used */
  uint32_t bytes;
  uint64_t off; /* in the xfer */
  uint64_t posted_ns;
  struct vec_at at; /* where in memory */
};
struct lane_path {
  struct dial *dial;
  struct ibv_qp *qp;
  uint8_t local_dev, remote_dev;
  bool up, dying;
  uint32_t open, room, gen;
  uint64_t bytes, ok_ns;
};
struct lane_cq {
  struct ibv_comp_channel *channel;
  struct ibv_cq *cq;
  bool armed, spent; /* spent: there was something since it was armed */
};
struct rdma_lane {
  struct rdma_dev *d;
  int epoll, bell; /* bell: the link thread's, and done records that no device brings */
  struct lane_cq cq[WIRE_DEVS];
  struct lane_path path[ADDRESS_PATHS_MAX];
  struct xrec *x;
  struct part *part; /* part i has bounce slot i */
  struct xfer_done *done;
  uint32_t x_free, part_free, parts_n, parts_used;
  uint32_t cut_head, cut_tail;     /* xrecs with something to cut */
  uint32_t again_head, again_tail; /* parts to go out again */
  uint32_t done_head, done_tail;   /* free-running */
  uint32_t xs;                     /* in use */
  uint32_t turn;
  uint64_t bounce_off; /* of slot 0 in the device's bounce memory */
  uint64_t now_ns;
  uint64_t next_ns; /* [STAT] something ends by then; UINT64_MAX */
  uint32_t sges;    /* of a work request */
  uint32_t sges_rd; /* of a READ */
  bool doze;        /* the lane means to sleep: the channels must tell */
  uint32_t rung;    /* [LINK] the bell was rung since it was last read */
  struct tally tally;
} __attribute__((aligned(64)));

struct rdma_dev {
  struct dev dev; /* first */
  char name[64], node[WIRE_NAME_MAX];
  struct address_path path[ADDRESS_PATHS_MAX];
  uint32_t paths, lanes, depth, timeout_ms;
  uint64_t lane_bounce, piece_max;
  bool bounces; /* nothing of engines is registered */
  struct auth_key key;

  pthread_mutex_t lock; /* map, wipes, calls */
  pthread_cond_t freed;
  struct extent_map map;
  struct list wipes; /* extents that are to read as zero before anybody else has them */
  uint32_t wiping;   /* of them, with the one that is being asked for */
  uint32_t gen;      /* [LINK] rises when what the peer told us is void: another lease, another epoch */

  /* worker */
  bool opened;
  struct verbs verbs;
  char *bounce;
  struct verbs_mem bounce_mem;
  struct regions regions;
  struct rdma_lane *lane;
  uint64_t lent; /* [KNOWN] struct lent * */
  struct link *link;
};

static inline struct rdma_dev *rdma_of(struct dev *d)
{
  return CONTAINER_OF(d, struct rdma_dev, dev);
}

struct wipe {
  struct list link;
  uint64_t off, bytes;
};

/* dial.c; for the link thread. Each returns 0 or -errno; a failed one has been taken down. */
int dial_begin(struct rdma_dev *d, struct rdma_event_channel *ch, struct dial *l, uint64_t now_ns);
/* An event of its id. 1: it is open now; 0: on its way; -errno: it failed or ended (not taken down). */
int dial_event(struct rdma_dev *d, struct dial *l, const struct rdma_cm_event *ev, struct pipe *control,
               const struct wire_join *join);
void dial_end(struct dial *l, struct pipe *control);

/* hot.c */
int lane_make(struct rdma_dev *d, struct rdma_lane *l, uint32_t idx);
void lane_unmake(struct rdma_lane *l);
void lane_ring(struct rdma_lane *l);
extern const struct transport_hot hot_rdma;

struct xfer_done *lane_done(struct rdma_lane *l);

/* part.c; for the lane's thread */
void lane_end(struct rdma_lane *l, uint32_t x); /* if nothing of it is out any more */
void lane_pump(struct rdma_lane *l);
void lane_wc(struct rdma_lane *l, const struct ibv_wc *wc);
void lane_fail_path(struct rdma_lane *l, struct lane_path *p);
/* The same of our own accord: it is dialled again at once, and what is flushed with it is not at fault. */
void lane_cut_path(struct rdma_lane *l, struct lane_path *p);
void part_free(struct rdma_lane *l, uint32_t part);
/* It ends so, once nothing of it is out; the first reason counts. bytes: the prefix that is in place, at most. */
void xfer_fail(struct xrec *r, uint16_t reason, int err, uint64_t bytes);

/* deadline.c; for the lane's thread */
void lane_expire(struct rdma_lane *l);

#endif
