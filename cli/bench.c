/* SPDX-License-Identifier: Apache-2.0 */
/* dray bench ring|sessions|map|copy|policy|file|all: figures anyone can repeat. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "bench/bench.h"
#include "cli/cli.h"

static const char usage[] =
    "usage: dray bench ring|sessions|map|copy|policy|file|rdma|all [--rounds N] [--time SECONDS] [--cells N] [--dir "
    "DIR] "
    "[--quick]\n"
    "                  [--no-versus] [--no-verify] [--json]\n"
    "copy: 4,096 scattered 16 KiB blocks over 1 GiB (--quick: 1,024 over 256 MiB) need that much free memory and "
    "half.\n"
    "rdma --peer ADDRESS [--key-file FILE] [-s|--size BYTES] [-n|--iters N] [--rw read|write]: a drayd there lends "
    "24MiB; "
    "beside perftest\nwhen it is on this host. Not part of all.\n"
    "Each starts a mover of its own. file: DIR is on the filesystem to measure (default: here).\n";

int cli_bench(int argc, char **argv)
{
  static const struct option opts[] = {
      {"rounds", required_argument, NULL, 'r'}, {"time", required_argument, NULL, 't'},
      {"cells", required_argument, NULL, 'c'},  {"dir", required_argument, NULL, 'd'},
      {"quick", no_argument, NULL, 'q'},        {"no-versus", no_argument, NULL, 'N'},
      {"verify", no_argument, NULL, 'v'},       {"no-verify", no_argument, NULL, 'V'},
      {"peer", required_argument, NULL, 'p'},   {"key-file", required_argument, NULL, 'k'},
      {"size", required_argument, NULL, 's'},   {"iters", required_argument, NULL, 'i'},
      {"rw", required_argument, NULL, 'w'},     {"json", no_argument, NULL, 'j'},
      {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
  struct bench_options o = {.versus = true, .verify = true, .progress = isatty(STDERR_FILENO)};
  bool json = false;
  uint64_t v;
  for (int c; (c = getopt_long(argc, argv, "s:n:", opts, NULL)) != -1;) {
    switch (c) {
    case 'r':
      if (units_count(optarg, 1, REPORT_ROUNDS_MAX - 1, &v) < 0)
        return cli_usage("bench: --rounds: need 1..255\n");
      o.rounds = (uint32_t)v;
      break;
    case 't':
      if (units_time(optarg, &v) < 0 || v < 10000000u || v > 3600000000000ull)
        return cli_usage("bench: --time: need 10ms..3600s\n");
      o.seconds = (double)v / 1e9;
      break;
    case 'c':
      if (units_count(optarg, 2000, 1u << 28, &v) < 0)
        return cli_usage("bench: --cells: need 2000..268435456\n");
      o.cells = v;
      break;
    case 'd':
      o.dir = optarg;
      break;
    case 'q':
      o.quick = true;
      break;
    case 'N':
      o.versus = false;
      break;
    case 'p':
      o.peer = optarg;
      break;
    case 'k':
      o.key_file = optarg;
      break;
    case 's':
      if (units_bytes(optarg, &o.size) < 0 || o.size < 1 || o.size > 1u << 20)
        return cli_usage("bench: --size: need 1 byte to 1MiB\n");
      break;
    case 'n':
    case 'i':
      if (units_count(optarg, 1, 100000, &v) < 0)
        return cli_usage("bench: --iters: need 1..100000\n");
      o.iters = (uint32_t)v;
      break;
    case 'w':
      if (strcmp(optarg, "read") && strcmp(optarg, "write"))
        return cli_usage("bench: --rw: need read or write\n");
      o.rw = *optarg;
      break;
    case 'v':
    case 'V':
      o.verify = c == 'v';
      break;
    case 'j':
      json = true;
      break;
    case 'h':
      return cli_help(usage);
    default:
      return cli_usage(usage);
    }
  }
  if (optind + 1 != argc)
    return cli_usage(usage);
  const char *what = argv[optind];
  bool all = strcmp(what, "all") == 0, known = all;
  static const struct {
    const char *name;
    int (*run)(const struct bench_options *, struct report *);
  } benches[] = {{"ring", bench_ring},     {"sessions", bench_sessions}, {"map", bench_map},  {"copy", bench_copy},
                 {"policy", bench_policy}, {"file", bench_file},         {"rdma", bench_rdma}};
  struct report r = {.n = 0};
  int bad = 0;
  for (size_t i = 0; i < sizeof benches / sizeof benches[0]; i++)
    if ((all && benches[i].run != bench_rdma) || strcmp(benches[i].name, what) == 0) {
      known = true;
      bad |= benches[i].run(&o, &r);
    }
  if (!known)
    return cli_usage(usage);
  report_print(&r, stdout, json);
  report_free(&r);
  return bad ? EXIT_ERROR : EXIT_OK;
}
