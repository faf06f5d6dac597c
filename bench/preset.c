/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/preset.h"

#include <stddef.h>
#include <string.h>

#include "include/priv/bits.h"

static const struct preset presets[] = {
    {"llama8b", 16, 32, KIB(64), 432}, {"llama70b-tp8", 16, 80, KIB(8), 432}, {"dsv3", 64, 61, KIB(72), 108},
    {"lmcache", 256, 1, MIB(32), 27},  {"sglang", 64, 1, MIB(8), 128},        {"mooncake", 512, 1, MIB(64), 14},
};

const struct preset *preset_find(const char *name)
{
  for (size_t i = 0; i < ARRAY_LEN(presets); i++)
    if (strcmp(presets[i].name, name) == 0)
      return &presets[i];
  return NULL;
}
