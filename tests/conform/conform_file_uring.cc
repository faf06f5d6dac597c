/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/conform/transport_conform.h"

ConformSetup conform_setup()
{
  ConformSetup s;
  s.transport = &transport_file;
  s.path_aligned = DRAY_PATH_IO_URING_DIRECT;
  s.path_unaligned = DRAY_PATH_BOUNCE;
  return s;
}
