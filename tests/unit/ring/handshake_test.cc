/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

extern "C" {
#include "ring/handshake.h"
#include "ring/region.h"
}

namespace {
class Handshake : public ::testing::Test {
 protected:
  int a = -1, b = -1;
  void SetUp() override
  {
    int p[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p), 0);
    a = p[0];
    b = p[1];
  }
  void TearDown() override
  {
    close(a);
    close(b);
  }
  int raw(const void *p, size_t n, int nfds)
  {
    int fds[200];
    for (int i = 0; i < nfds; i++)
      fds[i] = b;
    char control[CMSG_SPACE(sizeof fds)];
    memset(control, 0, sizeof control);
    struct iovec io = {(void *)p, n};
    struct msghdr m = {};
    m.msg_iov = &io;
    m.msg_iovlen = 1;
    if (nfds) {
      m.msg_control = control;
      m.msg_controllen = CMSG_SPACE(sizeof(int) * nfds);
      struct cmsghdr *c = CMSG_FIRSTHDR(&m);
      c->cmsg_level = SOL_SOCKET;
      c->cmsg_type = SCM_RIGHTS;
      c->cmsg_len = CMSG_LEN(sizeof(int) * nfds);
      memcpy(CMSG_DATA(c), fds, sizeof(int) * nfds);
    }
    return (int)sendmsg(a, &m, 0);
  }
  static int next_fd()
  {
    int fd = open("/dev/null", O_RDONLY);
    close(fd);
    return fd;
  }
  union handshake_msg msg;
  int fds[HANDSHAKE_FDS_MAX];
};

TEST_F(Handshake, MessageAndFdArrive)
{
  struct dray_msg_region r = {{DRAY_MSG_REGION_ADD, 7}, 4096};
  int fd = region_make("x", 4096, false);
  ASSERT_EQ(handshake_send(a, &r, sizeof r, &fd, 1), 0);
  ASSERT_EQ(handshake_recv(b, &msg, fds), (int)sizeof r);
  EXPECT_EQ(msg.region.size, 4096u);
  EXPECT_GE(fds[0], 0);
  EXPECT_EQ(fds[1], -1);
  close(fds[0]);
  close(fd);
}

TEST_F(Handshake, WrongNumbersOfFdsAreRefusedAndClosed)
{
  struct dray_msg_region r = {{DRAY_MSG_REGION_ADD, 7}, 4096};
  int before = next_fd();
  for (int n : {0, 2, 3, 4, 5, 64, 200}) {
    ASSERT_GT(raw(&r, sizeof r, n), 0);
    EXPECT_EQ(handshake_recv(b, &msg, fds), -EPROTO) << n << " fds";
    EXPECT_EQ(next_fd(), before) << n << " fds leaked";
  }
  struct dray_msg_id del = {{DRAY_MSG_REGION_DEL, 7}, 1, 0};
  ASSERT_GT(raw(&del, sizeof del, 1), 0);
  EXPECT_EQ(handshake_recv(b, &msg, fds), -EPROTO);
  EXPECT_EQ(next_fd(), before);
}

TEST_F(Handshake, WrongLengthsAndTypesAreRefused)
{
  uint8_t big[2000];
  memset(big, 0, sizeof big);
  uint32_t type = DRAY_MSG_HELLO;
  memcpy(big, &type, 4);
  for (size_t n : {(size_t)1, (size_t)7, sizeof(struct dray_msg_hello) - 1, sizeof(struct dray_msg_hello) + 1, (size_t)512, (size_t)513, (size_t)2000}) {
    ASSERT_GT(raw(big, n, 0), 0);
    EXPECT_EQ(handshake_recv(b, &msg, fds), -EPROTO) << n;
  }
  for (uint32_t t : {0u, 10u, 1000u, UINT32_MAX}) {
    memcpy(big, &t, 4);
    ASSERT_GT(raw(big, 16, 0), 0);
    EXPECT_EQ(handshake_recv(b, &msg, fds), -EPROTO) << t;
  }
}

TEST_F(Handshake, HangUpIsZeroAndEmptyIsEagain)
{
  EXPECT_EQ(handshake_recv(b, &msg, fds), -EAGAIN);
  close(a);
  a = -1;
  EXPECT_EQ(handshake_recv(b, &msg, fds), 0);
}

