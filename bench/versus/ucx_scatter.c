/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UCX over shared memory as the rival of `dray bench copy` (bench/rival.h): one process owns the destination, another
 * puts scattered cold 16 KiB blocks into it, block by block, then flushes; with one or two threads, each with a worker
 * of its own. UCX_TLS (default posix) says which transport.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

#include "bench/copy_bare.h"
#include "bench/stage.h"
#include "include/priv/bits.h"

#define THREADS_MAX 2u
#define PATIENCE_NS 20000000000ull

enum { SAY_QUIET = 1, SAY_CHECK = 2 };
struct order {
  uint32_t say, set;
};

struct side {
  ucp_context_h ctx;
  ucp_worker_h worker[THREADS_MAX];
  uint32_t threads;
};

static void die(const char *what, ucs_status_t s)
{
  printf("%s: %s\n", what, ucs_status_string(s));
  fflush(stdout);
  exit(1);
}
static void must(const char *what, ucs_status_t s)
{
  if (s != UCS_OK)
    die(what, s);
}

static void all(int fd, void *p, size_t n, bool out)
{
  for (size_t at = 0; at < n;) {
    ssize_t k = out ? write(fd, (char *)p + at, n - at) : read(fd, (char *)p + at, n - at);
    if (k <= 0)
      _exit(3); /* the other side is gone */
    at += (size_t)k;
  }
}

static void side_open(struct side *s)
{
  ucp_params_t p = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_RMA};
  ucp_worker_params_t w = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE, .thread_mode = UCS_THREAD_MODE_SINGLE};
  ucp_config_t *c;
  must("ucp_config_read", ucp_config_read(NULL, NULL, &c));
  must("ucp_init", ucp_init(&p, c, &s->ctx));
  ucp_config_release(c);
  for (uint32_t i = 0; i < s->threads; i++)
    must("ucp_worker_create", ucp_worker_create(s->ctx, &w, &s->worker[i]));
}

/* The owner of the destination: it tells where it is, helps until the connection stands, and checks bytes. */
static void target(int fd, uint32_t blocks)
{
  struct side s = {.threads = 1};
  struct bare_blocks b = {.n = blocks, .list = calloc(blocks, sizeof *b.list)};
  uint64_t bytes = (uint64_t)blocks * BARE_BLOCK, rkey_len64, addr_len64;
  side_open(&s);
  ucp_mem_map_params_t mp = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
                             .length = bytes,
                             .flags = UCP_MEM_MAP_ALLOCATE};
  ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
  ucp_mem_h mem;
  void *rkey;
  size_t rkey_len, addr_len;
  ucp_address_t *addr;
  must("ucp_mem_map", ucp_mem_map(s.ctx, &mp, &mem));
  must("ucp_mem_query", ucp_mem_query(mem, &attr));
  must("ucp_rkey_pack", ucp_rkey_pack(s.ctx, mem, &rkey, &rkey_len));
  must("ucp_worker_get_address", ucp_worker_get_address(s.worker[0], &addr, &addr_len));
  memset(attr.address, 0, bytes);
  rkey_len64 = rkey_len;
  addr_len64 = addr_len;
  all(fd, &attr.address, sizeof attr.address, true);
  all(fd, &rkey_len64, sizeof rkey_len64, true);
  all(fd, rkey, rkey_len, true);
  all(fd, &addr_len64, sizeof addr_len64, true);
  all(fd, addr, addr_len, true);
  bool quiet = false;
  for (;;) {
    struct pollfd p = {fd, POLLIN, 0};
    struct order o;
    while (ucp_worker_progress(s.worker[0]))
      ;
    if (poll(&p, 1, quiet ? -1 : 1) <= 0)
      continue;
    all(fd, &o, sizeof o, false);
    if (o.say == SAY_QUIET) {
      quiet = true;
      all(fd, &o, sizeof o, true);
      continue;
    }
    uint64_t wrong = 0;
    bare_choose(&b, o.set);
    for (uint32_t i = 0; i < blocks; i++)
      wrong +=
          !stage_check((char *)attr.address + (uint64_t)i * BARE_BLOCK, BARE_BLOCK, (uint64_t)b.list[i] * BARE_BLOCK);
    memset(attr.address, 0, bytes);
    all(fd, &wrong, sizeof wrong, true);
  }
}

/* One thread of the initiator and its half of the blocks. */
struct part {
  ucp_worker_h worker;
  ucp_ep_h ep;
  ucp_rkey_h rkey;
  const struct bare_blocks *b;
  uint64_t remote;
  uint32_t from, to;
  int cpu;
  pthread_barrier_t *begin, *end;
};

static void wait_for(ucp_worker_h w, void *request)
{
  uint64_t end = stage_now_ns() + PATIENCE_NS;
  if (request == NULL)
    return;
  if (UCS_PTR_IS_ERR(request))
    die("request", UCS_PTR_STATUS(request));
  ucs_status_t st;
  while ((st = ucp_request_check_status(request)) == UCS_INPROGRESS && stage_now_ns() < end)
    ucp_worker_progress(w);
  ucp_request_free(request);
  must("request", st);
}

