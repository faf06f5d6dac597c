/* SPDX-License-Identifier: Apache-2.0 */
/* dray tiers: the ladder, and plainly what is less than was asked for. */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/table.h"

static const char usage[] =
    "usage: dray tiers [--json] [--admin PATH]\n"
    "The ladder, hottest first: capacity, use, profile. `emulated` says that the medium is not the real one.\n"
    "used: bytes of slabs taken from the capacity; cell bytes: what engines put there.\n" CLI_OPTIONS_HELP;

static uint64_t number(const json_t *o, const char *key)
{
  json_int_t v = json_integer_value(json_object_get(o, key));
  return v > 0 ? (uint64_t)v : 0;
}
static const char *text(const json_t *o, const char *key)
{
  const char *t = json_string_value(json_object_get(o, key));
  return t ? t : "";
}
static bool truth(const json_t *o, const char *key)
{
  return json_is_true(json_object_get(o, key));
}

int cli_tiers(int argc, char **argv)
{
  static const char *const head[] = {"tier",    "transport", ">capacity",  ">used",      ">cells", ">cell bytes",
                                     ">lat ns", ">MB/s",     "attendable", "persistent", "medium", NULL};
  struct cli_options o = {0};
  int code;
  if (!cli_plain(argc, argv, usage, &o, &code))
    return code;
  json_t *a = cli_ask(o.admin, "tiers", NULL, &code), *t;
  if (!a)
    return code;
  if (o.json) {
    cli_print_json(a);
    json_decref(a);
    return EXIT_OK;
  }
  struct table table;
  size_t i;
  table_init(&table, head);
  json_array_foreach(json_object_get(a, "tiers"), i, t)
  {
    const json_t *p = json_object_get(t, "profile");
    table_add(&table, "%s", text(t, "tier"));
    table_add(&table, "%s", text(t, "transport"));
    table_add_bytes(&table, number(t, "capacity"));
    table_add_bytes(&table, number(t, "slab_bytes"));
    table_add_count(&table, number(t, "cells"));
    table_add_bytes(&table, number(t, "cell_bytes"));
    table_add_count(&table, number(p, "read_latency_ns"));
    table_add_count(&table, number(p, "bandwidth_mbps"));
    table_add(&table, "%s", truth(t, "attendable") ? "in place" : "staged");
    table_add(&table, "%s", truth(t, "persistent") ? "yes" : "no");
    table_add(&table, "%s", truth(t, "emulated") ? "EMULATED" : "real");
  }
  table_print(&table, stdout);
  printf("profile: %s\n", text(a, "label"));
  json_array_foreach(json_object_get(a, "tiers"), i, t)
  {
    if (truth(t, "emulated"))
      printf("%s: emulated: its figures say nothing about the real medium\n", text(t, "tier"));
    if (*text(t, "fault"))
      printf("%s: FAULTY ON PURPOSE: %s\n", text(t, "tier"), text(t, "fault"));
    if (*text(t, "note"))
      printf("%s: %s\n", text(t, "tier"), text(t, "note"));
    if (*text(t, "path"))
      printf("%s: at %s\n", text(t, "tier"), text(t, "path"));
  }
  json_decref(a);
  return EXIT_OK;
}
