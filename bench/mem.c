/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's own limit: what DRAM gives to loads and stores, by threads, and what one load costs. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/memory.h"
#include "bench/stage.h"
#include "include/priv/bits.h"

int bench_mem(const struct bench_options *o, struct report *r)
{
  uint32_t most = o->threads ? o->threads : (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
  struct memory m = {.what = "mem", .bytes = o->size ? o->size : o->quick ? MIB(64) : MIB(512), .options = o};
  m.bytes &= ~(uint64_t)(MIB(2) - 1);
  if (m.bytes == 0) {
    fprintf(stderr, "bench mem: --size: need at least 2MiB\n");
    return 1;
  }
  m.base = mmap(NULL, m.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (m.base == MAP_FAILED) {
    fprintf(stderr, "bench mem: %llu bytes: %s: set --size lower\n", (unsigned long long)m.bytes, strerror(errno));
    return 1;
  }
  madvise(m.base, m.bytes, MADV_HUGEPAGE); /* else page walks are measured, too */
  stage_fill(m.base, m.bytes, 7);
  static const enum touch_rw kinds[] = {TOUCH_READ, TOUCH_WRITE, TOUCH_COPY};
  int bad = 0;
  for (uint32_t threads = 1; !bad && threads <= most;
       threads = threads < most && threads * 2 > most ? most : threads * 2)
    for (size_t k = 0; !bad && k < ARRAY_LEN(kinds); k++)
      if (!o->rw || o->rw == (int)kinds[k])
        bad = memory_rate(&m, r, kinds[k], threads);
  bad = bad || memory_latency(&m, r);
  munmap(m.base, m.bytes);
  return bad;
}
