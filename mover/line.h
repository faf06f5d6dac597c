/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of the ledger in line protocol, for a time-series database: appended to a file, as datagrams, or posted over
 * HTTP. Only numbers for addresses: the confined worker resolves no names. What cannot be sent within its time is lost,
 * and the caller counts it.
 */
#ifndef MOVER_LINE_H
#define MOVER_LINE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/priv/err.h"

struct daemon;
struct usage_row;

enum line_kind { LINE_NONE = 0, LINE_FILE = 1, LINE_UDP = 2, LINE_HTTP = 3 };
struct line {
  uint8_t kind;
  int fd; /* FILE, UDP, once opened */
  bool open;
  struct sockaddr_in to;
  const char *path; /* FILE: of the file; HTTP: behind the address; the text's own */
  uint64_t said;    /* 1: the last attempt failed, and that was logged */
};

/* "file:PATH", "udp:IP:PORT", "http:IP:PORT/write?db=NAME". text outlives the line. -EINVAL with a text. */
int line_parse(const char *text, struct line *ret_line, struct err *e);
/* One row as one line with its newline into buf. Returns its length; 0: it does not fit. */
size_t line_format(const char *node, const char *tenant, const struct usage_row *r, uint64_t now_ns, char *buf,
                   size_t size);
/* Sends the used ones of n rows. How many were lost. */
uint64_t line_rows(struct daemon *d, const struct usage_row *row, uint32_t n);
void line_close(struct line *l);
#endif
