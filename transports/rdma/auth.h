/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who a peer is: HMAC-SHA-256 over both nonces, both names and the answering side's epoch, with a key that both have in
 * a file. Each side shows that it has the key; neither sends it. Without a key only addresses of this very host are
 * spoken to. What follows on the connection is not encrypted: the fabric is trusted not to be rewritten on the way, as
 * RDMA itself is (docs/RDMA.md).
 */
#ifndef TRANSPORTS_RDMA_AUTH_H
#define TRANSPORTS_RDMA_AUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "include/priv/err.h"
#include "transports/rdma/wire.h"

#define AUTH_KEY_MIN 16u
#define AUTH_KEY_MAX 4096u

struct sockaddr;

struct auth_key {
  uint32_t bytes; /* 0: none */
  uint8_t key[AUTH_KEY_MAX];
};
/* What both sides know after HELLO and CHALLENGE. */
struct auth_facts {
  uint8_t asker[WIRE_NONCE], answerer[WIRE_NONCE];
  char asker_name[WIRE_NAME_MAX], answerer_name[WIRE_NAME_MAX];
  uint32_t epoch;
};

/* Reads a key file: AUTH_KEY_MIN..AUTH_KEY_MAX bytes, any bytes, all of them the key but line ends at its end; nobody
   but its owner may read it. path NULL: no key. 0 or -errno with a text. */
int auth_key_read(const char *path, struct auth_key *ret_key, struct err *e);
/* 0, -EIO: the kernel gives no randomness. */
int auth_nonce(uint8_t ret_nonce[WIRE_NONCE]);

/* What the asking (AUTH), then the answering side (WELCOME) shows; zeros without a key. */
void auth_mac(const struct auth_key *k, const struct auth_facts *f, bool asking, uint8_t ret_mac[WIRE_MAC]);
/* For connections that join the session; of everything in j but the mac. */
void auth_join_mac(const struct auth_key *k, const struct auth_facts *f, const struct wire_join *j,
                   uint8_t ret_mac[WIRE_MAC]);
/* In constant time. */
bool auth_same(const uint8_t a[WIRE_MAC], const uint8_t b[WIRE_MAC]);

/* Is it an address of this host: loopback, or one that an interface here has. */
bool auth_own_address(const struct sockaddr *a);
#endif
