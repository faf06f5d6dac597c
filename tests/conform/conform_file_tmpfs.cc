/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/conform/transport_conform.h"

ConformSetup conform_setup()
{
  ConformSetup s;
  s.transport = &transport_file;
  s.root = "/dev/shm";
  return s;
}
