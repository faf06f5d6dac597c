/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/replay.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/units.h"
#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "include/priv/order.h"

#define SET_BYTES 64

/* Tenants of our own mover have secrets of our own. */
static void name_tenants(struct replay_options *o)
{
  for (uint32_t i = o->named; i < o->tenants; i++) {
    uint64_t secret[2] = {0, 0};
    if (getrandom(secret, sizeof secret, 0) != sizeof secret)
      secret[0] = trace_mix(stage_now_ns() + i);
    snprintf(o->tenant[i].name, sizeof o->tenant[i].name, "tenant-%u", i + 1);
    snprintf(o->tenant[i].token, sizeof o->tenant[i].token, "%016llx%016llx", (unsigned long long)secret[0],
             (unsigned long long)secret[1]);
  }
  o->named = o->tenants;
}

static uint64_t available_bytes(void)
{
  char line[128];
  unsigned long long kib = 0;
  CLEAN_FILE *f = fopen("/proc/meminfo", "re");
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
      break;
  return (uint64_t)kib << 10;
}

/* All blocks of the trace, with what slots and each tenant's last slab waste. */
static uint64_t unbounded(const struct replay_options *o, const struct trace_ideal *ideal)
{
  uint64_t block = (uint64_t)o->segs * o->seg_bytes;
  return ideal->unique * (block + block / 8 + 512) + o->tenants * MAX_OF(MIB(128), 2 * block) + MIB(64);
}

/* Tenants go into a file and not on a command line, where everybody could read their secrets. */
static int write_tenants(const struct replay_options *o, char *path, size_t room)
{
  const char *dir = getenv("TMPDIR");
  snprintf(path, room, "%s/dray-tenants-XXXXXX", dir && *dir ? dir : "/tmp");
  int fd = mkstemp(path);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
  if (!f) {
    fprintf(stderr, "dray replay: %s: %s\n", path, strerror(errno));
    return -errno;
  }
  fputs("tenants:\n", f);
  for (uint32_t i = 0; i < o->tenants; i++)
    fprintf(f, "  - {name: \"%s\", token: \"%s\"}\n", o->tenant[i].name, o->tenant[i].token);
  if (fclose(f) == 0)
    return 0;
  unlink(path);
  return -EIO;
}

static int own_mover(struct replay_options *o, const struct trace_ideal *ideal, struct stage *ret_stage)
{
  char dram[SET_BYTES], cxl[SET_BYTES], disk[SET_BYTES], tenants[300];
  const char *const sets[] = {"log=warn", dram, cxl, disk, NULL};
  uint64_t all = unbounded(o, ideal), have = available_bytes(),
           need = o->dram ? o->dram : ideal->unique * o->segs * o->seg_bytes;
  if (have && need > have) {
    char a[32], b[32];
    fprintf(stderr,
            "dray replay: --dram: need %s, have %s of memory (--dram SIZE, --scale or --block-bytes make it less)\n",
            units_format_bytes(need, a, sizeof a), units_format_bytes(have, b, sizeof b));
    return -ENOMEM;
  }
  name_tenants(o);
  snprintf(dram, sizeof dram, "tier.dram.capacity=%llu", (unsigned long long)(o->dram ? o->dram : all));
  snprintf(cxl, sizeof cxl, "tier.cxl.capacity=%llu", (unsigned long long)(o->cxl ? o->cxl : all));
  snprintf(disk, sizeof disk, "tier.disk.capacity=%llu", (unsigned long long)(o->disk ? o->disk : all));
  int r = write_tenants(o, tenants, sizeof tenants);
  if (r < 0)
    return r;
  /* it is ours: where another one listens is not for it */
  static const char *const theirs[] = {"DRAYD_SOCKET", "DRAYD_ADMIN", "DRAYD_LANES", "DRAYD_LOG", "DRAYD_CALIBRATION"};
  for (size_t i = 0; i < ARRAY_LEN(theirs); i++)
    unsetenv(theirs[i]);
  setenv("DRAYD_CONFIG", tenants, 1);
  r = stage_open(ret_stage, NULL, -1, sets);
  unsetenv("DRAYD_CONFIG");
  unlink(tenants);
  return r;
}

