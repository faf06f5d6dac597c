/* SPDX-License-Identifier: Apache-2.0 */
/* One line per event on stderr, with the level journald understands in front and reason words in it. */
#ifndef MOVER_LOG_H
#define MOVER_LOG_H

enum log_level { LOG_ERROR = 3, LOG_WARN = 4, LOG_INFO = 6, LOG_DEBUG = 7 };

/* A sink is handed to whoever may log; a zeroed one is silent. */
struct log {
  int level;  /* events above it are dropped */
  int prefix; /* 1: "<6>" in front, for journald */
};

__attribute__((format(printf, 3, 4))) void log_line(const struct log *l, int level, const char *fmt, ...);
/* The level for a word, or -1. */
int log_level_by_name(const char *name);
#endif
