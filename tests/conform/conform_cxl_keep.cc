/* SPDX-License-Identifier: Apache-2.0 */
// A file that stands in for a device, with the directory that a persistent one keeps.
#include "tests/conform/transport_conform.h"

ConformSetup conform_setup()
{
  ConformSetup s;
  s.transport = &transport_cxl;
  s.root = "/dev/shm";
  s.path_is_file = true;
  s.owner = "tenant-1";
  s.keep = DEV_KEEP_YES;
  return s;
}
