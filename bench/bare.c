/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/bare.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dray/ring_abi.h>

#include "bench/stage.h"
#include "include/priv/bits.h"
#include "ring/layout.h"
#include "ring/region.h"
#include "ring/wire.h"

/* The real U and M, with the real distances between the words. */
struct bare {
  struct dray_geometry geo;
  struct dray_u_head *u;
  struct dray_m_head *m;
  struct wire_out sq, cq; /* cq: the echo's */
  struct wire_in cq_in, sq_in;
  char *copy; /* source, then destination: shared */
  pid_t pid;
};

static void echo(struct bare *b)
{
  struct dray_sqe in[32];
  int err = 0;
  for (;;) {
    int n = wire_in_take(&b->sq_in, in, 32);
    if (n <= 0) {
      spin_relax();
      continue;
    }
    wire_in_release(&b->sq_in, 0);
    for (int i = 0; i < n; i++) {
      void *slot;
      if (in[i].op == DRAY_PUT)
        memcpy(b->copy + BARE_COPY_MAX, b->copy, MIN_OF(in[i].len, (uint64_t)BARE_COPY_MAX));
      while (!(slot = wire_out_slot(&b->cq, &err)))
        wire_out_commit(&b->cq);
      memcpy(slot, &in[i], 64);
    }
    wire_out_commit(&b->cq);
  }
}

struct bare *bare_open(uint32_t entries, int cpu)
{
  struct bare *b = calloc(1, sizeof *b);
  if (!b || layout_compute(entries, 1, &b->geo) < 0)
    return NULL;
  int u = region_make("bare-u", b->geo.u_size, false), m = region_make("bare-m", b->geo.m_size, false);
  b->u = region_map(u, 0, b->geo.u_size, true, true);
  b->m = region_map(m, 0, b->geo.m_size, true, false);
  if (!b->u || !b->m || wire_map(&b->sq.w, u, b->geo.sq_off, b->geo.sq_slots, 1, 0) < 0 ||
      wire_map(&b->sq_in.w, u, b->geo.sq_off, b->geo.sq_slots, 0, 0) < 0 ||
      wire_map(&b->cq.w, m, b->geo.cq_off, b->geo.cq_slots, 1, 0) < 0 ||
      wire_map(&b->cq_in.w, m, b->geo.cq_off, b->geo.cq_slots, 0, 0) < 0)
    return NULL;
  close(u);
  close(m);
  b->copy =
      mmap(NULL, (size_t)2 * BARE_COPY_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (b->copy == MAP_FAILED)
    return NULL;
  b->sq.mine = &b->u->sq_prod;
  b->sq.theirs = &b->m->sq_cons;
  b->sq_in.theirs = &b->u->sq_prod;
  b->sq_in.mine = &b->m->sq_cons;
  b->cq.mine = &b->m->cq_prod;
  b->cq.theirs = &b->u->cq_cons;
  b->cq_in.theirs = &b->m->cq_prod;
  b->cq_in.mine = &b->u->cq_cons;
  b->pid = fork();
  if (b->pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    stage_pin(cpu);
    echo(b);
  }
  return b;
}

void bare_close(struct bare *b)
{
  kill(b->pid, SIGKILL);
  waitpid(b->pid, NULL, 0);
  munmap(b->copy, (size_t)2 * BARE_COPY_MAX);
  munmap(b->u, b->geo.u_size);
  munmap(b->m, b->geo.m_size);
  wire_unmap(&b->sq.w);
  wire_unmap(&b->sq_in.w);
  wire_unmap(&b->cq.w);
  wire_unmap(&b->cq_in.w);
  free(b);
}

static void trip(struct bare *b, unsigned op, uint32_t bytes)
{
  struct dray_cqe out[32];
  int err = 0;
  struct dray_sqe *s = wire_out_slot(&b->sq, &err);
  if (!s)
    abort(); /* one is under way in a ring of hundreds */
  memset(s, 0, sizeof *s);
  s->op = (uint8_t)op;
  s->len = bytes;
  wire_out_commit(&b->sq);
  while (wire_in_take(&b->cq_in, out, 32) <= 0)
    spin_relax();
  wire_in_release(&b->cq_in, 0);
}

void bare_trip(struct bare *b)
{
  trip(b, DRAY_NOP, 0);
}

char *bare_source(struct bare *b)
{
  return b->copy;
}

void bare_copy_trip(struct bare *b, uint32_t bytes)
{
  trip(b, DRAY_PUT, bytes);
}

bool bare_copied(const struct bare *b, uint32_t bytes)
{
  return memcmp(b->copy, b->copy + BARE_COPY_MAX, bytes) == 0;
}

void bare_stream(struct bare *b, uint64_t n, uint32_t window)
{
  struct dray_cqe out[64];
  uint64_t sent = 0, got = 0;
  int err = 0;
  while (got < n) {
    if (sent < n && sent - got + 32 <= window) {
      for (int i = 0; i < 32; i++) {
        struct dray_sqe *s = wire_out_slot(&b->sq, &err);
        if (!s)
          abort(); /* the window is smaller than the ring */
        memset(s, 0, sizeof *s);
        s->op = DRAY_NOP;
      }
      wire_out_commit(&b->sq);
      sent += 32;
    }
    int k = wire_in_take(&b->cq_in, out, 64);
    if (k > 0) {
      wire_in_release(&b->cq_in, 0);
      got += (uint64_t)k;
    } else {
      spin_relax();
    }
  }
}
