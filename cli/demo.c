/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/demo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dray/admin.h>

#include "base/units.h"
#include "cli/table.h"
#include "include/priv/bits.h"

static const char usage[] = "usage: dray demo --socket PATH --admin PATH --tenant TOKEN --tenant TOKEN [--json]\n"
                            "What deploy/demo.sh runs: two tenants (by token) offload, map, move and restore KV "
                            "blocks, and meet the trust gate.\n"
                            "Exit 1 when a byte is wrong or anything ends otherwise than it must.\n" CLI_OPTIONS_HELP;

static int side_open(struct demo_side *s, const struct cli_options *o, const char *token)
{
  struct cli_options who = *o;
  who.token = token;
  who.agent = who.agent ? who.agent : "demo";
  s->region.fd = -1;
  s->d = cli_session(&who, 16, DEMO_BLOCKS);
  if (!s->d)
    return -1;
  s->name = dray_tenant(s->d);
  const struct dray_layout layout = {.block_stride = DEMO_SEG_BYTES,
                                     .seg_stride = (uint64_t)DEMO_BLOCKS * DEMO_SEG_BYTES,
                                     .seg_bytes = DEMO_SEG_BYTES,
                                     .segs = DEMO_SEGS};
  return cli_region(s->d, DEMO_BLOCKS * DEMO_BLOCK_BYTES, &s->region) < 0 ||
                 dray_layout_define(s->d, &layout, &s->layout) < 0
             ? -1
             : 0;
}

static void side_close(struct demo_side *s)
{
  dray_close(s->d);
  if (s->region.base)
    dray_region_free(&s->region);
}

/* Which tiers are not the real medium: a bit each. */
static unsigned emulated_tiers(const char *admin)
{
  unsigned set = 0;
  int code;
  size_t i;
  json_t *a = cli_ask(admin, "tiers", NULL, &code), *t;
  json_array_foreach(json_object_get(a, "tiers"), i, t)
  {
    const char *name = json_string_value(json_object_get(t, "tier"));
    if (name && json_is_true(json_object_get(t, "emulated")))
      set |= 1u << dray_tier_by_name(name);
  }
  json_decref(a);
  return set;
}

static void show_table(const struct demo *m, unsigned emulated)
{
  static const char *const head[] = {"tenant", "what",   "outcome", "as it must", "tier",
                                     "path",   ">bytes", ">cost",   ">GB/s",      NULL};
  struct table t;
  table_init(&t, head);
  for (unsigned i = 0; i < m->n; i++) {
    const struct demo_step *s = &m->step[i];
    bool moved = s->bytes && s->path > DRAY_PATH_MAP;
    table_add(&t, "%s", s->who);
    table_add(&t, "%s", s->what);
    table_add(&t, "%s", s->outcome);
    table_add(&t, "%s", s->good ? "yes" : "NO");
    table_add(&t, "%s%s", s->tier ? dray_tier_name(s->tier) : "-", emulated >> s->tier & 1 ? " (emulated)" : "");
    table_add(&t, "%s", s->path > DRAY_PATH_NONE ? dray_path_name(s->path) : "-");
    if (s->bytes)
      table_add_bytes(&t, s->bytes);
    else
      table_add(&t, "-");
    table_add_time(&t, s->ns);
    if (moved)
      table_add(&t, "%.2f", (double)s->bytes / (double)s->ns);
    else
      table_add(&t, "-");
  }
  table_print(&t, stdout);
  if (emulated)
    puts("emulated: the medium is a file or DRAM in its place; its figures say nothing about the real one");
}

static void show_json(const struct demo *m, unsigned emulated, bool good)
{
  json_t *o = json_object(), *list = json_array();
  for (unsigned i = 0; i < m->n; i++) {
    const struct demo_step *s = &m->step[i];
    json_t *j = json_object();
    json_object_set_new(j, "tenant", json_string(s->who));
    json_object_set_new(j, "what", json_string(s->what));
    json_object_set_new(j, "outcome", json_string(s->outcome));
    json_object_set_new(j, "expected", json_boolean(s->good));
    json_object_set_new(j, "tier", s->tier ? json_string(dray_tier_name(s->tier)) : json_null());
    json_object_set_new(j, "emulated", json_boolean(emulated >> s->tier & 1));
    json_object_set_new(j, "path", json_string(dray_path_name(s->path)));
    json_object_set_new(j, "bytes", cli_u64(s->bytes));
    json_object_set_new(j, "ns", cli_u64(s->ns));
    json_array_append_new(list, j);
  }
  json_object_set_new(o, "steps", list);
  json_object_set_new(o, "bytes_checked", cli_u64(m->checked));
  json_object_set_new(o, "wrong_pieces", cli_u64(m->wrong));
  json_object_set_new(o, "good", json_boolean(good));
  cli_print_new(o);
}

static int run(struct demo *m, const struct cli_options *o, const char *const token[2])
{
  if (side_open(&m->a, o, token[0]) < 0 || side_open(&m->b, o, token[1]) < 0)
    return EXIT_ERROR;
  unsigned emulated = emulated_tiers(o->admin);
  bool good = demo_acts(m) == 0 && m->wrong == 0;
  for (unsigned i = 0; i < m->n; i++)
    good = good && m->step[i].good;
  if (o->json) {
    show_json(m, emulated, good);
    return good ? EXIT_OK : EXIT_ERROR;
  }
  char checked[32];
  show_table(m, emulated);
  printf("%s checked byte by byte, %llu pieces wrong: %s\n", units_format_bytes(m->checked, checked, sizeof checked),
         (unsigned long long)m->wrong, good ? "all is as it must be" : "NOT AS IT MUST BE");
  return good ? EXIT_OK : EXIT_ERROR;
}

int cli_demo(int argc, char **argv)
{
  static const struct option opts[] = {{"tenant", required_argument, NULL, 't'}, CLI_OPTIONS};
  struct cli_options o = {0};
  const char *token[2] = {NULL, NULL};
  unsigned tokens = 0;
  optind = 1;
  for (int c; (c = getopt_long(argc, argv, "", opts, NULL)) != -1;) {
    if (c == CLI_HELP)
      return cli_help(usage);
    if (c == 't' && tokens < 2)
      token[tokens++] = optarg;
    else if (c == 't')
      return cli_wrong("demo", "--tenant: two are enough");
    else if (!cli_option(&o, c, optarg))
      return cli_usage(usage);
  }
  if (optind != argc || tokens != 2)
    return cli_wrong("demo", "need --tenant TOKEN twice");
  struct demo *m = calloc(1, sizeof *m);
  int code = m ? run(m, &o, token) : EXIT_ERROR;
  if (m) {
    side_close(&m->a);
    side_close(&m->b);
  }
  free(m);
  return code;
}
