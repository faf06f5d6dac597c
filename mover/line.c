/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/line.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "mover/daemon.h"
#include "mover/metrics.h"

#define SEND_S 2       /* a database that does not answer */
#define DATAGRAM 1400u /* one packet of an ordinary network */
#define BODY 262144u   /* one POST, one write */
#define ONE_LINE 512u

int line_parse(const char *text, struct line *ret_line, struct err *e)
{
  struct line l = {.fd = -1, .to = {.sin_family = AF_INET}};
  uint16_t port = 0;
  char at[64] = "";
  if (strncmp(text, "file:", 5) == 0 && text[5] == '/') {
    l.kind = LINE_FILE;
    l.path = text + 5;
    *ret_line = l;
    return 0;
  }
  bool udp = strncmp(text, "udp:", 4) == 0, http = strncmp(text, "http:", 5) == 0;
  const char *host = text + (udp ? 4 : 5), *slash = http ? strchr(host, '/') : NULL;
  size_t n = slash ? (size_t)(slash - host) : strlen(host);
  if ((udp || (http && slash)) && n < sizeof at) {
    memcpy(at, host, n);
    at[n] = 0;
    l.kind = udp ? LINE_UDP : LINE_HTTP;
    l.path = slash;
  }
  for (const char *p = slash; p && *p; p++)
    if (*p <= ' ' || *p > '~')
      l.kind = LINE_NONE; /* it becomes a line of a request */
  if (l.kind == LINE_NONE || metrics_address(at, &l.to.sin_addr.s_addr, &port) < 0 || (slash && strlen(slash) > 512))
    return err_set(e, -EINVAL, "usage.line: '%.80s' is none of file:/PATH, udp:IP:PORT, http:IP:PORT/write?db=NAME",
                   text);
  l.to.sin_port = htons(port);
  *ret_line = l;
  return 0;
}

void line_close(struct line *l)
{
  if (l->open)
    close_fd(&l->fd);
  l->open = false;
}

/* A tag's value: a comma, a space and an equals sign would end it, a newline the line. */
static size_t tag(char *out, size_t size, const char *name, const char *value)
{
  size_t n = (size_t)snprintf(out, size, ",%s=", name);
  for (const char *p = value; *p && n + 2 < size; p++) {
    if (strchr(", =\\", *p))
      out[n++] = '\\';
    out[n++] = *p < ' ' && *p >= 0 ? '_' : *p;
  }
  out[MIN_OF(n, size - 1)] = 0;
  return n;
}

size_t line_format(const char *node, const char *tenant, const struct usage_row *r, uint64_t now_ns, char *buf,
                   size_t size)
{
  size_t n = (size_t)snprintf(buf, size, "dray_usage");
  const struct {
    const char *name;
    uint64_t v;
  } f[] = {{"directives", r->directives},
           {"read", r->read},
           {"written", r->written},
           {"ns", r->ns},
           {"hits", r->hits},
           {"absent", r->absent},
           {"evicted", r->evicted},
           {"missed", r->other},
           {"refused", r->refused}};
  char request[16];
  snprintf(request, sizeof request, "%u", r->request);
  const char *const tags[][2] = {{"node", *node ? node : "?"},
                                 {"tenant", *tenant ? tenant : "?"},
                                 {"tier", r->tier ? dray_tier_name(r->tier) : "none"},
                                 {"request", request}};
  for (size_t i = 0; i < ARRAY_LEN(tags); i++) {
    if (n + 2 * strlen(tags[i][1]) + 16 >= size)
      return 0;
    n += tag(buf + n, size - n, tags[i][0], tags[i][1]);
  }
  for (size_t i = 0; i < ARRAY_LEN(f) && n < size; i++)
    n += (size_t)snprintf(buf + n, size - n, "%c%s=%llui", i ? ',' : ' ', f[i].name,
                          (unsigned long long)MIN_OF(f[i].v, (uint64_t)INT64_MAX));
  if (n < size)
    n += (size_t)snprintf(buf + n, size - n, " %llu\n", (unsigned long long)now_ns);
  return n < size ? n : 0;
}

