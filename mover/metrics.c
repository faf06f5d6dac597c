/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/metrics.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/units.h"
#include "include/priv/bits.h"
#include "mover/daemon.h"

int metrics_address(const char *text, uint32_t *ret_ip, uint16_t *ret_port)
{
  char host[32];
  const char *colon = strrchr(text, ':');
  struct in_addr in;
  uint64_t port;
  if (!colon || (size_t)(colon - text) >= sizeof host)
    return -EINVAL;
  memcpy(host, text, (size_t)(colon - text));
  host[colon - text] = 0;
  if (inet_pton(AF_INET, host, &in) != 1 || units_count(colon + 1, 1, 65535, &port) < 0)
    return -EINVAL;
  *ret_ip = in.s_addr;
  *ret_port = (uint16_t)port;
  return 0;
}

#ifdef HAVE_MICROHTTPD
#include <microhttpd.h>

#define SCRAPERS_MAX 16u
#define SCRAPE_SECONDS 5u
#define SCRAPE_MEMORY (32u << 10) /* what a request's head may take */

bool metrics_built(void)
{
  return true;
}

static enum MHD_Result answer(struct MHD_Connection *c, unsigned code, const char *type, char *text, size_t n,
                              enum MHD_ResponseMemoryMode mode)
{
  struct MHD_Response *r = MHD_create_response_from_buffer(n, text, mode);
  if (!r) {
    if (mode == MHD_RESPMEM_MUST_FREE)
      free(text);
    return MHD_NO;
  }
  MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
  enum MHD_Result done = MHD_queue_response(c, code, r);
  MHD_destroy_response(r);
  return done;
}

static enum MHD_Result plain(struct MHD_Connection *c, unsigned code, const char *text)
{
  return answer(c, code, "text/plain; charset=utf-8", (char *)(uintptr_t)text, strlen(text), MHD_RESPMEM_PERSISTENT);
}

static enum MHD_Result serve(void *ctx, struct MHD_Connection *c, const char *url, const char *method,
                             const char *version, const char *body, size_t *body_n, void **state)
{
  struct daemon *d = ctx;
  (void)version;
  (void)body;
  (void)body_n;
  (void)state;
  if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD))
    return plain(c, MHD_HTTP_METHOD_NOT_ALLOWED, "GET only\n");
  if (!strcmp(url, "/healthz"))
    return plain(c, MHD_HTTP_OK, "ok\n");
  if (!strcmp(url, "/readyz"))
    return stat_read(&d->unready) ? plain(c, MHD_HTTP_SERVICE_UNAVAILABLE, "draining\n")
                                  : plain(c, MHD_HTTP_OK, "ready\n");
  if (strcmp(url, "/metrics"))
    return plain(c, MHD_HTTP_NOT_FOUND, "/metrics /healthz /readyz\n");
  const char *accept = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
  bool open = accept && strstr(accept, "application/openmetrics-text");
  size_t n;
  char *text = metrics_text(d, open, &n);
  if (!text)
    return plain(c, MHD_HTTP_INTERNAL_SERVER_ERROR, "no memory\n");
  return answer(c, MHD_HTTP_OK,
                open ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                     : "text/plain; version=0.0.4; charset=utf-8",
                text, n, MHD_RESPMEM_MUST_FREE);
}

int metrics_start(struct daemon *d, struct err *e)
{
  struct sockaddr_in at = {.sin_family = AF_INET};
  uint16_t port;
  if (!d->cfg->metrics)
    return 0;
  if (metrics_address(d->cfg->metrics, &at.sin_addr.s_addr, &port) < 0)
    return err_set(e, -EINVAL, "metrics: '%s' is not an address such as 127.0.0.1:9469", d->cfg->metrics);
  at.sin_port = htons(port);
  /* the address is free again as soon as a worker is dead: the next one needs it at once */
  d->metrics = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, serve, d, MHD_OPTION_SOCK_ADDR, &at,
                                MHD_OPTION_CONNECTION_LIMIT, SCRAPERS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
                                SCRAPE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)SCRAPE_MEMORY,
                                MHD_OPTION_LISTENING_ADDRESS_REUSE, 1u, MHD_OPTION_END);
  return d->metrics ? 0 : err_set(e, -EADDRINUSE, "metrics: cannot listen on %s: %s", d->cfg->metrics, strerror(errno));
}

void metrics_stop(struct daemon *d)
{
  if (d->metrics)
    MHD_stop_daemon(d->metrics);
  d->metrics = NULL;
}
#else
bool metrics_built(void)
{
  return false;
}
int metrics_start(struct daemon *d, struct err *e)
{
  (void)d;
  (void)e;
  return 0;
}
void metrics_stop(struct daemon *d)
{
  (void)d;
}
#endif
