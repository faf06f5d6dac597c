/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/rival.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/stage.h"
#include "bench/stop.h"

#define PATIENCE_MS 60000
#define END_MS 5000

struct rival {
  char name[32];
  pid_t pid;
  int fd;
};

static void set_u32(const char *name, uint32_t v)
{
  char text[16];
  snprintf(text, sizeof text, "%u", v);
  setenv(name, text, 1);
}

/* A line without its end. Its length, or -errno. */
static int line_read(struct rival *v, char *to, size_t room)
{
  size_t n = 0;
  uint64_t end = stage_now_ns() + (uint64_t)PATIENCE_MS * 1000000u;
  while (n + 1 < room) {
    uint64_t now = stage_now_ns();
    struct pollfd p = {v->fd, POLLIN, 0};
    if (now >= end)
      return -ETIME;
    if (poll(&p, 1, (int)((end - now) / 1000000u) + 1) <= 0)
      continue;
    ssize_t k = read(v->fd, to + n, 1);
    if (k <= 0)
      return k == 0 ? -EPIPE : -errno;
    if (to[n] == '\n') {
      to[n] = 0;
      return (int)n;
    }
    n++;
  }
  return -EMSGSIZE;
}

struct rival *rival_open(const char *name, const char *command, const struct rival_work *w, int cpu)
{
  struct rival *v = calloc(1, sizeof *v);
  int pair[2];
  char line[256] = "";
  if (!v || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
    fprintf(stderr, "bench: rival %s: %s\n", name, strerror(v ? errno : ENOMEM));
    free(v);
    return NULL;
  }
  snprintf(v->name, sizeof v->name, "%s", name);
  v->fd = pair[0];
  v->pid = fork();
  if (v->pid == 0) {
    stop_child();
    cpu >= 0 ? stage_pin(cpu) : stage_pin_none();
    set_u32("BENCH_BLOCKS", w->blocks);
    set_u32("BENCH_BLOCK_BYTES", w->block_bytes);
    set_u32("BENCH_STRIDE", w->stride);
    set_u32("BENCH_THREADS", w->threads);
    dup2(pair[1], STDIN_FILENO);
    dup2(pair[1], STDOUT_FILENO);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
  }
  close(pair[1]);
  int r = v->pid < 0 ? -EAGAIN : line_read(v, line, sizeof line);
  if (r >= 0 && strcmp(line, "ready") == 0)
    return v;
  fprintf(stderr, "bench: rival %s (%s) is not ready: %s\n", name, command, r < 0 ? strerror(-r) : line);
  rival_close(v);
  return NULL;
}

double rival_round(struct rival *v, uint64_t *ret_cpu_ns)
{
  char line[256];
  double gbps;
  uint64_t cpu, wrong;
  int r = send(v->fd, "go\n", 3, MSG_NOSIGNAL) == 3 ? line_read(v, line, sizeof line) : -EPIPE;
  if (r < 0 || sscanf(line, "%lf %" SCNu64 " %" SCNu64, &gbps, &cpu, &wrong) != 3 || !(gbps > 0) || wrong) {
    fprintf(stderr, "bench: rival %s: %s\n", v->name, r < 0 ? strerror(-r) : line);
    return -1;
  }
  *ret_cpu_ns = cpu;
  return gbps;
}

void rival_close(struct rival *v)
{
  if (!v)
    return;
  close(v->fd);
  uint64_t end = stage_now_ns() + (uint64_t)END_MS * 1000000u;
  while (v->pid > 0 && waitpid(v->pid, NULL, WNOHANG) == 0) {
    if (stage_now_ns() > end) {
      kill(-v->pid, SIGKILL);
      kill(v->pid, SIGKILL);
      waitpid(v->pid, NULL, 0);
      break;
    }
    poll(NULL, 0, 10);
  }
  free(v);
}
