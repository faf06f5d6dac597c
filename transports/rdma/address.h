/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses as the configuration writes them, and the clock of deadlines. */
#ifndef TRANSPORTS_RDMA_ADDRESS_H
#define TRANSPORTS_RDMA_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "include/priv/err.h"

#define ADDRESS_PATHS_MAX 4u
#define ADDRESS_PORT 7471u

/* One way to a peer. */
struct address_path {
  bool has_src;
  struct sockaddr_storage src, dst;
  char text[96];
};

/* "10.0.0.1", "10.0.0.1:7471", "[fe80::1]:7471": numbers only, nothing is looked up. 0 or -EINVAL with a text. */
int address_parse(const char *text, struct sockaddr_storage *ret_address, struct err *e);
/* "[SRC>]DST" separated by commas: from the address SRC of ours to DST. 0 or -EINVAL. */
int address_paths(const char *text, struct address_path ret_path[ADDRESS_PATHS_MAX], uint32_t *ret_n, struct err *e);
socklen_t address_bytes(const struct sockaddr_storage *a);
/* CLOCK_MONOTONIC */
uint64_t address_now_ns(void);
#endif
