/* SPDX-License-Identifier: Apache-2.0 */
/* As much of HTTP as a test needs, on 127.0.0.1. */
#ifndef TESTS_INTEGRATION_HTTP_H
#define TESTS_INTEGRATION_HTTP_H

#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <string>

namespace http {
inline int free_port()
{
  int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in a = {};
  socklen_t n = sizeof a;
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int port =
      bind(s, (struct sockaddr *)&a, n) == 0 && getsockname(s, (struct sockaddr *)&a, &n) == 0 ? ntohs(a.sin_port) : -1;
  close(s);
  return port;
}
inline int dial(int port)
{
  int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in a = {};
  a.sin_family = AF_INET;
  a.sin_port = htons((uint16_t)port);
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  struct timeval limit = {10, 0};
  setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  if (connect(s, (struct sockaddr *)&a, sizeof a) == 0)
    return s;
  close(s);
  return -1;
}
/* The whole answer; empty: none. */
inline std::string request(int port, const std::string &method, const std::string &path, const std::string &head = "")
{
  int s = dial(port);
  std::string q = method + " " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + head + "\r\n", text;
  if (s >= 0 && write(s, q.data(), q.size()) == (ssize_t)q.size()) {
    char buf[4096];
    for (ssize_t n; (n = read(s, buf, sizeof buf)) > 0;)
      text.append(buf, (size_t)n);
  }
  if (s >= 0)
    close(s);
  return text;
}
inline std::string get(int port, const std::string &path, const std::string &head = "")
{
  return request(port, "GET", path, head);
}
/* A sample of /metrics by its name with labels; -1: there is none. */
inline double metric(int port, const std::string &name)
{
  std::string t = get(port, "/metrics");
  size_t at = t.find("\n" + name + " ");
  return at == std::string::npos ? -1 : strtod(t.c_str() + at + 1 + name.size(), nullptr);
}
} // namespace http
#endif
