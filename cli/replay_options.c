/* SPDX-License-Identifier: Apache-2.0 */
/* What `dray replay` is asked, and the shape of a block. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "bench/preset.h"
#include "cli/replay.h"
#include "include/priv/bits.h"
#include "include/priv/cleanup.h"

static const char usage[] =
    "usage: dray replay TRACE.jsonl | --synthetic [--requests N] [--seed S]  [OPTIONS]\n"
    "Real engine processes run the trace against a mover: per request STAT, GET of the longest prefix that is there, "
    "every byte\n"
    "checked, PUT of the rest. Exit 1: a byte was wrong, or a pool without bounds lost something.\n"
    "  --tenants N               (default 4) a conversation belongs to one tenant, a tenant to one engine\n"
    "  --engines N               (default 4, at most --tenants) processes\n"
    "  --preset NAME             llama8b (default) llama70b-tp8 dsv3 lmcache sglang mooncake: pieces of a 512-token "
    "block\n"
    "  --scale N                 pieces N times smaller than the model's, or\n"
    "  --block-bytes SIZE        (default 16KiB) per block, cut in the preset's pieces\n"
    "  --batch N                 (default 1024) items of one BATCH at most\n"
    "  --map                     MAP, read in place, UNMAP instead of GET\n"
    "  --crc                     keep and check CRC32C\n"
    "  --time-scale X            arrivals at X times the trace's pace (1: as recorded; default 0: each as soon as the "
    "last is done)\n"
    "  --rate N                  N requests a second instead; with either, a request's latency counts from when it was "
    "due\n"
    "A mover of its own (--self, the default without --socket or DRAY_SOCKET), with dram, emulated cxl and disk:\n"
    "  --dram, --cxl, --disk SIZE  capacity (default and 'unbounded': all of the trace fits)\n"
    "One that runs already (--socket):\n"
    "  --tenant NAME:TOKEN ..., --token-file FILE (one NAME:TOKEN a line)   as many as --tenants\n" CLI_OPTIONS_HELP;

#define PIECE 64u /* the smallest, and what all are multiples of */

/* The pieces of a 512-token block, which is what a trace counts in. */
static int shape(struct replay_options *o)
{
  const struct preset *p = preset_find(o->preset);
  if (!p)
    return cli_wrong("replay", "--preset: '%s' is none of " PRESET_NAMES, o->preset);
  uint32_t per = 512 / p->tokens;
  uint64_t whole = per * p->segs * p->seg_bytes, bytes = p->segs > 1 ? per * p->seg_bytes : p->seg_bytes;
  o->segs = p->segs > 1 ? p->segs : per;
  bytes = o->scale ? bytes / o->scale : o->block_bytes / o->segs;
  bytes -= bytes % PIECE;
  if (bytes < PIECE) { /* as small as pieces get: fewer of them */
    bytes = PIECE;
    o->segs = (uint32_t)MAX_OF((o->scale ? whole / o->scale : o->block_bytes) / PIECE, (uint64_t)1);
  }
  o->seg_bytes = (uint32_t)bytes;
  return 0;
}

static int add_tenant(struct replay_options *o, const char *text, const char *where)
{
  const char *colon = strchr(text, ':');
  size_t name = colon ? (size_t)(colon - text) : 0, token = colon ? strlen(colon + 1) : 0;
  if (!name || name >= DRAY_NAME_MAX || !token || token >= DRAY_TOKEN_MAX)
    return cli_wrong("replay", "%s: need NAME:TOKEN, of 1..%d bytes each", where, DRAY_NAME_MAX - 1);
  if (o->named == REPLAY_TENANTS_MAX)
    return cli_wrong("replay", "%s: more than %d tenants", where, REPLAY_TENANTS_MAX);
  struct replay_tenant *t = &o->tenant[o->named++];
  snprintf(t->name, sizeof t->name, "%.*s", (int)name, text);
  snprintf(t->token, sizeof t->token, "%s", colon + 1);
  return 0;
}

static int add_token_file(struct replay_options *o, const char *path)
{
  char line[DRAY_NAME_MAX + DRAY_TOKEN_MAX + 8], where[300];
  CLEAN_FILE *f = fopen(path, "re");
  if (!f)
    return cli_wrong("replay", "--token-file: %s: %s", path, strerror(errno));
  for (unsigned n = 1; fgets(line, sizeof line, f); n++) {
    line[strcspn(line, "\r\n")] = 0;
    snprintf(where, sizeof where, "%.250s:%u", path, n);
    int r = *line && *line != '#' ? add_tenant(o, line, where) : 0;
    if (r)
      return r;
  }
  return 0;
}

