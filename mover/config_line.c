/* SPDX-License-Identifier: Apache-2.0 */
/* Where in the file the items of a section begin: the parser that fills the structs does not say. */
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "include/priv/cleanup.h"
#include "mover/config_file.h"

/* One event; false at the end or at an error. The caller deletes it. */
static bool next(yaml_parser_t *p, yaml_event_t *ret_event)
{
  if (!yaml_parser_parse(p, ret_event))
    return false;
  if (ret_event->type != YAML_STREAM_END_EVENT)
    return true;
  yaml_event_delete(ret_event);
  return false;
}

static int depth_of(const yaml_event_t *e)
{
  if (e->type == YAML_MAPPING_START_EVENT || e->type == YAML_SEQUENCE_START_EVENT)
    return 1;
  return e->type == YAML_MAPPING_END_EVENT || e->type == YAML_SEQUENCE_END_EVENT ? -1 : 0;
}

void config_lines(const char *path, const char *section, uint32_t *ret_line, uint32_t n)
{
  yaml_parser_t p;
  yaml_event_t e;
  CLEAN_FILE *f = fopen(path, "re");
  int depth = 0;
  bool key = false, in = false; /* at depth 1 keys and values take turns */
  uint32_t at = 0;
  if (!f || !yaml_parser_initialize(&p))
    return;
  yaml_parser_set_input_file(&p, f);
  while (at < n && next(&p, &e)) {
    int step = depth_of(&e);
    if (depth == 1 && step >= 0 && (step > 0 || e.type == YAML_SCALAR_EVENT)) {
      key = !key;
      if (key)
        in = e.type == YAML_SCALAR_EVENT && !strcmp((const char *)e.data.scalar.value, section);
    }
    if (in && depth == 2 && step > 0)
      ret_line[at++] = (uint32_t)e.start_mark.line + 1;
    depth += step;
    yaml_event_delete(&e);
  }
  yaml_parser_delete(&p);
}
