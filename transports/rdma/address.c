/* SPDX-License-Identifier: Apache-2.0 */
#include "transports/rdma/address.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int bad(const char *text, struct err *e)
{
  return err_set(e, -EINVAL, "address %.80s: need a number and a port, such as 10.0.0.1:7471 or [fd00::1]:7471", text);
}

int address_parse(const char *text, struct sockaddr_storage *ret_address, struct err *e)
{
  char host[64];
  const char *port = NULL, *end = text + strlen(text);
  bool six = *text == '[';
  if (six) {
    end = strchr(++text, ']');
    if (!end || (end[1] && end[1] != ':'))
      return bad(text, e);
    port = end[1] ? end + 2 : NULL;
  } else if (strchr(text, ':')) {
    end = strchr(text, ':');
    port = end + 1;
  }
  if (end == text || (size_t)(end - text) >= sizeof host)
    return bad(text, e);
  memcpy(host, text, (size_t)(end - text));
  host[end - text] = 0;
  unsigned long n = ADDRESS_PORT;
  if (port) {
    char *rest;
    n = strtoul(port, &rest, 10);
    if (*port < '0' || *port > '9' || *rest || n < 1 || n > 65535)
      return bad(text, e);
  }
  struct sockaddr_storage a = {.ss_family = six ? AF_INET6 : AF_INET};
  struct sockaddr_in *a4 = (struct sockaddr_in *)&a;
  struct sockaddr_in6 *a6 = (struct sockaddr_in6 *)&a;
  if (inet_pton(a.ss_family, host, six ? (void *)&a6->sin6_addr : (void *)&a4->sin_addr) != 1)
    return bad(text, e);
  if (six)
    a6->sin6_port = htons((uint16_t)n);
  else
    a4->sin_port = htons((uint16_t)n);
  *ret_address = a;
  return 0;
}

socklen_t address_bytes(const struct sockaddr_storage *a)
{
  return a->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static int path_parse(char *text, struct address_path *p, struct err *e)
{
  char *dst = strchr(text, '>');
  *p = (struct address_path){.has_src = dst != NULL};
  snprintf(p->text, sizeof p->text, "%s", text);
  if (dst) {
    *dst++ = 0;
    int rc = address_parse(text, &p->src, e);
    if (rc)
      return rc;
    if (p->src.ss_family == AF_INET6) /* any port of ours will do */
      ((struct sockaddr_in6 *)&p->src)->sin6_port = 0;
    else
      ((struct sockaddr_in *)&p->src)->sin_port = 0;
  }
  return address_parse(dst ? dst : text, &p->dst, e);
}

int address_paths(const char *text, struct address_path ret_path[ADDRESS_PATHS_MAX], uint32_t *ret_n, struct err *e)
{
  char buf[512];
  uint32_t n = 0;
  if (strlen(text) >= sizeof buf)
    return err_set(e, -EINVAL, "address: longer than %zu bytes", sizeof buf);
  strcpy(buf, text);
  char *save = NULL;
  for (char *at = strtok_r(buf, ", ", &save); at; at = strtok_r(NULL, ", ", &save)) {
    if (n == ADDRESS_PATHS_MAX)
      return err_set(e, -EINVAL, "address %.80s: more than %u paths", text, ADDRESS_PATHS_MAX);
    int rc = path_parse(at, &ret_path[n], e);
    if (rc)
      return rc;
    n++;
  }
  if (!n)
    return bad(text, e);
  *ret_n = n;
  return 0;
}

uint64_t address_now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