static int take_capacity(const char *flag, const char *text, uint64_t *ret)
{
  if (strcmp(text, "unbounded") == 0 || strcmp(text, "0") == 0)
    *ret = 0;
  else if (units_bytes(text, ret) < 0 || *ret < MIB(1) || *ret > INT64_MAX)
    return cli_wrong("replay", "--%s: need 'unbounded' or a size of at least 1MiB, have '%s'", flag, text);
  return 0;
}

static int take_count(const char *flag, const char *text, uint64_t max, uint32_t *ret)
{
  uint64_t v;
  if (units_count(text, 1, max, &v) < 0)
    return cli_wrong("replay", "--%s: need 1..%llu, have '%s'", flag, (unsigned long long)max, text);
  *ret = (uint32_t)v;
  return 0;
}

static int take_ratio(const char *flag, const char *text, double *ret)
{
  char *end;
  double v = *text >= '0' && *text <= '9' ? strtod(text, &end) : -1;
  if (v < 0 || *end || !(v <= 1e6))
    return cli_wrong("replay", "--%s: need a number in 0..1000000, have '%s'", flag, text);
  *ret = v;
  return 0;
}

enum {
  OPT_SYNTHETIC = 1,
  OPT_REQUESTS,
  OPT_SEED,
  OPT_ENGINES,
  OPT_TENANTS,
  OPT_TENANT,
  OPT_TOKENS,
  OPT_SELF,
  OPT_DRAM,
  OPT_CXL,
  OPT_DISK,
  OPT_BLOCK,
  OPT_PRESET,
  OPT_SCALE,
  OPT_BATCH,
  OPT_MAP,
  OPT_CRC,
  OPT_TIME,
  OPT_RATE
};

static const struct option opts[] = {{"synthetic", no_argument, NULL, OPT_SYNTHETIC},
                                     {"requests", required_argument, NULL, OPT_REQUESTS},
                                     {"seed", required_argument, NULL, OPT_SEED},
                                     {"engines", required_argument, NULL, OPT_ENGINES},
                                     {"tenants", required_argument, NULL, OPT_TENANTS},
                                     {"tenant", required_argument, NULL, OPT_TENANT},
                                     {"token-file", required_argument, NULL, OPT_TOKENS},
                                     {"self", no_argument, NULL, OPT_SELF},
                                     {"dram", required_argument, NULL, OPT_DRAM},
                                     {"cxl", required_argument, NULL, OPT_CXL},
                                     {"disk", required_argument, NULL, OPT_DISK},
                                     {"block-bytes", required_argument, NULL, OPT_BLOCK},
                                     {"preset", required_argument, NULL, OPT_PRESET},
                                     {"scale", required_argument, NULL, OPT_SCALE},
                                     {"batch", required_argument, NULL, OPT_BATCH},
                                     {"map", no_argument, NULL, OPT_MAP},
                                     {"crc", no_argument, NULL, OPT_CRC},
                                     {"time-scale", required_argument, NULL, OPT_TIME},
                                     {"rate", required_argument, NULL, OPT_RATE},
                                     CLI_OPTIONS};

/* What was said, beside the values: what excludes what. */
struct said {
  bool synthetic, requests, tenants, engines, pools;
};

