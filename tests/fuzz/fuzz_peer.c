/* SPDX-License-Identifier: Apache-2.0 */
/* What anybody may send to a peer's control connection, and what a peer may answer: pieces of the input, each a message
   with its length in front. The first byte says whether the hello has been said already, honestly. */
#include <stdlib.h>
#include <string.h>

#include <dray/types.h>

#include "transports/rdma/talk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void lend(void *ctx, struct talk *t, const struct wire_lend *q, struct wire_lent *a)
{
  (void)ctx, (void)t;
  if (!q->bytes || q->bytes > WIRE_CELL_MAX)
    abort();
  a->reason = DRAY_NO_ROOM;
}
static void segs(void *ctx, struct talk *t, const struct wire_segs *q, struct wire_segments *a)
{
  (void)ctx, (void)t, (void)q;
  a->reason = DRAY_BAD_LEASE;
}
static void wipe(void *ctx, struct talk *t, const struct wire_wipe *q, struct wire_done *a)
{
  (void)ctx, (void)t, (void)q;
  a->reason = DRAY_BAD_LEASE;
}
static void who_check(const struct wire_who *w)
{
  if (!*w->tenant || strnlen(w->tenant, WIRE_NAME_MAX) == WIRE_NAME_MAX ||
      strnlen(w->agent, WIRE_NAME_MAX) == WIRE_NAME_MAX)
    abort();
}
static void resolve(void *ctx, struct talk *t, const struct wire_resolve *q, struct wire_resolved *a)
{
  (void)ctx;
  if (t->state != TALK_IN)
    abort();
  who_check(&q->who);
  a->reason = DRAY_ABSENT;
}
static void reserve(void *ctx, struct talk *t, const struct wire_reserve *q, struct wire_reserved *a)
{
  (void)ctx, (void)t;
  who_check(&q->who);
  a->reason = DRAY_NO_ROOM;
}
static void stat_cell(void *ctx, struct talk *t, const struct wire_resolve *q, struct wire_facts *a)
{
  (void)ctx, (void)t;
  who_check(&q->who);
  a->reason = DRAY_ABSENT;
}
static void handle(void *ctx, struct talk *t, uint64_t h, struct wire_done *a)
{
  (void)ctx, (void)t, (void)h;
  a->reason = DRAY_BAD_LEASE;
}
static void commit(void *ctx, struct talk *t, const struct wire_commit *q, struct wire_done *a)
{
  (void)ctx, (void)t, (void)q;
  a->reason = DRAY_BAD_LEASE;
}
static const struct talk_ops ops = {lend, segs, wipe, resolve, reserve, stat_cell, handle, commit, handle};

static void hello(struct talk *t, const struct auth_key *key, struct hail *h)
{
  union wire_msg q, a;
  if (hail_begin(h, key, "fuzz", 1, true, 1, &q) || talk_feed(t, &q, q.h.bytes, &a) ||
      hail_challenged(h, &a, a.h.bytes, 2, &q) || talk_feed(t, &q, q.h.bytes, &a) || hail_welcomed(h, &a, a.h.bytes))
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
  struct talk_host host = {.ops = &ops, .name = "host", .epoch = 1, .lease_ms = 1000};
  const struct auth_key none = {.bytes = 0};
  struct talk t;
  struct hail h;
  union wire_msg a;
  struct wire_join j;
  if (n < 1)
    return 0;
  talk_open(&t, &host, true);
  if (data[0] & 1)
    hello(&t, &none, &h);
  for (size_t at = 1; at + 2 <= n;) {
    size_t len = (size_t)(data[at] | data[at + 1] << 8) % (WIRE_BYTES_MAX + 8);
    at += 2;
    len = len < n - at ? len : n - at;
    wire_check(data + at, len, false);
    wire_joined_check(data + at, len);
    talk_join(&t, data + at, len, &j);
    if (data[0] & 2) { /* most of the input would fail at the head */
      union wire_msg q;
      wire_begin(&q, len ? data[at] : 0, 1, 1);
      if (len > 1 && q.h.bytes > sizeof q.h)
        memcpy(q.room + sizeof q.h, data + at + 1, len - 1 < q.h.bytes - sizeof q.h ? len - 1 : q.h.bytes - sizeof q.h);
      wire_check(&q, q.h.bytes, false);
      if (talk_feed(&t, &q, q.h.bytes, &a) == 0 && wire_check(&a, a.h.bytes, false))
        abort(); /* our own answers pass our own check */
    } else if (talk_feed(&t, data + at, len, &a) == 0 && wire_check(&a, a.h.bytes, false)) {
      abort();
    }
    if (t.state == TALK_CLOSED && !t.why)
      abort();
    at += len;
  }
  return 0;
}
