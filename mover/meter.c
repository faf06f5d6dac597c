/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/meter.h"

#include <string.h>
#include <unistd.h>

#include "include/priv/bits.h"
#include "mover/daemon.h"
#include "mover/lane.h"
#include "mover/session.h"
#include "mover/usage.h"

/* Into the ring, or counted as dropped: a lane waits for nobody. */
static void push(struct lane *l, const struct session *s, struct job *j, const struct meter_note *n, uint64_t ns)
{
  struct meter_ring *r = l->meter_ring;
  uint32_t used = r->head - index_see(&r->tail); /* [USAGE] */
  if (UNLIKELY(used >= METER_RING)) {
    stat_add(&r->dropped, 1);
    return;
  }
  r->at[r->head & (METER_RING - 1)] = (struct meter_record){.n = *n,
                                                            .tenant = s->tenant,
                                                            .request = j->req.sqe.request,
                                                            .ns = ns,
                                                            .reason = n->refused ? j->out.reason : 0,
                                                            .first = !j->metered};
  j->metered = true;
  index_publish(&r->head, r->head + 1); /* [USAGE] */
  if (UNLIKELY(used == METER_RING / 2)) {
    uint64_t one = 1;
    ssize_t k = write(l->d->usage.wake, &one, sizeof one);
    (void)k;
  }
}

uint32_t meter_take(struct meter_ring *r, struct meter_record *ret, uint32_t n)
{
  uint32_t tail = r->tail, have = MIN_OF(index_see(&r->head) - tail, n); /* [USAGE] */
  for (uint32_t i = 0; i < have; i++)
    ret[i] = r->at[(tail + i) & (METER_RING - 1)];
  index_publish(&r->tail, tail + have); /* [USAGE] */
  return have;
}

/* The note is about one tier at a time. */
static void note_tier(struct lane *l, const struct session *s, struct job *j, unsigned tier)
{
  if (j->note.tier == tier || !tier)
    return;
  if (j->note.tier && l->meter_ring) {
    push(l, s, j, &j->note, 0);
    j->note = (struct meter_note){0};
  }
  j->note.tier = (uint8_t)tier;
}

static void note_bytes(struct lane *l, const struct session *s, struct job *j, unsigned tier, uint64_t bytes,
                       bool write)
{
  bool far = !meter_local(tier);
  note_tier(l, s, j, tier);
  *(write ? &j->note.written : &j->note.read) += bytes;
  j->meter_bytes[far] += bytes;
  stat_add(&l->meter[s->tenant].bytes[far], bytes);
}

void meter_lookup(struct lane *l, const struct session *s, struct job *j, unsigned tier, unsigned reason)
{
  struct meter_row *t = &l->meter[s->tenant];
  if (tier) {
    note_tier(l, s, j, tier);
    j->note.hits++;
    stat_add(&t->hits[!meter_local(tier)], 1);
  } else if (reason == DRAY_ABSENT) {
    j->note.absent++;
    stat_add(&t->absent, 1);
  } else if (reason == DRAY_EVICTED) {
    j->note.evicted++;
    stat_add(&t->evicted, 1);
  } else {
    j->note.other++;
    stat_add(&t->other, 1);
  }
}

void meter_item(struct lane *l, const struct session *s, struct job *j, const struct outcome *o)
{
  unsigned op = j->req.sqe.op;
  bool staged = op == DRAY_MAP && (o->flags & DRAY_STAGED_FIRST);
  bool writes = op == DRAY_PUT || op == DRAY_COMMIT || op == DRAY_MOVE || op == DRAY_PUBLISH || staged;
  if (j->items && o->status == DRAY_REFUSED) {
    j->note.refused++;
    stat_add(&l->meter[s->tenant].refused, 1);
  }
  if (o->bytes && o->tier && (writes || op == DRAY_GET)) {
    stat_add(&l->moved[o->tier], o->bytes);
    note_bytes(l, s, j, o->tier, o->bytes, writes);
  }
}

void meter_account(struct lane *l, const struct session *s, struct job *j, unsigned tier, uint64_t bytes)
{
  note_bytes(l, s, j, tier, MIN_OF(bytes, METER_ACCOUNT_MAX), false);
}

static unsigned share_of(uint64_t local, uint64_t remote)
{
  if (!remote)
    return 0;
  if (!local)
    return METER_SHARES - 1;
  double p = 100.0 * (double)remote / ((double)local + (double)remote);
  return p <= 25 ? 1 : p <= 50 ? 2 : p <= 75 ? 3 : 4;
}

void meter_close(struct lane *l, const struct session *s, struct job *j)
{
  struct meter_row *t = &l->meter[s->tenant];
  uint32_t request = j->req.sqe.request;
  uint64_t ns = l->now_ns - j->start_ns, sum, far;
  if (j->req.sqe.op == DRAY_NOP && !request)
    return;
  if (!j->items && j->out.status == DRAY_REFUSED) {
    j->note.refused++;
    stat_add(&t->refused, 1);
  }
  stat_add(&t->directives, 1);
  if (add_u64(j->meter_bytes[0], j->meter_bytes[1], &sum) && sum) {
    far = (uint64_t)((unsigned __int128)ns * j->meter_bytes[1] / sum);
    unsigned share = share_of(j->meter_bytes[0], j->meter_bytes[1]);
    stat_add(&t->ns[0], ns - far);
    stat_add(&t->ns[1], far);
    stat_add(&t->shares[share], 1);
    if (request)
      stat_set(&l->exemplar_share[share], meter_exemplar(request, ns));
  }
  if (request)
    stat_set(&l->exemplar[j->out.reason < DRAY_REASON_COUNT ? j->out.reason : 0], meter_exemplar(request, ns));
  if (l->meter_ring)
    push(l, s, j, &j->note, ns);
}

_Static_assert(sizeof(struct meter_row) % sizeof(uint64_t) == 0, "only 64-bit counters");

void meter_add(struct meter_row *dst, const struct meter_row *src)
{
  uint64_t *d = (uint64_t *)dst;
  const uint64_t *s = (const uint64_t *)src;
  for (size_t i = 0; i < sizeof *dst / sizeof *d; i++)
    d[i] += stat_read(&s[i]);
}
