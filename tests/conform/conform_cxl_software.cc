/* SPDX-License-Identifier: Apache-2.0 */
// The same, with the coherence that software makes.
#include "tests/conform/transport_conform.h"

ConformSetup conform_setup()
{
  ConformSetup s;
  s.transport = &transport_cxl;
  s.root = "/dev/shm";
  s.path_is_file = true;
  s.owner = "tenant-1";
  s.keep = DEV_KEEP_YES;
  s.coherence = DEV_SOFTWARE;
  return s;
}
