/* SPDX-License-Identifier: Apache-2.0 */
/* dray bench: figures anyone can repeat. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "bench/bench.h"
#include "bench/preset.h"
#include "bench/stop.h"
#include "bench/touch.h"
#include "cli/cli.h"
#include "include/priv/bits.h"
#include "include/priv/cleanup.h"

static const char usage[] =
    "usage: dray bench ring|sessions|map|copy|policy|file|mem|kv|cxl|rdma|scale|all [OPTIONS]\n"
    "      --rounds N            interleaved rounds (default: the bench's own)\n"
    "  -D, --time SECONDS        of one measurement\n"
    "      --quick               a look, not a figure\n"
    "      --json | --csv        for scripts;  --html FILE   also a page with plots\n"
    "      --no-verify           do not look at the bytes (default: all that moved are checked; a wrong one is exit "
    "1)\n"
    "      --no-versus           file: without fio\n"
    "      --dir DIR             file: the filesystem to measure (default: here)\n"
    "      --iodepth N           file: under way (32)\n"
    "      --cells N             map, scale\n"
    "      --rival NAME=COMMAND  copy: a program that does the same work in turns (bench/versus)\n"
    "  mem, cxl: -t, --threads N, --rw read|write|copy, -b, --block-size SIZE, -s, --size SIZE\n"
    "  cxl: -d, --device PATH (/dev/dax0.0, or a file on tmpfs, hugetlbfs, famfs), --link-gbps GB/S (default: what "
    "sysfs "
    "says),\n"
    "       --overwrite (--rw write or copy on a device that holds a mover's directory)\n"
    "  kv: --preset NAME (" PRESET_NAMES ")\n"
    "  kv, ring, copy, file: --rate N a second, by the clock (-D seconds): latency from when each was due\n"
    "  rdma: --peer NAME|ADDRESS [--admin PATH] [--key-file FILE] [-s, --size up to 1MiB] [-n, --iters N] [--rw "
    "read|write]: a drayd there "
    "lends "
    "24MiB;\n"
    "        beside perftest when it is on this host. NAME: one of the running mover's peers, with its key file; an "
    "address\n"
    "        begins with a digit or [\n"
    "  scale --peer NAME|ADDRESS [--key-file FILE]: what grows with the number of peers (that one under 1 to 256 "
    "names)\n"
    "`all` is every one but cxl, rdma and scale. Each starts a mover of its own where it needs one. copy needs 2 GiB "
    "of "
    "memory, kv "
    "thrice "
    "its request.\n"
    "^C ends after the round: what was measured is shown, marked partial, exit 1.\n";

enum {
  OPT_QUICK = 1,
  OPT_JSON,
  OPT_CSV,
  OPT_HTML,
  OPT_VERIFY,
  OPT_NO_VERIFY,
  OPT_NO_VERSUS,
  OPT_DIR,
  OPT_CELLS,
  OPT_IODEPTH,
  OPT_RIVAL,
  OPT_RW,
  OPT_LINK,
  OPT_OVERWRITE,
  OPT_PRESET,
  OPT_RATE,
  OPT_ROUNDS,
  OPT_PEER,
  OPT_KEY_FILE,
  OPT_ADMIN,
  OPT_HELP
};

static const struct option opts[] = {{"rounds", required_argument, NULL, OPT_ROUNDS},
                                     {"iters", required_argument, NULL, 'n'},
                                     {"time", required_argument, NULL, 'D'},
                                     {"duration", required_argument, NULL, 'D'},
                                     {"threads", required_argument, NULL, 't'},
                                     {"size", required_argument, NULL, 's'},
                                     {"block-size", required_argument, NULL, 'b'},
                                     {"device", required_argument, NULL, 'd'},
                                     {"quick", no_argument, NULL, OPT_QUICK},
                                     {"json", no_argument, NULL, OPT_JSON},
                                     {"csv", no_argument, NULL, OPT_CSV},
                                     {"html", required_argument, NULL, OPT_HTML},
                                     {"verify", no_argument, NULL, OPT_VERIFY},
                                     {"no-verify", no_argument, NULL, OPT_NO_VERIFY},
                                     {"no-versus", no_argument, NULL, OPT_NO_VERSUS},
                                     {"dir", required_argument, NULL, OPT_DIR},
                                     {"iodepth", required_argument, NULL, OPT_IODEPTH},
                                     {"cells", required_argument, NULL, OPT_CELLS},
                                     {"rival", required_argument, NULL, OPT_RIVAL},
                                     {"rw", required_argument, NULL, OPT_RW},
                                     {"link-gbps", required_argument, NULL, OPT_LINK},
                                     {"overwrite", no_argument, NULL, OPT_OVERWRITE},
                                     {"preset", required_argument, NULL, OPT_PRESET},
                                     {"rate", required_argument, NULL, OPT_RATE},
                                     {"peer", required_argument, NULL, OPT_PEER},
                                     {"key-file", required_argument, NULL, OPT_KEY_FILE},
                                     {"admin", required_argument, NULL, OPT_ADMIN},
                                     {"help", no_argument, NULL, OPT_HELP},
                                     {NULL, 0, NULL, 0}};

struct bench_say {
  struct bench_options o;
  enum report_form form;
  const char *html, *admin;
  json_t *config; /* of the running mover: the named peer's texts are its */
};

