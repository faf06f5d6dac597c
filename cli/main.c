/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static const struct {
  const char *name;
  int (*run)(int argc, char **argv);
  const char *what; /* NULL: not in the list */
} commands[] = {
    {"status", cli_status, "what the mover is doing: sessions, counters by op, reason, path and tier"},
    {"top", cli_top, "rates, every second"},
    {"tier", cli_tier, "drain TIER: empties a tier so that its device can be taken away"},
    {"tiers", cli_tiers, "the ladder: capacity, use, profile, what is less than was asked for"},
    {"cells", cli_cells, "cells by tenant and tier"},
    {"tenants", cli_tenants, "who has how much, reserve and limit, refusals and rules"},
    {"config", cli_config, "show, check, diff, reload"},
    {"usage", cli_usage_report, "who used what: by request, tenant or pool"},
    {"drill", cli_drill, "rehearse: quota noisy-neighbour"},
    {"plan", cli_plan, "what sharing saves by tier, where a span should be, the three accounts"},
    {"put", cli_put, "a file's bytes become a cell"},
    {"get", cli_get, "a cell's bytes become a file"},
    {"replay", cli_replay, "run a trace through real engines and verify every byte"},
    {"bench", cli_bench, "measure: ring sessions map copy policy mem kv file cxl"},
    {"calibrate", cli_calibrate, "measure this machine for drayd, or say what has drifted"},
    {"doctor", cli_doctor, "is this machine fit for a mover? with the fix for what is not"},
    {"version", cli_version, "versions"},
    {"demo", cli_demo, NULL}, /* what deploy/demo.sh runs */
};

static int help(FILE *f)
{
  fputs("usage: dray COMMAND [OPTIONS]\n\n", f);
  for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
    if (commands[i].what)
      fprintf(f, "  %-9s %s\n", commands[i].name, commands[i].what);
  fputs("\nEvery command takes --json and --help. Exit: 0 ok, 1 error, 2 usage, 3 degraded, 4 refused by policy or "
        "quota.\n",
        f);
  return f == stdout ? EXIT_OK : EXIT_USAGE;
}

int main(int argc, char **argv)
{
  if (argc < 2)
    return help(stderr);
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)
    return help(stdout);
  if (strcmp(argv[1], "--version") == 0)
    return cli_version(1, argv);
  for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
    if (strcmp(commands[i].name, argv[1]) == 0)
      return commands[i].run(argc - 1, argv + 1);
  fprintf(stderr, "dray: '%s' is no command\n", argv[1]);
  return help(stderr);
}
