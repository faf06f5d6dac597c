/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cli/cli.h"
#include "include/priv/bits.h"

void table_init(struct table *t, const char *const *head)
{
  *t = (struct table){.head = head};
  while (t->columns < TABLE_COLUMNS_MAX && head[t->columns])
    t->columns++;
}

void table_add(struct table *t, const char *fmt, ...)
{
  char *text = NULL;
  va_list ap;
  if (t->n == t->room) {
    size_t room = t->room ? t->room * 2 : 64;
    char **cell = realloc(t->cell, room * sizeof *cell);
    if (!cell)
      return;
    t->cell = cell;
    t->room = room;
  }
  va_start(ap, fmt);
  if (vasprintf(&text, fmt, ap) < 0)
    text = NULL;
  va_end(ap);
  t->cell[t->n++] = text;
}

void table_add_bytes(struct table *t, uint64_t bytes)
{
  char text[32];
  table_add(t, "%s", units_format_bytes(bytes, text, sizeof text));
}

void table_add_count(struct table *t, uint64_t v)
{
  table_add(t, "%llu", (unsigned long long)v);
}

void table_add_time(struct table *t, uint64_t ns)
{
  char text[32];
  table_add(t, "%s", units_format_time(ns, text, sizeof text));
}

static void print_cell(FILE *f, const char *text, int width, bool right, bool last)
{
  if (right)
    fprintf(f, "%*s", width, text);
  else
    fprintf(f, "%-*s", last ? 0 : width, text);
  fputs(last ? "\n" : "  ", f);
}

void table_print(struct table *t, FILE *f)
{
  int width[TABLE_COLUMNS_MAX] = {0};
  bool color = f == stdout && cli_color();
  for (unsigned c = 0; c < t->columns; c++)
    width[c] = (int)strlen(t->head[c] + (*t->head[c] == '>'));
  for (size_t i = 0; i < t->n; i++)
    width[i % t->columns] = MAX_OF(width[i % t->columns], (int)strlen(t->cell[i] ? t->cell[i] : ""));
  if (t->n) {
    fputs(color ? "\033[1m" : "", f);
    for (unsigned c = 0; c < t->columns; c++)
      print_cell(f, t->head[c] + (*t->head[c] == '>'), width[c], *t->head[c] == '>', c + 1 == t->columns);
    fputs(color ? "\033[0m" : "", f);
  }
  for (size_t i = 0; i < t->n; i++) {
    unsigned c = (unsigned)(i % t->columns);
    print_cell(f, t->cell[i] ? t->cell[i] : "", width[c], *t->head[c] == '>', c + 1 == t->columns);
    free(t->cell[i]);
  }
  free(t->cell);
  *t = (struct table){0};
}
