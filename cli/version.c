/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include <dray/ring_abi.h>
#include <dray/version.h>

#include "cli/cli.h"

static const char usage[] = "usage: dray version [--json]\n";

int cli_version(int argc, char **argv)
{
  struct cli_options o = {0};
  int code;
  if (!cli_plain(argc, argv, usage, &o, &code))
    return code;
  if (o.json) {
    json_t *j = json_object();
    json_object_set_new(j, "version", json_string(DRAY_VERSION));
    json_object_set_new(j, "ring_major", json_integer((json_int_t)DRAY_RING_MAJOR));
    json_object_set_new(j, "ring_minor", json_integer((json_int_t)DRAY_RING_MINOR));
    cli_print_new(j);
    return EXIT_OK;
  }
  printf("dray %s, ring protocol %u.%u\n", DRAY_VERSION, DRAY_RING_MAJOR, DRAY_RING_MINOR);
  return EXIT_OK;
}
