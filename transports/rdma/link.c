/* SPDX-License-Identifier: Apache-2.0 */
#include "transports/rdma/link.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>

#include <dray/types.h>

#include "include/priv/cleanup.h"
#include "include/priv/order.h"
#include "transports/rdma/link_internal.h"

#define TICK_MS 10
#define IDLE_MS 100 /* there may be hundreds of links */
#define PING_NS 500000000ull
#define DEAF_NS 1000000000ull

void link_ring(struct link *k)
{
  uint64_t one = 1;
  (void)!write(k->wake, &one, sizeof one);
}

unsigned link_status(const struct link *k)
{
  return link_see(&k->status);
}

void link_paths(const struct link *k, uint32_t *ret_open, uint32_t *ret_all)
{
  *ret_open = hint_read(&k->paths_open);
  *ret_all = k->d->paths;
}

void link_tell(const struct link *k, struct dev_paths *p)
{
  unsigned status = link_status(k);
  uint64_t at = stat_read(&k->retry_ns), now = address_now_ns();
  link_paths(k, &p->open, &p->all);
  p->reach = status == LINK_OPEN ? DEV_OPEN : status == LINK_DOWN ? DEV_DOWN : DEV_TRYING;
  p->why = (const char *)(uintptr_t)stat_read(&k->why);
  p->epoch = (uint32_t)stat_read(&k->epoch);
  p->dials = stat_read(&k->dials);
  p->lost = stat_read(&k->lost);
  p->backoff_ms = status != LINK_OPEN && at > now ? (uint32_t)((at - now + 999999u) / 1000000u) : 0;
  p->asked = stat_read(&k->answered);
  p->answer_ns = stat_read(&k->answer_ns);
}

static void status_set(struct link *k, unsigned status)
{
  if (link_see(&k->status) == status)
    return;
  link_set(&k->status, status);
  for (uint32_t i = 0; i < k->d->lanes; i++)
    lane_ring(&k->d->lane[i]); /* what waits for a path looks again */
}

/* ---- the control connection ---- */

void link_drop(struct link *k, const char *why)
{
  if (k->control.step == STEP_IDLE)
    return;
  stat_set(&k->why, (uintptr_t)why);
  if (k->pipe.channel)
    epoll_ctl(k->epoll, EPOLL_CTL_DEL, k->pipe.channel->fd, NULL);
  dial_end(&k->control, &k->pipe);
  bool was = k->phase == PHASE_IN;
  k->phase = PHASE_NONE;
  calls_lost(k);
  backoff_fail(&k->control.backoff, k->now_ns, k->instance);
  if (was)
    k->control.backoff.at_ns = k->now_ns; /* the first attempt after a loss is at once, and on another path */
  k->control.path = (uint8_t)((k->control.path + 1) % k->d->paths);
  stat_add(&k->lost, was);
  stat_set(&k->retry_ns, k->control.backoff.at_ns);
  /* a peer that does not answer is down; one that was lost a moment ago may be back in the next */
  status_set(k, was ? LINK_TRYING : LINK_DOWN);
}

static void control_dial(struct link *k)
{
  k->control.lane = WIRE_CONTROL;
  k->control.step = STEP_ADDRESS; /* so that link_drop sees it */
  stat_add(&k->dials, 1);
  if (dial_begin(k->d, k->channel, &k->control, k->now_ns)) {
    k->control.step = STEP_ADDRESS;
    link_drop(k, "it cannot be dialled");
  }
}

static void control_open(struct link *k)
{
  union wire_msg q;
  struct epoll_event w = {.events = EPOLLIN, .data.ptr = &k->pipe};
  bool own = auth_own_address((struct sockaddr *)&k->d->path[k->control.path].dst);
  k->phase = PHASE_HELLO;
  k->control.until_ns = k->now_ns + RDMA_DIAL_MS * 1000000ull;
  if (epoll_ctl(k->epoll, EPOLL_CTL_ADD, k->pipe.channel->fd, &w) ||
      hail_begin(&k->hail, &k->d->key, k->d->node, k->instance, own, ++k->next_id, &q) || pipe_send(&k->pipe, &q))
    link_drop(k, "HELLO cannot be sent");
}

