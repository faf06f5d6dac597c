/* SPDX-License-Identifier: Apache-2.0 */
/* The channel between worker and keeper: SOCK_SEQPACKET, fixed-size messages, at most two fds. */
#ifndef MOVER_KEEPER_WIRE_H
#define MOVER_KEEPER_WIRE_H

#include <stdint.h>

#include <dray/ring_abi.h>

enum keeper_op {
  KEEPER_SESSION = 1,
  KEEPER_HOLD = 2,
  KEEPER_DROP = 3,
  KEEPER_READY = 4,
  KEEPER_READ = 5,
  KEEPER_STANDS = 6,
  KEEPER_DETACH = 7,
  KEEPER_DRAINS = 8
};

struct keeper_msg {
  uint32_t op; /* enum keeper_op */
  uint32_t kind, id;
  int32_t error; /* in the answer to SESSION, READ and DETACH */
  struct dray_geometry geo;
};

/* 0 or -errno; waits at most timeout_ms for room. */
int keeper_msg_send(int sock, const struct keeper_msg *m, const int *fds, int n, int timeout_ms);
/* 1 with a message, 0 on hang-up, -errno. Unused places of ret_fds are -1. */
int keeper_msg_recv(int sock, struct keeper_msg *ret_msg, int ret_fds[2], int timeout_ms);
#endif
