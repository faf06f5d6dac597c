/* SPDX-License-Identifier: Apache-2.0 */
/* dray config: what the mover runs by, and reading its file again. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static const char usage[] =
    "usage: dray config show|diff|check|reload [--json] [--admin PATH]\n"
    "  show    what the mover runs by (never tokens)\n"
    "  check   would `reload` take the file as it is now? Changes nothing. Exit 1 when not\n"
    "  diff    expected (the file) against actual, a line each: \"-\" in force alone, \"+\" in the file alone (reload "
    "takes\n"
    "          it), \"~\" changed since the start (a restart takes it), \"!\" this machine does not show it; \"?\" it "
    "shows\n"
    "          what no tier uses, which is no difference. Exit 3 when there is any\n"
    "  reload  the mover reads quotas, rates and rules of its file again (as SIGHUP does); all of them or, with one\n"
    "          error, none. Everything else needs a restart\n" CLI_OPTIONS_HELP;

static int show(const struct cli_options *o)
{
  int code;
  json_t *a = cli_ask(o->admin, "config", NULL, &code);
  if (!a)
    return code;
  cli_print_json(a);
  json_decref(a);
  return EXIT_OK;
}

/* The verbs check and reload answer alike. */
static int reload(const struct cli_options *o, const char *verb, const char *done)
{
  int code;
  json_t *a = cli_ask(o->admin, verb, NULL, &code);
  if (!a)
    return code;
  bool good = json_is_true(json_object_get(a, "good"));
  if (o->json)
    cli_print_json(a);
  else if (good)
    puts(done);
  else
    fprintf(stderr, "dray config %s: %s\n", verb, json_string_value(json_object_get(a, "text")));
  json_decref(a);
  return good ? EXIT_OK : EXIT_ERROR;
}

static int diff(const struct cli_options *o)
{
  int code;
  json_t *a = cli_ask(o->admin, "check", NULL, &code), *line;
  if (!a)
    return code;
  json_t *list = json_object_get(a, "differs");
  size_t i;
  code = !json_is_true(json_object_get(a, "good")) ? EXIT_ERROR
         : cli_number(a, "differences")            ? EXIT_DEGRADED
                                                   : EXIT_OK;
  if (o->json)
    cli_print_json(a);
  else if (code == EXIT_ERROR)
    fprintf(stderr, "dray config diff: %s\n", json_string_value(json_object_get(a, "text")));
  else if (code == EXIT_OK)
    puts("the file, what is in force and what the kernel shows are the same");
  for (i = 0; !o->json && i < json_array_size(list); i++) {
    line = json_array_get(list, i);
    puts(json_string_value(line));
  }
  json_decref(a);
  return code;
}

int cli_config(int argc, char **argv)
{
  struct cli_options o = {0};
  int code;
  const char *what = argc > 1 && argv[1][0] != '-' ? argv[1] : NULL;
  if (what) {
    argv[1] = argv[0];
    argc--;
    argv++;
  }
  if (!cli_plain(argc, argv, usage, &o, &code))
    return code;
  if (what && !strcmp(what, "show"))
    return show(&o);
  if (what && !strcmp(what, "check"))
    return reload(&o, "check", "the file is good: reload would take it");
  if (what && !strcmp(what, "reload"))
    return reload(&o, "reload", "reloaded: quotas, rates and rules of the file are in force");
  if (what && !strcmp(what, "diff"))
    return diff(&o);
  return what ? cli_wrong("config", "'%s': need show, diff, check or reload", what) : cli_usage(usage);
}
