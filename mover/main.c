/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <dray/version.h>

#include "mover/config.h"
#include "mover/keeper.h"
#include "mover/log.h"
#include "mover/tune.h"

static const char usage[] =
    "usage: drayd [--config FILE] [--dir DIR] [--set KEY=VALUE]... [--tenant NAME:TOKEN]... [--check] [--version]\n"
    "\n"
    "Without a configuration: tiers dram (1 GiB), cxl (1 GiB, emulated) and disk (4 GiB) under DIR (/run/dray as "
    "root,\n"
    "else $XDG_RUNTIME_DIR/dray). Precedence: flags, DRAYD_<KEY>, file, default.\n"
    "KEY: node socket admin socket_mode lanes log calibration metrics chunk split_bytes crc copy_plan drain_ms harden "
    "revoke_grace token_cost usage.* "
    "strict "
    "limits.* "
    "tier.<name>.<key>\n";

enum {
  OPT_CONFIG = 'c',
  OPT_DIR = 'd',
  OPT_SET = 's',
  OPT_TENANT = 't',
  OPT_CHECK = 'k',
  OPT_VERSION = 'v',
  OPT_HELP = 'h'
};

static const struct option options[] = {
    {"config", required_argument, NULL, OPT_CONFIG}, {"dir", required_argument, NULL, OPT_DIR},
    {"set", required_argument, NULL, OPT_SET},       {"tenant", required_argument, NULL, OPT_TENANT},
    {"check", no_argument, NULL, OPT_CHECK},         {"version", no_argument, NULL, OPT_VERSION},
    {"help", no_argument, NULL, OPT_HELP},           {NULL, 0, NULL, 0},
};

/* DRAYD_SOCKET, DRAYD_LANES, ... for the keys that a container sets most. */
static int from_environment(struct config *c, struct err *e)
{
  static const struct {
    const char *env, *key;
  } vars[] = {
      {"DRAYD_SOCKET", "socket"},           {"DRAYD_ADMIN", "admin"}, {"DRAYD_LANES", "lanes"},    {"DRAYD_LOG", "log"},
      {"DRAYD_CALIBRATION", "calibration"}, {"DRAYD_NODE", "node"},   {"DRAYD_METRICS", "metrics"}};
  for (size_t i = 0; i < sizeof vars / sizeof vars[0]; i++) {
    const char *v = getenv(vars[i].env);
    int r = v && *v ? config_set(c, vars[i].key, v, e) : 0;
    if (r < 0)
      return r;
  }
  return 0;
}

static int from_flags(struct config *c, int argc, char **argv, struct err *e)
{
  optind = 1;
  for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    int r = 0;
    if (o == OPT_TENANT) {
      r = config_set(c, "tenant", optarg, e);
    } else if (o == OPT_SET) {
      char key[128];
      const char *eq = strchr(optarg, '=');
      if (!eq || (size_t)(eq - optarg) >= sizeof key)
        return err_set(e, -EINVAL, "--set %.100s: need KEY=VALUE", optarg);
      memcpy(key, optarg, (size_t)(eq - optarg));
      key[eq - optarg] = 0;
      r = config_set(c, key, eq + 1, e);
    }
    if (r < 0)
      return r;
  }
  return 0;
}

int main(int argc, char **argv)
{
  const char *file = getenv("DRAYD_CONFIG"), *dir = NULL;
  int check = 0;
  for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    switch (o) {
    case OPT_CONFIG:
      file = optarg;
      break;
    case OPT_DIR:
      dir = optarg;
      break;
    case OPT_CHECK:
      check = 1;
      break;
    case OPT_VERSION:
      puts("drayd " DRAY_VERSION);
      return 0;
    case OPT_HELP:
      fputs(usage, stdout);
      return 0;
    case OPT_SET:
    case OPT_TENANT:
      break;
    default:
      fputs(usage, stderr);
      return 2;
    }
  }
  if (optind != argc) {
    fprintf(stderr, "drayd: unexpected argument '%s'\n%s", argv[optind], usage);
    return 2;
  }
  struct config *c = malloc(sizeof *c); /* large */
  struct err e = {{0}};
  int r = c ? config_default(c, dir, &e) : -ENOMEM;
  if (r == 0 && file)
    r = config_load(c, file, &e);
  if (r == 0)
    c->file = file;
  struct config *as_file = r == 0 && file ? malloc(sizeof *as_file) : NULL;
  if (as_file) { /* its strings are c's */
    *as_file = *c;
    c->as_file = as_file;
  }
  if (r == 0)
    r = from_environment(c, &e);
  if (r == 0)
    r = from_flags(c, argc, argv, &e);
  if (r == 0)
    r = config_finish(c, &e);
  if (r < 0) {
    fprintf(stderr, "drayd: %s\n", e.text[0] ? e.text : strerror(-r));
    if (c)
      config_free(c);
    free(as_file);
    free(c);
    return 2;
  }
  if (check) {
    puts("configuration is valid");
    config_free(c);
    free(as_file);
    free(c);
    return 0;
  }
  struct log log = {.level = c->log_level, .prefix = getenv("JOURNAL_STREAM") != NULL};
  tune_copy(c, &log);
  r = keeper_run(c, &log);
  config_free(c);
  free(as_file);
  free(c);
  return r;
}
