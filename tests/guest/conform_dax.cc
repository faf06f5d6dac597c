/* SPDX-License-Identifier: Apache-2.0 */
// The conformance suite on a real device: GUEST_CONFORM_DAX names it, GUEST_CONFORM_KEEP says that it keeps a directory.
#include "tests/conform/transport_conform.h"

#include <cstdlib>

ConformSetup conform_setup()
{
  ConformSetup s;
  const char *dax = getenv("GUEST_CONFORM_DAX");
  s.transport = &transport_cxl;
  s.device = dax ? dax : "/dev/dax-is-not-named";
  s.owner = "tenant-1";
  s.keep = getenv("GUEST_CONFORM_KEEP") ? DEV_KEEP_YES : DEV_KEEP_NO;
  return s;
}
