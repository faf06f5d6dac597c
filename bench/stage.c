/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/stage.h"

#include "bench/stop.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <dray/admin.h>

uint64_t stage_now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void stage_pin(int cpu)
{
  cpu_set_t set;
  if (cpu < 0)
    return;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

void stage_pin_none(void)
{
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int i = 0; i < CPU_SETSIZE; i++)
    CPU_SET(i, &set);
  sched_setaffinity(0, sizeof set, &set);
}

#define SERVES_NS 60000000000ull /* hundreds of peers take a while */

static void find_drayd(char *path, size_t n)
{
  const char *env = getenv("DRAYD");
  if (env && *env) {
    snprintf(path, n, "%s", env);
    return;
  }
  char self[512];
  ssize_t k = readlink("/proc/self/exe", self, sizeof self - 1);
  if (k > 0) {
    self[k] = 0;
    char *slash = strrchr(self, '/');
    if (slash) {
      static const char *const places[] = {"drayd", "../mover/drayd", "../sbin/drayd", "../../mover/drayd"};
      *slash = 0;
      for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        snprintf(path, n, "%s/%s", self, places[i]);
        if (access(path, X_OK) == 0)
          return;
      }
    }
  }
  snprintf(path, n, "drayd");
}

void stage_remove(const char *dir)
{
  pid_t pid = fork();
  if (pid == 0) {
    execlp("rm", "rm", "-rf", "--", dir, (char *)NULL);
    _exit(127);
  }
  if (pid > 0)
    waitpid(pid, NULL, 0);
}

struct stage_policy stage_policy(void)
{
  struct stage_policy p;
  unsigned uid = (unsigned)geteuid();
  snprintf(p.text, sizeof p.text,
           "quotas: [{tenant: uid%u, tier: dram, reserve: 64MiB, limit: 512MiB}]\n"
           "rates: [{tenant: uid%u, bytes: 1TiB, directives: 1000000000, over: wait}]\n"
           "rules:\n"
           "  - {name: bulk, tier: dram, when: 90%%, until: 80%%, class: bulk, what: refuse}\n"
           "  - {name: full, tier: dram, when: 95%%, until: 85%%, what: evict}\n",
           uid, uid);
  return p;
}

int stage_open(struct stage *s, const char *base, int cpu, const char *const *sets)
{
  return stage_open_config(s, base, cpu, sets, NULL);
}

/* Its directory is there. */
static int stage_start(struct stage *s, int cpu, const char *const *sets, const char *config)
{
  char drayd[600], log[128], file[128];
  const char *argv[64];
  int n = 0;
  snprintf(s->socket, sizeof s->socket, "%s/dray.sock", s->dir);
  snprintf(s->admin, sizeof s->admin, "%s/admin.sock", s->dir);
  snprintf(log, sizeof log, "%s/drayd.log", s->dir);
  find_drayd(drayd, sizeof drayd);
  argv[n++] = drayd;
  argv[n++] = "--dir";
  argv[n++] = s->dir;
  if (config) {
    snprintf(file, sizeof file, "%s/drayd.yaml", s->dir);
    FILE *f = fopen(file, "we");
    if (!f || fputs(config, f) < 0 || fclose(f))
      return -errno;
    argv[n++] = "--config";
    argv[n++] = file;
  }
  for (int i = 0; sets && sets[i] && n < 60; i++) {
    argv[n++] = "--set";
    argv[n++] = sets[i];
  }
  argv[n] = NULL;
  s->pid = fork();
  if (s->pid == 0) {
    stop_child(); /* a bench that crashes leaves no mover behind */
    stage_pin(cpu);
    unsetenv("DRAYD_SOCKET"); /* the bench's own directory decides */
    unsetenv("DRAYD_ADMIN");
    int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd >= 0)
      dup2(fd, STDERR_FILENO);
    execvp(drayd, (char *const *)(uintptr_t)argv);
    _exit(127);
  }
  uint64_t end = stage_now_ns() + SERVES_NS;
  while (stage_now_ns() < end) {
    char *answer = NULL;
    int status;
    if (dray_admin_call(s->admin, "{\"verb\":\"status\"}", 1000, &answer) == 0) {
      free(answer);
      return 0;
    }
    if (waitpid(s->pid, &status, WNOHANG) == s->pid)
      break;
    poll(NULL, 0, 10);
  }
  fprintf(stderr, "bench: %s does not serve; its log:\n", drayd);
  FILE *f = fopen(log, "re");
  char line[512];
  while (f && fgets(line, sizeof line, f))
    fputs(line, stderr);
  if (f)
    fclose(f);
  kill(s->pid, SIGKILL);
  waitpid(s->pid, NULL, 0);
  stage_remove(s->dir);
  return -ECHILD;
}

