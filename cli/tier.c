/* SPDX-License-Identifier: Apache-2.0 */
/* dray tier drain: empties a tier, so that its device can be reconfigured or taken out. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cli/cli.h"

static const char usage[] =
    "usage: dray tier drain TIER [--timeout SECONDS] [--json] [--admin PATH]\n"
    "Nothing new goes to that tier; its cells move down the ladder, or are dropped where nothing takes them; leases "
    "are\n"
    "waited for. Then the mover lets go of the device, and it may be reconfigured, unbound or unplugged. Before that "
    "the\n"
    "kernel would not wait. Exit 0: drained; 3: not yet (asked again, it goes on); 1: an error.\n"
    "  --timeout SECONDS  how long to wait (60)\n" CLI_OPTIONS_HELP;

static long long number(const json_t *o, const char *key)
{
  return json_integer_value(json_object_get(o, key));
}

static int drain(const struct cli_options *o, const char *tier, uint64_t seconds)
{
  int code = EXIT_ERROR;
  for (uint64_t waited_ms = 0;; waited_ms += 50) {
    json_t *a = cli_ask(o->admin, "drain", json_pack("{s:s}", "tier", tier), &code);
    if (!a)
      return code;
    const char *state = json_string_value(json_object_get(a, "state"));
    bool over = !state || strcmp(state, "draining") != 0;
    if (!over && waited_ms < seconds * 1000) {
      json_decref(a);
      poll(NULL, 0, 50);
      continue;
    }
    code = !state || strcmp(state, "failed") == 0 ? EXIT_ERROR : over ? EXIT_OK : EXIT_DEGRADED;
    if (o->json)
      cli_print_json(a);
    else
      printf("%s: %s: %lld cells moved, %lld dropped, %lld slabs left%s\n", tier, state ? state : "?",
             number(a, "moved"), number(a, "dropped"), number(a, "slabs"),
             code == EXIT_DEGRADED ? " (leased, or on their way)" : "");
    json_decref(a);
    return code;
  }
}

int cli_tier(int argc, char **argv)
{
  static const struct option options[] = {{"timeout", required_argument, NULL, 't'}, CLI_OPTIONS};
  struct cli_options o = {0};
  uint64_t seconds = 60;
  int c;
  optind = 1;
  while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
    if (cli_option(&o, c, optarg))
      continue;
    if (c == CLI_HELP)
      return cli_help(usage);
    if (c != 't')
      return cli_usage(usage);
    if (units_count(optarg, 0, 86400, &seconds) < 0)
      return cli_wrong("tier", "--timeout: '%s' is no number of seconds (0 to 86400)", optarg);
  }
  if (argc - optind != 2 || strcmp(argv[optind], "drain") != 0)
    return cli_usage(usage);
  return drain(&o, argv[optind + 1], seconds);
}