/* In: from here on questions are answered. */
void link_is_in(struct link *k)
{
  k->phase = PHASE_IN;
  stat_set(&k->epoch, k->hail.epoch);
  backoff_reset(&k->control.backoff);
  for (uint32_t i = 0; i < k->d->lanes * k->d->paths; i++)
    k->data[i].backoff.at_ns = k->now_ns;
  k->heard_ns = k->now_ns;
  status_set(k, LINK_OPEN);
}

/* ---- data connections ---- */

static struct dial *data_of(struct link *k, uint32_t lane, uint32_t path)
{
  return &k->data[lane * k->d->paths + path];
}

static void data_drop(struct link *k, struct dial *l)
{
  bool quiet = l->quiet;
  dial_end(l, NULL);
  link_set(&l->word, DIAL_NONE);
  if (quiet)
    l->backoff.at_ns = k->now_ns;
  else
    backoff_fail(&l->backoff, k->now_ns, k->instance + l->lane * 8u + l->path);
}

static void data_tick(struct link *k, struct dial *l)
{
  uint32_t word = link_see(&l->word);
  if (word == DIAL_DRAINED) {
    data_drop(k, l);
  } else if (word == DIAL_NONE && l->step != STEP_IDLE && k->now_ns > l->until_ns) {
    l->quiet = false; /* that its last end was our doing excuses one attempt */
    data_drop(k, l);
  } else if (word == DIAL_NONE && l->step == STEP_IDLE && k->phase == PHASE_IN && backoff_due(&l->backoff, k->now_ns)) {
    stat_add(&k->dials, 1);
    if (dial_begin(k->d, k->channel, l, k->now_ns)) {
      l->quiet = false;
      data_drop(k, l);
    }
  }
}

static void data_lose(struct link *k, struct dial *l)
{
  /* the lane's: it is told, and what is out comes back flushed */
  if (link_lose(&l->word, DIAL_UP, DIAL_LOST)) {
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
    ibv_modify_qp(l->qp, &a, IBV_QP_STATE);
  }
  lane_ring(&k->d->lane[l->lane]);
}

void link_void(struct link *k)
{
  link_set(&k->d->gen, link_see(&k->d->gen) + 1);
  for (uint32_t i = 0; i < k->d->lanes * k->d->paths; i++) {
    struct dial *l = &k->data[i];
    if (link_see(&l->word) != DIAL_NONE)
      data_lose(k, l);
    else if (l->step != STEP_IDLE)
      data_drop(k, l);
  }
}

static void data_event(struct link *k, struct dial *l, const struct rdma_cm_event *ev)
{
  struct wire_join join = {.magic = 0};
  if (ev->event == RDMA_CM_EVENT_ROUTE_RESOLVED)
    hail_join(&k->hail, l->lane, l->path, ++k->serial, &join);
  int r = dial_event(k->d, l, ev, NULL, &join);
  if (r == 1) {
    backoff_reset(&l->backoff);
    l->quiet = false;
    l->gen = link_see(&k->d->gen);
    link_set(&l->word, DIAL_UP);
    lane_ring(&k->d->lane[l->lane]);
  } else if (r < 0 && link_see(&l->word) == DIAL_NONE) {
    l->quiet = false;
    l->until_ns = 0; /* taken down by the next tick: its event is not acknowledged yet */
  } else if (r < 0) {
    data_lose(k, l);
  }
}

/* Is there a connection, or is one made anew because we took it down ourselves. */
static bool data_good(const struct link *k, const struct dial *l)
{
  uint32_t word = link_see(&l->word);
  return word == DIAL_UP || (k->phase == PHASE_IN && (word == DIAL_NONE || word == DIAL_DRAINED) && l->quiet);
}

/* A lane that was rung and does not look has no use for its connections now (the one that drains tiers): it does not
   give back what it lost either. */
static bool lane_deaf(const struct link *k, struct dial *l)
{
  if (!link_see(&k->d->lane[l->lane].rung))
    l->deaf_ns = 0;
  else if (!l->deaf_ns)
    l->deaf_ns = k->now_ns;
  return l->deaf_ns && k->now_ns - l->deaf_ns > DEAF_NS;
}