static int take_bytes(const char *flag, const char *arg, uint64_t unit, uint64_t *ret)
{
  if (units_bytes(arg, ret) < 0 || *ret == 0 || *ret % unit || *ret > (uint64_t)1 << 50)
    return cli_wrong("bench", "--%s: need a multiple of %llu bytes up to 1PiB, have '%s'", flag,
                     (unsigned long long)unit, arg);
  return 0;
}

static int take_positive(const char *flag, const char *arg, double most, double *ret)
{
  char *end = NULL;
  double v = *arg >= '0' && *arg <= '9' ? strtod(arg, &end) : 0;
  if (!(v > 0) || !end || *end || !(v <= most))
    return cli_wrong("bench", "--%s: need a number above 0, at most %g, have '%s'", flag, most, arg);
  *ret = v;
  return 0;
}

static int take_rival(struct bench_options *o, const char *arg)
{
  uint32_t i = 0;
  while (i < BENCH_RIVALS_MAX && o->rival[i])
    i++;
  if (i == BENCH_RIVALS_MAX || !strchr(arg, '=') || *arg == '=')
    return cli_wrong("bench", "--rival: need NAME=COMMAND, at most %u of them, have '%s'", BENCH_RIVALS_MAX, arg);
  o->rival[i] = arg;
  return 0;
}

static int take_rw(struct bench_options *o, const char *arg)
{
  static const char *const words[] = {"", "read", "write", "copy"};
  for (int i = TOUCH_READ; i <= TOUCH_COPY; i++)
    if (strcmp(arg, words[i]) == 0) {
      o->rw = i;
      return 0;
    }
  return cli_wrong("bench", "--rw: need read, write or copy, have '%s'", arg);
}

static int take_option(struct bench_say *s, int c, const char *arg)
{
  struct bench_options *o = &s->o;
  uint64_t v;
  switch (c) {
  case 'n':
    if (units_count(arg, 1, 100000, &v) < 0)
      return cli_wrong("bench", "--iters: need 1..100000, have '%s'", arg);
    o->iters = (uint32_t)v;
    return 0;
  case OPT_ROUNDS:
    if (units_count(arg, 1, REPORT_ROUNDS_MAX - 1, &v) < 0)
      return cli_wrong("bench", "--rounds: need 1..255, have '%s'", arg);
    o->rounds = (uint32_t)v;
    return 0;
  case 'D':
    if (units_time(arg, &v) < 0 || v < 10000000u || v > 3600000000000ull)
      return cli_wrong("bench", "--time: need 10ms..3600s, have '%s'", arg);
    o->seconds = (double)v / 1e9;
    return 0;
  case 't':
    if (units_count(arg, 1, TOUCH_THREADS_MAX, &v) < 0)
      return cli_wrong("bench", "--threads: need 1..%u, have '%s'", TOUCH_THREADS_MAX, arg);
    o->threads = (uint32_t)v;
    return 0;
  case 's':
    return take_bytes("size", arg, 1, &o->size);
  case 'b':
    return take_bytes("block-size", arg, CACHE_LINE * 4, &o->block);
  case 'd':
    o->device = arg;
    return 0;
  case OPT_QUICK:
    o->quick = true;
    return 0;
  case OPT_JSON:
  case OPT_CSV:
    s->form = c == OPT_JSON ? REPORT_JSON : REPORT_CSV;
    return 0;
  case OPT_HTML:
    s->html = arg;
    return 0;
  case OPT_VERIFY:
  case OPT_NO_VERIFY:
    o->verify = c == OPT_VERIFY;
    return 0;
  case OPT_NO_VERSUS:
    o->versus = false;
    return 0;
  case OPT_DIR:
    o->dir = arg;
    return 0;
  case OPT_CELLS:
    return units_count(arg, 2000, 1u << 28, &o->cells) < 0
               ? cli_wrong("bench", "--cells: need 2000..268435456, have '%s'", arg)
               : 0;
  case OPT_IODEPTH:
    if (units_count(arg, 1, BENCH_IODEPTH_MAX, &v) < 0)
      return cli_wrong("bench", "--iodepth: need 1..%u, have '%s'", BENCH_IODEPTH_MAX, arg);
    o->iodepth = (uint32_t)v;
    return 0;
  case OPT_RIVAL:
    return take_rival(o, arg);
  case OPT_RW:
    return take_rw(o, arg);
  case OPT_LINK:
    return take_positive("link-gbps", arg, 1e5, &o->link_gbps);
  case OPT_OVERWRITE:
    o->overwrite = true;
    return 0;
  case OPT_PRESET:
    o->preset = arg;
    return preset_find(arg) ? 0 : cli_wrong("bench", "--preset: '%s' is none of " PRESET_NAMES, arg);
  case OPT_RATE:
    return take_positive("rate", arg, 1e6, &o->rate);
  case OPT_PEER:
    o->peer = arg;
    return 0;
  case OPT_KEY_FILE:
    o->key_file = arg;
    return 0;
  case OPT_ADMIN:
    s->admin = arg;
    return 0;
  case OPT_HELP:
    return -1;
  default:
    return cli_usage(usage);
  }
}