static int dial(const struct line *l, int type)
{
  CLEAN_FD fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
  const struct timeval limit = {.tv_sec = SEND_S};
  if (fd < 0)
    return -errno;
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  if (connect(fd, (const struct sockaddr *)&l->to, sizeof l->to) < 0)
    return errno == EINPROGRESS ? -ETIMEDOUT : -errno;
  return take_fd(&fd);
}

static int send_all(int fd, const char *text, size_t n)
{
  for (size_t at = 0; at < n;) {
    ssize_t k = send(fd, text + at, n - at, MSG_NOSIGNAL);
    if (k <= 0)
      return k < 0 ? -errno : -EIO;
    at += (size_t)k;
  }
  return 0;
}

/* One POST; the answer must be 2xx. */
static int post(const struct line *l, const char *text, size_t n)
{
  char head[768], answer[64] = "";
  int k = snprintf(head, sizeof head,
                   "POST %s HTTP/1.1\r\nHost: dray\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: "
                   "%zu\r\n\r\n",
                   l->path, n);
  CLEAN_FD fd = dial(l, SOCK_STREAM);
  if (fd < 0)
    return fd;
  int r = send_all(fd, head, (size_t)k);
  r = r ? r : send_all(fd, text, n);
  if (r < 0)
    return r;
  size_t got = 0;
  while (got < 12) {
    ssize_t m = recv(fd, answer + got, sizeof answer - 1 - got, 0);
    if (m <= 0)
      return m < 0 ? -errno : -EPIPE;
    got += (size_t)m;
  }
  return strncmp(answer, "HTTP/1.", 7) == 0 && answer[9] == '2' ? 0 : -EPROTO;
}

static int put(struct line *l, const char *text, size_t n)
{
  if (l->kind == LINE_HTTP)
    return post(l, text, n);
  if (!l->open) {
    l->fd = l->kind == LINE_UDP ? dial(l, SOCK_DGRAM) : open(l->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (l->fd < 0)
      return l->kind == LINE_UDP ? l->fd : -errno;
    l->open = true;
  }
  ssize_t k = l->kind == LINE_UDP ? send(l->fd, text, n, MSG_DONTWAIT) : write(l->fd, text, n);
  return k == (ssize_t)n ? 0 : k < 0 ? -errno : -ENOSPC;
}

uint64_t line_rows(struct daemon *d, const struct usage_row *row, uint32_t n)
{
  struct line *l = &d->usage.line;
  size_t cap = l->kind == LINE_UDP ? DATAGRAM : BODY, at = 0;
  struct timespec t;
  uint64_t lost = 0, in = 0;
  int r = 0;
  CLEAN_PTR char *text = malloc(cap);
  clock_gettime(CLOCK_REALTIME, &t);
  uint64_t now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
  for (uint32_t i = 0; i <= n; i++) {
    char one[ONE_LINE];
    const char *tenant = i < n && row[i].used ? store_tenant_name(d->store, row[i].tenant) : NULL;
    size_t k = tenant && text ? line_format(d->cfg->node, tenant, &row[i], now, one, sizeof one) : 0;
    lost += i < n && row[i].used && !k;
    if (at && (i == n || at + k > cap)) {
      if (!r) /* one that does not answer is not asked again for each piece */
        r = put(l, text, at);
      lost += r ? in : 0;
      at = in = 0;
    }
    if (k)
      memcpy(text + at, one, k);
    at += k;
    in += k != 0;
  }
  if (r < 0 && !l->said)
    log_line(&d->log, LOG_ERROR, "usage.line: %s: %s; lines are lost and counted (dray_usage_line_lost_total)",
             d->cfg->usage.line, r == -EPROTO ? "the database refuses them" : strerror(-r));
  l->said = r < 0;
  if (r < 0)
    line_close(l);
  return lost;
}
