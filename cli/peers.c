/* SPDX-License-Identifier: Apache-2.0 */
/* Peers, as `status` and `tiers` answer them. */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "cli/cli.h"
#include "cli/table.h"

static void row(struct table *t, const json_t *p)
{
  char rate[32];
  table_add(t, "%s", cli_text(p, "peer"));
  table_add(t, "%s", cli_text(p, "tier"));
  table_add(t, "%s", cli_text(p, "state"));
  table_add(t, "%llu/%llu", (unsigned long long)cli_number(p, "paths_open"),
            (unsigned long long)cli_number(p, "paths"));
  table_add_count(t, cli_number(p, "epoch"));
  table_add_count(t, cli_number(p, "dials"));
  table_add_count(t, cli_number(p, "lost"));
  table_add_time(t, cli_number(p, "answer_ns"));
  table_add_bytes(t, cli_number(p, "read_bytes"));
  table_add_bytes(t, cli_number(p, "write_bytes"));
  table_add_time(t, cli_number(p, "latency_ns"));
  table_add(t, "%s/s", units_format_bytes(cli_number(p, "bytes_per_s"), rate, sizeof rate));
}

void cli_print_peers(const json_t *a)
{
  static const char *const head[] = {"peer",  "tier",  "state",    ">paths",   ">epoch", ">dials", ">lost",
                                     ">asks", ">read", ">written", ">latency", ">rate",  NULL};
  const json_t *list = json_object_get(a, "peers"), *served = json_object_get(a, "served"), *p;
  struct table t;
  size_t i;
  table_init(&t, head);
  json_array_foreach(list, i, p) row(&t, p);
  if (t.n)
    putchar('\n');
  table_print(&t, stdout);
  json_array_foreach(list, i, p)
  {
    if (strcmp(cli_text(p, "state"), "up") == 0)
      continue;
    printf("peer %s at %s: %s", cli_text(p, "peer"), cli_text(p, "address"), cli_text(p, "state"));
    if (*cli_text(p, "last_error"))
      printf(": %s", cli_text(p, "last_error"));
    if (cli_number(p, "backoff_ms"))
      printf("; tried again in %llu ms", (unsigned long long)cli_number(p, "backoff_ms"));
    putchar('\n');
  }
  char lent[32];
  if (json_is_object(served))
    printf("answering %llu peers over %llu connections (%llu refused); %s lent, %llu cells open\n",
           (unsigned long long)cli_number(served, "peers"), (unsigned long long)cli_number(served, "connections"),
           (unsigned long long)cli_number(served, "refused"),
           units_format_bytes(cli_number(served, "lent_bytes"), lent, sizeof lent),
           (unsigned long long)cli_number(served, "cells"));
}
