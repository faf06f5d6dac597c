/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/perftest.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/stage.h"

#define PORT 18515u
#define LIMIT_NS 60000000000ull

static const char *const programs[] = {NULL, "/usr/bin/ib_write_bw", "/usr/bin/ib_read_bw", "/usr/bin/ib_read_lat"};

bool perftest_present(void)
{
  for (int i = 1; i < 4; i++)
    if (access(programs[i], X_OK))
      return false;
  return true;
}

static pid_t spawn(char *const argv[], int out)
{
  pid_t pid = fork();
  if (pid)
    return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  int null = open("/dev/null", O_RDWR);
  dup2(null, STDIN_FILENO);
  dup2(out >= 0 ? out : null, STDOUT_FILENO);
  dup2(null, STDERR_FILENO);
  execv(argv[0], argv);
  _exit(127);
}

/* The server listens: asked of the kernel, since a connection that comes to look would be taken for the client. */
static bool listens(void)
{
  static const char *const tables[] = {"/proc/net/tcp", "/proc/net/tcp6"};
  bool found = false;
  for (int i = 0; i < 2; i++) {
    FILE *f = fopen(tables[i], "re");
    char line[256], addr[80];
    unsigned port, state;
    while (f && fgets(line, sizeof line, f))
      found |= sscanf(line, " %*d: %79[0-9A-F]:%x %*[0-9A-F]:%*x %x", addr, &port, &state) == 3 && port == PORT &&
               state == 0x0a;
    if (f)
      fclose(f);
  }
  return found;
}

static bool ended(pid_t pid, int *status)
{
  return waitpid(pid, status, WNOHANG) == pid;
}

/* The last line that begins with the size: its columns. */
static double figure(enum perftest what, const char *text, uint64_t size)
{
  double v = -1;
  for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
    double c[6];
    int n = sscanf(line, "%lf %lf %lf %lf %lf %lf", &c[0], &c[1], &c[2], &c[3], &c[4], &c[5]);
    if (n < 4 || c[0] != (double)size)
      continue;
    /* size iterations peak average (MiB/s); size iterations min max typical ... */
    if (what == PERFTEST_READ_LAT)
      v = n >= 5 ? c[4] : -1;
    else
      v = c[3] * 1048576.0 / 1e6;
  }
  return v;
}

double perftest_run(enum perftest what, const char *address, uint64_t size, uint32_t iters)
{
  char s[32], n[32], text[16384];
  snprintf(s, sizeof s, "%llu", (unsigned long long)size);
  snprintf(n, sizeof n, "%u", iters);
  char *program = (char *)(uintptr_t)programs[what], *host = (char *)(uintptr_t)address;
  char *server[] = {program, "-x", "1", "-F", "-s", s, "-n", n, NULL};
  char *client[] = {program, "-x", "1", "-F", "-s", s, "-n", n, host, NULL};
  uint64_t until = stage_now_ns() + LIMIT_NS;
  int fd[2], status = 1, other;
  if (pipe2(fd, O_CLOEXEC) < 0)
    return -1;
  pid_t a = spawn(server, -1);
  bool a_gone = false, b_gone = false;
  while (!listens() && !(a_gone = ended(a, &other)) && stage_now_ns() < until)
    poll(NULL, 0, 10);
  pid_t b = a_gone ? -1 : spawn(client, fd[1]);
  close(fd[1]);
  size_t have = 0;
  fcntl(fd[0], F_SETFL, O_NONBLOCK);
  while (b > 0 && !b_gone && stage_now_ns() < until) {
    struct pollfd p = {.fd = fd[0], .events = POLLIN};
    poll(&p, 1, 100);
    b_gone = ended(b, &status);
    ssize_t k;
    while (have + 1 < sizeof text && (k = read(fd[0], text + have, sizeof text - 1 - have)) > 0)
      have += (size_t)k;
  }
  text[have] = 0;
  close(fd[0]);
  if (b > 0 && !b_gone) {
    kill(b, SIGKILL);
    waitpid(b, &status, 0);
  }
  for (int i = 0; !a_gone && i < 200; i++) { /* it ends with its client; not for ever */
    a_gone = ended(a, &other);
    if (!a_gone)
      poll(NULL, 0, 10);
  }
  if (!a_gone) {
    kill(a, SIGKILL);
    waitpid(a, &other, 0);
  }
  return b_gone && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? figure(what, text, size) : -1;
}