TEST_F(Handshake, PeerWhoDoesNotReadIsEagainNotAWait)
{
  struct dray_msg_id gone = {{DRAY_MSG_SLAB_GONE, 0}, 1, 0};
  int r = 0, n = 0;
  while ((r = handshake_send(a, &gone, sizeof gone, nullptr, 0)) == 0 && n < 1000000)
    n++;
  EXPECT_EQ(r, -EAGAIN);
}

TEST_F(Handshake, HelloFieldsAreChecked)
{
  struct dray_msg_hello h;
  const char *what = nullptr;
  auto fresh = [&] {
    memset(&h, 0, sizeof h);
    h.magic = DRAY_RING_MAGIC;
    h.major = DRAY_RING_MAJOR;
    h.sqe_size = h.cqe_size = 64;
    h.entries = 64;
    strcpy(h.agent, "a");
  };
  fresh();
  EXPECT_EQ(handshake_hello_check(&h, &what), 0);
  fresh();
  h.magic++;
  EXPECT_EQ(handshake_hello_check(&h, &what), -EPROTO);
  fresh();
  h.major++;
  EXPECT_EQ(handshake_hello_check(&h, &what), -EPROTO);
  fresh();
  h.sqe_size = 128;
  EXPECT_EQ(handshake_hello_check(&h, &what), -EPROTO);
  for (uint32_t n : {0u, DRAY_ENTRIES_MAX + 1, UINT32_MAX}) {
    fresh();
    h.entries = n;
    EXPECT_EQ(handshake_hello_check(&h, &what), -EPROTO) << n;
  }
  fresh();
  memset(h.agent, 'x', sizeof h.agent);
  EXPECT_EQ(handshake_hello_check(&h, &what), -EPROTO);
  EXPECT_STREQ(what, "agent name");
  fresh();
  h.agent[0] = 0;
  EXPECT_EQ(handshake_hello_check(&h, &what), -EPROTO);
  fresh();
  memset(h.token, 'x', sizeof h.token);
  EXPECT_EQ(handshake_hello_check(&h, &what), -EPROTO);
}

TEST_F(Handshake, PidfdBelongsToThePeer)
{
  pid_t pid;
  uid_t uid;
  gid_t gid;
  ASSERT_EQ(handshake_peer(a, &pid, &uid, &gid), 0);
  EXPECT_EQ(pid, getpid());
  EXPECT_EQ(uid, getuid());
  int fd = handshake_pidfd(a);
  if (fd == -ENOPROTOOPT)
    GTEST_SKIP() << "this kernel has no SO_PEERPIDFD (needs 6.5)";
  ASSERT_GE(fd, 0);
  EXPECT_TRUE(handshake_pidfd_is(fd, getpid()));
  EXPECT_FALSE(handshake_pidfd_is(fd, getpid() + 1));
  EXPECT_FALSE(handshake_pidfd_is(a, getpid())) << "a socket is no pidfd";
  close(fd);
}

TEST(Region, UnsealedForeignAndShortMemoryIsRefused)
{
  struct err e;
  int fd = region_make("r", 8192, false);
  EXPECT_EQ(region_check(fd, 8192, &e), -EPERM) << "can still shrink";
  ASSERT_EQ(region_seal(fd, false), 0);
  EXPECT_EQ(region_check(fd, 8192, &e), 0);
  EXPECT_EQ(region_check(fd, 8193, &e), -EMSGSIZE);
  EXPECT_EQ(region_check(fd, 0, &e), -EMSGSIZE);
  EXPECT_EQ(region_check(fd, UINT64_MAX, &e), -EMSGSIZE);
  close(fd);
  fd = open("/proc/self/exe", O_RDONLY);
  EXPECT_EQ(region_check(fd, 1, &e), -EINVAL) << "not a memfd";
  close(fd);
}

TEST(Region, LentReadOnlyMemoryCannotBeMappedWritable)
{
  int fd = region_make("m", 4096, false);
  void *mine = region_map(fd, 0, 4096, true, false);
  ASSERT_NE(mine, nullptr);
  ASSERT_EQ(region_seal(fd, true), 0);
  EXPECT_EQ(region_map(fd, 0, 4096, true, false), nullptr);
  const char *theirs = (const char *)region_map(fd, 0, 4096, false, false);
  ASSERT_NE(theirs, nullptr);
  *(char *)mine = 'x';
  EXPECT_EQ(*theirs, 'x') << "the maker still writes";
  EXPECT_LT(ftruncate(fd, 0), 0);
  close(fd);
}
}  // namespace
