/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "transports/fault/script.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
  struct script s, before;
  struct err e = {{0}};
  memset(&s, 0x5a, sizeof s);
  before = s;
  if (script_parse((const char *)data, n, &e, &s) < 0) {
    if (memcmp(&s, &before, sizeof s) != 0 || !e.text[0])
      abort(); /* refused: nothing may have changed, and it is said why */
  } else if ((s.fail.b && s.fail.a > s.fail.b) || s.places > SCRIPT_PLACES_MAX || s.unit < 4096) {
    abort();
  }
  return 0;
}
