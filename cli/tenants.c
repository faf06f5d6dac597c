/* SPDX-License-Identifier: Apache-2.0 */
/* dray tenants: who has how much of what was promised, what was refused and by which rule. */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "cli/cli.h"
#include "cli/table.h"

static const char usage[] =
    "usage: dray tenants [--json] [--admin PATH]\n"
    "Each tenant by tier: bytes charged (of slabs, which others cannot have), peak, reserve, limit, cells' bytes;\n"
    "refusals by reason; the rules and which of them are in force. Exit 3 when a rule is in force.\n" CLI_OPTIONS_HELP;

static void print_usage(const json_t *a)
{
  static const char *const head[] = {"tenant", "tier",    ">charged", ">peak",       ">reserve",
                                     ">limit", ">weight", "over",     ">cell bytes", NULL};
  struct table t;
  size_t i, k;
  json_t *tenant, *row;
  table_init(&t, head);
  json_array_foreach(json_object_get(a, "tenants"), i, tenant)
  {
    json_array_foreach(json_object_get(tenant, "tiers"), k, row)
    {
      bool limited = json_is_integer(json_object_get(row, "limit"));
      if (!cli_number(row, "peak") && !cli_number(row, "reserve") && !limited)
        continue;
      table_add(&t, "%s", cli_text(tenant, "tenant"));
      table_add(&t, "%s", cli_text(row, "tier"));
      table_add_bytes(&t, cli_number(row, "charged"));
      table_add_bytes(&t, cli_number(row, "peak"));
      table_add_bytes(&t, cli_number(row, "reserve"));
      if (limited)
        table_add_bytes(&t, cli_number(row, "limit"));
      else
        table_add(&t, "none");
      table_add_count(&t, cli_number(row, "weight"));
      table_add(&t, "%s", cli_text(row, "over"));
      table_add_bytes(&t, cli_number(row, "cell_bytes"));
    }
  }
  table_print(&t, stdout);
}

static void print_refused(const json_t *a)
{
  static const char *const head[] = {"refused", "reason", ">count", "last rule", NULL};
  struct table t;
  size_t i;
  json_t *tenant, *v;
  const char *reason;
  table_init(&t, head);
  json_array_foreach(json_object_get(a, "tenants"), i, tenant)
  {
    json_object_foreach(json_object_get(tenant, "refused"), reason, v)
    {
      if (!json_integer_value(v))
        continue;
      table_add(&t, "%s", cli_text(tenant, "tenant"));
      table_add(&t, "%s", reason);
      table_add_count(&t, (uint64_t)json_integer_value(v));
      table_add(&t, "%s", cli_text(tenant, "last_rule"));
    }
  }
  if (t.n)
    putchar('\n');
  table_print(&t, stdout);
}

bool cli_print_rules(const json_t *a)
{
  static const char *const head[] = {">rule", "name",   "tier",     "class", ">when", ">until",
                                     "what",  ">begun", ">refused", "phase", NULL};
  struct table t;
  size_t i;
  json_t *r;
  bool force = false;
  table_init(&t, head);
  json_array_foreach(json_object_get(a, "rules"), i, r)
  {
    table_add_count(&t, cli_number(r, "rule"));
    table_add(&t, "%s", cli_text(r, "name"));
    table_add(&t, "%s", cli_text(r, "tier"));
    table_add(&t, "%s", cli_text(r, "class"));
    table_add(&t, "%llu%%", (unsigned long long)cli_number(r, "when_percent"));
    table_add(&t, "%llu%%", (unsigned long long)cli_number(r, "until_percent"));
    table_add(&t, "%s", cli_text(r, "what"));
    table_add_count(&t, cli_number(r, "begun"));
    table_add_count(&t, cli_number(r, "refused"));
    table_add(&t, "%s", cli_text(r, "phase"));
    force |= strcmp(cli_text(r, "phase"), "in force") == 0;
  }
  if (t.n)
    putchar('\n');
  table_print(&t, stdout);
  if (*cli_text(a, "reload_error"))
    printf("the last reload was refused: %s\n", cli_text(a, "reload_error"));
  return force;
}

int cli_tenants(int argc, char **argv)
{
  struct cli_options o = {0};
  int code;
  if (!cli_plain(argc, argv, usage, &o, &code))
    return code;
  json_t *a = cli_ask(o.admin, "tenants", NULL, &code);
  if (!a)
    return code;
  bool force = false;
  if (o.json) {
    size_t i;
    json_t *r;
    cli_print_json(a);
    json_array_foreach(json_object_get(a, "rules"), i, r) force |= strcmp(cli_text(r, "phase"), "in force") == 0;
  } else {
    print_usage(a);
    print_refused(a);
    force = cli_print_rules(a);
  }
  json_decref(a);
  return force ? EXIT_DEGRADED : EXIT_OK;
}