static int take_option(struct replay_options *o, struct said *said, int c, const char *arg)
{
  switch (c) {
  case OPT_SYNTHETIC:
    said->synthetic = true;
    return 0;
  case OPT_REQUESTS:
    said->requests = true;
    return take_count("requests", arg, 1000000, &o->requests);
  case OPT_SEED:
    said->requests = true;
    return units_count(arg, 0, INT64_MAX, &o->seed) < 0
               ? cli_wrong("replay", "--seed: need a whole number, have '%s'", arg)
               : 0;
  case OPT_ENGINES:
    said->engines = true;
    return take_count("engines", arg, REPLAY_ENGINES_MAX, &o->engines);
  case OPT_TENANTS:
    said->tenants = true;
    return take_count("tenants", arg, REPLAY_TENANTS_MAX, &o->tenants);
  case OPT_TENANT:
    return add_tenant(o, arg, "--tenant");
  case OPT_TOKENS:
    return add_token_file(o, arg);
  case OPT_SELF:
    o->self = true;
    return 0;
  case OPT_DRAM:
    said->pools = true;
    return take_capacity("dram", arg, &o->dram);
  case OPT_CXL:
    said->pools = true;
    return take_capacity("cxl", arg, &o->cxl);
  case OPT_DISK:
    said->pools = true;
    return take_capacity("disk", arg, &o->disk);
  case OPT_BLOCK:
    if (units_bytes(arg, &o->block_bytes) < 0 || o->block_bytes < PIECE || o->block_bytes > MIB(64))
      return cli_wrong("replay", "--block-bytes: need 64..64MiB, have '%s'", arg);
    return 0;
  case OPT_PRESET:
    o->preset = arg;
    return 0;
  case OPT_SCALE:
    return units_count(arg, 1, MIB(1), &o->scale) < 0 ? cli_wrong("replay", "--scale: need 1..1048576, have '%s'", arg)
                                                      : 0;
  case OPT_BATCH:
    return take_count("batch", arg, DRAY_BATCH_MAX, &o->batch);
  case OPT_MAP:
    o->map = true;
    return 0;
  case OPT_CRC:
    o->crc = true;
    return 0;
  case OPT_TIME:
    return take_ratio("time-scale", arg, &o->time_scale);
  case OPT_RATE:
    return take_ratio("rate", arg, &o->rate);
  default:
    return cli_option(&o->cli, c, arg) ? 0 : cli_usage(usage);
  }
}

static int check(struct replay_options *o, const struct said *said)
{
  const char *env = getenv("DRAY_SOCKET");
  if (said->synthetic == (o->trace != NULL))
    return cli_wrong("replay", "need TRACE.jsonl or --synthetic, one of them");
  if (said->requests && !said->synthetic)
    return cli_wrong("replay", "--requests and --seed belong to --synthetic");
  if (o->scale && o->block_bytes)
    return cli_wrong("replay", "--scale and --block-bytes exclude each other");
  if (o->rate > 0 && o->time_scale > 0)
    return cli_wrong("replay", "--rate and --time-scale exclude each other");
  if (o->self && o->cli.socket)
    return cli_wrong("replay", "--self and --socket exclude each other");
  if (!o->cli.socket && !(env && *env))
    o->self = true;
  if (!o->self && said->pools)
    return cli_wrong("replay", "--dram, --cxl and --disk are of a mover of its own (--self)");
  if (o->named && said->tenants && o->named != o->tenants)
    return cli_wrong("replay", "--tenants %u, but %u given by --tenant or --token-file", o->tenants, o->named);
  if (o->named)
    o->tenants = o->named;
  else if (!o->self && o->tenants > 1 && said->tenants)
    return cli_wrong("replay", "--tenants %u with --socket: need as many --tenant NAME:TOKEN (or --token-file)",
                     o->tenants);
  else if (!o->self)
    o->tenants = 1;
  if (said->engines && o->engines > o->tenants)
    return cli_wrong("replay", "--engines %u: a tenant belongs to one engine, so need at most --tenants %u", o->engines,
                     o->tenants);
  o->engines = MIN_OF(o->engines, o->tenants);
  if (!o->block_bytes)
    o->block_bytes = KIB(16);
  return shape(o);
}

bool replay_options(int argc, char **argv, struct replay_options *o, int *ret_code)
{
  struct said said = {.synthetic = false};
  *o = (struct replay_options){
      .requests = 918, .engines = 4, .tenants = 4, .seed = 1, .preset = "llama8b", .batch = 1024};
  o->quiet = !cli_tty();
  optind = 1;
  for (int c; (c = getopt_long(argc, argv, "", opts, NULL)) != -1;) {
    *ret_code = c == CLI_HELP ? cli_help(usage) : take_option(o, &said, c, optarg);
    if (c == CLI_HELP || *ret_code)
      return false;
  }
  if (optind < argc)
    o->trace = argv[optind++];
  *ret_code = optind != argc ? cli_wrong("replay", "unexpected argument '%s'", argv[optind]) : check(o, &said);
  return *ret_code == 0;
}
