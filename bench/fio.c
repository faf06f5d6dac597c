/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/fio.h"

#include "bench/stop.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

bool fio_present(void)
{
  return access("/usr/bin/fio", X_OK) == 0;
}

static int run(char *const argv[], char *out, size_t n)
{
  int fd[2];
  if (pipe(fd) < 0)
    return -1;
  pid_t pid = fork();
  if (pid == 0) {
    stop_child();
    dup2(fd[1], STDOUT_FILENO);
    close(fd[0]);
    close(fd[1]);
    execv("/usr/bin/fio", argv);
    _exit(127);
  }
  close(fd[1]);
  size_t have = 0;
  ssize_t k;
  while (have + 1 < n && (k = read(fd[0], out + have, n - 1 - have)) > 0)
    have += (size_t)k;
  out[have] = 0;
  close(fd[0]);
  int status = 1;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

#define OUT (1u << 20)

int fio_layout(const char *file, uint64_t bytes)
{
  char name[256], size[64];
  char *out = malloc(OUT);
  snprintf(name, sizeof name, "--filename=%s", file);
  snprintf(size, sizeof size, "--size=%llu", (unsigned long long)bytes);
  char *argv[] = {"fio",     "--name=layout",       name,          size,         "--rw=write",
                  "--bs=1m", "--ioengine=io_uring", "--iodepth=8", "--direct=1", "--output-format=json",
                  NULL};
  int r = out ? run(argv, out, OUT) : -1;
  free(out);
  return r;
}

double fio_run(const char *engine, const char *file, uint64_t bytes, bool write, uint32_t block, uint32_t depth,
               uint32_t ms)
{
  char name[256], size[64], bs[64], rt[64], by[64], iodepth[64];
  char *out = malloc(OUT);
  snprintf(name, sizeof name, "--filename=%s", file);
  snprintf(size, sizeof size, "--size=%llu", (unsigned long long)bytes);
  snprintf(iodepth, sizeof iodepth, "--iodepth=%u", depth);
  snprintf(by, sizeof by, "--ioengine=%s", engine);
  snprintf(bs, sizeof bs, "--bs=%u", block);
  snprintf(rt, sizeof rt, "--runtime=%ums", ms);
  char *argv[] = {"fio",
                  "--name=versus",
                  name,
                  size,
                  bs,
                  rt,
                  write ? "--rw=randwrite" : "--rw=randread",
                  by,
                  iodepth,
                  "--direct=1",
                  "--time_based",
                  "--norandommap",
                  "--randrepeat=0",
                  "--output-format=json",
                  NULL};
  double mbps = -1;
  if (out && run(argv, out, OUT) == 0) {
    const char *start = strchr(out, '{');
    json_t *o = start ? json_loads(start, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    json_t *job = json_array_get(json_object_get(o, "jobs"), 0);
    json_t *bw = json_object_get(json_object_get(job, write ? "write" : "read"), "bw_bytes");
    if (json_is_number(bw))
      mbps = json_number_value(bw) / 1e6;
    json_decref(o);
  }
  free(out);
  return mbps;
}
