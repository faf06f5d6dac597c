/* SPDX-License-Identifier: Apache-2.0 */
/* dray tiers: the ladder, and plainly what is less than was asked for. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/dax.h"
#include "cli/table.h"

static const char usage[] =
    "usage: dray tiers [--verbose] [--json] [--admin PATH]\n"
    "The ladder, hottest first: capacity, use, profile. `emulated` says that the medium is not the real one.\n"
    "used: bytes of slabs taken from the capacity; cell bytes: what engines put there.\n"
    "  --verbose  the device behind each cxl tier (align, mode, node, ranges), and the CXL memory of the "
    "machine\n" CLI_OPTIONS_HELP;

static bool truth(const json_t *o, const char *key)
{
  return json_is_true(json_object_get(o, key));
}

static void show_device(const char *tier, const struct dax_device *d)
{
  printf("%s: device %s: %llu bytes, align %llu, mode %s, node %d\n", tier, d->name, (unsigned long long)d->size,
         (unsigned long long)d->align, dax_device_mode(d), d->node);
  for (uint32_t i = 0; i < d->ranges_n; i++)
    printf("%s: range %#llx-%#llx\n", tier, (unsigned long long)d->range[i].start, (unsigned long long)d->range[i].end);
}

static void show_topology(const json_t *topology, bool known)
{
  const json_t *m;
  size_t i;
  if (!topology)
    printf("CXL: %s\n", known ? "no memory devices" : "not looked for: built without libcxl");
  json_array_foreach(json_object_get(topology, "memdevs"), i, m)
      printf("CXL: %s at %s: persistent %llu, volatile %llu bytes\n", cli_text(m, "memdev"), cli_text(m, "host"),
             (unsigned long long)cli_number(m, "persistent"), (unsigned long long)cli_number(m, "volatile"));
  json_array_foreach(json_object_get(topology, "regions"), i, m)
      printf("CXL: %s of %s: %llu bytes at %#llx, %llu ways\n", cli_text(m, "region"), cli_text(m, "decoder"),
             (unsigned long long)cli_number(m, "size"), (unsigned long long)cli_number(m, "start"),
             (unsigned long long)cli_number(m, "ways"));
}

/* Adds to the answer what this machine, not the mover, says of the devices; for people it is printed at the end. */
static void add_devices(json_t *a)
{
  bool known;
  json_t *t, *topology = cxl_topology(&known);
  size_t i;
  json_array_foreach(json_object_get(a, "tiers"), i, t)
  {
    struct dax_device d;
    if (dax_device_at(cli_text(t, "path"), &d) == 0)
      json_object_set_new(t, "device", dax_device_json(&d));
  }
  json_object_set_new(a, "cxl", topology ? topology : json_null());
  json_object_set_new(a, "cxl_known", json_boolean(known));
}

static void show_devices(const json_t *a)
{
  const json_t *t, *cxl = json_object_get(a, "cxl");
  size_t i;
  json_array_foreach(json_object_get(a, "tiers"), i, t)
  {
    struct dax_device d;
    if (dax_device_at(cli_text(t, "path"), &d) == 0)
      show_device(cli_text(t, "tier"), &d);
  }
  show_topology(json_is_object(cxl) ? cxl : NULL, truth(a, "cxl_known"));
}

/* --verbose; whatever else there is, is for cli_plain. */
static bool take_verbose(int *argc, char **argv)
{
  bool found = false;
  int n = 0;
  for (int i = 0; i < *argc; i++) {
    if (i && strcmp(argv[i], "--verbose") == 0)
      found = true;
    else
      argv[n++] = argv[i];
  }
  argv[n] = NULL;
  *argc = n;
  return found;
}

int cli_tiers(int argc, char **argv)
{
  static const char *const head[] = {"tier",    "transport", ">capacity",  ">used",      ">cells", ">cell bytes",
                                     ">lat ns", ">MB/s",     "attendable", "persistent", "medium", NULL};
  struct cli_options o = {0};
  int code;
  bool verbose = take_verbose(&argc, argv);
  if (!cli_plain(argc, argv, usage, &o, &code))
    return code;
  json_t *a = cli_ask(o.admin, "tiers", NULL, &code), *t;
  if (!a)
    return code;
  if (verbose)
    add_devices(a);
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
    table_add(&table, "%s", cli_text(t, "tier"));
    table_add(&table, "%s", cli_text(t, "transport"));
    table_add_bytes(&table, cli_number(t, "capacity"));
    table_add_bytes(&table, cli_number(t, "slab_bytes"));
    table_add_count(&table, cli_number(t, "cells"));
    table_add_bytes(&table, cli_number(t, "cell_bytes"));
    table_add_count(&table, cli_number(p, "read_latency_ns"));
    table_add_count(&table, cli_number(p, "bandwidth_mbps"));
    table_add(&table, "%s", truth(t, "attendable") ? "in place" : "staged");
    table_add(&table, "%s", truth(t, "persistent") ? "yes" : "no");
    table_add(&table, "%s", truth(t, "emulated") ? "EMULATED" : "real");
  }
  table_print(&table, stdout);
  printf("profile: %s\n", cli_text(a, "label"));
  json_array_foreach(json_object_get(a, "tiers"), i, t)
  {
    if (truth(t, "emulated"))
      printf("%s: emulated: its figures say nothing about the real medium\n", cli_text(t, "tier"));
    if (*cli_text(t, "fault"))
      printf("%s: FAULTY ON PURPOSE: %s\n", cli_text(t, "tier"), cli_text(t, "fault"));
    if (*cli_text(t, "note"))
      printf("%s: %s\n", cli_text(t, "tier"), cli_text(t, "note"));
    if (*cli_text(t, "state") && strcmp(cli_text(t, "state"), "serving") != 0)
      printf("%s: %s\n", cli_text(t, "tier"), cli_text(t, "state"));
    if (*cli_text(t, "path"))
      printf("%s: at %s\n", cli_text(t, "tier"), cli_text(t, "path"));
  }
  cli_print_peers(a);
  if (verbose)
    show_devices(a);
  json_decref(a);
  return EXIT_OK;
}
