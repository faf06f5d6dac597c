/* SPDX-License-Identifier: Apache-2.0 */
/* Options, messages and sessions that the subcommands share. */
#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <dray/admin.h>

#include "bench/stage.h"
#include "include/priv/bits.h"

int cli_usage(const char *text)
{
  fputs(text, stderr);
  return EXIT_USAGE;
}

int cli_wrong(const char *command, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  fprintf(stderr, "dray %s: ", command);
  vfprintf(stderr, fmt, ap);
  va_end(ap);
  fprintf(stderr, "\n'dray %s --help' says more\n", command);
  return EXIT_USAGE;
}

int cli_help(const char *text)
{
  fputs(text, stdout);
  return EXIT_OK;
}

bool cli_tty(void)
{
  return isatty(STDERR_FILENO);
}

bool cli_color(void)
{
  const char *no = getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) && !(no && *no);
}

bool cli_option(struct cli_options *o, int c, const char *arg)
{
  switch (c) {
  case CLI_SOCKET:
    o->socket = arg;
    return true;
  case CLI_ADMIN:
    o->admin = arg;
    return true;
  case CLI_AGENT:
    o->agent = arg;
    return true;
  case CLI_TOKEN:
    o->token = arg;
    return true;
  case CLI_JSON:
    o->json = true;
    return true;
  default:
    return false;
  }
}

bool cli_plain(int argc, char **argv, const char *usage, struct cli_options *o, int *ret_code)
{
  static const struct option opts[] = {CLI_OPTIONS};
  optind = 1;
  for (int c; (c = getopt_long(argc, argv, "", opts, NULL)) != -1;) {
    if (c == CLI_HELP) {
      *ret_code = cli_help(usage);
      return false;
    }
    if (!cli_option(o, c, optarg)) {
      *ret_code = cli_usage(usage);
      return false;
    }
  }
  if (optind != argc) {
    *ret_code = cli_wrong(argv[0], "unexpected argument '%s'", argv[optind]);
    return false;
  }
  return true;
}

void cli_print_json(const json_t *o)
{
  char *text = json_dumps(o, JSON_INDENT(1));
  if (text)
    puts(text);
  free(text);
}

void cli_print_new(json_t *o)
{
  json_object_set_new(o, "schema_version", json_integer(1));
  cli_print_json(o);
  json_decref(o);
}

json_t *cli_u64(uint64_t v)
{
  return json_integer((json_int_t)MIN_OF(v, (uint64_t)INT64_MAX));
}

json_t *cli_ask(const char *admin, const char *verb, json_t *args, int *ret_code)
{
  json_t *q = args ? args : json_object();
  json_object_set_new(q, "verb", json_string(verb));
  char *text = json_dumps(q, JSON_COMPACT), *answer = NULL;
  json_decref(q);
  int r = text ? dray_admin_call(admin, text, 10000, &answer) : -ENOMEM;
  free(text);
  *ret_code = EXIT_ERROR;
  if (r < 0) {
    const char *env = getenv("DRAY_ADMIN");
    const char *why = r == -EACCES ? "; the admin socket is its owner's and root's" : "; is drayd running?";
    fprintf(stderr, "dray %s: %s: %s%s (--admin PATH or DRAY_ADMIN says where)\n", verb,
            admin         ? admin
            : env && *env ? env
                          : DRAY_ADMIN_DEFAULT,
            strerror(-r), why);
    return NULL;
  }
  json_error_t e;
  json_t *o = json_loads(answer, 0, &e);
  free(answer);
  if (!o || !json_is_true(json_object_get(o, "ok"))) {
    const char *why = json_string_value(json_object_get(o, "error"));
    fprintf(stderr, "dray %s: %s\n", verb, why ? why : "the answer is not JSON");
    json_decref(o);
    return NULL;
  }
  *ret_code = EXIT_OK;
  return o;
}

struct dray *cli_session(const struct cli_options *o, uint32_t entries, uint32_t items)
{
  struct dray_params p = {
      .size = sizeof p, .socket = o->socket, .agent = o->agent, .token = o->token, .entries = entries, .items = items};
  struct dray *d = NULL;
  int r = dray_open(&p, &d);
  if (r == 0)
    return d;
  const char *env = getenv("DRAY_SOCKET");
  fprintf(stderr, "dray: %s: %s%s\n",
          o->socket     ? o->socket
          : env && *env ? env
                        : DRAY_SOCKET_DEFAULT,
          dray_open_error(r),
          r == -ENOENT || r == -ECONNREFUSED ? "; is drayd running? (--socket PATH or DRAY_SOCKET says where)"
          : r == -EACCES                     ? " (--token SECRET or DRAY_TOKEN says who asks)"
                                             : "");
  return NULL;
}

int cli_region(struct dray *d, uint64_t bytes, struct dray_region *ret_region)
{
  struct dray_msg_reply why;
  int r = dray_region_alloc(bytes, false, ret_region);
  if (r < 0) {
    fprintf(stderr, "dray: region: cannot allocate %llu bytes: %s\n", (unsigned long long)bytes, strerror(-r));
    return r;
  }
  r = dray_region_register(d, ret_region);
  if (r == 0)
    return 0;
  dray_last_error(d, &why);
  fprintf(stderr, "dray: region: %s: need %llu, have %llu (limits.regions, limits.pinned of the mover)\n", strerror(-r),
          (unsigned long long)why.need, (unsigned long long)why.have);
  dray_region_free(ret_region);
  return r;
}

int cli_finish(struct dray *d, int timeout_ms, struct dray_cqe *ret_cqe)
{
  uint64_t end = stage_now_ns() + (uint64_t)timeout_ms * 1000000u;
  int r = dray_submit(d);
  if (r < 0)
    return r;
  for (;;) {
    uint64_t now = stage_now_ns();
    if (now >= end)
      return -ETIMEDOUT;
    r = dray_wait(d, 1, (int)((end - now) / 1000000u + 1));
    if (r < 0)
      return r;
    const struct dray_cqe *c = dray_peek(d);
    struct dray_cqe copy = *c;
    dray_seen(d);
    if (copy.type == DRAY_DONE) {
      *ret_cqe = copy;
      return 0;
    }
    if (copy.type == DRAY_FATAL)
      return -ECONNRESET;
  }
}

int cli_exit_of(unsigned reason)
{
  switch (reason) {
  case DRAY_REASON_OK:
    return EXIT_OK;
  case DRAY_ABSENT:
  case DRAY_EVICTED:
  case DRAY_STALE_GENERATION:
    return EXIT_ERROR;
  default:
    return reason < DRAY_IO_ERROR ? EXIT_REFUSED : EXIT_ERROR;
  }
}

void cli_hex(const uint8_t key[16], char ret_text[33])
{
  for (int i = 0; i < 16; i++)
    snprintf(ret_text + 2 * i, 3, "%02x", key[i]);
}

uint64_t cli_number(const json_t *o, const char *key)
{
  json_int_t v = json_integer_value(json_object_get(o, key));
  return v > 0 ? (uint64_t)v : 0;
}

const char *cli_text(const json_t *o, const char *key)
{
  const char *t = json_string_value(json_object_get(o, key));
  return t ? t : "";
}
