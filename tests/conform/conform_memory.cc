/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/conform/transport_conform.h"

ConformSetup conform_setup()
{
  ConformSetup s;
  s.transport = &transport_memory;
  s.has_path = false;
  s.lockable = false;
  return s;
}
