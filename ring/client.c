/* SPDX-License-Identifier: Apache-2.0 */
/* The session: open, submit, reap, wait. */
#include "ring/client_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "include/priv/cleanup.h"
#include "ring/doorbell.h"
#include "ring/layout.h"
#include "ring/region.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

uint64_t client_now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

const char *dray_open_error(int error)
{
  switch (error < 0 ? -error : error) {
  case 0:
    return "ok";
  case ENOENT:
    return "no mover: the socket does not exist; start drayd, or set DRAY_SOCKET";
  case ECONNREFUSED:
    return "no mover: nobody listens on the socket; start drayd";
  case EACCES:
    return "refused: this uid, socket and token belong to no tenant of the mover's configuration";
  case EMFILE:
    return "refused: the session cap is reached (limits.sessions)";
  case EPROTO:
    return "the mover speaks another version of the protocol";
  case ETIMEDOUT:
    return "the mover did not answer in time";
  case EINVAL:
    return "a parameter is out of range";
  case ENOMEM:
    return "out of memory or of mappings";
  case ECONNRESET:
    return "the mover hung up";
  default:
    return "could not open the session";
  }
}

static int client_connect(const char *path)
{
  struct sockaddr_un a = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof a.sun_path)
    return -EINVAL;
  memcpy(a.sun_path, path, strlen(path));
  CLEAN_FD s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (s < 0)
    return -errno;
  if (connect(s, (struct sockaddr *)&a, sizeof a) < 0)
    return -errno;
  return take_fd(&s);
}

/* Maps U and M by the mover's fds; our own arithmetic says where things are. */
static int client_map(struct dray *d, const int fds[HANDSHAKE_FDS_MAX])
{
  d->u = region_map(fds[0], 0, d->geo.u_size, true, false);
  d->m = region_map(fds[1], 0, d->geo.m_size, false, false);
  if (!d->u || !d->m)
    return -ENOMEM;
  if (d->m->magic != DRAY_RING_MAGIC)
    return -EPROTO;
  int r = wire_map(&d->sq.w, fds[0], d->geo.sq_off, d->geo.sq_slots, 1, index_see(&d->m->sq_cons));
  if (r == 0)
    r = wire_map(&d->cq.w, fds[1], d->geo.cq_off, d->geo.cq_slots, 0, d->u->cq_cons);
  if (r < 0)
    return r;
  d->sq.mine = &d->u->sq_prod;
  d->sq.theirs = &d->m->sq_cons;
  d->cq.theirs = &d->m->cq_prod;
  d->cq.mine = &d->u->cq_cons;
  return 0;
}

static int client_handshake(struct dray *d, const struct dray_params *p)
{
  struct dray_msg_hello h;
  memset(&h, 0, sizeof h);
  h.h.type = DRAY_MSG_HELLO;
  h.h.seq = ++d->seq;
  h.magic = DRAY_RING_MAGIC;
  h.major = DRAY_RING_MAJOR;
  h.minor = DRAY_RING_MINOR;
  h.sqe_size = sizeof(struct dray_sqe);
  h.cqe_size = sizeof(struct dray_cqe);
  h.entries = p->entries;
  h.items = p->items;
  if (strlen(p->agent) >= sizeof h.agent || strlen(p->token) >= sizeof h.token)
    return -EINVAL;
  memcpy(h.agent, p->agent, strlen(p->agent));
  memcpy(h.token, p->token, strlen(p->token));

  /* where SO_PEERPIDFD is missing the mover checks this one against SO_PEERCRED; elsewhere it is ignored */
  CLEAN_FD self = (int)syscall(SYS_pidfd_open, getpid(), 0);
  int r = handshake_send(d->sock, &h, sizeof h, &self, self >= 0 ? 1 : 0);
  if (r < 0)
    return r == -EPIPE ? -ECONNRESET : r;

  union handshake_msg msg;
  int fds[HANDSHAKE_FDS_MAX];
  r = handshake_wait(d->sock, (int)d->timeout_ms);
  if (r == 0)
    r = handshake_recv(d->sock, &msg, fds);
  if (r == 0)
    return -ECONNRESET;
  if (r < 0)
    return r;
  bool whole = msg.h.type == DRAY_MSG_WELCOME && fds[3] >= 0;
  if (msg.h.type != DRAY_MSG_WELCOME)
    r = -EPROTO;
  else if (msg.welcome.error)
    r = msg.welcome.error < 0 ? msg.welcome.error : -EPROTO;
  else if (!whole || layout_verify(&msg.welcome.geo, &d->geo) < 0 || d->geo.entries != p->entries ||
           d->geo.items != p->items)
    r = -EPROTO;
  else
    r = client_map(d, fds);
  if (fds[0] >= 0)
    close(fds[0]);
  if (fds[1] >= 0)
    close(fds[1]);
  d->bell = fds[2];
  d->poll = fds[3];
  if (r < 0)
    return r;
  d->epoch = (uint16_t)msg.welcome.epoch;
  d->session = msg.welcome.session;
  memcpy(d->tenant, msg.welcome.tenant, sizeof d->tenant - 1);
  return 0;
}

