/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/conform/transport_conform.h"

ConformSetup conform_setup()
{
  ConformSetup s;
  s.transport = &transport_file;
  s.buffered = true;
  s.path_aligned = s.path_unaligned = DRAY_PATH_IO_URING_BUFFERED;
  return s;
}