static const struct {
  const char *name;
  int (*run)(const struct bench_options *, struct report *);
  bool apart; /* not one of `all` */
} benches[] = {{"ring", bench_ring, false}, {"sessions", bench_sessions, false}, {"map", bench_map, false},
               {"copy", bench_copy, false}, {"policy", bench_policy, false},     {"mem", bench_mem, false},
               {"kv", bench_kv, false},     {"file", bench_file, false},         {"cxl", bench_cxl, true},
               {"rdma", bench_rdma, true},  {"scale", bench_scale, true}};

static int write_html(const struct report *r, const char *path)
{
  CLEAN_FILE *f = fopen(path, "we");
  if (f)
    report_html(r, f);
  if (f && fflush(f) == 0 && !ferror(f))
    return 0;
  fprintf(stderr, "dray bench: --html: %s: %s\n", path, strerror(errno));
  return 1;
}

/* A name becomes the address and the key file that the running mover has for it. */
static int peer_named(struct bench_say *s)
{
  const char *name = s->o.peer;
  const json_t *p;
  size_t i;
  int code;
  if (!name || strchr("0123456789[", *name))
    return EXIT_OK;
  s->config = cli_ask(s->admin, "config", NULL, &code);
  if (!s->config)
    return code;
  json_array_foreach(json_object_get(s->config, "peers"), i, p)
  {
    if (strcmp(cli_text(p, "name"), name))
      continue;
    s->o.peer = cli_text(p, "address");
    if (!s->o.key_file && *cli_text(p, "key_file"))
      s->o.key_file = cli_text(p, "key_file");
    return EXIT_OK;
  }
  return cli_wrong("bench",
                   "--peer: '%.64s' is none of the running mover's %zu peers (dray status lists them), and no "
                   "address",
                   name, json_array_size(json_object_get(s->config, "peers")));
}

int cli_bench(int argc, char **argv)
{
  struct bench_say s = {.o = {.versus = true, .verify = true, .progress = isatty(STDERR_FILENO)}, .form = REPORT_TABLE};
  for (int c; (c = getopt_long(argc, argv, "n:D:t:s:b:d:", opts, NULL)) != -1;) {
    int r = take_option(&s, c, optarg);
    if (r)
      return r < 0 ? cli_help(usage) : r;
  }
  if (optind + 1 != argc)
    return cli_usage(usage);
  const char *what = argv[optind];
  bool all = strcmp(what, "all") == 0, known = all;
  struct report r = {.n = 0};
  int bad = 0;
  for (size_t i = 0; i < ARRAY_LEN(benches); i++)
    known |= strcmp(benches[i].name, what) == 0;
  if (!known)
    return cli_usage(usage);
  int named = peer_named(&s);
  if (named != EXIT_OK) {
    json_decref(s.config);
    return named;
  }
  stop_hold();
  for (size_t i = 0; i < ARRAY_LEN(benches) && !stop_asked(); i++)
    if ((all && !benches[i].apart) || strcmp(benches[i].name, what) == 0)
      bad |= benches[i].run(&s.o, &r);
  r.partial = stop_asked();
  report_print(&r, stdout, s.form);
  if (s.html)
    bad |= write_html(&r, s.html);
  report_free(&r);
  json_decref(s.config);
  return bad || r.partial ? EXIT_ERROR : EXIT_OK;
}
