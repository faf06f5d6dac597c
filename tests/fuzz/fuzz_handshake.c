/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ring/handshake.h"
#include "ring/layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
  int s[2], fds[HANDSHAKE_FDS_MAX];
  union handshake_msg m;
  const char *what = NULL;
  struct dray_geometry g;
  if (n == 0 || n > 4096)
    return 0;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s) < 0)
    abort();
  if (send(s[0], data, n, 0) == (ssize_t)n && handshake_recv(s[1], &m, fds) > 0) {
    if (m.h.type == DRAY_MSG_HELLO && handshake_hello_check(&m.hello, &what) < 0 && !what)
      abort();
    if (m.h.type == DRAY_MSG_WELCOME)
      layout_verify(&m.welcome.geo, &g);
  }
  close(s[0]);
  close(s[1]);
  return 0;
}
