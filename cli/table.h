/* SPDX-License-Identifier: Apache-2.0 */
/* A table for people: columns as wide as their widest cell. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdint.h>
#include <stdio.h>

#define TABLE_COLUMNS_MAX 12

struct table {
  const char *const *head; /* names; a leading '>' aligns to the right */
  unsigned columns;
  char **cell;
  size_t n, room;
};
/* head: NULL-terminated, outlives the table. */
void table_init(struct table *t, const char *const *head);
/* The next cell, row by row. */
__attribute__((format(printf, 2, 3))) void table_add(struct table *t, const char *fmt, ...);
void table_add_bytes(struct table *t, uint64_t bytes);
void table_add_count(struct table *t, uint64_t v);
void table_add_time(struct table *t, uint64_t ns);
/* Prints and frees. A table without rows prints nothing. */
void table_print(struct table *t, FILE *f);
#endif
