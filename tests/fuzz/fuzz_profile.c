/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "policy/profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
  struct profile_set a, b;
  struct err e = {{0}};
  memset(&a, 0, sizeof a);
  profile_defaults(&a);
  b = a;
  if (profile_parse(&a, (const char *)data, n, &e) < 0 && (memcmp(&a, &b, sizeof a) != 0 || !e.text[0]))
    abort(); /* refused: nothing may have changed, and it is said why */
  return 0;
}
