/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cstring>

extern "C" {
#include "transports/rdma/address.h"
}

TEST(Address, NumbersWithAndWithoutAPort)
{
  struct sockaddr_storage a = {};
  struct err e = {};
  auto *a4 = reinterpret_cast<struct sockaddr_in *>(&a);
  auto *a6 = reinterpret_cast<struct sockaddr_in6 *>(&a);
  ASSERT_EQ(0, address_parse("10.1.2.3", &a, &e)) << e.text;
  EXPECT_EQ(AF_INET, a.ss_family);
  EXPECT_EQ(htons(ADDRESS_PORT), a4->sin_port);
  EXPECT_EQ(htonl(0x0a010203), a4->sin_addr.s_addr);
  ASSERT_EQ(0, address_parse("10.1.2.3:65535", &a, &e));
  EXPECT_EQ(htons(65535), a4->sin_port);
  ASSERT_EQ(0, address_parse("[fd00::1]:80", &a, &e));
  EXPECT_EQ(AF_INET6, a.ss_family);
  EXPECT_EQ(htons(80), a6->sin6_port);
  ASSERT_EQ(0, address_parse("[fd00::1]", &a, &e));
  for (const char *bad : {"", "host", "10.1.2", "10.1.2.3:", "10.1.2.3:0", "10.1.2.3:65536", "10.1.2.3:7x", "10.1.2.3:-1", "[fd00::1",
                          "[fd00::1]x", "fd00::1", "[]", "10.1.2.3:99999999999999999999"}) {
    e.text[0] = 0;
    EXPECT_EQ(-EINVAL, address_parse(bad, &a, &e)) << bad;
    EXPECT_NE('\0', e.text[0]) << bad;
  }
}

TEST(Address, PathsAreStripedInTheirOrderAndMayNameTheirSource)
{
  struct address_path p[ADDRESS_PATHS_MAX];
  struct err e = {};
  uint32_t n = 0;
  ASSERT_EQ(0, address_paths("10.0.0.1>10.0.0.2:7000, 10.0.1.2", p, &n, &e)) << e.text;
  ASSERT_EQ(2u, n);
  EXPECT_TRUE(p[0].has_src);
  EXPECT_EQ(htons(7000), reinterpret_cast<struct sockaddr_in *>(&p[0].dst)->sin_port);
  EXPECT_EQ(0, reinterpret_cast<struct sockaddr_in *>(&p[0].src)->sin_port) << "any port of ours";
  EXPECT_FALSE(p[1].has_src);
  EXPECT_EQ(-EINVAL, address_paths("", p, &n, &e));
  EXPECT_EQ(-EINVAL, address_paths("10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4,10.0.0.5", p, &n, &e));
  EXPECT_EQ(-EINVAL, address_paths("x>10.0.0.2", p, &n, &e));
  EXPECT_EQ(-EINVAL, address_paths(std::string(600, '1').c_str(), p, &n, &e));
}