/* Shows how far they are until all have ended or the user has had enough. False: one of them failed. */
static bool watch(const struct replay_options *o, const struct trace *t, pid_t *pid, struct engine_result *result,
                  const sigset_t *signals)
{
  uint32_t left = o->engines;
  bool good = true;
  while (left) {
    const struct timespec tick = {.tv_nsec = 200000000};
    int sig = sigtimedwait(signals, NULL, &tick);
    if (sig == SIGINT || sig == SIGTERM || sig == SIGHUP) {
      fprintf(stderr, "\ndray replay: stopped by signal %d\n", sig);
      for (uint32_t i = 0; i < o->engines; i++)
        if (pid[i] > 0)
          kill(pid[i], SIGKILL);
      good = false;
    }
    uint64_t done = 0;
    for (uint32_t i = 0; i < o->engines; i++) {
      int status;
      done += stat_read(&result[i].progress);
      if (pid[i] <= 0 || waitpid(pid[i], &status, WNOHANG) != pid[i])
        continue;
      pid[i] = 0;
      left--;
      if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_OK)
        continue;
      good = false;
      if (WIFSIGNALED(status))
        fprintf(stderr, "\ndray replay: engine %u ended by signal %d\n", i, WTERMSIG(status));
      else
        fprintf(stderr, "\ndray replay: engine %u: %s\n", i, result[i].error[0] ? result[i].error : "gave up");
    }
    if (!o->quiet) {
      int bar = (int)(40 * done / t->n);
      fprintf(stderr, "\r[%.*s%*s] %llu of %u requests ", bar, "########################################", 40 - bar, "",
              (unsigned long long)done, t->n);
    }
  }
  if (!o->quiet)
    fputs("\r\033[K", stderr);
  return good;
}

static bool run_engines(const struct replay_options *o, const struct trace *t, const char *socket,
                        struct engine_result *result)
{
  pid_t pid[REPLAY_ENGINES_MAX] = {0}, parent = getpid();
  sigset_t signals, before;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGHUP);
  sigaddset(&signals, SIGCHLD);
  sigaddset(&signals, SIGPIPE); /* who stopped reading must not leave a mover behind */
  sigprocmask(SIG_BLOCK, &signals, &before);
  fflush(NULL);
  struct replay_options mine = *o;
  for (uint32_t i = 0; i < o->engines; i++) {
    pid[i] = fork();
    if (pid[i] == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      sigprocmask(SIG_SETMASK, &before, NULL);
      _exit(getppid() == parent ? engine_run(o, t, i, socket, &result[i]) : EXIT_ERROR);
    }
    if (pid[i] < 0) {
      fprintf(stderr, "dray replay: cannot start engine %u: %s\n", i, strerror(errno));
      mine.engines = i;
      break;
    }
  }
  bool good = watch(&mine, t, pid, result, &signals) && mine.engines == o->engines;
  sigprocmask(SIG_SETMASK, &before, NULL);
  return good;
}