/* A path counts as open while every lane that looks has a connection on it: one whose connection broke has found out
   what the others, idle, have not. */
static void paths_count(struct link *k)
{
  uint32_t n = 0;
  for (uint32_t p = 0; p < k->d->paths; p++) {
    bool open = true, any = false;
    for (uint32_t i = 0; i < k->d->lanes; i++) {
      struct dial *l = data_of(k, i, p);
      open &= lane_deaf(k, l) || data_good(k, l);
      any |= link_see(&l->word) == DIAL_UP;
    }
    n += open && any;
  }
  hint_set(&k->paths_open, n);
}

static bool port_dead(const struct rdma_cm_id *id)
{
  struct ibv_port_attr a;
  return !id || ibv_query_port(id->verbs, id->port_num, &a) != 0 || a.state == IBV_PORT_DOWN;
}

/* A device has something to say. All links of the process share its context, and what one reads the others do not see:
   so nobody reads, and everybody looks for itself. With its port down nothing of ours will be answered. */
static void device_event(struct link *k, uint32_t dev)
{
  for (uint32_t i = 0; i < k->d->lanes * k->d->paths; i++) {
    struct dial *l = &k->data[i];
    if (link_see(&l->word) == DIAL_UP && l->local_dev == dev && port_dead(l->id))
      data_lose(k, l);
  }
  if (k->pipe.id && verbs_index(&k->d->verbs, k->pipe.id->verbs) == (int)dev && port_dead(k->pipe.id))
    link_drop(k, "the port that leads there went down");
}

/* ---- the thread ---- */

static void link_events(struct link *k)
{
  struct rdma_cm_event *ev;
  while (rdma_get_cm_event(k->channel, &ev) == 0) {
    struct dial *l = ev->id->context;
    bool dead = false, open = false;
    if (l == &k->control) {
      struct wire_join join;
      hail_join(&k->hail, WIRE_CONTROL, l->path, 0, &join);
      int r = dial_event(k->d, l, ev, &k->pipe, &join);
      dead = r < 0;
      open = r == 1;
    } else if (l) {
      data_event(k, l, ev);
    }
    rdma_ack_cm_event(ev);
    if (dead)
      link_drop(k, "it refused, or went away");
    if (open)
      control_open(k);
  }
}

static void link_tick(struct link *k)
{
  if (k->control.step == STEP_IDLE && backoff_due(&k->control.backoff, k->now_ns))
    control_dial(k);
  else if (k->control.step != STEP_IDLE && k->phase != PHASE_IN && k->now_ns > k->control.until_ns)
    link_drop(k, "no answer");
  else if (k->phase == PHASE_IN && k->open_n && k->now_ns - k->heard_ns > RDMA_SILENCE_MS * 1000000ull)
    link_drop(k, "silence");
  if (k->phase == PHASE_IN && k->now_ns - k->asked_ns > PING_NS)
    calls_ping(k);
  calls_tick(k);
  for (uint32_t i = 0; i < k->d->lanes * k->d->paths; i++)
    data_tick(k, &k->data[i]);
  if (regions_tick(&k->d->regions, &k->d->verbs))
    link_ring(k); /* a piece at a time: between them peers are answered */
  paths_count(k);
  for (uint32_t i = 0; i < k->d->lanes; i++)
    if (stat_read(&k->d->lane[i].next_ns) <= k->now_ns)
      lane_ring(&k->d->lane[i]);
}

/* Is there something that time alone moves on: a connection on its way, a question open, a lane's deadline. */
static bool link_busy(const struct link *k)
{
  bool busy = k->phase != PHASE_IN || k->open_n;
  for (uint32_t i = 0; !busy && i < k->d->lanes * k->d->paths; i++)
    busy = link_see(&k->data[i].word) != DIAL_UP;
  for (uint32_t i = 0; !busy && i < k->d->lanes; i++)
    busy = stat_read(&k->d->lane[i].next_ns) != UINT64_MAX;
  return busy;
}

