/* SPDX-License-Identifier: Apache-2.0 */
/* The control thread's epoll: every fd it watches has a kind and an owner. */
#ifndef MOVER_LOOP_H
#define MOVER_LOOP_H

#include <stdint.h>

struct daemon;
struct session;

enum loop_kind {
  LOOP_SIGNAL = 1,
  LOOP_WAKE = 2,
  LOOP_KEEPER = 3,
  LOOP_LISTEN = 4,
  LOOP_CALLER = 5,
  LOOP_SESSION = 6, /* its socket */
  LOOP_PID = 7,     /* its pidfd */
  LOOP_ADMIN_LISTEN = 8,
  LOOP_ADMIN = 9,
  LOOP_EARLY = 10, /* poison that nobody has touched yet */
  LOOP_HELD = 11,  /* the pidfd of a session that is over and left leases: revoke.h */
};

/* 0 or -errno. owner is handed back with the event; listening sockets have their index in it. */
int loop_add(struct daemon *d, int fd, unsigned kind, void *owner, uint32_t events);
/* Watches a new session and gives it to a lane. */
void loop_session(struct daemon *d, struct session *s);
/* Serves until draining is done. 0 or -errno. */
int loop_run(struct daemon *d);
#endif
