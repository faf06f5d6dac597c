/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/conform/transport_conform.h"

int main(int argc, char **argv)
{
  ::testing::InitGoogleTest(&argc, argv);
  const std::string flag = "--fault=";
  for (int i = 1; i < argc; i++)
    if (std::string(argv[i]).rfind(flag, 0) == 0)
      conform_fault(std::string(argv[i]).substr(flag.size()));
  return RUN_ALL_TESTS();
}