int dray_open(const struct dray_params *params, struct dray **ret_dray)
{
  struct dray_params p;
  memset(&p, 0, sizeof p);
  if (params) {
    if (params->size < offsetof(struct dray_params, timeout_ms) || params->size > sizeof p)
      return -EINVAL;
    memcpy(&p, params, params->size);
  }
  const char *env = getenv("DRAY_SOCKET"), *token = getenv("DRAY_TOKEN");
  p.socket = p.socket ? p.socket : env && *env ? env : DRAY_SOCKET_DEFAULT;
  p.agent = p.agent ? p.agent : "default";
  p.token = p.token ? p.token : token ? token : "";
  p.entries = p.entries ? p.entries : 256;
  p.items = p.items ? p.items : 8192;
  if (p.entries > DRAY_ENTRIES_MAX || p.items > DRAY_ITEMS_MAX)
    return -EINVAL;

  struct dray *d = calloc(1, sizeof *d);
  if (!d)
    return -ENOMEM;
  d->bell = d->poll = -1;
  d->timeout_ms = p.timeout_ms ? p.timeout_ms : 5000;
  /* with one CPU the mover can only run when we do not */
  d->spin_ns = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? (p.spin_us ? p.spin_us : 30) * 1000u : 0;
  d->row_groups = (p.items + CLIENT_ROW_GROUP - 1) / CLIENT_ROW_GROUP;
  d->rows = calloc(d->row_groups / 64 + 1, sizeof *d->rows);
  d->sock = d->rows ? client_connect(p.socket) : -ENOMEM;
  int r = d->sock < 0 ? d->sock : client_handshake(d, &p);
  if (r < 0) {
    dray_close(d);
    return r;
  }
  *ret_dray = d;
  return 0;
}

void dray_close(struct dray *d)
{
  if (!d)
    return;
  client_slabs_free(d);
  wire_unmap(&d->sq.w);
  wire_unmap(&d->cq.w);
  if (d->u)
    munmap(d->u, d->geo.u_size);
  if (d->m)
    munmap((void *)(uintptr_t)d->m, d->geo.m_size);
  close_fd(&d->bell);
  close_fd(&d->poll);
  if (d->sock >= 0)
    close(d->sock);
  free(d->rows);
  free(d);
}

const char *dray_tenant(const struct dray *d)
{
  return d->tenant;
}
uint64_t dray_session(const struct dray *d)
{
  return d->session;
}

#define AHEAD 8u /* slots of the SQ fetched before they are written */
static struct dray_sqe *client_sqe(struct dray *d, uint32_t limit)
{
  int err = 0;
  if (UNLIKELY(d->dead || d->out >= limit))
    return NULL;
  struct dray_sqe *s = wire_out_slot(&d->sq, &err);
  if (UNLIKELY(!s))
    return NULL;
  d->out++;
  wire_out_ahead(&d->sq, AHEAD, 1);
  memset(s, 0, sizeof *s);
  s->ver = 1;
  return s;
}
struct dray_sqe *dray_get_sqe(struct dray *d)
{
  return client_sqe(d, d->geo.entries);
}
struct dray_sqe *dray_get_sqe_cancel(struct dray *d)
{
  return client_sqe(d, d->geo.entries + DRAY_CANCEL_RESERVE);
}
uint32_t dray_sq_pos(const struct dray *d)
{
  return wire_out_pos(&d->sq) - 1;
}

int dray_submit(struct dray *d)
{
  if (UNLIKELY(d->dead))
    return -ECONNRESET;
  if (d->arena)
    stream_fence();                             /* dray_prep_item(): rows before the directive that names them */
  uint32_t n = wire_out_commit(&d->sq);         /* [SQ] */
  if (n && doorbell_needed(&d->m->need_wakeup)) /* [BELL] */
    doorbell_ring(d->bell);
  return (int)n;
}

/* Fills the cache from the ring. 0 or -EPROTO. */
static int client_fetch(struct dray *d)
{
  int k = wire_in_take(&d->cq, d->cache, CLIENT_CACHE); /* [CQ] */
  if (k < 0)
    return k;
  d->cached = (uint32_t)k;
  d->at = 0;
  /* they are copies: the slots go back at once and together, since each store to that line costs the mover a miss. How
     much may be under way is held by d->out, which falls as they are seen */
  if (k)
    wire_in_release(&d->cq, 0); /* [CQC] */
  return 0;
}

