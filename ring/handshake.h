/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages with fds on the session's SOCK_SEQPACKET socket, both ends, and who the peer is. Surplus, missing or
 * truncated fds are a protocol error, and whatever arrived is closed.
 */
#ifndef RING_HANDSHAKE_H
#define RING_HANDSHAKE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <dray/ring_abi.h>

#define HANDSHAKE_FDS_MAX 4
#define HANDSHAKE_MSG_MAX 512

union handshake_msg {
  struct dray_msg_head h;
  struct dray_msg_hello hello;
  struct dray_msg_welcome welcome;
  struct dray_msg_region region;
  struct dray_msg_id id;
  struct dray_msg_layout layout;
  struct dray_msg_key key;
  struct dray_msg_reply reply;
  struct dray_msg_slab slab;
  uint8_t raw[HANDSHAKE_MSG_MAX];
};

/* Sends one message with nfds (<= HANDSHAKE_FDS_MAX) fds, never blocking. 0, -EAGAIN (the peer does not read), -EPIPE,
 * ... */
int handshake_send(int sock, const void *msg, size_t n, const int *fds, int nfds);
/* Receives one message. ret_fds has HANDSHAKE_FDS_MAX places, unused ones become -1. Returns its length; 0 on hang-up;
   -EAGAIN; -EPROTO when it is shorter than a head, longer than a message, of a length that is not its type's, or
   brought another number of fds than its type takes (they are closed). */
int handshake_recv(int sock, union handshake_msg *ret_msg, int ret_fds[HANDSHAKE_FDS_MAX]);
/* Waits for readability at most timeout_ms: 0, -ETIMEDOUT. */
int handshake_wait(int sock, int timeout_ms);
/* The peer's credentials and a pidfd of it (SO_PEERPIDFD, or -ENOPROTOOPT before Linux 6.5: then the engine sends its
   own, which handshake_pidfd_is() checks). */
int handshake_peer(int sock, pid_t *ret_pid, uid_t *ret_uid, gid_t *ret_gid);
int handshake_pidfd(int sock);
/* True when fdinfo of that pidfd names this pid. */
bool handshake_pidfd_is(int pidfd, pid_t pid);
/* HELLO alone: 0, -EPROTO (magic, sizes, unterminated strings, unknown major), with the field in ret_what. */
int handshake_hello_check(const struct dray_msg_hello *h, const char **ret_what);
#endif