static void *link_main(void *arg)
{
  struct link *k = arg;
  sigset_t set;
  sigfillset(&set);
  pthread_sigmask(SIG_SETMASK, &set, NULL);
  pthread_setname_np(pthread_self(), "dray-link");
  while (!stop_see(&k->stop)) {
    struct epoll_event got[8];
    int n = epoll_wait(k->epoll, got, 8, link_busy(k) ? TICK_MS : IDLE_MS);
    k->now_ns = address_now_ns();
    bool events = false, talk = false;
    for (int i = 0; i < n; i++) {
      uint64_t v;
      if (got[i].data.ptr == &k->wake)
        (void)!read(k->wake, &v, sizeof v);
      events |= got[i].data.ptr == &k->channel;
      talk |= got[i].data.ptr == &k->pipe;
      for (uint32_t dev = 0; dev < k->d->verbs.n; dev++)
        if (got[i].data.ptr == &k->d->verbs.dev[dev])
          device_event(k, dev);
    }
    if (talk)
      calls_heard(k);
    if (events)
      link_events(k);
    link_tick(k);
  }
  return NULL;
}

int link_open(struct rdma_dev *d, struct link **ret_link)
{
  struct link *k = calloc(1, sizeof *k);
  if (!k)
    return -ENOMEM;
  k->d = d;
  k->epoll = k->wake = -1;
  k->status = LINK_TRYING;
  list_init(&k->calls);
  list_init(&k->asked);
  pthread_mutex_init(&k->lock, NULL);
  k->data = calloc((size_t)d->lanes * d->paths, sizeof *k->data);
  k->channel = rdma_create_event_channel();
  k->epoll = epoll_create1(EPOLL_CLOEXEC);
  k->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  struct epoll_event w = {.events = EPOLLIN, .data.ptr = &k->wake}, c = {.events = EPOLLIN, .data.ptr = &k->channel};
  if (!k->data || !k->channel || k->epoll < 0 || k->wake < 0 || fcntl(k->channel->fd, F_SETFL, O_NONBLOCK) < 0 ||
      epoll_ctl(k->epoll, EPOLL_CTL_ADD, k->wake, &w) || epoll_ctl(k->epoll, EPOLL_CTL_ADD, k->channel->fd, &c) ||
      getrandom(&k->instance, sizeof k->instance, 0) != sizeof k->instance) {
    int rc = k->channel ? -ENOMEM : -ENODEV;
    link_close(k);
    return rc;
  }
  k->instance |= 1;
  for (uint32_t i = 0; i < d->verbs.n; i++) { /* without it we hear of a dead port when something is sent there */
    struct epoll_event e = {.events = EPOLLIN | EPOLLET, .data.ptr = &d->verbs.dev[i]};
    epoll_ctl(k->epoll, EPOLL_CTL_ADD, d->verbs.dev[i].ctx->async_fd, &e);
  }
  *ret_link = k;
  return 0;
}

int link_start(struct link *k)
{
  k->now_ns = address_now_ns();
  for (uint32_t i = 0; i < k->d->lanes; i++)
    for (uint32_t p = 0; p < k->d->paths; p++) {
      struct dial *l = data_of(k, i, p);
      l->lane = (uint8_t)i;
      l->path = (uint8_t)p;
      k->d->lane[i].path[p].dial = l;
    }
  int rc = pthread_create(&k->thread, NULL, link_main, k);
  k->started = rc == 0;
  return -rc;
}

void link_close(struct link *k)
{
  if (!k)
    return;
  if (k->started) {
    stop_raise(&k->stop);
    link_ring(k);
    pthread_join(k->thread, NULL);
  }
  if (k->control.step != STEP_IDLE)
    link_drop(k, "stop");
  calls_stop(k);
  for (uint32_t i = 0; k->data && i < k->d->lanes * k->d->paths; i++)
    dial_end(&k->data[i], NULL); /* lanes are at rest */
  if (k->channel)
    rdma_destroy_event_channel(k->channel);
  close_fd(&k->epoll);
  close_fd(&k->wake);
  pthread_mutex_destroy(&k->lock);
  free(k->data);
  free(k);
}
