/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void log_line(const struct log *l, int level, const char *fmt, ...)
{
  if (level > l->level)
    return;
  char line[1024];
  size_t n = 0;
  if (l->prefix) {
    n = (size_t)snprintf(line, sizeof line, "<%d>drayd: ", level);
  } else {
    struct timespec t;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &t);
    gmtime_r(&t.tv_sec, &tm);
    n = strftime(line, sizeof line, "%FT%T", &tm);
    n += (size_t)snprintf(line + n, sizeof line - n, ".%03ldZ %s drayd: ", t.tv_nsec / 1000000,
                          level <= LOG_ERROR  ? "error"
                          : level == LOG_WARN ? "warn"
                          : level == LOG_INFO ? "info"
                                              : "debug");
  }
  va_list ap;
  va_start(ap, fmt);
  int k = vsnprintf(line + n, sizeof line - n - 1, fmt, ap);
  va_end(ap);
  if (k < 0)
    return;
  n += (size_t)k;
  if (n > sizeof line - 2)
    n = sizeof line - 2;
  for (size_t i = 0; i < n; i++) /* an engine's name must not forge a second line */
    if ((unsigned char)line[i] < ' ' || line[i] == 127)
      line[i] = '?';
  line[n++] = '\n';
  ssize_t w = write(STDERR_FILENO, line, n); /* one write: lines of two threads do not mix */
  (void)w;
}

int log_level_by_name(const char *name)
{
  static const struct {
    const char *name;
    int level;
  } levels[] = {{"error", LOG_ERROR}, {"warn", LOG_WARN}, {"info", LOG_INFO}, {"debug", LOG_DEBUG}};
  for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++)
    if (strcmp(levels[i].name, name) == 0)
      return levels[i].level;
  return -1;
}