static void merge(struct engine_result *sum, const struct engine_result *r)
{
  if (!sum->wrong && r->wrong) {
    sum->wrong_tenant = r->wrong_tenant;
    sum->wrong_id = r->wrong_id;
  }
  sum->progress += r->progress;
  sum->wanted += r->wanted;
  sum->hits += r->hits;
  sum->put += r->put;
  sum->wrong += r->wrong;
  sum->verified_bytes += r->verified_bytes;
  sum->vanished += r->vanished;
  sum->got_bytes += r->got_bytes;
  sum->put_bytes += r->put_bytes;
  for (unsigned i = 0; i < DRAY_TIER_COUNT; i++) {
    sum->hits_by_tier[i] += r->hits_by_tier[i];
    sum->put_by_tier[i] += r->put_by_tier[i];
  }
  for (unsigned i = 0; i < DRAY_PATH_COUNT; i++) {
    sum->hits_by_path[i] += r->hits_by_path[i];
    sum->put_by_path[i] += r->put_by_path[i];
    sum->bytes_by_path[i] += r->bytes_by_path[i];
  }
  for (unsigned i = 0; i < REPLAY_TENANTS_MAX; i++) {
    sum->tenant_ns[i] += r->tenant_ns[i];
    sum->tenant_blocks[i] += r->tenant_blocks[i];
  }
  for (unsigned i = 0; i < DRAY_REASON_COUNT; i++)
    sum->reason[i] += r->reason[i];
  sum->late_ns = MAX_OF(sum->late_ns, r->late_ns);
  sum->begun_ns = sum->begun_ns && r->begun_ns ? MIN_OF(sum->begun_ns, r->begun_ns) : sum->begun_ns + r->begun_ns;
  sum->ended_ns = MAX_OF(sum->ended_ns, r->ended_ns);
  for (unsigned i = 0; i < REPLAY_KINDS; i++)
    hist_merge(&sum->latency[i], &r->latency[i]);
}

/* A mover's answer, or NULL without a word when its admin socket is not ours. */
static json_t *ask_quietly(const char *admin, const char *request)
{
  char *answer = NULL;
  if (dray_admin_call(admin, request, 10000, &answer) < 0)
    return NULL;
  json_t *o = json_loads(answer, 0, NULL);
  free(answer);
  return o;
}

static int replay(struct replay_options *o, const struct trace *t)
{
  struct replay_report rep = {.o = o, .t = t};
  struct stage st;
  if (trace_ideal(t, o->tenants, &rep.ideal) < 0)
    return EXIT_ERROR;
  o->batch = MIN_OF(o->batch, MAX_OF(rep.ideal.longest, 1u));
  size_t bytes = (REPLAY_ENGINES_MAX + 1) * sizeof(struct engine_result);
  struct engine_result *result = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (result == MAP_FAILED || (o->self && own_mover(o, &rep.ideal, &st) < 0))
    return EXIT_ERROR;
  const char *admin = o->self ? st.admin : o->cli.admin;
  rep.before = ask_quietly(admin, "{\"verb\":\"status\"}");
  rep.failed = !run_engines(o, t, o->self ? st.socket : o->cli.socket, result);
  rep.after = ask_quietly(admin, "{\"verb\":\"status\"}");
  rep.tiers = ask_quietly(admin, "{\"verb\":\"tiers\"}");
  rep.audit = ask_quietly(admin, "{\"verb\":\"audit\"}");
  if (o->self)
    stage_close(&st);
  for (uint32_t i = 0; i < o->engines; i++)
    merge(&result[REPLAY_ENGINES_MAX], &result[i]);
  rep.sum = &result[REPLAY_ENGINES_MAX];
  /* maps hold what they map: then only DRAM's bound matters */
  rep.lossless = o->self && (o->map ? !o->dram : !(o->dram && o->cxl && o->disk));
  int code = replay_report(&rep);
  json_decref(rep.before);
  json_decref(rep.after);
  json_decref(rep.tiers);
  json_decref(rep.audit);
  munmap(result, bytes);
  return code;
}

int cli_replay(int argc, char **argv)
{
  struct replay_options o;
  struct trace t;
  struct err e = {{0}};
  int code;
  if (!replay_options(argc, argv, &o, &code))
    return code;
  int r = o.trace ? trace_load(&t, o.trace, &e) : trace_synthesize(&t, o.requests, o.seed);
  if (r < 0) {
    fprintf(stderr, "dray replay: %s\n", e.text[0] ? e.text : strerror(-r));
    return EXIT_ERROR;
  }
  code = replay(&o, &t);
  trace_free(&t);
  return code;
}