const struct dray_cqe *dray_peek(struct dray *d)
{
  if (d->at == d->cached) {
    if (client_fetch(d) < 0)
      d->dead = true;
    if (d->at == d->cached) {
      if (LIKELY(!d->dead) || d->fatal_told)
        return NULL;
      /* the mover is gone and everything it had posted was seen: say so once, in the ring's own words */
      memset(&d->cache[0], 0, sizeof d->cache[0]);
      d->cache[0].type = DRAY_FATAL;
      d->cache[0].status = DRAY_FAULT;
      d->cache[0].reason = DRAY_ABORTED;
      d->cache[0].path = DRAY_PATH_NONE;
      d->cache[0].epoch = d->epoch;
      d->cached = 1;
      d->at = 0;
    }
  }
  if (UNLIKELY(d->cache[d->at].type == DRAY_TIER_STATE))
    (void)client_drain(d); /* slabs of it are gone: what is mapped must not stay; a dead mover is found elsewhere */
  if (UNLIKELY(d->cache[d->at].type == DRAY_FATAL))
    d->dead = d->fatal_told = true; /* nothing that is submitted from here on would be answered */
  return &d->cache[d->at];
}

void dray_seen(struct dray *d)
{
  if (d->at == d->cached)
    return;
  if (d->cache[d->at].type == DRAY_DONE)
    d->out--;
  /* slabs are announced on the socket: one that polls and never asks for an address would let it run full, and then no
     MAP of a new slab is granted any more */
  if (d->cache[d->at].path == DRAY_PATH_MAP && ++d->maps % CLIENT_MAPS == 0 && client_drain(d) < 0)
    d->dead = true;
  d->at++;
}

static uint32_t client_ready(const struct dray *d)
{
  return d->cached - d->at + (index_see(&d->m->cq_prod) - wire_in_pos(&d->cq));
}

/* Is the mover still there? Marks the session dead when not. */
static void client_liveness(struct dray *d)
{
  struct pollfd p = {.fd = d->sock, .events = 0};
  if (state_see(&d->m->state) != DRAY_M_LIVE || (poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR))) ||
      client_drain(d) < 0)
    d->dead = true;
}

int dray_wait(struct dray *d, unsigned n, int timeout_ms)
{
  if (n == 0 || n > d->geo.cq_slots || timeout_ms < 0)
    return -EINVAL;
  uint32_t have = client_ready(d);
  if (have >= n)
    return (int)have;
  uint64_t start = client_now_ns(), now = start;
  uint64_t end = start + (uint64_t)timeout_ms * 1000000u;
  for (;;) {
    /* poll */
    while (now - start < d->spin_ns && now < end) {
      for (int i = 0; i < 64; i++) {
        have = client_ready(d);
        if (have >= n)
          return (int)have;
        spin_relax();
      }
      now = client_now_ns();
    }
    client_liveness(d);
    have = client_ready(d);
    if (have >= n)
      return (int)have;
    if (d->dead) {
      if (have || !d->fatal_told)
        return (int)(have ? have : 1); /* what is left, or the FATAL notice, can be peeked */
      return -ECONNRESET;
    }
    now = client_now_ns();
    if (now >= end)
      return -ETIMEDOUT;
    /* sleep: raise, fence, look again [BELL]; bounded, since a dead mover wakes nobody */
    flag_raise(&d->u->wake_at, wire_in_pos(&d->cq) + n - (d->cached - d->at));
    flag_raise(&d->u->sleep, DRAY_SLEEP_FUTEX);
    sleep_fence();
    uint32_t seen = index_see(&d->m->cq_prod);
    if (client_ready(d) < n && state_see(&d->m->state) == DRAY_M_LIVE)
      doorbell_sleep(&d->m->cq_prod, seen, MIN_OF(end - now, (uint64_t)100000000u));
    flag_raise(&d->u->sleep, DRAY_AWAKE);
    now = start = client_now_ns();
    have = client_ready(d);
    if (have >= n)
      return (int)have;
    start -= d->spin_ns; /* woken for less than n: no second spin */
  }
}

int dray_fd(const struct dray *d)
{
  return d->poll;
}

int dray_arm(struct dray *d)
{
  char sink[64];
  while (recv(d->poll, sink, sizeof sink, MSG_DONTWAIT) > 0)
    ;
  client_liveness(d);
  flag_raise(&d->u->wake_at, wire_in_pos(&d->cq) + 1);
  flag_raise(&d->u->sleep, DRAY_SLEEP_POLL); /* [BELL] */
  sleep_fence();
  if (client_ready(d) || (d->dead && !d->fatal_told)) {
    flag_raise(&d->u->sleep, DRAY_AWAKE);
    return 1;
  }
  return 0;
}
