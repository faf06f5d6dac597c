/* SPDX-License-Identifier: Apache-2.0 */
#include "transports/rdma/auth.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "include/priv/cleanup.h"

static_assert(SHA256_DIGEST_SIZE == WIRE_MAC, "a MAC is a SHA-256 digest");

int auth_key_read(const char *path, struct auth_key *ret_key, struct err *e)
{
  struct stat st;
  struct auth_key k = {.bytes = 0};
  if (!path) {
    *ret_key = k;
    return 0;
  }
  CLEAN_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (fd < 0 || fstat(fd, &st))
    return err_set(e, -errno, "key file %s: %s", path, strerror(errno));
  if (!S_ISREG(st.st_mode))
    return err_set(e, -EINVAL, "key file %s: not a regular file", path);
  if (st.st_mode & 077)
    return err_set(e, -EPERM, "key file %s: mode %03o lets others read it: chmod 600", path,
                   (unsigned)st.st_mode & 0777u);
  uint8_t buf[AUTH_KEY_MAX + 2];
  size_t n = 0;
  for (ssize_t got = 1; got && n < sizeof buf; n += (size_t)got) {
    got = read(fd, buf + n, sizeof buf - n);
    if (got < 0)
      return err_set(e, -errno, "key file %s: %s", path, strerror(errno));
  }
  while (n && (buf[n - 1] == '\n' || buf[n - 1] == '\r'))
    n--;
  if (n < AUTH_KEY_MIN || n > AUTH_KEY_MAX)
    return err_set(e, -EINVAL, "key file %s: %s %u bytes: need %u to %u (head -c 32 /dev/urandom | base64 >FILE)", path,
                   n > AUTH_KEY_MAX ? "more than" : "has", (unsigned)(n > AUTH_KEY_MAX ? AUTH_KEY_MAX : n),
                   AUTH_KEY_MIN, AUTH_KEY_MAX);
  k.bytes = (uint32_t)n;
  memcpy(k.key, buf, n);
  explicit_bzero(buf, sizeof buf);
  *ret_key = k;
  explicit_bzero(&k, sizeof k);
  return 0;
}

int auth_nonce(uint8_t ret_nonce[WIRE_NONCE])
{
  return getrandom(ret_nonce, WIRE_NONCE, 0) == WIRE_NONCE ? 0 : -EIO;
}

static void facts_add(struct hmac_sha256_ctx *c, const struct auth_facts *f)
{
  hmac_sha256_update(c, WIRE_NONCE, f->asker);
  hmac_sha256_update(c, WIRE_NONCE, f->answerer);
  hmac_sha256_update(c, WIRE_NAME_MAX, (const uint8_t *)f->asker_name);
  hmac_sha256_update(c, WIRE_NAME_MAX, (const uint8_t *)f->answerer_name);
  hmac_sha256_update(c, sizeof f->epoch, (const uint8_t *)&f->epoch);
}

/* label: of one length for all uses, so that no use's input is another's */
static void mac_begin(struct hmac_sha256_ctx *c, const struct auth_key *k, const char label[16])
{
  hmac_sha256_set_key(c, k->bytes, k->key);
  hmac_sha256_update(c, 16, (const uint8_t *)label);
}

void auth_mac(const struct auth_key *k, const struct auth_facts *f, bool asking, uint8_t ret_mac[WIRE_MAC])
{
  struct hmac_sha256_ctx c;
  memset(ret_mac, 0, WIRE_MAC);
  if (!k->bytes)
    return;
  mac_begin(&c, k, asking ? "dray-peer-asks.1" : "dray-peer-says.1");
  facts_add(&c, f);
  hmac_sha256_digest(&c, WIRE_MAC, ret_mac);
}

void auth_join_mac(const struct auth_key *k, const struct auth_facts *f, const struct wire_join *j,
                   uint8_t ret_mac[WIRE_MAC])
{
  struct hmac_sha256_ctx c;
  memset(ret_mac, 0, WIRE_MAC);
  if (!k->bytes)
    return;
  mac_begin(&c, k, "dray-peer-join.1");
  facts_add(&c, f);
  hmac_sha256_update(&c, offsetof(struct wire_join, mac), (const uint8_t *)j);
  hmac_sha256_digest(&c, WIRE_MAC, ret_mac);
}

bool auth_same(const uint8_t a[WIRE_MAC], const uint8_t b[WIRE_MAC])
{
  return memeql_sec(a, b, WIRE_MAC) != 0;
}

static bool same_address(const struct sockaddr *a, const struct sockaddr *b)
{
  if (!b || a->sa_family != b->sa_family)
    return false;
  if (a->sa_family == AF_INET)
    return ((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr ==
           ((const struct sockaddr_in *)(const void *)b)->sin_addr.s_addr;
  return memcmp(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr,
                &((const struct sockaddr_in6 *)(const void *)b)->sin6_addr, 16) == 0;
}

bool auth_own_address(const struct sockaddr *a)
{
  struct ifaddrs *all;
  bool own = false;
  if (a->sa_family == AF_INET)
    own = ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24 == 127;
  else if (a->sa_family == AF_INET6)
    own = IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
  else
    return false;
  if (own || getifaddrs(&all))
    return own;
  for (const struct ifaddrs *i = all; i && !own; i = i->ifa_next)
    own = same_address(a, i->ifa_addr);
  freeifaddrs(all);
  return own;
}