int stage_open_config(struct stage *s, const char *base, int cpu, const char *const *sets, const char *config)
{
  if (!base)
    base = getenv("TMPDIR");
  snprintf(s->dir, sizeof s->dir, "%s/dray-bench-XXXXXX", base && *base ? base : "/tmp");
  if (!mkdtemp(s->dir)) {
    fprintf(stderr, "bench: cannot make %s: %s\n", s->dir, strerror(errno));
    return -errno;
  }
  return stage_start(s, cpu, sets, config);
}

int stage_again(struct stage *s, int cpu, const char *const *sets, const char *config, uint64_t *ret_stop_ns,
                uint64_t *ret_start_ns)
{
  int status = 0;
  uint64_t t = stage_now_ns();
  kill(s->pid, SIGTERM);
  waitpid(s->pid, &status, 0);
  *ret_stop_ns = stage_now_ns() - t;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    fprintf(stderr, "bench: drayd ended with status %d\n", status);
    stage_remove(s->dir);
    return -ECHILD;
  }
  t = stage_now_ns();
  int r = stage_start(s, cpu, sets, config);
  *ret_start_ns = stage_now_ns() - t;
  return r;
}

void stage_close(struct stage *s)
{
  int status = 0;
  kill(s->pid, SIGTERM);
  waitpid(s->pid, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    fprintf(stderr, "bench: drayd ended with status %d\n", status);
  stage_remove(s->dir);
}

struct dray *stage_session(const struct stage *s, uint32_t entries, uint32_t items)
{
  struct dray_params p = {
      .size = sizeof p, .socket = s->socket, .agent = "bench", .entries = entries, .items = items, .spin_us = 1};
  struct dray *d = NULL;
  int r = dray_open(&p, &d);
  if (r < 0) {
    fprintf(stderr, "bench: %s: %s\n", s->socket, dray_open_error(r));
    exit(1);
  }
  return d;
}

uint64_t stage_counter(const struct stage *s, const char *name)
{
  char *answer = NULL;
  uint64_t v = 0;
  if (dray_admin_call(s->admin, "{\"verb\":\"status\"}", 5000, &answer) < 0)
    return 0;
  json_t *o = json_loads(answer, 0, NULL);
  json_t *c = json_object_get(json_object_get(o, "counters"), name);
  v = (uint64_t)json_integer_value(c ? c : json_object_get(o, name));
  json_decref(o);
  free(answer);
  return v;
}

/* First field of each thread's schedstat: nanoseconds on a CPU. */
static uint64_t cpu_of(pid_t pid)
{
  char path[96];
  uint64_t sum = 0;
  snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
  DIR *dir = opendir(path);
  for (struct dirent *e; dir && (e = readdir(dir));) {
    if (e->d_name[0] == '.')
      continue;
    snprintf(path, sizeof path, "/proc/%d/task/%.20s/schedstat", (int)pid, e->d_name);
    FILE *f = fopen(path, "re");
    unsigned long long v = 0;
    if (f && fscanf(f, "%llu", &v) == 1)
      sum += v;
    if (f)
      fclose(f);
  }
  if (dir)
    closedir(dir);
  return sum;
}

uint64_t stage_cpu_ns(const struct stage *s)
{
  return cpu_of(s->pid) + cpu_of((pid_t)stage_counter(s, "pid"));
}

static uint64_t mix(uint64_t x)
{
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

void stage_fill(void *p, uint64_t bytes, uint64_t seed)
{
  uint64_t base = mix(seed), i = 0;
  char *c = p;
  for (; i + 8 <= bytes; i += 8) {
    uint64_t v = base + i * 0x9e3779b97f4a7c15ull;
    memcpy(c + i, &v, 8);
  }
  for (; i < bytes; i++)
    c[i] = (char)(base + i);
}

bool stage_check(const void *p, uint64_t bytes, uint64_t seed)
{
  uint64_t base = mix(seed), i = 0;
  const char *c = p;
  for (; i + 8 <= bytes; i += 8) {
    uint64_t v;
    memcpy(&v, c + i, 8);
    if (v != base + i * 0x9e3779b97f4a7c15ull)
      return false;
  }
  for (; i < bytes; i++)
    if (c[i] != (char)(base + i))
      return false;
  return true;
}

void stage_key(uint64_t i, uint8_t ret_key[16])
{
  dray_digest(&i, sizeof i, ret_key);
}

struct dray_cqe stage_one(struct dray *d)
{
  struct dray_cqe c;
  memset(&c, 0, sizeof c);
  if (dray_submit(d) < 0 || dray_wait(d, 1, 10000) < 1) {
    fprintf(stderr, "bench: the mover does not answer\n");
    exit(1);
  }
  c = *dray_peek(d);
  dray_seen(d);
  return c;
}
