/* SPDX-License-Identifier: Apache-2.0 */
#include "transports/rdma/serve.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <dray/types.h>

#include "include/priv/cleanup.h"
#include "include/priv/order.h"
#include "transports/rdma/address.h"
#include "transports/rdma/serve_internal.h"

#define TICK_MS 50

void serve_say(struct serve *s, const char *fmt, ...)
{
  char text[256];
  va_list ap;
  if (!s->cfg.say)
    return;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  s->cfg.say(s->cfg.say_ctx, text);
}

static int listen_on(struct serve *s, uint32_t i, struct err *e)
{
  struct sockaddr_storage a;
  int rc = address_parse(s->cfg.listen[i], &a, e);
  if (rc)
    return rc;
  if (!s->host.key.bytes && !auth_own_address((struct sockaddr *)&a))
    return err_set(e, -EACCES, "listen %s: no key_file, and this is no address of this host", s->cfg.listen[i]);
  if (rdma_create_id(s->events, &s->listener[i], NULL, RDMA_PS_TCP))
    return err_set(e, -errno, "listen %s: %s", s->cfg.listen[i], strerror(errno));
  int on = 1;
  rdma_set_option(s->listener[i], RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on);
  if (rdma_bind_addr(s->listener[i], (struct sockaddr *)&a) || rdma_listen(s->listener[i], 64))
    return err_set(e, -errno, "listen %s: %s%s", s->cfg.listen[i], strerror(errno),
                   errno == ENODEV || errno == EADDRNOTAVAIL ? ": no verbs device has this address" : "");
  return 0;
}

static int serve_make(struct serve *s, struct err *e)
{
  const struct serve_config *cfg = &s->cfg;
  snprintf(s->host.name, sizeof s->host.name, "%s", cfg->name);
  s->host.ops = &serve_ops;
  s->host.ctx = s;
  s->host.epoch = cfg->epoch;
  s->host.lease_ms = cfg->lease_ms ? cfg->lease_ms : SERVE_LEASE_MS;
  s->host.cell_max = cfg->cell_max ? cfg->cell_max : WIRE_CELL_MAX;
  s->handle = calloc(SERVE_HANDLES, sizeof *s->handle);
  s->slab = calloc(SERVE_SLABS, sizeof *s->slab);
  s->epoll = epoll_create1(EPOLL_CLOEXEC);
  s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (!s->handle || !s->slab || s->epoll < 0 || s->wake < 0)
    return err_set(e, -ENOMEM, "listen: out of memory or descriptors");
  verbs_load();
  return auth_key_read(cfg->key_file, &s->host.key, e);
}

static int serve_listen(struct serve *s, struct err *e)
{
  const struct serve_config *cfg = &s->cfg;
  int rc = verbs_open(&s->verbs, cfg->piece_max, e);
  if (rc)
    return rc;
  s->events = rdma_create_event_channel();
  if (!s->events || fcntl(s->events->fd, F_SETFL, O_NONBLOCK) < 0)
    return err_set(e, -errno, "/dev/infiniband/rdma_cm: %s: load rdma_ucm", strerror(errno));
  for (uint32_t i = 0; !rc && i < cfg->listen_n; i++)
    rc = listen_on(s, i, e);
  struct epoll_event w = {.events = EPOLLIN, .data.ptr = &s->wake}, c = {.events = EPOLLIN, .data.ptr = &s->events};
  if (!rc && (epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->wake, &w) || epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->events->fd, &c)))
    rc = err_set(e, -errno, "listen: epoll: %s", strerror(errno));
  return rc;
}

int serve_open(const struct serve_config *cfg, struct err *e, struct serve **ret_serve)
{
  struct serve *s = calloc(1, sizeof *s);
  if (!s)
    return err_set(e, -ENOMEM, "listen: out of memory");
  s->cfg = *cfg;
  s->epoll = s->wake = -1;
  s->next_lease = (uint64_t)cfg->epoch << 32 | 1; /* of another epoch is another's */
  list_init(&s->conns);
  pthread_mutex_init(&s->slabs_lock, NULL);
  int rc = serve_make(s, e);
  if (rc) {
    serve_close(s);
    return rc;
  }
  *ret_serve = s;
  return 0;
}

static void serve_events(struct serve *s)
{
  struct rdma_cm_event *ev;
  while (rdma_get_cm_event(s->events, &ev) == 0)
    serve_event(s, ev);
}

static void *serve_main(void *arg)
{
  struct serve *s = arg;
  sigset_t set;
  sigfillset(&set);
  sigdelset(&set, SIGBUS); /* CRCs are taken here, under the guard */
  sigdelset(&set, SIGSEGV);
  pthread_sigmask(SIG_SETMASK, &set, NULL);
  pthread_setname_np(pthread_self(), "dray-serve");
  uint64_t tick = 0;
  while (!stop_see(&s->stop)) {
    struct epoll_event got[16];
    bool again = s->more, events = false;
    int n = epoll_wait(s->epoll, got, 16, again ? 0 : TICK_MS);
    s->more = false;
    s->now_ns = address_now_ns();
    for (int i = 0; i < n; i++) {
      uint64_t v;
      if (got[i].data.ptr == &s->wake)
        (void)!read(s->wake, &v, sizeof v);
      else if (got[i].data.ptr == &s->events)
        events = true;
      else
        serve_conn_readable(got[i].data.ptr); /* marks, never frees: others of this batch may be the same */
    }
    if (again) /* the channel does not say again what was left */
      serve_conn_more(s);
    if (events)
      serve_events(s);
    if (s->now_ns - tick > TICK_MS * 1000000ull || n > 0) {
      serve_conn_tick(s);
      serve_mem_tick(s);
      tick = s->now_ns;
    }
  }
  return NULL;
}

int serve_start(struct serve *s, struct err *e)
{
  int rc = serve_listen(s, e);
  if (rc)
    return rc;
  s->now_ns = address_now_ns();
  rc = pthread_create(&s->thread, NULL, serve_main, s);
  s->started = rc == 0;
  return rc ? err_set(e, -rc, "listen: thread: %s", strerror(rc)) : 0;
}

void serve_close(struct serve *s)
{
  if (!s)
    return;
  if (s->started) {
    uint64_t one = 1;
    stop_raise(&s->stop);
    (void)!write(s->wake, &one, sizeof one);
    pthread_join(s->thread, NULL);
  }
  for (uint32_t i = 0; i < SERVE_LISTEN_MAX; i++)
    if (s->listener[i])
      rdma_destroy_id(s->listener[i]);
  serve_conn_close_all(s);
  if (s->handle && s->slab)
    serve_mem_close(s);
  if (s->events)
    rdma_destroy_event_channel(s->events);
  verbs_close(&s->verbs);
  close_fd(&s->epoll);
  close_fd(&s->wake);
  explicit_bzero(&s->host.key, sizeof s->host.key);
  pthread_mutex_destroy(&s->slabs_lock);
  free(s->handle);
  free(s->slab);
  free(s);
}

void serve_stats(struct serve *s, struct serve_stats *ret_stats)
{
  *ret_stats = (struct serve_stats){.peers = stat_read(&s->stats.peers),
                                    .connections = stat_read(&s->stats.connections),
                                    .refused = stat_read(&s->stats.refused),
                                    .lent_bytes = stat_read(&s->stats.lent_bytes),
                                    .handles = stat_read(&s->stats.handles),
                                    .registered_slabs = stat_read(&s->stats.registered_slabs)};
}
