/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>

extern "C" {
#include "transports/rdma/auth.h"
}

namespace {
std::string KeyFile(const std::string &text, mode_t mode)
{
  std::string path = testing::TempDir() + "dray-auth-key";
  unlink(path.c_str());
  std::ofstream(path) << text;
  chmod(path.c_str(), mode);
  return path;
}
struct auth_key Key(const std::string &text)
{
  struct auth_key k = {};
  k.bytes = static_cast<uint32_t>(text.size());
  memcpy(k.key, text.data(), text.size());
  return k;
}
} // namespace

TEST(Auth, AKeyFileIsReadWhenNobodyElseMay)
{
  struct auth_key k = {};
  struct err e = {};
  ASSERT_EQ(0, auth_key_read(KeyFile("0123456789abcdef\n", 0600).c_str(), &k, &e)) << e.text;
  EXPECT_EQ(16u, k.bytes);
  EXPECT_EQ(0, memcmp("0123456789abcdef", k.key, 16));
  EXPECT_EQ(-EPERM, auth_key_read(KeyFile("0123456789abcdef\n", 0640).c_str(), &k, &e));
  EXPECT_NE(nullptr, strstr(e.text, "chmod 600"));
  EXPECT_EQ(-EINVAL, auth_key_read(KeyFile("0123456789abcde\n", 0600).c_str(), &k, &e));
  EXPECT_EQ(-EINVAL, auth_key_read(KeyFile(std::string(AUTH_KEY_MAX + 1, 'x'), 0600).c_str(), &k, &e));
  EXPECT_EQ(0, auth_key_read(KeyFile(std::string(AUTH_KEY_MAX, 'x'), 0600).c_str(), &k, &e));
  EXPECT_EQ(-ENOENT, auth_key_read("/no/such/key", &k, &e));
  EXPECT_EQ(-EINVAL, auth_key_read("/dev/null", &k, &e));
  ASSERT_EQ(0, auth_key_read(nullptr, &k, &e));
  EXPECT_EQ(0u, k.bytes);
}

TEST(Auth, TheMacIsHmacSha256OfTheFacts)
{
  // by another implementation (Python's hmac)
  struct auth_facts f = {};
  memset(f.asker, 1, sizeof f.asker);
  memset(f.answerer, 2, sizeof f.answerer);
  strcpy(f.asker_name, "a");
  strcpy(f.answerer_name, "b");
  f.epoch = 3;
  struct auth_key k = Key("0123456789abcdef");
  uint8_t mac[WIRE_MAC];
  auth_mac(&k, &f, true, mac);
  char hex[65];
  for (int i = 0; i < 32; i++)
    snprintf(hex + 2 * i, 3, "%02x", mac[i]);
  EXPECT_STREQ("f72a2aa39b11c6f0a8c56c3b711ae6fead87d7660d595de5aab825f2e0d47160", hex);
}

TEST(Auth, EachFactTheDirectionAndTheKeyChangeTheMac)
{
  struct auth_facts f = {}, g;
  struct auth_key k = Key("0123456789abcdef"), other = Key("0123456789abcdeg");
  uint8_t a[WIRE_MAC], b[WIRE_MAC];
  auth_mac(&k, &f, true, a);
  auto differs = [&](const struct auth_key &key, bool asking) {
    auth_mac(&key, &g, asking, b);
    return !auth_same(a, b);
  };
  g = f;
  EXPECT_FALSE(differs(k, true));
  EXPECT_TRUE(differs(k, false)) << "a side's own proof cannot be sent back to it";
  EXPECT_TRUE(differs(other, true));
  g = f, g.asker[31] = 1;
  EXPECT_TRUE(differs(k, true));
  g = f, g.answerer[0] = 1;
  EXPECT_TRUE(differs(k, true));
  g = f, g.asker_name[0] = 'x';
  EXPECT_TRUE(differs(k, true));
  g = f, g.answerer_name[0] = 'x';
  EXPECT_TRUE(differs(k, true));
  g = f, g.epoch = 1;
  EXPECT_TRUE(differs(k, true));
}

TEST(Auth, OwnAddressesAreLoopbackAndThoseOfInterfaces)
{
  auto own = [](const char *text) {
    struct sockaddr_in a = {};
    a.sin_family = AF_INET;
    inet_pton(AF_INET, text, &a.sin_addr);
    return auth_own_address(reinterpret_cast<struct sockaddr *>(&a));
  };
  EXPECT_TRUE(own("127.0.0.1"));
  EXPECT_TRUE(own("127.9.9.9"));
  EXPECT_FALSE(own("192.0.2.77")); // for documentation: nobody has it
  struct sockaddr_in6 six = {};
  six.sin6_family = AF_INET6;
  six.sin6_addr = in6addr_loopback;
  EXPECT_TRUE(auth_own_address(reinterpret_cast<struct sockaddr *>(&six)));
  inet_pton(AF_INET6, "2001:db8::1", &six.sin6_addr);
  EXPECT_FALSE(auth_own_address(reinterpret_cast<struct sockaddr *>(&six)));
}