static void put_all(const struct part *p)
{
  const ucp_request_param_t none = {.op_attr_mask = 0};
  for (uint32_t i = p->from; i < p->to; i++) {
    void *r = ucp_put_nbx(p->ep, p->b->src + (uint64_t)p->b->list[i] * BARE_BLOCK, BARE_BLOCK,
                          p->remote + (uint64_t)i * BARE_BLOCK, p->rkey, &none);
    if (UCS_PTR_IS_ERR(r))
      die("ucp_put_nbx", UCS_PTR_STATUS(r));
    if (r)
      ucp_request_free(r); /* the flush waits for it */
  }
  wait_for(p->worker, ucp_ep_flush_nbx(p->ep, &none));
}

static void *part_main(void *ctx)
{
  struct part *p = ctx;
  stage_pin(p->cpu);
  for (;;) {
    pthread_barrier_wait(p->begin);
    put_all(p);
    pthread_barrier_wait(p->end);
  }
  return NULL;
}

static uint64_t cpu_ns(clockid_t id)
{
  struct timespec t;
  clock_gettime(id, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint32_t env_u32(const char *name, uint32_t otherwise)
{
  const char *t = getenv(name);
  return t ? (uint32_t)strtoul(t, NULL, 10) : otherwise;
}

int main(void)
{
  int pair[2];
  uint32_t blocks = env_u32("BENCH_BLOCKS", 4096), threads = env_u32("BENCH_THREADS", 1);
  setenv("UCX_TLS", "posix", 0);
  if (threads < 1 || threads > THREADS_MAX || blocks == 0 || (blocks & (blocks - 1)) ||
      env_u32("BENCH_BLOCK_BYTES", BARE_BLOCK) != BARE_BLOCK || env_u32("BENCH_STRIDE", BARE_STRIDE) != BARE_STRIDE ||
      socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0) {
    printf("cannot do %u blocks with %u threads\n", blocks, threads);
    return 1;
  }
  pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    target(pair[1], blocks);
  }
  close(pair[1]);
  int fd = pair[0];
  struct side s = {.threads = threads};
  struct part part[THREADS_MAX];
  void *remote;
  uint64_t n;
  char rkey[4096], addr[4096];
  all(fd, &remote, sizeof remote, false);
  all(fd, &n, sizeof n, false);
  if (n > sizeof rkey)
    return 1;
  all(fd, rkey, n, false);
  all(fd, &n, sizeof n, false);
  if (n > sizeof addr)
    return 1;
  all(fd, addr, n, false);
  side_open(&s);
  struct bare_blocks b = {.n = blocks, .list = calloc(blocks, sizeof *b.list)};
  uint64_t bytes = (uint64_t)blocks * BARE_BLOCK * BARE_STRIDE;
  b.src = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (b.src == MAP_FAILED || !b.list)
    return 1;
  for (uint64_t at = 0; at < bytes; at += BARE_BLOCK)
    stage_fill(b.src + at, BARE_BLOCK, at);
  pthread_barrier_t begin, end;
  pthread_barrier_init(&begin, NULL, threads);
  pthread_barrier_init(&end, NULL, threads);
  for (uint32_t i = 0; i < threads; i++) {
    const ucp_ep_params_t ep = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
                                .address = (ucp_address_t *)(void *)addr};
    part[i] = (struct part){.worker = s.worker[i],
                            .b = &b,
                            .remote = (uintptr_t)remote,
                            .from = blocks / threads * i,
                            .to = blocks / threads * (i + 1),
                            .cpu = threads > 1 ? (int)i : -1,
                            .begin = &begin,
                            .end = &end};
    must("ucp_ep_create", ucp_ep_create(s.worker[i], &ep, &part[i].ep));
    must("ucp_ep_rkey_unpack", ucp_ep_rkey_unpack(part[i].ep, rkey, &part[i].rkey));
  }
  bare_choose(&b, 0);
  for (uint32_t i = 0; i < threads; i++)
    put_all(&part[i]); /* connects; the target helps */
  struct order o = {.say = SAY_QUIET};
  all(fd, &o, sizeof o, true);
  all(fd, &o, sizeof o, false);
  pthread_t other;
  if (threads > 1 && pthread_create(&other, NULL, part_main, &part[1]) != 0)
    return 1;
  stage_pin(part[0].cpu);
  clockid_t theirs;
  clock_getcpuclockid(pid, &theirs);
  printf("ready\n");
  fflush(stdout);
  char line[16];
  for (uint32_t turn = 1; fgets(line, sizeof line, stdin); turn++) {
    uint64_t wrong;
    bare_choose(&b, turn);
    uint64_t cpu = cpu_ns(CLOCK_PROCESS_CPUTIME_ID) + cpu_ns(theirs);
    if (threads > 1)
      pthread_barrier_wait(&begin);
    uint64_t t = stage_now_ns();
    put_all(&part[0]);
    if (threads > 1)
      pthread_barrier_wait(&end);
    double gbps = (double)blocks * BARE_BLOCK / (double)(stage_now_ns() - t);
    cpu = cpu_ns(CLOCK_PROCESS_CPUTIME_ID) + cpu_ns(theirs) - cpu;
    o = (struct order){.say = SAY_CHECK, .set = turn};
    all(fd, &o, sizeof o, true);
    all(fd, &wrong, sizeof wrong, false);
    printf("%.4f %" PRIu64 " %" PRIu64 "\n", gbps, cpu, wrong);
    fflush(stdout);
  }
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  return 0;
}
