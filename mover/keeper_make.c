/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/keeper_make.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "include/priv/cleanup.h"
#include "mover/backends.h"
#include "ring/region.h"

static int make_dir_of(const char *path, struct err *e)
{
  char dir[256];
  const char *slash = strrchr(path, '/');
  if (!slash || slash == path)
    return 0;
  size_t n = (size_t)(slash - path);
  if (n >= sizeof dir)
    return err_set(e, -ENAMETOOLONG, "%s: path too long", path);
  memcpy(dir, path, n);
  dir[n] = 0;
  if (mkdir(dir, 0755) < 0 && errno != EEXIST)
    return err_set(e, -errno, "%s: cannot make the directory: %s", dir, strerror(errno));
  return 0;
}

static int listen_on(const char *path, mode_t mode, struct err *e)
{
  struct sockaddr_un a = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof a.sun_path)
    return err_set(e, -ENAMETOOLONG, "socket %s: need a path below %zu bytes", path, sizeof a.sun_path);
  int r = make_dir_of(path, e);
  if (r < 0)
    return r;
  memcpy(a.sun_path, path, strlen(path));
  CLEAN_FD s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (s < 0)
    return err_set(e, -errno, "socket %s: %s", path, strerror(errno));
  /* a live mover answers; what a dead one left behind is removed */
  CLEAN_FD probe = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (connect(probe, (struct sockaddr *)&a, sizeof a) == 0)
    return err_set(e, -EADDRINUSE, "socket %s: another mover listens there; stop it, or choose another path (socket:)",
                   path);
  unlink(path);
  mode_t old = umask(0777 & ~mode);
  r = bind(s, (struct sockaddr *)&a, sizeof a) < 0 || listen(s, 128) < 0 ? -errno : 0;
  umask(old);
  if (r < 0)
    return err_set(e, r, "socket %s: %s", path, strerror(-r));
  chmod(path, mode);
  return take_fd(&s);
}

int keeper_listen(const struct config *cfg, struct worker_seed *seed, struct err *e)
{
  struct worker_seed *s = seed;
  s->listen_fd[0] = listen_on(cfg->socket, (mode_t)cfg->socket_mode, e);
  if (s->listen_fd[0] < 0)
    return s->listen_fd[0];
  s->listen_tenant[0] = -1;
  s->listen_n = 1;
  for (uint32_t i = 0; i < cfg->tenants_n; i++) {
    if (!cfg->tenant[i].socket)
      continue;
    int fd = listen_on(cfg->tenant[i].socket, (mode_t)cfg->socket_mode, e);
    if (fd < 0)
      return fd;
    s->listen_fd[s->listen_n] = fd;
    s->listen_tenant[s->listen_n++] = (int32_t)i;
  }
  s->admin_fd = listen_on(cfg->admin, 0600, e);
  return s->admin_fd < 0 ? s->admin_fd : 0;
}

int keeper_arenas(const struct config *cfg, struct worker_seed *seed, struct err *e)
{
  struct store_config sc;
  uint64_t bytes[ARENA_COUNT];
  backends_store_config(cfg, seed->dev, seed->devs_n, &sc);
  store_arena_bytes(&sc, bytes);
  for (int i = 0; i < ARENA_COUNT; i++) {
    if (i == ARENA_BAD && seed->arena_fd[i] >= 0)
      continue; /* the next worker must know what the last one found bad */
    close_fd(&seed->arena_fd[i]);
    int fd = region_make("dray-arena", bytes[i], false);
    if (fd < 0)
      return err_set(e, fd, "store: cannot make an arena of %llu bytes: %s", (unsigned long long)bytes[i],
                     strerror(-fd));
    fchmod(fd, 0400);
    seed->arena_fd[i] = fd;
  }
  return 0;
}
